"""The demonstration: synthetic, the same every time, and as messy as real records."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from tests import world

PLANS = Path(__file__).parents[3] / "deployments" / "plans"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_demo(tmp_path_factory.mktemp("demo")).parent


def test_it_is_the_same_every_time(folder: Path, tmp_path: Path) -> None:
    world.write_demo(tmp_path)
    files = sorted(path.relative_to(folder) for path in folder.rglob("*.*"))
    tables = ["private.parquet", "public.parquet", "test.parquet"]
    plans = ["demo-one-table.json", "demo-one-table.toml", "demo.toml"]
    assert [file.name for file in files] == ["concord-plan.schema.json", *tables, *plans]
    assert all((folder / file).read_bytes() == (tmp_path / file).read_bytes() for file in files)


def test_units_hold_several_rows_and_public_rows_name_nobody(folder: Path) -> None:
    private = pl.read_parquet(folder / "data/demo/private.parquet")
    assert 55_000 < private.height < 65_000
    assert 2 < private.height / private["patient"].n_unique() < 3
    public = pl.read_parquet_schema(folder / "data/demo/public.parquet")
    assert set(private.columns) - set(public) == {"patient", "readmitted"}
    assert sum(column.null_count() > 0 for column in private) >= 4


def test_it_can_be_learned_but_not_wholly(folder: Path) -> None:
    plan = world.load_plan(folder / "demo.toml")
    encoding = world.learn_encoding(plan)
    assert {column.kind for column in encoding.columns} == {"numeric", "boolean", "date", "categorical"}
    X, y = [], []
    for field in ("private", "test"):
        rows, labels = world.labelled_rows(str(folder / f"data/demo/{field}.parquet"), encoding)
        X.append(world.encode(rows[:5000], encoding))
        y.append(labels[:5000])
    right = np.mean(LogisticRegression(max_iter=1000).fit(X[0], y[0]).predict(X[1]) == y[1])
    assert 0.87 < right < 1 - world.UNFORESEEN + 0.01


def test_its_schema_declares_the_features_and_holds_all_that_occurs(folder: Path) -> None:
    """Ranges and categories that a dictionary would give: no private cell lies outside."""
    plan = world.load_plan(folder / "demo-one-table.toml")
    public = world.load_plan(folder / "demo.toml")
    assert plan.data.public is None
    for section in ("private", "test", "label", "classes", "unit", "version"):
        assert getattr(plan.data, section) == getattr(public.data, section)
    assert plan.privacy == public.privacy
    rows = pl.read_parquet(folder / "data/demo/private.parquet")
    assert plan.data.sketched.names == tuple(rows.drop("patient", "readmitted").columns)
    for column in plan.data.sketched.columns:
        cells = rows[column.name].drop_nulls().to_physical()
        if isinstance(column, world.DeclaredCategories):
            assert {*cells} <= {*column.words}
        elif isinstance(column, world.DeclaredRange):
            assert cells.is_between(column.low, column.high).all()


@pytest.mark.parametrize("name", ["demo", "adult", "kdd99", "mnist"])
def test_the_plans_are_plans(name: str) -> None:
    plan = world.load_plan(PLANS / f"{name}.toml")
    assert plan.privacy.epsilon <= 1
    assert all(str(path).startswith("data/") for path in (plan.data.private, plan.data.public, plan.data.test))
