"""A mechanism: one value that carries everything about a way to answer votes.

A new mechanism is a file of its own, a line of `artifacts.sections.MECHANISMS`, and its independent recomputation in
`tasks.recompute`. Shown by tests/privacy/test_new_mechanism.py, which adds one.
"""

from typing import Any, Protocol, Self

from artifacts.privacy import Cost
from tasks.mechanisms.attacks import Attack
from tasks.mechanisms.odds import Odds
from tasks.mechanisms.profile import Floats
from tasks.mechanisms.voting import Answers, Ints, Source


class Mechanism(Protocol):
    """A way to answer votes. Fields are public settings; nothing held here has seen a private row."""

    # What it is -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What plans and the ledger call it."""

    @property
    def proof(self) -> str:
        """Where its guarantee is proved, as the certificate says it: a file of this project, and the literature."""

    def settings(self) -> dict[str, Any]:
        """Its public settings as JSON, enough to rebuild and certify it: calibration inputs and what they gave."""

    # How it runs ------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Whether its answers follow from the session key alone, so that a retry needs no stored noise."""

    @property
    def counts(self) -> bool:
        """Whether it releases noisy counts, from which a regressor learns more than from their labels."""

    def release(self, votes: Ints, source: Source, first: int, refused: int) -> Answers:
        """Answer a batch: votes (rows, classes), its first session-wide row, and the refusals before it."""

    # How it pays and ends ---------------------------------------------------------------------------------------------

    @property
    def cost(self) -> Cost:
        """What it will have spent at its end, computed from the very settings that run."""

    @property
    def per_refusal(self) -> Cost | None:
        """What one refusal is charged when the session is settled by what happened; None: charged whole."""

    @property
    def cutoff(self) -> int | None:
        """Refusals until it halts; None if it does not pay by refusal."""

    @property
    def queries(self) -> int | None:
        """Rows it may answer at most; None if the stream may be endless."""

    def epsilon_if_ended(self, asked: int, refused: int) -> float:
        """ε at its δ, had it been planned to end after `asked` rows of which `refused` were refused."""

    # What to expect of it ---------------------------------------------------------------------------------------------

    @property
    def answers(self) -> int | None:
        """Rows it may release at most; None if that many are not counted."""

    @property
    def needs(self) -> str:
        """What must be fixed before it is asked."""

    def odds(self, votes: Floats) -> Odds:
        """Odds by row of votes (rows, classes), each row from the largest count down."""

    def for_teachers(self, ratio: float) -> Self:
        """The same settings for so many times the teachers."""

    def attacks(self, classes: int, teachers: int) -> tuple[Attack, ...]:
        """The attacks an audit tries on it, whose shares add to one; `teachers` is how many vote on a row."""
