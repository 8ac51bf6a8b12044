"""Mirror: MLflow shows every session that was certified, also after what it held is gone.

The ledger and the released files say what happened; MLflow repeats it. So a store that was deleted, or that failed when
a session was to be recorded, is made good from them: nothing is drawn, asked or spent again.

Assumes      whoever records a session holds its lock RUN, so that it is recorded once
Guarantees   a session is recorded again only if its certificate, its labels and its guarantee verify; a run that shows
             the same files is not made twice
Not covered  forgotten sessions, whose public rows are gone; estimates and audits, which no released file tells of, and
             answers to questions, which `concord.ask` records again
             Checked by tests/flows/test_mlflow_lost.py
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from concord.artifacts.errors import NotVerified
from concord.artifacts.mlflow.write import Tracking
from concord.artifacts.privacy import Cost
from concord.artifacts.sections import MECHANISMS
from concord.artifacts.sessions import Session
from concord.tasks.door.checkpoint import read_checkpoint, stream
from concord.tasks.door.release import RUN, Stores, alone_if_free
from concord.tasks.mechanisms.mechanism import from_settings
from concord.tasks.publish.certify import write
from concord.tasks.publish.track import track
from concord.tasks.verify.checks import parsed
from concord.tasks.verify.verify import verify

NEEDED_CHECKS = ("released labels", "guarantee", "certificate")
"""The checks of `tasks.verify.verify` that a session must pass to be recorded again, besides those of the ledger."""


def not_recorded(door: Stores, tracking: Tracking) -> list[Session]:
    """Sessions that were certified and that MLflow does not show."""
    ledger, shown = door.ledger, tracking.sessions(here=True)
    sessions = [session for domain in ledger.domains() for session in ledger.sessions(domain.name)]
    certified = [session for session in sessions if door.released.find(f"{session.id}/certificate.json")]
    return [session for session in certified if session.kind == "labels" and session.id not in shown]


def record_missing(home: Path, tracking: Tracking) -> Iterator[tuple[str, str | None]]:
    """Record what MLflow lacks: each session, and why it could not be recorded, if so.

    One that another command goes on with is left to that. Raises EnvironmentFailed if MLflow fails.
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


def _record(home: Path, door: Stores, session: Session, tracking: Tracking) -> None:
    _check(home, session)
    recipe, path = read_checkpoint(door.vault, session.id), f"{session.id}/certificate.json"
    if recipe is None:
        raise NotVerified(f"session {session.id} keeps no public rows: it was forgotten")
    certificate = parsed((door.released.root / path).read_bytes(), path)
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
    checks = {check.name: check for check in verify(home, session.id)}
    for name in ("ledger chain", "ledger rule", *(f"{session.id}: {needed}" for needed in NEEDED_CHECKS)):
        if name not in checks or not checks[name].ok:
            raise NotVerified(f"`concord verify {session.id}` finds a fault of the {name.rpartition(': ')[2]}")


def _per_refusal(session: Session) -> Cost | None:
    """What one refusal of the session costs, as its mechanism says; None if it is charged whole."""
    settings = session.mechanism
    if not session.teachers or "relabel" in settings or settings["name"] not in MECHANISMS:
        return None
    return from_settings(settings).per_refusal
