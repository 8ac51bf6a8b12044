"""Tables whose numbers lie in clusters, with labels that no single column tells."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

CLUSTERS, COLUMNS = 16, ("height", "weight", "reach", "pace")
CENTRES = np.random.default_rng(8).uniform(-4, 4, (CLUSTERS, len(COLUMNS)))


def clustered(rows: int, seed: int) -> pl.DataFrame:
    """Rows of four numbers near one of the centres, and a word; every second cluster is of the second class."""
    draw = np.random.default_rng(seed)
    cluster = draw.integers(0, CLUSTERS, rows)
    numbers = (CENTRES[cluster] + 0.3 * draw.normal(size=(rows, len(COLUMNS)))).round(3)
    words = {"shade": draw.choice(["dark", "light"], rows), "outcome": np.where(cluster % 2, "yes", "no")}
    return pl.DataFrame({**dict(zip(COLUMNS, numbers.T, strict=True)), **words})


def permuted(rows: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The same numbers, each column permuted by itself: no clusters are left."""
    draw = np.random.default_rng(seed)
    return rows.with_columns(rows[name].gather(draw.permutation(rows.height)) for name in COLUMNS)


def tables_of_clusters(folder: Path, **labeling: Any) -> dict[str, Any]:
    """Tables on disk, and a plan for tallies over them, to be changed before it is parsed."""
    folder.mkdir(parents=True, exist_ok=True)
    clustered(4_000, 1).write_csv(folder / "private.csv")
    clustered(800, 2).drop("outcome").write_parquet(folder / "public.parquet")
    clustered(500, 3).write_parquet(folder / "test.parquet")
    paths = {"private": "private.csv", "public": "public.parquet", "test": "test.parquet"}
    return {
        "folder": str(folder),
        "data": {**paths, "label": "outcome", "classes": ["no", "yes"]},
        "privacy": {
            "domain": "people",
            "epsilon": 2.0,
            "delta": 1e-5,
            "lifetime": {"epsilon": 9.0, "delta": 4e-5},
        },
        "labeling": {"mechanism": "tallies", "rows": 4_000, **labeling},
    }
