"""The secrets of a vault for canary tests: sequences of numbers, totals, drawn hypotheses, and whole files."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tests.world import ASIDE, LABEL, LENGTH, SEAL_BYTES, SHARD, Vault, read_votes

KINDS = (
    "shards",
    "choices",
    "relabelled",
    "teachers",
    "votes",
    "counts",
    "measured",
    "units",
    "sums",
    "arrived",
    "aside",
    "tested",
)
"""Folders of the vault that hold what was made of private rows."""
BARE = ("choices", "arrived")
"""Those of files without provenance."""


def kept(home: Path, kind: str) -> dict[str, bytes]:
    """The contents of a kind of vault file, by path, in the order they were written; damaged files too."""
    contents, vault = dict[str, bytes](), Vault(home / "vault")
    for path in sorted(files(home, kind), key=lambda path: path.stat().st_mtime_ns):
        data = path.read_bytes()[:-SEAL_BYTES]
        made = 0 if kind in BARE else LENGTH + int.from_bytes(data[-LENGTH:], "little")
        contents[str(path.relative_to(vault.root))] = data[: len(data) - made]
    return contents


def files(home: Path, kind: str) -> list[Path]:
    """Every file of a kind in the home's vault."""
    return sorted(path for path in (home / "vault" / kind).rglob("*") if path.is_file())


def sequences(home: Path) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Private sequences that can be recognised: votes for the first class, errors, labels, and rows by shard."""
    votes = {path: read_votes(data)[:, 0] for path, data in kept(home, "votes").items()}
    yield from ((f"votes of {path}", column) for path, column in votes.items())
    for path, data in kept(home, "counts").items():
        yield f"errors of {path}", np.load(io.BytesIO(data), allow_pickle=False)
    for path, data in kept(home, "measured").items():
        yield f"errors of {path}", np.frombuffer(data, np.int64).reshape(-1, 2)[:, 0]
    for path, data in kept(home, "sums").items():
        yield f"sums of {path}", np.load(io.BytesIO(data), allow_pickle=False)
    for path, data in kept(home, "units").items():
        rows = pl.read_ipc_stream(io.BytesIO(data))
        yield f"labels of {path}", rows[LABEL].to_numpy().astype(np.int64)
    for path, rows in _frames(home):
        yield f"rows by shard of {path}", np.unique(rows[SHARD].to_numpy(), return_counts=True)[1]
        yield f"labels of {path}", rows[LABEL].to_numpy().astype(np.int64)


def set_aside(home: Path) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Counts of units set aside, by class and answer."""
    for path, data in kept(home, "tested").items():
        yield f"units of {path}", np.frombuffer(data, "<i8")


def totals(home: Path) -> Iterator[tuple[str, int]]:
    """Numbers of rows by folder: learned from, of the second class, and set aside; such as a secret subset's size."""
    folders: dict[str, list[pl.DataFrame]] = {}
    for path, rows in _frames(home):
        folders.setdefault(str(Path(path).parent), []).append(rows)
    for folder, parts in folders.items():
        yield f"rows of {folder}", sum(rows.height for rows in parts)
        yield f"labels of {folder}", sum(int(rows[LABEL].sum()) for rows in parts)
        if ASIDE in parts[0].columns:
            yield f"rows set aside of {folder}", sum(int(rows[ASIDE].sum()) for rows in parts)


def drawn(home: Path) -> dict[str, dict[str, Any]]:
    """The hypotheses drawn for relabelling, as JSON, by path."""
    return {path: json.loads(data) for path, data in kept(home, "choices").items()}


def _frames(home: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    for kind in ("shards", "relabelled"):
        for path, data in kept(home, kind).items():
            yield path, pl.read_ipc(io.BytesIO(data))
