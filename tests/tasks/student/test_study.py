"""The student of votes: what each rule for refused rows teaches, and that it always works, whatever was answered.

Of its file: tests/tasks/student/test_published_students.py
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import world
from tests.support.published import CLASSES, TEACHERS, World, noisy_votes, world_in

LOGISTIC = "sklearn.linear_model.LogisticRegression"
RIDGE = "sklearn.linear_model.Ridge"
RULES: tuple[world.Refused, ...] = ("random", "drop", "soft", "published")
TAUGHT = (*((LOGISTIC, refused) for refused in RULES), (RIDGE, "soft"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_in(tmp_path_factory.mktemp("world"))


def learn(
    small: World,
    labels: NDArray[np.int64],
    counts: NDArray[np.int64] | None = None,
    plan: world.StudentPlan | None = None,
) -> Any:
    files = small.write(labels, counts)
    learning = small.plan.model_copy(update={"student": plan or world.StudentPlan()})
    return world.fit_student(learning, small.public, files, None, small.vault, small.released)


def accuracy_of(student: Any, small: World) -> float:
    test = world.evaluate(student, small.plan.path("test"), small.encoding)
    assert isinstance(test, world.PublicTest)
    return test.accuracy.value


@pytest.mark.parametrize(("estimator", "refused"), TAUGHT)
def test_right_labels_make_a_student_that_is_right(small: World, refused: world.Refused, estimator: str) -> None:
    labels = small.truth.copy()
    labels[::9] = -1
    student = learn(small, labels, plan=world.StudentPlan(estimator=estimator, refused=refused))
    assert accuracy_of(student, small) > 0.9
    assert set(student.predict(small.rows.to_pandas())) == set(CLASSES)


def test_random_labels_fill_rows_repeatably(small: World) -> None:
    """As published, those of rows that were never asked as well; at random, of refused ones alone."""
    labels = np.full(200, -1)
    labels[:5] = 1
    table = small.labels(labels)
    used, targets = world.lessons(table, CLASSES, "published", teachers=TEACHERS, seed=3)
    assert used.all()
    assert (targets[:5] == [0, 1]).all()
    assert 0.4 < targets[5:, 1].mean() < 0.6
    assert (targets.sum(axis=1) == 1).all()
    again, other = (world.lessons(table, CLASSES, "published", teachers=TEACHERS, seed=seed)[1] for seed in (3, 4))
    assert (targets == again).all()
    assert (targets != other).any()
    sizes: dict[world.Refused, int] = {"random": 200, "soft": 200, "drop": 5, "published": 300}
    for refused, size in sizes.items():
        used, targets = world.lessons(table, CLASSES, refused, teachers=TEACHERS, seed=3)
        assert np.flatnonzero(used).tolist() == list(range(size))
        assert len(targets) == size == world.teaching(table, refused)


def test_of_more_rows_than_fit_an_even_sample_teaches(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbour = world.StudentPlan(estimator="sklearn.neighbors.KNeighborsClassifier", params={"n_neighbors": 1})
    rows = 90
    monkeypatch.setattr(world.student_study, "MOST_CELLS", rows * (small.encoding.width + 2 * len(CLASSES)))
    labels = np.arange(len(small.truth)) % 2
    right = (learn(small, labels, plan=neighbour).predict(small.rows) == np.array(CLASSES)[labels]).astype(int)
    assert right[world.even_sample(0, 300, 300, rows)].all()
    assert right.mean() < 0.9  # the others were not learned
    parts = np.concatenate([world.even_sample(first, 100, 300, rows) for first in (0, 100, 200)])
    assert parts.tolist() == world.even_sample(0, 300, 300, rows).tolist()
    assert parts.sum() == rows
    assert world.even_sample(0, 300, 300, 300).all()
    assert set(np.diff(np.flatnonzero(parts))) == {3, 4}


@pytest.mark.parametrize(
    ("refused", "counts", "rows", "expected"),
    [
        ("drop", None, [0, 2], [[1, 0], [0, 1]]),
        ("soft", None, [0, 1, 2], [[1, 0], [0.5, 0.5], [0, 1]]),
        ("soft", [[150, -50], [7, 93], [20, 80]], [0, 1, 2], [[1.5, -0.5], [0.5, 0.5], [0.2, 0.8]]),  # unbiased shares
    ],
)
def test_what_a_rule_teaches_by_hand(
    small: World, refused: world.Refused, counts: list[list[int]] | None, rows: list[int], expected: list[list[float]]
) -> None:
    table = small.labels(np.array([0, -1, 1]), None if counts is None else np.array(counts))
    used, targets = world.lessons(table, CLASSES, refused, teachers=TEACHERS, seed=0)
    assert np.flatnonzero(used).tolist() == rows
    assert targets.tolist() == expected


@pytest.mark.parametrize(("estimator", "scale", "most", "least"), [(RIDGE, 60, 0.7, 0.85), (LOGISTIC, 10, 1.0, 0.9)])
def test_soft_votes_teach_a_regressor_as_targets_and_a_classifier_as_weights(
    small: World, estimator: str, scale: float, most: float, least: float
) -> None:
    """A regressor even if votes are mostly noise; `most` is the share of them that may be right."""
    counts = noisy_votes(small.truth, scale)
    labels = counts.argmax(axis=1)
    student = learn(small, labels, counts, world.StudentPlan(estimator=estimator, refused="soft"))
    assert np.mean(labels == small.truth) <= most
    assert accuracy_of(student, small) > least


def test_a_classifier_without_weights_is_told_what_to_do(small: World) -> None:
    plan = world.StudentPlan(estimator="sklearn.neighbors.KNeighborsClassifier", refused="soft")
    with pytest.raises(world.WrongInput, match=r"sample_weight, or a regressor"):
        learn(small, small.truth, noisy_votes(small.truth, 10), plan)


@pytest.mark.parametrize(("estimator", "refused"), TAUGHT)
@pytest.mark.parametrize(
    "labels", [[], [-1] * 300, [1] * 300, [-1] * 299 + [1]], ids=["unasked", "refused", "one", "last"]
)
def test_labels_that_teach_nothing_still_make_a_student(
    small: World, labels: list[int], estimator: str, refused: world.Refused
) -> None:
    student = learn(
        small, np.array(labels, dtype=np.int64), plan=world.StudentPlan(estimator=estimator, refused=refused)
    )
    assert set(student.predict(small.rows)) <= set(CLASSES)
    assert world.load(world.dump(student), estimator).predict(small.rows).shape == (300,)
