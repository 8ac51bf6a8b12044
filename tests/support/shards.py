"""Shards of made-up rows in a block's file, and the encoding and settings by which teachers learn from them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from tests.support.made import made
from tests.world import LABEL, LINEAR, SHARD, Encoding, Ref, Scaled, TeachersPlan, Vault

SHRUNK = {"solver": "lsqr", "shrinkage": "auto"}
OTHERS: dict[str, dict[str, Any]] = {
    "sklearn.tree.DecisionTreeClassifier": {"max_depth": 4},
    "sklearn.ensemble.RandomForestClassifier": {"n_estimators": 3},
    "sklearn.naive_bayes.GaussianNB": {},
    "sklearn.neighbors.KNeighborsClassifier": {},
}
LEARNERS = {name: SHRUNK if "LinearDiscriminant" in name else {} for name in LINEAR} | OTHERS
"""Learners with parameters: all that are asked as one array, and one of each other kind."""
Shard = tuple[np.ndarray, np.ndarray]
"""Features (rows, width) and class indices (rows,)."""


def learner(estimator: str, shards: int, **params: Any) -> TeachersPlan:
    return TeachersPlan(count=shards, estimator=estimator, params=LEARNERS[estimator] | params)


def plain_encoding(width: int, classes: int) -> Encoding:
    """Numbers as they are, in columns x0, x1, …"""
    column = Scaled(kind="numeric", name="", mean=0, scale=1, fill=0, low=-1e30, high=1e30, missing=False)
    columns = tuple(column.model_copy(update={"name": f"x{at}"}) for at in range(width))
    return Encoding(columns=columns, label="y", classes=("a", "b", "c")[:classes])


def features(X: np.ndarray) -> pl.DataFrame:
    """Rows (rows, width) under that encoding's names."""
    return pl.DataFrame({f"x{at}": X[:, at].astype(np.float64) for at in range(X.shape[1])})


def write_block(shards: Mapping[int, Shard], block: tuple[int, int], count: int, vault: Vault) -> Ref:
    """The block of these shards among `count`, which are in order; one that is left out has no rows."""
    here = {shard: rows for shard, rows in shards.items() if block[0] <= shard < block[1]}
    numbers = np.repeat(np.array([*here], np.uint32), [len(y) for _, y in here.values()])
    X, y = np.vstack([X for X, _ in here.values()]), np.concatenate([y for _, y in here.values()])
    frame = features(X).with_columns(pl.Series(LABEL, y.astype(np.uint16)), pl.Series(SHARD, numbers))
    return made(count, span=block).rows(frame, vault, "rows.arrow")
