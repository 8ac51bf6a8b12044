"""Records of sessions, which a certificate lists: the claim of each, its releases and its outcomes.

A session of any kind has a record of the same form. What its files say stands in `outcomes`, if each is an answer by
itself: to a question, or a private test. Tables of labels, sums and hypotheses are in their
files alone.

Checked by tests/artifacts/test_records.py and tests/tasks/verify/test_tampering.py
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from concord.artifacts.facts import Facts
from concord.artifacts.measures import AnyTested, UnitsTested
from concord.artifacts.parts import EVERY, paid
from concord.artifacts.schemas import Budget, CertificatePart, Ref

Outcome = Literal["answered", "no answer", "refused"]
"""The common answer; none, if that is the common answer; or a refusal, since the shards disagree."""


class MechanismRecord(CertificatePart):
    """The mechanism at the door: its name, the public settings it ran with, where its proof is, and in words what it
    releases."""

    name: str
    settings: dict[str, Any]
    proof: str
    releases: str

    @property
    def facts(self) -> Facts:
        """What the settings say of a session."""
        return Facts.of(self.settings)


class Counts(CertificatePart):
    """Numbers of public rows, questions or rounds: asked, answered, refused; and of rows that came after the end."""

    asked: int
    answered: int
    refused: int
    not_asked: int

    @property
    def of_rows(self) -> tuple[int, int]:
        """How many public rows were asked, and how many there are in total."""
        return self.asked, self.asked + self.not_asked


class AnswerRecord(CertificatePart):
    """What was released for one question.

    code     digest of the question's source text and the values it takes from around it; empty if one was not known
    answer   in the plain form of `tasks.asking.answers`; null if there is none
    """

    question: str
    code: str
    outcome: Outcome
    answer: Any


class SessionRecord(CertificatePart):
    """One session: what it promises by itself, and what it released.

    purpose     what it was opened for, in the words of what was asked (tasks.asks)
    part        the only part of the domain's units that it reads (artifacts.parts); empty if it may read all
    stream      sessions of one stream ask no unit twice; empty if it is of none
    teachers    disjoint shards of the private units, which answered; 0 if the rows themselves were asked
    files       released by it, in order
    outcomes    what each of these files says, if each is an answer by itself; otherwise empty
    """

    session: str
    purpose: str
    mechanism: MechanismRecord
    guarantee: Budget
    part: str = EVERY
    stream: str = ""
    teachers: int
    counts: Counts
    files: tuple[Ref, ...]
    outcomes: tuple[AnswerRecord | AnyTested, ...] = ()

    @property
    def about(self) -> str | None:
        """The session whose student it tested; None if it concerns no other session."""
        return self.mechanism.facts.session

    @property
    def answers(self) -> tuple[AnswerRecord, ...]:
        """The answers to questions among its outcomes."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, AnswerRecord))

    @property
    def tested(self) -> AnyTested | None:
        """The private test that it released, if it did."""
        return next((outcome for outcome in self.outcomes if isinstance(outcome, UnitsTested)), None)

    def shown(self) -> dict[str, Any]:
        """A test as JSON, with its session, its claim and its file; and in words."""
        head = self.model_dump(mode="json", include={"session", "guarantee"})
        words = "" if self.tested is None else self.tested.in_words
        file = self.files[0].model_dump()
        return {**head, "file": file, **self.outcomes[0].model_dump(mode="json"), "in_words": words}


def promised(records: Sequence[SessionRecord]) -> Budget:
    """The guarantee of several sessions together: the largest sum over any part of the units, of all sessions that read
    it; of each stream only the largest session counts.

    A unit is in one part, and a session that does not read that part reveals nothing of the unit: basic composition,
    part by part.
    """
    parts = {record.part for record in records} - {EVERY} or {EVERY}
    touching = [[record for record in records if record.part in (part, EVERY)] for part in parts]

    def most(amount: Callable[[Budget], float]) -> float:
        paying = ([(of_touching.stream, amount(of_touching.guarantee)) for of_touching in some] for some in touching)
        return max(sum(paid(amounts, max)) for amounts in paying)

    return Budget(epsilon=most(lambda claim: claim.epsilon), delta=most(lambda claim: claim.delta))
