"""The stores of a home in which a session is kept, and the places where its stages work.

A place is on one side of the door. Private stages work in the vault: they read what was released, as anybody may, and
cannot write it. Public stages work on released files and on the public rows of the vault.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from concord.artifacts.certificate import CERTIFICATE_FILE
from concord.artifacts.home.released import HELD, Released
from concord.artifacts.home.vault import Staged, Vault
from concord.artifacts.ledger.home_contents import PUBLISHING, HomeContents, checked_ledger
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Ref


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

    def discard_held(self, session: str) -> None:
        """Remove the files that were computed for a session's publication and are not published."""
        self.released.discard(f"{HELD}/{session}")

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


@dataclass(frozen=True)
class Place:
    """The place of a stage: its home folder, and the key of its result, which names the files it writes."""

    home: Path
    key: str

    def holds(self, ref: Ref) -> bool:
        """Whether a file that a result refers to still exists. Its content is checked when it is read; that of released
        files now, since another student or certificate of the session may have replaced them."""
        return (self.home / "vault" / ref.path).is_file() or Released(self.home).has(ref)


class PrivatePlace(Place):
    """The place of a stage that works on private rows."""

    @property
    def vault(self) -> Vault:
        """The home's vault."""
        return Vault(self.home / "vault")

    def published(self, ref: Ref) -> bytes:
        """The bytes of a released file, held or published. Raises NotVerified."""
        return Released(self.home).read_any(ref)


class PublicPlace(Place):
    """The place of a stage that works on public and released things alone."""

    @property
    def staged(self) -> Staged:
        """The public rows in the home's vault."""
        return Vault(self.home / "vault").staged

    @property
    def released(self) -> Released:
        """The published files of the home."""
        return Released(self.home)
