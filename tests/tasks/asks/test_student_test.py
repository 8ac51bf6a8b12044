"""A trial: each row is asked about by itself, and noisy counts pass the door once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tests import world
from tests.support.made import content_of
from tests.support.people import changed, people, tables_of_plan, write_tables

CLASSES = ("no", "yes")


def by_sign(X: world.Matrix) -> NDArray[Any]:
    return np.where(X[:, 0] > 0, "yes", "no")


def by_company(X: world.Matrix) -> NDArray[Any]:
    """An estimator that looks at all rows at once, as batch normalisation does."""
    return np.where(X[:, 0] > X[:, 0].mean(), "yes", "no")


def of_some_only(X: world.Matrix) -> NDArray[Any]:
    if X[0, 0] > 1:
        raise SystemError(f"a private value: {X[0, 0]}")
    return np.where(X[:, 0] > 0, "yes", "neither")


def that_writes(X: world.Matrix) -> NDArray[Any]:
    X[...] = 0
    return np.array(["yes"] * len(X))


def by_bit(X: world.Matrix) -> NDArray[Any]:
    return np.where(np.signbit(X[:, 0]), "yes", "no")


@pytest.mark.parametrize("says", [by_sign, by_company, of_some_only, that_writes, by_bit])
def test_what_is_said_of_a_row_does_not_change_with_the_others(says: Callable[[world.Matrix], NDArray[Any]]) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    X[7] = X[3]
    X[9], X[10] = 0.0, -0.0
    alone = [int(world.classes_given(says, X[at : at + 1], CLASSES)[0]) for at in range(60)]
    assert world.classes_given(says, X, CLASSES).tolist() == alone
    assert world.classes_given(says, X[::-1], CLASSES).tolist() == alone[::-1]
    if says is of_some_only:  # a row it fails on counts as given the first class
        assert {alone[at] for at in np.flatnonzero(X[:, 0] > 1)} == {0}


@pytest.fixture
def plan(tmp_path: Path) -> world.Plan:
    folder = write_tables(tmp_path / "data", people(800, 1))
    return changed(tables_of_plan(folder), test__share=0.4, privacy__domain="d")


@pytest.fixture
def door(tmp_path: Path) -> world.Stores:
    (tmp_path / "home").mkdir()
    return world.Stores.of(tmp_path / "home")


def counted(plan: world.Plan, door: world.Stores) -> world.Ref:
    encoding = world.learn_encoding(plan)
    key = world.derive(door.vault.make_secret("domains/d"), "split")
    return world.count_units(
        world.PrivateRows(plan, encoding, door.vault, key), world.Confusion((by_sign, None), 2), "tested/d/1"
    )


def matrix(door: world.Stores, counts: world.Ref) -> NDArray[np.int64]:
    return np.frombuffer(content_of(counts, door.vault), "<i8").reshape(2, 2)


def test_a_unit_more_changes_one_count_by_one(plan: world.Plan, door: world.Stores) -> None:
    before = matrix(door, counted(plan, door))
    private = people(800, 1)
    units = private["person"].unique().sort()
    key = world.derive(door.vault.make_secret("domains/d"), "split")
    for part, expected in ((world.LEARNING, (0, 0, 0, 0)), (world.TEST, (0, 0, 0, 1))):
        members = units.filter(world.of_part(plan, key, part)(units.to_frame(), units.cast(pl.Binary)))
        assert part == world.LEARNING or before.sum() == len(members)
        for unit in members[:6]:
            private.filter(pl.col("person") != unit).write_csv(plan.path("private"))
            step = before - matrix(door, counted(plan, door))
            assert tuple(sorted(step.ravel().tolist())) == expected


def errors_counted(plan: world.Plan, door: world.Stores) -> NDArray[np.int64]:
    """The counts of a student that says half the size more than 4, and fails on some rows."""

    def says(X: world.Matrix) -> NDArray[Any]:
        if X[0, 0] > 1:
            raise SystemError(f"a private value: {X[0, 0]}")
        return 4 + X[:, 0] / 2

    encoding, key = world.learn_encoding(plan), world.derive(bytes(32), "split")
    assert encoding.bounds is not None
    door.vault.make_secret("domains/d")
    counts = world.NumberErrors((says, None), encoding.bounds, 4.5, key)
    ref = world.count_units(world.PrivateRows(plan, encoding, door.vault, key), counts, "tested/d/3")
    return np.frombuffer(content_of(ref, door.vault), "<i8").reshape(2, -1)


@pytest.mark.parametrize("unit", ["person", None])
def test_a_unit_more_is_one_more_error_of_student_and_constant(
    plan: world.Plan, door: world.Stores, unit: str | None
) -> None:
    """Of a number; without names, a unit is a row that another repeats."""
    tables = plan.model_dump(include={"privacy", "folder"})
    data = {"private": "private.csv", "public": "public.parquet", "label": "visits", "bounds": [0, 8], "unit": unit}
    test = {"share": 0.95} | ({} if unit else {"columns": ["size", "shade"]})
    tables |= {"data": data, "test": test, "labeling": {"mechanism": "tallies", "rows": 400}}
    plan = world.parse_plan(tables)
    private = pl.concat([people(200, 1)] * 2).with_columns(pl.col("visits").cast(pl.String)).drop("outcome")
    odd = ["1e9", "dear", "inf"]
    private = private.with_columns(visits=pl.Series([*odd, *private["visits"][3:200]] * 2))
    private.write_csv(plan.path("private"))
    before = errors_counted(plan, door)
    errors, of_constant = before
    assert errors.sum() == of_constant.sum() > 30
    assert errors[-1] > 0  # of rows that the student fails on
    true = private["visits"].cast(pl.Float64, strict=False).fill_null(4).clip(0, 8).to_numpy()
    squares = np.square((true - 4.5) / 8)
    assert of_constant @ np.square(world.PLACES) / errors.sum() == pytest.approx(squares.mean(), rel=0.3)
    names = private["person"] if unit else private.with_row_index()["index"]
    steps = set[tuple[int, ...]]()
    for name in names[:4]:  # at least one of them is set aside by this key
        private.filter(names != name).write_csv(plan.path("private"))
        moved = before - errors_counted(plan, door)
        steps |= {tuple(sorted(part)) for part in moved.tolist()}
        assert moved[0].sum() == moved[1].sum()
    assert steps - {(0,) * 8} == {(*[0] * 7, 1)}


def test_a_number_given_of_a_row_does_not_change_with_the_others() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    weights = np.random.default_rng(1).normal(size=3).astype(np.float32)

    def says(rows: world.Matrix) -> NDArray[Any]:
        return rows @ weights if rows[0, 0] < 1 else np.array(["dear"])

    alone = np.concatenate([world.numbers_given(says, X[at : at + 1]) for at in range(60)])
    assert world.numbers_given(says, X).tobytes() == alone.tobytes()
    assert np.isnan(alone).tolist() == (X[:, 0] >= 1).tolist()
