"""A line alone: in a CSV file of any declared format, what a private line becomes is the same, to the bit, whatever
lines stand beside it, and no line can fail or add a row.

Law 8, for `[data] format`. Lines of any bytes (open quotes, separators, wrong and cut characters, digits in groups) are
read alone and between others; cells, unit names and everything that rules make of them are compared as bytes.
"""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.privacy.test_row_alone import through_the_rules
from tests.support.raw import exact
from tests.world import COMMAS, TextFormat, data_files, open_private

KEYS: dict[str, tuple[Any, ...]] = {
    key: get_args(TextFormat.model_fields[key].annotation) for key in ("separator", "decimal", "thousands", "encoding")
}
ODD = (
    *(
        b'"',
        b"'",
        b'""',
        b'"a',
        b'a"',
        b"'a;",
        b'"1,5',
        b'"\r',
        b"\r",
        b"\x00",
        b"\\",
        b"\x0b",
        b"\x0c",
        b"\x1c",
        b"\x85",
    ),
    *(b"\xff", b"\x81", b"\xe2\x82", b"\xe2\x82\xac", b"\xf0\x9f", b"\xa0", b"\xef\xbb\xbf", b"\xe4", b"\x98\xa4"),
    *(
        b"1,5",
        b"1.5",
        b"-0",
        b"-0,0",
        b"-0.0",
        b"1.234",
        b"1,234",
        b"1.234,5",
        b"1'234.5",
        b"12 345",
        b"1e5",
        b"1,5e-3",
    ),
    *(b",", b";", b"\t", b"|", b";;;", b" ", b"", b"00011", b"NA", b"true", b"2020-01-02", b"0x1F", b"1_000", b"inf"),
)
BESIDE = (b"1,a;7\tx", b'"', b"'", b'7;"8', b"", b"\xe2", b"1,5;2;3")
formats = st.fixed_dictionaries({key: st.sampled_from(signs) for key, signs in KEYS.items()}).filter(
    lambda keys: keys["decimal"] != keys["thousands"]
)
lines = st.lists(st.sampled_from(ODD), min_size=1, max_size=8).map(b"".join)


def read(path: Path, form: TextFormat, *rows: bytes, whole: bool = False) -> list[tuple[bytes | None, ...]]:
    """The cells and the unit of each row of a private file; on the `whole`, all that any rule makes of them."""
    path.write_bytes(form.separator.join(("c", "d", "unit")).encode() + b"\n" + b"\n".join(rows) + b"\n")
    found: list[tuple[bytes | None, ...]] = []
    columns = {"c": "data.features", "d": "data.features"}
    for frame, owner in open_private(str(path), form, "unit").owned(columns):
        rules = [through_the_rules(frame[name]).rules.values() for name in columns] if whole else [(), ()]
        cells = [exact(frame[name]) for name in frame.columns]
        found += zip(*cells, owner.to_list(), *rules[0], *rules[1], strict=True)
    return found


def kept(form: TextFormat, row: bytes) -> bool:
    """Whether a line is a row: a blank one is not, and neither is nothing."""
    text = row.decode(form.encoding, errors="backslashreplace")
    return bool(text.strip() or form.separator in text)


@pytest.mark.parametrize(("cases", "whole"), [(60, False), pytest.param(200, True, marks=pytest.mark.slow)])
def test_a_line_of_any_bytes_becomes_the_same_alone_as_in_company(tmp_path: Path, cases: int, whole: bool) -> None:
    @settings(max_examples=cases)
    @given(formats, lines, lines, st.sampled_from(BESIDE), st.sampled_from((1, 2, 9, 70)))
    def holds(keys: dict[str, Any], one: bytes, other: bytes, beside: bytes, rows: int) -> None:
        form, path = TextFormat.model_validate(keys), tmp_path / "t.csv"
        company = [other, *[beside] * rows, one, *[beside] * rows, one]
        alone = {row: read(path, form, row, whole=whole) for row in {one, other, beside}}
        assert all(len(found) == kept(form, row) for row, found in alone.items())
        assert read(path, form, *company, whole=whole) == [became for row in company for became in alone[row]]

    holds()


@contextmanager
def quotes_left_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The planted fault: private files are read with line breaks within quotes, as a common reader would."""
    with monkeypatch.context() as patch:
        patch.setattr(
            data_files,
            "read_rows",
            lambda path, form, **_: list(csv.reader(io.StringIO(path.read_text("latin-1")), delimiter=form.separator))[
                1:
            ],
        )
        yield


def test_a_reader_that_lets_quotes_run_on_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form, lines = TextFormat(separator=";"), (b'"a;1;2', b"b;2;3", b'c;3;4"')
    assert len(read(tmp_path / "t.csv", form, *lines)) == 3
    with quotes_left_open(monkeypatch):
        assert len(read(tmp_path / "t.csv", form, *lines)) < 3


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "gb18030", "utf-7", "utf-8-sig"])
def test_no_encoding_in_which_a_byte_could_take_the_next_line_is_known(encoding: Any) -> None:
    with pytest.raises(ValueError, match="encoding"):
        TextFormat.model_validate({"encoding": encoding})


@pytest.mark.parametrize("encoding", KEYS["encoding"])
def test_every_byte_of_an_encoding_stays_within_its_line(tmp_path: Path, encoding: str) -> None:
    form = TextFormat.model_validate({"encoding": encoding})
    rows = [bytes([byte]) + b",x,7" for byte in range(256) if byte not in b'\n"']
    rows += [bytes([lead, byte]) + b",x,7" for lead in (0xC3, 0xE2, 0xF0, 0xED) for byte in (0x80, 0x0D, 0x2C)]
    assert len(read(tmp_path / "t.csv", form, *rows)) == len(rows)


def test_no_rule_for_numbers_changes_whose_a_row_is(tmp_path: Path) -> None:
    """An erased `1.234` was read as `1234`, whom nobody had erased, once digits came in groups."""
    path = tmp_path / "t.csv"

    @settings(max_examples=60)
    @given(
        formats,
        st.lists(st.one_of(lines, st.from_regex(rb"[+-]?[0-9]{1,3}([.,' ][0-9]{3}){0,2}([.,][0-9]*)?")), max_size=9),
    )
    def holds(keys: dict[str, Any], ids: list[bytes]) -> None:
        form = TextFormat.model_validate(keys)
        numbers = form.model_copy(update={"decimal": ".", "thousands": ""})
        path.write_bytes(b"unit\n" + b"\n".join(ids) + b"\n")
        owners = [
            [each for _, owner in open_private(str(path), how, "unit").owned({}) for each in owner]
            for how in (form, numbers)
        ]
        assert owners[0] == owners[1]

    holds()


def test_words_of_a_number_are_the_same_word_in_all_columns(tmp_path: Path) -> None:
    form = TextFormat(separator=";", decimal=",", thousands=".")
    (tmp_path / "t.csv").write_bytes(b"c;d;unit\n1.234,5;-1,50;1.000\n")
    columns = dict.fromkeys(("c", "d"), "data.features")
    (frame, owner), *_ = open_private(str(tmp_path / "t.csv"), form, "unit").owned(columns)
    assert frame.rows() == [("1234.5", "-1.50", "1.000")]
    assert owner.to_list() == [b"1"]  # a name, and so what it is in every format
    assert form.plain("-1.234.567,5e3") == "-1234567.5e3"
    assert COMMAS.plain("1,5") == "1,5"
    assert pl.Series(["1.234,5"])[0] == "1.234,5"
