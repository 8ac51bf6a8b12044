"""Linear teachers as one array: votes as scikit-learn's own, on odd shards too; and when they are taken."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import world
from tests.support.made import content_of, keep, made

LOGISTIC, RIDGE = "sklearn.linear_model.LogisticRegression", "sklearn.linear_model.RidgeClassifier"
LDA, SVC = "sklearn.discriminant_analysis.LinearDiscriminantAnalysis", "sklearn.svm.LinearSVC"
LEARNERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in world.LINEAR),
    (LOGISTIC, {"C": 30.0, "fit_intercept": False}),
    (LOGISTIC, {"solver": "newton-cholesky", "class_weight": "balanced"}),
    (RIDGE, {"alpha": 1e-3, "fit_intercept": False}),
    (LDA, {"solver": "lsqr", "shrinkage": "auto"}),
    (LDA, {"solver": "eigen", "shrinkage": 0.2}),
    (SVC, {"fit_intercept": False}),
]


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
    return world.aligned_copy(X.astype(np.float32)), world.aligned_copy(y), classes


def plan_of(estimator: str, params: dict[str, Any]) -> world.TeachersPlan:
    return world.TeachersPlan(count=5, estimator=estimator, params=params)


def taught(plan: world.TeachersPlan, X: np.ndarray, y: np.ndarray, classes: int) -> tuple[world.Teacher, np.ndarray]:
    """A teacher, and its weights as of a block with no other (outputs, 1, width + 1)."""
    with world.silenced():
        teacher = world.fitted_teacher(plan, 0, X, y, classes)
        return teacher, world.weights_of(teacher.model, teacher.fixed, X.shape[1], classes)[:, None]


def votes_by(weights: np.ndarray, X: np.ndarray, classes: int) -> np.ndarray:
    counts = np.zeros((len(X), classes), dtype=np.uint32)
    with world.silenced():
        world.LinearTeachers(weights).add_votes(counts, X)
    return counts


@pytest.mark.parametrize(("estimator", "params"), LEARNERS)
@settings(max_examples=6)
@given(shard=shards(), seed=st.integers(0, 1 << 30))
def test_votes_are_those_of_scikit_learn_but_near_ties(
    estimator: str, params: dict[str, Any], shard: tuple[np.ndarray, np.ndarray, int], seed: int
) -> None:
    X, y, classes = shard
    drawn = np.random.default_rng(seed).normal(size=(50, X.shape[1]))
    public = np.vstack([drawn, X[:5]]).astype(np.float32)
    teacher, weights = taught(plan_of(estimator, params), X, y, classes)
    counts = votes_by(weights, public, classes)
    assert set(counts.sum(axis=1)) == {1}
    if teacher.model is None:
        assert set(counts.argmax(axis=1)) == {world.fixed_vote(0, y, classes)}
        return
    assert (weights[np.setdiff1d(np.arange(classes), y)][..., -1] == np.float32(world.LACKS)).all() or classes == 2
    (scores,) = world.LinearTeachers(weights.astype(np.float64)).scores(public)
    best = np.sort(scores[:, 0], axis=0) if classes > 2 else np.vstack([0 * scores[0], np.abs(scores[0])])
    size = 1 + np.abs(weights[weights > world.LACKS / 2]).max() * (1 + np.abs(public).max(axis=1))
    clear = best[-1] - best[-2] > 1e-5 * size
    assert np.array_equal(counts.argmax(axis=1)[clear], teacher.votes(public, classes)[clear])


def test_weights_that_are_no_numbers_vote_the_most_common_label() -> None:
    X, y = np.array([[3e38], [-3e38], [3e38]], dtype=np.float32), np.array([0, 1, 1])
    for estimator, params in LEARNERS:
        for classes in (2, 3):
            teacher, weights = taught(plan_of(estimator, params), X, y, classes)
            assert np.isfinite(weights).all()
            model = teacher.model
            if model is not None and not np.isfinite(np.float32(np.append(model.coef_, model.intercept_))).all():
                assert votes_by(weights, X, classes).argmax(axis=1).tolist() == [1, 1, 1]


def test_a_score_that_overflows_to_no_number_is_never_the_largest() -> None:
    weights = np.array([[[3e38, -3e38, 0]], [[0, 0, -1]], [[0, 0, -2]]], dtype=np.float32)
    assert votes_by(weights, np.array([[2, 2]], dtype=np.float32), 3).tolist() == [[0, 1, 0]]


SHARDS = {0: [0, 0, 1, 1, 2], 1: [2, 2, 2], 3: [1, 0, 2, 2]}
COLUMN = world.Scaled(kind="numeric", name="x", mean=0, scale=1, fill=0, low=-9, high=9, missing=False)


def block_of(labels: dict[int, list[int]]) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    parts = [
        pl.DataFrame({world.SHARD: [shard] * len(y), "x": rng.normal(size=len(y)) + y, world.LABEL: y}).cast(
            {world.SHARD: pl.UInt32, "x": pl.Float64, world.LABEL: pl.UInt16}
        )
        for shard, y in labels.items()
    ]
    return pl.concat(parts)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_block_votes_as_the_same_teachers_one_by_one(
    tmp_path: Path, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = world.Vault(tmp_path / "vault")
    encoding = world.Encoding(columns=(COLUMN,), label="y", classes=("a", "b", "c")[:classes])
    labels = {shard: [min(y, classes - 1) for y in own] for shard, own in SHARDS.items()}
    block = made(5).rows(block_of(labels), vault, "block")
    plan = world.TeachersPlan(count=5)
    array = world.teach(block, plan, encoding, vault, "array")
    with monkeypatch.context() as one_by_one:
        one_by_one.setattr(world.units_teachers, "is_linear", lambda _: False)
        models = world.teach(block, plan, encoding, vault, "models")
    assert isinstance(pickle.loads(content_of(models, vault))[0], world.Teacher)
    assert np.load(vault.root / "array", allow_pickle=False).shape == ((1, 5, 2) if classes == 2 else (3, 5, 2))
    values = pl.DataFrame({"x": np.linspace(-4, 5, 1_201)})
    batch = world.PublicBatch(ref=world.write_frame(values, vault, "batch"), first=0, rows=values.height)

    def votes(name: str, *ensembles: Any) -> np.ndarray:
        table = pa.ipc.open_file(content_of(world.poll(batch, ensembles, encoding, vault, name), vault)).read_all()
        return np.column_stack([column.to_numpy() for column in table.columns])

    single, product = votes("single", models), votes("product", array)
    assert (single != product).any(axis=1).mean() < 0.005  # rows near a boundary
    first, second = (made(10, span=(at, at + 5)) for at in (0, 5))
    parts = [keep(vault, f"{part.span}", content_of(array, vault), part) for part in (first, second)]
    assert np.array_equal(votes("twice", *parts), 2 * product)
    with pytest.raises(world.NotVerified, match="would be in two"):
        votes("the same", array, array)
