"""Rehearse: what tallies of a plan would teach, by running them on public rows with made-up labels.

    public rows ─ made-up labels ─ drawn again as private rows ─ sums, the planned noise ─ decode ─ share that is right

Labels are made up by additive models of the public codes, of three strengths of signal. The rounds, their questions and
the decoder are the code that runs. How good the best possible student would be is known, since the labels are made up.

Assumes      plan, public rows and class shares are public
Guarantees   nothing private is read and nothing is charged: NumPy's generator is seeded, so results repeat
Not covered  labels that no additive model of the columns describes; private rows unlike the public ones. Pictures are
             rehearsed up to their first round of labels. Checked by tests/tasks/advice/test_rehearse.py
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.decomposition import PCA

from concord.artifacts.plan import Plan
from concord.tasks.advice.choose import PublicFacts
from concord.tasks.advice.tallies import planned_tallies, tallies_option
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, NumberField, deepens
from concord.tasks.mechanisms.contributions import tally
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student.decode import Decoded, scores
from concord.tasks.student.infer import RoundFile, RoundPlanner

SIGNALS = {"weak": 1.0, "typical": 3.0, "strong": 10.0}
"""Standard deviation of a row's logit, by strength of signal. A strong one follows the directions in which public rows
differ most, as labels do that are nearly certain; others follow weights at random."""
PRIVATE_ROWS = 20_000
"""Most made-up private rows. More of them are stood in for by as many with that much less noise."""
FADING, ROUGH = 1 / 4, 1 / 10
"""Neighbouring intervals of a number are alike: the share of its intervals over which likeness fades, and the part of
a weight's variance that is an interval's own."""
BEATS = 0.01
"""What a student must be right on beyond the largest class, as a share of rows, to have learned something."""


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """Shares of rows with the right label, for made-up labels of this strength of signal.

    right     by the student
    possible  by the best possible student
    largest   if every row is given the most common class
    """

    signal: str
    right: float
    possible: float
    largest: float

    @property
    def learned(self) -> bool:
        """Whether the student is clearly better than the largest class."""
        return self.right > self.largest + BEATS


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
    worth      as in Option
    rehearsed  what was learned from made-up labels, by strength of signal; `feasible` if something was from any
    """

    epsilon: float
    delta: float
    columns: int
    codes: int
    public_rows: int
    rho: float
    rounds: tuple[RoundAhead, ...]
    seen: float
    worth: float
    lost: float | None
    rehearsed: tuple[Rehearsed, ...]
    feasible: bool
    reason: str


def expect_tallies(plan: Plan, public: PublicFacts) -> TalliesAhead:
    """What to expect of a plan for tallies. Raises WrongInput if they do not fit the budget."""
    codes, rows = public.codes(plan), public.rows
    mechanism = planned_tallies(plan, codes, rows)
    rounds = tuple(
        RoundAhead(what=each.what, columns=each.fields, share=each.share, noise=each.scale / mechanism.steps)
        for each in mechanism.rounds
    )
    of_labels = next(each for each in rounds if each.what == "labels")
    seen = 4 * of_labels.noise  # a unit moves its code's sum by half a vote
    option = tallies_option(plan, codes, rows)
    rehearsed = rehearse(plan, mechanism, codes, codes.of(public.sample), public.shares)
    return TalliesAhead(
        epsilon=plan.privacy.epsilon,
        delta=plan.privacy.delta,
        columns=len(codes.coarse),
        codes=codes.size,
        public_rows=rows,
        rho=mechanism.rho,
        rounds=rounds,
        seen=seen,
        worth=option.worth,
        lost=option.lost,
        rehearsed=rehearsed,
        feasible=any(each.learned for each in rehearsed),
        reason=f"{in_words(rehearsed)}; a code stands out of the noise if about {seen:,.0f} units share it",
    )


def rehearse(
    plan: Plan, mechanism: Tallies, codes: Codes, rows: CodeMatrix, shares: Sequence[float] | None = None
) -> tuple[Rehearsed, ...]:
    """Rehearse tallies for each of SIGNALS.

    rows     codes (m, F) of public rows, thousands at most
    shares   of the classes; equal ones if they are not known
    """
    units = plan.labeling.rows
    assert units is not None  # a plan for tallies states its rows
    classes = len(plan.data.classes)
    known = np.full(classes, 1 / classes) if shares is None else np.asarray(shares, np.float64)
    found = []
    for signal, strength in SIGNALS.items():
        rng = np.random.default_rng(1)
        along = _principal if signal == "strong" else _at_random
        truth = _with_shares(strength * along(codes, rows, len(known), rng), known)
        right = truth[np.arange(len(rows)), _learned(mechanism, codes, rows, truth, units, rng)]
        found.append(
            Rehearsed(
                signal=signal,
                right=float(right.mean()),
                possible=float(truth.max(axis=1).mean()),
                largest=float(truth.mean(axis=0).max()),
            )
        )
    return tuple(found)


def _at_random(codes: Codes, rows: CodeMatrix, classes: int, rng: np.random.Generator) -> Floats:
    """Logits (m, C) of deviation 1: sums of random weights of a row's codes, a few fields weighing most."""
    columns = _columns(classes)
    total = np.zeros((len(rows), columns))
    for at, amount in zip(codes.fine, rng.exponential(size=len(codes.fine)), strict=True):
        part = _weights(codes.fields[at], columns, rng)[rows[:, at] - codes.fields[at].start]
        total += amount * (part - part.mean(axis=0))
    return _logits(total)


def _principal(codes: Codes, rows: CodeMatrix, classes: int, rng: np.random.Generator) -> Floats:
    """Logits (m, C) of deviation 1: the directions in which rows, as codes, differ most; and a tenth at random."""
    spans = [(at, codes.span(at)) for at in codes.fine]
    cells = np.hstack([rows[:, [at]] == np.arange(span.start, span.stop) for at, span in spans])
    columns = min(_columns(classes), cells.shape[1], len(rows))
    leading = PCA(columns, svd_solver="randomized", random_state=0).fit_transform(cells.astype(np.float32))
    total = _at_random(codes, rows, classes, rng)[:, -_columns(classes) :] / 10
    total[:, :columns] += leading / np.maximum(leading.std(axis=0), 1e-9)
    return _logits(total)


def _columns(classes: int) -> int:
    """Number of logits of a row: one class's, of two."""
    return 1 if classes == 2 else classes


def _logits(total: Floats) -> Floats:
    scaled = total / np.maximum(total.std(axis=0), 1e-9)
    return np.column_stack([np.zeros(len(scaled)), scaled]) if scaled.shape[1] == 1 else scaled


def _weights(field: CodedField, columns: int, rng: np.random.Generator) -> Floats:
    """Weights (codes, columns) of a field's codes: smooth ones of a number, independent ones of words and cells."""
    own = rng.normal(size=(field.size, columns))
    if not isinstance(field, NumberField):
        return own
    apart = np.abs(np.subtract.outer(np.arange(field.size), np.arange(field.size)))
    alike = (1 - ROUGH) * np.exp(-apart / (FADING * field.size)) + ROUGH * np.eye(field.size)
    smooth: Floats = np.linalg.cholesky(alike) @ own
    return smooth


def _with_shares(logits: Floats, shares: Floats) -> Floats:
    """Probabilities of these logits, shifted by class until their means are the shares, nearly."""
    shift = np.log(shares)
    for _ in range(50):
        shift += np.log(shares) - np.log(softmax(logits + shift, axis=1).mean(axis=0))
    found: Floats = softmax(logits + shift, axis=1)
    return found


def _learned(
    mechanism: Tallies, codes: Codes, rows: CodeMatrix, truth: Floats, units: int, rng: np.random.Generator
) -> Ints:
    """The classes (m,) that the student gives the rows, after tallies of so many private rows drawn from them."""
    drawn = min(units, PRIVATE_ROWS)
    private = rng.integers(0, len(rows), drawn)
    below = rng.random((drawn, 1)) > truth[private].cumsum(axis=1)
    labels: Ints = np.minimum(below.sum(axis=1), truth.shape[1] - 1)
    asked = [replace(each, scale=each.scale * drawn / units) for each in mechanism.rounds]
    if deepens(codes):
        asked = asked[: [each.what for each in asked].index("labels") + 1]
    planner = RoundPlanner(replace(mechanism, rounds=tuple(asked)), codes, rows, units=_known_units(mechanism, drawn))
    released: list[RoundFile] = []
    for each in asked:
        question = planner.question(released)
        noise = np.rint(rng.normal(scale=each.scale, size=question.size)).astype(np.int64)
        sums = tally(question, rows[private], labels) + noise
        follows = planner.follow(released, question, sums)
        released.append({"question": question.record(), "scale": each.scale, "sums": sums.tolist(), **follows})
    given: NDArray[np.int64] = scores(Decoded.from_record(released[-1]["decoded"]), rows).argmax(axis=1)
    return given


def _known_units(mechanism: Tallies, drawn: int) -> int | None:
    """The number of private rows, if only labels are secret."""
    return drawn if mechanism.secret == "labels" else None


def in_words(rehearsed: Sequence[Rehearsed]) -> str:
    """The range of results, beside the best possible ones and the largest class."""
    right, possible = (
        f"{min(values):.0%} to {max(values):.0%}"
        for values in ([each.right for each in rehearsed], [each.possible for each in rehearsed])
    )
    largest = max(each.largest for each in rehearsed)
    found = f"rehearsed on public rows with made-up labels, the student is right on {right} of them"
    beside = f"{found}, of {possible} that is possible and {largest:.0%} of the largest class"
    if any(each.learned for each in rehearsed):
        return beside
    return f"{beside}: it learns nothing, because ε is too small or the private units are too few"
