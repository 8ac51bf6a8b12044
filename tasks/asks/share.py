"""A share: the answer of one of several homes to a question of the lead, at its own door and charge.

    question (signed by the lead) ─ checked ─ bound in the ledger ─ private rows counted ─┃ release ─ share (signed)

The lead may be hostile: it may choose questions adaptively, forge, fork, replay, omit and reorder them. The checks here
keep the home's claim all the same, and show who broke the agreement.

Assumes      the plan, with the keys in it, is what the home's operator agreed to; its own ledger and vault
Guarantees   nothing private is read for a question that is not of this plan, run and number, that follows another
             question or other shares than this home knows, or that its rounds do not pay for; of two questions of a
             number one is answered, ever. A share is a function of the released round, the ledger's excerpt and public
             things alone
Ends         with the last round; a home that left one out takes no further part in the run
Not covered  whether codes were learned from the public table, for a home without it: they cost the same anyway.
             Whether other homes' rows are true. Checked by tests/tasks/asks/test_share.py and test_hostile_lead.py
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field

from concord.artifacts import kinds
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import sha256
from concord.artifacts.home.signing import QUESTION_TYPE, SHARE_TYPE, PublicKey, SigningKey, payload_of
from concord.artifacts.ledger.excerpt import Excerpt, hiding
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Frozen, Passed, Ref, Scaled, canonical_json
from concord.artifacts.sections import HexDigest, HomesPlan, Name, with_removed
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.tasks.asks.tallies import CountedRound, TalliesAsk
from concord.tasks.data.codes import Codes, NumberField
from concord.tasks.data.exchange import Exchange, Posted
from concord.tasks.data.vectors import VectorField
from concord.tasks.door.door import Step, release
from concord.tasks.mechanisms.contributions import LARGEST_WEIGHT, IntegerModel, RoundQuestion
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.homes import Share
from concord.tasks.mechanisms.tallies import STEPS, Tallies

MOST_VIEWS = 2
"""Most fields of a column: a number has a coarse one and a fine one."""
MOST_FIELDS = 1 << 20
"""Most codes of a row: as many weights of 2^40 add up to less than 2^63."""
LARGEST_SUM = 1 << 56
OLDER = "the home was restored from a backup, or a second copy is in use; restore the newer copy"
Whole = Annotated[int, Field(ge=-LARGEST_SUM, le=LARGEST_SUM)]
RunId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
MOST_QUESTIONS = 256
"""Most questions of a run."""
Number = Annotated[int, Field(ge=0, lt=MOST_QUESTIONS)]


class ModelRecord(Frozen):
    """The record of a question's model (tasks.mechanisms.contributions.IntegerModel)."""

    columns: int
    weights: str


class Asked(Frozen):
    """A question to all homes.

    run        128 random bits of the lead, the same for all rounds
    before     digest of the question before; empty for the first
    shares     of each earlier round, the digests of the shares it builds on, by home
    mechanism  the rounds of each home
    fields     which of the codes are asked
    model      the model that is subtracted, if there is one
    until      empty: version 1.0.0 wrote it, and what is signed stays as it was
    """

    format: Literal["concord homes question 1"] = "concord homes question 1"
    run: RunId
    number: Number
    plan: HexDigest
    homes: HomesPlan
    before: str
    shares: tuple[dict[str, HexDigest], ...]
    mechanism: Tallies
    encoding: Encoding
    codes: Codes
    fields: tuple[int, ...]
    model: ModelRecord | None
    until: Literal[""] = ""

    @property
    def question(self) -> RoundQuestion:
        """What is asked of each row. Raises ValueError if it was not paid for."""
        spans = self.codes.spans(self.fields)
        model = None if self.model is None else IntegerModel.from_record(self.model.model_dump())
        return self.mechanism.question(self.number, self.fields, spans, model)


class Answered(Frozen):
    """The share of one home.

    question         digest of the question
    question_before  digest of the one before; empty for the first
    share_before     digest of the home's own share before
    release          how many answers of this run the home gave before
    scale, sums      of the round
    codes            whether the home found the codes of the question in the public table itself
    session          of the home's ledger; `excerpt` has its charge, settings and all other charges of the domain
    """

    format: Literal["concord homes share 1"] = "concord homes share 1"
    run: RunId
    number: Number
    home: Name
    question: HexDigest
    question_before: str
    share_before: str
    release: Number
    codes: Literal["recomputed", "declared"]
    session: str
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    scale: float
    sums: tuple[Whole, ...]
    excerpt: str


Content = TypeVar("Content", Asked, Answered)


@dataclass(frozen=True)
class Letter(Generic[Content]):
    """A signed file: its bytes, by whose digest it is known, and what it says."""

    data: bytes
    content: Content

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return sha256(self.data)

    @classmethod
    def signed(cls, content: Content, key: SigningKey) -> Self:
        """The content, signed."""
        kind = QUESTION_TYPE if isinstance(content, Asked) else SHARE_TYPE
        return cls(key.envelope(kind, content.model_dump_json().encode()), content)

    @classmethod
    def read(cls, data: bytes, of: type[Content], key: str) -> Self:
        """The file with those bytes, whose content is signed by that key in hex. Raises NotVerified if it is not."""
        kind = QUESTION_TYPE if of is Asked else SHARE_TYPE
        payload = payload_of(data, kind, PublicKey(bytes.fromhex(key)))
        try:
            found = of.model_validate_json(payload)
        except Exception:  # whoever signed it may have made it fail in any way
            raise NotVerified("it was signed, and does not hold what Concord writes") from None
        if found.model_dump_json().encode() != payload:
            raise NotVerified("it was signed, and holds other bytes than Concord writes for this content")
        return cls(data, found)


def plan_digest(plan: Plan) -> str:
    """SHA-256 of a plan of homes without the places of tables, which differ between homes."""
    said = plan.model_dump(mode="json", exclude={"folder": True, "data": {"private", "public", "test"}})
    return hashlib.sha256(canonical_json(with_removed(said)).encode()).hexdigest()


def homes_of(plan: Plan) -> HomesPlan:
    """The plan's homes. Raises WrongInput if it has none."""
    if plan.homes is None:
        raise WrongInput("homes must be given in the plan: without [homes], `concord run` it")
    return plan.homes


def questions_in(exchange: Exchange, plan: Plan) -> tuple[dict[int, Letter[Asked]], dict[str, str]]:
    """The lead's questions of one run of the plan, by number; and the files that are no questions, by name with the
    reason.

    Raises NotVerified if the lead signed two questions of a number, or of several runs: nobody else can.
    """
    homes, agreed = homes_of(plan), plan_digest(plan)
    found, refused = dict[int, Letter[Asked]](), dict[str, str]()
    for file in exchange.files():
        if file.home:
            continue
        try:
            letter = Letter.read(exchange.read(file.name), Asked, homes.lead_key)
            asked = letter.content
            if asked.plan != agreed:
                raise NotVerified("it is of another plan than this one")
            if asked.number != file.number:
                raise NotVerified(f"its number is {asked.number}")
        except NotVerified as wrong:
            refused[file.name] = f"it is not a question of the lead: {wrong}"
            continue
        if asked.number in found and found[asked.number].data != letter.data:
            raise NotVerified(f"the lead signed two questions of number {asked.number}, one of them in {file.name}")
        if any(asked.run != other.content.run for other in found.values()):
            raise NotVerified(f"{file.name} is of another run than the rest: a run has a folder of its own")
        found[asked.number] = letter
    return found, refused


def share_in(exchange: Exchange, homes: HomesPlan, file: Posted) -> Letter[Answered]:
    """A home's share in a file. Raises NotVerified if it cannot be believed; without a home of that name, unread."""
    if file.home not in homes.names:
        raise NotVerified(f"the plan has no home {file.home!r}")
    letter = Letter.read(exchange.read(file.name), Answered, homes.key_of(file.home))
    if (letter.content.number, letter.content.home) != (file.number, file.home):
        raise NotVerified("it was signed as another home's, or of another number")
    return letter


def check_asked(
    asked: Asked, plan: Plan, name: str, own: Mapping[int, Letter[Answered]], before: Mapping[int, str]
) -> Share:
    """Check a question in all that needs nothing private, and return what this home's rounds cost.

    own      this home's shares of the run so far, by the number of the question
    before   the digests of the questions that are on record, likewise
    Raises NotVerified with the first thing wrong.
    """
    homes, data, number = homes_of(plan), plan.data, asked.number
    if asked.plan != plan_digest(plan) or asked.homes != homes:
        raise NotVerified("the question is of another plan, or of other homes and keys, than this one")
    if number >= asked.mechanism.queries:
        raise NotVerified(f"the question is number {number}, and the run has rounds 0 to {asked.mechanism.queries - 1}")
    _check_follows(asked, name, own, before)
    terms = plan.privacy.epsilon, plan.privacy.delta, len(data.classes), STEPS, "rows", data.unit is not None
    given = asked.mechanism
    if (given.epsilon, given.delta, given.classes, given.steps, given.secret, given.many) != terms:
        raise NotVerified("the question has another budget, other classes or units than the plan")
    _check_encoding(asked, plan)
    try:
        share = Share(**{field.name: getattr(given, field.name) for field in fields(Tallies)})
        question, delta = asked.question, share.delta_at(share.epsilon)
    except Exception as wrong:  # the lead may have made it fail in any way
        raise NotVerified(f"the question is not one that its round paid for: {wrong}") from None
    if not delta <= share.delta:
        raise NotVerified(f"the rounds have too little noise for ε = {share.epsilon:g} and δ = {share.delta:g}")
    if question.model is not None and len(question.model.weights) != asked.codes.size:
        raise NotVerified(
            f"the model must have a weight, at most {LARGEST_WEIGHT}, for each of {asked.codes.size} codes"
        )
    return share


def _check_follows(asked: Asked, name: str, own: Mapping[int, Letter[Answered]], before: Mapping[int, str]) -> None:
    """Raise NotVerified unless a question follows the ones that this home answered."""
    number = asked.number
    if number != len(own):
        raise NotVerified(
            f"the question is number {number}, and {name} has answered {len(own)} of this run: a home that left one "
            "out takes no further part in it"
        )
    if asked.before != before.get(number - 1, "") or len(asked.shares) != number:
        raise NotVerified("the question does not follow the one that this home answered before")
    if [each.get(name) for each in asked.shares] != [own[at].digest for at in range(number)]:
        raise NotVerified(f"the question builds on other shares of {name} than it gave, or leaves one out")


def _check_encoding(asked: Asked, plan: Plan) -> None:
    """Raise NotVerified unless encoding and codes are of the plan's columns, and every cell has a code of its field."""
    encoding, data, codes = asked.encoding, plan.data, asked.codes
    said = encoding.label, encoding.classes, encoding.bounds, encoding.unit, encoding.format
    if said != (data.label, data.classes, data.bounds, data.unit, data.format):
        raise NotVerified("the question has another label, classes, unit or format than the plan")
    columns = {column.name: column for column in encoding.columns}
    named = {*columns} == {*data.features} if data.features else not {*columns} & {data.label, data.unit}
    if not named or len(columns) != len(encoding.columns):
        raise NotVerified("the question has other features than the plan")
    if not 1 <= codes.width <= MOST_FIELDS:
        raise NotVerified("the question has no codes, or too many")
    most, views = max(Counter(field.name for field in codes.fields).items(), key=itemgetter(1))
    if views > MOST_VIEWS:
        raise NotVerified(
            f"the question must have at most {MOST_VIEWS} fields of a column, and has {views} of {most!r}"
        )
    for part in (*encoding.columns, *codes.fields):
        if isinstance(part, Scaled | VectorField) and part.low > part.high:
            raise NotVerified(f"the low end of {part.name!r} must not be above its high end")
    for field in codes.fields:
        column = columns.get(field.name)
        kind = "list" if isinstance(field, VectorField) else field.kind
        if column is None or column.kind != kind:
            raise NotVerified(f"the codes of {field.name!r} are of no such column")
        if isinstance(field, NumberField) and list(field.cuts) != sorted({*field.cuts}):
            raise NotVerified(f"the cuts of {field.name!r} must rise")
        stored = (column.size, column.element) if isinstance(column, Passed) else None
        if isinstance(field, VectorField) and stored != (field.length, field.element):
            raise NotVerified(f"the vectors of {field.name!r} are of another length or type than their column")


@dataclass(frozen=True)
class ShareAsk(TalliesAsk):
    """The rounds of one home in one run.

    agreed   what it stands for: run, plan, home, its key, and the encoding of rows
    """

    agreed: Mapping[str, str]

    purpose: ClassVar[str] = "a share"

    def settings(self) -> dict[str, Any]:
        """The settings of the mechanism, the codes, and the agreement that the home answers under."""
        return {**super().settings(), "queries": self.queries, "share": dict(self.agreed)}

    def depends(self, plan: Plan) -> dict[str, Any]:  # noqa: ARG002, since its digest is among them
        """The run, the plan, the home and its key."""
        return {"share": dict(self.agreed)}

    @classmethod
    def of(cls, asked: Asked, share: Share, name: str, key: str) -> Self:
        """The session in which a home answers the run of a question."""
        agreed = {"run": asked.run, "plan": asked.plan, "home": name, "key": key, "encoding": asked.encoding.digest}
        return cls(share, asked.codes.digest, (), agreed, bounds=asked.encoding.bounds)

    def answer(
        self,
        stores: Stores,
        session: Session,
        letter: Letter[Asked],
        blocks: Sequence[Ref],
        codes: Literal["recomputed", "declared"],
    ) -> bytes:
        """Draw the home's share for a question once, keep it, and sign it; or replay it. Returns the signed file.

        blocks   exact sums, as `tasks.asking.tally.count` wrote them
        codes    as in `Answered`
        Raises NotVerified if question, sums or key are not those on record.
        """
        asked, number, question = letter.content, letter.content.number, letter.content.question
        said = {"question": f"round {number} of the run {asked.run}", "code": letter.digest, "outcome": "answered"}

        def follow(noisy: Ints) -> dict[str, Any]:
            return {**said, "answer": sha256(canonical_json(noisy.tolist()).encode()), "asked": question.record()}

        def steps() -> Iterator[Step[Ints]]:  # made at the door, which checks the key before sums are read
            yield CountedRound(self.mechanism, number, question, blocks).step(stores, session, follow)

        (file,) = release(stores, session, steps())
        released = json.loads(stores.released.read(file))
        if released["code"] != letter.digest:
            raise NotVerified("the released round answers another question")
        domain, own = stores.ledger.domain_of(session), own_shares(stores, session)[:number]

        def made() -> bytes:
            excerpt = Excerpt.of(stores.ledger.records(), domain.name, {session.id: number + 1}, hiding(stores.vault))
            content = Answered(
                run=asked.run,
                number=number,
                home=self.agreed["home"],
                question=letter.digest,
                question_before=asked.before,
                share_before=sha256(own[-1]) if own else "",
                release=number,
                codes=codes,
                session=session.id,
                epsilon=session.epsilon,
                delta=session.delta,
                unit=domain.unit,
                neighbours=domain.neighbours,
                scale=self.mechanism.rounds[number].scale,
                sums=tuple(released["sums"]),
                excerpt=excerpt.text.decode(),
            )
            return Letter.signed(content, SigningKey.of(stores.vault)).data

        return stores.vault.read(stores.vault.keep(_share_path(session.id, number), made))


def sessions_of_run(ledger: Ledger, domain: str, name: str, **of: str) -> list[Session]:
    """The sessions in which that home answered, of a `run` or a `plan`."""
    due = {"home": name, **of}.items()

    def agreed(kind: kinds.Kind) -> bool:
        return isinstance(kind, kinds.Share) and due <= kind.share.model_dump().items()

    return [session for session in ledger.sessions(domain) if agreed(session.kind)]


def bind(ledger: Ledger, domain: str, asked: Asked, digest: str) -> None:
    """Record that this is the run's question of its number. Raises NotVerified if another one is on record."""
    ledger.remark(domain, "bound", f"{asked.run} {asked.number} {digest}")


def bound(ledger: Ledger, domain: str, run: str) -> dict[int, str]:
    """The digests of the questions of a run that are on record, by number."""
    about = (remark.about.split(" ") for remark in ledger.remarks(domain) if remark.kind == "bound")
    return {int(number): digest for of, number, digest in about if of == run}


def own_shares(stores: Stores, session: Session) -> list[bytes]:
    """The signed shares that a session gave, in order, as they were kept. Raises NotVerified if one is gone."""
    found = list[bytes]()
    for batch in stores.ledger.batches(session.id):
        kept = stores.vault.take(_share_path(session.id, batch.index))
        if kept is not None:
            found.append(kept[1])
        elif batch.outcome is not None and batch.index + 1 < session.batches:
            raise NotVerified(f"the vault lacks share {batch.index} of session {session.id}: restore a copy of it")
    return found


def check_own(stores: Stores, exchange: Exchange, homes: HomesPlan, name: str) -> None:
    """Raise NotVerified if the exchange holds a share that this home signed and its ledger does not know."""
    for file in exchange.files():
        if file.home != name:
            continue
        try:
            letter = share_in(exchange, homes, file)
        except NotVerified:  # somebody else's words
            continue
        if not _knows(stores, letter):
            raise NotVerified(f"{file.name} was signed by this home, and its ledger does not know of it: {OLDER}")


def _knows(stores: Stores, letter: Letter[Answered]) -> bool:
    """Whether the ledger knows of a share, which may be of an earlier run; of a session that is forgotten nothing but
    its name is left to compare."""
    share = letter.content
    for domain in stores.ledger.domains():
        gone = stores.ledger.forgotten(domain.name)
        for session in sessions_of_run(stores.ledger, domain.name, share.home, run=share.run):
            if session.id == share.session and (session.id in gone or letter.data in own_shares(stores, session)):
                return True
    return False


def _share_path(session: str, number: int) -> str:
    return f"sessions/{session}/share-{number:05d}.json"
