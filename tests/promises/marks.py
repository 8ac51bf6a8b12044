"""Marks: private content to search for, in all spellings it could have, and the search."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import concord.artifacts
import concord.flows
import concord.tasks
from tests.promises.canary import NAME, NUMBER, VALUE, counts, private_rows
from tests.promises.kept import KINDS, drawn, kept, sequences, set_aside, totals
from tests.promises.unpack import layers
from tests.world import Vault, derive

PURPOSES = ("split", "resample", "draws", "digests", "commitment", "seal", "erasure")
SEPARATOR = "[,_ ']?"
"""Of thousands."""
PRINTED = re.compile(rb"[\t\n\r -~]{16,}")
SHOWN = 8
"""Bytes of a digest that identify it; MLflow keeps part of one. Of 6, one stood somewhere by chance once in 10⁵
runs of all canaries."""
LENGTH, OF_TWO = 12, 128
"""How many successive numbers identify a sequence; and how many if there are only two values, as with labels."""
FEWEST = 1000
"""The least number of rows that appears nowhere else by chance."""

OUR_CODE = [
    path
    for folder in (concord.artifacts, concord.flows, concord.tasks)
    for path in Path(folder.__path__[0]).rglob("*.*")
]


@dataclass(frozen=True)
class Marks:
    """Private content to search for: raw bytes, and numbers as whole words; each with a name."""

    literals: dict[str, bytes]
    numbers: dict[str, re.Pattern[bytes]]

    @classmethod
    def of(cls, private: Path, home: Path) -> Self:
        """The marks of a private folder, and of everything that its home has made of it so far. Names of files are not
        among them."""
        numbers = {f"a count of private rows, {count}": token(count) for count in counts(private_rows())}
        numbers["a private number"] = re.compile(
            rf"(?<![\d.]){re.escape(f'{NUMBER:,.1f}').replace(',', SEPARATOR)}".encode()
        )
        numbers |= _counts(totals(home))
        literals = {f"a private number as {kind}": np.dtype(kind).type(NUMBER).tobytes() for kind in ("<f8", ">f8")}
        made = cls.of_labels(private, home)
        return cls(made.literals | literals, made.numbers | numbers)

    @classmethod
    def of_labels(cls, private: Path, home: Path) -> Self:
        """The marks if labels alone are secret: marked labels, files with labels, and everything made from them.

        Features, the number of rows, and their units are not searched for.
        """
        literals = {"a private value": VALUE.encode(), "a private value in UTF-16": VALUE.encode("utf-16-le")}
        guesses = {path.name: path.read_bytes() for path in sorted(private.rglob("*")) if path.is_file()}
        guesses |= {f"a marked {what}": f"{VALUE}-{what}".encode() for what in ("shade", "label")}
        for kind in KINDS:
            guesses |= kept(home, kind)
        literals |= dict(_fingerprints(guesses)) | dict(_keys(Vault(home / "vault")))
        made = cls(literals, _counts((what, count) for what, count in totals(home) if what.startswith("labels")))
        for what, numbers in sequences(home):
            made = made.with_sequence(what, numbers)
        for what, numbers in set_aside(home):
            made = made.with_few(what, numbers)
        for path, hypothesis in drawn(home).items():
            made = made.with_hypothesis(path, hypothesis)
        return made

    def with_names(self) -> Self:
        """These marks, with names of private files and columns."""
        return type(self)({**self.literals, "a private name": NAME.encode()}, self.numbers)

    def with_total(self, what: str, count: int) -> Self:
        """These marks, with a private count."""
        return type(self)(self.literals, {**self.numbers, what: token(count)})

    def with_sequence(self, what: str, numbers: NDArray[np.int64]) -> Self:
        """These marks, with a stretch of those numbers: as text with any separators, and as bytes.

        Sequences too short for a stretch are not added: they could appear anywhere.
        """
        length = LENGTH if len(set(numbers.tolist())) > 2 else OF_TWO
        if len(numbers) < length:
            return self
        stretch = _telling(numbers, length)
        text = re.compile(rb"[^0-9]{1,9}".join(str(number).encode() for number in stretch))
        return type(self)({**self.literals, **dict(_as_bytes(what, stretch))}, {**self.numbers, what: text})

    def with_few(self, what: str, numbers: NDArray[np.int64]) -> Self:
        """These marks, with a few counts of at least two digits, one after another: as text, or as bytes."""
        text = re.compile(rb"(?<![\w.])" + rb"[^0-9]{1,9}".join(str(count).encode() for count in numbers) + rb"(?!\w)")
        spelt = {f"{what} as {kind}": numbers.astype(kind).tobytes() for kind in ("<i4", "<i8", "<f8")}
        return type(self)({**self.literals, **spelt}, {**self.numbers, what: text})

    def with_hypothesis(self, what: str, hypothesis: dict[str, Any]) -> Self:
        """These marks, with the thresholds of that hypothesis."""
        literals, numbers = dict(self.literals), dict(self.numbers)
        for cut in _cuts(hypothesis):
            literals |= {f"{what} as {kind}": np.dtype(kind).type(cut).tobytes() for kind in ("<f8", ">f8")}
            shown = "|".join(re.escape(text) for text in (repr(cut), f"{cut:.6g}"))
            numbers[f"{what}, {cut}"] = re.compile(rf"(?<![\w.])(?:{shown})(?!\w)".encode())
        return type(self)(literals, numbers)

    def found(self, data: bytes) -> set[str]:
        """The names of the marks found in `data`, however it is packed."""
        return set().union(*(self._found_in(layer) for layer in layers(data)))

    def _found_in(self, layer: bytes) -> set[str]:
        literal, text = {name for name, mark in self.literals.items() if mark in layer}, readable(layer)
        return literal | {name for name, mark in self.numbers.items() if mark.search(text)}


def readable(layer: bytes) -> bytes:
    """The text in a layer: numbers of three or four digits appear in compressed or random bytes by chance."""
    try:
        layer.decode()
    except UnicodeDecodeError:
        return b"\0".join(PRINTED.findall(layer))
    return layer


def leaks(places: Iterable[Path], marks: Marks) -> list[str]:
    """A line for each mark found in a file of those places, or in its name: where, and which mark."""
    files = sorted(path for place in places for path in ([place] if place.is_file() else place.rglob("*")))
    clean = {hashlib.sha256(path.read_bytes()).digest() for path in OUR_CODE}  # part of every model
    listed = []
    for path in files:
        data = path.name.encode() + b"\n"
        listed += [f"the name of {path}: {mark}" for mark in sorted(marks.found(data))]
        data = path.read_bytes() if path.is_file() else b""
        if (digest := hashlib.sha256(data).digest()) not in clean:
            marked = marks.found(data)
            listed += [f"{path}: {mark}" for mark in sorted(marked)]
            clean |= set() if marked else {digest}
    return listed


def token(count: int) -> re.Pattern[bytes]:
    """The count as a word of its own, with or without a mark between its thousands.

    No width of a database's column, and no line of Python that a failure or a log names: MLflow's 5000 was a number of
    rows in learning with probability 2e-5, Prefect's line 1696 the size of a secret subset with 1e-2, and one of its
    lines 1166, 1171, 1288 and 1334, from where it logs, a count of units set aside with 3e-2.
    """
    text = str(count)
    begins = r"""(?<![\w.,-])(?<!VARCHAR\()(?<!", line )(?<!\.py:)"""
    return re.compile(rf"{begins}{text[:-3]}{SEPARATOR}{text[-3:]}(?:\.0+)?(?!\w|[.,-]\d)".encode())


def _counts(result: Iterable[tuple[str, int]]) -> dict[str, re.Pattern[bytes]]:
    return {f"{what}, {count}": token(count) for what, count in result if count >= FEWEST}


def _fingerprints(guesses: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Plain digests of private content, by which anyone who guesses the content could confirm the guess."""
    for what, content in guesses.items():
        for kind in ("md5", "sha1", "sha256", "blake2b"):
            digest = hashlib.new(kind, content).digest()[:SHOWN]
            yield f"{kind} of {what}", digest
            yield f"{kind} of {what} in hex", digest.hex().encode()


def _keys(vault: Vault) -> Iterator[tuple[str, bytes]]:
    """Every secret of the vault and every key derived from it, as raw bytes; the search decodes hex and base64."""
    secrets = vault.root / "secrets"
    for name in sorted(str(path.relative_to(secrets)) for path in secrets.rglob("*") if path.is_file()):
        key = vault.secret(name)
        yield f"the key {name}", key
        yield from ((f"the key {name} for {purpose}", derive(key, purpose)) for purpose in PURPOSES)


def _as_bytes(what: str, numbers: NDArray[np.int64]) -> Iterator[tuple[str, bytes]]:
    """The numbers as bytes. A mark of one repeated byte is left out: twelve times 32 votes are twelve blanks."""
    for kind in ("u1", "<u2", "<u4", "<i8", "<f4", "<f8"):
        mark = numbers.astype(kind).tobytes()
        if len(set(mark)) > 1:
            yield f"{what} as {kind}", mark


def _telling(numbers: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """The stretch with the most distinct values."""
    stretches = [numbers[first : first + length] for first in range(len(numbers) - length + 1)]
    return max(stretches, key=lambda stretch: len(set(stretch.tolist())))


def _cuts(described: Any) -> Iterator[float]:
    """The numbers in a hypothesis's JSON that are not counts."""
    match described:
        case dict() | list():
            for part in described.values() if isinstance(described, dict) else described:
                yield from _cuts(part)
        case float() if np.isfinite(described) and not described.is_integer():
            yield described
