"""Stable queries: ask teachers anything, not only for a class label, and release what most of them answer.

Each teacher answers each query with a hashable value: the name of its most predictive feature, a threshold, a rule.

    answers = [[most_predictive(shard) for shard in shards]]        # queries × teachers
    ask(mechanism, answers, source)                                 # ["income"], or [None] where refused

Assumes      each privacy unit is in one shard, hence reaches one answer a query; every teacher answers every query,
             by a fixed rule where it cannot; answers that are equal, of one type and one repr look the same to readers
Guarantees   `ask`: that of the mechanism, though nobody declared which answers there are. `count`: votes for declared
             answers, for any mechanism
Ends         with the mechanism: at its cutoff
Not covered  `count` of answers that were found in private data, not declared

Why `ask` may release an answer nobody declared. The proofs of stable.py and threshold.py use two facts of distance.py,
and both hold for answers out of any set: one vote moves the lead of the first answer over the second by at most 2; if
the first answers differ, the distance is 0 on both sides, and such an answer escapes only with the probability that is
already charged as additive δ. Which answers trail, or exist, is never looked at.
Why noisy counts may not. A count exists because some teacher gave its answer: an answer only one teacher knows has
probability above 0 on one side and 0 on the other, whatever the noise, and no δ was charged for that.
Source: BTT18, section 1 ("any sequence of online queries that satisfy certain stability properties").
Checked by tests/privacy/test_queries.py, with the most predictive feature by shard as its example.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from artifacts.errors import WrongInput
from tasks.mechanisms.mechanism import Mechanism
from tasks.mechanisms.voting import REFUSED, Ints, Source

Answer = TypeVar("Answer", bound=Hashable)


def ask(
    mechanism: Mechanism,
    answers: Iterable[Sequence[Answer]],
    source: Source,
    first: int = 0,
    refused: int = 0,
) -> list[Answer | None]:
    """The answer most teachers give to each query, None where refused; shorter once the cutoff was reached.

    answers (queries, teachers); `first` and `refused` are the session's queries and refusals before these. Raises
    WrongInput for a mechanism that releases more than the plurality, or where there are no teachers.
    """
    if mechanism.counts:
        raise WrongInput(f"undeclared answers can only be released by refusing, which {mechanism.name!r} does not")
    leads = [leaders(row) for row in answers]
    votes = np.array([counts for _, counts in leads], dtype=np.int64).reshape(-1, 2)
    labels = mechanism.release(votes, source, first, refused).labels
    return [None if label == REFUSED else winner for label, (winner, _) in zip(labels.tolist(), leads, strict=False)]


def leaders(answers: Sequence[Answer]) -> tuple[Answer, tuple[int, int]]:
    """The answer given most, ties to the earliest teacher, and how often it and the runner-up were given."""
    if not answers:
        raise WrongInput("a query needs at least one teacher's answer")
    # 1, 1.0 and True are equal, but whoever reads one of them can tell which: they are different answers.
    ranked = Counter((answer, type(answer), repr(answer)) for answer in answers).most_common(2)
    (winner, _, _), top = ranked[0]
    return winner, (top, ranked[1][1] if len(ranked) > 1 else 0)


def count(answers: Iterable[Sequence[Answer]], declared: Sequence[Answer]) -> Ints:
    """Votes (queries, declared answers) for any mechanism; what was not declared counts for the first of them."""
    column = {answer: index for index, answer in enumerate(declared)}
    if len(column) != len(declared) or not declared:
        raise WrongInput("declared answers must be at least one and differ from one another")
    chosen = [np.array([column.get(answer, 0) for answer in row], dtype=np.int64) for row in answers]
    votes = [np.bincount(row, minlength=len(declared)) for row in chosen]
    return np.array(votes, dtype=np.int64).reshape(-1, len(declared))
