"""What a home holds of its sessions, and what of it the ledger denies.

A ledger that was deleted, emptied, cut back or edited, or another one named by mistake, can have an intact chain and
keep its rule. Only the home shows that it is wrong: by the sessions of which it holds files or records, and by what its
certificates say.

Assumes      a session's checkpoint is in the vault when its first row is asked, its folder in `released` afterwards;
             the ledger says a thing before a certificate does
Guarantees   named: a session that the home holds and the ledger does not; a certificate whose cap the domain never had,
             which counts a session with another claim, or as ended when it is open, or counts more answers or refusals
             than were committed. Every command that uses the ledger stops at each (`checked_ledger`)
Not covered  a session of which no trace is left; whether the certificate or the ledger was edited, which its signature
             tells (tasks.verify)
             Checked by tests/artifacts/ledger/test_home_contents.py
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from concord.artifacts.errors import NotVerified
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.sessions import Session
from concord.artifacts.settings import Settings, own_ledger

PUBLISHING = "publishing"
"""The file of a session's folder in the vault that stands there while the session is published for the first time."""
MOST_NAMED = 5
"""Sessions, files or faults that are named; the others are counted."""
AGAIN = "the ledger was deleted, emptied, cut back or edited, or CONCORD_LEDGER names another: restore the right one"


class HomeContents:
    """What a home holds when this is made: make it before the ledger is read, since files come after their entries.

    places   its sessions, by where it holds them
    """

    def __init__(self, home: Path, tracked: Iterable[str] = ()) -> None:
        """`tracked`: the sessions that MLflow shows, if they are all of this home."""
        vault, released = home / "vault", home / "released"
        self.places: Mapping[str, set[str]] = {
            "released files": _folders(released, "*/*"),
            "vault": _folders(vault / "sessions", "*/recipe.json"),
            "MLflow": set(tracked),
        }
        self._begun = {path.name for path in (vault / "secrets" / "sessions").glob("*")}
        self._publishing = _folders(vault / "sessions", f"*/{PUBLISHING}")
        self._shared = Settings.now().ledger_of(home) != own_ledger(home)
        self._answers = _folders(released, "*/estimate.json")  # which no certificate names
        self._certificates: dict[str, Any] = {}
        for path in released.glob("*/certificate.json"):
            with suppress(OSError, ValueError):  # what is no certificate says nothing
                self._certificates[path.parent.name] = json.loads(path.read_bytes())

    def unknown(self, ledger: Reading) -> set[str]:
        """The sessions that the home holds and the ledger does not know."""
        return set().union(*self.places.values()) - _known(ledger).keys()

    def others(self, ledger: Reading) -> set[str]:
        """Sessions that the ledger knows and this home never opened: a ledger on a server may serve several homes."""
        return _known(ledger).keys() - self._begun.union(*self.places.values()) if self._shared else set()

    def unpublished(self, ledger: Reading) -> set[str]:
        """The sessions of this home that are charged, could go on, and were not published whole: a command that opened
        one was killed, or failed, before its end."""
        sessions = [*_known(ledger).values()]
        published = self._answers - {session.id for session in sessions if session.pending is not None}
        for name in self._certificates.keys() - self._publishing:
            with suppress(LookupError, TypeError):  # what is no certificate says nothing
                # It has no files of a test that is charged and not drawn.
                published |= {record["session"] for record in self._certificates[name]["sessions"] if record["files"]}
        going_on = {session.id for session in sessions if session.status != "closed"}
        return (going_on & self._begun) - (published - self._publishing)

    def check(self, ledger: Reading) -> None:
        """Raise NotVerified, naming it, if the ledger denies something that the home holds."""
        if denied := [*self.denied_by(ledger)]:
            raise NotVerified(f"{'; '.join(denied[:MOST_NAMED])}: {AGAIN}")

    def denied_by(self, ledger: Reading) -> Iterator[str]:
        """A sentence for each thing that the home holds and the ledger denies."""
        sessions_there = _known(ledger)
        lost = {where: sessions - sessions_there.keys() for where, sessions in self.places.items()}
        if any(lost.values()):
            places = (f"{where}: {named(sessions)}" for where, sessions in lost.items() if sessions)
            yield f"{'; '.join(places)}, which the ledger does not know"
        if never := {name for name in self._answers if name in sessions_there and not sessions_there[name].batches}:
            yield f"released files: an estimate of {named(never)}, which the ledger never began"
        for name in sorted(self._certificates.keys() & sessions_there):
            with suppress(LookupError, TypeError):  # what is no certificate says nothing
                for wrong in _denied(self._certificates[name], sessions_there, ledger):
                    yield f"the certificate of {name} {wrong}"


def checked_ledger(home: Path, kind: type[Ledger] = Ledger) -> Ledger:
    """The ledger of a home folder, for callers that rely on its content. Raises NotVerified if it contradicts the
    home's files."""
    contents, ledger = HomeContents(home), kind.of(home)
    contents.check(ledger)
    return ledger


def _known(ledger: Reading) -> dict[str, Session]:
    return {session.id: session for domain in ledger.domains() for session in ledger.sessions(domain.name)}


def _denied(certificate: Any, sessions: Mapping[str, Session], ledger: Reading) -> Iterator[str]:
    domain = certificate["domain"]
    cap = domain["cap"]["epsilon"], domain["cap"]["delta"]
    if cap not in ledger.caps(domain["name"]):
        yield f"has the cap ε = {cap[0]:g}, δ = {cap[1]:g}, which domain {domain['name']} never had by the ledger"
    for record in certificate["sessions"]:
        counts, session_there = record["counts"], sessions.get(record["session"])
        for what in ("answered", "refused") if session_there else ():
            if counts[what] > getattr(session_there, what):
                yield f"counts {counts[what]} {what}, and the ledger has {getattr(session_there, what)}"
    for charge in domain["charges"]:
        session = sessions.get(charge["session"])
        if session is None or (session.epsilon, session.delta) != (charge["epsilon"], charge["delta"]):
            yield f"counts session {charge['session']} with a claim that it has not by the ledger"
        elif session.status == "open" != charge["status"]:
            yield f"counts session {session.id} as {charge['status']}, and by the ledger it is open"


def _folders(root: Path, pattern: str) -> set[str]:
    """The names of the folders below `root` that hold such a file."""
    return {path.relative_to(root).parts[0] for path in root.glob(pattern)}


def named(things: set[str]) -> str:
    """Sessions or files in words; of many, the number."""
    more = f" and {len(things) - MOST_NAMED} more" if len(things) > MOST_NAMED else ""
    return f"{', '.join(sorted(things)[:MOST_NAMED])}{more}"
