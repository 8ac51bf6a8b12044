"""Views: features and cells by plain whole numbers, a row's cell by that row alone, centres of public rows alone."""

import math
from base64 import b64encode
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from tests import world

IMAGE = world.Passed(name="image", element="uint8", size=28 * 28)
WAVE = world.Passed(name="wave", element="float32", size=3)


def pictures(rows: int, seed: int = 0) -> NDArray[np.uint8]:
    """Strokes of any strength and direction on a dark ground, and one picture of a single grey."""
    draw = np.random.default_rng(seed)
    found = np.zeros((rows, 28, 28), dtype=np.uint8)
    for picture in found:
        at, wide = draw.integers(2, 20, 2), draw.integers(2, 8, 2)
        picture[at[0] : at[0] + wide[0], at[1] : at[1] + wide[1]] = draw.integers(1, 256)
    found[-1] = 77
    return found.reshape(rows, -1)


def series(vectors: NDArray[np.generic]) -> pl.Series:
    inner = pl.UInt8() if vectors.dtype == np.uint8 else pl.Float32()
    return pl.Series("image" if vectors.dtype == np.uint8 else "wave", vectors, dtype=pl.Array(inner, vectors.shape[1]))


def waves() -> world.VectorField:
    draw = np.random.default_rng(0)
    return world.learn_view(WAVE, series(draw.normal(size=(200, 3)).astype(np.float32)), start=5, most=8)


def gradients_by_hand(picture: list[list[int]]) -> list[int]:
    """In Python's whole numbers, pixel by pixel."""
    parts = [[[0] * 8 for _ in range(7)] for _ in range(7)]
    for row in range(28):
        for column in range(28):
            across = picture[row][column + 1] - picture[row][column - 1] if 0 < column < 27 else 0
            down = picture[row + 1][column] - picture[row - 1][column] if 0 < row < 27 else 0
            turn = 4 * (across < 0) + 2 * (down < 0) + (abs(across) < abs(down))
            parts[row // 4][column // 4][turn] += math.isqrt(across**2 + down**2)
    inside = range(7)
    return [
        math.isqrt(
            16
            * sum(
                parts[row - below][column - right][turn]
                for below in (0, 1)
                for right in (0, 1)
                if row - below in inside and column - right in inside
            )
        )
        for row in range(8)
        for column in range(8)
        for turn in range(8)
    ]


def test_features_of_pictures_are_those_of_plain_whole_numbers() -> None:
    shown = pictures(6)
    field = world.learn_view(IMAGE, series(shown), start=0, most=4)
    assert field.view == "gradients"
    assert field.features(shown).tolist() == [gradients_by_hand(each.reshape(28, 28).tolist()) for each in shown]
    noise = np.random.default_rng(1).integers(0, 256, (2, 784)).astype(np.uint8)
    assert field.features(noise).tolist() == [gradients_by_hand(each.reshape(28, 28).tolist()) for each in noise]


def layer_of(weights: world.Ints, biases: world.Ints) -> world.Layer:
    return world.Layer(weights=b64encode(weights.astype("<i2").tobytes()).decode(), biases=tuple(biases.tolist()))


@pytest.mark.parametrize("largest", [10, world.LARGEST_PICTURE])
def test_a_layer_is_that_of_plain_whole_numbers_where_they_are_largest_as_well(largest: int) -> None:
    """Planted: floats give other numbers than the layer's whole ones."""
    draw = np.random.default_rng(4)
    weights, biases = draw.integers(-largest, largest + 1, (world.FEATURES, 5)), draw.integers(-(2**40), 2**40, 5)
    weights[:, 0], biases[0] = world.LARGEST_PICTURE, 2**40
    features = np.vstack(
        [draw.integers(0, largest + 1, (7, world.FEATURES)), np.full((1, world.FEATURES), world.LARGEST_PICTURE)]
    )
    expected = []
    for row in features.tolist():
        products = [sum(x * w for x, w in zip(row, column, strict=True)) for column in weights.T.tolist()]
        hidden = [max(0, product + bias) for product, bias in zip(products, biases.tolist(), strict=True)]
        even = [each * world.LARGEST_PICTURE // max(1, *hidden) for each in hidden]
        norm = max(1, math.isqrt(sum(each**2 for each in even)))
        expected.append([each * world.LARGEST_PICTURE // norm for each in even])
    found = layer_of(weights, biases)
    assert found.of(features).tolist() == expected
    assert [found.of(row[None]).tolist()[0] for row in features] == expected
    rough = np.maximum(0, features.astype(np.float32) @ weights.astype(np.float32) + biases.astype(np.float32))
    floats = rough * world.LARGEST_PICTURE / np.maximum(1, np.linalg.norm(rough, axis=1, keepdims=True))
    assert floats.astype(np.int64).tolist() != expected
    assert layer_of(weights, -np.abs(biases)).of(np.zeros((1, world.FEATURES), np.int64)).tolist() == [[0] * 5]


def test_a_space_is_learned_from_scores_of_public_pictures_and_each_has_one_cell_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(world.data_vectors, "Pictures", partial(world.Pictures, hidden=8, steps=20))
    shown = np.vstack([pictures(60), np.random.default_rng(2).integers(0, 256, (4, 784)).astype(np.uint8)])
    cells = series(shown).append(pl.Series("image", [None], dtype=pl.Array(pl.UInt8, 784)))
    field = world.learn_view(IMAGE, cells, start=9, most=6)
    scores = np.eye(2)[[*(shown.max(axis=1) > 120).astype(int), 0]]
    learned = world.learn_layer(field, cells, scores, most=5)
    assert learned.layer is not None
    assert (learned.size, learned.points.shape) == (6, (5, learned.layer.hidden))
    together = learned.of(cells)
    assert together[-1] == 9 + 5
    assert [learned.of(cells[at : at + 1]).tobytes() for at in range(65)] == [
        each.tobytes() for each in together[:, None]
    ]
    again = world.VectorField.model_validate_json(learned.model_dump_json())
    assert again.of(cells).tobytes() == together.tobytes()
    for change in ({"view": "values"}, {"layer": {"weights": learned.layer.weights, "biases": (0,)}}):
        with pytest.raises(ValidationError, match="a layer"):
            world.VectorField(**{**dict(learned), **change})


@pytest.mark.parametrize(("most", "used"), [(1 << 16, 30), (10, 10), (29, 15)])
def test_a_space_is_learned_from_as_many_pictures_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, most: int, used: int
) -> None:
    """Every second row is missing, and none of those is among them: it would fail after the round was paid for."""
    learned_from = list[int]()

    class Noting(world.Pictures):
        def fit(self, X: Any, y: Any) -> world.Pictures:
            learned_from.append(len(X))
            return super().fit(X, y)

    monkeypatch.setattr(world.data_vectors, "Pictures", partial(Noting, hidden=4, components=4, steps=10))
    monkeypatch.setattr(world.student_questions, "PICTURES", most)
    shown = [cell for picture in pictures(30).tolist() for cell in (None, picture)]
    public = pl.DataFrame({"image": pl.Series(shown, dtype=pl.Array(pl.UInt8(), 784))})
    codes = world.learn_codes([public], [IMAGE], coarse=8, cells=6)
    rounds = world.planned_rounds(classes=2, fields=1, codes=codes.size, rounds=2, spaces=True)
    mechanism = world.calibrated_sums(world.Tallies, epsilon=1, delta=1e-5, classes=2, rounds=rounds)
    planner = world.student_questions.RoundPlanner(mechanism, codes, codes.of(public), public=public)
    released = list[Any]()
    for each in mechanism.rounds:
        question = planner.question(released)
        said = planner.follow(released, question, np.full(question.size, 1 << 16))
        released.append({"question": question.record(), "scale": each.scale, "sums": [1 << 16] * question.size, **said})
    assert learned_from == [used]


def test_centres_are_means_of_public_rows_and_the_same_for_the_same_rows() -> None:
    draw = np.random.default_rng(3)
    groups = np.array([[0, 0], [1000, 0], [0, 1000]])
    features = groups[draw.integers(0, 3, 300)] + draw.integers(0, 20, (300, 2))
    found = world.centres_of(features, 3)
    own = world.nearest(features, found)
    for group in range(3):
        mean = features[own == group].mean(axis=0)
        assert np.abs(found[group] - mean).max() <= 0.5 + 1e-9
    assert sorted((found // 500).tolist()) == [[0, 0], [0, 2], [2, 0]]
    assert world.centres_of(features, 3).tobytes() == found.tobytes()
    assert len(world.centres_of(np.tile(groups, (5, 1)), 50)) == 3  # no more centres than there are rows that differ


def test_a_constant_vector_and_small_pictures_have_views() -> None:
    flat = world.learn_view(WAVE, series(np.ones((4, 3), np.float32)), start=0, most=5)
    assert flat.size == 2
    small = world.Passed(name="image", element="uint8", size=9)
    assert world.learn_view(small, series(pictures(5)[:, :9]), start=0, most=5).view == "values"
    with pytest.raises(world.WrongInput, match="must hold vectors"):
        world.learn_view(WAVE, pl.Series("wave", [None], dtype=pl.Array(pl.Float32(), 3)), start=0, most=5)


def test_it_reads_back_to_the_bit_and_impossible_views_are_refused() -> None:
    field = waves()
    again = world.VectorField.model_validate_json(field.model_dump_json())
    assert again == field
    assert again.points.tobytes() == field.points.tobytes()
    for changed in ({"view": "gradients"}, {"centres": ""}, {"centres": "/////w=="}, {"length": 0}):
        with pytest.raises((ValidationError, ValueError)):
            world.VectorField(**{**field.model_dump(), **changed})
