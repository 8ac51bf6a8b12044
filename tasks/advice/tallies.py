"""Planned tallies: the rounds and the noise of a plan, and what to expect of them.

The plan is what runs: the flow calls `planned_tallies` too, with the same codes.

Not covered  interactions of columns, which additive codes do not express. Checked by
             tests/tasks/advice/test_recommend.py and tests/flows/cli/test_plan_command.py
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding
from concord.artifacts.sections import TALLIES
from concord.tasks.advice.compare import Option
from concord.tasks.advice.worth import (
    BINS,
    enough,
    learning_units,
    lost,
    rounds_of,
    rounds_of_spaces,
    worth_of_tallies,
)
from concord.tasks.data.codes import Codes, coarse_bins, deepens, learn_codes
from concord.tasks.data.views import VectorField
from concord.tasks.mechanisms.tallies import Tallies, planned_rounds


def check_columns(plan: Plan, encoding: Encoding) -> None:
    """Raise WrongInput if rows cannot be turned into codes, or if the student cannot read codes."""
    for column in encoding.columns:
        if column.kind == "list" and any(student.learner == "linear" for student in plan.student.each):
            raise WrongInput(
                f"student.estimator must be given, since {column.name!r} holds lists: the model that tallies are "
                "decoded to knows them by cells alone, and a student that is fitted to inferred labels reads them whole"
            )
    if all(column.kind == "null" for column in encoding.columns):
        raise WrongInput("labeling.mechanism = 'tallies' needs a feature of data.public that holds a value")
    crossed = {column.name for column in encoding.columns if column.kind not in ("list", "null")}
    for name in (name for pair in plan.labeling.crosses or () for name in pair if name not in crossed):
        raise WrongInput(f"labeling.crosses must be of features that hold numbers or words, got {name!r}")


def planned_codes(plan: Plan, encoding: Encoding, frames: Iterable[pl.DataFrame]) -> Codes:
    """The codes of a plan, from the cast rows of its public table."""
    return learn_codes(frames, encoding.columns, coarse=bins_of(plan), crosses=plan.labeling.crosses or ())


def bins_of(plan: Plan) -> int:
    """Bins of a number in the first round."""
    return plan.labeling.bins or coarse_bins(plan.privacy.epsilon)


def planned_tallies(plan: Plan, codes: Codes, rows: int) -> Tallies:
    """The tallies of a plan, with these codes and `rows` public rows. Raises WrongInput."""
    labeling, classes, fields, secret = plan.labeling, len(plan.data.classes), len(codes.coarse), plan.privacy.secret

    def made(rounds: int, *, spaces: bool = False) -> Tallies:
        repair = True if labeling.repair is None else labeling.repair
        asked = planned_rounds(
            classes=classes,
            fields=fields,
            codes=codes.size,
            rounds=rounds,
            repair=repair,
            secret=secret,
            spaces=spaces,
        )
        return Tallies.calibrate(
            epsilon=plan.privacy.epsilon,
            delta=plan.privacy.delta,
            classes=classes,
            rounds=asked,
            secret=secret,
            many=plan.data.unit is not None,
        )

    once = made(1)
    if secret == "labels":
        return once
    if deepens(codes):
        rounds = labeling.rounds or rounds_of_spaces(once, codes.size, labeling.rows or 1)
        return once if rounds == 1 else made(rounds, spaces=True)
    if all(isinstance(field, VectorField) for field in codes.fields):
        return made(labeling.rounds or 1)  # one round measures all cells: a model of cells adds nothing
    rounds = labeling.rounds or rounds_of(fields, once.rho, rows, labeling.rows or 1)
    return once if rounds == 1 else made(rounds)


def as_begun(plan: Plan, settings: Mapping[str, Any]) -> Plan:
    """The plan of a session of tallies with those settings. Rounds left to advice are replaced by the session's, since
    another version may advise otherwise."""
    asked = [each["what"] for each in settings["rounds"]]
    begun = {"rounds": asked.count("labels"), "repair": "codes" in asked}
    left = {key: value for key, value in begun.items() if getattr(plan.labeling, key) is None}
    return plan.model_copy(update={"labeling": plan.labeling.model_copy(update=left)})


@dataclass(frozen=True, kw_only=True)
class RoundAhead:
    """A planned round: `noise` is the standard deviation in each released sum, in units."""

    what: str
    columns: int
    share: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class TalliesAhead:
    """Cost and expected worth of tallies, by public figures alone.

    codes      number of codes of all `columns` columns of the public rows
    rho        the domain's charge, in zero-concentrated DP
    seen       units that must share a code for its sum to exceed the noise by twice its standard deviation
    worth      as in Option; None if the plan does not state the number of units
    """

    epsilon: float
    delta: float
    columns: int
    codes: int
    public_rows: int
    rho: float
    rounds: tuple[RoundAhead, ...]
    seen: float
    worth: float | None
    lost: float | None
    feasible: bool
    reason: str


def expect_tallies(plan: Plan, codes: Codes, rows: int) -> TalliesAhead:
    """What to expect of a plan for tallies, with these codes and `rows` public rows."""
    mechanism = planned_tallies(plan, codes, rows)
    rounds = tuple(
        RoundAhead(what=each.what, columns=each.fields, share=each.share, noise=each.scale / mechanism.steps)
        for each in mechanism.rounds
    )
    of_labels = next(each for each in rounds if each.what == "labels")
    seen = 4 * of_labels.noise  # a unit moves its code's sum by half a vote
    known = plan.labeling.rows is not None
    option = tallies_option(plan, codes, rows)
    return TalliesAhead(
        epsilon=plan.privacy.epsilon,
        delta=plan.privacy.delta,
        columns=len(codes.coarse),
        codes=codes.size,
        public_rows=rows,
        rho=mechanism.rho,
        rounds=rounds,
        seen=seen,
        worth=option.worth if known else None,
        lost=option.lost if known else None,
        feasible=option.feasible or not known,
        reason=f"a code stands out of the noise if about {seen:,.0f} units share it; {option.reason}",
    )


def tallies_option(plan: Plan, codes: Codes, rows: int) -> Option:
    """The option of tallies, to compare with voting mechanisms; not feasible if the number of units is not stated, or
    if they do not fit the budget."""
    units = learning_units(plan)
    if units is None:
        return _impossible("labeling.rows does not say how many private units there are, roughly")
    try:
        mechanism = planned_tallies(plan, codes, rows)
    except WrongInput as wrong:
        return _impossible(str(wrong))
    asked_of, classes = [codes.fields[field] for field in codes.coarse], len(plan.data.classes)
    sizes = [field.size if isinstance(field, VectorField) else min(field.size, BINS) for field in asked_of]
    worth, least = worth_of_tallies(mechanism, sizes, units=units, public=rows), enough(classes, len(sizes))
    asked = f"noisy sums of {len(sizes)} columns over {units:,.0f} units"
    few = f"as good as {worth:,.0f} labels, and a student needs about {least:,}: too much noise for {asked}"
    return Option(
        name=TALLIES,
        feasible=worth >= least,
        expected_answered=rows,
        expected_right=rows,
        worth=worth,
        lost=lost(worth, classes, len(sizes)),
        needs="the number of private units, roughly",
        reason=f"{asked} label all public rows: as good as {worth:,.0f} labels" if worth >= least else few,
    )


def _impossible(reason: str) -> Option:
    return Option(name=TALLIES, feasible=False, reason=reason)
