"""Private rows as codes and exact sums: to the bit the same in any company, order, file and block."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.people import people, tables_of_plan, write_tables
from tests.world import (
    BLOCKS,
    GROUPS,
    NOBODY,
    Codes,
    Coding,
    Encoding,
    Erased,
    IntegerModel,
    Ints,
    Plan,
    PrivateRows,
    Ref,
    RoundQuestion,
    Tallies,
    Vault,
    _labels,
    asking_tally,
    cast_rows,
    count,
    gather,
    learn_codes,
    learn_encoding,
    parse_plan,
    planned_rounds,
    tally,
    total_of,
    with_pairs,
)

KEY = bytes(32)
ROWS = people(400, 7)


class Counted:
    """One question about tables of people, by way of the very stages."""

    def __init__(self, folder: Path, unit: str | None, *, number: bool = False, pairs: bool = False) -> None:
        given = tables_of_plan(write_tables(folder)) | {"labeling": {"mechanism": "tallies", "rows": 6000}}
        given["data"]["unit"] = unit
        if number:
            given["data"] |= {"label": "size", "bounds": [-1.5, 0.75]}
            del given["data"]["classes"]
        self.plan: Plan = parse_plan({name: given[name] for name in given if name not in ("teachers", "student")})
        self.encoding: Encoding = learn_encoding(self.plan)
        public = pl.read_parquet(self.plan.path("public"))
        cells = cast_rows(public.select(self.encoding.features), self.encoding)
        self.codes: Codes = learn_codes([cells], self.encoding.columns, coarse=8)
        self.asked = with_pairs(self.codes, self.codes.of(cells), GROUPS) if pairs else self.codes
        self.vault, self.folder, self.times = Vault(folder / "vault"), folder, 0

    @property
    def question(self) -> RoundQuestion:
        """A round with a model, which takes odd values."""
        classes = len(self.encoding.classes)
        rounds = planned_rounds(classes=classes, fields=len(self.codes.fine), codes=self.codes.size, pairs=True)
        mechanism = Tallies.calibrate(epsilon=1.0, delta=1e-5, classes=classes, rounds=rounds, many=True)
        weights = np.random.default_rng(0).integers(-999, 999, (self.asked.size, 1))
        spans = [(field.start, field.start + field.size) for field in self.asked.fields]
        model = IntegerModel(weights.astype(np.int64), np.array([13], np.int64))
        fields = [*self.asked.pairs] or self.codes.fine
        return mechanism.question(2, fields, [spans[at] for at in fields], model)

    def of(self, rows: pl.DataFrame, files: int = 1, erased: Erased | None = None) -> Ints:
        """What these private rows add up to, written to so many files."""
        self.times += 1
        private = self.folder / f"private-{self.times}"
        private.mkdir()
        for part in range(files):
            rows[part::files].write_parquet(private / f"{part}.parquet")
        data = self.plan.data.model_copy(update={"private": str(private)})
        plan = self.plan.model_copy(update={"data": data})
        coding = Coding(PrivateRows(plan, self.encoding, self.vault, KEY, erased or NOBODY), self.codes)
        blocks = gather(coding, f"units/d/{self.times}")
        assert len(blocks) == BLOCKS
        given = [(block, self.question, self.vault, f"sums/d/{self.times}-{at}") for at, block in enumerate(blocks)]
        sums = [count(*each, self.asked.paired) for each in given]
        return total_of(sums, self.vault)


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
    assert _labels(cells, counted.encoding).tolist() == due
    assert _labels(pl.Series(["1e999", "-inf", "nan", "0.75"]), counted.encoding).tolist() == [
        2 * half,
        0,
        half,
        2 * half,
    ]
    far = ROWS[:1].with_columns(pl.lit(99.0).alias("size"))
    assert counted.of(far).tobytes() == counted.of(far.with_columns(pl.lit(0.75).alias("size"))).tobytes()
    assert counted.of(far).tobytes() != counted.of(far.with_columns(pl.lit(0.74).alias("size"))).tobytes()


def test_sums_are_the_same_in_any_order_and_any_files(counted: Counted) -> None:
    sums = counted.of(ROWS)
    assert np.abs(sums).sum() > 0
    assert counted.of(ROWS.sample(fraction=1.0, shuffle=True, seed=3), files=5).tobytes() == sums.tobytes()


def test_a_unit_adds_what_it_adds_alone(counted: Counted) -> None:
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
    together = counted.of(pl.concat([ROWS[:200], odd, ROWS[200:]]), files=3)
    assert (together - without).tobytes() == alone.tobytes()
    assert np.abs(alone).sum() > 0


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["threads", "dask"])
def test_any_runner_counts_the_same_bits(tmp_path: Path, runner: str) -> None:
    counted = Counted(tmp_path, "person")
    here = counted.of(ROWS)
    blocks = [counted.vault.find(f"units/d/1/block-{at:05d}.arrow") for at in range(BLOCKS)]
    calls = [(block, counted.question.record(), tmp_path / "vault", f"there/{at}") for at, block in enumerate(blocks)]
    if runner == "dask":
        from distributed import Client

        with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0") as client:  # type: ignore[no-untyped-call]
            parts = client.gather([client.submit(elsewhere, *call) for call in reversed(calls)])
    else:
        with ThreadPoolExecutor(3) as workers:
            parts = list(workers.map(elsewhere, *zip(*reversed(calls), strict=True)))
    assert total_of(parts, counted.vault).tobytes() == here.tobytes()


def elsewhere(block: Ref, question: dict[str, Any], vault: Path, path: str) -> Ref:
    return count(block, RoundQuestion.from_record(question), Vault(vault), path)


def test_cuts_of_private_rows_would_be_seen(tmp_path: Path) -> None:
    """The planted bug: codes are learned from the rows that are asked, so that one moves others to new cells."""
    counted, sums = Counted(tmp_path, None), list[Ints]()
    for rows in (ROWS, ROWS[1:], ROWS[:1]):
        if len(rows) > 1:
            cells = cast_rows(rows.select(counted.encoding.features), counted.encoding)
            counted.codes = learn_codes([cells], counted.encoding.columns, coarse=8)
        sums.append(counted.of(rows))
    together, without, alone = sums
    assert together.shape != without.shape or (together - without).tobytes() != alone.tobytes()


def test_rows_of_a_unit_count_once_together(tmp_path: Path) -> None:
    """A thousand copies of a person's row say as much as one."""
    counted = Counted(tmp_path, "person")
    single = ROWS[:1]
    assert counted.of(pl.concat([single] * 1000), files=4).tobytes() == counted.of(single).tobytes()


def test_units_in_two_blocks_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: rows of a person are counted as persons of their own."""
    counted = Counted(tmp_path, "person")
    single, true = ROWS[:1], tally

    def by_row(question: RoundQuestion, codes: Any, labels: Any, units: Any) -> Ints:
        return true(question, codes, labels, None if units is None else np.arange(len(units)))

    monkeypatch.setattr(asking_tally, "tally", by_row)
    assert counted.of(pl.concat([single] * 1000)).tobytes() != counted.of(single).tobytes()


def test_erased_and_nameless_rows_are_left_out(tmp_path: Path) -> None:
    counted = Counted(tmp_path, "person")
    erased = Erased(KEY, frozenset({Erased(KEY).digest(ROWS["person"][0].encode())}))
    nameless = ROWS[:5].with_columns(pl.lit(None, pl.String).alias("person"))
    rest = ROWS.filter(pl.col("person") != ROWS["person"][0])
    assert counted.of(pl.concat([ROWS, nameless]), erased=erased).tobytes() == counted.of(rest).tobytes()


def test_a_table_without_rows_adds_nothing(counted: Counted) -> None:
    assert not counted.of(ROWS[:0]).any()
