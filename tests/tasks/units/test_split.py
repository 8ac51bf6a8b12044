"""Split: one unit, one shard, whatever stands in its rows and in all the others."""

import resource
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.world import (
    LABEL,
    SHARD,
    SPILLS,
    Empty,
    Encoding,
    Hashed,
    OneHot,
    Passed,
    Plan,
    PrivateRows,
    Vault,
    learn_encoding,
    parse_plan,
    read_frame,
    row_digests,
    spilling,
    split,
    units_spill,
    units_split,
)

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


def plan(folder: Path, lines: list[str] | bytes, *, unit: str | None = None, name: str = "private.csv") -> Plan:
    text = lines if isinstance(lines, bytes) else (HEADER + "".join(line + "\n" for line in lines)).encode()
    (folder / name).write_bytes(text)
    (folder / "public.csv").write_text(PUBLIC)
    return plan_of(folder, name, unit)


def plan_of(folder: Path, private: str, unit: str | None) -> Plan:
    data = {"private": private, "public": "public.csv", "label": "outcome", "classes": ["no", "yes"]}
    privacy = {"domain": "d", "epsilon": 1, "delta": 1e-5, "lifetime": {"epsilon": 1, "delta": 1e-5}}
    return parse_plan(
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
    return contents(made, learn_encoding(made), folder)


def contents(made: Plan, encoding: Encoding, folder: Path, key: bytes = KEY) -> Shards:
    vault = Vault(folder / "vault")
    refs = split(PrivateRows(made, encoding, vault, key), "shards")
    assert len(refs) == 3  # ceil(7 / 3), whatever the rows
    rows = pl.concat(read_frame(ref, vault) for ref in refs)
    return {shard: rows.filter(pl.col(SHARD) == shard).drop(SHARD).rows() for shard in range(K)}


def test_copies_of_one_row_spread_over_the_shards(tmp_path: Path) -> None:
    sizes = [len(rows) for rows in shards(tmp_path, table(1) * 700).values()]
    assert sum(sizes) == 700
    assert min(sizes) > 50  # 100 each on average; a binomial 5.4 standard deviations below it is 50


@pytest.mark.parametrize("same", [slice(0, 0), slice(0, 8), slice(8, 16)])
def test_a_row_is_named_by_its_digest_and_copy_number_as_it_always_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: slice
) -> None:
    """Also if digests differ in one half alone."""

    def digests_of(rows: pl.DataFrame, encoding: Encoding, key: bytes) -> list[bytes]:
        found = row_digests(rows, encoding, key)
        return [each[: same.start] + bytes(same.stop - same.start) + each[same.stop :] for each in found]

    monkeypatch.setattr(units_split, "row_digests", digests_of)
    lines = [*table(40), *[table(1)[0]] * 20]
    made = plan(tmp_path, lines)
    encoding = learn_encoding(made)
    files = split(PrivateRows(made, encoding, Vault(tmp_path / "vault"), KEY), "shards")
    rows = pl.concat(read_frame(ref, Vault(tmp_path / "vault")) for ref in files)
    named = Counter[bytes]()
    expected = list[int]()
    for digest in (digests := digests_of(rows.drop(SHARD), encoding, KEY)):
        named[digest] += 1
        name = digest + named[digest].to_bytes(8, "little")
        bits = blake2b(name, key=KEY, person=b"shard", digest_size=8).digest()
        expected.append(int.from_bytes(bits, "little") % K)
    found = zip(digests, rows[SHARD], strict=True)
    assert sorted(found) == sorted(zip(digests, expected, strict=True))
    assert max(named.values()) > 20


def test_another_key_is_another_split(tmp_path: Path) -> None:
    made = plan(tmp_path, table(60))
    encoding = learn_encoding(made)
    assert contents(made, encoding, tmp_path) != contents(made, encoding, tmp_path, bytes(32))


def test_a_null_unit_is_left_out_and_any_other_odd_unit_is_not(tmp_path: Path) -> None:
    lines = [*table(6), "44,Rome,true,2020-01-01,yes,", "44,Rome,true,2020-01-01,yes,¿"]
    assert sum(map(len, shards(tmp_path, lines, unit="person").values())) == 7


def test_files_with_other_columns_and_types_are_one_table(tmp_path: Path) -> None:
    plan(tmp_path, [])
    folder = tmp_path / "parts"
    folder.mkdir()
    first = pl.DataFrame(
        {"outcome": ["yes"], "age": [1], "person": [1], "city": [None], "active": [1], "since": [None]}
    )
    first.write_parquet(folder / "a.parquet")
    rest = pl.DataFrame({"city": ["Rome"], "active": ["true"], "since": [None], "age": ["2"], "outcome": [True]})
    rest.write_parquet(folder / "b.parquet")
    made = plan_of(tmp_path, "parts", None)
    assert sum(map(len, contents(made, learn_encoding(made), tmp_path).values())) == 2


def test_blocks_that_share_a_spill_file_are_parted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shards(tmp_path, table(60))
    monkeypatch.setattr(units_split, "SPILLS", 2)
    assert shards(tmp_path, table(60)) == whole


def test_all_files_of_a_spill_may_be_open_if_a_process_may_open_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some systems: else a table that fits in memory is split, and a larger one ends the run."""
    monkeypatch.setattr(units_spill, "HELD_BYTES", 0)
    limits, rows = resource.getrlimit(resource.RLIMIT_NOFILE), pl.DataFrame({"x": range(2 * SPILLS)})
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        with spilling(Vault(tmp_path), "spill", rows.schema) as spill:
            spill.add(rows, rows["x"] % SPILLS)
            assert [part["x"].to_list() for part in spill.read(2)] == [[0, SPILLS], [1, SPILLS + 1]]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_nothing_but_blocks_is_left_and_only_the_owner_reads_them(tmp_path: Path) -> None:
    shards(tmp_path, table(60))
    left = sorted(path for path in (tmp_path / "vault" / "shards").rglob("*"))
    assert [path.name for path in left] == ["block-00000.arrow", "block-00001.arrow", "block-00002.arrow"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in left)


def test_a_digest_is_of_the_cells_one_after_another_as_it_always_was() -> None:
    """Each in as many bytes as its type has, and a byte that says whether it is null; whatever the last one is."""
    encoding = Encoding(
        columns=(
            Passed(name="picture", element="uint8", size=2),
            OneHot(name="city", vocabulary=("Rome", "Bonn"), missing=True),
            Empty(name="nothing"),
            Hashed(name="words", size=4),
            Passed(name="vector", element="float32", size=1),
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
            LABEL: [1, 0],
        },
        {
            "picture": pl.Array(pl.UInt8, 2),
            "city": pl.String,
            "words": pl.String,
            "vector": pl.Array(pl.Float32, 1),
            LABEL: pl.UInt16,
        },
    )
    nan = np.array([np.nan], "<f4").tobytes()
    cells = [
        b"\0\xff\0\1\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\1\0",
        b"\0\0\1\0\0\0\0\1\0\0\0\0\1" + nan + b"\0\0\0",
    ]
    expected = [blake2b(each, key=KEY, person=b"content", digest_size=16).digest() for each in cells]
    assert row_digests(rows, encoding, KEY) == expected
    assert row_digests(rows[:0], encoding, KEY) == []
