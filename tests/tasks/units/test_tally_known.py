"""Tallies where labels alone are secret: changing a unit's labels moves sums by what is paid for, and nothing else."""

from functools import partialmethod
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.made import content_of, sums_of
from tests.support.people import changed, people
from tests.support.secret_labels import flipped, public_rows, tables, vault_of

PEOPLE = people(400, 1)
SHARE = 0.25


def places(rows: int) -> pl.Series:
    """What rows are known by that no unit is named for."""
    return pl.Series([place.to_bytes(8, "little") for place in range(rows)], dtype=pl.Binary)


class Asked:
    """One private table, as the stages of a run ask it."""

    def __init__(self, folder: Path, private: pl.DataFrame, unit: str | None) -> None:
        given = tables(folder, private, unit=unit, public_share=SHARE)
        given["labeling"] = {"mechanism": "tallies", "rows": 300}
        plan = changed({name: given[name] for name in given if name not in ("teachers", "student")})
        vault = vault_of(folder.parent / "vault")
        self.vault, self.plan = vault, world.with_public(plan, vault, [vault.digest_file(Path(plan.path("private")))])
        public = public_rows(self.plan)
        encoding = world.learn_encoding(self.plan)
        cells = world.cast_rows(public.select(encoding.features), encoding)
        self.codes = world.learn_codes([cells], encoding.columns, **world.planned_sizes(self.plan, encoding))
        mechanism = world.planned_tallies(self.plan, self.codes, public.height)
        (self.question,) = world.RoundPlanner(mechanism, self.codes, self.codes.of(cells)).first_questions()
        key = world.derive(vault.secret("domains/people"), "split")
        self.blocks = world.gather(
            world.Coding(world.PrivateRows(self.plan, encoding, vault, key), self.codes), f"units/people/{folder.name}"
        )

    @property
    def sums(self) -> world.Ints:
        places = [f"sums/{block.path}" for block in self.blocks]
        parts = [world.count([b], self.question, self.vault, at) for b, at in zip(self.blocks, places, strict=True)]
        return sums_of(parts, self.vault)

    def rows(self, block: world.Ref) -> pl.DataFrame:
        return pl.read_ipc_stream(content_of(block, self.vault))

    @property
    def unlabelled(self) -> list[pl.DataFrame]:
        return [self.rows(block).drop(world.LABEL) for block in self.blocks]


def asked_twice(folder: Path, unit: str | None, labels: pl.Expr | None = None, rows: int = 1) -> tuple[Asked, Asked]:
    """A table, and its neighbour: the first person, or the first rows, have other labels."""
    own = pl.col("person") == PEOPLE["person"][0] if unit else pl.int_range(pl.len()) < rows
    table = (
        flipped(PEOPLE, own)
        if labels is None
        else PEOPLE.with_columns(outcome=pl.when(own).then(labels).otherwise("outcome"))
    )
    return Asked(folder / "one", PEOPLE, unit), Asked(folder / "other", table, unit)


@pytest.mark.parametrize("unit", ["person", None])
@pytest.mark.parametrize("labels", [None, pl.lit(None, pl.String), pl.lit("neither")])
def test_changed_labels_move_no_row_and_the_sums_within_what_is_paid(
    tmp_path: Path, unit: str | None, labels: pl.Expr | None
) -> None:
    one, other = asked_twice(tmp_path, unit, labels)
    assert one.codes == other.codes
    for here, there in zip(one.unlabelled, other.unlabelled, strict=True):
        assert here.equals(there)
    assert (
        world.known_codes(one.blocks, one.codes, one.vault)[0].tobytes()
        == world.known_codes(other.blocks, other.codes, other.vault)[0].tobytes()
    )
    moved = one.sums - other.sums
    ((bound, _),) = world.planned_tallies(one.plan, one.codes, 100).squares_by_round
    assert int(np.sum(moved.astype(object) ** 2)) <= bound


def test_where_pieces_of_a_file_end_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer may end them by the bytes of labels."""
    found = []
    for rows in (400, 130, 90):
        monkeypatch.setattr(
            pl.DataFrame, "write_parquet", partialmethod(pl.DataFrame.write_parquet, row_group_size=rows)
        )
        one = Asked(tmp_path / f"{rows}", PEOPLE, "person")
        known, _ = world.known_codes(one.blocks, one.codes, one.vault)
        found.append((known.tobytes(), [*map(repr, one.unlabelled)]))
        monkeypatch.undo()
    assert found == [found[0]] * 3


@pytest.mark.parametrize("unit", ["person", None])
def test_it_knows_one_row_of_each_unit_and_how_many_there_are(tmp_path: Path, unit: str | None) -> None:
    one = Asked(tmp_path / "one", PEOPLE, unit)
    rows, units = world.known_codes(one.blocks, one.codes, one.vault)
    names = world.unit_names(PEOPLE["person"].unique()) if unit else places(PEOPLE.height)
    key = world.public_key(world.derive(one.vault.secret("domains/people"), "split"))
    assert len(rows) == units == (~world.sampled(names, key, SHARE)).sum()
    coded = [part.select(pl.exclude(world.UNIT)).rows() for part in one.unlabelled]
    assert set(map(tuple, rows.tolist())) <= set(chain.from_iterable(coded))


def test_of_many_units_it_knows_every_so_manieth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.units_blocks, "MOST_DECODED", 100)
    one = Asked(tmp_path / "one", PEOPLE, None)
    rows, units = world.known_codes(one.blocks, one.codes, one.vault)
    assert 50 < len(rows) <= 100 < units


def test_a_row_left_out_for_its_label_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: rows of an unknown label are dropped, so that features follow from labels.

    One row lies among the public ones with probability `SHARE`, all 40 with probability 1e-24.
    """
    true = world.units_blocks._coded

    def dropping(raw: pl.DataFrame, *given: Any) -> pl.DataFrame:
        return true(raw.filter(pl.col("outcome").is_in(["no", "yes"])), *given)

    monkeypatch.setattr(world.units_blocks, "_coded", dropping)
    one, other = asked_twice(tmp_path, None, pl.lit("neither"), rows=40)
    assert any(not a.equals(b) for a, b in zip(one.unlabelled, other.unlabelled, strict=True))
