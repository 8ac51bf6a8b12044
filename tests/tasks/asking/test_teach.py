"""Teach: every shard votes, its own way, whatever becomes of the others."""

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from tests.world import (
    LABEL,
    PROPOSED,
    SHARD,
    Block,
    Encoding,
    LinearTeachers,
    NotVerified,
    Scaled,
    Teacher,
    TeachersPlan,
    Vault,
    WrongInput,
    asking_teachers,
    load_teachers,
    teach,
    write_frame,
)

X = Scaled(kind="numeric", name="x", mean=0, scale=1, fill=0, low=-9, high=9, missing=False)
ENCODING = Encoding(columns=(X,), label="y", classes=("a", "b", "c"))
ROWS = np.linspace(-3, 3, 13, dtype=np.float32)[:, None]


class Odd:
    """An estimator that misbehaves as told, once it sees a row beyond 5: made-up rows lie in [−1, 1]."""

    def __init__(self, fault: str = "", random_state: int = 0) -> None:
        self.fault, self.random_state = fault, random_state

    def fit(self, X: np.ndarray, _: np.ndarray) -> Self:
        print("a private value", X[0])
        print("a private value", X[0], file=sys.stderr)
        warnings.warn(f"a private value {X[0]}", stacklevel=2)
        self.odd = bool(np.any(X > 5))
        if self.odd and self.fault == "fit":
            raise ValueError("a private value")
        if self.odd and self.fault == "memory":
            raise MemoryError
        return self

    def predict(self, X: np.ndarray) -> Any:
        if not self.odd:
            return np.full(len(X), 1)
        if self.fault == "predict":
            raise ValueError("a private value")
        answers: dict[str, Any] = {
            "nan": np.where(np.arange(len(X)) % 2, np.nan, 1.0),
            "foreign": np.full(len(X), 7),
            "fraction": np.full(len(X), 0.5),
            "words": np.full(len(X), "a"),
            "short": np.full(len(X) - 1, 1),
        }
        return answers[self.fault]


class Surveyor:
    """An estimator that remembers where in memory its rows lay."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.place = (X.ctypes.data % 64, y.ctypes.data % 64, X.flags.c_contiguous)
        return self

    def predict(self, X: np.ndarray) -> Any:
        return np.zeros(len(X))


def trained(folder: Path, shards: dict[int, tuple[list[float], list[int]]], plan: TeachersPlan) -> list[Teacher]:
    """Teachers of shards 0 … 4, given the rows of some: values and labels."""
    vault = Vault(folder / "vault")
    block = pl.concat(
        [
            pl.DataFrame({SHARD: [shard] * len(labels), "x": values, LABEL: labels}).cast(
                {SHARD: pl.UInt32, "x": pl.Float64, LABEL: pl.UInt16}
            )
            for shard, (values, labels) in shards.items()
        ]
        or [pl.DataFrame(schema={SHARD: pl.UInt32, "x": pl.Float64, LABEL: pl.UInt16})]
    )
    ref = write_frame(block, vault, "block.arrow")
    with pytest.MonkeyPatch.context() as one_by_one:
        one_by_one.setattr(asking_teachers, "is_linear", lambda _: False)
        found = load_teachers(teach(Block((0, 5), ref), plan, ENCODING, vault, "teachers"), vault)
    assert not isinstance(found, LinearTeachers)
    return list(found)


SHARDS = {
    0: ([-1.0, -2, 1, 2], [0, 0, 1, 1]),
    1: ([1.0, 2, 3], [2, 2, 2]),
    3: ([-1.0, 0, 1, 2], [1, 0, 2, 2]),
}


def test_a_teacher_is_its_shard_s_own_fit(tmp_path: Path) -> None:
    plan = TeachersPlan(count=5, params={"C": 3.0})
    found = trained(tmp_path, SHARDS, plan)
    assert len(found) == 5
    values, labels = SHARDS[3]
    alone = LogisticRegression(C=3.0, random_state=3).fit(np.array(values, dtype=np.float32)[:, None], labels)
    assert np.array_equal(found[3].votes(ROWS, 3), alone.predict(ROWS))


def test_empty_and_one_class_shards_vote_by_rule(tmp_path: Path) -> None:
    found = trained(tmp_path, SHARDS, TeachersPlan(count=5))
    assert set(found[1].votes(ROWS, 3)) == {2}  # all it ever saw
    assert set(found[2].votes(ROWS, 3)) == {2 % 3}  # empty: its index modulo the classes
    assert set(found[4].votes(ROWS, 3)) == {4 % 3}


def test_no_rows_at_all_is_an_ensemble_too(tmp_path: Path) -> None:
    found = trained(tmp_path, {}, TeachersPlan(count=5))
    assert [int(teacher.votes(ROWS, 3)[0]) for teacher in found] == [0, 1, 2, 0, 1]


def test_the_teacher_that_init_proposes_votes_whatever_its_shard_holds(tmp_path: Path) -> None:
    odd = {0: ([0.0] * 9 + [2.0], [0] * 9 + [1]), 1: ([1.0, 2.0], [0, 1]), 3: ([1.0] * 6, [0, 1, 2, 0, 1, 2])}
    found = trained(tmp_path, odd, TeachersPlan(count=5, **PROPOSED.model_dump()))
    assert len(found) == 5
    assert all(np.isin(teacher.votes(ROWS, 3), range(3)).all() for teacher in found)
    assert found[0].model is not None  # one row of a class is no failed fit


def test_one_shard_changes_one_teacher(tmp_path: Path) -> None:
    plan = TeachersPlan(count=5, estimator="sklearn.ensemble.RandomForestClassifier", params={"n_estimators": 3})
    before = trained(tmp_path, SHARDS, plan)
    after = trained(tmp_path, {0: SHARDS[0], 2: ([1.0], [1]), 3: SHARDS[3]}, plan)
    same = [pickle.dumps(item) == pickle.dumps(other) for item, other in zip(before, after, strict=True)]
    assert same == [True, False, False, True, True]  # shard 1 taken, shard 2 filled


def test_a_tie_of_labels_is_the_lowest_class(tmp_path: Path) -> None:
    plan = TeachersPlan(count=5, estimator=f"{Odd.__module__}.Odd", params={"fault": "fit"})
    assert set(trained(tmp_path, {0: ([9.0, 9.0], [2, 1])}, plan)[0].votes(ROWS, 3)) == {1}


@pytest.mark.parametrize("fault", ["fit", "predict", "foreign", "fraction", "words", "short"])
def test_a_failing_teacher_votes_its_most_common_label(tmp_path: Path, fault: str) -> None:
    plan = TeachersPlan(count=5, estimator=f"{Odd.__module__}.Odd", params={"fault": fault})
    found = trained(tmp_path, {0: ([9.0, 1, 1], [0, 2, 2]), 1: ([1.0, 1, 1], [0, 2, 2])}, plan)
    assert found[0].votes(ROWS, 3).tolist() == [2] * len(ROWS)
    assert found[1].votes(ROWS, 3).tolist() == [1] * len(ROWS)  # the other shard knows nothing of it


def test_a_nan_is_replaced_where_it_stands(tmp_path: Path) -> None:
    plan = TeachersPlan(count=5, estimator=f"{Odd.__module__}.Odd", params={"fault": "nan"})
    found = trained(tmp_path, {0: ([9.0, 1, 1], [0, 2, 2])}, plan)
    assert found[0].votes(ROWS, 3).tolist() == [2 if at % 2 else 1 for at in range(len(ROWS))]


def test_a_machine_without_memory_is_not_a_vote(tmp_path: Path) -> None:
    plan = TeachersPlan(count=5, estimator=f"{Odd.__module__}.Odd", params={"fault": "memory"})
    with pytest.raises(Exception, match=r"^stage teach failed \(MemoryError\); nothing of the data is shown$"):
        trained(tmp_path, {0: ([9.0, 1], [0, 2])}, plan)


def test_fits_print_and_warn_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = TeachersPlan(count=5, estimator=f"{Odd.__module__}.Odd")
    trained(tmp_path, SHARDS, plan)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("params", [{"C": -1.0}, {"penalty": "none at all"}])
def test_a_parameter_no_shard_could_be_fitted_with_is_wrong_input(tmp_path: Path, params: dict[str, Any]) -> None:
    with pytest.raises(WrongInput, match=r"^teachers\.params: sklearn\.linear_model\.LogisticRegression cannot be"):
        trained(tmp_path, SHARDS, TeachersPlan(count=5, params=params))


def test_a_seed_of_the_plan_s_own_is_kept() -> None:
    assert TeachersPlan(count=5, params={"random_state": 7}).build(random_state=3).random_state == 7
    assert TeachersPlan(count=5).build(random_state=3).random_state == 3


def test_a_foreign_file_is_never_unpickled(tmp_path: Path) -> None:
    trained(tmp_path, SHARDS, TeachersPlan(count=5))
    vault = Vault(tmp_path / "vault")
    ref = vault.find("teachers")
    assert ref is not None
    (vault.root / "teachers").write_bytes(pickle.dumps([Teacher(None, 0)]))
    with pytest.raises(NotVerified):
        load_teachers(ref, vault)


@pytest.mark.parametrize("before", [1, 3, 6, 17])
def test_rows_lie_alike_however_many_the_shards_before_have(tmp_path: Path, before: int) -> None:
    """Otherwise one row more in one shard could change the rounding of another's sums."""
    shards = {0: ([0.5] * before, [0, 1, 2][:before] + [0] * (before - 3)), 1: ([0.1, 0.2, 0.3], [0, 1, 2])}
    plan = TeachersPlan(count=5, estimator=f"{__name__}.Surveyor")
    assert trained(tmp_path, shards, plan)[1].model.place == (0, 0, True)
