"""Changes that somebody may plant in what was published."""

import base64
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np


def planted(original: Path) -> Iterator[tuple[set[str], Callable[[Path], object]]]:
    """Changes under the old signature: bits of every file, files swapped, subjects left out. Each with the names of the
    files that are changed."""
    rng = np.random.default_rng(15)
    files = sorted(file.relative_to(original) for file in original.rglob("*") if file.is_file())
    for file in files:
        size = (original / file).stat().st_size
        for at in {0, size - 1, *map(int, rng.integers(size, size=3))}:
            yield {file.name}, flip(file, at, int(rng.integers(8)))
    labels = [file for file in files if file.suffix == ".arrow"]
    for first, second in [*pairwise(files), (labels[0], labels[-1])]:
        yield {first.name, second.name}, swap(first, second)
    statement = json.loads((original / "attestation.json").read_text())
    for at in range(len(json.loads(base64.b64decode(statement["payload"]))["subject"])):
        yield {"attestation.json"}, leave_out(at)


def flip(file: Path, at: int, bit: int) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        content = bytearray((folder / file).read_bytes())
        content[at] ^= 1 << bit
        (folder / file).write_bytes(content)

    return change


def swap(first: Path, second: Path) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        one, other = (folder / first).read_bytes(), (folder / second).read_bytes()
        (folder / first).write_bytes(other)
        (folder / second).write_bytes(one)

    return change


def leave_out(at: int) -> Callable[[Path], object]:
    """The statement without one of its subjects, under the old signature."""

    def change(folder: Path) -> None:
        file = folder / "attestation.json"
        envelope = json.loads(file.read_text())
        statement = json.loads(base64.b64decode(envelope["payload"]))
        del statement["subject"][at]
        envelope["payload"] = base64.b64encode(json.dumps(statement, separators=(",", ":")).encode()).decode()
        file.write_text(json.dumps(envelope, indent=2))

    return change
