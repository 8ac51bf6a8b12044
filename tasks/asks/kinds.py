"""The catalogue for what is published: of each mechanism its proof, what it releases, and what an outcome says.

Publishing asks here by the name that a session has on record, and knows no kind of release by itself.

Assumes      a session's settings are those on record, and its released files are what passed the door
Guarantees   an outcome follows from the released file and the ledger alone
Not covered  whether the guarantee is right: tasks.verify recomputes it. Checked by tests/tasks/asks/test_kinds.py
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from concord.artifacts import kinds
from concord.artifacts.errors import NotVerified
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


class Record(Protocol):
    """What the ledger says of sessions (artifacts.ledger.reading)."""

    def looks_before(self, test: Session) -> int: ...


class Costed(Protocol):
    """A mechanism as publication sees it; one with Gaussian noise has its exact δ at an ε, `delta_at`."""

    name: ClassVar[str]
    proof: ClassVar[str]

    @property
    def cost(self) -> Cost: ...
    @classmethod
    def from_settings(cls, kind: kinds.Kind, /) -> Self: ...


AnyOutcome = AnswerRecord | AnyTested


def answered(session: Session, released: Released, ledger: Record) -> AnswerRecord:  # noqa: ARG001, as the others
    """The answer to a question."""
    return AnswerRecord(**{name: released[name] for name in AnswerRecord.model_fields})


def tested(session: Session, released: Released, ledger: Record) -> AnyTested:
    """A private test, whose figures follow from the released noisy counts and nothing else."""
    return test_figures(session.kind.only(kinds.PrivateTest), released, ledger.looks_before(session))


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


def of_schema(steps: Sequence[Released]) -> tuple[str, ...]:
    """Warnings about columns much of which lies outside the declared schema, by the released tables."""
    return outside_of_schema(steps[0])


def _estimate(found: Measured) -> Estimate:
    return Estimate(**asdict(found))


@dataclass(frozen=True)
class Publication:
    """How the results of a mechanism are published.

    releases  what it releases, in words
    outcome   what a released file says, if each is an answer by itself
    remarks   warnings to users of the student that follow from the session's released files
    """

    mechanism: type[Costed]
    releases: str
    outcome: Callable[[Session, Released, Record], AnyOutcome] | None = None
    remarks: Callable[[Sequence[Released]], tuple[str, ...]] | None = None


VOTES = "labels of public rows, by votes of teachers, each of which learned from a part of the private rows of its own"
COMMON = "an answer that most parts of the private rows have in common, or a refusal"
RUNNING = (
    "noisy running sums over public codes of all units that arrived so far, one release a period: all releases of the "
    "season together, past and future, are within this guarantee for each unit"
)
ONCE = (
    "the rows have no names of units, and a unit is a delivered row: the operator declares that each is delivered once"
)
PUBLISHED = (
    *(Publication(form, COMMON, answered) for form in FORMS.values()),
    Publication(Tallies, "noisy sums over public codes; all else follows from them and public rows", remarks=of_pairs),
    Publication(
        Sketch,
        "noisy one-way and two-way tables of the private rows with their estimated number, and noisy sums of labels; "
        "synthetic rows, which belong to nobody, and all else follow from them and the declared schema, of which it is "
        "assumed, and cannot be checked, that it was not read off private rows",
        remarks=of_schema,
    ),
    Publication(
        Stream,
        f"{RUNNING}, as all seasons of the stream are, since a unit is asked in one of them alone; all else follows "
        "from them",
    ),
    Publication(Universal, "one hypothesis of a class, chosen by its errors on the private rows"),
    Publication(
        PrivateTest,
        "noisy counts of private units by true and named class, or by the errors of a named number and of a constant",
        tested,
    ),
)
KINDS = {kind.mechanism.name: kind for kind in PUBLISHED}
"""The kinds by the names of their mechanisms, besides MECHANISMS, which are of votes."""


def _published(name: str) -> Publication:
    return KINDS.get(name) or Publication(cast("type[Costed]", mechanism_class(name)), VOTES)


def kind_of(session: Session) -> Publication:
    """The kind of a session. Raises NotVerified if Concord has no such mechanism."""
    name, settings = session.kind.name, session.kind
    if isinstance(settings, kinds.Unknown) or (name not in KINDS and name not in MECHANISMS):
        raise NotVerified(
            f"session {session.id} ran {name!r}, which this version of Concord does not know: go on with "
            "the version that opened it"
        )
    kind = _published(name)
    return replace(kind, releases=COMMON, outcome=answered) if _asks_shards(session) else kind


def _asks_shards(session: Session) -> bool:
    """Whether a mechanism of votes answers questions to shards in the session, which then labels no rows."""
    return isinstance(session.kind, kinds.Votes) and session.purpose != LABELS


def delta_of(settings: kinds.Kind, epsilon: float) -> float:
    """A δ at which a session with those recorded settings is proved (epsilon, δ)-differentially private; rounded up. 1
    if nothing is proved at an ε other than their own."""
    if isinstance(settings, kinds.Unknown) or settings.relabel is not None:
        return 1.0
    mechanism = _published(settings.name).mechanism.from_settings(settings)
    proved = [mechanism.cost.delta_at, getattr(mechanism, "delta_at", mechanism.cost.delta_at)]  # the latter: Gaussian
    return min(delta_at(epsilon) for delta_at in proved)


def mechanism_of(session: Session) -> MechanismRecord:
    """The record of a session's mechanism."""
    kind, settings = kind_of(session), session.kind
    proof = f"{kind.mechanism.proof}; {RELABELLED_PROOF}" if settings.relabel else kind.mechanism.proof
    rows = isinstance(settings, kinds.Stream) and not settings.many
    releases = f"{kind.releases}; {ONCE}" if rows else kind.releases
    return MechanismRecord(name=settings.name, settings=session.mechanism, proof=proof, releases=releases)


def outcomes_of(session: Session, files: Iterable[bytes], ledger: Record) -> tuple[AnyOutcome, ...]:
    """What the released files of a session say, if each is an answer by itself. Raises NotVerified if one is none."""
    outcome = kind_of(session).outcome
    try:
        return () if outcome is None else tuple(outcome(session, json.loads(text), ledger) for text in files)
    except (KeyError, TypeError, ValueError):
        raise NotVerified(f"a released file of session {session.id} is not what such a session releases") from None


def remarks_of(session: Session, files: Iterable[bytes]) -> tuple[str, ...]:
    """Warnings to users of the student that follow from a session's files, JSON, in order."""
    remarks = kind_of(session).remarks
    return () if remarks is None else remarks([json.loads(text) for text in files])


def finished_by(session: Session) -> str:
    """The command that finishes a session which a command that was killed, or failed, left charged and not published
    (artifacts.ledger.home_contents); with the words that it is given in place of names."""
    return "concord.ask" if _asks_shards(session) else session.kind.command


def unfinished_in_words(session: Session) -> str:
    """A sentence about a session that is charged and not published."""
    return (
        f"it is charged and not published: `{finished_by(session)}` finishes it and charges nothing more; "
        f"`concord close {session.id}` ends it"
    )
