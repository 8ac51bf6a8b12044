"""Keyed bits of units: of each name by itself, whatever company it is hashed in."""

import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

import polars as pl
import pytest

from tests.world import PrivateRows, hashed, keyed_bits, units_units

KEY = bytes(range(32))


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_unit_has_its_bits_however_many_rows_it_has(chunks: int) -> None:
    """Names that begin alike, end in zeros or are nothing are different ones; so are all purposes."""
    names = [b"a", b"b\0", b"", b"a", b"b", b"\xff\xfe", b"a" * 300, b"b\0", b""]
    for purpose in (b"shard", b"sample"):
        alone = [blake2b(name, key=KEY, person=purpose, digest_size=8).digest() for name in names] * chunks
        units = pl.concat([pl.Series(names, dtype=pl.Binary)] * chunks, rechunk=False)
        assert keyed_bits(units, KEY, purpose).astype("<u8").tobytes() == b"".join(alone)
        assert keyed_bits(units.head(0), KEY, purpose).tolist() == []


def test_long_names_are_copied_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bits are as ever, in whatever company a name is copied."""
    names = [bytes([at % 7]) * (at % 40) for at in range(300)]
    units, copied = pl.Series(names, dtype=pl.Binary), list[int]()
    whole = keyed_bits(units, KEY, b"shard").tolist()

    def noted(contents: Iterable[bytes], *how: Any) -> list[bytes]:
        held = list(contents)
        copied.append(sum(map(len, held)))
        return hashed(held, *how)

    monkeypatch.setattr(units_units, "NAMES_BYTES", 200)
    monkeypatch.setattr(units_units, "hashed", noted)
    assert keyed_bits(units, KEY, b"shard").tolist() == whole
    assert max(copied) <= 400
    assert keyed_bits(pl.Series([b"x" * 1000], dtype=pl.Binary), KEY, b"shard").tolist() != []


def test_no_value_shows_the_key_that_it_holds() -> None:
    """Errors and debuggers write values out. Asked of every dataclass of ours that is loaded."""
    held = [
        (kind, part)
        for module in [module for name, module in [*sys.modules.items()] if name.startswith("concord.")]
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and is_dataclass(kind)
        for part in fields(kind)
        if part.name == "key" and part.type in (bytes, "bytes")
    ]
    assert PrivateRows in {kind for kind, _ in held}
    assert [kind for kind, part in held if part.repr] == []
