"""Benchmark of Dask on this machine: two workers against one process, on the same blocks. Run by `make bench`.

Teachers are forests, whose fits are work of Python that threads cannot share. Without the start of the cluster and the
packages that each process loads, which a run pays once.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import pytest

from tests.benchmarks.speed import MACHINE, Measured
from tests.benchmarks.test_bench_scale import table, voting_plan
from tests.world import (
    Block,
    Encoding,
    PrivateRows,
    Ref,
    TeachersPlan,
    Vault,
    closed_cluster,
    learn_encoding,
    load_plan,
    split,
    teach,
)

pytestmark = pytest.mark.bench

COUNT, BLOCK, ROWS, WORKERS = 320, 10, 32_000, 2
LEAST = 1.6
"""Times as fast as one process."""
FOREST = TeachersPlan(
    count=COUNT, block=BLOCK, estimator="sklearn.ensemble.ExtraTreesClassifier", params={"n_estimators": 40}
)


def teach_block(block: Ref, first: int, encoding: Encoding, vault: str, path: str) -> tuple[Ref, float, int]:
    """The teachers, the processor seconds they took, and the process that had them."""
    used = process_time()
    ref = teach(Block((first, first + BLOCK), block), FOREST, encoding, Vault(Path(vault)), path)
    return ref, process_time() - used, os.getpid()


def test_two_workers_of_dask_against_one_process(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    from distributed import Client

    for name, seed, labelled in (("private", 1, True), ("public", 2, False), ("test", 3, True)):
        table(tmp_path / f"{name}.parquet", ROWS, seed, labelled=labelled)
    (tmp_path / "plan.toml").write_text(voting_plan(COUNT, 20))
    plan, vault = load_plan(tmp_path / "plan.toml"), Vault(tmp_path / "home/vault")
    plan = plan.model_copy(update={"teachers": FOREST})
    encoding = learn_encoding(plan)
    blocks = list(split(PrivateRows(plan, encoding, vault, bytes(32)), "shards/scale/x"))
    assert len(blocks) == COUNT // BLOCK

    def calls(to: str) -> list[tuple[Any, ...]]:
        return [
            (block, at * BLOCK, encoding, str(vault.root), f"teachers/scale/{to}/{at}")
            for at, block in enumerate(blocks)
        ]

    warm = calls("warm")[0]  # so that nobody loads packages while the time is taken
    teach_block(*warm)
    started = perf_counter()
    here = [teach_block(*call) for call in calls("here")]
    alone = perf_counter() - started
    with closed_cluster(WORKERS, tmp_path) as cluster, Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        assert len(client.run(teach_block, *warm)) == WORKERS
        started = perf_counter()
        there = client.gather(client.map(teach_block, *zip(*calls("there"), strict=True)))
        together = perf_counter() - started
    assert [vault.read(ref) for ref, _, _ in there] == [vault.read(ref) for ref, _, _ in here]
    shares = dict[int, float]()
    for _, used, process in there:
        shares[process] = shares.get(process, 0.0) + used
    longest, work = max(shares.values()), sum(used for _, used, _ in here)
    print(f"\n{COUNT} forests in {len(blocks)} blocks, {ROWS:,} rows ({MACHINE}): one process {alone:.1f} s, ", end="")
    print(f"{WORKERS} workers {together:.1f} s, {alone / together:.2f} times as fast, bytes equal; ", end="")
    print(f"of processors {work:.1f} s, and {longest:.1f} s of the worker with the larger share")
    beside = f"one process, bytes equal: {alone:.1f} s; two workers {together:.1f} s"
    what = f"Dask, {WORKERS} workers on {COUNT} forests in {len(blocks)} blocks"
    record(Measured(what, alone / together, "×", LEAST, least=True, beside=beside))
    assert alone / together > LEAST
