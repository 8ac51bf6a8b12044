"""Exact private numbers: a handle that the door alone opens, and what is drawn from the numbers behind it.

    form      in the vault                                    drawn from
    votes     an Arrow file, counts (rows, classes)           each row's counts: a label, or a refusal
    sums      files of `keep_sums`, which are added           numbers, each with noise
    periods   the same of each period, for each question      mixtures of the sums of all periods, with noise
    answers   the answers of all shards, JSON                 the most frequent one, or a refusal
    counts    whole numbers                                   each with noise
    errors    errors and tested rows of each shard            the sum of rates, with noise
    scores    errors of each candidate                        the index of one

Assumes      files are those that `tasks.units` wrote; a mechanism is the one its session was opened with
Guarantees   numbers are opened at the door, and handed to a mechanism and nothing else. Each form is checked first, by
             facts that no row decides: they are made of what the session is charged for (`tasks.units.provenance`),
             every teacher voted once on a row, and sums are those of the question that is asked, which its round paid
             for
Not covered  what the numbers are of: `tasks.units` bounds what a unit adds. Checked by tests/test_core.py and, with
             planted faults, tests/privacy/test_outside_the_core.py and test_provenance.py
"""

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.parts import EVERY
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Batch, BatchOutcome, Session
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.distance import REFUSED, Ints, RandomSource
from concord.tasks.mechanisms.queries import leaders, release_answers
from concord.tasks.units.provenance import Provenance, read_made, whole
from concord.tasks.units.sums import npy_bytes, question_digest, summed

FormName = Literal["votes", "sums", "periods", "answers", "counts", "errors", "scores"]
FILE_FORM = {"periods": "sums"}
"""The form in which the files of a handle were written, if it is not the handle's own."""
NOTHING_DRAWN = "nothing was drawn"


@dataclass(frozen=True)
class Exact:
    """Exact private numbers of one step, by their files in the vault: it holds none of them.

    files    of "periods" one group for each period and question, else one group
    record   a text that binds the numbers by keyed digests, and is on record in their place; of "periods" alone
    earlier  that text of each step before
    """

    form: FormName
    files: tuple[tuple[Ref, ...], ...]
    record: str = ""
    earlier: tuple[str, ...] = ()


class OpenedNumbers(ABC):
    """Numbers that were opened.

    form     as of their handle
    keyed    whether what a keyed mechanism draws from them need not be kept
    made     how they were made, of each period
    content  of which the ledger has a keyed digest
    """

    form: str
    keyed = False
    made: Sequence[Provenance]
    content: Sequence[bytes | str]

    @abstractmethod
    def draw(self, mechanism: Any, source: RandomSource, before: Session, batch: Batch) -> Sequence[Ints]:
        """Draw from the numbers, in the session as it was `before` the step."""

    def check(self, mechanism: Any, question: Any, before: Session, batch: Batch) -> None:  # noqa: B027
        """Raise NotVerified if the numbers are not those of the question, or if the step did not pay for it."""

    def check_made(self, mechanism: Any, before: Session, unit: str, periods: int) -> None:
        """Raise NotVerified if they are not made of what the session is charged for.

        unit, periods   its domain's privacy unit, and the number of periods that earlier seasons of its stream released
        """
        if self.form not in mechanism.forms:
            raise NotVerified(f"session {before.id} draws from {' or '.join(mechanism.forms)}, not from {self.form}")
        charged = {
            "form": FILE_FORM.get(self.form, self.form),
            "domain": before.domain,
            "unit": unit,
            "stream": before.stream,
            "subset": getattr(mechanism, "subset", ()),
            **({} if before.part == EVERY else {"part": before.part, "division": before.division}),
            **({} if before.teachers == 0 else {"pieces": before.teachers}),
        }
        for made, (name, value) in [*product(self.made, charged.items()), (self.made[0], ("period", periods))]:
            if getattr(made, name) != value:
                raise NotVerified(
                    f"session {before.id} is charged for numbers of another {name} than these are of: {NOTHING_DRAWN}. "
                    "This is a fault of Concord: please report it"
                )

    def outcome(self, batch: Batch, file: Ref, drawn: Sequence[Ints]) -> BatchOutcome:  # noqa: ARG002
        """The outcome of the batch, released as that file: how many of its rows were answered, and refused."""
        return batch.released_as(file)


def opened(exact: Exact, vault: Vault) -> OpenedNumbers:
    """The numbers behind a handle, for the door alone. Raises NotVerified if a file is not what was written, or if they
    are not those of each shard or block once."""
    match exact.form:
        case "sums":
            return _Sums(*summed(exact.files[0], vault))
        case "periods":
            return _Periods([summed(files, vault) for files in exact.files], exact.record)
    parts = [read_made(file, vault) for file in exact.files[0]]
    made, content = whole([made for made, _ in parts]), b"".join(content for _, content in parts)
    match exact.form:
        case "votes":
            return _Votes(made, read_votes(content))
        case "answers":
            return _Answers(made, json.loads(content))
        case "counts" | "errors" | "scores":
            return _Numbers(made, exact.form, content)


class _Votes(OpenedNumbers):
    form = "votes"
    keyed = True

    def __init__(self, made: Provenance, votes: Ints) -> None:
        self.made, self.votes = [made], votes
        self.content = [np.ascontiguousarray(votes, dtype="<u4").tobytes()]

    def check(self, mechanism: Any, question: Any, before: Session, batch: Batch) -> None:  # noqa: ARG002
        if len(self.votes) != batch.rows or (self.votes.sum(axis=1) != before.teachers).any():
            raise NotVerified(
                f"each of {before.teachers} teachers votes once on each of {batch.rows} rows of batch {batch.index} of "
                f"session {before.id}, and the votes in the vault are others: {NOTHING_DRAWN}"
            )

    def draw(self, mechanism: Any, source: RandomSource, before: Session, batch: Batch) -> Sequence[Ints]:
        room = None if before.queries is None else before.queries - before.asked
        answers = mechanism.release(self.votes[:room], source, batch.first, before.refused)
        return [answers.labels] if answers.counts is None else [answers.labels, answers.counts]

    def outcome(self, batch: Batch, file: Ref, drawn: Sequence[Ints]) -> BatchOutcome:
        refused = int(np.count_nonzero(drawn[0] == REFUSED))
        return batch.released_as(file, answered=len(drawn[0]) - refused, refused=refused)


class _Sums(OpenedNumbers):
    form = "sums"

    def __init__(self, made: Provenance, sums: Ints) -> None:
        self.made, self.sums = [made], sums
        self.content = [npy_bytes(sums)]

    def check(self, mechanism: Any, question: Any, before: Session, batch: Batch) -> None:  # noqa: ARG002
        _check_paid(mechanism, batch.index, question["question"], (self.made[0], self.sums))

    def draw(self, mechanism: Any, source: RandomSource, before: Session, batch: Batch) -> Sequence[Ints]:  # noqa: ARG002
        return [mechanism.release(batch.index, self.sums, source)]


class _Periods(OpenedNumbers):
    form = "periods"

    def __init__(self, arrived: Sequence[tuple[Provenance, Ints]], record: str) -> None:
        self.made, self.arrived = [made for made, _ in arrived], arrived
        self.content = [record]

    def check(self, mechanism: Any, question: Any, before: Session, batch: Batch) -> None:  # noqa: ARG002
        questions = question["questions"]
        if len(questions) != len(mechanism.rounds) or len(self.arrived) != len(questions) * (batch.index + 1):
            raise NotVerified(f"a release asks every question of its season, of every period: {NOTHING_DRAWN}")
        first = self.made[0].period
        if [made.period for made in self.made] != [first + at // len(questions) for at in range(len(self.made))]:
            raise NotVerified(f"a release adds the sums of each period once: {NOTHING_DRAWN}")
        later = zip(self.made, self.made[len(questions) :], strict=False)
        if any(after.follows not in ("", made.reading) for made, after in later):
            raise NotVerified(f"a period's units are new by other names than those of the last one: {NOTHING_DRAWN}")
        for at, record in enumerate(questions):
            _check_paid(mechanism, at, record, *self.arrived[at :: len(questions)])

    def draw(self, mechanism: Any, source: RandomSource, before: Session, batch: Batch) -> Sequence[Ints]:  # noqa: ARG002
        rounds = len(mechanism.rounds)
        mixed = [mechanism.mixed([sums for _, sums in self.arrived[at::rounds]]) for at in range(rounds)]
        return [mechanism.release(batch.index * rounds + at, sums, source) for at, sums in enumerate(mixed)]


class _Answers(OpenedNumbers):
    form = "answers"

    def __init__(self, made: Provenance, kept: Mapping[str, Any]) -> None:
        self.question, self.answers = str(kept["question"]), [str(answer) for answer in kept["answers"]]
        self.made, self.content = [made], self.answers

    def check(self, mechanism: Any, question: Any, before: Session, batch: Batch) -> None:  # noqa: ARG002
        if self.question != question:
            raise NotVerified(f"shards answered question {self.question!r}, and {question!r} is asked: {NOTHING_DRAWN}")

    def draw(self, mechanism: Any, source: RandomSource, before: Session, batch: Batch) -> Sequence[Ints]:
        """One for an answer and zero for a refusal, and the bytes of what was answered."""
        winner, _ = leaders(self.answers)
        answered = release_answers(mechanism, [self.answers], source, batch.first, before.refused) == [winner]
        text = winner.encode() if answered else b""
        return [np.array([int(answered)]), np.frombuffer(text, np.uint8).astype(np.int64)]

    def outcome(self, batch: Batch, file: Ref, drawn: Sequence[Ints]) -> BatchOutcome:
        answered = int(drawn[0][0])
        return batch.released_as(file, answered=answered, refused=1 - answered)


class _Numbers(OpenedNumbers):
    def __init__(self, made: Provenance, form: str, content: bytes) -> None:
        self.form, self.made, self.bytes, self.content = form, [made], content, [content]

    def check(self, mechanism: Any, question: Any, before: Session, batch: Batch) -> None:  # noqa: ARG002
        if self.form == "counts" and self.made[0].question != mechanism.counted:
            raise NotVerified(f"session {before.id} is charged for counts of another kind: {NOTHING_DRAWN}")

    def draw(self, mechanism: Any, source: RandomSource, before: Session, batch: Batch) -> Sequence[Ints]:  # noqa: ARG002
        if self.form == "scores":
            return [np.array([mechanism.choose(-np.load(io.BytesIO(self.bytes), allow_pickle=False))])]
        numbers = np.frombuffer(self.bytes, "<i8")
        if self.form == "counts":
            return [mechanism.release(numbers, source)]
        errors, tested = numbers.reshape(-1, 2).T
        return [np.array([mechanism.release(mechanism.total(errors, tested), source)])]


def _check_paid(mechanism: Any, number: int, record: Mapping[str, Any], *counted: tuple[Provenance, Ints]) -> None:
    """Raise NotVerified if round `number` did not pay for the question, or if sums of another one were counted."""
    question = RoundQuestion.from_record(dict(record))
    try:
        mechanism.check(number, question)
    except ValueError as wrong:
        raise NotVerified(f"{wrong}: {NOTHING_DRAWN}") from None
    digest = question_digest(record)
    if any(made.question != digest or sums.shape != (question.size,) for made, sums in counted):
        raise NotVerified(f"round {number} was counted for another question than it asks: {NOTHING_DRAWN}")


def read_votes(data: bytes) -> Ints:
    """Counts of votes from an Arrow IPC file, (rows, classes)."""
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    return np.column_stack([column.to_numpy() for column in table.columns])
