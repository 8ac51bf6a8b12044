"""Questions at the door: what shards answer in common is released, or nothing is.

    for each question:  answers durable ─ ledger.begin ─ draw ─ answer durable ─ ledger.commit

A question is a batch of one row in its session. One by itself has a session of its own, which ends with it (A_stab);
a stream of them shares a session that pays by refusal (stable.py). Asked again by its name, a question is replayed from
what was released. One that was only begun is answered again from the answers that were kept, with the same randomness:
the question is not asked of the shards twice, so one that would answer otherwise the second time changes nothing.

Assumes      answers are those of `tasks.asking.questions`: one a shard, of disjoint shards
Guarantees   a question is drawn for once, after it was paid for, and its file has the same bytes however often this
             runs; what shards answered stays in the vault, and goes when the session is forgotten
Ends         with the session: after its one question, or at the cutoff
Not covered  a home folder restored from an older copy that no witness knows. That another code has the same name is
             found if both are known, values and all; if not, a replay warns. Checked by
             tests/tasks/door/test_question_door.py and tests/promises/test_canary_questions.py
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Encoding, Ref, canonical_json
from concord.artifacts.sessions import QUESTIONS, Batch, Session
from concord.tasks.asking.answers import NO_ANSWER
from concord.tasks.asking.questions import Question
from concord.tasks.data.guard import private_stage
from concord.tasks.door.admit import Asked
from concord.tasks.door.checkpoint import Randomness, session_key
from concord.tasks.door.release import Stores, open_door, publish_answer
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.queries import FORMS, SingleRelease, ask, leaders
from concord.tasks.mechanisms.stable import StableVoting

ANSWER_FORMAT = "concord answer 1"
REFUSED_ANSWER, ANSWERED = 0, 1
"""How a draw is kept."""


@dataclass(frozen=True)
class Questions:
    """What a session of questions is opened for: its mechanism; and the name of its question, if it has one alone."""

    mechanism: SingleRelease | StableVoting
    question: str | None

    @classmethod
    def of(
        cls, plan: Plan, question: Question, order: float, *, epsilon: float | None, form: str, cutoff: int | None
    ) -> "Questions":
        """One question by itself, in that form of A_stab; or, with a cutoff, a stream of them. Raises WrongInput.

        epsilon   what it may cost; by default as the plan says, which has the δ
        order     the Rényi order of its domain
        """
        spend, delta = plan.privacy.epsilon if epsilon is None else epsilon, plan.privacy.delta
        if form not in FORMS:
            raise WrongInput(f"form must be one of {', '.join(FORMS)}, got {form!r}")
        if cutoff is None:
            return cls(FORMS[form](epsilon=spend, delta=delta), question.name)
        if form != "optimal":
            raise WrongInput(f"form is of a question by itself: with cutoff={cutoff}, leave out form={form!r}")
        if cutoff < 1 or not 0 < spend < float("inf"):
            raise WrongInput(f"a stream of questions needs a cutoff of at least 1 and ε > 0, got {cutoff} and {spend}")
        return cls(StableVoting.calibrate(epsilon=spend, delta=delta, cutoff=cutoff, order=order), None)

    @property
    def epsilon(self) -> float:
        """ε of its claim."""
        return self.mechanism.epsilon

    @property
    def cost(self) -> Cost:
        """What it will have spent at its end."""
        return self.mechanism.cost

    @property
    def cutoff(self) -> int | None:
        """Refusals until it ends; None for one question."""
        return self.mechanism.cutoff

    @property
    def queries(self) -> int | None:
        """Questions it may answer at most; None for a stream."""
        return self.mechanism.queries

    @property
    def per_refusal(self) -> Cost | None:
        """What one refusal is charged; None if it is charged whole."""
        return self.mechanism.per_refusal

    def settings(self) -> dict[str, Any]:
        """As JSON."""
        alone = {} if self.question is None else {"question": self.question}
        return {**self.mechanism.settings(), "asks": QUESTIONS, **alone}

    def asked(self, plan: Plan, encoding: Encoding, vault: Vault) -> Asked:
        """The session they are asked for in."""
        depends = {
            "secret": plan.privacy.secret,
            "public_share": plan.data.public_share,
            "shards": plan.teachers.count,
            "questions": self.settings(),
        }
        shards, delta = plan.teachers.count, plan.privacy.delta
        return Asked.once(plan, self, encoding, vault, depends, teachers=shards, delta=delta)


@dataclass(frozen=True)
class Answered:
    """A question's answers as the session keeps them: its name, its code, and what each shard answered."""

    question: str
    code: str
    answers: tuple[str, ...]

    @classmethod
    def read(cls, vault: Vault, ref: Ref) -> "Answered":
        """From a file of the vault."""
        kept = json.loads(vault.read(ref))
        return cls(kept["question"], kept["code"], tuple(kept["answers"]))

    def digest(self, key: bytes) -> str:
        """The keyed digest of the answers."""
        return keyed_digest(key, "votes", *self.answers)


def keep_answers(vault: Vault, session: str, question: Question, answers: Sequence[str]) -> Ref:
    """Keep what shards answer to a question that is not begun yet, in the place of what was kept before."""
    kept = {"question": question.name, "code": question.code, "answers": list(answers)}
    with vault.create(_kept(vault, session, question.name)) as sink:
        sink.write(canonical_json(kept).encode())
    return sink.ref


def batch_of(door: Stores, session: str, question: str) -> Batch | None:
    """The batch that a question of that name is in its session, once it is begun."""
    digest = _question_digest(door.vault, session, question)
    return next((batch for batch in door.ledger.batches(session) if batch.rows_digest == digest), None)


@private_stage
def release_question(door: Stores, session: Session, questions: Questions, name: str) -> Ref:
    """The door of one question: release its answer from those that were kept, or replay it. Returns the file, JSON.

    What was begun by a process that is gone is released first. Raises NotVerified if answers or key are not those
    on record, BudgetRefused if the session has ended.
    """
    with open_door(door, session):
        for begun in _pending(door, session.id):
            _release(door, session, questions, begun)
        known = batch_of(door, session.id, name)
        if known is not None and known.outcome is not None:
            door.released.read(known.outcome.released)
            return known.outcome.released
        kept = door.vault.find(_kept(door.vault, session.id, name))
        if kept is None:
            raise NotVerified(f"what shards answered to question {name!r} of session {session.id} is not in the vault")
        return _release(door, session, questions, Answered.read(door.vault, kept))


def check_code(question: Question, released: bytes, session: str) -> bool:
    """Whether what was released under a question's name is known to be asked by its code. Raises WrongInput if it was
    asked by other code."""
    code = json.loads(released)["code"]
    if code and question.code and code != question.code:
        raise WrongInput(
            f"question {question.name!r} was asked in session {session} by other code, and its answer stands: a "
            "question that has changed needs another name, and costs again"
        )
    return bool(code and question.code)


def answer_path(session: str, index: int) -> str:
    """Where the answer to a question is released."""
    return f"{session}/answers/answer-{index:05d}.json"


def _release(door: Stores, session: Session, questions: Questions, asked: Answered) -> Ref:
    known, state = batch_of(door, session.id, asked.question), door.ledger.session(session.id)
    if known is None and door.released.find(answer_path(session.id, state.batches)) is not None:
        raise NotVerified(
            f"{answer_path(session.id, state.batches)} was released, and the ledger does not know of it: an older copy "
            f"of the ledger was put back; put the newer one in its place, or end the session by `concord close "
            f"{session.id} --whole`"
        )
    if len(asked.answers) != session.teachers:
        raise NotVerified(
            f"{len(asked.answers)} shards answered question {asked.question!r}, but session {session.id} was opened "
            f"for {session.teachers}: a shard must not be left out"
        )
    batch = Batch(
        index=state.batches if known is None else known.index,
        first=state.next_row if known is None else known.first,
        rows=1,
        rows_digest=_question_digest(door.vault, session.id, asked.question),
        votes_digest=asked.digest(derive(session_key(door.vault, session.id), "digests")),
    )
    begun, source = door.ledger.begin_batch(session.id, batch), Randomness(door.vault, session.id)

    def draw() -> Ints:
        answer = ask(questions.mechanism, [asked.answers], source, begun.first, state.refused)
        return np.array([ANSWERED if answer == [leaders(asked.answers)[0]] else REFUSED_ANSWER])

    answered = int(source.once(f"answer-{begun.index:05d}", draw)[0])
    released = _publish(door, session, begun.index, asked, answered=answered == ANSWERED)
    counts = {"asked": 1, "answered": answered, "refused": 1 - answered}
    door.ledger.commit_batch(session.id, begun.index, **counts, released=released)
    return released


def _publish(door: Stores, session: Session, index: int, asked: Answered, *, answered: bool) -> Ref:
    """Write what was drawn: the same for the same draw."""
    winner, _ = leaders(asked.answers)
    outcome = "refused" if not answered else "no answer" if winner == NO_ANSWER else "answered"
    return publish_answer(
        door,
        session,
        f"answers/answer-{index:05d}.json",
        format=ANSWER_FORMAT,
        mechanism=session.mechanism["name"],
        question=asked.question,
        code=asked.code,
        shards=session.teachers,
        outcome=outcome,
        answer=json.loads(winner) if answered else None,
    )


def _pending(door: Stores, session: str) -> Iterator[Answered]:
    """The question that was begun and not released, by what was kept of it. Raises NotVerified if that is gone."""
    state = door.ledger.session(session)
    if state.status != "open" or state.pending is None:
        return
    folder = f"sessions/{session}/questions"
    for file in sorted((door.vault.root / folder).glob("*.json")):
        kept = door.vault.find(f"{folder}/{file.name}")
        asked = None if kept is None else Answered.read(door.vault, kept)
        if asked and _question_digest(door.vault, session, asked.question) == state.pending.rows_digest:
            yield asked
            return
    raise NotVerified(f"session {session} has a question begun, and what shards answered to it is not in the vault")


def _kept(vault: Vault, session: str, question: str) -> str:
    return f"sessions/{session}/questions/{vault.digest('question', question)[:32]}.json"


def _question_digest(vault: Vault, session: str, question: str) -> str:
    """The digest by which the ledger knows a question of a session."""
    return keyed_digest(derive(session_key(vault, session), "digests"), "question", question)
