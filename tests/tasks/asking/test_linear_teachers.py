"""Linear teachers as arrays: scikit-learn's coefficients and votes, on odd shards too; and when they are taken."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg.lapack import dtrtri
from sklearn.base import ClassifierMixin

from concord.artifacts.home.vault import Vault
from concord.artifacts.learners import TeachersPlan
from concord.artifacts.schemas import Encoding, Scaled
from concord.tasks.asking import gradients
from concord.tasks.asking.arrays import LACKS, LinearTeachers, known, weights_of, weights_together
from concord.tasks.asking.gradients import logistic_of_many
from concord.tasks.asking.linear import CACHE_LINE, own
from concord.tasks.asking.teachers import Teacher, add_votes, aligned_copy, fixed_vote, poll, teach, teach_arrays
from concord.tasks.data.cells import LABEL
from concord.tasks.data.encode import SHARD, PublicBatch, write_frame
from concord.tasks.data.guard import silenced

LOGISTIC, RIDGE = "sklearn.linear_model.LogisticRegression", "sklearn.linear_model.RidgeClassifier"
LDA = "sklearn.discriminant_analysis.LinearDiscriminantAnalysis"
BAYES, CENTROID = "sklearn.naive_bayes.GaussianNB", "sklearn.neighbors.NearestCentroid"
LEARNERS: list[tuple[str, dict[str, Any]]] = [
    (LOGISTIC, {}),
    (LOGISTIC, {"C": 30.0}),
    (LOGISTIC, {"C": 0.01}),
    (RIDGE, {}),
    (RIDGE, {"alpha": 1e-3}),
    (LDA, {"solver": "lsqr", "shrinkage": "auto"}),
    (LDA, {"solver": "lsqr", "shrinkage": 0.2}),
    (LDA, {"solver": "lsqr"}),
    (BAYES, {}),
    (CENTROID, {}),
]
TOLERANCE = 1e-4
"""Of the largest coefficient; but for logistic regression it is rounding."""
ILL = 1e8
"""A covariance of that condition is singular to what single precision holds."""


@st.composite
def shards(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows, labels and classes of an odd shard: few rows or columns, constant or equal ones, rare classes, far rows."""
    rng, classes = np.random.default_rng(draw(st.integers(0, 1 << 30))), draw(st.integers(2, 4))
    rows, width = draw(st.integers(1, 40)), draw(st.integers(1, 10))
    y = rng.integers(0, draw(st.integers(1, classes)), rows)
    X = rng.normal(size=(rows, width)) + np.eye(max(classes, width))[y][:, :width]
    for column in range(width):
        kind = draw(st.sampled_from(["normal", "constant", "one-hot", "copy", "far"]))
        if kind == "constant":
            X[:, column] = draw(st.sampled_from([0.0, 1.0, -2.5]))
        elif kind == "one-hot":
            X[:, column] = X[:, column] > 1
        elif kind == "copy":
            X[:, column] = X[:, 0]
        elif kind == "far":
            X[rng.integers(0, rows), column] = 40.0
    if draw(st.booleans()):
        X[rows // 2 :], y[rows // 2 :] = X[0], y[0]
    return aligned_copy(X.astype(np.float32)), aligned_copy(y), classes


def plan_of(estimator: str, params: dict[str, Any], **more: Any) -> TeachersPlan:
    return TeachersPlan(count=5, estimator=estimator, params=params, **more)


def taught(plan: TeachersPlan, X: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    learner = known(plan, X.shape[1], classes)
    assert learner is not None
    fixed = fixed_vote(0, y, classes)
    with silenced():
        alone = weights_of(learner, plan.params, X, y, classes, fixed)
        beside = weights_together(learner, plan.params, [(X, y, fixed)], classes)[0]
    if alone[:, :-1].any():  # together, a shard may have a fit that has none by itself
        large = np.abs(alone[alone > LACKS / 2]).max()
        assert np.allclose(alone, beside, rtol=0, atol=1e-5 * (1e-3 + large))
    return beside


def fitted(plan: TeachersPlan, X: np.ndarray, y: np.ndarray) -> ClassifierMixin | None:
    """scikit-learn's own fit in double precision, converged; None if it fails."""
    model = plan.build()
    if plan.estimator == LOGISTIC:
        model.set_params(tol=1e-9, max_iter=20_000)
    try:
        with silenced():
            model.fit(X.astype(np.float64), y)
    except ValueError:
        return None
    return model


def differences(weights: np.ndarray) -> np.ndarray:
    """What decides votes: what each class has more than the first."""
    return np.asarray(weights[1:] - weights[:1])


@pytest.mark.parametrize(("estimator", "params"), [item for item in LEARNERS if item[0] not in (BAYES, CENTROID)])
@settings(max_examples=12)
@given(shard=shards())
def test_weights_are_those_of_scikit_learn(
    estimator: str, params: dict[str, Any], shard: tuple[np.ndarray, np.ndarray, int]
) -> None:
    X, y, classes = shard
    plan, there = plan_of(estimator, params), np.unique(y)
    model, ours = fitted(plan, X, y), taught(plan, X, y, classes)
    if model is None or len(there) < 2:
        assert not ours[:, :-1].any()
        return
    if estimator == LDA and np.linalg.cond(model.covariance_) > ILL:
        return
    theirs = np.hstack([np.atleast_2d(model.coef_), np.reshape(model.intercept_, (-1, 1))])
    if len(there) > 2:
        theirs = differences(theirs)
    if classes > 2:
        assert np.all(np.delete(ours, there, axis=0)[:, -1] == np.float32(LACKS))
        ours = differences(ours[there].astype(np.float64))
    assert np.abs(ours - theirs).max() <= TOLERANCE * np.abs(theirs).max() + 1e-7


@pytest.mark.parametrize(("estimator", "params"), LEARNERS)
@settings(max_examples=6)
@given(shard=shards(), seed=st.integers(0, 1 << 30))
def test_votes_are_those_of_scikit_learn_but_near_ties(
    estimator: str, params: dict[str, Any], shard: tuple[np.ndarray, np.ndarray, int], seed: int
) -> None:
    X, y, classes = shard
    plan, public = plan_of(estimator, params), np.random.default_rng(seed).normal(size=(50, X.shape[1]))
    public = np.vstack([public, X[:5]]).astype(np.float32)
    weights = taught(plan, X, y, classes)
    counts = np.zeros((len(public), classes), dtype=np.uint32)
    LinearTeachers(weights[:, None]).add_votes(counts, public)
    assert set(counts.sum(axis=1)) == {1}
    model = fitted(plan, X, y) if len(np.unique(y)) > 1 else None
    if model is None or not weights[:, :-1].any():
        assert set(counts.argmax(axis=1)) == {fixed_vote(0, y, classes)}
        return
    if estimator == LDA and np.linalg.cond(model.covariance_) > ILL:
        return
    (scores,) = LinearTeachers(weights[:, None].astype(np.float64)).scores(public)
    best = np.sort(scores[:, 0], axis=0) if classes > 2 else np.vstack([0 * scores[0], np.abs(scores[0])])
    size = 1 + np.abs(weights[weights > LACKS / 2]).max() * (1 + np.abs(public).max(axis=1)) ** 2
    clear = best[-1] - best[-2] > 1e-3 * size
    assert np.array_equal(counts.argmax(axis=1)[clear], model.predict(public.astype(np.float64))[clear])


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("size", [1e2, 1e5, 1e8])
def test_huge_and_equal_columns_are_fitted_no_worse_than_by_scikit_learn(size: float, C: float) -> None:
    """A Hessian that is singular to rounding: the fit of least loss, not the fixed vote."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 6)) * ([size] * 2 + [1] * 4) + ([0, size] + [0] * 4)
    X[:, 2] = X[:, 0]
    y = (X[:, 3] + rng.normal(size=40) > 0).astype(np.int64)
    X = aligned_copy(X.astype(np.float32))
    model, plan = fitted(plan_of(LOGISTIC, {"C": C}), X, y), plan_of(LOGISTIC, {"C": C})
    assert model is not None

    def loss(weights: np.ndarray) -> float:
        odds = X.astype(np.float64) @ weights[:-1] + weights[-1]
        penalty: float = weights[:-1] @ weights[:-1] / 2 / C
        return float(np.logaddexp(0, np.where(y == 1, -odds, odds)).sum() + penalty)

    (ours,) = weights_in_double(plan, X, y)
    assert loss(ours) <= (1 + 1e-9) * loss(np.append(model.coef_, model.intercept_))


def test_a_matrix_is_inverted_where_a_cache_line_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever else a copy of it lay, which memory in use decides, sums might be grouped otherwise."""
    rng, places = np.random.default_rng(1), []

    def watched(matrix: np.ndarray, **how: int) -> tuple[np.ndarray, int]:
        found, failed = dtrtri(matrix, **how)
        places.append(found.ctypes.data % CACHE_LINE)
        return found, failed

    monkeypatch.setattr(gradients, "dtrtri", watched)
    for width in range(1, 12):
        X, y = rng.normal(size=(40, width)), np.arange(40) % 2
        logistic_of_many([(X, y), (np.hstack([1e9 * X, 1e9 * X]), y)][width % 2 :][:1])
    assert places == [0] * 11


def weights_in_double(plan: TeachersPlan, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    with silenced():
        found = logistic_of_many([(X, y)], **plan.params)[0]
    assert found is not None
    return found[1:]


def test_a_fit_that_overflows_votes_its_most_common_label() -> None:
    X = np.array([[3e38], [-3e38], [3e38]], dtype=np.float32)
    for estimator, params in LEARNERS:
        for classes in (2, 3):
            weights = taught(plan_of(estimator, params), X, np.array([0, 1, 1]), classes)
            assert not np.isnan(weights).any()
            counts = np.zeros((4, classes), dtype=np.uint32)
            LinearTeachers(weights[:, None]).add_votes(counts, np.zeros((4, 1), dtype=np.float32))
            assert set(counts.sum(axis=1)) == {1}


def test_a_score_that_overflows_to_no_number_is_never_the_largest() -> None:
    weights = np.array([[[3e38, -3e38, 0]], [[0, 0, -1]], [[0, 0, -2]]], dtype=np.float32)
    counts = np.zeros((1, 3), dtype=np.uint32)
    with silenced():
        LinearTeachers(weights).add_votes(counts, np.array([[2, 2]], dtype=np.float32))
    assert counts.tolist() == [[0, 1, 0]]


def test_a_learner_that_is_not_known_to_the_last_parameter_is_left_as_it_is() -> None:
    left: list[tuple[str, dict[str, Any]]] = [
        (LOGISTIC, {"solver": "liblinear"}),
        (LOGISTIC, {"max_iter": 5}),
        (LOGISTIC, {"tol": 0.1}),
        (LOGISTIC, {"class_weight": "balanced"}),
        (LOGISTIC, {"fit_intercept": False}),
        (LOGISTIC, {"C": True}),
        (LDA, {}),
        (LDA, {"solver": "eigen", "shrinkage": "auto"}),
        (LDA, {"solver": "lsqr", "priors": [0.5, 0.5]}),
        (RIDGE, {"alpha": 0}),
        (CENTROID, {"shrink_threshold": 0.1}),
        ("sklearn.tree.DecisionTreeClassifier", {}),
    ]
    assert [known(plan_of(*item), 3, 2) for item in left] == [None] * len(left)
    assert all(known(plan_of(*item), 3, 2) for item in LEARNERS)
    assert known(plan_of(LOGISTIC, {}), 784, 10) is None  # its Hessian would take longer


SHARDS = {0: [0, 0, 1, 1, 2], 1: [2, 2, 2], 3: [1, 0, 2, 2]}
COLUMN = Scaled(kind="numeric", name="x", mean=0, scale=1, fill=0, low=-9, high=9, missing=False)


def block_of(labels: dict[int, list[int]]) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    parts = [
        pl.DataFrame({SHARD: [shard] * len(y), "x": rng.normal(size=len(y)) + y, LABEL: y}).cast(
            {SHARD: pl.UInt32, "x": pl.Float64, LABEL: pl.UInt16}
        )
        for shard, y in labels.items()
    ]
    return pl.concat(parts)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_block_votes_as_scikit_learn_s_does_beside_teachers_of_an_older_version(tmp_path: Path, classes: int) -> None:
    vault = Vault(tmp_path / "vault")
    encoding = Encoding(columns=(COLUMN,), label="y", classes=("a", "b", "c")[:classes])
    labels = {shard: [min(y, classes - 1) for y in own] for shard, own in SHARDS.items()}
    block = write_frame(block_of(labels), vault, "block")
    plan = TeachersPlan(count=5)
    makers: list[Callable[..., Any]] = [teach, teach_arrays]
    models, arrays = (make(block, range(5), plan, encoding, vault, make.__name__) for make in makers)
    assert isinstance(pickle.loads(vault.read(models))[0], Teacher)
    assert np.load(vault.root / "teach_arrays", allow_pickle=False).shape == ((1, 5, 2) if classes == 2 else (3, 5, 2))
    values = pl.DataFrame({"x": np.linspace(-4, 5, 1_201)})
    batch = PublicBatch(ref=write_frame(values, vault, "batch"), first=0, rows=values.height)

    def votes(name: str, *ensembles: Any) -> np.ndarray:
        table = pa.ipc.open_file(vault.read(poll(batch, ensembles, encoding, vault, name))).read_all()
        return np.column_stack([column.to_numpy() for column in table.columns])

    old, new = votes("old", models), votes("new", arrays)
    assert (old != new).any(axis=1).mean() < 0.005  # rows near a boundary
    assert np.array_equal(votes("both", models, arrays, arrays), old + 2 * new)


def test_many_teachers_are_counted_as_one_at_a_time_is() -> None:
    rng = np.random.default_rng(0)
    for classes in (2, 3):
        weights = rng.normal(size=(classes if classes > 2 else 1, 700, 4)).astype(np.float32)
        X = rng.normal(size=(1_111, 3)).astype(np.float32)
        together, single = np.zeros((2, len(X), classes), dtype=np.uint32)
        add_votes(together, LinearTeachers.load(LinearTeachers(weights).save()), X)
        for teacher in range(700):
            add_votes(single, LinearTeachers(own(weights[:, teacher]).astype(np.float32)[:, None]), X)
        assert (together != single).any(axis=1).mean() < 0.005
        assert set(together.sum(axis=1)) == {700}
