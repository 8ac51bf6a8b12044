"""The student: what each rule for refused rows teaches, that it always works, and that its file is canonical."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import skops.io
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVR

from tests.support.published import CLASSES, SESSION, TEACHERS, World, noisy_votes, world
from tests.world import (
    PublicTest,
    Refused,
    ScoreClassifier,
    StudentPlan,
    WrongInput,
    canonical_file,
    dump,
    evaluate,
    even_sample,
    lessons,
    load,
    publish_student,
    student_study,
    study,
    teaching,
)

LOGISTIC = "sklearn.linear_model.LogisticRegression"
RIDGE = "sklearn.linear_model.Ridge"
REFUSED: tuple[Refused, ...] = ("random", "drop", "soft", "published")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("world"))


def learn(
    small: World, labels: NDArray[np.int64], counts: NDArray[np.int64] | None = None, plan: StudentPlan | None = None
) -> Any:
    files = small.write(labels, counts)
    learning = small.plan.model_copy(update={"student": plan or StudentPlan()})
    return study(learning, small.public, files, small.vault, small.released)


def accuracy_of(student: Any, small: World) -> float:
    test = evaluate(student, small.plan.path("test"), small.encoding)
    assert isinstance(test, PublicTest)
    return test.accuracy.value


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("estimator", [LOGISTIC, RIDGE])
def test_right_labels_make_a_student_that_is_right(small: World, refused: Refused, estimator: str) -> None:
    labels = small.truth.copy()
    labels[::9] = -1
    student = learn(small, labels, plan=StudentPlan(estimator=estimator, refused=refused))
    assert accuracy_of(student, small) > 0.9
    assert set(student.predict(small.rows.to_pandas())) == set(CLASSES)


def test_rows_and_labels_stay_together_over_batches(small: World) -> None:
    neighbour = StudentPlan(estimator="sklearn.neighbors.KNeighborsClassifier", params={"n_neighbors": 1})
    answered = np.arange(len(small.truth)) % 3 > 0
    student = learn(small, np.where(answered, small.truth, -1), plan=neighbour.model_copy(update={"refused": "drop"}))
    right = student.predict(small.rows) == np.array(CLASSES)[small.truth]
    assert right[answered].all()


def test_random_labels_fill_unanswered_rows_repeatably_as_published(small: World) -> None:
    labels = np.full(200, -1)
    labels[:5] = 1
    table = small.labels(labels)
    used, targets = lessons(table, CLASSES, "published", teachers=TEACHERS, seed=3)
    assert used.all()
    assert (targets[:5] == [0, 1]).all()
    assert 0.4 < targets[5:, 1].mean() < 0.6
    assert (targets.sum(axis=1) == 1).all()
    again = lessons(table, CLASSES, "published", teachers=TEACHERS, seed=3)[1]
    other = lessons(table, CLASSES, "published", teachers=TEACHERS, seed=4)[1]
    assert (targets == again).all()
    assert (targets != other).any()


def test_random_labels_fill_refused_rows_and_rows_never_asked_teach_nothing(small: World) -> None:
    labels = np.full(200, -1)
    labels[:5] = 1
    for refused, size in (("random", 200), ("soft", 200), ("drop", 5), ("published", 300)):
        used, targets = lessons(small.labels(labels), CLASSES, refused, teachers=TEACHERS, seed=3)  # type: ignore[arg-type]
        assert np.flatnonzero(used).tolist() == list(range(size))
        assert len(targets) == size
        assert teaching(small.labels(labels), refused) == size  # type: ignore[arg-type]


def test_of_more_rows_than_fit_an_even_sample_teaches(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbour = StudentPlan(estimator="sklearn.neighbors.KNeighborsClassifier", params={"n_neighbors": 1})
    rows = 90
    monkeypatch.setattr(student_study, "MOST_CELLS", rows * (small.encoding.width + 2 * len(CLASSES)))
    labels = np.arange(len(small.truth)) % 2
    right = (learn(small, labels, plan=neighbour).predict(small.rows) == np.array(CLASSES)[labels]).astype(int)
    assert right[even_sample(0, 300, 300, rows)].all()
    assert right.mean() < 0.9  # the others were not learned
    parts = np.concatenate([even_sample(first, 100, 300, rows) for first in (0, 100, 200)])
    assert parts.tolist() == even_sample(0, 300, 300, rows).tolist()
    assert parts.sum() == rows
    assert even_sample(0, 300, 300, 300).all()
    assert set(np.diff(np.flatnonzero(parts))) == {3, 4}


def test_drop_and_soft_leave_out_what_they_should(small: World) -> None:
    labels = np.array([0, -1, 1])
    table = small.labels(labels)
    used, targets = lessons(table, CLASSES, "drop", teachers=TEACHERS, seed=0)
    assert np.flatnonzero(used).tolist() == [0, 2]
    assert targets.tolist() == [[1, 0], [0, 1]]
    used, targets = lessons(table, CLASSES, "soft", teachers=TEACHERS, seed=0)
    assert np.flatnonzero(used).tolist() == [0, 1, 2]
    assert targets.tolist() == [[1, 0], [0.5, 0.5], [0, 1]]


def test_soft_counts_are_unbiased_shares_beyond_zero_and_one(small: World) -> None:
    counts = np.array([[-50, 150], [7, 93], [80, 20]])
    _, targets = lessons(small.labels(np.array([1, -1, 0]), counts), CLASSES, "soft", teachers=TEACHERS, seed=0)
    assert targets.tolist() == [[-0.5, 1.5], [0.5, 0.5], [0.8, 0.2]]


def test_a_regressor_learns_from_votes_that_are_mostly_noise(small: World) -> None:
    counts = noisy_votes(small.truth, scale=60)
    labels = counts.argmax(axis=1)
    student = learn(small, labels, counts, StudentPlan(estimator=RIDGE, refused="soft"))
    assert np.mean(labels == small.truth) < 0.7
    assert accuracy_of(student, small) > 0.85


def test_a_classifier_takes_soft_votes_as_weights(small: World) -> None:
    counts = noisy_votes(small.truth, scale=10)
    student = learn(small, counts.argmax(axis=1), counts, StudentPlan(refused="soft"))
    assert accuracy_of(student, small) > 0.9


def test_a_classifier_without_weights_is_told_what_to_do(small: World) -> None:
    plan = StudentPlan(estimator="sklearn.neighbors.KNeighborsClassifier", refused="soft")
    with pytest.raises(WrongInput, match=r"sample_weight, or a regressor"):
        learn(small, small.truth, noisy_votes(small.truth, 10), plan)


def test_an_estimator_that_cannot_learn_is_the_plans_fault(small: World) -> None:
    plan = StudentPlan(estimator="sklearn.naive_bayes.MultinomialNB")  # refuses negative features
    with pytest.raises(WrongInput, match="cannot learn from the released labels"):
        learn(small, small.truth, plan=plan)


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("estimator", [LOGISTIC, RIDGE])
@pytest.mark.parametrize(
    "labels", [[], [-1] * 300, [1] * 300, [-1] * 299 + [1]], ids=["unasked", "refused", "one", "last"]
)
def test_labels_that_teach_nothing_still_make_a_student(
    small: World, labels: list[int], estimator: str, refused: Refused
) -> None:
    student = learn(small, np.array(labels, dtype=np.int64), plan=StudentPlan(estimator=estimator, refused=refused))
    assert set(student.predict(small.rows)) <= set(CLASSES)
    assert load(dump(student), estimator).predict(small.rows).shape == (300,)


def test_a_regressor_of_one_output_is_fitted_once_a_class() -> None:
    X = np.linspace(-1, 1, 50)[:, None]
    scores = np.hstack([-X, X])
    for regressor in (Ridge(), LinearSVR(random_state=0)):
        student = ScoreClassifier(regressor, ["low", "high"]).fit(X, scores)
        assert (student.predict(X) == np.where(X[:, 0] > 0, "high", "low")).mean() > 0.95


@pytest.mark.parametrize(
    "plan",
    [
        StudentPlan(),
        StudentPlan(estimator=RIDGE),
        StudentPlan(estimator="sklearn.ensemble.HistGradientBoostingClassifier", params={"max_iter": 3}),
        StudentPlan(estimator="sklearn.ensemble.RandomForestClassifier", params={"n_estimators": 3}),
    ],
    ids=lambda plan: plan.estimator.rpartition(".")[2],
)
def test_the_same_labels_give_the_same_file_and_it_predicts_alike(small: World, plan: StudentPlan) -> None:
    first, second = (learn(small, small.truth, plan=plan) for _ in range(2))
    file = dump(first)
    assert file == dump(second)
    again = load(file, plan.estimator)
    assert (again.predict(small.rows) == first.predict(small.rows)).all()
    assert canonical_file(skops.io.dumps(again)) == file


def test_another_student_has_another_file(small: World) -> None:
    assert dump(learn(small, small.truth)) != dump(learn(small, np.roll(small.truth, 1)))


def test_the_student_waits_for_its_certificate(small: World) -> None:
    student = learn(small, small.truth)
    found = evaluate(student, small.plan.path("test"), small.encoding)
    published = publish_student(student, SESSION, found, small.released)
    assert published.ref.path == f"{SESSION}/student.skops"
    assert published.accuracy is not None
    assert published.accuracy.value == accuracy_of(student, small)
    assert small.released.read_any(published.ref) == dump(student)
    assert small.released.find(published.ref.path) is None


def test_memory_between_the_fields_of_records_is_not_published() -> None:
    records = np.frombuffer(b"\xaa" * 48, dtype=np.dtype([("a", "u1"), ("b", "<i8")], align=True))
    assert b"\xaa" * 48 in skops.io.dumps(records)  # elsewhere the byte may be part of a time
    file = dump(records)
    assert file.count(b"\xaa" + bytes(7) + b"\xaa" * 8) == 3
    assert (skops.io.loads(file) == records).all()


def test_unseen_and_missing_cells_are_predicted_for(small: World) -> None:
    odd = pl.DataFrame({"size": [None, float("inf")], "shade": ["pink", None], "note": [None, None]})
    shade, size = (
        "'shade' are no words that the student knows, which are 'dark', 'light':",
        "column 'size' are no numbers",
    )
    with pytest.warns(UserWarning, match=shade), pytest.warns(UserWarning, match=size):
        assert set(learn(small, small.truth).predict(odd)) <= set(CLASSES)
