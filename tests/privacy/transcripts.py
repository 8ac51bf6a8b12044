"""Exact laws of what a noisy threshold answers on neighbours: noise is enumerated, nothing is sampled.

`Run` is the specification the mechanisms are held against, and by its fields every planted bug. Two adversaries attack
it: `adaptive`, the best of all askers of a few rows, and `patient`, who asks one long stream fixed in advance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tests.world import REFUSED, Ints, NoisyThreshold

Floats = NDArray[np.float64]
NEGLIGIBLE = 1e-15
"""Noise beyond the support that is enumerated has less than this probability."""


def votes_at(distances: Sequence[int]) -> Ints:
    """Rows of votes, won by class 0, of these distances to instability."""
    return np.array([[2 * distance + 1, 0] for distance in distances], dtype=np.int64)


@dataclass(frozen=True)
class Step:
    """A query on two neighbours: its distance here and there, and whether its labels differ."""

    here: int
    there: int
    split: bool = False


def steps(distances: Sequence[int], jump: int = 1) -> list[Step]:
    """Every query an adversary may ask at these distances: moving up or down by `jump`, and labels that differ at 0."""
    moves = [(low, low + jump) for low in distances]
    return [Step(0, 0, split=True), *(Step(a, b) for low, high in moves for a, b in ((low, high), (high, low)))]


@dataclass(frozen=True, kw_only=True)
class Run:
    """Answer while distance + Y > threshold + X (≥ where not `strict`); X is drawn anew after each refusal, or else
    after each row, or never."""

    threshold: int
    threshold_scale: float
    query_scale: float
    cutoff: int
    strict: bool = True
    redrawn: Literal["refusal", "row", "never"] = "refusal"

    @classmethod
    def of(cls, mechanism: NoisyThreshold, **changes: Any) -> Self:
        """What a mechanism should do; or, with changes, what one with a planted bug does."""
        given = {name: getattr(mechanism, name) for name in ("threshold", "threshold_scale", "query_scale", "cutoff")}
        return cls(**{**given, **changes})

    def answer(self, distances: Sequence[int], queries: Sequence[int], thresholds: Sequence[int]) -> list[int]:
        """The rows one after another, as the papers write them: 0 for a label, REFUSED, and nothing after the halt."""
        answers: list[int] = []
        refused = 0
        for row, (distance, query) in enumerate(zip(distances, queries, strict=True)):
            bar = self.threshold + thresholds[{"refusal": refused, "row": row, "never": 0}[self.redrawn]]
            answered = distance + query > bar if self.strict else distance + query >= bar
            answers.append(0 if answered else REFUSED)
            refused += not answered
            if refused == self.cutoff:
                break
        return answers

    @cached_property
    def support(self) -> NDArray[np.int64]:
        """Threshold noise that is enumerated."""
        width = int(np.ceil(-np.log(NEGLIGIBLE) * self.threshold_scale)) + 1
        return np.arange(-width, width + 1)

    @cached_property
    def fresh(self) -> Floats:
        """The law of threshold noise on `support`; it sums to 1."""
        mass = np.exp(-np.abs(self.support) / self.threshold_scale)
        return np.asarray(mass / mass.sum())

    def after(self, mass: Floats, *, refused: bool) -> Floats:
        """Mass over threshold noise for the next row, given that after this row's answer."""
        redrawn = self.redrawn == "row" or (self.redrawn == "refusal" and refused)
        return np.asarray(self.fresh * mass.sum()) if redrawn else mass

    def answered(self, distance: int) -> Floats:
        """Probability of an answer at each threshold noise, (support,): the exact tail of the query noise."""
        least = self.threshold + self.support - distance + self.strict
        if self.query_scale == 0:
            return np.asarray(least <= 0, dtype=np.float64)
        ratio = np.exp(-1 / self.query_scale)
        tail = ratio ** np.abs(np.where(least > 0, least, 1 - least)) / (1 + ratio)
        return np.asarray(np.where(least > 0, tail, 1 - tail))


def adaptive(run: Run, queries: Sequence[Step], rows: int, epsilon: float) -> float:
    """δ at `epsilon` that the best adaptive adversary reaches in `rows` queries: the hockey-stick divergence.

    An adversary sees each answer before it chooses the next query. Masses over threshold noise are carried for both
    neighbours, and the better query is taken at every point of the tree.
    """
    probability = {distance: run.answered(distance) for step in queries for distance in (step.here, step.there)}

    def best(here: Floats, there: Floats, left: int, rows: int) -> float:
        if rows == 0 or left == 0 or there.sum() == 0:
            return max(0.0, float(here.sum() - there.sum()))
        return max(gain(step, here, there, left, rows - 1) for step in queries)

    def gain(step: Step, here: Floats, there: Floats, left: int, rows: int) -> float:
        label, other = here * probability[step.here], there * probability[step.there]
        # A label that only this side can give decides the game.
        if step.split:
            answered = float(label.sum())
        else:
            answered = best(run.after(label, refused=False), run.after(other, refused=False), left, rows)
        refused = run.after(here - label, refused=True), run.after(there - other, refused=True)
        return answered + best(*refused, left - 1, rows)

    return best(run.fresh, run.fresh * np.exp(epsilon), run.cutoff, rows)


def patient(run: Run, stream: Sequence[Step], epsilon: float) -> float:
    """δ at `epsilon` reached by asking `stream` whatever is answered: every transcript is summed over."""

    def total(here: Floats, there: Floats, left: int, row: int) -> float:
        delta = 0.0
        for index in range(row, len(stream) if left else row):
            p, q = run.answered(stream[index].here), run.answered(stream[index].there)
            refused = run.after(here * (1 - p), refused=True), run.after(there * (1 - q), refused=True)
            delta += total(*refused, left - 1, index + 1)
            here, there = run.after(here * p, refused=False), run.after(there * q, refused=False)
        return delta + max(0.0, float(here.sum() - there.sum()))

    return total(run.fresh, run.fresh * np.exp(epsilon), run.cutoff, 0)


def worst_stream(run: Run, epochs: int, length: int) -> list[Step]:
    """The proof's worst case, over and over: rows nearer there, which are answered, then one that is farther there."""
    near = run.threshold
    return [*[Step(near + 1, near)] * length, Step(near, near + 1)] * epochs
