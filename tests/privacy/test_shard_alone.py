"""A shard alone: for every learner, what is learned from a shard is the same, to the bit, in whatever company it is.

Rows of other shards are added, removed and permuted; the shard is in a block of its own, in a longer one and beside
threads that learn too; and it is learned from in another process. Rows: test_row_alone.py. Linear ones at length, and
planted faults: test_linear_alone.py.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.processes import FRESH
from tests.world import (
    LABEL,
    LINEAR,
    SHARD,
    Block,
    Encoding,
    LinearTeachers,
    Scaled,
    TeachersPlan,
    Vault,
    load_teachers,
    teach,
    write_frame,
)

OTHERS: dict[str, dict[str, Any]] = {
    "sklearn.tree.DecisionTreeClassifier": {"max_depth": 4},
    "sklearn.ensemble.RandomForestClassifier": {"n_estimators": 3},
    "sklearn.naive_bayes.GaussianNB": {},
    "sklearn.neighbors.KNeighborsClassifier": {},
}
SHRUNK = {"solver": "lsqr", "shrinkage": "auto"}
LEARNERS = {name: SHRUNK if "LinearDiscriminant" in name else {} for name in LINEAR} | OTHERS
COUNT, OWN, WIDTH = 5, 2, 3
PUBLIC = np.random.default_rng(9).normal(size=(200, WIDTH)).astype(np.float32)
Company = dict[int, int]
"""How many rows other shards have, by shard; of a negative number, in the opposite order."""
COMPANIES: tuple[Company, ...] = ({}, {0: 4, 1: 50, 3: 7, 4: 20}, {0: -4, 1: -50, 3: 300, 4: -20}, {1: 1, 3: 1})


def rows_of(company: Company, shards: range) -> pl.DataFrame:
    """Rows of shards, of which OWN has always the same."""
    parts = []
    for shard in shards:
        rng, size = np.random.default_rng(shard), 60 if shard == OWN else company.get(shard, 0)
        X, y = rng.normal(size=(abs(size), WIDTH)), rng.integers(0, 2, abs(size))
        order = slice(None, None, -1 if size < 0 else 1)
        columns = {f"x{at}": X[order, at] for at in range(WIDTH)}
        labels, numbers = pl.Series(y[order].astype(np.uint16)), pl.Series([shard] * abs(size), dtype=pl.UInt32)
        parts.append(pl.DataFrame({SHARD: numbers, **columns, LABEL: labels}))
    return pl.concat(parts)


def learned(folder: Path, name: str, company: Company, shards: range = range(COUNT)) -> str:
    """A digest of the teacher of OWN: its weights, or its votes on public rows."""
    column = Scaled(kind="numeric", name="", mean=0, scale=1, fill=0, low=-1e30, high=1e30, missing=False)
    columns = tuple(column.model_copy(update={"name": f"x{at}"}) for at in range(WIDTH))
    encoding, vault = Encoding(columns=columns, label="y", classes=("a", "b")), Vault(folder / "vault")
    rows = write_frame(rows_of(company, shards), vault, "rows.arrow")
    plan = TeachersPlan(count=COUNT, estimator=name, params=LEARNERS[name])
    found = load_teachers(teach(Block((shards.start, shards.stop), rows), plan, encoding, vault, "teachers"), vault)
    if isinstance(found, LinearTeachers):
        return hashlib.sha256(found.weights[:, OWN - shards.start].tobytes()).hexdigest()
    return hashlib.sha256(found[OWN - shards.start].votes(PUBLIC, 2).tobytes()).hexdigest()


def _write(folder: Path, name: str, companies: Sequence[Company]) -> None:
    (folder / "found").write_text(" ".join(learned(folder, name, company) for company in companies))


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_makes_the_same_of_a_shard_in_any_company(name: str, tmp_path: Path) -> None:
    found = {learned(tmp_path, name, company) for company in COMPANIES}
    found |= {learned(tmp_path, name, COMPANIES[1], shards) for shards in (range(OWN, OWN + 1), range(1, 4))}
    with ThreadPoolExecutor(4) as threads:
        places = [tmp_path / str(at) for at in range(8)]
        found |= {*threads.map(partial(learned, name=name, company=COMPANIES[2]), places)}
    process = FRESH.Process(target=_write, args=(tmp_path, name, COMPANIES[:2]))
    process.start()
    process.join()
    found |= {*(tmp_path / "found").read_text().split()}
    assert len(found) == 1


def test_a_row_of_the_shard_itself_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, true = learned(tmp_path, LINEAR[0], {}), rows_of
    monkeypatch.setitem(globals(), "rows_of", lambda *given: true(*given)[:-1])
    assert learned(tmp_path, LINEAR[0], {}) != before
