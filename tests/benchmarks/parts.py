"""Benchmarks of parts that decide how long a run takes, beside what others make of the same numbers in the same run."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tests import world
from tests.benchmarks.runs import tables, voting
from tests.benchmarks.speed import Benchmark, Measured
from tests.support.at_door import TEACHERS, files_of, labels_by, opened, write_votes
from tests.support.openings import batch, named, opening

Matrix = NDArray[np.float32]
Shard = tuple[Matrix, world.Ints]
WIDTH = 50
"""Columns of a shard."""


def processor(work: Callable[[], Any], tries: int = 1) -> tuple[float, Any]:
    """Seconds of this process's processors, the least of several, and what came of it."""
    took, found = list[float](), None
    for _ in range(tries):
        started = process_time()
        found = work()
        took.append(process_time() - started)
    return min(took), found


# The ledger, and the door ---------------------------------------------------------------------------------------------


def ledger(folder: Path) -> Iterator[Measured]:
    """Ten thousand batches of a row, and ten times as many."""
    seconds = {}
    for batches in (10_000, 100_000):
        home = folder / str(batches)
        home.mkdir()
        filled = named(world.Ledger.of(home))
        filled.open_session(opening())
        with filled._entries.writing() as rows:  # in memory's time: no draw hangs on it
            for index in range(batches):
                begun = batch(index=index, first=index, rows=1)
                world._catch_up(filled._state, rows)
                filled._append(filled._state.begin("one", begun), rows)
                ref = world.Ref(path=f"one/labels/batch-{index:05d}.arrow", digest=f"{index:064x}")
                world._catch_up(filled._state, rows)
                filled._append(filled._state.commit("one", begun.released_as(ref)), rows)
        seconds[batches], _ = processor(lambda home=home: world.Ledger.of(home).verify())  # type: ignore[misc]
    (few, soon), (many, late) = seconds.items()
    beside = f"{few:,} batches: {soon:.1f} processor s; {many:,}: {late:.1f}"
    what = "a ledger read and verified, time a batch"
    yield Measured(what, late / soon * few / many, "×", 1.5, least=False, beside=beside)


@dataclass(frozen=True)
class Stream:
    """Staged public rows and their votes in a home, of a session that does not end on the way."""

    door: world.Stores
    session: world.Session
    mechanism: world.StableVoting
    batches: list[world.PublicBatch]

    @classmethod
    def of(cls, home: Path, rows: int, batch: int) -> "Stream":
        door, mechanism = world.Stores.of(home), world.calibrated_stable(epsilon=2.0, delta=1e-5, cutoff=30)
        batches = []
        for at, first in enumerate(range(0, rows, batch)):
            frame = pl.DataFrame({"row": np.arange(first, min(first + batch, rows))})
            ref = world.write_frame(frame, door.vault, f"public/{at}")
            batches.append(world.PublicBatch(ref=ref, first=first, rows=len(frame)))
            ones = np.random.default_rng(at).choice([3, TEACHERS - 3], size=len(frame))
            write_votes(door, f"{at}", np.column_stack([TEACHERS - ones, ones]))
        return cls(door, opened(door, mechanism), mechanism, batches)

    def answer(self) -> int:
        """Rows that were answered."""
        votes = {batch: self.door.vault.find(f"votes/d/{at}.arrow") for at, batch in enumerate(self.batches)}
        files_of(self.door, self.session, labels_by(self.mechanism), self.batches, votes.__getitem__)
        return self.door.ledger.session(self.session.id).asked


def labels(folder: Path) -> Iterator[Measured]:
    """By batches as they are by default, and as a plan of many rows would have them."""
    rows = 10_000_000
    for size in (65_536, 1 << 20):
        stream = Stream.of(folder / str(size), rows, size)
        started = perf_counter()
        assert stream.answer() == rows
        rate = rows / (perf_counter() - started) / 1e6
        yield Measured(
            f"votes to durable labels, {rows:,} rows, batches of {size:,}", rate, "million rows/s", 5.0, True
        )


# Teachers -------------------------------------------------------------------------------------------------------------


def shards(number: int, rows: int = 100) -> list[Shard]:
    """Rows whose labels follow one rule."""
    draw = np.random.default_rng(0)
    rule, found = draw.normal(size=WIDTH) / np.sqrt(WIDTH), []
    for _ in range(number):
        X = draw.normal(size=(rows, WIDTH)).astype(np.float32)
        found.append((X, (X @ rule + draw.normal(size=rows) > 0).astype(np.int64)))
    return found


def as_arrays(some: list[Shard]) -> list[Matrix]:
    """The weights of each shard's teacher, as `teach` fits them."""
    plan = world.TeachersPlan(count=len(some))
    with world.silenced():
        fitted = [world.fitted_teacher(plan, at, X, y, 2) for at, (X, y) in enumerate(some)]
        return [world.weights_of(teacher.model, teacher.fixed, WIDTH, 2) for teacher in fitted]


def linear_votes(_: Path) -> Iterator[Measured]:
    """By one product, beside scikit-learn's predictions in a loop and the bare product of the same numbers."""
    rows, number = 100_000, 1_000
    weights = np.stack(as_arrays(some := shards(number)), axis=1)
    models = [world.Teacher(LogisticRegression().fit(*shard), 0) for shard in some]
    X = np.random.default_rng(1).normal(size=(rows, WIDTH)).astype(np.float32)
    counts, loop = np.zeros((2, rows, 2), dtype=np.uint32)
    room = np.empty((1_000, number), dtype=np.float32)

    def product() -> None:
        for at in range(0, rows, len(room)):
            np.matmul(X[at : at + len(room)], weights[0, :, :-1].T, out=room)

    def wall(work: Callable[[], Any]) -> float:
        started = perf_counter()
        work()
        return perf_counter() - started

    with world.silenced():
        ours = min(wall(lambda: world.add_votes(counts, world.LinearTeachers(weights), X)) for _ in range(3))
        bare = min(wall(product) for _ in range(3))
        asked = wall(lambda: world.add_votes(loop, models, X))
    assert np.abs(counts.astype(int) // 3 - loop).max() <= 0.05 * number
    what = f"votes of {number:,} logistic teachers on {rows:,} rows × {WIDTH}"
    beside = f"a loop of `predict`: {asked:.1f} s; {rows * number / ours / 1e6:,.0f} million votes a second"
    yield Measured(f"{what}, speed", asked / ours, "×", 15.0, least=True, beside=beside)
    beside = f"the bare product in single precision: {bare:.3f} s; ours {ours:.3f}"
    yield Measured(f"{what}, time", ours / bare, "×", 2.0, least=False, beside=beside)


COUNT, BLOCK = 320, 10
FOREST = world.TeachersPlan(
    count=COUNT, block=BLOCK, estimator="sklearn.ensemble.ExtraTreesClassifier", params={"n_estimators": 40}
)


def teach_block(block: world.Ref, encoding: world.Encoding, vault: str, path: str) -> world.Ref:
    return world.teach(block, FOREST, encoding, world.Vault(Path(vault)), path)


def dask(folder: Path) -> Iterator[Measured]:
    """Two workers against one process, on the same blocks of forests, whose fits are work of Python that threads cannot
    share; without the start of the cluster and the packages that each process loads, which a run pays once."""
    from distributed import Client

    data = tables(folder / "data", 32_000, 32_000)
    (data / "plan.toml").write_text(voting(COUNT, 20))
    plan, vault = world.load_plan(data / "plan.toml"), world.Vault(folder / "home/vault")
    plan = plan.model_copy(update={"teachers": FOREST})
    encoding = world.learn_encoding(plan)
    blocks = list(world.split(world.PrivateRows(plan, encoding, vault, bytes(32)), "shards/scale/x"))

    def calls(to: str) -> list[tuple[Any, ...]]:
        places = [f"teachers/scale/{to}/{at}" for at in range(len(blocks))]
        return [(block, encoding, str(vault.root), places[at]) for at, block in enumerate(blocks)]

    warm = calls("warm")[0]  # so that nobody loads packages while the time is taken
    teach_block(*warm)
    started = perf_counter()
    here = [teach_block(*call) for call in calls("here")]
    alone = perf_counter() - started
    with world.closed_cluster(2, folder) as cluster, Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        client.run(teach_block, *warm)
        started = perf_counter()
        there = client.gather(client.map(teach_block, *zip(*calls("there"), strict=True)))
        together = perf_counter() - started
    assert [vault.read(ref) for ref in there] == [vault.read(ref) for ref in here]
    beside = f"one process, bytes equal: {alone:.1f} s; two workers {together:.1f} s"
    what = f"Dask, 2 workers on {COUNT} forests in {len(blocks)} blocks"
    yield Measured(what, alone / together, "×", 1.6, least=True, beside=beside)


# The private pass of tallies ------------------------------------------------------------------------------------------

ROWS, PUBLIC, NUMBERS, WORDS = 1_000_000, 16_000, 6, 8


def fields_table(rows: int, seed: int) -> pl.DataFrame:
    """Whole numbers of many and of few values, words of 2 to 40 kinds, and a label."""
    draw = np.random.default_rng(seed)
    numbers = {f"n{at}": draw.normal(0, 9.0 ** (at % 4 + 1), rows).round().astype(np.int32) for at in range(NUMBERS)}
    words = {f"w{at}": draw.integers(0, 5 * at + 2, rows) for at in range(WORDS)}
    named = {name: np.array([f"kind {kind}" for kind in range(40)])[places] for name, places in words.items()}
    return pl.DataFrame({**numbers, **named, "y": np.where(numbers["n0"] + words["w3"] > 8, "yes", "no")})


def coding_of(folder: Path, private: str) -> world.Coding:
    """The rows of `private`, a file or a glob, by codes of PUBLIC public rows."""
    fields_table(PUBLIC, 2).write_parquet(folder / "public.parquet")
    data = {"private": str(folder / private), "public": str(folder / "public.parquet")}
    lifetime = {"epsilon": 4.0, "delta": 4e-5}
    plan = world.parse_plan(
        {
            "data": {**data, "label": "y", "classes": ["no", "yes"]},
            "privacy": {"domain": "pass", "epsilon": 1.0, "delta": 1e-5, "lifetime": lifetime},
            "labeling": {"mechanism": "tallies", "rows": 300},
        }
    )
    encoding = world.learn_encoding(plan)
    public = world.cast_rows(pl.read_parquet(plan.path("public")).select(encoding.features), encoding)
    codes = world.learn_codes([public], encoding.columns, coarse=16)
    return world.Coding(world.PrivateRows(plan, encoding, world.Vault(folder / "vault"), bytes(32)), codes)


def private_pass(folder: Path) -> Iterator[Measured]:
    """To codes, and codes to exact sums, beside NumPy's bincount and polars' group_by of the same codes."""
    fields_table(ROWS, 1).write_parquet(folder / "private.parquet")
    coding = coding_of(folder, "private.parquet")
    codes, vault = coding.codes, coding.private.vault
    rounds = world.planned_rounds(classes=2, fields=len(codes.coarse), codes=codes.size, rounds=1, repair=False)
    mechanism = world.calibrated_sums(world.Tallies, epsilon=1.0, delta=1e-5, classes=2, rounds=rounds)
    question = mechanism.question(0, codes.coarse, [(codes.span(at).start, codes.span(at).stop) for at in codes.coarse])
    to_codes, blocks = processor(lambda: world.gather(coding, "units/pass/bench"), 3)
    for at, block in enumerate(blocks):
        world.count(block, question, vault, f"sums/pass/{at}")

    raw = pl.read_parquet(folder / "private.parquet")
    matrix = codes.of(world.cast_rows(raw, coding.private.encoding))
    named = (raw["y"] == "yes").cast(pl.Int64).to_numpy()
    asked, weight = matrix[:, list(codes.coarse)], np.where(named, 32.0, -32.0)
    frame = pl.DataFrame({str(at): asked[:, at] for at in range(asked.shape[1])}).with_columns(weight=pl.Series(weight))
    ours, _ = processor(lambda: world.tally(question, matrix, named), 3)
    summed = [pl.col("weight").sum()]
    peers = {
        "NumPy bincount": processor(lambda: [np.bincount(column, weight, codes.size) for column in asked.T], 3)[0],
        "polars group_by": processor(lambda: [frame.group_by(name).agg(summed) for name in frame.columns[:-1]], 3)[0],
    }
    what = f"{ROWS:,} private rows of {len(codes.coarse)} fields"
    rate = ROWS / to_codes / 1e6
    yield Measured(f"{what}, to codes", rate, "million rows/s a core", 2.0, least=True)
    beside = "; ".join(f"{name} {took:.3f} processor s" for name, took in peers.items()) + f"; ours {ours:.3f}"
    best = ours / min(peers.values())
    yield Measured(f"{what}, sums of the codes, time", best, "×", 1.5, least=False, beside=beside)


def two_workers(folder: Path) -> Iterator[Measured]:
    """Ten million private rows by two worker processes and by one."""
    for at in range(10):
        fields_table(ROWS, 10 + at).write_parquet(folder / f"private-{at}.parquet")
    coding, digests, took = coding_of(folder, "private-*.parquet"), list[list[str]](), list[float]()
    for workers in (1, 2):
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:

            def each(
                step: world.BlockStep, calls: Sequence[tuple[Any, ...]], pool: ProcessPoolExecutor = pool
            ) -> list[Any]:
                return [done.result() for done in [pool.submit(step, coding, *call) for call in calls]]

            list(pool.map(world.learn_encoding, [coding.private.plan] * 2 * workers))  # packages are loaded
            started = perf_counter()
            found = world.gather(coding, f"units/pass/{workers}", run=each)
            took.append(perf_counter() - started)
            digests.append([ref.digest for ref in found])
    alone, together = took
    assert digests[0] == digests[1]
    what = f"{10 * ROWS:,} private rows to codes, two worker processes against one"
    beside = f"one {alone:.1f} s, two {together:.1f} s; bytes equal"
    yield Measured(what, alone / together, "×", 1.7, least=True, beside=beside)


PARTS: tuple[Benchmark, ...] = (ledger, labels, linear_votes, dask, private_pass, two_workers)
