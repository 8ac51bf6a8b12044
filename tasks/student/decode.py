"""Decode: estimate a model from released tallies, for two classes or more, and choose the next round's question.

With more than two classes each is decoded by itself, as that class against the rest, from its own column of the sums.
The softmax of these logits gives the probabilities. If noise has shrunk a model, the probabilities of each class
against the rest, scaled to add up to 1, are underconfident: by 20 points on penbased at ε = 1, where the softmax is
underconfident by 6.

Assumes      sums are released, rows are public, and questions are the released ones: post-processing, in floats
Guarantees   nothing here reads a private row; the model of a next round is rounded to whole steps once, published, and
             never decoded again, because floating-point sums depend on threads and machines
Checked by tests/tasks/student/test_decode.py.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit
from threadpoolctl import threadpool_limits

from concord.artifacts.threads import Threads
from concord.tasks.data.codes import CodeMatrix, Codes, coarser
from concord.tasks.mechanisms.contributions import LARGEST_WEIGHT, STEPS_A_NAT, IntegerModel, RoundQuestion, expected
from concord.tasks.mechanisms.distance import Floats
from concord.tasks.mechanisms.progress import report
from concord.tasks.student.concord_tallied import added, over_prior, probabilities
from concord.tasks.student.crossed import CrossedRows, sampled
from concord.tasks.student.directions import Directions, most_rows
from concord.tasks.student.joint import DecodedColumn, MeasuredColumn, MeasuredRounds, Search, decode_column
from concord.tasks.student.prior import Totals, prior_of, repaired, straighter, unlike


@dataclass(frozen=True, eq=False)
class NoisyRound:
    """A round's question, the sd of the noise in its sums (in steps), and the sums it released, laid out by `tally`."""

    question: RoundQuestion
    scale: float
    sums: NDArray[np.int64]

    @property
    def cells(self) -> Floats:
        """Sums in votes (cells, columns), without the count of units."""
        asked = self.question
        return self.sums[: asked.width * asked.columns].reshape(-1, asked.columns) / asked.steps

    @property
    def noise(self) -> float:
        """Standard deviation of the noise in a cell, in votes."""
        return self.scale / self.question.steps


@dataclass(frozen=True, eq=False)
class Decoded:
    """A model by codes. K columns: 1 for two classes (the logit of the second), otherwise one for each class.

    weights     (D, K), zero at the coarse views of numbers
    intercept   (K,)
    units       estimated number of private units
    prior       (K,) mean predicted probability on public rows, after repair
    importance  (F,) sd of the field's part of the logit on public rows, the largest of the columns'
    spread      (fine fields + 1, K) prior sd of the field's weights, and the intercept's
    kappa       (K,) κ, the factor on the variance from the sampling of public rows
    moved       share of public cells that the repair changed
    """

    weights: Floats
    intercept: Floats
    units: float
    prior: Floats
    importance: Floats
    spread: Floats
    kappa: Floats
    moved: float

    def record(self) -> dict[str, Any]:
        """As JSON; `from_record` restores it to the bit."""
        return {name: np.asarray(value).tolist() for name, value in asdict(self).items()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """The model that was recorded."""
        values: dict[str, Any] = {
            name: np.array(value) if isinstance(value, list) else value for name, value in record.items()
        }
        return cls(**values)


def decode(
    heard: Sequence[NoisyRound],
    rows: CodeMatrix,
    codes: Codes,
    *,
    units: float | None = None,
    search: Search = Search(),  # noqa: B008
    begun: Decoded | None = None,
) -> Decoded:
    """Decode all rounds together.

    heard   rounds in order; totals of codes, if there are any, are of the coarse fields
    rows    codes (m, F) of public rows, a sample of which is used; with or without those of pairs
    units   number of private units, if it is public; otherwise it is estimated from released counts
    begun   the model decoded from all rounds but the last: fewer steps are left then
    """
    counted, counted_noise = (units, 0.0) if units is not None else estimated_units(heard)
    if all(each.question.what == "codes" for each in heard):
        raise ValueError("decoding needs a round that asked for labels")
    rows, totals = sampled(rows, codes, most_rows(codes)), _totals(heard, codes, counted, counted_noise)
    if totals is not None:
        repairs = [repaired(rows, codes, totals, together=together) for together in (True, False)]
        if repairs[0][1]:
            labels = [each for each in heard if each.question.what == "labels"]
            tried = [_decode_on(labels, *each, codes, counted, search, begun) for each in [*repairs, (rows, 0.0)]]
            best = max(tried, key=lambda each: each[1])[0]
            if best.moved:  # its rows match the totals: using those again would count them twice
                return best
    return _decode_on(heard, rows, 0.0, codes, counted, search, begun)[0]


def _decode_on(
    heard: Sequence[NoisyRound],
    rows: CodeMatrix,
    moved: float,
    codes: Codes,
    units: float,
    search: Search,
    begun: Decoded | None,
) -> tuple[Decoded, float]:
    """The model decoded on these public rows, of which that share was moved, and its evidence."""
    crossed, rows = CrossedRows.of(codes.paired(rows), codes)
    first = next(each for each in heard if each.question.what == "labels")
    along = Directions.of([each.question for each in heard], _by_field(first), crossed, codes)
    fields = [codes.fields[at] for at in codes.weighed]
    prior, others = prior_of(fields, onto=along.onto), straighter(fields, along.onto)
    guesses = [guess_of(each.question, rows) for each in heard]
    columns = max(each.question.columns for each in heard)

    def decoded(column: int) -> DecodedColumn:
        asked = [
            along.measured(each.question, measured(each, guess, codes, column))
            for each, guess in zip(heard, guesses, strict=True)
        ]
        before = None
        if begun is not None:  # its evidence is not known any more
            weights = [begun.weights[along.codes.span(field), column] for field in along.codes.weighed]
            there = along.along(np.append(np.concatenate(weights), begun.intercept[column]))
            before = DecodedColumn(there, replace(prior, spread=begun.spread[:, column]), begun.kappa[column], 0.0)
        one = decode_column(MeasuredRounds(asked, along.rows, units), prior, others, search, before)
        return replace(one, weights=along.weights(one.weights))

    found = list[DecodedColumn]()
    workers = os.cpu_count() or 1
    with threadpool_limits(1, user_api="blas"), Threads(workers) as pool:  # more would wait for one another
        for column, each in enumerate(pool.each(decoded, range(columns))):
            report(column, columns)
            found.append(each)
    return _decoded(found, crossed, codes, units, moved), sum(column.evidence for column in found)


def estimated_units(heard: Sequence[NoisyRound]) -> tuple[float, float]:
    """The number of private units estimated from all released counts, at least 1, and its standard deviation."""
    counts: list[tuple[float, float]] = []
    for each in heard:
        if each.question.count:
            one = each.question.count
            counts.append((each.sums[-1] / one, each.scale / one))
        if each.question.what == "codes":  # every field's totals add up to all units
            counts.extend(
                (float(cells.sum()), each.noise * math.sqrt(len(cells))) for cells in _by_field(each).values()
            )
    if not counts:
        raise ValueError("the number of units must be given if no round counted them")
    precision = sum(noise**-2 for _, noise in counts)
    return max(1.0, sum(count * noise**-2 for count, noise in counts) / precision), precision**-0.5


def next_fields(decoded: Decoded, codes: Codes, most: int, unlike: Sequence[int] = ()) -> tuple[int, ...]:
    """The fields that the next round asks, ascending: the fine ones of largest importance, ties to the first.

    unlike   coarse fields that the repair filled with rows of other codes: they are asked in their coarse view, since
             totals count private units by coarse code only
    """
    views = {fine: coarse if coarse in unlike else fine for coarse, fine in zip(codes.coarse, codes.fine, strict=True)}
    ranked = sorted(codes.fine, key=lambda field: -decoded.importance[field])
    return tuple(sorted(views[field] for field in ranked[:most]))


def unlike_fields(heard: Sequence[NoisyRound], rows: CodeMatrix, codes: Codes, units: float | None) -> tuple[int, ...]:
    """The coarse fields whose codes clearly differ in frequency between public and private rows, by their totals."""
    totals = _totals(heard, codes, *((units, 0.0) if units is not None else estimated_units(heard)))
    return () if totals is None else unlike(rows, codes, totals)


def next_model(decoded: Decoded, size: int = 0) -> IntegerModel:
    """The decoded model in whole steps; further codes, up to `size` in all, weigh nothing."""
    weights, intercept = (
        np.clip(np.rint(STEPS_A_NAT * part), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int64)
        for part in (decoded.weights, decoded.intercept)
    )
    return IntegerModel(np.pad(weights, ((0, max(0, size - len(weights))), (0, 0))), intercept)


def logits(decoded: Decoded, rows: CodeMatrix) -> Floats:
    """Logits (m, K), summed field by field."""
    return added(decoded.weights, decoded.intercept, rows)


def scores(decoded: Decoded, rows: CodeMatrix) -> Floats:
    """Probabilities of the classes (m, C), which add up to 1."""
    return probabilities(logits(decoded, rows))


def odds_scores(decoded: Decoded, rows: CodeMatrix) -> Floats:
    """Logits minus prior log-odds, (m, C)."""
    return over_prior(logits(decoded, rows), decoded.prior)


def _totals(heard: Sequence[NoisyRound], codes: Codes, units: float, units_noise: float) -> Totals | None:
    """The number of private units with each coarse code; None if no round asked for it."""
    counted = [each for each in heard if each.question.what == "codes"]
    if not counted:
        return None
    if counted[0].question.fields != codes.coarse:
        raise ValueError("totals must be of the coarse fields, in order")
    by_field = tuple(cells[:, 0] for cells in _by_field(counted[0]).values())
    return Totals(by_field, counted[0].noise, units, units_noise)


def _by_field(heard: NoisyRound) -> dict[int, Floats]:
    """The released sums (codes, columns) of each field."""
    sizes = [stop - start for start, stop in heard.question.spans]
    return dict(zip(heard.question.fields, np.split(heard.cells, np.cumsum(sizes)[:-1]), strict=True))


def guess_of(asked: RoundQuestion, rows: CodeMatrix) -> Floats | None:
    """q, the probability that a round subtracted: (rows, columns), or (columns,) if it is the same for all rows."""
    if asked.what == "codes":
        return None
    found: Floats = expected(asked, rows if asked.model is not None else rows[:1]) / asked.steps
    return found if asked.model is not None else found[0]


def measured(heard: NoisyRound, guess: Floats | None, codes: Codes, column: int) -> MeasuredColumn:
    """A round's sums for one column of weights."""
    if guess is None:
        return MeasuredColumn(_view(heard.question, codes), None, heard.cells[:, 0], heard.noise)
    return MeasuredColumn(_view(heard.question, codes), guess[..., column], heard.cells[:, column], heard.noise)


def _view(asked: RoundQuestion, codes: Codes) -> csr_array:
    """The fine codes (cells, weights) that add to each cell of a round; the last weight, the intercept's, to none."""
    sizes = [codes.fields[at].size for at in codes.weighed]
    starts = dict(zip(codes.weighed, np.cumsum([0, *sizes]).tolist(), strict=False))
    fine = dict(zip(codes.coarse, codes.fine, strict=True)) | {at: at for at in codes.weighed}
    cells, weights, top = list[NDArray[np.int64]](), list[NDArray[np.int64]](), 0
    for at in asked.fields:
        within = coarser(codes.fields[fine[at]], codes.fields[at])
        cells.append(top + within)
        weights.append(starts[fine[at]] + np.arange(len(within)))
        top += codes.fields[at].size
    where = np.concatenate(cells), np.concatenate(weights)
    return csr_array((np.ones(len(where[0])), where), shape=(top, sum(sizes) + 1))


def _decoded(found: Sequence[DecodedColumn], rows: CrossedRows, codes: Codes, units: float, moved: float) -> Decoded:
    columns = np.column_stack([column.weights for column in found])
    weights = np.zeros((codes.size, len(found)))
    importance = np.zeros(codes.width)
    shares = rows.totals(np.ones(len(rows.counts))) / rows.counts.sum()
    for at, field in enumerate(codes.weighed):
        own = slice(rows.starts[at], rows.starts[at + 1])
        weights[codes.span(field)] = columns[own]
        mean = shares[own] @ columns[own]
        importance[field] = np.sqrt(shares[own] @ (columns[own] - mean) ** 2).max()
    p = expit(np.column_stack([rows.logits(column) for column in columns.T]))
    return Decoded(
        weights=weights,
        intercept=columns[-1],
        units=units,
        prior=rows.counts @ p / rows.counts.sum(),
        importance=importance,
        spread=np.column_stack([column.prior.spread for column in found]),
        kappa=np.array([column.kappa for column in found]),
        moved=moved,
    )
