"""Teachers: every shard votes, its own way, whatever becomes of the others; and each once on every public row."""

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from tests import world
from tests.support.made import content_of, keep, made

X = world.Scaled(kind="numeric", name="x", mean=0, scale=1, fill=0, low=-9, high=9, missing=False)
ENCODING = world.Encoding(columns=(X,), label="y", classes=("a", "b", "c"))
ROWS = np.linspace(-3, 3, 13, dtype=np.float32)[:, None]
PARITY = np.arange(len(ROWS)) % 2
Shards = dict[int, tuple[list[float], list[int]]]
"""Values and labels of some shards."""
ANSWERS: dict[str, Any] = {
    "nan": np.where(PARITY, np.nan, 1.0),
    "foreign": PARITY * 0 + 7,
    "fraction": PARITY * 0 + 0.5,
    "words": np.full(len(ROWS), "a"),
    "short": PARITY[1:],
}


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
        if self.odd and self.fault == "predict":
            raise ValueError("a private value")
        return ANSWERS[self.fault] if self.odd else np.full(len(X), 1)


def by(estimator: type, **params: Any) -> world.TeachersPlan:
    return world.TeachersPlan(count=5, estimator=f"{estimator.__module__}.{estimator.__name__}", params=params)


def trained(folder: Path, shards: Shards, plan: world.TeachersPlan) -> list[world.Teacher]:
    """Teachers of shards 0 … 4."""
    vault = world.Vault(folder / "vault")
    schema = {world.SHARD: pl.UInt32(), "x": pl.Float64(), world.LABEL: pl.UInt16()}
    rows = [(shard, *row) for shard, of in shards.items() for row in zip(*of, strict=True)]
    ref = made(5).rows(pl.DataFrame(rows, schema, orient="row"), vault, "block.arrow")
    with pytest.MonkeyPatch.context() as one_by_one:
        one_by_one.setattr(world.units_teachers, "is_linear", lambda _: False)
        _, found = world.load_teachers(world.teach(ref, plan, ENCODING, vault, "teachers"), vault)
    assert not isinstance(found, world.LinearTeachers)
    return list(found)


SHARDS: Shards = {
    0: ([-1.0, -2, 1, 2], [0, 0, 1, 1]),
    1: ([1.0, 2, 3], [2, 2, 2]),
    3: ([-1.0, 0, 1, 2], [1, 0, 2, 2]),
}


def test_a_teacher_is_its_shard_s_own_fit_and_a_shard_without_rows_or_of_one_class_votes_by_rule(
    tmp_path: Path,
) -> None:
    found = trained(tmp_path, SHARDS, world.TeachersPlan(count=5, params={"C": 3.0}))
    values, labels = SHARDS[3]
    alone = LogisticRegression(C=3.0, random_state=3).fit(np.array(values, dtype=np.float32)[:, None], labels)
    assert np.array_equal(found[3].votes(ROWS, 3), alone.predict(ROWS))
    assert [set(found[shard].votes(ROWS, 3)) for shard in (1, 2, 4)] == [{2}, {2 % 3}, {4 % 3}]
    assert world.TeachersPlan(count=5, params={"random_state": 7}).build(random_state=3).random_state == 7
    nothing = trained(tmp_path, {}, world.TeachersPlan(count=5))
    assert [int(teacher.votes(ROWS, 3)[0]) for teacher in nothing] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("fault", ["fit", "predict", *ANSWERS])
def test_a_failing_teacher_votes_its_most_common_label_and_the_lowest_of_several(
    tmp_path: Path, fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is heard of it, and other shards know nothing of it. Of a number that is none, where it stands."""
    shards: Shards = {0: ([9.0, 1, 1], [0, 2, 2]), 1: ([1.0, 1, 1], [0, 2, 2]), 2: ([9.0, 9.0], [2, 1])}
    found = trained(tmp_path, shards, by(Odd, fault=fault))
    wrong = PARITY if fault == "nan" else PARITY * 0 + 1
    assert found[0].votes(ROWS, 3).tolist() == np.where(wrong, 2, 1).tolist()
    assert set(found[1].votes(ROWS, 3)) == set(found[2].votes(ROWS, 3)) == {1}
    assert capfd.readouterr() == ("", "")


def test_a_machine_without_memory_is_not_a_vote(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"^stage teach failed \(MemoryError\); nothing of the data is shown$"):
        trained(tmp_path, {0: ([9.0, 1], [0, 2])}, by(Odd, fault="memory"))


@pytest.mark.parametrize("params", [{"C": -1.0}, {"penalty": "none at all"}])
def test_a_parameter_no_shard_could_be_fitted_with_is_wrong_input(tmp_path: Path, params: dict[str, Any]) -> None:
    with pytest.raises(
        world.WrongInput, match=r"^teachers\.params: sklearn\.linear_model\.LogisticRegression cannot be"
    ):
        trained(tmp_path, SHARDS, world.TeachersPlan(count=5, params=params))


def test_a_foreign_file_is_never_unpickled(tmp_path: Path) -> None:
    trained(tmp_path, SHARDS, world.TeachersPlan(count=5))
    vault = world.Vault(tmp_path / "vault")
    ref = vault.find("teachers")
    assert ref is not None
    (vault.root / "teachers").write_bytes(pickle.dumps([world.Teacher(None, 0)]))
    with pytest.raises(world.NotVerified):
        world.load_teachers(ref, vault)


# Votes on public rows -------------------------------------------------------------------------------------------------


def polled(vault: world.Vault, *ensembles: list[world.Teacher]) -> pa.Table:
    """The votes of blocks of teachers."""
    refs, first, teachers = list[world.Ref](), 0, sum(map(len, ensembles))
    for ensemble in ensembles:
        span = first, first + len(ensemble)
        refs.append(keep(vault, f"teachers/{span}", pickle.dumps(ensemble), made(teachers, span=span)))
        first += len(ensemble)
    batch = world.PublicBatch(
        ref=world.write_frame(pl.DataFrame({"x": ROWS[:, 0]}), vault, "batch"), first=0, rows=len(ROWS)
    )
    votes = content_of(world.poll(batch, tuple(refs), ENCODING, vault, "votes"), vault)
    return pa.ipc.open_file(pa.BufferReader(votes)).read_all()


def fitted(labels: list[int]) -> LogisticRegression:
    return LogisticRegression().fit(np.array([[-2.0], [-1], [1], [2]], dtype=np.float32), labels)


@pytest.mark.parametrize("size", [4, 1 << 13])
def test_counts_are_the_votes_of_each_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(world.units_teachers, "SLICE", size)
    known, other = fitted([0, 0, 1, 1]), fitted([2, 2, 2, 1])
    found = polled(
        world.Vault(tmp_path),
        [world.Teacher(known, 0), world.Teacher(None, 2), world.Teacher(object(), 1)],
        [world.Teacher(other, 0)],
    )
    assert found.schema == world.votes_schema(3)
    expected = np.zeros((len(ROWS), 3), dtype=int)
    for votes in (known.predict(ROWS), other.predict(ROWS), 2, 1):
        expected[range(len(ROWS)), votes] += 1
    assert np.array_equal(np.column_stack([column.to_numpy() for column in found.columns]), expected)


class Scribbler:
    """A model that writes into the rows it is asked about."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        X *= -1
        return np.zeros(len(X))


def test_a_model_that_writes_into_the_rows_changes_no_other_votes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beside(first: object) -> list[int]:
        """How many rows an honest model gives each of two classes, asked after another one."""
        counts = polled(world.Vault(tmp_path), [world.Teacher(first, 2), world.Teacher(fitted([0, 0, 0, 1]), 0)])
        return [int(np.sum(counts[name].to_numpy())) for name in ("class_0", "class_1")]

    alone = beside(None)
    assert beside(Scribbler()) == alone
    monkeypatch.setattr(world.units_teachers, "read_only", lambda X: X)  # the planted fault
    assert beside(Scribbler()) != alone
