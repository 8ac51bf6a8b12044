"""The secret randomness of one session: keyed draws by row, and noise that is kept before anyone sees it."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from artifacts.errors import NotVerified
from artifacts.sessions import Session
from artifacts.vault import Vault, derive, keyed_digest
from tasks.mechanisms import noise
from tasks.mechanisms.voting import Draws, Ints


def session_key(vault: Vault, session: str) -> bytes:
    """The session's secret key. Raises NotVerified where it is gone: a new key would redraw what was drawn."""
    if not vault.has_secret(f"sessions/{session}"):
        raise NotVerified(
            f"the key of session {session} is not in the vault, so nothing more can be drawn: put it back, or ask for "
            "--new-session, which costs again"
        )
    return vault.secret(f"sessions/{session}")


def commitment(vault: Vault, session: str) -> str:
    """What the ledger keeps of the session key: enough to know it again, under any session's name; nothing to draw
    with."""
    return keyed_digest(derive(session_key(vault, session), "commitment"))


def check_key(vault: Vault, session: Session) -> None:
    """Raise NotVerified where the session's key is not the one it was opened with."""
    earlier = keyed_digest(derive(session_key(vault, session.id), "commitment"), session.id)  # an older version's
    if session.commitment not in (commitment(vault, session.id), earlier):
        raise NotVerified(f"the key of session {session.id} in the vault is not the one it was opened with")


@dataclass(frozen=True)
class Randomness:
    """The `tasks.mechanisms.voting.Source` of one session.

    Assumes      the session key never leaves the vault; a row index belongs to one row for ever
    Guarantees   `uniform` gives a row the same draw at every call; `kept` gives what it gave the first time
    Not covered  `laplace` and `gaussian` are fresh at every call: who uses them keeps what they led to.
                 Checked by tests/tasks/test_release.py
    """

    vault: Vault
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
        """The array `draw` gave the first time it was asked for under that name."""
        return self.kept(name, lambda: [draw()])[0]

    def kept(self, name: str, make: Callable[[], Sequence[Ints]]) -> list[Ints]:
        """The arrays `make` gave the first time, durable in the vault before they are returned."""
        kept = self.vault.keep(f"sessions/{self.session}/{name}.npz", lambda: _packed(make()))
        with np.load(io.BytesIO(self.vault.read(kept)), allow_pickle=False) as arrays:
            return [arrays[array] for array in arrays.files]


def _packed(arrays: Sequence[Ints]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, *arrays)
    return buffer.getvalue()
