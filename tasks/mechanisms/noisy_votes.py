"""Noisy votes: release every row's counts with exact discrete Gaussian noise, and their argmax.

Two classes: one count of class 1 a row; class 0 is the rest of the k votes, and k is public. More: every count.

Privacy statement
    Assumes      each privacy unit reaches one teacher; all k teachers vote on every row, so that a row of votes sums
                 to k; scale, rows and `queries` are fixed or chosen from released things alone
    Guarantees   (epsilon, delta) for all counts of all rows together, against any adaptive asker, and Rényi α·ρ at
                 every order α, ρ = queries · shifts / (2·scale²)
    Ends         at `queries` rows; the last batch is cut there
    Not covered  replacing one unit by another (two steps); the labels cost the same as the counts, which are released

Proof. One unit changes one teacher, whose vote on a row moves from one class to another: two counts move by one, each
under noise of its own, or the one count where there are two classes. So a row is at most `shifts` discrete Gaussians
shifted by one, ρ adds over rows (Canonne, Kamath & Steinke 2020, Prop. 5; Bun & Steinke 2016), and the sharper δ is
accounting.py's. Everything released is a function of the noisy counts. ∎
Source: PATE-PSQ (Liu, Zhu, Chaudhuri & Wang 2021); GNMax (Papernot et al. 2018), with the counts kept.
Checked by tests/privacy/test_noisy_votes.py: exact δ on worst neighbours, and planted bugs.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from artifacts.privacy import Cost
from tasks.mechanisms.accounting import check_budget, gaussian_delta, least_noise
from tasks.mechanisms.voting import Answers, Ints, Source


def noises(classes: int) -> int:
    """Draws of noise a row: one count tells both where there are two classes."""
    return 1 if classes == 2 else classes


def shifts(classes: int) -> int:
    """How many of a row's released counts move, by one each, when one teacher changes its vote."""
    return 1 if classes == 2 else 2


def noisy_labels(votes: Ints, noise: Ints) -> tuple[Ints, Ints]:
    """Labels (rows,) and whole noisy counts (rows, classes) of votes (rows, classes) given noise (rows, noises).

    The label is the class of the largest noisy count, the lowest of equals.
    """
    rows, classes = votes.shape
    if noise.shape != (rows, noises(classes)):
        raise ValueError(f"noise must be {rows, noises(classes)} for votes {rows, classes}, got {noise.shape}")
    counts = votes.astype(np.int64)
    if classes == 2:
        counts += noise * np.array([-1, 1])
    else:
        counts += noise
    return counts.argmax(axis=1), counts


@dataclass(frozen=True, kw_only=True)
class NoisyVotes:
    """Public settings only: nothing held here has seen a vote."""

    name: ClassVar[str] = "noisy_votes"
    keyed: ClassVar[bool] = False
    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None

    epsilon: float
    delta: float
    queries: int
    classes: int
    scale: float

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, queries: int, classes: int) -> "NoisyVotes":
        """The least noise with which `queries` rows stay within (epsilon, delta)."""
        check_budget(epsilon=epsilon, delta=delta, queries=queries, classes=classes)

        def at(scale: float) -> "NoisyVotes":
            return cls(epsilon=epsilon, delta=delta, queries=queries, classes=classes, scale=scale)

        return least_noise(at)

    @property
    def cost(self) -> Cost:
        """ρ-zero-concentrated, and the budget itself where the exact δ at `scale` is within it."""
        moved = self.queries * shifts(self.classes)
        proved = gaussian_delta(self.epsilon, moved, self.scale) <= self.delta
        claims = ((self.epsilon, self.delta),) if proved else ()
        return replace(Cost.gaussian(moved / (2 * self.scale**2)), claims=claims)

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
        return Answers(*self.answer(paid, source.gaussian(self.scale, shape[0] * shape[1]).reshape(shape)))
