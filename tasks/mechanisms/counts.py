"""Noisy counts: what Gaussian and Laplace votes share. Whole counts are released, since their argmax costs the same.

Two classes: one count of class 1 a row; class 0 is the rest of the k votes, and k is public. More: every count. Which
noise is added, and what it costs, is each mechanism's own file. Checked by tests/privacy/test_noisy_votes.py.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from artifacts.privacy import Cost
from tasks.mechanisms.accounting import check_budget, least_noise
from tasks.mechanisms.attacks import Attack, one_vote_moved
from tasks.mechanisms.odds import Odds, changed_odds
from tasks.mechanisms.profile import Floats
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


def gaussian_surprisal(scale: float, noise: Ints) -> Floats:
    """Minus the log-likelihood of discrete Gaussian noise, up to a constant."""
    return np.asarray(noise**2 / (2 * scale**2))


@dataclass(frozen=True, kw_only=True)
class NoisyCounts(ABC):
    """Public settings only: nothing held here has seen a vote."""

    name: ClassVar[str]
    keyed: ClassVar[bool] = False
    counts: ClassVar[bool] = True
    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None
    answers: ClassVar[None] = None
    needs: ClassVar[str] = "the number of rows"

    epsilon: float
    delta: float
    queries: int
    classes: int
    scale: float

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, queries: int, classes: int) -> Self:
        """The least noise with which `queries` rows stay within (epsilon, delta)."""
        check_budget(epsilon=epsilon, delta=delta, queries=queries, classes=classes)
        return least_noise(
            lambda scale: cls(epsilon=epsilon, delta=delta, queries=queries, classes=classes, scale=scale)
        )

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What `queries` rows spend at `scale`."""

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
        return Answers(*self.answer(paid, self.noise(source, shape[0] * shape[1]).reshape(shape)))

    @abstractmethod
    def noise(self, source: Source, size: int) -> Ints:
        """`size` fresh draws of the mechanism's noise."""

    @abstractmethod
    def surprisal(self, noise: Ints) -> Floats:
        """Minus the log-likelihood of noise, up to a constant."""

    @abstractmethod
    def distribution(self, at: Floats) -> Floats:
        """Distribution function of the noise at scale 1, as if it were continuous."""

    @abstractmethod
    def quantile(self, at: Floats) -> Floats:
        """The inverse of `distribution`."""

    def epsilon_if_ended(self, asked: int, refused: int) -> float:  # noqa: ARG002
        """ε at `delta` of so many rows at the same scale."""
        return min(self.epsilon, replace(self, queries=asked).cost.epsilon(self.delta))

    def odds(self, votes: Floats) -> Odds:
        """Nothing is refused; noise changes a label if it outweighs the margin."""
        return Odds(np.zeros(len(votes)), changed_odds(votes, self.scale, self.distribution, self.quantile))

    def for_teachers(self, ratio: float) -> Self:  # noqa: ARG002
        """The same: the noise is in votes, not in shares of them."""
        return self

    def attacks(self, classes: int, teachers: int) -> tuple[Attack, ...]:
        """On every row, one vote more for class 0 here and for class 1 there."""
        here, there = one_vote_moved(self.queries, classes, teachers - teachers // 2, teachers)
        labels = np.zeros((self.queries, classes + 1))
        name = f"{self.queries} rows, one vote moved on each"
        return (Attack(name=name, here=here, there=there, labels=labels, surprisal=self.surprisal),)
