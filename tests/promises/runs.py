"""Every kind of release as a whole run over marked tables: what a promise about a home folder is tested on.

The kinds are those of tests/promises/kinds.py, asked through the flows; and again where labels alone are secret, and
after a relabelling. A run makes its private numbers, releases what follows from them, or replays it.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.promises.canary import marked_labels, relabelling
from tests.promises.kept import kept, sequences, set_aside
from tests.promises.kinds import VOTES
from tests.promises.marks import FEWEST, Marks
from tests.support.people import changed

Tables = dict[str, Any]


def as_it_is(tables: Tables) -> Tables:
    return tables


def whole(plan: world.Plan, home: Path) -> object:
    return world.start(plan, home)


def told(_: Path, marks: Marks) -> Marks:
    return marks


@dataclass(frozen=True)
class Run:
    """A kind of release as a run.

    draws    the name in the ledger of the mechanism that draws
    tables   of its plan, from those of a plan that asks for labels
    other    changes of the plan by which it would be another release
    ask      releases, or replays
    works    functions over private rows or numbers; each is given some of them
    made     beginnings of the names of sequences that the vault holds then
    more     marks besides those of the vault's files
    labels   whether labels alone are secret
    """

    name: str
    draws: str
    tables: Callable[[Tables], Tables] = as_it_is
    other: tuple[tuple[str, Any], ...] = (("privacy__epsilon", 1.0),)
    ask: Callable[[world.Plan, Path], object] = whole
    works: tuple[str, ...] = ("tests.world.units_teachers.add_votes",)
    made: tuple[str, ...] = ("votes of ", "rows by shard of shards/", "labels of shards/")
    more: Callable[[Path, Marks], Marks] = told
    labels: bool = False

    def plan(self, tables: Tables, **changes: Any) -> world.Plan:
        return changed(self.tables(tables), **changes)


def by(mechanism: str) -> Callable[[Tables], Tables]:
    """Labels by that mechanism."""
    cutoff = {"cutoff": 4} if VOTES[mechanism].cutoff is not None else {}

    def labelled(tables: Tables) -> Tables:
        return {**tables, "labeling": {"mechanism": mechanism, "batch": 128, **cutoff}, "student": {"refused": "soft"}}

    return labelled


def tallied(tables: Tables) -> Tables:
    return {**without(tables, "teachers", "student"), "labeling": {"mechanism": "tallies", "rows": 300, "batch": 128}}


SCHEMA = [
    {"name": "size", "type": "number", "constraints": {"minimum": -10, "maximum": 60000}},
    {"name": "shade", "type": "string", "constraints": {"enum": ["dark", "light"]}},
    {"name": "visits", "type": "integer", "constraints": {"minimum": 0, "maximum": 9}},
]


def sketched(tables: Tables) -> Tables:
    """Without public rows. Numbers of synthetic rows are below those that are searched for, as `far_off` sees to."""
    data = {"schema": {"fields": SCHEMA}, "features": [field["name"] for field in SCHEMA]}
    return {**tallied(tables), "data": {**without(tables["data"], "public"), **data}}


def arriving(tables: Tables) -> Tables:
    """A season whose next release is due next year: asked again, it is replayed."""
    return {**tallied(tables), "stream": {"season": 3, "clock": "0 0 1 1 *"}}


def refreshed(plan: world.Plan, home: Path) -> object:
    return world.refresh(plan, home)


def without(tables: Tables, *sections: str) -> Tables:
    return {name: section for name, section in tables.items() if name not in sections}


def universal(hypotheses: str, *features: str) -> Callable[[Tables], Tables]:
    student = {"learner": "universal", "hypotheses": hypotheses, "features": list(features)}
    return lambda tables: {**without(tables, "teachers", "labeling"), "student": student}


def trying(tables: Tables) -> Tables:
    """Nearly half of the units take no part in learning. Every public row is answered: from fewer labels, a student
    could by chance learn too little to be right about FEWEST units."""
    labeling = {"mechanism": "noisy_votes", "queries": 300, "batch": 128}
    return {**tables, "test": {"share": 0.45}, "labeling": labeling}


def gossiping(tables: Tables) -> Tables:
    """The student tells of the rows it is asked about."""
    return {**trying(tables), "student": {"estimator": "tests.promises.tellers.Gossip"}}


def of_labels(tables: Tables) -> Tables:
    """Labels alone are secret; a fifth of the units become public rows: fewer than the counts that are searched for,
    since public rows are numbered."""
    data = {"public_share": 0.2, "features": ["size", "shade", "visits"]}
    return {
        **tables,
        "data": {**without(tables["data"], "public"), **data},
        "privacy": {**tables["privacy"], "secret": "labels"},
        "labeling": {"mechanism": "noisy_votes", "queries": 5000},
    }


def leaking(rows: pl.DataFrame) -> Any:
    """A question whose answers, output and errors are rows."""
    print(rows.to_dicts())
    if rows.height % 2:
        raise ValueError(str(rows.to_dicts()))
    return tuple(str(cell) for cell in rows.row(0)) if rows.height else None


def question(form: str, cutoff: int | None) -> Callable[[world.Plan, Path], object]:
    def ask(plan: world.Plan, home: Path) -> object:
        terms = world.QuestionTerms(plan.privacy.epsilon / 8, form, cutoff, False)
        return world.ask_shards(plan, world.Question("leaking", leaking), home, terms)

    return ask


def surely(tables: Tables) -> Tables:
    """Half of the shards have no answer: released with probability 4e-9."""
    return {**tables, "privacy": {**tables["privacy"], "delta": 1e-12}}


def estimate(plan: world.Plan, home: Path) -> object:
    return world.estimate(plan, home=home, epsilon=plan.privacy.epsilon / 8, share=0.3, beta=0.05, again=False)


def far_off(patch: pytest.MonkeyPatch) -> list[int]:
    """Keep what is published from being an exact count by chance: a test's counts, an estimate's sum and sums of
    tallies were, each with odds of some 4e-4, and numbers of synthetic rows are. Returns the exact sums of estimates,
    once they pass the door."""
    totals: list[int] = []
    tried, estimated, tallied = world.PrivateTest.release, world.ErrorEstimate.release, world.Tallies.release

    def off(self: world.PrivateTest, matrix: world.Ints, source: world.RandomSource) -> world.Ints:
        return tried(self, matrix, source) + 12_345

    def with_noise_of_five_digits(
        self: world.Tallies, number: int, sums: world.Ints, source: world.RandomSource
    ) -> world.Ints:
        drawn = type(source).gaussian
        with pytest.MonkeyPatch.context() as wide:
            wide.setattr(type(source), "gaussian", lambda own, scale, size: drawn(own, scale, size) + 20_000)
            return tallied(self, number, sums, source)

    def far(self: world.ErrorEstimate, total: int, source: world.RandomSource) -> int:
        totals.append(total)
        return estimated(self, total, source) % FEWEST + 12_345

    patch.setattr(world.PrivateTest, "release", off)
    patch.setattr(world.student_synthetic, "ROWS", FEWEST // 2)
    patch.setattr(world.Tallies, "release", with_noise_of_five_digits)
    patch.setattr(world.ErrorEstimate, "release", far)
    return totals


def parts_of_sums(home: Path, marks: Marks) -> Marks:
    """With the sums over all blocks."""
    vault, questions = world.Vault(home / "vault"), dict[str, list[Any]]()
    for path in kept(home, "sums"):
        file = vault.find(path)
        assert file is not None
        made, content = world.read_made(file, vault)
        questions.setdefault(made.question, []).append(np.load(io.BytesIO(content)))
    for question, sums in questions.items():
        marks = marks.with_sequence(f"the sums of {question}", sum(sums[1:], sums[0]))
    return marks


def first_error_count(home: Path, marks: Marks) -> Marks:
    """With the errors of the candidate that predicts the first class for all rows."""
    for what, errors in sequences(home):
        if what.startswith("errors of counts/"):
            assert len(errors) > 100
            assert errors[0] > FEWEST
            marks = marks.with_total(f"first of {what}", int(errors[0]))
    return marks


def counted(home: Path, marks: Marks) -> Marks:
    """With the number of tested units and the number that the student was right about."""
    for what, counts in set_aside(home):
        if what.endswith("confusion"):
            right = int(counts[0] + counts[3])
            assert right >= FEWEST
            marks = marks.with_total(f"all {what}", int(counts.sum())).with_total(f"right {what}", right)
    return marks


def labels_of_table(_: Path, marks: Marks) -> Marks:
    """With the number of rows of the second class."""
    return marks.with_total("labels of the table", marked_labels()["outcome"].to_list().count("yes"))


SHARDS = ("rows by shard of shards/", "labels of shards/")
ASIDE, PREDICTS = "tests.world.units_counts.one_row_a_unit", "tests.world.units_counts.classes_given"
RELABELS = tuple(f"tests.world.units_relabel.{name}" for name in ("choose_hypothesis", "resampled", "read_shards"))
ASKED: dict[str, Any] = {"tables": surely, "works": ("tests.world.units_teachers.rows_by_shard",), "made": SHARDS}
RUNS = (
    *(Run(name, name, by(name)) for name in VOTES),
    Run(
        "tallies",
        "tallies",
        tallied,
        works=("tests.world.units_blocks.cast_labels", "tests.world.units_sums.tally"),
        made=("sums of sums/", "labels of units/"),
        more=parts_of_sums,
    ),
    Run(
        "sketch",
        "sketch",
        sketched,
        works=("tests.world.units_blocks.cast_labels", "tests.world.units_sums.recoded"),
        made=("sums of sums/", "labels of units/"),
        more=parts_of_sums,
    ),
    Run(
        "stream",
        "stream",
        arriving,
        ask=refreshed,
        works=("tests.world.units_blocks.cast_labels", "tests.world.units_arrivals.hashed"),
        made=("sums of sums/",),
        more=parts_of_sums,
    ),
    Run("question", "optimal_release", ask=question("optimal", None), **ASKED),
    Run("question by noise", "laplace_release", ask=question("laplace", None), **ASKED),
    Run("questions", "stable", ask=question("optimal", 3), **ASKED),
    Run(
        "hypothesis",
        "universal",
        universal("rectangles", "size", "shade=dark"),
        works=("tests.world.units_counts.encode",),
        made=("errors of counts/",),
        more=first_error_count,
    ),
    Run(
        "estimate",
        "error_estimate",
        ask=estimate,
        works=("tests.world.units_teachers.encode",),
        made=("errors of measured/",),
    ),
    Run("test", "private_test", gossiping, works=(ASIDE, PREDICTS), more=counted),
    Run("relabelled", "noisy_votes", relabelling, (("relabel__share", 0.4),), works=RELABELS),
    Run("labels", "noisy_votes", of_labels, more=labels_of_table, labels=True),
    Run(
        "tallies of labels",
        "tallies",
        lambda tables: tallied(of_labels(tables)),
        works=("tests.world.units_sums.tally",),
        made=("sums of sums/", "labels of units/"),
        more=parts_of_sums,
        labels=True,
    ),
    Run(
        "hypothesis of labels",
        "universal",
        lambda tables: universal("stumps", "size")(of_labels(tables)),
        works=("tests.world.units_counts.encode",),
        made=("errors of counts/",),
        labels=True,
    ),
)
READERS = tuple({(run.works, run.labels): run for run in reversed(RUNS)}.values())
"""One run for each way of reading private rows: mechanisms that answer from the same votes, say, read alike."""
STAGES_OF_OTHERS = ("tallies of labels", "hypothesis of labels")
"""Readers whose stages are those of "labels" and of "tallies" or "hypothesis", which are asked by day: where a test is
long, these are asked with --exhaustive alone."""
