"""Split: one unit, one shard, whatever stands in its rows and in all the others; and keyed bits of units, of each name
by itself."""

import resource
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.made import frame_of

KEY = bytes(range(32))
K, BLOCK = 7, 3
Shards = dict[int, list[tuple[object, ...]]]

PUBLIC = "age,city,active,since\n30,Rome,true,2020-01-02\n41,Bonn,false,2021-03-04\n,Oslo,,\n"
HEADER = "age,city,active,since,outcome,person\n"


def table(rows: int) -> list[str]:
    """Lines of a private table: three rows a person, one line in five the same as another."""
    cities = ("Rome", "Bonn", "Oslo")
    return [
        f"{20 + row // 5},{cities[row % 3]},{'true' if row % 2 else 'false'},2020-01-0{1 + row % 5},"
        f"{'yes' if row % 2 else 'no'},p{row // 3}"
        for row in range(rows)
    ]


def plan(folder: Path, lines: list[str] | bytes, *, unit: str | None = None, name: str = "private.csv") -> world.Plan:
    text = lines if isinstance(lines, bytes) else (HEADER + "".join(line + "\n" for line in lines)).encode()
    (folder / name).write_bytes(text)
    (folder / "public.csv").write_text(PUBLIC)
    return plan_of(folder, name, unit)


def plan_of(folder: Path, private: str, unit: str | None) -> world.Plan:
    data = {"private": private, "public": "public.csv", "label": "outcome", "classes": ["no", "yes"]}
    privacy = {"domain": "d", "epsilon": 1, "delta": 1e-5, "lifetime": {"epsilon": 1, "delta": 1e-5}}
    return world.parse_plan(
        {
            "data": data | ({"unit": unit} if unit else {}),
            "privacy": privacy,
            "teachers": {"count": K, "block": BLOCK},
            "labeling": {"cutoff": 5},
            "folder": str(folder),
        }
    )


def shards(folder: Path, lines: list[str] | bytes, *, unit: str | None = None) -> Shards:
    """What every shard holds, read back from the vault."""
    made = plan(folder, lines, unit=unit)
    return contents(made, world.learn_encoding(made), folder)


def contents(made: world.Plan, encoding: world.Encoding, folder: Path, key: bytes = KEY) -> Shards:
    vault = world.Vault(folder / "vault")
    refs = world.split(world.PrivateRows(made, encoding, vault, key), "shards")
    assert len(refs) == 3  # ceil(7 / 3), whatever the rows
    rows = pl.concat(frame_of(ref, vault) for ref in refs)
    return {shard: rows.filter(pl.col(world.SHARD) == shard).drop(world.SHARD).rows() for shard in range(K)}


@pytest.mark.parametrize("same", [slice(0, 0), slice(0, 8), slice(8, 16)])
def test_a_row_is_named_by_its_digest_and_copy_number_as_it_always_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: slice
) -> None:
    """Also if digests differ in one half alone."""

    def digests_of(rows: pl.DataFrame, encoding: world.Encoding, key: bytes) -> list[bytes]:
        found = world.row_digests(rows, encoding, key)
        return [each[: same.start] + bytes(same.stop - same.start) + each[same.stop :] for each in found]

    monkeypatch.setattr(world.units_split, "row_digests", digests_of)
    lines = [*table(40), *[table(1)[0]] * 20]
    made = plan(tmp_path, lines)
    encoding = world.learn_encoding(made)
    files = world.split(world.PrivateRows(made, encoding, world.Vault(tmp_path / "vault"), KEY), "shards")
    rows = pl.concat(frame_of(ref, world.Vault(tmp_path / "vault")) for ref in files)
    named = Counter[bytes]()
    expected = list[int]()
    for digest in (digests := digests_of(rows.drop(world.SHARD), encoding, KEY)):
        named[digest] += 1
        name = digest + named[digest].to_bytes(8, "little")
        bits = blake2b(name, key=KEY, person=b"shard", digest_size=8).digest()
        expected.append(int.from_bytes(bits, "little") % K)
    found = zip(digests, rows[world.SHARD], strict=True)
    assert sorted(found) == sorted(zip(digests, expected, strict=True))
    assert max(named.values()) > 20


def test_a_null_unit_is_left_out_and_any_other_odd_unit_is_not(tmp_path: Path) -> None:
    lines = [*table(6), "44,Rome,true,2020-01-01,yes,", "44,Rome,true,2020-01-01,yes,¿"]
    assert sum(map(len, shards(tmp_path, lines, unit="person").values())) == 7


def test_blocks_that_share_a_spill_file_are_parted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shards(tmp_path, table(60))
    monkeypatch.setattr(world.units_split, "SPILLS", 2)
    assert shards(tmp_path, table(60)) == whole


def test_all_files_of_a_spill_may_be_open_if_a_process_may_open_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some systems: else a table that fits in memory is split, and a larger one ends the run."""
    monkeypatch.setattr(world.units_spill, "HELD_BYTES", 0)
    limits, rows = resource.getrlimit(resource.RLIMIT_NOFILE), pl.DataFrame({"x": range(2 * world.SPILLS)})
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        with world.spilling(world.Vault(tmp_path), "spill", rows.schema) as spill:
            spill.add(rows, rows["x"] % world.SPILLS)
            assert [part["x"].to_list() for part in spill.read(2)] == [[0, world.SPILLS], [1, world.SPILLS + 1]]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_digest_is_of_the_cells_one_after_another_as_it_always_was() -> None:
    """Each in as many bytes as its type has, and a byte that says whether it is null; whatever the last one is."""
    encoding = world.Encoding(
        columns=(
            world.Passed(name="picture", element="uint8", size=2),
            world.OneHot(name="city", vocabulary=("Rome", "Bonn"), missing=True),
            world.Empty(name="nothing"),
            world.Hashed(name="words", size=4),
            world.Passed(name="vector", element="float32", size=1),
        ),
        label="outcome",
        classes=("no", "yes"),
    )
    rows = pl.DataFrame(
        {
            "picture": [[0, 255], None],
            "city": ["Bonn", None],
            "words": ["", None],
            "vector": [[-0.0], [float("nan")]],
            world.LABEL: [1, 0],
        },
        {
            "picture": pl.Array(pl.UInt8, 2),
            "city": pl.String,
            "words": pl.String,
            "vector": pl.Array(pl.Float32, 1),
            world.LABEL: pl.UInt16,
        },
    )
    nan = np.array([np.nan], "<f4").tobytes()
    cells = [
        b"\0\xff\0\1\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\1\0",
        b"\0\0\1\0\0\0\0\1\0\0\0\0\1" + nan + b"\0\0\0",
    ]
    expected = [blake2b(each, key=KEY, person=b"content", digest_size=16).digest() for each in cells]
    assert world.row_digests(rows, encoding, KEY) == expected
    assert world.row_digests(rows[:0], encoding, KEY) == []


# Keyed bits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_unit_has_its_bits_however_many_rows_it_has(chunks: int) -> None:
    """Names that begin alike, end in zeros or are nothing are different ones; so are all purposes."""
    names = [b"a", b"b\0", b"", b"a", b"b", b"\xff\xfe", b"a" * 300, b"b\0", b""]
    for purpose in (b"shard", b"sample"):
        alone = [blake2b(name, key=KEY, person=purpose, digest_size=8).digest() for name in names] * chunks
        units = pl.concat([pl.Series(names, dtype=pl.Binary)] * chunks, rechunk=False)
        assert world.keyed_bits(units, KEY, purpose).astype("<u8").tobytes() == b"".join(alone)
        assert world.keyed_bits(units.head(0), KEY, purpose).tolist() == []


def test_long_names_are_copied_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bits are as ever, in whatever company a name is copied."""
    names = [bytes([at % 7]) * (at % 40) for at in range(300)]
    units, copied = pl.Series(names, dtype=pl.Binary), list[int]()
    whole = world.keyed_bits(units, KEY, b"shard").tolist()

    def noted(contents: Iterable[bytes], *how: Any) -> list[bytes]:
        held = list(contents)
        copied.append(sum(map(len, held)))
        return world.hashed(held, *how)

    monkeypatch.setattr(world.units_units, "NAMES_BYTES", 200)
    monkeypatch.setattr(world.units_units, "hashed", noted)
    assert world.keyed_bits(units, KEY, b"shard").tolist() == whole
    assert max(copied) <= 400
    assert world.keyed_bits(pl.Series([b"x" * 1000], dtype=pl.Binary), KEY, b"shard").tolist() != []


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
    assert world.PrivateRows in {kind for kind, _ in held}
    assert [kind for kind, part in held if part.repr] == []
