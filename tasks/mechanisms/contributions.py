"""The contribution of a private unit to a round of tallies: whole numbers, computed from its codes and label alone.

A row is `codes` (fields,), one code number a field; ranges of fields are disjoint, so a field's cells are its own. A
question asks some fields. A row adds its residual, its label as whole numbers less what a public model expects, to its
cell of each of them. Sums are int64, so blocks add up to the same bits in any order, on any machine.

Assumes      the question (fields, spans, model) is public or released; a code lies within its field's span
Guarantees   a unit's contribution depends on that unit alone, to the bit; its squared norm is at most `row_square`
             for each field asked, and its constant's square; a sum with the unit, less the sum without, is it
Ends         not applicable: nothing is drawn here
Not covered  rows of one unit that are passed in different blocks: each block then treats its part as a unit

Residuals. S steps are a vote, 256 steps of a logit a nat; `least` is the least a model may expect of a class, in steps.
Two classes: one column, z = S·y − q with q = S·p within [least, S − least], so |z| ≤ S − least.
A number within bounds: the same column, y being its place between them. S·y, a whole number from 0 to S, is the share
of a vote that goes to the upper bound; the two classes are its ends, so z has the same bound.
More: q_c = least + ⌊R·p_c⌋ with R = S − C·least, so 0 ≤ q_c − least, together at most R. Σ z² is convex in those, so it
is largest at a corner: all of R with one wrong class, (S − least)² + (least + R)² + (C − 2)·least².
Neither clips the residual: the decoder knows q, so there is no bias. Probabilities are ratios of whole numbers
T[d] = ⌊2^31·e^(−d/256)⌋, whose digest is asserted because `exp` differs between machines.
Mean of a unit's rows: one sum a cell over all its rows, divided once, truncated towards zero: no cell is further from
zero than the mean's, whose norm is at most the largest row's. Rounding down instead would pass that bound. ∎
Checked by tests/privacy/test_contributions.py.
"""

import hashlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from concord.tasks.mechanisms.distance import Ints

CodeRows = NDArray[np.int32]
What = Literal["labels", "codes"]
Span = tuple[int, int]
"""First code of a field, and one past its last."""

STEPS_A_NAT = 256
FARTHEST_LOGIT = 8192
"""Steps of logits beyond which a probability falls no more: e^−32 is below 2^−31."""
TABLE_DIGEST = "ac0e74e271c9a1bb1f8fb8ded24587416fc5ca0530ddc9422305fa421441545d"
MOST_STEPS = 2**20
"""Most steps of a vote."""
LARGEST_WEIGHT = 2**40
"""Largest weight of a model: sums of a million weights fit into 64 bits."""
ROWS_OF_A_CHUNK = 1 << 16
"""Rows computed at a time: a chunk's columns stay in the processor's cache."""


@lru_cache(maxsize=1)
def odds_table() -> Ints:
    """T[d] = ⌊2^31·e^(−d/256)⌋ for d = 0 … 8192, by decimal arithmetic; checked against TABLE_DIGEST."""
    with localcontext(prec=60):
        step, power, powers = (Decimal(-1) / STEPS_A_NAT).exp(), Decimal(2**31), []
        for _ in range(FARTHEST_LOGIT + 1):
            powers.append(int(power))
            power *= step
    table = np.array(powers, "<i8")
    if hashlib.sha256(table.tobytes()).hexdigest() != TABLE_DIGEST:
        raise ArithmeticError("the table of e^(-d/256) came out otherwise than when it was checked")
    return table.astype(np.int64)


@dataclass(frozen=True, eq=False)
class IntegerModel:
    """The public model of expected labels, subtracted before summing: `weights` (codes, columns) by code number and
    `intercept` (columns,), in 256 steps a nat. Decoded from released sums, rounded once, and published."""

    weights: Ints
    intercept: Ints

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or self.intercept.shape != self.weights.shape[1:]:
            raise ValueError("a model needs weights (codes, columns) and an intercept (columns,)")
        for part in (self.weights, self.intercept):
            if part.dtype != np.int64 or not np.all((part >= -LARGEST_WEIGHT) & (part <= LARGEST_WEIGHT)):
                raise ValueError("weights must be int64, none beyond 2^40 steps")

    def record(self) -> dict[str, Any]:
        """As JSON; `from_record` restores it to the bit."""
        octets = np.vstack([self.intercept, self.weights]).astype("<i8").tobytes()
        return {"columns": len(self.intercept), "weights": b64encode(octets).decode()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "IntegerModel":
        """The model that was recorded. Raises ValueError if the record is not one."""
        numbers = np.frombuffer(b64decode(record["weights"], validate=True), "<i8").astype(np.int64)
        intercept, *weights = numbers.reshape(-1, record["columns"])
        return cls(np.array(weights, np.int64).reshape(-1, record["columns"]), intercept)

    @property
    def digest(self) -> str:
        """SHA-256 of its numbers, as hexadecimal digits."""
        return hashlib.sha256(str(sorted(self.record().items())).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundQuestion:
    """The question of one round, asked of every row: public, chosen from the plan and from released things alone.

    classes  number of classes; 0 if the label is a number, in steps from its lower bound
    fields   which columns of the codes are asked, each with its span of code numbers in `spans`
    model    the model of expected labels; None expects the same of every class
    count    what a unit adds to the constant's cell by being present; 0 if there is no such cell
    """

    classes: int
    steps: int
    what: What
    least: int
    count: int
    fields: tuple[int, ...]
    spans: tuple[Span, ...]
    model: IntegerModel | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        ordered = sorted(self.spans)
        if len(set(self.fields)) != len(self.spans) or len(self.fields) != len(self.spans) or not self.fields:
            raise ValueError("a question needs distinct fields, each with its span")
        if any(start >= stop for start, stop in ordered) or any(first[1] > two[0] for first, two in pairwise(ordered)):
            raise ValueError("spans of code numbers must not be empty, and must not share a code")
        if self.model is not None and (
            self.what != "labels"
            or self.model.weights.shape[1] != self.columns
            or len(self.model.weights) < ordered[-1][1]
        ):
            raise ValueError("the model must have a weight for every code and column asked")
        check_grid(self.classes, self.steps, self.least, self.count)

    @property
    def columns(self) -> int:
        """Numbers a cell holds."""
        return columns(self.classes, self.what)

    @property
    def width(self) -> int:
        """Number of cells of all fields asked."""
        return sum(stop - start for start, stop in self.spans)

    @property
    def size(self) -> int:
        """Numbers released: cells by columns, row by row in order of `fields`, and last the constant's if counted."""
        return self.width * self.columns + (self.count > 0)

    def record(self) -> dict[str, Any]:
        """As JSON; `from_record` restores it to the bit."""
        fields = ("classes", "steps", "what", "least", "count", "fields", "spans")
        values = {name: getattr(self, name) for name in fields}
        return values | {"model": None if self.model is None else self.model.record()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "RoundQuestion":
        """The question that was recorded. Raises ValueError if the record is not one."""
        model = None if record["model"] is None else IntegerModel.from_record(record["model"])
        spans = tuple((int(start), int(stop)) for start, stop in record["spans"])
        return cls(**{**record, "fields": tuple(record["fields"]), "spans": spans, "model": model})


def columns(classes: int, what: What) -> int:
    """Numbers a cell holds: one for two classes, for a number or if only codes are counted, otherwise one per class."""
    return 1 if classes <= 2 or what == "codes" else classes


def check_grid(classes: int, steps: int, least: int, count: int) -> None:
    """Raises ValueError unless residuals on this grid have the norm that `row_square` gives."""
    ends = classes or 2
    if ends < 2 or not 2 <= steps <= MOST_STEPS or not 0 <= least * ends <= steps or not 0 <= count <= 2**40:
        raise ValueError("a question needs 2 classes or none, 2 to 2^20 steps, and classes · least at most steps")


def row_square(classes: int, steps: int, what: What, least: int) -> int:
    """The largest squared norm of a row's residual, a whole number: see Residuals above."""
    if what == "codes":
        return steps**2
    if classes <= 2:
        return (steps - least) ** 2
    rest = steps - classes * least
    return (steps - least) ** 2 + (least + rest) ** 2 + (classes - 2) * least**2


def expected(question: RoundQuestion, codes: CodeRows) -> Ints:
    """q, the expectation of the question's model in steps, (rows, columns), for codes (rows, fields). The rows may be
    public ones."""
    return _expected(question, codes).T


def residuals(question: RoundQuestion, codes: CodeRows, labels: Ints) -> Ints:
    """z, (rows, columns), of codes (rows, fields) and labels (rows,). A label that is not a class counts as none, and a
    number beyond its bounds as the nearer one."""
    return _residuals(question, codes, labels).T


def _residuals(question: RoundQuestion, codes: CodeRows, labels: Ints) -> Ints:
    """Residuals by column (columns, rows), so that each column is contiguous."""
    if question.what == "codes":
        return np.full((1, len(codes)), question.steps, np.int64)
    if question.classes:
        first = 1 if question.classes == 2 else 0
        classes = np.arange(first, first + question.columns)[:, None]
        residuals: Ints = np.multiply(labels == classes, np.int64(question.steps))
    else:
        residuals = labels.astype(np.int64).clip(0, question.steps)[None]
    residuals -= _expected(question, codes)
    return residuals


def _expected(question: RoundQuestion, codes: CodeRows) -> Ints:
    """q by column (columns, rows); its logits add up from every field, including those that are not asked."""
    shape, least, steps = (question.columns, len(codes)), question.least, question.steps
    if question.what == "codes":
        return np.zeros(shape, np.int64)
    rest = steps - question.classes * least
    if question.model is None:
        same = steps // 2 if question.classes <= 2 else least + rest // question.classes
        return np.broadcast_to(np.int64(same), shape)
    logits = np.repeat(question.model.intercept[:, None], len(codes), axis=1)
    for at, weights in enumerate(np.ascontiguousarray(question.model.weights.T)):
        for column in codes.T:
            logits[at] += weights[column]
    if question.classes <= 2:
        below = _below(steps)[np.minimum(np.abs(logits), FARTHEST_LOGIT)]
        return np.where(logits > 0, steps - below, below).clip(least, steps - least)
    odds = odds_table()[np.minimum(logits.max(axis=0) - logits, FARTHEST_LOGIT)]
    return np.asarray(least + rest * odds // odds.sum(axis=0))


@lru_cache(maxsize=8)
def _below(steps: int) -> Ints:
    """⌊S·σ(−d/256)⌋ for d = 0 … 8192."""
    odds = odds_table()
    return np.asarray(steps * odds // (odds[0] + odds))


def row_sums(question: RoundQuestion, codes: CodeRows, labels: Ints) -> Ints:
    """Σ of the rows' contributions, (size,) int64, each row a unit of its own. Sums of blocks add up."""
    total = np.zeros(question.size, np.int64)
    cells = total[: question.width * question.columns].reshape(-1, question.columns)
    for start in range(0, len(codes), ROWS_OF_A_CHUNK):
        rows = codes[start : start + ROWS_OF_A_CHUNK]
        # whole numbers, and Σ|z| < 2^53: exact in any order
        weights = _residuals(question, rows, labels[start : start + ROWS_OF_A_CHUNK]).astype(np.float64)
        top = 0
        for number, (low, high) in zip(question.fields, question.spans, strict=True):
            codes_of_field = rows[:, number]
            for column, weight in enumerate(weights):
                sums_of_codes = np.bincount(codes_of_field, weight, high)
                if len(sums_of_codes) > high or codes_of_field.min() < low:
                    raise ValueError("a code lies outside of its field's span")
                cells[top : top + high - low, column] += sums_of_codes[low:].astype(np.int64)
            top += high - low
    if question.count:
        total[-1] += question.count * len(codes)
    return total


def within(question: RoundQuestion, codes: CodeRows) -> CodeRows:
    """The codes (rows, fields), each within what the question knows: its field's span, or the weights of its model.
    Codes of an encoder without a fault are returned as they are."""
    last = np.iinfo(np.int32).max if question.model is None else len(question.model.weights) - 1
    spans = dict(zip(question.fields, question.spans, strict=True))
    for number in range(codes.shape[1]):
        low, high = spans.get(number, (0, last + 1))
        column = codes[:, number]
        if len(column) and (column.min() < low or column.max() >= high):
            codes = codes.copy(order="F")
            codes[:, number] = column.clip(low, high - 1)
    return codes


def unit_mean(sums: Ints, rows: int | Ints) -> Ints:
    """A unit's contribution from the sums of its `rows` rows: truncated towards zero."""
    return np.asarray(np.sign(sums) * (np.abs(sums) // rows))


def tally(question: RoundQuestion, codes: CodeRows, labels: Ints, units: Ints | None = None) -> Ints:
    """Σ of the units' contributions, (size,) int64. Sums of blocks add up if all rows of a unit are in one block.

    codes    (rows, fields) int32
    labels   (rows,) class numbers, or steps of a number; ignored if only codes are counted
    units    (rows,) the unit of each row, any numbers; None if each row is a unit
    """
    codes = within(question, codes)
    if not len(codes) == len(labels) == len(codes if units is None else units):
        raise ValueError("each row needs its codes, its label and its unit")
    if units is None:
        return row_sums(question, codes, labels)
    _, unit, rows = np.unique(units, return_inverse=True, return_counts=True)
    alone = rows[unit] == 1
    total = row_sums(question, codes[alone], labels[alone])
    if alone.all():
        return total
    cells, several, unit = total[: question.width * question.columns], codes[~alone], unit[~alone]
    cells = cells.reshape(-1, question.columns)
    residuals, top = _residuals(question, several, labels[~alone]), 0
    for number, (start, stop) in zip(question.fields, question.spans, strict=True):
        codes_of_field = several[:, number].astype(np.int64) - start
        if codes_of_field.min() < 0 or codes_of_field.max() >= stop - start:
            raise ValueError("a code lies outside of its field's span")
        place = unit * (stop - start) + codes_of_field
        order = np.argsort(place, kind="stable")  # rows come by units, almost in order
        ordered = place[order]
        firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        means = unit_mean(np.add.reduceat(residuals[:, order], firsts, axis=1), rows[ordered[firsts] // (stop - start)])
        cell = top + ordered[firsts] % (stop - start)
        for column, mean in enumerate(means):
            np.add.at(cells[:, column], cell, mean)
        top += stop - start
    if question.count:
        total[-1] += question.count * len(np.unique(unit))
    return total
