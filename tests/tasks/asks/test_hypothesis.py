"""A student is chosen by the private errors of public hypotheses, which one unit moves by one at most."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.made import content_of
from tests.support.people import people, tables_of_plan, write_tables
from tests.support.secret_labels import Rows, flipped, public_rows, tables, vault_of

CHOSEN = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}
PEOPLE = people(300, 1)
Counts = tuple[Rows, world.Ints]
"""Public rows, and the errors of every candidate of their cover on the private ones."""


def choosing(found: dict[str, Any]) -> world.Plan:
    """The plan with a universal student."""
    sections = {name: part for name, part in found.items() if name not in ("teachers", "labeling")}
    return world.parse_plan({**sections, "student": CHOSEN})


def counted(plan: world.Plan, vault: world.Vault) -> tuple[world.HypothesisAsk, world.Ints]:
    encoding = world.learn_encoding(plan)
    batches = world.stage_public(plan.path("public"), encoding, vault, "public", 1000)
    ask = world.HypothesisAsk.of(plan, encoding, batches, vault)
    rows = world.PrivateRows(plan, encoding, vault, world.derive(vault.secret("domains/people"), "split"))
    return ask, np.load(io.BytesIO(content_of(world.count_errors(rows, ask.candidates, "counts"), vault)))


def of_labels(folder: Path, private: pl.DataFrame, unit: str | None) -> Counts:
    """Where labels alone are secret: public rows are made of a part of the private table. Errors move either way."""
    plan, vault = choosing(tables(folder, private, unit=unit)), vault_of(folder / "vault")
    made = world.with_public(plan, vault, [vault.digest_file(Path(plan.path("private")))])
    ask, counts = counted(made, vault)
    assert (ask.settings()["secret"], ask.mechanism.choice.monotone) == ("labels", False)
    return public_rows(made).rows(), counts


def of_rows(folder: Path, private: pl.DataFrame, unit: str | None) -> tuple[world.HypothesisAsk, world.Ints]:
    """Where whole rows are secret."""
    found = tables_of_plan(write_tables(folder, private))
    return counted(choosing(found | {"data": found["data"] | {"unit": unit}}), vault_of(folder / "vault"))


def rows_with(item: int, unit: str | None) -> pl.Expr:
    """All rows of one unit."""
    return pl.col("person") == PEOPLE["person"][item] if unit else pl.int_range(pl.len()) == item


@pytest.mark.parametrize("unit", ["person", None])
def test_labels_of_one_unit_move_every_error_count_by_at_most_one(tmp_path: Path, unit: str | None) -> None:
    public, before = of_labels(tmp_path, PEOPLE, unit)
    theirs = pl.Series([row in set(public) for row in PEOPLE.select("size", "shade", "visits").rows()])
    for items, expected in ((theirs.arg_true()[:5], {0}), ((~theirs).arg_true()[:5], {-1, 0, 1})):
        moves = {0}
        for item in items:
            same, after = of_labels(tmp_path, flipped(PEOPLE, rows_with(item, unit)), unit)
            assert same == public
            moves |= set((after - before).tolist())
        assert moves == expected
    assert np.array_equal(of_labels(tmp_path, flipped(PEOPLE, pl.lit(theirs)), unit)[1], before)


@pytest.mark.parametrize("unit", ["person", None])
def test_one_more_unit_raises_error_counts_by_one_or_by_nothing(tmp_path: Path, unit: str | None) -> None:
    """All move one way: the full weights of universal.py are proved for that alone, and the session says so."""
    (ask, whole), moves = of_rows(tmp_path, PEOPLE, unit), set[int]()
    assert (ask.settings()["secret"], ask.mechanism.choice.monotone) == ("rows", True)
    for item in range(0, 300, 60):
        moves |= set((whole - of_rows(tmp_path, PEOPLE.filter(~rows_with(item, unit)), unit)[1]).tolist())
    assert moves == {0, 1}
