"""Marks: what must not be found, in all the spellings it could have, and the search for what got out."""

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
from concord.artifacts.home.vault import Vault, derive
from tests.promises.canary import NAME, NUMBER, VALUE, counts, private_rows
from tests.promises.kept import KINDS, drawn, kept, sequences, set_aside, totals
from tests.promises.unpack import layers

PURPOSES = ("split", "resample", "draws", "digests", "commitment", "seal", "erasure")
SEPARATOR = "[,_ ']?"
"""Of thousands."""
PRINTED = re.compile(rb"[\t\n\r -~]{16,}")
SHOWN = 8
"""Bytes of a digest that suffice to tell it; MLflow keeps part of one. Of 6, one stood somewhere by chance once in 10⁵
runs of all canaries."""
LENGTH, OF_TWO = 12, 128
"""Numbers in a row that suffice to tell a sequence, and where there are two of them alone, as with labels."""
FEWEST = 1000
"""Rows of which the number stands nowhere else by chance."""

OUR_CODE = [
    path
    for folder in (concord.artifacts, concord.flows, concord.tasks)
    for path in Path(folder.__path__[0]).rglob("*.*")
]


@dataclass(frozen=True)
class Marks:
    """What must not be found: bytes as they are, and numbers as whole words; each under the name of what it is."""

    literals: dict[str, bytes]
    numbers: dict[str, re.Pattern[bytes]]

    @classmethod
    def of(cls, private: Path, home: Path) -> Self:
        """The marks of a private folder, and of what its home has made of it by now. Names of files are not among
        them."""
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
        """The marks where labels alone are secret: marked labels, files that hold them, and what was made of them.

        Features, how many rows there are, and whose they are, are not looked for.
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
        """The marks, and names of private files and columns besides."""
        return type(self)({**self.literals, "a private name": NAME.encode()}, self.numbers)

    def with_total(self, what: str, count: int) -> Self:
        """The marks, and a private count besides."""
        return type(self)(self.literals, {**self.numbers, what: token(count)})

    def with_sequence(self, what: str, numbers: NDArray[np.int64]) -> Self:
        """The marks, and a stretch of those numbers besides: as text, whatever stands between them, and as bytes.

        Fewer numbers than make a stretch are no mark: they could stand anywhere.
        """
        length = LENGTH if len(set(numbers.tolist())) > 2 else OF_TWO
        if len(numbers) < length:
            return self
        stretch = _telling(numbers, length)
        text = re.compile(rb"[^0-9]{1,9}".join(str(number).encode() for number in stretch))
        return type(self)({**self.literals, **dict(_as_bytes(what, stretch))}, {**self.numbers, what: text})

    def with_few(self, what: str, numbers: NDArray[np.int64]) -> Self:
        """The marks, and a few counts of at least two digits besides, one after another: as text, or as bytes."""
        text = re.compile(rb"(?<![\w.])" + rb"[^0-9]{1,9}".join(str(count).encode() for count in numbers) + rb"(?!\w)")
        spelt = {f"{what} as {kind}": numbers.astype(kind).tobytes() for kind in ("<i4", "<i8", "<f8")}
        return type(self)({**self.literals, **spelt}, {**self.numbers, what: text})

    def with_hypothesis(self, what: str, hypothesis: dict[str, Any]) -> Self:
        """The marks, and the places where that hypothesis cuts besides."""
        literals, numbers = dict(self.literals), dict(self.numbers)
        for cut in _cuts(hypothesis):
            literals |= {f"{what} as {kind}": np.dtype(kind).type(cut).tobytes() for kind in ("<f8", ">f8")}
            shown = "|".join(re.escape(text) for text in (repr(cut), f"{cut:.6g}"))
            numbers[f"{what}, {cut}"] = re.compile(rf"(?<![\w.])(?:{shown})(?!\w)".encode())
        return type(self)(literals, numbers)

    def found(self, data: bytes) -> set[str]:
        """The marks that `data` holds, packed however."""
        return set().union(*(self._found_in(layer) for layer in layers(data)))

    def _found_in(self, layer: bytes) -> set[str]:
        literal, text = {name for name, mark in self.literals.items() if mark in layer}, readable(layer)
        return literal | {name for name, mark in self.numbers.items() if mark.search(text)}


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
    """Plain digests of private things: who guesses the content knows that he is right."""
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


def _as_bytes(what: str, numbers: NDArray[np.int64]) -> Iterator[tuple[str, bytes]]:
    """A mark of one byte over and over is none: twelve times 32 votes are twelve blanks, as in any text."""
    for kind in ("u1", "<u2", "<u4", "<i8", "<f4", "<f8"):
        mark = numbers.astype(kind).tobytes()
        if len(set(mark)) > 1:
            yield f"{what} as {kind}", mark


def _telling(numbers: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """The stretch that has most values in it."""
    stretches = [numbers[first : first + length] for first in range(len(numbers) - length + 1)]
    return max(stretches, key=lambda stretch: len(set(stretch.tolist())))


def _cuts(described: Any) -> Iterator[float]:
    """The numbers in a hypothesis's JSON that are no counts."""
    match described:
        case dict() | list():
            for part in described.values() if isinstance(described, dict) else described:
                yield from _cuts(part)
        case float() if np.isfinite(described) and not described.is_integer():
            yield described
