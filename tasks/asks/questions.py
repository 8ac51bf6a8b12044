"""Questions to shards: release the answer that they have in common, or refuse.

A question is a step of its session. A single question has a session of its own, which ends with it
(A_stab); a stream of questions shares a session that pays by refusal (stable.py). If a question is asked again by its
name, its released answer is replayed. One that was only begun is answered again from the stored answers of the shards,
with the same randomness: shards are not asked twice, so a function that is not deterministic changes nothing.

Assumes      answers are those of `tasks.units.teachers`: one a shard, of disjoint shards
Guarantees   a question is drawn for once, after it was paid for, and its file has the same bytes however often this
             runs; the answers of shards stay in the vault, and are destroyed when the session is forgotten
Ends         with the session: after its one question, or at the cutoff
Not covered  a ledger restored from an older copy. Two questions with the same name and
             different code are detected if both codes are known, values included; if not, a replay warns. Checked by
             tests/tasks/asks/test_questions.py and tests/promises/test_canary_kinds.py
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.tasks.asking.questions import Question, answer_of, forking_helper
from concord.tasks.door.ask import Ask
from concord.tasks.door.door import Drawn, Step, batch_of, digest_in, publish_json
from concord.tasks.door.exact import Exact
from concord.tasks.mechanisms.calibration import calibrated_stable
from concord.tasks.mechanisms.queries import FORMS, SingleRelease
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.units.provenance import read_made
from concord.tasks.units.teachers import answer

ANSWER_FORMAT = "concord answer 2"
ANSWER_FILE = "answers/answer-{:05d}.json"
"""Path of the released answer to a question, below its session's folder."""


@dataclass(frozen=True)
class QuestionTerms:
    """The terms of a question, as in `concord.ask`: a single one in this form of A_stab, or with a cutoff one of a
    stream.

    epsilon   its budget, or that of the stream; None for the plan's, which also has δ
    Raises WrongInput if there is no such form, if it is given beside a cutoff, or if epsilon or cutoff is no number.
    """

    epsilon: float | None
    form: str
    cutoff: int | None
    new_session: bool

    def __post_init__(self) -> None:
        for name, given, kind in (("epsilon", self.epsilon, Real), ("cutoff", self.cutoff, Integral)):
            if not isinstance(given, kind | None):
                raise WrongInput(f"{name} must be a {'whole ' * (kind is Integral)}number, got {given!r}")
        if self.form not in FORMS:
            raise WrongInput(f"form must be one of {', '.join(FORMS)}, got {self.form!r}")
        if self.cutoff is not None and self.form != "optimal":
            raise WrongInput(
                f"form is of a question by itself: with cutoff={self.cutoff}, leave out form={self.form!r}"
            )


@dataclass(frozen=True)
class QuestionsAsk(Ask[SingleRelease | StableVoting]):
    """Questions to that many shards; `question` is the name of the only one, if there is only one."""

    question: str | None
    shards: int

    purpose: ClassVar[str] = "questions"

    @classmethod
    def of(cls, plan: Plan, question: Question, order: float, terms: QuestionTerms) -> "QuestionsAsk":
        """A question of a plan on these terms; `order` is the Rényi order of its domain. Raises WrongInput."""
        spend = float(plan.privacy.epsilon if terms.epsilon is None else terms.epsilon)  # NumPy would round as its own
        delta = plan.privacy.delta
        if (cutoff := terms.cutoff) is None:
            return cls(FORMS[terms.form].calibrate(epsilon=spend, delta=delta), question.name, plan.teachers.count)
        if cutoff < 1 or not 0 < spend < float("inf"):
            raise WrongInput(f"a stream of questions needs a cutoff of at least 1 and ε > 0, got {cutoff} and {spend}")
        stream = calibrated_stable(epsilon=spend, delta=delta, cutoff=cutoff, order=order)
        return cls(stream, None, plan.teachers.count)

    @property
    def teachers(self) -> int:
        """Number of shards."""
        return self.shards

    def settings(self) -> dict[str, Any]:
        """The settings of the mechanism, and the question's name."""
        alone = {} if self.question is None else {"question": self.question}
        return {**self.mechanism.model_dump(mode="json"), **alone}

    def depends(self, plan: Plan) -> dict[str, Any]:
        """How units are spread over shards, and the settings."""
        return {
            "secret": plan.privacy.secret,
            "public_share": plan.data.public_share,
            "shards": self.shards,
            "questions": self.settings(),
        }

    def steps(self, stores: Stores, session: Session, name: str) -> Iterator[Step]:
        """The question of that name, answered from the stored answers of shards, or its released file; before it, one
        that was begun by a process that is gone. Raises NotVerified if stored answers are gone."""
        for pending in _pending(stores, session.id):
            yield self._step(pending)
        recorded = batch_of(stores, session.id, name)
        if recorded is not None and recorded.outcome is not None:
            yield self._step(ShardAnswers(name, "", None))
            return
        kept = stores.vault.find(answers_path(stores.vault, session.id, name))
        if kept is None:
            raise NotVerified(f"what shards answered to question {name!r} of session {session.id} is not in the vault")
        yield self._step(ShardAnswers.read(stores.vault, kept))

    def _step(self, stored: "ShardAnswers") -> Step:
        return Step(
            question=stored.question,
            exact=None if stored.file is None else Exact("answers", ((stored.file,),)),
            publish=publish_json,
            about=stored,
            draw="answer-{:05d}",
            path=ANSWER_FILE,
        )


@dataclass(frozen=True)
class ShardAnswers:
    """A question that was put to shards: its name, its code, and the file of the answers; None once it is released."""

    question: str
    code: str
    file: Ref | None

    @classmethod
    def read(cls, vault: Vault, ref: Ref) -> "ShardAnswers":
        """What a file of the vault holds the answers to."""
        kept = json.loads(bytes(read_made(ref, vault)[1]))
        return cls(kept["question"], kept["code"], ref)

    def result(self, drawn: Drawn) -> dict[str, Any]:
        """The released answer as JSON."""
        (answered,), text = drawn.arrays
        answer = json.loads(bytes(text.astype(np.uint8))) if answered else None
        return {
            "format": ANSWER_FORMAT,
            "mechanism": drawn.session.facts.name,
            "question": self.question,
            "code": self.code,
            "shards": drawn.session.teachers,
            "outcome": "refused" if not answered else "no answer" if answer is None else "answered",
            "answer": answer,
        }


def ask_shards(stores: Stores, session: str, question: Question, blocks: Sequence[Ref], encoding: Encoding) -> Ref:
    """Ask every shard of these blocks a question that is not begun yet, and store their answers in place of earlier
    ones."""
    path, about = answers_path(stores.vault, session, question.name), {"question": question.name, "code": question.code}
    with forking_helper() as helper:
        return answer(partial(answer_of, helper, question.portable), blocks, encoding, stores.vault, path, about)


def check_code(question: Question, released: bytes, session: str) -> bool:
    """Whether the answer released under a question's name is known to come from the same code. Raises WrongInput if it
    came from other code."""
    code = json.loads(released)["code"]
    if code and question.code and code != question.code:
        raise WrongInput(
            f"question {question.name!r} was asked in session {session} by other code, and its answer stands: a "
            "question that has changed needs another name, and costs again"
        )
    return bool(code and question.code)


def _pending(stores: Stores, session: str) -> Iterator[ShardAnswers]:
    """The stored answers of a question that was begun and not released. Raises NotVerified if they are gone."""
    state = stores.ledger.session(session)
    if state.status != "open" or state.pending is None:
        return
    folder = f"sessions/{session}/questions"
    for file in sorted((stores.vault.root / folder).glob("*.json")):
        kept = stores.vault.find(f"{folder}/{file.name}")
        stored = None if kept is None else ShardAnswers.read(stores.vault, kept)
        if stored and digest_in(stores, session, "question", stored.question) == state.pending.question_digest:
            yield stored
            return
    raise NotVerified(f"session {session} has a question begun, and what shards answered to it is not in the vault")


def answers_path(vault: Vault, session: str, question: str) -> str:
    """Where the answers of shards to a question lie in the vault."""
    return f"sessions/{session}/questions/{vault.digest('question', question)[:32]}.json"
