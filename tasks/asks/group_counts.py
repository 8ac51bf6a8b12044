"""How many private units are in each group of public rows, by the words of some columns; released once, with noise.

Groups are the combinations of words that public rows have in those columns; units of any other combination, with a word
that is not in the public vocabulary, or with a missing cell, are counted together. A unit counts once, by one of its
rows.

Assumes      encoding and groups are public
Guarantees   (ε, 0) for the released counts; the exact ones stay in the vault
Ends         with its one release
Not covered  a unit that changes its group, or the row it is counted by: two steps, as if it were replaced. Checked by
             tests/tasks/asks/test_group_counts_ask.py, tests/privacy/test_group_counts.py and tests/flows/test_count.py
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concord.artifacts.errors import WrongInput
from concord.artifacts.parts import EVERY
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, OneHot
from concord.tasks.data.matrix import encode
from concord.tasks.door.ask import SingleAsk
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.group_counts import GroupCounts

MOST_GROUPS = 100_000
MOST_WRITTEN = 3 << 22
"""Most characters of the names of groups: readers take at most 2**24 bytes of an answer (tasks.verify.published)."""


@dataclass(frozen=True)
class Groups:
    """The groups of public rows by some columns.

    columns   their names
    words     of each column, the words it may have
    cells     of each group, the index of its word in each column
    """

    columns: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[int, ...], ...]

    name: ClassVar[str] = "counts"
    part: ClassVar[str] = EVERY
    by_unit: ClassVar[bool] = False

    @classmethod
    def of(cls, by: Sequence[str], encoding: Encoding, frames: Iterable[pl.DataFrame]) -> "Groups":
        """The groups of these public rows. Raises WrongInput if a column has no words, or if there are too many."""
        known = {column.name: column for column in encoding.columns if isinstance(column, OneHot)}
        for name in by:
            if name not in known:
                there = ", ".join(known) or "it has none"
                raise WrongInput(f"--by must name categorical columns of the public table ({there}), got {name!r}")
        if not by or len(set(by)) < len(by):
            raise WrongInput(f"--by must name at least one column, and each once, got {', '.join(by) or 'none'}")
        words = tuple(known[name].vocabulary for name in by)
        empty = cls(tuple(by), words, ())
        found = (cell for rows in frames for cell in np.unique(empty.cells_of(rows, encoding), axis=0).tolist())
        cells = {tuple(cell) for cell in found if all(at < len(each) for at, each in zip(cell, words, strict=True))}
        if len(cells) > MOST_GROUPS:
            raise WrongInput(f"--by makes {len(cells):,} groups, and at most {MOST_GROUPS:,} are counted: name fewer")
        made = cls(tuple(by), words, tuple(sorted(cells)))
        if len(json.dumps(made.named(), indent=8)) > MOST_WRITTEN:  # no narrower than the released file
            raise WrongInput("--by makes more groups, or longer names of them, than one answer may hold: name fewer")
        return made

    @property
    def digest(self) -> str:
        """SHA-256 in hex of columns, words and groups: not keyed, because they are public."""
        return hashlib.sha256(repr((self.columns, self.words, self.cells)).encode()).hexdigest()

    def cells_of(self, rows: pl.DataFrame, encoding: Encoding) -> Ints:
        """The word of each row in each column, (rows, columns), as `cells` has them; the number of words stands for
        any other cell. No row can make it fail."""
        X, starts = encode(rows, encoding), np.cumsum([0, *(column.width for column in encoding.columns)])
        at = {column.name: int(start) for column, start in zip(encoding.columns, starts, strict=False)}
        found = np.zeros((len(X), len(self.columns)), dtype=np.int64)
        for place, (name, words) in enumerate(zip(self.columns, self.words, strict=True)):
            known = X[:, at[name] : at[name] + len(words)] > 0
            found[:, place] = np.where(known.any(axis=1), known.argmax(axis=1), len(words))
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """A count for each group, and one for those of none."""
        return (len(self.cells) + 1,)

    def counted(self, rows: pl.DataFrame, encoding: Encoding) -> Ints:
        """Rows of each group, and at the end those of no group: (groups + 1,)."""
        index = {cell: at for at, cell in enumerate(self.cells)}
        places = [index.get(tuple(cell), len(self.cells)) for cell in self.cells_of(rows, encoding).tolist()]
        return np.bincount(places, minlength=len(self.cells) + 1).astype(np.int64)

    def named(self) -> list[list[str]]:
        """The words of each group."""
        return [[words[at] for at, words in zip(cell, self.words, strict=True)] for cell in self.cells]


@dataclass(frozen=True)
class CountsAsk(SingleAsk[GroupCounts]):
    """Counts of groups; `about` has their columns, their number and their digest."""

    groups: Groups

    purpose: ClassVar[str] = "counts"
    file: ClassVar[str] = "counts.json"
    part: ClassVar[str] = EVERY

    @classmethod
    def of(cls, plan: Plan, groups: Groups, epsilon: float) -> "CountsAsk":
        """The counts that cost epsilon. Raises WrongInput."""
        if plan.privacy.secret != "rows":
            raise WrongInput("privacy.secret = 'labels' makes features public: count them in your table, without noise")
        about = {"by": list(groups.columns), "groups": len(groups.cells), "digest": groups.digest}
        return cls(GroupCounts.calibrate(epsilon=epsilon), about, groups)

    def depends(self, plan: Plan) -> dict[str, Any]:
        """What is secret of a row, and the settings."""
        return {"secret": plan.privacy.secret, "counts": self.settings()}

    def draw(self, exact: bytes, source: RandomSource) -> Ints:
        """Noisy counts (groups + 1,), from the file of `count_units`."""
        return self.mechanism.release(np.frombuffer(exact, dtype="<i8"), source)

    def result(self, drawn: Ints) -> dict[str, Any]:
        """The noisy counts by group, as the answer to a question."""
        *counts, others = drawn.tolist()
        answer = {"groups": self.groups.named(), "counts": counts, "others": others}
        question = f"units by {', '.join(self.groups.columns)}"
        return {
            "format": "concord counts 1",
            "question": question,
            "code": self.groups.digest,
            "outcome": "answered",
            "answer": answer,
        }


@dataclass(frozen=True)
class CountQuestion:
    """How many units are in each group of public rows by these columns, at a cost of (epsilon, 0)."""

    by: tuple[str, ...]
    epsilon: float

    verb: ClassVar[str] = "count"

    def asked(self, plan: Plan, encoding: Encoding, public: Iterable[pl.DataFrame]) -> tuple[CountsAsk, Groups]:
        """The counts, and the groups."""
        groups = Groups.of(self.by, encoding, public)
        return CountsAsk.of(plan, groups, self.epsilon), groups

    @property
    def within(self) -> float:
        """Largest distance of a noisy count from the exact one, with probability 0.95."""
        return GroupCounts.calibrate(epsilon=self.epsilon).within(0.95)
