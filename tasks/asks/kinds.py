"""The catalogue for what is published: of each mechanism its proof, what it releases, and what an outcome says.

Publishing asks here by the settings that a session has on record, and knows no kind of release by itself.

Assumes      a session's settings are those on record, and its released files are what passed the door
Guarantees   an outcome follows from the released file and the ledger alone
Not covered  whether the guarantee is right: tasks.verify recomputes it. Checked by tests/tasks/asks/test_kinds.py
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from concord.artifacts.errors import NotVerified
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.measures import AnyTested
from concord.artifacts.parts import LEARNING
from concord.artifacts.records import AnswerRecord, MechanismRecord
from concord.artifacts.sections import MECHANISMS
from concord.artifacts.sessions import LABELS, STUDENT_TEST, Session
from concord.tasks.data.grid import outside_of_schema
from concord.tasks.mechanisms.catalogue import CATALOGUE, recorded
from concord.tasks.mechanisms.mechanism import PublicSettings
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.mechanisms.queries import COMMON, FORMS
from concord.tasks.mechanisms.relabelled import RELABELLED_PROOF, Relabelled
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student.private_figures import test_figures

ONCE = (
    "the rows have no names of units, and a unit is a delivered row: the operator declares that each is delivered once"
)


def of_pairs(rounds: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Remark that pairs of columns were counted, and which of them the student uses."""
    learned = [following["codes"] for file in rounds if (following := file.get("next")) and "codes" in following]
    pairs = [[field["name"] for field in codes["fields"] if field["kind"] == "pair"] for codes in learned]
    if not any(pairs):
        return ()
    read = f"the student uses {', '.join(pairs[1])}" if len(pairs) > 1 else "none of them is informative"
    return (f"Single columns predict the label poorly, so all pairs of columns were counted, and {read}",)


def check_known(session: Session) -> PublicSettings | Relabelled:
    """The mechanism of a session. Raises NotVerified if Concord has no such mechanism."""
    try:
        return recorded(session.mechanism)
    except NotVerified:
        raise NotVerified(
            f"session {session.id} ran {session.facts.name!r}, which this version of Concord does not know: go on with "
            "the version that opened it"
        ) from None


def asks_shards(session: Session) -> bool:
    """Whether a mechanism of votes answers questions to shards in the session, which then labels no rows."""
    name = session.facts.name
    return name in {form.name for form in FORMS.values()} or (name in MECHANISMS and session.purpose != LABELS)


def delta_of(settings: Mapping[str, Any], epsilon: float) -> float:
    """A δ at which a session with those recorded settings is proved (epsilon, δ)-differentially private; rounded up. 1
    if nothing is proved at an ε other than their own."""
    try:
        mechanism: Any = recorded(settings)
    except NotVerified:
        return 1.0
    if isinstance(mechanism, Relabelled):
        return 1.0
    proved = [mechanism.cost.delta_at, getattr(mechanism, "delta_at", mechanism.cost.delta_at)]  # the latter: Gaussian
    return float(min(delta_at(epsilon) for delta_at in proved))


def mechanism_of(session: Session) -> MechanismRecord:
    """The record of a session's mechanism. Raises NotVerified if Concord has no such mechanism, or certifies none."""
    mechanism = check_known(session)
    inner: Any = mechanism.inner if isinstance(mechanism, Relabelled) else mechanism
    if not inner.releases:
        raise NotVerified(f"session {session.id} is {session.purpose}, which no certificate states")
    proof = f"{inner.proof}; {RELABELLED_PROOF}" if isinstance(mechanism, Relabelled) else inner.proof
    releases = COMMON if asks_shards(session) else inner.releases
    return MechanismRecord(
        name=inner.name,
        settings=session.mechanism,
        proof=proof,
        releases=f"{releases}; {ONCE}" if isinstance(inner, Stream) and not inner.many else releases,
    )


def outcomes_of(session: Session, files: Iterable[bytes], ledger: Reading) -> tuple[AnswerRecord | AnyTested, ...]:
    """What the released files of a session say, if each is an answer by itself. Raises NotVerified if one is none."""
    contents = map(json.loads, files)
    try:
        if session.facts.name == PrivateTest.name:
            test, earlier = PrivateTest.model_validate(session.mechanism), looks_before(ledger, session)
            return tuple(test_figures(test, content, earlier) for content in contents)
        if asks_shards(session):
            return tuple(AnswerRecord(**{name: of[name] for name in AnswerRecord.model_fields}) for of in contents)
    except (KeyError, TypeError, ValueError):
        raise NotVerified(f"a released file of session {session.id} is not what such a session releases") from None
    return ()


def looks_before(ledger: Reading, test: Session) -> int:
    """How many sessions may have touched the units of a test before it was opened, so that its student may have been
    chosen by their outcomes: tests, and sessions of the domain that read units of every part.

    Not counted: sessions of the learning part under the same division as the test; and the session that the student
    learned from, which the certificate shows by itself.
    """
    before = takewhile(lambda session: session.id != test.id, ledger.sessions(test.domain))
    others = [session for session in before if session.id != test.facts.session]
    return sum(ledger.part_of(session.id) != LEARNING or session.division != test.division for session in others)


def private_tests_of(sessions: Iterable[Session], learned: str) -> list[Session]:
    """The sessions that tested a student of session `learned`, in order."""
    return [session for session in sessions if session.purpose == STUDENT_TEST and session.facts.session == learned]


def remarks_of(name: str, files: Iterable[bytes]) -> tuple[str, ...]:
    """Warnings to users of the student that follow from the files, JSON, of a mechanism of that name, in order."""
    match name:
        case Sketch.name:
            return outside_of_schema(json.loads(next(iter(files))))
        case Tallies.name:
            return of_pairs([json.loads(text) for text in files])
    return ()


def finished_by(session: Session) -> str:
    """The command that finishes a session which a command that was killed, or failed, left charged and not published
    (artifacts.ledger.home_contents); with the words that it is given in place of names."""
    return "concord.ask" if asks_shards(session) else CATALOGUE.get(session.facts.name, PublicSettings).command


def unfinished_in_words(session: Session) -> str:
    """A sentence about a session that is charged and not published."""
    return (
        f"it is charged and not published: `{finished_by(session)}` finishes it and charges nothing more; "
        f"`concord {'close' if session.status == 'open' else 'forget'} {session.id}` ends it"
    )
