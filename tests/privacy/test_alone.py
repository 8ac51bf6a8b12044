"""Law 8 over all that is registered: what an encoder makes of a row, what a learner makes of a shard, and how teachers
vote on a row is the same, to the bit, in whatever company it is.

Each is asked about the same rows: other rows are added, removed and permuted; the rows are in a block of their own, in
a longer one and beside threads that do the same; and in another process. At length, on any bits, for what a cell
becomes: test_row_alone.py; for linear teachers: test_linear_alone.py.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import StandardScaler

from tests import world
from tests.support.made import content_of
from tests.support.processes import FRESH
from tests.support.rules import CODES, COLUMNS, ENCODING, GRID, SCHEMA
from tests.support.shards import LEARNERS, features, learner, plain_encoding, write_block

GROUPS, OWN, SIZE, WIDTH = 5, 2, 60, 3
Company = Mapping[int, int]
"""Groups of rows in their order, each with how many rows it has; of a negative number, in the opposite order. Those of
OWN are always the same SIZE."""
COMPANIES: tuple[Company, ...] = (
    {OWN: SIZE},
    {0: 4, 1: 50, OWN: SIZE, 3: 7, 4: 20},
    {4: -20, 3: 300, 0: -4, OWN: SIZE, 1: -50},
    {OWN: SIZE, 1: 1, 3: 1},
)
Block = tuple[int, int]
"""The first group that is in one block with OWN, and the first after it that is not."""
WHOLE, BLOCKS = (0, GROUPS), ((OWN, OWN + 1), (1, 4))
ENCODES = plain_encoding(WIDTH, 2)


def groups(company: Company, block: Block, rows: Callable[[np.random.Generator, int], pl.DataFrame]) -> list[Any]:
    """Each group of a block with its rows, in the order of their company."""
    made = [(group, rows(np.random.default_rng(group), abs(size)), size) for group, size in company.items()]
    return [(at, frame.reverse() if size < 0 else frame) for at, frame, size in made if block[0] <= at < block[1]]


def own_of(parts: list[Any]) -> slice:
    """Where the rows of OWN lie."""
    first = sum(frame.height for _, frame in parts[: [group for group, _ in parts].index(OWN)])
    return slice(first, first + SIZE)


# Encoders -------------------------------------------------------------------------------------------------------------

CELLS = (None, "", " a", "0", "-0.5", "Rome", "1e308", "-1e-320", "nan", "1970-01-01", "true", "1.5", "2 words")
PAIRS = CODES.with_pairs({at: tuple(code % 3 for code in range(CODES.fields[at].size)) for at in (1, 4)}, [(1, 4)])
NOTHING = world.Empty(name="word")


def cells(rng: np.random.Generator, rows: int) -> pl.DataFrame:
    """Raw cells for every column of the rules."""
    frame = {name: rng.choice(np.array(CELLS, object), rows).tolist() for name in (*ENCODING.features, ENCODING.label)}
    lists = {"bytes": pl.Series(rng.integers(0, 256, (rows, 2)), dtype=pl.Array(pl.UInt8, 2))}
    lists["wave"] = pl.Series(rng.normal(size=(rows, 2)), dtype=pl.Array(pl.Float32, 2))
    return pl.DataFrame(frame, dict.fromkeys(frame, pl.String)).with_columns(**lists)


def columns_by(column: world.Column, raw: pl.DataFrame) -> np.ndarray:
    encoding = world.Encoding(columns=(column,), label=ENCODING.label, classes=ENCODING.classes)
    return world.encode(world.cast_rows(raw, encoding), encoding)


def field_by(at: int, raw: pl.DataFrame) -> np.ndarray:
    return PAIRS.of_raw(raw, COLUMNS)[:, at]


def grid_by(raw: pl.DataFrame) -> np.ndarray:
    return world.recoded(GRID.of_raw(raw, world.reading_columns(SCHEMA)).astype(np.int32), GRID, GRID)


ENCODERS: dict[str, Callable[[pl.DataFrame], np.ndarray]] = {
    **{f"{type(of).__name__} of {of.name}": partial(columns_by, of) for of in (*COLUMNS, NOTHING)},
    **{f"{type(of).__name__} {at} of {of.name}": partial(field_by, at) for at, of in enumerate(PAIRS.fields)},
    "a grid's cells": grid_by,
}


def encoded(name: str, folder: Path, company: Company, block: Block) -> bytes:  # noqa: ARG001, as the others
    """What an encoder makes of the rows of OWN."""
    parts = groups(company, block, cells)
    return ENCODERS[name](pl.concat(frame for _, frame in parts))[own_of(parts)].tobytes()


def test_every_kind_of_column_and_of_field_is_asked() -> None:
    assert {type(column) for column in (*COLUMNS, NOTHING)} == {*get_args(get_args(world.Column)[0])}
    assert {type(field) for field in PAIRS.fields} == {*get_args(get_args(world.CodedField)[0])}


# Learners, and how they vote ------------------------------------------------------------------------------------------


def numbers(rng: np.random.Generator, rows: int) -> pl.DataFrame:
    return features(rng.normal(size=(rows, WIDTH))).with_columns(y=rng.integers(0, 2, rows))


def taught(name: str, vault: world.Vault, company: Company, block: Block) -> Any:
    """The file of a block's teachers, one for each group."""
    given = {
        group: (frame.drop("y").to_numpy().astype(np.float32), frame["y"].to_numpy())
        for group, frame in sorted(groups(company, block, numbers), key=lambda part: part[0])
    }
    written = write_block(given, block, GROUPS, vault)
    return world.teach(written, learner(name, GROUPS), ENCODES, vault, f"teachers-{block[0]}")


def learned(name: str, folder: Path, company: Company, block: Block) -> bytes:
    """The teacher of OWN: its weights, or its votes on public rows."""
    vault = world.Vault(folder / "vault")
    _, found = world.load_teachers(taught(name, vault, company, block), vault)
    if isinstance(found, world.LinearTeachers):
        return found.weights[:, OWN - block[0]].tobytes()
    public = np.random.default_rng(9).normal(size=(200, WIDTH)).astype(np.float32)
    return found[OWN - block[0]].votes(public, 2).tobytes()


def voted(name: str, folder: Path, company: Company, block: Block) -> bytes:
    """The votes of the same teachers, which are in other blocks, on the public rows of OWN."""
    vault, bounds = world.Vault(folder / "vault"), sorted({*WHOLE, *block})
    blocks = [taught(name, vault, COMPANIES[1], part) for part in pairwise(bounds)]
    parts = groups(company, WHOLE, numbers)
    rows = pl.concat(frame.drop("y") for _, frame in parts)
    batch = world.PublicBatch(ref=world.write_frame(rows, vault, "batch.arrow"), first=0, rows=rows.height)
    votes = content_of(world.poll(batch, tuple(blocks), ENCODES, vault, "votes"), vault)
    return world.read_votes(votes)[own_of(parts)].tobytes()


# The law --------------------------------------------------------------------------------------------------------------

MADE: dict[str, Callable[[Path, Company, Block], bytes]] = {
    **{f"encoder: {name}": partial(encoded, name) for name in ENCODERS},
    **{f"learner: {name}": partial(learned, name) for name in LEARNERS},
    **{f"voter: {name}": partial(voted, name) for name in LEARNERS},
}


def in_company(what: str, folder: Path) -> set[str]:
    """Digests of all that is made of OWN in this process: one, if the law holds."""
    made = MADE[what]
    found = {made(folder, company, WHOLE) for company in COMPANIES}
    found |= {made(folder, COMPANIES[1], block) for block in BLOCKS}
    with ThreadPoolExecutor(4) as threads:
        places = [folder / str(at) for at in range(8)]
        found |= {*threads.map(lambda place: made(place, COMPANIES[2], WHOLE), places)}
    return {hashlib.sha256(part).hexdigest() for part in found}


def elsewhere(folder: Path) -> None:
    """Write the digest of each, in one company."""
    found = {what: made(folder, COMPANIES[1], WHOLE) for what, made in MADE.items()}
    (folder / "found").write_text(json.dumps({what: hashlib.sha256(part).hexdigest() for what, part in found.items()}))


@pytest.fixture(scope="module")
def in_another_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("elsewhere")
    process = FRESH.Process(target=elsewhere, args=(folder,))
    process.start()
    process.join()
    found: dict[str, str] = json.loads((folder / "found").read_text())
    return found


@pytest.mark.parametrize("what", MADE)
def test_it_makes_the_same_of_a_row_or_shard_in_any_company(
    what: str, tmp_path: Path, in_another_process: dict[str, str]
) -> None:
    assert in_company(what, tmp_path) == {in_another_process[what]}


@pytest.mark.parametrize("what", [what for what in MADE if "Empty" not in what])
def test_another_row_of_its_own_would_be_seen(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, true = MADE[what](tmp_path, COMPANIES[0], WHOLE), np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed: true(seed + 100 * (seed == OWN)))
    assert MADE[what](tmp_path, COMPANIES[0], WHOLE) != before


# Planted faults -------------------------------------------------------------------------------------------------------

scaled, matrix, add_votes = StandardScaler.transform, world.encode, world.LinearTeachers.add_votes


def centred(scaler: StandardScaler, X: Any) -> Any:
    """A number counts from the mean of the rows that it comes with."""
    values = scaled(scaler, X)
    return values - values.mean(axis=0)


def scaled_together(rows: pl.DataFrame, encoding: world.Encoding) -> np.ndarray:
    """Columns have unit variance over all shards of a block."""
    X = matrix(rows, encoding)
    return (X / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)).astype(np.float32)


def from_the_middle(teachers: world.LinearTeachers, counts: np.ndarray, X: np.ndarray) -> None:
    """Rows are scored from the middle of all rows of their batch."""
    add_votes(teachers, counts, X - X.mean(axis=0))


LOGISTIC = "sklearn.linear_model.LogisticRegression"
PLANTED: dict[str, tuple[Any, str, Any]] = {
    "encoder: Scaled of plain": (StandardScaler, "transform", centred),
    f"learner: {LOGISTIC}": (world.units_teachers, "encode", scaled_together),
    f"voter: {LOGISTIC}": (world.LinearTeachers, "add_votes", from_the_middle),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_fault_is_found(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(in_company(what, tmp_path)) == 1
    monkeypatch.setattr(*PLANTED[what])
    assert len(in_company(what, tmp_path)) > 1
