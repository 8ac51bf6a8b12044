"""The stores of a home in which a session is kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from concord.artifacts.certificate import CERTIFICATE_FILE
from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Staged, Vault
from concord.artifacts.ledger.home_contents import PUBLISHING, HomeContents
from concord.artifacts.ledger.ledger import Ledger


def checked_ledger(home: Path, kind: type[Ledger] = Ledger) -> Ledger:
    """The ledger of a home folder, for callers that rely on its content. Raises NotVerified if it contradicts the
    home's files."""
    contents, ledger = HomeContents(home), kind.of(home)
    contents.check(ledger)
    return ledger


class Public(Protocol):
    """The part of the stores that publication needs: the ledger, the released files, and the public rows."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def released(self) -> Released: ...
    @property
    def staged(self) -> Staged: ...


@dataclass(frozen=True)
class Stores:
    """The parts of a home folder in which sessions are kept: the vault, which is private, the ledger, and the released
    files."""

    vault: Vault
    ledger: Ledger
    released: Released

    @classmethod
    def of(cls, home: Path, kind: type[Ledger] = Ledger) -> Self:
        """The stores of a home folder. Raises NotVerified if its ledger denies what it holds."""
        return cls(Vault(home / "vault"), checked_ledger(home, kind), Released(home))

    @property
    def staged(self) -> Staged:
        """The public rows in the vault."""
        return self.vault.staged

    @property
    def unpublished(self) -> set[str]:
        """The sessions that are charged and not published, which are finished before a further one is opened."""
        return HomeContents(self.released.root.parent).unpublished(self.ledger)

    @contextmanager
    def publishing(self, session: str) -> Iterator[None]:
        """Publish a session within the context. If it is for the first time and the context does not end, as if it is
        killed before MLflow shows the session, a mark in the vault says so until it is published again."""
        mark = f"sessions/{session}/{PUBLISHING}"
        if self.released.find(f"{session}/{CERTIFICATE_FILE}") is None:
            with self.vault.create(mark):
                pass
        yield
        if (self.vault.root / mark).exists():
            self.vault.destroy(mark)
