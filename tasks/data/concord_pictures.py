"""What a student of square pictures needs and scikit-learn lacks: this file travels with it, and imports nothing of
Concord.

    levels 0 … 255 ─ gradients, part by part ─ their main components ─ a network ─ a score for each class

Gradients are whole numbers, by rules that look at one picture alone: views of private pictures are made of the same
(concord.tasks.data.vectors). Its type is known as `concord_pictures.Pictures`, wherever the file lies; within Concord
it answers to that name too.

Not covered  pictures in colour. Checked by tests/tasks/data/test_pictures.py
"""

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.neural_network import MLPRegressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

NAME = "concord_pictures"
LARGEST = (1 << 15) - 1
"""Of a feature."""
PARTS = 7
"""Parts of a picture along a side; features are of two by two of them, which overlap."""
TURNS = 8
"""Directions of a gradient."""
FEATURES = (PARTS + 1) ** 2 * TURNS
LEAST_SIDE = 2 * PARTS
SHIFTS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
"""Down and to the right, in pixels: a picture is learned at each of these places."""
AT_A_TIME = 2048


class Pictures(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Networks of one hidden layer that learn class scores of square pictures by their gradients; their mean answers.

    Each picture is learned as it is and moved by a pixel each way. In the first lesson a network learns the scores. In
    each later one it learns the class that the network before it gives each picture: scores of whole cells are wrong
    for some of their pictures, and what a network makes of all cells is wrong for fewer. How many steps are taken does
    not depend on how many pictures there are.

    hidden       units of the hidden layer
    components   of the gradients, of largest variance
    steps        of Adam, of `batch` pictures each, for each network
    lessons      one after another; 1: the scores are learned as they are
    members      networks that take the last lesson, and answer
    """

    def __init__(
        self,
        hidden: int = 512,
        components: int = 100,
        steps: int = 1500,
        batch: int = 200,
        alpha: float = 1e-4,
        lessons: int = 2,
        members: int = 2,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.components = components
        self.steps = steps
        self.batch = batch
        self.alpha = alpha
        self.lessons = lessons
        self.members = members
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "Pictures":
        """Learn scores y (rows, classes) of pictures X (rows, side²), from 0 to 1. Raises ValueError if none are."""
        levels, lesson, draw = levels_of(X), np.asarray(y), check_random_state(self.random_state)
        self.mean_, self.basis_ = main_components(levels, self.components)
        seen = np.concatenate([self._components(moved(levels, *by)) for by in SHIFTS])
        for _ in range(self.lessons - 1):
            answers = self._learned(seen, lesson, draw).predict(seen[: len(levels)])
            lesson = np.eye(lesson.shape[1])[answers.argmax(axis=1)]
        self.networks_ = [self._learned(seen, lesson, draw) for _ in range(self.members)]
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores (rows, classes)."""
        check_is_fitted(self)
        components = self._components(levels_of(X))
        scores = np.mean([network.predict(components) for network in self.networks_], axis=0, dtype=np.float64)
        return np.asarray(scores.reshape(len(components), -1))

    def _learned(self, seen: Floats, lesson: Any, draw: np.random.RandomState) -> MLPRegressor:
        """A network that learned the lesson (rows, classes) of components: of all rows at each place in turn."""
        passes = math.ceil(self.steps / math.ceil(len(seen) / self.batch))
        network = MLPRegressor(
            hidden_layer_sizes=(self.hidden,),
            alpha=self.alpha,
            batch_size=min(self.batch, len(seen)),
            max_iter=passes + 2,
            tol=1e9,  # no pass improves the loss by this much: training ends after n_iter_no_change + 2
            n_iter_no_change=max(1, passes - 2),
            random_state=int(draw.randint(2**31 - 1)),
        )
        return network.fit(seen, np.tile(lesson, (len(SHIFTS), 1)))

    def layer(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights (FEATURES, hidden) and biases (hidden,) by which gradients become the first member's hidden layer."""
        network = self.networks_[0]
        weights = self.basis_.astype(np.float64) @ network.coefs_[0]
        return weights, network.intercepts_[0] - self.mean_.astype(np.float64) @ weights

    def _components(self, levels: Ints) -> Floats:
        return np.concatenate([(part - self.mean_) @ self.basis_ for part in _gradients_of(levels)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def main_components(levels: Ints, most: int) -> tuple[Floats, Floats]:
    """Mean (FEATURES,) of pictures' gradients, and their components (FEATURES, most), each over the root of its sd."""
    total, square = np.zeros(FEATURES), np.zeros((FEATURES, FEATURES))
    for part in _gradients_of(levels):
        doubles = part.astype(np.float64)
        total += doubles.sum(axis=0)
        square += doubles.T @ doubles
    mean = total / len(levels)
    variance, basis = np.linalg.eigh(square / len(levels) - np.outer(mean, mean))
    sd = np.sqrt(np.maximum(variance[::-1][:most], 1))
    return mean.astype(np.float32), (basis[:, ::-1][:, :most] / np.sqrt(sd * sd[0])).astype(np.float32)


def levels_of(X: Any) -> Ints:
    """Levels 0 … 255 of numbers from 0 to 1, in 255ths. Raises ValueError unless rows are square pictures."""
    levels = np.rint(255 * np.clip(np.asarray(X, dtype=np.float64), 0, 1)).astype(np.int64)
    if levels.ndim != 2 or side_of(levels.shape[1]) < LEAST_SIDE:
        raise ValueError(f"rows must be square pictures of {LEAST_SIDE} by {LEAST_SIDE} and more, and nothing else")
    return levels


def moved(levels: Ints, down: int, right: int) -> Ints:
    """Pictures (rows, side²) moved by a pixel at most; what moves in is 0."""
    side = side_of(levels.shape[1])
    wide = np.pad(levels.reshape(-1, side, side), ((0, 0), (1, 1), (1, 1)))
    return wide[:, 1 - down : 1 - down + side, 1 - right : 1 - right + side].reshape(levels.shape)


def gradients(levels: Ints) -> Ints:
    """Of square pictures (rows, side²): roots of 16 times the gradients that turn each way, in overlapping parts."""
    rows, side = len(levels), side_of(levels.shape[1])
    picture = levels.reshape(rows, side, side)
    across, down = np.zeros_like(picture), np.zeros_like(picture)
    across[:, :, 1:-1] = picture[:, :, 2:] - picture[:, :, :-2]
    down[:, 1:-1] = picture[:, 2:] - picture[:, :-2]
    turn = 4 * (across < 0) + 2 * (down < 0) + (np.abs(across) < np.abs(down))
    part = np.arange(side) * PARTS // side
    place = ((np.arange(rows)[:, None, None] * PARTS + part[:, None]) * PARTS + part) * TURNS + turn
    strength = root(across**2 + down**2)
    # bincount adds doubles; these are whole and far below 2^53, so sums are exact
    summed = np.bincount(place.ravel(), strength.ravel(), rows * PARTS * PARTS * TURNS).astype(np.int64)
    parts = summed.reshape(rows, PARTS, PARTS, TURNS)
    joined = np.zeros((rows, PARTS + 1, PARTS + 1, TURNS), np.int64)
    for right, low in ((0, 0), (0, 1), (1, 0), (1, 1)):
        joined[:, right : right + PARTS, low : low + PARTS] += parts
    return np.minimum(root(16 * joined), LARGEST).reshape(rows, -1)


def root(numbers: Ints) -> Ints:
    """⌊√x⌋ of whole numbers below 2^52: a double's root is rounded correctly, so it is no whole number too high."""
    return np.sqrt(numbers.astype(np.float64)).astype(np.int64)


def side_of(length: int) -> int:
    """Of a square picture; 0 if it is none."""
    side = math.isqrt(length)
    return side if side * side == length else 0


def _gradients_of(levels: Ints) -> Any:
    """Gradients as floats, so many pictures at a time."""
    return (gradients(levels[at : at + AT_A_TIME]).astype(np.float32) for at in range(0, len(levels), AT_A_TIME))


Pictures.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])
