"""Randomness of a session: its secret key, keyed draws by row, and noise that is stored before anyone sees it.

Without the key nothing more can be drawn. What was made with noise cannot be made again, and is in
sessions/ID/NAME-INDEX.npz.
"""

import io
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.sessions import Draw, Session
from concord.tasks.mechanisms import noise
from concord.tasks.mechanisms.distance import Draws, Ints


def session_key(vault: Vault, session: str) -> bytes:
    """The session's secret key. Raises NotVerified if it is gone: a new key would redraw for rows already answered."""
    if not vault.has_secret(f"sessions/{session}"):
        raise NotVerified(
            f"the key of session {session} is not in the vault, so nothing more can be drawn: restore it, or end the "
            f"session by `concord close {session}`; one more of its kind, by --new-session, costs again"
        )
    return vault.secret(f"sessions/{session}")


def commitment(vault: Vault, session: str) -> str:
    """Digest of the session key for the ledger: it identifies the key, under any session's name, and reveals nothing to
    draw with."""
    return keyed_digest(derive(session_key(vault, session), "commitment"))


def check_key(vault: Vault, session: Session) -> None:
    """Raise NotVerified if the session's key is not the one it was opened with."""
    if session.commitment != commitment(vault, session.id):
        raise NotVerified(f"the key of session {session.id} in the vault is not the one it was opened with")


@contextmanager
def saying(what: str) -> Iterator[None]:
    """The context, whose failures to read a file of the vault say `what` it holds and what to do."""
    try:
        yield
    except NotVerified as wrong:
        raise NotVerified(f"{wrong}; {what}") from None
    except OSError as failed:
        why = f"the vault file {failed.filename} cannot be read ({failed.strerror}); {what}"
        raise EnvironmentFailed(why) from None


@dataclass(frozen=True)
class Randomness:
    """The `tasks.mechanisms.distance.RandomSource` of one session.

    Assumes      the session key never leaves the vault; a row index belongs to one row for ever
    Guarantees   `uniform` gives a row the same draw at every call; `kept` returns the value of its first call, which
                 is in the vault and on record in the ledger before anyone sees it. If it is on record and not in the
                 vault, or another is, nothing is drawn: an older copy of the vault, or a second one, is in use
    Not covered  `laplace` and `gaussian` are fresh at every call: the caller must keep the answers made with them.
                 Checked by tests/tasks/asks/test_votes.py and tests/promises/test_drawn_once.py
    """

    vault: Vault
    ledger: Ledger
    session: str

    def uniform(self, first: int, rows: int) -> Draws:
        """64-bit draws of session-wide rows first … first + rows − 1, by AES-256-CTR under the session key."""
        return noise.keyed_draws(derive(session_key(self.vault, self.session), "draws"), first, rows)

    def laplace(self, scale: float, size: int) -> Ints:
        """Exact discrete Laplace noise from OpenDP."""
        return noise.laplace(scale, size)

    def gaussian(self, scale: float, size: int) -> Ints:
        """Exact discrete Gaussian noise from OpenDP."""
        return noise.gaussian(scale, size)

    def once(self, name: str, draw: Callable[[], Ints]) -> Ints:
        """The array that `draw` gave at its first call under this name."""
        return self.kept(name, lambda: [draw()])[0]

    def kept(self, name: str, make: Callable[[], Sequence[Ints]]) -> list[Ints]:
        """The arrays that `make` gave at its first call under this name, for the batch that is begun.

        Raises NotVerified if they are gone, or are not those on record.
        """
        path = f"sessions/{self.session}/{name}.npz"
        with saying(
            f"it holds noise of session {self.session}, which is not drawn again: restore a copy of it, or end the "
            f"session by `concord close --whole {self.session}`"
        ):
            drawn = self.vault.kept(path)
            if drawn is None and self.ledger.drawn(self.session, name) is not None:
                raise NotVerified(f"the vault file {path} is missing")
        content = self.vault.read(drawn or self.vault.keep(path, _packed(make())))  # no two draws have equal bytes
        key = derive(session_key(self.vault, self.session), "digests")
        self.ledger.record_draw(self.session, Draw(name=name, digest=keyed_digest(key, "draw", content)))
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return [arrays[array] for array in arrays.files[1:]]


def _packed(arrays: Sequence[Ints]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, np.frombuffer(secrets.token_bytes(16), np.uint8), *arrays)
    return buffer.getvalue()
