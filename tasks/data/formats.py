"""Formats: detect how the CSV files of a public table are written and what its columns mean, for a plan to declare.

Only `concord init` and `concord predict` use it, on tables that are not private: a format detected in private rows
would be learned from them. The result fits the first lines, or is the default; it is written into the plan.
Checked by tests/tasks/data/test_formats.py.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any

import polars as pl

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import COMMAS, EXPONENT, AnyPath, Kind, TextFormat
from concord.tasks.data.cells import NULL_WORDS, is_padded, systematic_sample
from concord.tasks.data.sound import SEPARATORS
from concord.tasks.data.tables import PublicTable, find_files

SAMPLE_TEXT = 1 << 20
"""Characters examined, except for the encoding, which all bytes must fit."""
SAMPLE_ROWS = 1000
WINDOWS = re.compile(rb"[\x80-\x9f]")
"""Bytes that are letters and signs in cp1252, and control characters in Latin-1."""
COMMA = rf"[+-]?(?:[0-9]+|[0-9]{{1,3}}(?:[.' ][0-9]{{3}})+)(?:,[0-9]+)?{EXPONENT}"
POINT = rf"[+-]?(?:[0-9]+|[0-9]{{1,3}}(?:[,' ][0-9]{{3}})+)(?:\.[0-9]+)?{EXPONENT}"
GROUPED = r"[+-]?[0-9]{1,3}(?:([.,' ])[0-9]{3})+"


def find_format(paths: Sequence[AnyPath]) -> TextFormat:
    """The format of the CSV files of a public table; the usual one if there are none."""
    if not paths:
        return COMMAS
    encoding = _encoding(paths)
    with paths[0].open(encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="", errors="replace") as file:
        return _of_text(file.read(SAMPLE_TEXT), encoding)


def format_of(*tables: str | None, field: str = "--public") -> TextFormat:
    """The format detected in the first of these public tables that is CSV. Raises WrongInput."""
    for path in filter(None, tables):
        if files := [file for file in find_files(path, field) if file.format == "csv"]:
            with files[0].readable():
                return find_format([file.path for file in files])
    return COMMAS


def words_of(form: TextFormat) -> str:
    """The differences of a format from the default, in words."""
    names = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
    usual = COMMAS.model_dump()
    in_words = {
        "separator": f"cells between {names[form.separator]}",
        "decimal": "decimal commas",
        "thousands": f"digits in groups, with {form.thousands!r} between",
        "quote": f"cells within {form.quote}" if form.quote else "no quotes",
        "encoding": form.encoding,
        "quoted_line_breaks": "line breaks within quotes",
    }
    return ", ".join(words for name, words in in_words.items() if getattr(form, name) != usual[name])


def _encoding(paths: Sequence[AnyPath]) -> str:
    """UTF-8 if all bytes are valid; else cp1252 if it knows all bytes and some is a sign in it alone; else Latin-1."""
    utf8 = codecs.getincrementaldecoder("utf-8")
    found = "utf-8"
    for path in paths:
        decoder = utf8()
        with path.open("rb") as file:
            for part in iter(lambda: file.read(SAMPLE_TEXT), b""):
                if found == "utf-8" and not _decodes(decoder, part):
                    found = "latin-1"
                if found != "utf-8" and WINDOWS.search(part):
                    return "cp1252"
    return found


def _decodes(decoder: codecs.IncrementalDecoder, part: bytes) -> bool:
    try:
        decoder.decode(part)
    except UnicodeDecodeError:
        return False
    return True


def _of_text(text: str, encoding: str) -> TextFormat:
    quote = "'" if '"' not in text and re.search(r"(?m)(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|]|\r?$)", text) else '"'
    separator = max(SEPARATORS, key=lambda sign: (_share_even(_rows(text, sign, quote)), -SEPARATORS.index(sign)))
    rows = _rows(text, separator, quote)
    columns = [[cell.strip() for cell in column] for column in zip(*_even(rows[1:], len(rows[0])), strict=True)]
    decimal, thousands = _numbers([[cell for cell in column if cell not in NULL_WORDS] for column in columns])
    return TextFormat.model_validate(
        {
            "separator": separator,
            "decimal": decimal,
            "thousands": thousands,
            "quote": quote,
            "encoding": encoding,
            "quoted_line_breaks": any("\n" in cell or "\r" in cell for row in rows for cell in row),
        }
    )


def _rows(text: str, separator: str, quote: str) -> list[list[str]]:
    """The first rows, with line breaks within quotes, and without the last row if the sample cuts it."""
    csv.field_size_limit(SAMPLE_TEXT)
    dialect: dict[str, Any] = {"delimiter": separator, "quotechar": quote, "skipinitialspace": True}
    rows = list(islice(filter(None, csv.reader(io.StringIO(text, newline=""), **dialect)), SAMPLE_ROWS + 1))
    return rows[:-1] if len(text) == SAMPLE_TEXT and len(rows) > 1 else rows or [[]]


def _share_even(rows: Sequence[Sequence[str]]) -> tuple[bool, float, int]:
    """Whether there are several columns, the share of rows with as many as the first row, and that number."""
    width = len(rows[0])
    return width > 1, len(_even(rows, width)) / len(rows), width


def _even(rows: Sequence[Sequence[str]], width: int) -> list[Sequence[str]]:
    return [row for row in rows if len(row) == width]


def _numbers(columns: Sequence[Sequence[str]]) -> tuple[str, str]:
    """The decimal sign and the grouping sign; a decimal comma if more columns fit it alone than fit the point alone."""
    with_comma = [cells for cells in columns if _all(COMMA, cells) and not _all(POINT, cells)]
    with_point = [cells for cells in columns if _all(POINT, cells) and not _all(COMMA, cells)]
    decimal, pattern = (",", COMMA) if len(with_comma) > len(with_point) else (".", POINT)
    signs = [
        found[1]
        for cells in columns
        if _all(pattern, cells)
        for cell in cells
        if (found := re.match(GROUPED, cell)) and found[1] != decimal
    ]
    return decimal, max(sorted(set(signs)), key=signs.count) if signs else ""


def _all(pattern: str, cells: Sequence[str]) -> bool:
    return bool(cells) and all(re.fullmatch(pattern, cell) for cell in cells)


MAY_BE_NAMES = "few whole numbers: list it in `categories` if they name things"
FREE_TEXT = "free text, left out; list it in `text` if teachers are to vote by its words"
ALL_DIFFER = "nearly every cell is another word, left out: it teaches nothing"
ONE_VALUE = "one value alone, left out: it teaches nothing"
LEADING_ZEROS = "digits with a zero in front are words"
NAMING_NUMBERS = range(3, 61)
"""Numbers of distinct integers that suggest names."""
ALL_BUT = 0.9
"""Share of distinct words above which they name rows, as ids and moments do."""
LEAST_WORDS = 20
"""Least number of words for a remark that all differ."""
SENTENCE = 4
"""Least average number of words in a cell of free text."""
MOST_CLASSES = 20
"""Most distinct numbers of a label that are taken for names of classes."""


def may_be_names(cells: pl.Series) -> bool:
    """Whether numbers may be names, such as of wards: few distinct integers, each several times."""
    numbers = cells.cast(pl.Float64, strict=False).drop_nulls()
    distinct = numbers.n_unique()
    return distinct in NAMING_NUMBERS and len(numbers) >= 3 * distinct and bool((numbers == numbers.round()).all())


def of_digits(cells: pl.Series) -> bool:
    """Whether words are all digits: a zero in front of some makes them words."""
    return is_padded(cells.cast(pl.String)) and bool(cells.cast(pl.String).str.contains("^[+-]?[0-9]+$").all())


def is_free_text(cells: pl.Series) -> bool:
    """Whether words are sentences, most of which occur once, so that a vocabulary of them is useless."""
    texts = cells.cast(pl.String).drop_nulls()
    words = texts.str.split(" ").list.len().mean()
    return len(texts) > 0 and texts.n_unique() > len(texts) / 2 and float(str(words)) >= SENTENCE


def names_rows(cells: pl.Series) -> bool:
    """Whether nearly all words occur once, so that a vocabulary of them has no word of another table."""
    words = cells.cast(pl.String).drop_nulls()
    return len(words) >= LEAST_WORDS and words.n_unique() > ALL_BUT * len(words)


def check_target(option: str, label: str, words: Collection[str]) -> None:
    """Raise WrongInput, with advice, if labels are measured numbers and not classes."""
    numbers = sorted(float(word) for word in words if re.fullmatch(POINT, word) and "," not in word)
    whole = all(number.is_integer() for number in numbers)
    if len(numbers) == len(words) and (len(numbers) > MOST_CLASSES or (len(numbers) > 2 and not whole)):
        cut = numbers[len(numbers) // 2]
        raise WrongInput(
            f"{option} must name a column of classes, but {label!r} holds {len(numbers)} different numbers, from "
            f"{numbers[0]:g} to {numbers[-1]:g}: write a column of ranges into all tables, such as 'below {cut:g}' and "
            f"'{cut:g} or more', with cuts that are public; or say what the classes are with --classes"
        )


def remarks_on(table: PublicTable, kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Remarks on columns: that numbers may be names, that digits are words, that words are sentences or all differ, or
    that all cells are equal. If several apply, the last one counts."""
    plain = [name for name, kind in kinds.items() if kind != "list"]
    sample = systematic_sample(table.frames(plain)) if plain else pl.DataFrame()
    rules: dict[Kind, dict[str, Callable[[pl.Series], bool]]] = {
        "numeric": {MAY_BE_NAMES: may_be_names},
        "categorical": {LEADING_ZEROS: of_digits, ALL_DIFFER: names_rows, FREE_TEXT: is_free_text},
    }
    checks = {name: rules.get(kinds[name], {}) | {ONE_VALUE: _is_one_value} for name in plain}
    found = [(name, rule, holds(sample[name])) for name in plain for rule, holds in checks[name].items()]
    return {name: rule for name, rule, fits in found if fits}


def _is_one_value(cells: pl.Series) -> bool:
    """Whether all cells are equal; missing cells are equal to each other."""
    if cells.dtype == pl.String:
        cells = cells.set(cells.str.strip_chars().is_in(NULL_WORDS), None)
    return len(cells) > 1 and cells.n_unique() == 1
