"""Outcomes: which public rows of a session were answered, refused or not asked, by its released files.

Assumes      files of labels are released ones of the session, in order
Guarantees   memory is bounded by one file, and one byte per row that was asked
Not covered  whether the ledger names those files: tasks.verify. Checked by tests/tasks/publish/test_outcomes.py
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from concord.artifacts.certificate import Counts
from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import Released
from concord.artifacts.schemas import Ref
from concord.artifacts.sections import TALLIES
from concord.artifacts.sessions import Session


@dataclass(frozen=True)
class Outcomes:
    """Public rows of a session by outcome.

    refused    (asked,) whether each row that was asked was refused, in order
    by_class   rows answered, by the class of their labels
    not_asked  rows after the session's end
    """

    refused: NDArray[np.bool_]
    by_class: Mapping[str, int]
    not_asked: int

    @classmethod
    def of(cls, session: Session, files: Sequence[Ref], released: Released) -> "Outcomes":
        """The outcomes in released files. A choice, and each round of tallies, counts as one answered row.

        Raises NotVerified if a file is not what was written.
        """
        if session.teachers:
            return _labelled(files, released)
        rounds = sum(file.path.startswith(f"{session.id}/rounds/") for file in files)
        return cls(np.zeros(rounds if session.mechanism["name"] == TALLIES else 1, dtype=bool), {}, 0)

    def counted(self, session: Session) -> Counts:
        """Numbers of rows by outcome. Raises NotVerified if released labels and ledger differ."""
        asked, refused = len(self.refused), int(self.refused.sum())
        if (asked - refused, refused) != (session.answered, session.refused):
            raise NotVerified(
                f"the released labels of session {session.id} hold {asked - refused} answers and {refused} refusals, "
                f"but the ledger has {session.answered} and {session.refused}"
            )
        return Counts(asked=asked, answered=asked - refused, refused=refused, not_asked=self.not_asked)


def tables(files: Sequence[Ref], released: Released) -> Iterator[pa.Table]:
    """Released labels, a file at a time. Raises NotVerified."""
    return (released.labels([file]) for file in files)


@lru_cache(maxsize=8)
def classes_named(files: tuple[Ref, ...], released: Released) -> tuple[str, ...]:
    """The classes that released labels name; cached, because a session may be described as of many moments."""
    return tuple(_labelled(files, released).by_class)


def _labelled(files: Sequence[Ref], released: Released) -> Outcomes:
    parts, by_class, not_asked = [np.zeros(0, dtype=bool)], Counter[str](), 0
    for table in tables(files, released):
        asked = pc.not_equal(table["outcome"], "not asked")
        parts.append(pc.equal(table["outcome"].filter(asked), "refused").to_numpy())
        not_asked += table.num_rows - len(parts[-1])
        for found in pc.value_counts(table["label"].drop_null()).to_pylist():
            by_class[found["values"]] += found["counts"]
    return Outcomes(np.concatenate(parts), by_class, not_asked)
