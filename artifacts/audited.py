"""What an audit of a mechanism found, as it is printed and kept."""

from pydantic import BaseModel


class AuditReport(BaseModel):
    """An empirical lower bound on ε against what is claimed. Public: its votes are made up, the mechanism is known."""

    mechanism: str
    epsilon_claimed: float
    delta: float
    epsilon_lower_bound: float
    confidence: float
    trials: int
    attack: str
    event: str

    @property
    def holds(self) -> bool:
        """Whether the claim stands: nothing above it was proved."""
        return self.epsilon_lower_bound <= self.epsilon_claimed
