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

from concord.artifacts.certificate import TABLE
from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import Released
from concord.artifacts.records import Counts
from concord.artifacts.schemas import Ref
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
    def of(cls, files: Sequence[Ref], released: Released) -> "Outcomes":
        """The outcomes in released tables of labels. Raises NotVerified if a file is not what was written."""
        parts, by_class, not_asked = [np.zeros(0, dtype=bool)], Counter[str](), 0
        for table in tables(files, released):
            asked = pc.not_equal(table["outcome"], "not asked")
            parts.append(pc.equal(table["outcome"].filter(asked), "refused").to_numpy())
            not_asked += table.num_rows - len(parts[-1])
            for found in pc.value_counts(table["label"].drop_null()).to_pylist():
                by_class[found["values"]] += found["counts"]
        return cls(np.concatenate(parts), by_class, not_asked)


def voted(session: Session, files: Sequence[Ref]) -> tuple[Ref, ...]:
    """Those files of a session that are tables of labels by votes: what is inferred from other answers is none."""
    return tuple(file for file in files if session.teachers and file.path.endswith(TABLE))


def refusals(session: Session, files: Sequence[Ref], released: Released) -> NDArray[np.bool_]:
    """Whether each row, round or question of a session was refused, (asked,): only votes are."""
    labels = voted(session, files)
    return Outcomes.of(labels, released).refused if labels else np.zeros(session.asked, dtype=bool)


def counted(session: Session, files: tuple[Ref, ...], released: Released) -> Counts:
    """The queries by outcome, from the ledger; for rows, from the released files.

    Raises NotVerified if released labels and ledger differ.
    """
    if not (labels := voted(session, files)):
        return Counts(asked=session.asked, answered=session.answered, refused=session.refused, not_asked=0)
    found = _sums(labels, released)
    if (found.answered, found.refused) != (session.answered, session.refused):
        raise NotVerified(
            f"the released labels of session {session.id} hold {found.answered} answers and {found.refused} refusals, "
            f"but the ledger has {session.answered} and {session.refused}"
        )
    return found


@lru_cache(maxsize=64)
def _sums(labels: tuple[Ref, ...], released: Released) -> Counts:
    """Rows by outcome; cached, because a session may be described as of many moments."""
    found = Outcomes.of(labels, released)
    asked, refused = len(found.refused), int(found.refused.sum())
    return Counts(asked=asked, answered=asked - refused, refused=refused, not_asked=found.not_asked)


def tables(files: Sequence[Ref], released: Released) -> Iterator[pa.Table]:
    """Released labels, a file at a time. Raises NotVerified."""
    return (released.labels([file]) for file in files)


@lru_cache(maxsize=8)
def classes_named(files: tuple[Ref, ...], released: Released) -> tuple[str, ...]:
    """The classes that released labels name; cached, because a session may be described as of many moments."""
    return tuple(Outcomes.of(files, released).by_class)
