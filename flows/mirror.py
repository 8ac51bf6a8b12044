"""The mirror in MLflow: it shows every certified session, also after its store was lost.

The ledger and the released files are the record; MLflow repeats them. So if a store was deleted, or failed when a
session was to be recorded, its runs are made again from them: nothing is drawn, asked or spent again.

Assumes      whoever records a session holds its lock RUN, so that it is recorded once
Guarantees   every run asks MLflow, except a replay whose last answer is still valid (artifacts.mlflow.last_answer). A
             session is recorded again only if its certificate, its labels and its guarantee verify; a run that shows
             the same files is not made twice
Not covered  forgotten sessions, whose public rows are gone; estimates and audits, of which there is no released file;
             answers to questions and counts, which `concord.ask` and `concord count` record again
             Checked by tests/flows/test_mlflow_lost.py
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from concord.artifacts.certificate import Certificate, Certified
from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.mlflow.describe import Tracked
from concord.artifacts.mlflow.last_answer import LastAnswer
from concord.artifacts.privacy import Cost
from concord.artifacts.sessions import LABELS, Session
from concord.flows.console import err
from concord.tasks.door.checkpoint import read_checkpoint, stream
from concord.tasks.door.locks import RUN, alone_if_free
from concord.tasks.door.stores import Stores
from concord.tasks.mechanisms.mechanism import from_settings
from concord.tasks.publish.certify import write
from concord.tasks.publish.track import digests_of, session_of, track

if TYPE_CHECKING:
    from concord.artifacts.mlflow.write import Tracking

NEEDED_CHECKS = ("released labels", "guarantee", "certificate")
"""The checks of `tasks.verify.verify` that a session must pass to be recorded again, besides those of the ledger."""


def mirrored(
    door: Stores,
    domain: str,
    certified: Certified,
    record: Callable[["Tracking"], Tracked],
    *,
    again: bool,
    ready: Callable[[Path], None] | None,
) -> tuple[Tracked, bool]:
    """The session's place in MLflow, recorded now if it is missing; and whether it was there.

    again   record it even if it is there
    ready   in a replay, makes MLflow ready; it is not called, nor MLflow asked, if its last answer is still valid. None
            if MLflow is ready
    Raises EnvironmentFailed if MLflow fails.
    """
    home, session, digests = door.released.root.parent, session_of(certified), digests_of(certified)
    question = {"domain": domain, "files": digests, "certified": [session.id for session in to_be_shown(door)]}
    last = LastAnswer(home, door.vault, session, question)
    if ready and (known := last.still_true()) is not None:
        return known, True
    from concord.artifacts.mlflow.write import Tracking  # takes a second, which a replay mostly saves

    if ready:
        ready(home)
    with _still_certified(door, session):
        tracking = Tracking.of(home)
        known, there = tracking.find(domain, session, digests), not again
        if known is None or again:
            known, there = record(tracking), False
    lacking = not_recorded(door, tracking)
    for missing, wrong in record_missing(home, Tracking.of(home)) if lacking else ():
        result = "is recorded again" if wrong is None else f"is not there and cannot be recorded: {wrong}"
        err.print(f"{'MLflow':>8} session {missing} {result}")
    last.keep(lambda: None if lacking else tracking.find(domain, session, digests))
    return known, there


@contextmanager
def _still_certified(door: Stores, session: str) -> Iterator[None]:
    """Add to failures of MLflow that the session is certified and nothing is lost."""
    try:
        yield
    except EnvironmentFailed as failed:
        raise EnvironmentFailed(
            f"session {session} is certified, its files are in {door.released.root}, and it is not recorded: "
            f"{failed}; once that is mended, the same command records it and spends nothing"
        ) from None


def to_be_shown(door: Stores) -> list[Session]:
    """The certified sessions, all of which MLflow should show."""
    ledger, released = door.ledger, door.released
    sessions = [session for domain in ledger.domains() for session in ledger.sessions(domain.name)]
    labelled = [session for session in sessions if session.purpose == LABELS]
    return [session for session in labelled if released.find(f"{session.id}/certificate.json")]


def not_recorded(door: Stores, tracking: "Tracking") -> list[Session]:
    """The certified sessions that MLflow does not show."""
    sessions = to_be_shown(door)
    shown = tracking.shown(sessions)
    return [session for session in sessions if session.id not in shown]


def record_missing(home: Path, tracking: "Tracking") -> Iterator[tuple[str, str | None]]:
    """Record the sessions that MLflow lacks; yields each with the reason why it could not be recorded, or None.

    A session in use by another command is left to that. Raises EnvironmentFailed if MLflow fails.
    """
    door = Stores.of(home)
    for session in not_recorded(door, tracking):
        with alone_if_free(door.vault, session.id, RUN) as free:
            if not free:
                continue
            try:
                _record(home, door, session, tracking)
            except NotVerified as wrong:
                yield session.id, str(wrong)
            else:
                yield session.id, None


def _record(home: Path, door: Stores, session: Session, tracking: "Tracking") -> None:

    _check(home, session)
    recipe, path = read_checkpoint(door.vault, session.id), f"{session.id}/certificate.json"
    if recipe is None:
        raise NotVerified(f"session {session.id} keeps no public rows: it was forgotten")
    certificate = Certificate.read((door.released.root / path).read_bytes(), path)
    per_refusal, classes = _per_refusal(session), recipe.plan.data.classes
    certified = write(
        certificate, classes, per_refusal=per_refusal, ledger=door.ledger, released=door.released, vault=door.vault
    )
    track(
        recipe.plan,
        certified,
        recipe.encoding,
        stream(recipe.sources),
        per_refusal=per_refusal,
        started=datetime.now(UTC),
        studied=datetime.now(UTC),
        vault=door.vault,
        ledger=door.ledger,
        released=door.released,
        tracking=tracking,
    )


def _check(home: Path, session: Session) -> None:
    from concord.tasks.verify.verify import verify  # as above

    checks = {check.name: check for check in verify(home, session.id)}
    for name in ("ledger chain", "ledger rule", *(f"{session.id}: {needed}" for needed in NEEDED_CHECKS)):
        if name not in checks or not checks[name].ok:
            raise NotVerified(f"`concord verify {session.id}` finds a fault of the {name.rpartition(': ')[2]}")


def _per_refusal(session: Session) -> Cost | None:
    """The cost of one refusal, from the session's mechanism; None if it is charged whole."""
    if not session.teachers or session.relabelled:
        return None
    return from_settings(session.mechanism).per_refusal
