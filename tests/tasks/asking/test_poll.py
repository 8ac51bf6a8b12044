"""Poll: counts by hand, every teacher once on every row."""

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from tests.world import (
    Encoding,
    PublicBatch,
    Ref,
    Scaled,
    Teacher,
    Vault,
    asking_teachers,
    poll,
    votes_schema,
    write_frame,
)

X = Scaled(kind="numeric", name="x", mean=0, scale=1, fill=0, low=-9, high=9, missing=False)
ENCODING = Encoding(columns=(X,), label="y", classes=("a", "b", "c"))
VALUES = np.linspace(-3, 3, 23)


def blocks(vault: Vault, *ensembles: list[Teacher]) -> tuple[Ref, ...]:
    refs = []
    for index, ensemble in enumerate(ensembles):
        with vault.create(f"teachers/{index}") as sink:
            pickle.dump(ensemble, sink)
        refs.append(sink.ref)
    return tuple(refs)


def polled(vault: Vault, teachers: tuple[Ref, ...]) -> pa.Table:
    batch = PublicBatch(ref=write_frame(pl.DataFrame({"x": VALUES}), vault, "batch"), first=0, rows=len(VALUES))
    votes = vault.read(poll(batch, teachers, ENCODING, vault, "votes"))
    return pa.ipc.open_file(pa.BufferReader(votes)).read_all()


def fitted(labels: list[int]) -> LogisticRegression:
    return LogisticRegression().fit(np.array([[-2.0], [-1], [1], [2]], dtype=np.float32), labels)


ENSEMBLES = (
    [Teacher(fitted([0, 0, 1, 1]), 0), Teacher(None, 2), Teacher(object(), 1)],
    [Teacher(fitted([2, 2, 2, 1]), 0)],
)


@pytest.mark.parametrize("size", [4, 1 << 13])
def test_counts_are_the_votes_of_each_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(asking_teachers, "SLICE", size)
    vault = Vault(tmp_path / "vault")
    found = polled(vault, blocks(vault, *ENSEMBLES))
    assert found.schema == votes_schema(3)
    expected = np.zeros((len(VALUES), 3), dtype=int)
    for row, value in enumerate(VALUES.astype(np.float32)):
        for ensemble in ENSEMBLES:
            for teacher in ensemble:
                known = isinstance(teacher.model, LogisticRegression)
                expected[row, teacher.model.predict([[value]])[0] if known else teacher.fixed] += 1
    counts = np.column_stack([column.to_numpy() for column in found.columns])
    assert np.array_equal(counts, expected)
    assert set(counts.sum(axis=1)) == {4}


class Scribbler:
    """A model that writes into the rows it is asked about."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        X *= -1
        return np.zeros(len(X))


def votes_beside(first: object, vault: Vault) -> list[int]:
    """How many rows an honest model gives each class, asked after another one."""
    counts = polled(vault, blocks(vault, [Teacher(first, 2), Teacher(fitted([0, 0, 1, 1]), 0)]))
    return [int(np.sum(counts[name].to_numpy())) for name in ("class_0", "class_1")]


def test_a_model_that_writes_into_the_rows_changes_no_other_votes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Vault(tmp_path / "vault")
    alone = votes_beside(None, vault)
    assert votes_beside(Scribbler(), vault) == alone
    monkeypatch.setattr(asking_teachers, "read_only", lambda X: X)
    assert votes_beside(Scribbler(), vault) != alone  # it would
