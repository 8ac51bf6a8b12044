"""The stores of a home that the door uses."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger


@dataclass(frozen=True)
class Stores:
    """The parts of a home folder that the door uses: the vault, the ledger, and the released files."""

    vault: Vault
    ledger: Ledger
    released: Released

    @classmethod
    def of(cls, home: Path) -> Self:
        """The stores of a home folder. Raises NotVerified if its ledger denies what it holds."""
        return cls(Vault(home / "vault"), Ledger.checked(home), Released(home))
