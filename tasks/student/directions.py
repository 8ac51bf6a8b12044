"""Directions: the few linear combinations of each column's codes along which a wide table is decoded.

The time of decoding grows with the third power of the number of weights, and a table of a hundred columns has two
thousand. Noise hides most of them anyway, since it grows with the number of queried columns. So for a wide table only
weights W = A·u along some directions A are decoded, from the sums along the same directions.

The directions E of a field, orthonormal combinations of its queried codes, are those along which its sums move most
under the prior: with the shares π of the codes on public rows and the prior's correlations C = L·Lᵀ, the left singular
vectors of (diag(π) − π·πᵀ)·L. They leave out the sum of all codes, which is the same for every field except for noise:
one direction of all fields together stands for it. Sums along orthonormal directions have independent noise of the same
deviation.

Assumes      released sums, public rows, and public questions: post-processing
Guarantees   a field that was queried in two views keeps all codes, as do joined numbers, whose cells are few already,
             and every field of a narrow table
Checked by tests/tasks/student/test_directions.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse import block_diag as sparse_diag
from scipy.sparse import csr_array, vstack

from concord.tasks.data.codes import CodedField, Codes, coarser
from concord.tasks.data.joined import JoinedField
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.distance import Floats
from concord.tasks.student.joint import MeasuredColumn
from concord.tasks.student.prior import correlations
from concord.tasks.student.public_rows import SAMPLE, CrossedRows, ReducedRows

WIDE = 1024
"""Most weights of a table that is decoded in all of them."""
MOST = 512
"""Most directions of a wide table, unless it has more columns."""
COLUMNS = 1024
"""Most columns with directions: those whose sums differ most from noise, each with at least one unless constant."""
WORK = 1 << 35
"""Most of m·r² for m public rows along r directions of a wide table: it is decoded on as many of its rows."""
FLAT = 1e-9
"""Least strength of a direction that counts; weaker ones are those of a constant column."""


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions of each field that a model has weights for, in order.

    kept    E_f (queried codes, r_f), orthonormal; None if the field keeps all codes
    lifted  A_f (codes, r_f), the same by the codes of the weights; None as well
    """

    crossed: CrossedRows
    codes: Codes
    kept: tuple[Floats | None, ...]
    lifted: tuple[Floats | None, ...]

    @classmethod
    def of(
        cls, questions: Sequence[RoundQuestion], sums: Mapping[int, Floats], crossed: CrossedRows, codes: Codes
    ) -> Self:
        """All codes of a narrow table; of a wide one the leading directions of each field.

        questions  of all rounds
        sums       released sums (codes, columns) by field, each of the first round of labels that asked about it
        """
        nothing = (None,) * len(codes.weighed)
        if crossed.size <= WIDE:
            return cls(crossed, codes, nothing, nothing)
        fields, lifts = list[_Field | None](), list[Floats]()
        shares = np.split(crossed.totals(np.ones(len(crossed.counts)))[:-1], crossed.starts[1:-2])
        for at, pair, counts in zip(codes.weighed, _views(codes), shares, strict=True):
            views = sorted({view for question in questions for view in question.fields if view in pair})
            lifts.append(np.eye(codes.fields[views[0]].size)[coarser(codes.fields[at], codes.fields[views[0]])])
            one_view = len(views) == 1 and not isinstance(codes.fields[at], JoinedField)
            fields.append(_Field.of(codes.fields[at], lifts[-1], counts, sums[views[0]]) if one_view else None)
        kept = _leading(fields)
        lifted = (None if part is None else np.asarray(lift @ part) for lift, part in zip(lifts, kept, strict=True))
        return cls(crossed, codes, kept, tuple(lifted))

    @property
    def narrow(self) -> bool:
        """Whether all fields keep all codes."""
        return all(part is None for part in self.kept)

    @property
    def rows(self) -> CrossedRows | ReducedRows:
        """The public rows along the directions."""
        return self.crossed if self.narrow else ReducedRows(self.crossed, self._all(self.lifted))

    @cached_property
    def onto(self) -> tuple[Floats | None, ...]:
        """A_f⁺ (r_f, codes) of each field, which gives u of W; None as for `kept`."""
        return tuple(None if part is None else np.asarray(np.linalg.pinv(part), np.float64) for part in self.lifted)

    def measured(self, question: RoundQuestion, column: MeasuredColumn) -> MeasuredColumn:
        """What a round measured along the directions."""
        if self.narrow:
            return column
        kept = {at: part for pair, part in zip(_views(self.codes), self.kept, strict=True) for at in pair}
        sizes = {at: self.codes.fields[at].size for at in question.fields}
        parts = [np.eye(size) if (part := kept[at]) is None else part for at, size in sizes.items()]
        single = csr_array(sparse_diag(parts, format="csr").T)
        seen = single @ column.view @ self._all([None if part is None else part.T for part in self.onto])
        reduced = np.array([[kept[at] is not None for at in sizes for _ in range(sizes[at])]])
        if not reduced.any():
            return replace(column, view=csr_array(seen), sums=single @ column.sums)
        even, fields = 1 / np.sqrt(reduced.sum()), sum(kept[at] is not None for at in sizes)
        all_codes = np.eye(1, seen.shape[1], seen.shape[1] - 1) * fields * even
        by = vstack([single, csr_array(reduced * even)], format="csr")
        return replace(column, view=vstack([seen, csr_array(all_codes)], format="csr"), sums=by @ column.sums)

    def weights(self, along: Floats) -> Floats:
        """W (d,) of u (r,): A·u, by which a row has the logit that it had when u was decoded."""
        return np.asarray(self._all(self.lifted) @ along, np.float64)

    def along(self, weights: Floats) -> Floats:
        """u (r,) of W (d,)."""
        return np.asarray(self._all(self.onto) @ weights, np.float64)

    def _all(self, parts: Sequence[Floats | None]) -> csr_array:
        """The parts of all fields and the intercept along the diagonal; the identity in place of None."""
        sizes = [self.codes.fields[at].size for at in self.codes.weighed]
        squares = [np.eye(size) if part is None else part for size, part in zip(sizes, parts, strict=True)]
        return csr_array(sparse_diag([*squares, np.eye(1)], format="csr"))


@dataclass(frozen=True, eq=False)
class _Field:
    """Directions (queried codes, n) of a field, the strongest first.

    signal   distance of its sums, along the first direction, from those of codes that are independent of the label
    """

    directions: Floats
    strengths: Floats
    signal: float

    @classmethod
    def of(cls, field: CodedField, lift: Floats, counts: Floats, sums: Floats) -> Self:
        """From the number of public rows with each code of the weights. `lift` (codes, queried codes) is 1 where a code
        of the weights belongs to a queried one."""
        shares, mean = counts @ lift / counts.sum(), lift / lift.sum(axis=0)
        prior = np.linalg.cholesky(mean.T @ correlations(field) @ mean)
        directions, strengths, _ = np.linalg.svd((np.diag(shares) - np.outer(shares, shares)) @ prior)
        along = directions[:, 0] @ (sums - np.outer(shares, sums.sum(axis=0)))
        return cls(directions, strengths, float(np.linalg.norm(along)))


def _leading(fields: Sequence[_Field | None]) -> tuple[Floats | None, ...]:
    """The directions that are kept: MOST of all fields, but the first of each of COLUMNS."""
    reduced = [field for field in fields if field is not None]
    least_signal = min(sorted((field.signal for field in reduced), reverse=True)[:COLUMNS], default=0.0)
    strengths = np.sort(np.concatenate([[np.inf], *(field.strengths for field in reduced)]))[-MOST:]

    def kept(field: _Field) -> Floats:
        strong = (field.strengths >= strengths[0]) | (np.arange(len(field.strengths)) == 0)
        return field.directions[:, strong & (field.strengths > FLAT) & (field.signal >= least_signal)]

    return tuple(None if field is None else kept(field) for field in fields)


def most_rows(codes: Codes) -> int:
    """Most public rows that a model by these codes is decoded on."""
    if sum(codes.fields[at].size for at in codes.weighed) < WIDE:
        return SAMPLE
    cells = 0 if codes.joined is None else codes.fields[codes.joined].size
    return min(SAMPLE, WORK // (max(MOST, min(COLUMNS, len(codes.weighed))) + cells) ** 2)


def _views(codes: Codes) -> list[tuple[int, ...]]:
    """The fields that ask about the same column, for each field that a model has weights for."""
    pairs = dict(zip(codes.fine, codes.coarse, strict=True))
    return [tuple({at, pairs.get(at, at)}) for at in codes.weighed]
