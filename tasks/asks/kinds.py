"""The catalogue for what is published: of each mechanism its proof, what it releases, and what an outcome says.

Publishing asks here by the name that a session has on record, and knows no kind of release by itself.

Assumes      a session's settings are those on record, and its released files are what passed the door
Guarantees   an outcome follows from the released file and the ledger alone
Not covered  whether the guarantee is right: tasks.verify recomputes it. Checked by tests/tasks/asks/test_kinds.py
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from concord.artifacts import kinds
from concord.artifacts.errors import NotVerified
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.measures import AnyTested, ClassTested, Estimate, NumberTested, TestRecord
from concord.artifacts.privacy import Cost
from concord.artifacts.records import AnswerRecord, MechanismRecord
from concord.artifacts.schemas import Bounds
from concord.artifacts.sections import MECHANISMS
from concord.artifacts.sessions import LABELS, Session
from concord.tasks.data.grid import outside_of_schema
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.mechanism import mechanism_class
from concord.tasks.mechanisms.private_test import LEVEL, Measured, Measures, Noisy, PrivateTest, measured_error
from concord.tasks.mechanisms.queries import FORMS
from concord.tasks.mechanisms.relabelled import RELABELLED_PROOF
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.mechanisms.tallies import Tallies

MOST_COUNTS_LISTED = 20
"""Most classes for which a certificate lists all noisy counts of a test; the released file always has them."""
Released = Mapping[str, Any]
"""The content of a released file, JSON."""


class Costed(Protocol):
    """A mechanism as publication sees it; one with Gaussian noise has its exact δ at an ε, `delta_at`."""

    name: ClassVar[str]
    proof: ClassVar[str]

    @property
    def cost(self) -> Cost: ...
    @classmethod
    def from_settings(cls, kind: kinds.Kind, /) -> Self: ...


def test_figures(asked: kinds.PrivateTest, released: Released, earlier: int) -> AnyTested:
    """The figures of a private test's released file; see `UnitsTested` for `earlier`."""
    mechanism = PrivateTest.from_settings(asked)
    said = {**asked.model_dump(include={"share", "clean"}), "earlier": earlier, "level": LEVEL}
    if asked.bounds is not None:
        return _number_tested(asked, asked.bounds, released, said)
    matrix, right, wrong = released["matrix"], released["right"], released["wrong"]
    noisy = Noisy.of(mechanism, np.concatenate([[right, wrong], np.ravel(matrix)]).astype(int).tolist())
    found = Measures.of(mechanism, noisy, LEVEL)
    classes = zip(released["classes"], found.recall, found.precision, strict=True)
    of_class = [max(0, sum(row)) for row in matrix]
    return TestRecord(
        **said,
        rows=found.rows,
        accuracy=_estimate(found.accuracy),
        balanced_accuracy=_estimate(found.balanced_accuracy),
        majority=max(of_class) / sum(of_class) if any(of_class) else None,  # by noisy counts
        matrix=tuple(map(tuple, matrix)) if len(matrix) <= MOST_COUNTS_LISTED else None,
        classes=tuple(
            ClassTested(name=name, recall=_estimate(recall), precision=_estimate(precision))
            for name, recall, precision in classes
        ),
    )


def _number_tested(asked: kinds.PrivateTest, bounds: Bounds, released: Released, said: Released) -> NumberTested:
    low, high = bounds

    def error(counts: Sequence[int], scale: float) -> Estimate:
        shares = asdict(measured_error(counts, scale, LEVEL))
        return Estimate(**{end: (high - low) * share for end, share in shares.items()})

    return NumberTested(
        **said,
        rows=max(0, sum(released["errors"])),
        rmse=error(released["errors"], asked.pair_scale),
        constant=asked.constant,
        constant_rmse=error(released["constant_errors"], asked.scale),
    )


def of_pairs(rounds: Sequence[Released]) -> tuple[str, ...]:
    """Remark that pairs of columns were counted, and which of them the student uses."""
    learned = [following["codes"] for each in rounds if (following := each.get("next")) and "codes" in following]
    found = [[field["name"] for field in codes["fields"] if field["kind"] == "pair"] for codes in learned]
    if not any(found):
        return ()
    read = f"the student uses {', '.join(found[1])}" if len(found) > 1 else "none of them is informative"
    return (f"Single columns predict the label poorly, so all pairs of columns were counted, and {read}",)


def _estimate(found: Measured) -> Estimate:
    return Estimate(**asdict(found))


VOTES = "labels of public rows, by votes of teachers, each of which learned from a part of the private rows of its own"
COMMON = "an answer that most parts of the private rows have in common, or a refusal"
RUNNING = (
    "noisy running sums over public codes of all units that arrived so far, one release a period: all releases of the "
    "season together, past and future, are within this guarantee for each unit"
)
ONCE = (
    "the rows have no names of units, and a unit is a delivered row: the operator declares that each is delivered once"
)
RELEASES = {
    **dict.fromkeys((form.name for form in FORMS.values()), COMMON),
    Tallies.name: "noisy sums over public codes; all else follows from them and public rows",
    Sketch.name: (
        "noisy one-way and two-way tables of the private rows with their estimated number, and noisy sums of labels; "
        "synthetic rows, which belong to nobody, and all else follow from them and the declared schema, of which it is "
        "assumed, and cannot be checked, that it was not read off private rows"
    ),
    Stream.name: (
        f"{RUNNING}, as all seasons of the stream are, since a unit is asked in one of them alone; all else follows "
        "from them"
    ),
    Universal.name: "one hypothesis of a class, chosen by its errors on the private rows",
    PrivateTest.name: (
        "noisy counts of private units by true and named class, or by the errors of a named number and of a constant"
    ),
}
"""What a session releases, in words, by its mechanism; those of MECHANISMS release VOTES."""
OTHERS: dict[str, type[Costed]] = {
    each.name: each for each in (*FORMS.values(), Tallies, Sketch, Stream, Universal, PrivateTest)
}
"""The mechanisms by name, besides MECHANISMS, which are of votes."""


def check_known(session: Session) -> None:
    """Raise NotVerified if Concord has no such mechanism as a session ran."""
    name = session.kind.name
    if isinstance(session.kind, kinds.Unknown) or (name not in OTHERS and name not in MECHANISMS):
        raise NotVerified(
            f"session {session.id} ran {name!r}, which this version of Concord does not know: go on with "
            "the version that opened it"
        )


def _mechanism(name: str) -> type[Costed]:
    return OTHERS.get(name) or cast("type[Costed]", mechanism_class(name))


def asks_shards(session: Session) -> bool:
    """Whether a mechanism of votes answers questions to shards in the session, which then labels no rows."""
    return isinstance(session.kind, kinds.Votes) and (session.purpose != LABELS or not session.kind.ends())


def delta_of(settings: kinds.Kind, epsilon: float) -> float:
    """A δ at which a session with those recorded settings is proved (epsilon, δ)-differentially private; rounded up. 1
    if nothing is proved at an ε other than their own."""
    if isinstance(settings, kinds.Unknown) or settings.relabel is not None:
        return 1.0
    mechanism = _mechanism(settings.name).from_settings(settings)
    proved = [mechanism.cost.delta_at, getattr(mechanism, "delta_at", mechanism.cost.delta_at)]  # the latter: Gaussian
    return min(delta_at(epsilon) for delta_at in proved)


def mechanism_of(session: Session) -> MechanismRecord:
    """The record of a session's mechanism. Raises NotVerified if Concord has no such mechanism."""
    check_known(session)
    settings = session.kind
    proof = _mechanism(settings.name).proof
    releases = COMMON if asks_shards(session) else RELEASES.get(settings.name, VOTES)
    return MechanismRecord(
        name=settings.name,
        settings=session.mechanism,
        proof=f"{proof}; {RELABELLED_PROOF}" if settings.relabel else proof,
        releases=f"{releases}; {ONCE}" if isinstance(settings, kinds.Stream) and not settings.many else releases,
    )


def outcomes_of(session: Session, files: Iterable[bytes], ledger: Reading) -> tuple[AnswerRecord | AnyTested, ...]:
    """What the released files of a session say, if each is an answer by itself. Raises NotVerified if one is none."""
    settings, read = session.kind, map(json.loads, files)
    try:
        if isinstance(settings, kinds.PrivateTest):
            return tuple(test_figures(settings, each, ledger.looks_before(session)) for each in read)
        if asks_shards(session):
            return tuple(AnswerRecord(**{name: each[name] for name in AnswerRecord.model_fields}) for each in read)
    except (KeyError, TypeError, ValueError):
        raise NotVerified(f"a released file of session {session.id} is not what such a session releases") from None
    return ()


def remarks_of(session: Session, files: Iterable[bytes]) -> tuple[str, ...]:
    """Warnings to users of the student that follow from a session's files, JSON, in order."""
    match session.kind:
        case kinds.Sketch():
            return outside_of_schema(json.loads(next(iter(files))))
        case kinds.Stream():
            return ()
        case kinds.Tallies():
            return of_pairs([json.loads(text) for text in files])
    return ()


def finished_by(session: Session) -> str:
    """The command that finishes a session which a command that was killed, or failed, left charged and not published
    (artifacts.ledger.home_contents); with the words that it is given in place of names."""
    return "concord.ask" if asks_shards(session) else session.kind.command


def unfinished_in_words(session: Session) -> str:
    """A sentence about a session that is charged and not published."""
    return (
        f"it is charged and not published: `{finished_by(session)}` finishes it and charges nothing more; "
        f"`concord close {session.id}` ends it"
    )
