"""Locks of a home: of a session, of an identity that is being opened, and of a domain.

The kernel frees a lock when its process ends for any reason.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from concord.artifacts.home.atomic import locked
from concord.artifacts.home.vault import Vault

RUN = "run.lock"
"""The lock of a whole command on a session; the door has its own."""


@contextmanager
def alone(vault: Vault, session: str, lock: str = "lock") -> Iterator[None]:
    """Hold a lock of the session; the kernel frees it when the process ends for any reason."""
    with locked(vault.root / "sessions" / session / lock):
        yield


@contextmanager
def opening(vault: Vault, identity: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Let only one command at a time open a session of an identity and pass its door; the others continue that session.

    waiting   called before this waits for another command
    """
    path = vault.root / "locks" / f".{identity}"  # no domain has such a name
    with locked(path, wait=False) as free:
        if free:
            yield
            return
    waiting()
    with locked(path):
        yield


@contextmanager
def a_run_in(vault: Vault, domain: str) -> Iterator[None]:
    """Shared lock of a run in the domain: other runs may go on, but nothing of the domain is erased meanwhile."""
    with locked(vault.root / "locks" / domain, shared=True):
        yield


@contextmanager
def no_run_in(vault: Vault, domain: str) -> Iterator[None]:
    """Exclusive lock of the domain: wait until no run of it goes on, and let new ones wait."""
    with locked(vault.root / "locks" / domain):
        yield
