"""A student of square pictures: what it learns from, and that its file is loaded where Concord is not."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.world import FEATURES, Encoding, Passed, Pictures, ScoreClassifier, gradients, levels_of, moved

IMAGE = Encoding(
    columns=(Passed(name="image", element="uint8", size=14 * 14),), label="kind", classes=("across", "down")
)


def strokes(rows: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures of 14 by 14 with one line, across (0) or down (1), anywhere."""
    draw = np.random.default_rng(seed)
    found, down = np.zeros((rows, 14, 14), dtype=np.uint8), draw.integers(0, 2, rows)
    for picture, turned in zip(found, down, strict=True):
        at, first = draw.integers(2, 11, 2)
        picture[at, first - 2 : first + 3] = draw.integers(100, 256)
        picture[:] = picture.T if turned else picture
    return found.reshape(rows, -1), down


def learned(seed: int = 1) -> ScoreClassifier:
    images, truth = strokes(150, seed)
    network = Pictures(hidden=16, components=32, steps=400, batch=50, lessons=1, members=1, random_state=0)
    return ScoreClassifier(network, list(IMAGE.classes)).fit(images / np.float32(255), np.eye(2)[truth])


def test_it_tells_lines_apart_that_it_has_not_seen() -> None:
    images, truth = strokes(100, 2)
    predicted = learned().predict(images / np.float32(255))
    assert np.mean(predicted == np.array(IMAGE.classes)[truth]) > 0.95


def test_a_second_lesson_mends_labels_that_are_wrong_at_random() -> None:
    """Scores of cells are wrong for some pictures: what the first network says of these is learned instead."""
    (images, truth), draw = strokes(300, 7), np.random.default_rng(8)
    wrong = draw.random(300) < 0.2
    given = np.eye(2)[np.where(wrong, 1 - truth, truth)]

    class Noting(Pictures):
        lesson = given

        def _learned(self, seen: Any, lesson: Any, draw: Any) -> Any:
            self.lesson = lesson
            return super()._learned(seen, lesson, draw)

    network = Noting(hidden=16, components=32, steps=300, batch=50, members=1, random_state=0)
    network.fit(images / np.float32(255), given)
    assert set(np.unique(network.lesson)) == {0.0, 1.0}
    assert np.mean(network.lesson.argmax(axis=1) == truth) > 0.9
    assert np.mean(network.predict(images / np.float32(255)).argmax(axis=1) == truth) > 0.9


def test_its_answer_is_the_mean_of_its_members_who_differ() -> None:
    images, truth = strokes(60, 4)
    network = Pictures(hidden=4, components=4, steps=20, batch=50, members=3, random_state=5)
    network.fit(images / np.float32(255), np.eye(2)[truth])
    seen = (gradients(images.astype(np.int64)) - network.mean_) @ network.basis_
    each = np.array([member.predict(seen) for member in network.networks_])
    assert np.abs(each[0] - each[1]).max() > 1e-3
    assert np.allclose(each.mean(axis=0), network.predict(images / np.float32(255)), atol=1e-5)
    again = Pictures(hidden=4, components=4, steps=20, batch=50, members=3, random_state=5)
    assert (
        again.fit(images / np.float32(255), np.eye(2)[truth]).predict(images / np.float32(255))
        == network.predict(images / np.float32(255))
    ).all()


def test_pictures_that_are_all_the_same_take_as_many_steps() -> None:
    """What varies by less than a whole number is no component: made as large as others, it outgrew what is learned."""
    network = Pictures(hidden=16, steps=60, lessons=1, members=1, random_state=1)
    white = np.ones((60, 14 * 14), dtype=np.float32)
    network.fit(white, np.eye(2)[np.arange(60) % 2])
    assert network.networks_[0].n_iter_ <= 32
    assert np.abs(network.layer()[0]).max() < 10


def test_levels_come_back_from_what_the_encoding_makes_of_them() -> None:
    levels = np.arange(256).repeat(196 // 4).reshape(-1, 196)
    assert (levels_of(levels.astype(np.float32) / 255) == levels).all()


@pytest.mark.parametrize("by", [(0, 1), (0, -1), (1, 0), (-1, 0), (0, 0)])
def test_a_moved_picture_is_the_same_elsewhere(by: tuple[int, int]) -> None:
    images = strokes(5, 3)[0].astype(np.int64)
    there = moved(images, *by).reshape(-1, 14, 14)
    for row, column in np.ndindex(14, 14):
        before = (row - by[0], column - by[1])
        inside = min(before) >= 0 and max(before) < 14
        assert (there[:, row, column] == (images.reshape(-1, 14, 14)[:, *before] if inside else 0)).all()


def test_its_layer_is_what_the_network_has_of_gradients() -> None:
    network, images = learned().regressor_, strokes(20, 5)[0]
    weights, biases = network.layer()
    hidden = np.maximum(gradients(images.astype(np.int64)) @ weights + biases, 0)
    (only,) = network.networks_
    scores = hidden @ only.coefs_[1] + only.intercepts_[1]
    assert weights.shape == (FEATURES, 16)
    assert np.allclose(scores, network.predict(images / np.float32(255)), atol=1e-3)
