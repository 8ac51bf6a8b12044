"""Laplace votes (LNMax): release every row's counts with exact discrete Laplace noise, and their argmax.

Two classes: one count of class 1 a row; class 0 is the rest of the k votes, and k is public. More: every count.

Privacy statement
    Assumes      each privacy unit reaches one teacher; all k teachers vote on every row, so that a row of votes sums
                 to k; scale, rows and `queries` are fixed or chosen from released things alone
    Guarantees   (epsilon, delta) for all counts of all rows together, against any adaptive asker
    Ends         at `queries` rows; the last batch is cut there
    Not covered  the data-dependent ε of the paper: it is itself private, and is neither used nor reported

Proof. One unit changes one teacher, so a row is at most `shifts` counts that move by one, each under noise of its own.
The loss of discrete Laplace noise shifted by one is (|z − 1| − |z|) / scale, which is 1/scale or −1/scale and nothing
between, with the odds of randomised response of ε = 1/scale: the cost is that of queries · shifts such responses, with
equality. Halving it, not charging 2/scale a row at once, is what Rényi and optimal composition gain from. ∎
Source: Papernot et al. 2017 (scale 1/γ on each count); composition: Kairouz, Oh & Viswanath 2015.
Checked by tests/privacy/test_laplace_votes.py: exact δ on worst neighbours, and planted bugs.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from artifacts.privacy import Cost
from tasks.mechanisms.accounting import check_budget, least_noise
from tasks.mechanisms.noisy_votes import noises, noisy_labels, shifts
from tasks.mechanisms.voting import Answers, Ints, Source


@dataclass(frozen=True, kw_only=True)
class LaplaceVotes:
    """Public settings only: nothing held here has seen a vote."""

    name: ClassVar[str] = "laplace_votes"
    keyed: ClassVar[bool] = False
    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None

    epsilon: float
    delta: float
    queries: int
    classes: int
    scale: float

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, queries: int, classes: int) -> "LaplaceVotes":
        """The least noise with which `queries` rows stay within (epsilon, delta)."""
        check_budget(epsilon=epsilon, delta=delta, queries=queries, classes=classes)

        def at(scale: float) -> "LaplaceVotes":
            return cls(epsilon=epsilon, delta=delta, queries=queries, classes=classes, scale=scale)

        return least_noise(at)

    @property
    def cost(self) -> Cost:
        """Randomised response of ε = 1/scale, once for every count that may move."""
        return Cost.approximate(1 / self.scale, times=self.queries * shifts(self.classes))

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Self:
        """The mechanism that `settings` was taken from."""
        return cls(**{key: value for key, value in settings.items() if key != "name"})

    def settings(self) -> dict[str, Any]:
        """Its public settings as JSON: the keywords it is built from, and its name."""
        return {"name": self.name, **asdict(self)}

    def answer(self, votes: Ints, noise: Ints) -> tuple[Ints, Ints]:
        """Labels (rows,) and whole noisy counts (rows, classes) given noise (rows, noises(classes))."""
        return noisy_labels(votes, noise)

    def release(self, votes: Ints, source: Source, first: int, refused: int) -> Answers:  # noqa: ARG002
        """Answer a batch with fresh noise, up to the last row paid for."""
        paid = votes[: max(0, self.queries - first)]
        shape = len(paid), noises(self.classes)
        return Answers(*self.answer(paid, source.laplace(self.scale, shape[0] * shape[1]).reshape(shape)))
