"""Vectors: a vector of numbers, such as an image, as the nearest of public centres, in whole numbers alone.

    cells ─ levels 0 … 255 ─┬─ values: the levels themselves
                            └─ gradients: how much of the picture turns which way, part by part ─┐
                                             (a layer, learned from released labels) ────────────┴─ the nearest centre,
                                                                                                    the first of equals

Centres are found among public rows by k-means in whole numbers, so that the same rows give the same centres on any
machine. A row's distances are matrix products of whole numbers in doubles: each sum of absolutes is below 2^53, so they
are exact in any order, and no row changes another's cell by one bit, for any number of threads. A layer is computed
once, in floating point, from public rows and released labels; it is rounded to whole numbers, published, and used so.

Assumes      cells are cast (tasks.data.cells): lists of one length without null elements, or null
Guarantees   a row has exactly one cell, whatever its list holds: NaN and infinite elements count as the least level,
             missing lists have a cell of their own
Not covered  gradients of pictures in colour or not square: only their values are compared
             Checked by tests/tasks/data/test_vectors.py and, alone against in company, tests/privacy/test_row_alone.py
"""

from base64 import b64decode, b64encode
from functools import lru_cache
from typing import Annotated, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import Element, Frozen, Passed
from concord.tasks.data.concord_pictures import FEATURES, LARGEST, LEAST_SIDE, Pictures, gradients, root, side_of

Ints = NDArray[np.int64]
Bias = Annotated[int, Field(ge=-(2**40), le=2**40)]

LEVELS = 256
LONGEST_VECTOR = 1 << 20
"""Elements of a vector: the product of two such, each below 2^15, stays below 2^50."""
ROWS_AT_A_TIME = 2048
MEANS_ROUNDS = 15
"""Rounds of k-means."""
SEED = 20_261_122


class Layer(Frozen):
    """A hidden layer in whole numbers: the positive part of gradients · weights + biases, scaled to length LARGEST.

    weights   (FEATURES, hidden), as 16 bits each in base 64
    """

    weights: str
    biases: Annotated[tuple[Bias, ...], Field(min_length=1, max_length=4096)]

    @property
    def hidden(self) -> int:
        """Number of hidden units."""
        return len(self.biases)

    @model_validator(mode="after")
    def every_gradient_has_its_weights(self) -> Self:
        """Products must be whole numbers that doubles hold."""
        if numbers_in(self.weights, self.hidden).shape != (FEATURES, self.hidden):
            raise ValueError(f"a layer needs {FEATURES} weights for each bias")
        return self

    def of(self, features: Ints) -> Ints:
        """The layer (rows, hidden) of features (rows, FEATURES), each 0 to LARGEST."""
        weights = numbers_in(self.weights, len(self.biases)).astype(np.float64)
        products = (features.astype(np.float64) @ weights).astype(np.int64)  # whole, and Σ|x||w| < 2^39: exact
        hidden = np.maximum(0, products + np.array(self.biases, np.int64))
        even = hidden * LARGEST // np.maximum(1, hidden.max(axis=1, keepdims=True))
        return np.asarray(even * LARGEST // np.maximum(1, root((even**2).sum(axis=1, keepdims=True))))


class VectorField(Frozen):
    """A vector, by the nearest of `centres`: code start + its number. The last code is that of a missing cell.

    low, high   values of levels 0 and 255
    layer       layer applied to gradients before they are compared
    centres     whole numbers (cells, features), as 16 bits each in base 64
    """

    kind: Literal["vector"] = "vector"
    name: str
    start: int
    view: Literal["values", "gradients"]
    element: Element
    length: Annotated[int, Field(ge=1, le=LONGEST_VECTOR)]
    low: float
    high: float
    layer: Layer | None = None
    centres: str

    @model_validator(mode="after")
    def distances_are_exact(self) -> Self:
        """Products of features and centres must be whole numbers that doubles hold."""
        if self.view == "gradients" and (self.element != "uint8" or side_of(self.length) < LEAST_SIDE):
            raise ValueError(f"gradients are of square pictures of {LEAST_SIDE} by {LEAST_SIDE} bytes and more")
        if self.layer is not None and self.view != "gradients":
            raise ValueError(f"a layer is of gradients, got one of {self.view}")
        centres = self.points
        if not len(centres) or centres.min() < 0:
            raise ValueError("a vector needs centres, whose numbers are not below 0")
        return self

    @property
    def points(self) -> Ints:
        """The centres (cells, features)."""
        return numbers_in(self.centres, self.layer.hidden if self.layer else _features(self.view, self.length))

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.points) + 1

    def of(self, cells: pl.Series) -> NDArray[np.int32]:
        """The code (rows,) of each cell."""
        there, points = cells.is_not_null().to_numpy(), self.points
        codes = np.full(len(cells), self.size - 1, dtype=np.int64)
        held, places = cells.drop_nulls(), np.flatnonzero(there)
        for first in range(0, len(held), ROWS_AT_A_TIME):
            rows = slice(first, first + ROWS_AT_A_TIME)
            codes[places[rows]] = nearest(self.features(held[rows].to_numpy()), points)
        return (self.start + codes).astype(np.int32)

    def features(self, vectors: NDArray[np.generic]) -> Ints:
        """Features (rows, features), each 0 to LARGEST, by which vectors (rows, length) are compared, or their levels
        0 … 255 themselves: one element by another, NaN and infinite ones the least."""
        if vectors.dtype == np.uint8:
            levels = vectors.astype(np.int64)
        else:
            numbers = np.where(np.isfinite(vectors.astype(np.float64)), vectors.astype(np.float64), self.low)
            scaled = (np.clip(numbers, self.low, self.high) - self.low) / ((self.high - self.low) or 1.0)
            levels = np.minimum(np.floor(scaled * LEVELS), LEVELS - 1).astype(np.int64)
        if self.view == "values":
            return levels
        return gradients(levels) if self.layer is None else self.layer.of(gradients(levels))


def learn_view(column: Passed, cells: pl.Series, start: int, most: int) -> VectorField:
    """The view of a column of vectors with at most `most` centres, from cast public cells. Raises WrongInput."""
    vectors = cells.drop_nulls().to_numpy()
    if not len(vectors) or column.size > LONGEST_VECTOR:
        raise WrongInput(f"{column.name!r} must hold vectors of at most {LONGEST_VECTOR} numbers in data.public")
    finite = vectors[np.isfinite(vectors)].astype(np.float64)
    low, high = (0.0, 255.0) if column.element == "uint8" else (float(finite.min()), float(finite.max()))
    square = column.element == "uint8" and side_of(column.size) >= LEAST_SIDE
    field = VectorField(
        name=column.name,
        start=start,
        view="gradients" if square else "values",
        element=column.element,
        length=column.size,
        low=low,
        high=high,
        centres=written(np.zeros((1, _features("gradients" if square else "values", column.size)), np.int64)),
    )
    return _centred(field, vectors, most)


def learn_layer(field: VectorField, cells: pl.Series, scores: NDArray[np.float64], most: int) -> VectorField:
    """The field with the hidden layer of a network that learned `scores` (rows, classes) of cast public cells, and at
    most `most` centres. It is computed in floating point, so later uses must read the published one."""
    there = cells.is_not_null().to_numpy()
    vectors = cells.drop_nulls().to_numpy()
    # fewer units than a student has: the layer is published, and every private row passes through it
    network = Pictures(hidden=256, components=64, members=1, random_state=SEED)
    weights, biases = network.fit(vectors / np.float32(LEVELS - 1), scores[there]).layer()
    unit = LARGEST / np.abs(weights).max()
    whole = np.clip(np.rint(biases * unit), -(2**40), 2**40).astype(np.int64).tolist()
    layer = Layer(weights=written(np.rint(weights * unit).astype(np.int64)), biases=tuple(whole))
    return _centred(field.model_copy(update={"layer": layer}), vectors, most)


def _centred(field: VectorField, vectors: NDArray[np.generic], most: int) -> VectorField:
    features = np.concatenate(
        [field.features(vectors[at : at + ROWS_AT_A_TIME]) for at in range(0, len(vectors), ROWS_AT_A_TIME)]
    )
    return VectorField(**{**dict(field), "centres": written(centres_of(features, most))})


def nearest(features: Ints, points: Ints) -> Ints:
    """Index (rows,) of the point nearest to each row, the first of equals."""
    products = features.astype(np.float64) @ points.T.astype(np.float64)  # whole, and Σ|x||c| < 2^53: exact
    return np.asarray(np.argmin((points**2).sum(axis=1) - 2 * products.astype(np.int64), axis=1))


def centres_of(features: Ints, most: int) -> Ints:
    """At most `most` centres of the rows (rows, features), by k-means++ and MEANS_ROUNDS Lloyd rounds in integers."""
    points = features[_spread(features, most)]
    for _ in range(MEANS_ROUNDS):
        parts = (features[at : at + ROWS_AT_A_TIME] for at in range(0, len(features), ROWS_AT_A_TIME))
        centre_of = np.concatenate([nearest(part, points) for part in parts])
        order = np.argsort(centre_of, kind="stable")
        firsts = np.flatnonzero(np.diff(centre_of[order], prepend=-1))
        rows = np.diff(firsts, append=len(centre_of))[:, None]
        points = points.copy()
        points[centre_of[order][firsts]] = (2 * np.add.reduceat(features[order], firsts) + rows) // (2 * rows)
    return np.asarray(points)


def _spread(features: Ints, most: int) -> list[int]:
    """Indices of rows far apart (k-means++): each is drawn in proportion to its squared distance to earlier ones."""
    draw, chosen = np.random.default_rng(SEED), [0]
    squares, doubles = (features**2).sum(axis=1), features.astype(np.float64)
    away = np.full(len(features), np.iinfo(np.int64).max)
    while len(chosen) < most:
        last = chosen[-1]
        products = (doubles @ doubles[last]).astype(np.int64)
        away = np.minimum(away, squares - 2 * products + squares[last])
        total = np.cumsum(away)
        if not total[-1]:
            break  # all rows are centres already
        chosen.append(int(np.searchsorted(total, draw.integers(total[-1]), side="right")))
    return chosen


def _features(view: str, length: int) -> int:
    return length if view == "values" else FEATURES


def written(points: Ints) -> str:
    return b64encode(points.astype("<i2").tobytes()).decode()


@lru_cache(maxsize=16)
def numbers_in(text: str, features: int) -> Ints:
    return np.frombuffer(b64decode(text, validate=True), "<i2").astype(np.int64).reshape(-1, features)
