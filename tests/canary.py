"""Canaries: a private table of marked values, estimators that tell on their rows, and a search for what got out."""

import ctypes
import hashlib
import logging
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import artifacts
import tasks
from artifacts.cipher import encrypted
from artifacts.vault import SEAL_BYTES, Vault, derive
from tasks.release import read_votes
from tests.people import people, tables_of_plan, write_tables
from tests.unpack import layers

VALUE, NAME = "zqxvalue", "zqxname"
"""In every marked value and in every marked name. Names of files and columns the operator may see; values nobody."""
NUMBER = 48731.90625
ROWS, OWNERLESS = 7919, 12
"""Rows of the private table, and those of them whose unit is null."""
PURPOSES = ("split", "resample", "draws", "digests", "commitment", "seal", "erasure")
SEPARATOR = "[,_ ']?"
"""Of thousands."""
MOMENT = re.compile(rb"20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")
PRINTED = re.compile(rb"[\t\n\r -~]{16,}")
SHOWN = 6
"""Bytes of a digest that suffice to tell it; MLflow keeps part of one."""

OUR_CODE = [path for folder in (artifacts, tasks) for path in Path(folder.__path__[0]).rglob("*.*")]


def private_rows() -> pl.DataFrame:
    """People, of whom some hold marked cells."""
    table, row = people(ROWS, 1), pl.int_range(pl.len())
    return table.with_columns(
        person=pl.when(row < OWNERLESS).then(None).otherwise(pl.concat_str(pl.lit(f"{VALUE}-unit-"), "person")),
        size=pl.when(row % 50 == 1).then(NUMBER).otherwise("size"),
        shade=pl.when(row % 50 == 2).then(pl.lit(f"{VALUE}-shade")).otherwise("shade"),
        outcome=pl.when(row % 50 == 3).then(pl.lit(f"{VALUE}-label")).otherwise("outcome"),
        **{f"{NAME}_column": pl.concat_str(pl.lit(f"{VALUE}-note-"), row)},
    )


def canary_tables(folder: Path) -> dict[str, Any]:
    """A plan, still as nested tables, over a private folder of marked files."""
    rows, private = private_rows(), write_tables(folder) / f"{NAME}-folder"
    private.mkdir()
    for part in range(3):
        rows[part::3].write_csv(private / f"{NAME}-{part}.csv")
    (folder / "private.csv").unlink()
    tables = tables_of_plan(folder)
    tables["data"]["private"] = private.name
    tables["teachers"] |= {"count": 60, "block": 30}
    return tables


@dataclass(frozen=True)
class Marks:
    """What must not be found: bytes as they are, and numbers as whole words; each under the name of what it is."""

    literals: dict[str, bytes]
    numbers: dict[str, re.Pattern[bytes]]

    @classmethod
    def of(cls, private: Path, home: Path) -> Self:
        """The marks of a private folder, and of what its home has made of it by now. Names of files are not among
        them."""
        literals = {"a private value": VALUE.encode(), "a private value in UTF-16": VALUE.encode("utf-16-le")}
        literals |= {f"a private number as {kind}": np.dtype(kind).type(NUMBER).tobytes() for kind in ("<f8", ">f8")}
        vault = Vault(home / "vault")
        literals |= dict(_fingerprints(private)) | dict(_keys(vault))
        numbers = {f"a count of private rows, {count}": token(count) for count in counts(private_rows())}
        numbers["a private number"] = re.compile(f"{NUMBER:,.2f}"[:-1].replace(",", SEPARATOR).encode())
        for path in vote_files(home):
            votes = votes_in(path, vault)
            literals |= {f"{what} of {path.name}": mark for what, mark in _votes_as_bytes(votes)}
            numbers[f"votes of {path.name}"] = re.compile(
                rb"[^0-9]{1,9}".join(str(vote).encode() for vote in _telling(votes))
            )
        return cls(literals, numbers)

    def with_names(self) -> Self:
        """The marks, and names of private files and columns besides."""
        return type(self)({**self.literals, "a private name": NAME.encode()}, self.numbers)

    def found(self, data: bytes) -> set[str]:
        """The marks that `data` holds, packed however."""
        return set().union(*(self._found_in(layer) for layer in layers(data)))

    def _found_in(self, layer: bytes) -> set[str]:
        literal, text = {name for name, mark in self.literals.items() if mark in layer}, readable(layer)
        return literal | {name for name, mark in self.numbers.items() if mark.search(text)}


def counts(rows: pl.DataFrame) -> tuple[int, ...]:
    """How many rows, rows with an owner, and owners: each a number that stands nowhere else."""
    return (rows.height, rows.height - rows["person"].null_count(), rows["person"].drop_nulls().n_unique())


def readable(layer: bytes) -> bytes:
    """What of a layer is text: a number of three or four digits stands in compressed or random bytes by accident."""
    try:
        layer.decode()
    except UnicodeDecodeError:
        return b"\0".join(PRINTED.findall(layer))
    return layer


def leaks(places: Iterable[Path], marks: Marks) -> list[str]:
    """Each mark found in a file of those places, or in its name, as a line of where and what."""
    files = sorted(path for place in places for path in ([place] if place.is_file() else place.rglob("*")))
    clean = {hashlib.sha256(path.read_bytes()).digest() for path in OUR_CODE}  # travels with every model
    told = []
    for path in files:
        data = path.name.encode() + b"\n"
        told += [f"the name of {path}: {mark}" for mark in sorted(marks.found(data))]
        data = path.read_bytes() if path.is_file() else b""
        if (digest := hashlib.sha256(data).digest()) not in clean:
            marked = marks.found(data)
            told += [f"{path}: {mark}" for mark in sorted(marked)]
            clean |= set() if marked else {digest}
    return told


def moments_between(places: list[Path], first: float, last: float) -> list[datetime]:
    """Moments told in files, as text or in (milli-, micro-, nano-) seconds since 1970, and of the files themselves."""
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    seconds = [path.stat().st_mtime for path in files if path.suffix != ".db" and path.is_file()]
    for layer in (layer for path in files if path.is_file() for layer in layers(path.read_bytes())):
        texts = [datetime.fromisoformat(found.decode()) for found in MOMENT.findall(layer)]
        seconds += [moment.replace(tzinfo=UTC).timestamp() for moment in texts]
        seconds += [
            int(found[:10]) + int(found[10:13] or 0) / 1000 for found in re.findall(rb"\b1[789]\d{8,17}\b", layer)
        ]
    return [datetime.fromtimestamp(moment, UTC) for moment in sorted(seconds) if first < moment < last]


def published(home: Path) -> list[Path]:
    """What the guarantee covers."""
    return [home / "released", home / "mlartifacts", home / "mlflow.db"]


def operated(home: Path) -> list[Path]:
    """All the rest but the vault and the published."""
    return [path for path in home.iterdir() if path.name != "vault" and path not in published(home)]


def vote_files(home: Path) -> list[Path]:
    """Every file of votes in the home's vault."""
    return sorted(path for path in (home / "vault" / "votes").rglob("*") if path.is_file())


def votes_in(path: Path, vault: Vault) -> NDArray[np.int64]:
    """Votes for the first class, from a file of the vault, be it as it was written or not."""
    if not encrypted(path):
        return read_votes(path.read_bytes()[:-SEAL_BYTES])[:, 0]
    ref = vault.find(str(path.relative_to(vault.root)))
    assert ref is not None
    return read_votes(vault.read(ref))[:, 0]


def _fingerprints(private: Path) -> Iterator[tuple[str, bytes]]:
    """Plain digests of private files and of a marked value: who guesses the content knows that he is right."""
    guesses = {path.name: path.read_bytes() for path in sorted(private.rglob("*")) if path.is_file()}
    guesses["a marked value"] = f"{VALUE}-shade".encode()
    for what, content in guesses.items():
        for kind in ("md5", "sha1", "sha256", "blake2b"):
            digest = hashlib.new(kind, content).digest()[:SHOWN]
            yield f"{kind} of {what}", digest
            yield f"{kind} of {what} in hex", digest.hex().encode()


def _keys(vault: Vault) -> Iterator[tuple[str, bytes]]:
    """Every secret of the vault, and every key derived from it, raw; their hex and base64 are unpacked to that."""
    secrets = vault.root / "secrets"
    for name in sorted(str(path.relative_to(secrets)) for path in secrets.rglob("*") if path.is_file()):
        key = vault.secret(name)
        yield f"the key {name}", key
        yield from ((f"the key {name} for {purpose}", derive(key, purpose)) for purpose in PURPOSES)


def _votes_as_bytes(votes: NDArray[np.int64]) -> Iterator[tuple[str, bytes]]:
    """A mark of one byte over and over is none: twelve times 32 votes are twelve blanks, as in any text."""
    for kind in ("u1", "<u2", "<u4", "<i8", "<f4", "<f8"):
        mark = _telling(votes).astype(kind).tobytes()
        if len(set(mark)) > 1:
            yield f"votes as {kind}", mark


def _telling(votes: NDArray[np.int64], length: int = 12) -> NDArray[np.int64]:
    """The stretch of a column of votes that has most values in it."""
    stretches = [votes[first : first + length] for first in range(0, max(1, len(votes) - length))]
    return max(stretches, key=lambda stretch: len(set(stretch.tolist())))


def token(count: int) -> re.Pattern[bytes]:
    """The count as a word of its own, with or without a mark between its thousands."""
    text = str(count)
    return re.compile(rf"(?<![\w.,-]){text[:-3]}{SEPARATOR}{text[-3:]}(?:\.0+)?(?!\w|[.,-]\d)".encode())


class Teller(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Tells all it is given, on every channel it has, and fails on every fifth shard with a row in its message."""

    def fit(self, X: Any, y: Any) -> Self:
        if not _rehearsed(X):
            told = f"{VALUE}-row {X[0].tolist()}"
            print(told)
            print(told, file=sys.stderr)
            warnings.warn(told, stacklevel=1)
            for name in (None, "prefect.task_runs", "anyone"):
                logging.getLogger(name).critical(told)
            if self.random_state % 5 == 0:
                raise ValueError(told)
        super().fit(X, y)
        return self


class Native(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Prints as compiled code does: past Python's streams."""

    def fit(self, X: Any, y: Any) -> Self:
        if not _rehearsed(X):
            ctypes.CDLL(None).puts(f"{VALUE}-row".encode())
        super().fit(X, y)
        return self


class Quitter(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Leaves the program with a row in its last words."""

    def fit(self, X: Any, y: Any) -> Self:
        if not _rehearsed(X):
            raise SystemExit(f"{VALUE}-row {X[0].tolist()}")
        super().fit(X, y)
        return self


class Glutton(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Runs out of memory with a row in its message."""

    def fit(self, X: Any, y: Any) -> Self:
        if not _rehearsed(X):
            raise MemoryError(f"{VALUE}-row {X[0].tolist()}")
        super().fit(X, y)
        return self


def _rehearsed(X: NDArray[np.float32]) -> bool:
    return bool(np.array_equal(X.ravel()[:8], np.sin(np.arange(8, dtype=np.float32))))
