"""Checks: what verification looks at, and how it says what it found.

Checked by tests/tasks/test_verify.py.
"""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from artifacts.certificate import Certificate
from artifacts.errors import NotVerified
from artifacts.ledger import Ledger
from artifacts.recorded import Recorded, Records
from artifacts.released import Released
from artifacts.sessions import Session


class Check(BaseModel):
    """One thing that was checked, whether it holds, and what was found.

    warning   it holds, and whoever relies on it must know what was found
    faults    names of known vulnerabilities (artifacts.vulnerabilities) that it is about
    """

    model_config = ConfigDict(frozen=True)

    name: str
    ok: bool
    detail: str
    warning: bool = False
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subject:
    """One session and what there is to check about it.

    run     what MLflow has of it: its latest run, or the one asked for; None where it has none
    latest  whether that is the session's latest run, whose files are those now released
    """

    session: Session
    ledger: Ledger
    released: Released
    records: Records
    run: Recorded | None
    latest: bool

    @property
    def published(self) -> bool:
        """Whether anything was certified or tracked; a session that was stopped at the door has labels alone."""
        return self.run is not None or self.released.find(f"{self.session.id}/certificate.json") is not None


def parsed(text: bytes, path: str) -> Certificate:
    """The certificate that a file holds. Raises NotVerified where it is none."""
    try:
        return Certificate.model_validate_json(text)
    except ValidationError:
        raise NotVerified(f"{path} is not a certificate") from None


def equal(what: str, found: object, recorded: object) -> None:
    """Raise NotVerified, naming `what`, where it was found to be other than was recorded."""
    if found != recorded:
        raise NotVerified(f"{what} is {_short(found)}, where it was recorded as {_short(recorded)}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
