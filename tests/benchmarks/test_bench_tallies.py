"""Benchmarks of tallies' private pass: a million private rows of 14 fields to codes, and codes to exact sums; ten
million by two worker processes and by one.

Sums are compared with NumPy's bincount and polars' group_by of the same codes, in the same run. Seconds are of the
processor, the best of three; of workers, on the wall. Run by `make bench`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.benchmarks.speed import MACHINE, Measured
from tests.world import (
    Coding,
    PrivateRows,
    Step,
    Tallies,
    Vault,
    cast_rows,
    count,
    gather,
    learn_codes,
    learn_encoding,
    parse_plan,
    planned_rounds,
    tally,
)

pytestmark = pytest.mark.bench

ROWS, PUBLIC = 1_000_000, 16_000
NUMBERS, WORDS = 6, 8
FILES = 10
LEAST_ROWS = 2e6
"""Rows a second that become codes."""
MOST_OF_PEER, FASTER = 1.5, 1.7


def table_of(rows: int, seed: int) -> pl.DataFrame:
    """Whole numbers of many and of few values, words of 2 to 40 kinds, and a label."""
    draw = np.random.default_rng(seed)
    numbers = {f"n{at}": draw.normal(0, 9.0 ** (at % 4 + 1), rows).round().astype(np.int32) for at in range(NUMBERS)}
    words = {f"w{at}": draw.integers(0, 5 * at + 2, rows) for at in range(WORDS)}
    named = {name: np.array([f"kind {kind}" for kind in range(40)])[places] for name, places in words.items()}
    return pl.DataFrame({**numbers, **named, "y": np.where(numbers["n0"] + words["w3"] > 8, "yes", "no")})


def seconds_of(work: Callable[[], Any]) -> float:
    def once() -> float:
        started = process_time()
        work()
        return process_time() - started

    return min(once() for _ in range(3))


def coding_of(folder: Path, private: str) -> Coding:
    """The rows of `private`, a file or a glob, by codes of PUBLIC public rows."""
    table_of(PUBLIC, 2).write_parquet(folder / "public.parquet")
    lifetime = {"epsilon": 4.0, "delta": 4e-5}
    tables = {"private": str(folder / private), "public": str(folder / "public.parquet")}
    plan = parse_plan(
        {
            "data": {**tables, "label": "y", "classes": ["no", "yes"]},
            "privacy": {"domain": "pass", "epsilon": 1.0, "delta": 1e-5, "lifetime": lifetime},
            "labeling": {"mechanism": "tallies", "rows": 300},
        }
    )
    encoding = learn_encoding(plan)
    public = cast_rows(pl.read_parquet(plan.path("public")).select(encoding.features), encoding)
    codes = learn_codes([public], encoding.columns, coarse=16)
    return Coding(PrivateRows(plan, encoding, Vault(folder / "vault"), bytes(32)), codes)


def test_the_private_pass_of_14_fields(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    table_of(ROWS, 1).write_parquet(tmp_path / "private.parquet")
    coding_of_rows = coding_of(tmp_path, "private.parquet")
    codes, private = coding_of_rows.codes, coding_of_rows.private
    encoding, vault = private.encoding, private.vault
    assert len(codes.coarse) == NUMBERS + WORDS
    rounds = planned_rounds(classes=2, fields=len(codes.coarse), codes=codes.size, rounds=1, repair=False)
    mechanism = Tallies.calibrate(epsilon=1.0, delta=1e-5, classes=2, rounds=rounds)
    question = mechanism.question(0, codes.coarse, [(codes.span(at).start, codes.span(at).stop) for at in codes.coarse])
    coding = seconds_of(lambda: gather(coding_of_rows, "units/pass/bench"))
    blocks = gather(coding_of_rows, "units/pass/bench")
    places = [f"sums/pass/{at}" for at in range(len(blocks))]
    counting = seconds_of(lambda: [count(b, question, vault, at) for b, at in zip(blocks, places, strict=True)])

    raw = pl.read_parquet(tmp_path / "private.parquet")
    matrix, labels = codes.of(cast_rows(raw, encoding)), (raw["y"] == "yes").cast(pl.Int64).to_numpy()
    asked, weight = matrix[:, list(codes.coarse)], np.where(labels, 32.0, -32.0)
    frame = pl.DataFrame({str(at): asked[:, at] for at in range(asked.shape[1])}).with_columns(weight=pl.Series(weight))
    ours = seconds_of(lambda: tally(question, matrix, labels))
    peers = {
        "NumPy bincount": seconds_of(lambda: [np.bincount(column, weight, codes.size) for column in asked.T]),
        "polars group_by": seconds_of(
            lambda: [frame.group_by(str(at)).agg(pl.col("weight").sum()) for at in range(asked.shape[1])]
        ),
    }
    best = min(peers.values())
    print(f"\n{ROWS:,} private rows, {len(codes.coarse)} fields, {codes.width} views ({MACHINE}), processor seconds")
    print(f"  to codes {coding:.2f}: {ROWS / coding / 1e6:.2f} million rows a second a core")
    print(f"  a round of sums, files read and sealed {counting:.2f}: {ROWS / counting / 1e6:.1f} million rows a second")
    print(f"  sums alone {ours:.3f}; " + ", ".join(f"{name} {took:.3f}" for name, took in peers.items()))
    what, unit = f"{ROWS:,} private rows of {len(codes.coarse)} fields", "million rows/s a core"
    beside = "; ".join(f"{name} {took:.3f} processor s" for name, took in peers.items()) + f"; ours {ours:.3f}"
    record(Measured(f"{what}, to codes", ROWS / coding / 1e6, unit, LEAST_ROWS / 1e6, least=True))
    record(Measured(f"{what}, sums of the codes, time", ours / best, "×", MOST_OF_PEER, least=False, beside=beside))
    assert ours < MOST_OF_PEER * best
    assert ROWS / coding > LEAST_ROWS


def test_two_workers_against_one(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    for at in range(FILES):
        table_of(ROWS, 10 + at).write_parquet(tmp_path / f"private-{at}.parquet")
    coding, digests, took = coding_of(tmp_path, "private-*.parquet"), list[list[str]](), list[float]()
    for workers in (1, 2):
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:

            def each(step: Step, calls: Sequence[tuple[Any, ...]], pool: ProcessPoolExecutor = pool) -> list[Any]:
                return [done.result() for done in [pool.submit(step, coding, *call) for call in calls]]

            list(pool.map(learn_encoding, [coding.private.plan] * 2 * workers))  # packages are loaded
            started = perf_counter()
            found = gather(coding, f"units/pass/{workers}", each=each)
            took.append(perf_counter() - started)
            digests.append([ref.digest for ref in found])
    alone, together = took
    assert digests[0] == digests[1]
    print(f"\n{FILES * ROWS:,} private rows to codes ({MACHINE}): one worker {alone:.1f} s, two {together:.1f} s")
    beside = f"one {alone:.1f} s, two {together:.1f} s; bytes equal"
    what = f"{FILES * ROWS:,} private rows to codes, two worker processes against one"
    record(Measured(what, alone / together, "×", FASTER, least=True, beside=beside))
    assert alone > 1.3 * together
