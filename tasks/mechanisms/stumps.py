"""Thresholds and decision stumps: one column against one number, either way round.

A stump says `inside` from some number of its column on and the other label below. On given rows, a column with m
different numbers makes m − 1 splits, and two columns may make the same one: splits are told apart by a digest of the
rows above, so each is taken once. Checked by tests/privacy/test_hypotheses.py.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from artifacts.errors import WrongInput
from tasks.mechanisms.boxes import Box
from tasks.mechanisms.dichotomies import Hypotheses, HypothesisClass, balance, cells, errors_of, selected
from tasks.mechanisms.refusal import Floats
from tasks.mechanisms.voting import Ints


@dataclass(frozen=True, eq=False)
class StumpsOf(Hypotheses):
    """Two candidates a split, 0 and 1 above: split s is at rank cut[s] of `values`[feature[s]]; rank 0 is no split."""

    columns: tuple[int, ...]
    values: tuple[Floats, ...]
    feature: Ints
    cut: Ints

    def __len__(self) -> int:
        return 2 * len(self.cut)

    def __getitem__(self, candidate: int) -> Box:
        split, inside = divmod(range(len(self))[candidate], 2)
        feature, cut = int(self.feature[split]), int(self.cut[split])
        low = None if cut == 0 else float(self.values[feature][cut])
        return Box((self.columns[feature],), (low,), (None,), inside)

    def errors(self, X: Floats, y: Ints) -> Ints:
        above = np.empty(len(self.cut), dtype=np.int64)
        for feature, values in enumerate(self.values):
            mine = self.feature == feature
            if mine.any():
                numbers = selected(X, self.columns[feature : feature + 1])[:, 0]
                here = balance(cells(numbers, values), y, len(values))
                above[mine] = here[::-1].cumsum()[::-1][self.cut[mine]]
        return errors_of(np.tile([0, 1], len(self.cut)), np.repeat(above, 2), y)


class Stumps(HypothesisClass):
    """One number of one of the columns against a threshold, either way round, and the two constants."""

    name: ClassVar[str] = "stumps"
    linear: ClassVar[bool] = True

    @property
    def dimension(self) -> int:
        """The largest D with 2^D <= 2·(1 + columns·(D − 1)), the most splits that D rows leave: an upper bound."""
        dimension = 2
        while 2 ** (dimension + 1) <= 2 * (1 + len(self.columns) * dimension):
            dimension += 1
        return dimension

    def most_candidates(self, sizes: Sequence[int]) -> int:
        return 2 * (1 + sum(size - 1 for size in sizes))

    def enumerated(self, points: Floats) -> StumpsOf:
        values = tuple(np.unique(column) for column in points.T)
        splits = [(0, 0), *_distinct(points, values)]
        feature, cut = np.array(splits, dtype=np.int64).T
        return StumpsOf(self.columns, values, feature, cut)


class Thresholds(Stumps):
    """One column against a threshold, either way round, and the two constants. VC dimension 2."""

    name: ClassVar[str] = "thresholds"

    def __post_init__(self) -> None:
        if len(self.columns) != 1:
            raise WrongInput(f"{self.name} need 1 feature, got {len(self.columns)}")
        super().__post_init__()


def _distinct(points: Floats, values: Sequence[Floats]) -> list[tuple[int, int]]:
    """(feature, cut) of every split of distinct rows, each once."""
    cuts = [(feature, cut) for feature, numbers in enumerate(values) for cut in range(1, len(numbers))]
    if len(values) == 1:
        return cuts
    seen: dict[bytes, tuple[int, int]] = {}
    for feature, cut in cuts:
        above = points[:, feature] >= values[feature][cut]
        # A set and its complement split the rows alike.
        seen.setdefault(hashlib.blake2b(np.packbits(above ^ above[0]).tobytes()).digest(), (feature, cut))
    return list(seen.values())
