"""Private rows as codes and exact sums: to the bit the same in any company, order, file and block."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.at_door import PLAN
from tests.support.made import sums_of
from tests.support.people import people, tallied, write_tables

KEY = bytes(32)
ROWS = people(400, 7)


class Counted:
    """One question about tables of people, by way of the very stages."""

    def __init__(self, folder: Path, unit: str | None, *, number: bool = False, pairs: bool = False) -> None:
        data: dict[str, Any] = {"label": "size", "bounds": [-1.5, 0.75], "classes": None} if number else {}
        self.plan: world.Plan = world.parse_plan(tallied(write_tables(folder), unit=unit, **data))
        self.encoding: world.Encoding = world.learn_encoding(self.plan)
        public = pl.read_parquet(self.plan.path("public"))
        cells = world.cast_rows(public.select(self.encoding.features), self.encoding)
        self.codes: world.Codes = world.learn_codes([cells], self.encoding.columns, coarse=8)
        self.asked = world.with_pairs(self.codes, self.codes.of(cells), world.GROUPS) if pairs else self.codes
        self.vault, self.folder, self.times = world.Vault(folder / "vault"), folder, 0

    @property
    def question(self) -> world.RoundQuestion:
        """A round with a model, which takes odd values."""
        classes = len(self.encoding.classes)
        rounds = world.planned_rounds(classes=classes, fields=len(self.codes.fine), codes=self.codes.size, pairs=True)
        mechanism = world.calibrated_sums(
            world.Tallies, epsilon=1.0, delta=1e-5, classes=classes, rounds=rounds, many=True
        )
        weights = np.random.default_rng(0).integers(-999, 999, (self.asked.size, 1))
        spans = [(field.start, field.start + field.size) for field in self.asked.fields]
        model = world.IntegerModel(weights.astype(np.int64), np.array([13], np.int64))
        fields = [*self.asked.pairs] or self.codes.fine
        return mechanism.question(2, fields, [spans[at] for at in fields], model)

    def of(self, rows: pl.DataFrame, files: int = 1, erased: world.Erased | None = None) -> world.Ints:
        """What these private rows add up to, written to so many files."""
        self.times += 1
        private = self.folder / f"private-{self.times}"
        private.mkdir()
        for part in range(files):
            rows[part::files].write_parquet(private / f"{part}.parquet")
        data = self.plan.data.model_copy(update={"private": str(private)})
        plan = self.plan.model_copy(update={"data": data})
        coding = world.Coding(
            world.PrivateRows(plan, self.encoding, self.vault, KEY, erased or world.NOBODY), self.codes
        )
        blocks = world.gather(coding, f"units/d/{self.times}")
        assert len(blocks) == world.BLOCKS
        given = [([block], self.question, self.vault, f"sums/d/{self.times}-{at}") for at, block in enumerate(blocks)]
        sums = [world.count(*each, self.asked) for each in given]
        return sums_of(sums, self.vault)


@pytest.fixture(params=["a row", "a person", "a number", "pairs of columns"])
def counted(request: pytest.FixtureRequest, tmp_path: Path) -> Counted:
    case: str = request.param
    unit = None if case == "a row" else "person"
    return Counted(tmp_path, unit, number=case == "a number", pairs=case == "pairs of columns")


def test_a_number_counts_by_its_place_between_its_bounds(tmp_path: Path) -> None:
    """Beyond them, however far, as the nearer one; without a number as their middle, which adds nothing to a first
    round."""
    counted = Counted(tmp_path, None, number=True)
    cells = pl.Series([-1.5, 0.75, -0.375, -9.0, math.inf, -math.inf, math.nan, None, 0.5625])
    half = 1 << 15
    due = [0, 2 * half, half, 0, 2 * half, 0, half, half, 2 * half - half // 6]
    assert world._labels(cells, counted.encoding).tolist() == due
    words = pl.Series(["1e999", "-inf", "nan", "0.75"])
    assert world._labels(words, counted.encoding).tolist() == [2 * half, 0, half, 2 * half]
    far = ROWS[:1].with_columns(pl.lit(99.0).alias("size"))
    assert counted.of(far).tobytes() == counted.of(far.with_columns(pl.lit(0.75).alias("size"))).tobytes()
    assert counted.of(far).tobytes() != counted.of(far.with_columns(pl.lit(0.74).alias("size"))).tobytes()


def test_a_unit_adds_what_it_adds_alone_in_any_order_and_files_and_the_erased_and_nobody_add_nothing(
    counted: Counted,
) -> None:
    odd = pl.DataFrame(
        {
            "person": ["odd", "odd", "odd"],
            "size": [float("nan"), float("-inf"), -0.0],
            "shade": ["", "zqx", None],
            "visits": [2**40, -1, None],
            "outcome": ["yes", "neither", None],
        },
        schema=ROWS.schema,
    )
    without, alone = counted.of(ROWS), counted.of(odd)
    assert np.abs(without).sum() > 0 < np.abs(alone).sum()
    together = counted.of(pl.concat([odd, ROWS]).sample(fraction=1.0, shuffle=True, seed=3), files=5)
    assert (together - without).tobytes() == alone.tobytes()
    assert not counted.of(ROWS[:0]).any()
    if counted.plan.data.unit:
        erased = world.Erased(KEY, frozenset({world.Erased(KEY).digest(b"odd")}))
        nameless = odd.with_columns(pl.lit(None, pl.String).alias("person"))
        assert counted.of(pl.concat([odd, ROWS, nameless]), erased=erased).tobytes() == without.tobytes()


def test_a_thousand_copies_of_a_person_s_row_say_as_much_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, true = Counted(tmp_path, "person"), world.tally
    single = counted.of(ROWS[:1]).tobytes()
    assert counted.of(pl.concat([ROWS[:1]] * 1000), files=4).tobytes() == single

    def by_row(question: world.RoundQuestion, codes: Any, labels: Any, units: Any) -> world.Ints:
        return true(question, codes, labels, None if units is None else np.arange(len(units)))

    monkeypatch.setattr(world.units_sums, "tally", by_row)  # the planted bug: rows of a person are persons of their own
    assert counted.of(pl.concat([ROWS[:1]] * 1000)).tobytes() != single


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_unit_in_several_chunks_of_a_frame_counts_once(tmp_path: Path, chunks: int) -> None:
    """What is counted together lies in one record batch, however its frame was put together."""
    codes = world.Codes(fields=(world.WordField(name="word", start=0, words=("a",)),), coarse=(0,), fine=(0,))
    asked = world.RoundQuestion(classes=2, steps=64, what="labels", least=32, count=7, fields=(0,), spans=((0, 3),))
    arriving = world.Arriving(world.RowTable("", (), world.PRIVATE, "person"), "s", 0, (), "arrived")
    vault, encoding = world.Vault(tmp_path / "vault"), world.Encoding(columns=(), label="y", classes=("a", "b"))
    vault.make_secret("streams/s")
    coding = world.Coding(world.PrivateRows(PLAN, encoding, vault, KEY), codes, arriving)
    schema = {"0": pl.UInt8, world.LABEL: pl.UInt16, world.UNIT: pl.Int64}
    rows = pl.DataFrame({"0": [0, 0], world.LABEL: [1, 1], world.UNIT: [0, 0]}, schema)
    frame = pl.concat([rows] * chunks, rechunk=False)
    assert frame.n_chunks() == chunks
    blocks = world._in_blocks([frame], coding, "blocks")
    sums = [world.count([block], asked, vault, f"sums/{at}.npy") for at, block in enumerate(blocks)]
    assert sums_of(sums, vault).tolist() == [32, 0, 0, 7]


def test_cuts_of_private_rows_would_be_seen(tmp_path: Path) -> None:
    """The planted bug: codes are learned from the rows that are asked, so that one moves others to new cells."""
    counted, sums = Counted(tmp_path, None), list[world.Ints]()
    for rows in (ROWS, ROWS[1:], ROWS[:1]):
        if len(rows) > 1:
            cells = world.cast_rows(rows.select(counted.encoding.features), counted.encoding)
            counted.codes = world.learn_codes([cells], counted.encoding.columns, coarse=8)
        sums.append(counted.of(rows))
    together, without, alone = sums
    assert together.shape != without.shape or (together - without).tobytes() != alone.tobytes()
