"""CSV files: their lines and cells, read so that no cell affects another cell or the exit status; and how the files of
a public table are written, for a plan to declare.

Lines. The first line has the names of the columns and is public, as is its ending. If that is a lone carriage return,
every line break of the file ends a line, as in old programs' files; if not, only a line feed does, and a lone carriage
return is a blank within its cell. A line longer than LONGEST_LINE is cut there, also the first one. Blanks around cells
are ignored, within quotes and outside. Bytes that are no character are escaped. The separator is the one that the plan
declares (TextFormat) and depends on nothing in a file. A quote (") ends with its line: otherwise one that a private row
leaves open would swallow the next row. Tables whose cells hold line breaks are written as Parquet.
Checked by tests/tasks/data/test_csv_files.py and tests/privacy/test_row_alone.py.

Formats. Only `concord init`, `predict` and `verify --table` detect one, in tables that are not private: a format
detected in private rows would be learned from them. The result fits the first lines, or is the default; it is written
into the plan. Of a private table the first line alone is public: it decides the separator (`by_first_line`), and all
else is given. Checked by tests/tasks/data/test_formats.py.
"""

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, product
from typing import Any, TextIO, get_args

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import COMMAS, EXPONENT, NULL_WORDS, AnyPath, TextFormat
from concord.tasks.units.identifiers import ESCAPED

SEPARATORS: tuple[str, ...] = get_args(TextFormat.model_fields["separator"].annotation)
LONGEST_LINE = 1 << 20
"""Most characters of a line; a byte that is not UTF-8 is escaped by four."""
SAMPLE_TEXT = 1 << 20
"""Characters examined, except for the encoding, which all bytes must fit."""
SAMPLE_ROWS = 1000
MOST_ROWS = 1 << 18
"""Most rows that are searched for SAMPLE_ROWS cells of each column that are not missing, to detect how numbers are
written."""
GZIP = b"\x1f\x8b"
UTF_16 = "it is UTF-16, and CSV must have one byte a character or be UTF-8: save it as UTF-8"
SEPARATOR_LINE = re.compile(rb"(?:\xef\xbb\xbf)?\"?sep=.\"?")
"""The first line by which Excel knows a separator."""
WINDOWS = re.compile(rb"[\x80-\x9f]")
"""Bytes that are letters and signs in cp1252, and control characters in Latin-1."""
COMMA = rf"[+-]?(?:[0-9]+|[0-9]{{1,3}}(?:[.' ][0-9]{{3}})+)(?:,[0-9]+)?{EXPONENT}"
POINT = rf"[+-]?(?:[0-9]+|[0-9]{{1,3}}(?:[,' ][0-9]{{3}})+)(?:\.[0-9]+)?{EXPONENT}"
GROUPED = r"[+-]?[0-9]{1,3}(?:([.,' ])[0-9]{3})+"


def csv_names(path: AnyPath, form: TextFormat = COMMAS) -> list[str]:
    """Column names of a CSV file: the cells of its first line without blanks around them."""
    with _opened(path, form, newline="") as file:
        return [name.strip() for name in split_line(file.readline(LONGEST_LINE), form)]


def read_rows(path: AnyPath, form: TextFormat = COMMAS, *, strict: bool = False) -> Iterator[list[str]]:
    """The cells of every line after the first that is not blank, one row per line. Raises UnicodeDecodeError only if
    `strict`, for a public file."""
    with _opened(path, form, newline="") as file:
        lone = file.readline(LONGEST_LINE).endswith("\r")
    with _opened(path, form, newline="" if lone else "\n", errors="strict" if strict else ESCAPED) as file:
        ends, named = "\r\n" if lone else "\n", False
        while line := file.readline(LONGEST_LINE):
            rest = line
            while rest and rest[-1] not in ends:  # the rest of a line that was cut
                rest = file.readline(LONGEST_LINE)
            if named and (line.strip() or form.separator in line):
                yield split_line(line, form)
            named = True


def split_line(line: str, form: TextFormat = COMMAS) -> list[str]:
    """The cells of one line. No content can fail or affect another line; an unreadable line has no cells."""
    csv.field_size_limit(LONGEST_LINE)  # the limit is global, and a library may have changed it
    try:
        return next(_reader([line.rstrip("\r\n").replace("\r", " ")], form.separator), [])
    except csv.Error:
        return []


def _reader(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    return csv.reader(lines, delimiter=separator, skipinitialspace=True)


def first_line(path: AnyPath) -> bytes:
    """The first line of a CSV file, which has the names of its columns: nothing further is read."""
    with _unpacked(path) as file:
        return bytes(re.split(rb"[\r\n]", file.readline(LONGEST_LINE), maxsplit=1)[0])


def by_first_line(path: AnyPath) -> TextFormat:
    """The usual format, with the separator by which the first line has most names."""
    line = first_line(path).decode(errors=ESCAPED)
    forms = [COMMAS.model_copy(update={"separator": sign}) for sign in SEPARATORS]
    return max(forms, key=lambda form: len(split_line(line, form)))


def declare_to_find(name: str, path: AnyPath, form: TextFormat) -> str:
    """The end of a message about a column missing from a CSV file: what its first line says of how it is written."""
    line = first_line(path)
    if b"\0" in line:
        return f"; {UTF_16}"
    if SEPARATOR_LINE.fullmatch(line):
        return "; its first line is 'sep=', which Excel writes and reads: remove that line"
    if f"'{name}'" in csv_names(path, by_first_line(path)):
        return "; its cells are quoted by ', and a cell is quoted by \" alone: write it so, or as Parquet"
    for separator, encoding in product(SEPARATORS, ("utf-8", "cp1252")):
        if name in csv_names(path, form.model_copy(update={"separator": separator, "encoding": encoding})):
            keys = {"separator": separator, "encoding": encoding}
            other = {key: sign for key, sign in keys.items() if getattr(form, key) != sign}
            declared = ", ".join(f"{key} = {json.dumps(sign)}" for key, sign in other.items())
            option = " ".join(f"{key}={sign}" for key, sign in other.items()).replace("\t", "tab")
            cut = f"the file is separated by {separator!r}: " if "separator" in other else ""
            return f"; {cut}declare data.format = {{ {declared} }}, or repeat with --format '{option}'" if other else ""
    return f"; its cells are cut at {form.separator!r}, as data.format says"


@contextmanager
def _opened(path: AnyPath, form: TextFormat, newline: str, errors: str = ESCAPED) -> Iterator[TextIO]:
    encoding = "utf-8-sig" if form.encoding == "utf-8" else form.encoding
    with _unpacked(path) as file, io.TextIOWrapper(file, encoding, errors, newline) as text:
        yield text


@contextmanager
def _unpacked(path: AnyPath) -> Iterator[Any]:
    """The bytes of a CSV file, unpacked if they are gzip's, as which no text begins."""
    with path.open("rb") as file:
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        yield gzip.GzipFile(fileobj=file) if packed else file


def find_format(paths: Sequence[AnyPath]) -> TextFormat:
    """The format of the CSV files of a public table; the usual one if there are none."""
    if not paths:
        return COMMAS
    form = TextFormat.model_validate({"encoding": _encoding(paths)})
    with _opened(paths[0], form, newline="") as file:
        text = file.read(SAMPLE_TEXT)
    csv.field_size_limit(SAMPLE_TEXT)
    evenness = dict[str, tuple[bool, float, int]]()
    for sign in SEPARATORS:
        rows = list(islice(filter(None, _reader(io.StringIO(text, newline=""), sign)), SAMPLE_ROWS + 1)) or [[]]
        if len(text) == SAMPLE_TEXT and len(rows) > 1:
            del rows[-1]  # the end of the sample may cut it
        width = len(rows[0])
        evenness[sign] = width > 1, sum(len(row) == width for row in rows) / len(rows), width
    form = form.model_copy(update={"separator": max(SEPARATORS, key=evenness.__getitem__)})
    decimal, thousands = _number_signs(paths[0], form)
    return form.model_copy(update={"decimal": decimal, "thousands": thousands})


def words_of(form: TextFormat) -> str:
    """The differences of a format from the default, in words."""
    names = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
    in_words = {
        "separator": f"cells between {names[form.separator]}",
        "decimal": "decimal commas",
        "thousands": f"digits in groups, with {form.thousands!r} between",
        "encoding": form.encoding,
        "missing": f"{', '.join(form.missing)} for a missing cell",
    }
    return ", ".join(words for name, words in in_words.items() if getattr(form, name) != getattr(COMMAS, name))


def _encoding(paths: Sequence[AnyPath]) -> str:
    """UTF-8 if all bytes are valid; else cp1252 if it knows all bytes and some is a sign in it alone; else Latin-1.

    Raises WrongInput for UTF-16.
    """
    utf8 = codecs.getincrementaldecoder("utf-8")
    encoding = "utf-8"
    for path in paths:
        decoder = utf8()
        with _unpacked(path) as file:
            for part in iter(lambda: file.read(SAMPLE_TEXT), b""):
                if part.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise WrongInput(f"a CSV file cannot be read: {UTF_16}")
                if encoding == "utf-8":
                    try:
                        decoder.decode(part)
                    except UnicodeDecodeError:
                        encoding = "latin-1"
                if encoding != "utf-8" and WINDOWS.search(part):
                    return "cp1252"
    return encoding


def _number_signs(path: AnyPath, form: TextFormat) -> tuple[str, str]:
    """The decimal and the grouping sign: a comma and a point if these fit more columns better than a point and a comma.
    Only columns of numbers count: those most of whose first cells, missing ones aside, are numbers."""
    columns: list[list[str]] = [[] for _ in csv_names(path, form)]
    for row in islice(read_rows(path, form), MOST_ROWS):
        for cells, cell in zip(columns, row, strict=False) if len(row) == len(columns) else ():
            if len(cells) < SAMPLE_ROWS and (word := cell.strip()) not in NULL_WORDS:
                cells.append(word)
        if all(len(cells) == SAMPLE_ROWS for cells in columns):
            break
    shares = [(_share(COMMA, cells), _share(POINT, cells)) for cells in columns]
    with_comma, with_point = (sum(share[side] > max(1 / 2, share[1 - side]) for share in shares) for side in (0, 1))
    decimal, pattern, side = (",", COMMA, 0) if with_comma > with_point else (".", POINT, 1)
    signs = [
        grouped[1]
        for cells, share in zip(columns, shares, strict=True)
        if share[side] > 1 / 2
        for cell in cells
        if re.fullmatch(pattern, cell) and (grouped := re.match(GROUPED, cell)) and grouped[1] != decimal
    ]
    return decimal, max(sorted(set(signs)), key=signs.count) if signs else ""


def _share(pattern: str, cells: Sequence[str]) -> float:
    return sum(re.fullmatch(pattern, cell) is not None for cell in cells) / max(1, len(cells))
