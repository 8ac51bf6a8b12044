"""What the choice of a student rests on: error counts that one more unit moves one way, and by one at most."""

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.support.people import people, tables_of_plan, write_tables
from tests.world import (
    HypothesisAsk,
    Ints,
    Plan,
    PrivateRows,
    Vault,
    count_errors,
    derive,
    learn_encoding,
    parse_plan,
    stage_public,
)

STUDENT = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}


def choosing(folder: Path, private: pl.DataFrame | None, unit: str | None) -> Plan:
    tables = tables_of_plan(write_tables(folder, private))
    tables = {**tables, "data": {**tables["data"], "unit": unit}, "student": STUDENT}
    return parse_plan({name: section for name, section in tables.items() if name not in ("teachers", "labeling")})


def choice(plan: Plan, vault: Vault) -> HypothesisAsk:
    encoding = learn_encoding(plan)
    return HypothesisAsk.of(plan, encoding, stage_public(plan.path("public"), encoding, vault, "public", 1000), vault)


def errors(folder: Path, private: pl.DataFrame, unit: str | None) -> Ints:
    plan, vault = choosing(folder, private, unit), Vault(folder / "vault")
    key = derive(vault.make_secret("domains/people"), "split")
    counts = count_errors(PrivateRows(plan, learn_encoding(plan), vault, key), choice(plan, vault).candidates, "counts")
    found: Ints = np.load(io.BytesIO(vault.read(counts)))
    return found


@pytest.mark.parametrize("unit", ["person", None])
def test_one_more_unit_raises_error_counts_by_one_or_by_nothing(tmp_path: Path, unit: str | None) -> None:
    """All move one way: the full weights of universal.py are proved for that alone."""
    private, moves = people(300, 1), set()
    whole = errors(tmp_path, private, unit)
    for item in range(0, 300, 60):
        theirs = pl.col("person") == private["person"][item] if unit else pl.int_range(pl.len()) == item
        moves |= set((whole - errors(tmp_path, private.filter(~theirs), unit)).tolist())
    assert moves == {0, 1}


def test_the_session_says_which_weights_it_draws_by(tmp_path: Path) -> None:
    made = choice(choosing(tmp_path, None, "person"), Vault(tmp_path / "vault"))
    assert made.settings()["secret"] == "rows"
    assert made.mechanism.choice.monotone
