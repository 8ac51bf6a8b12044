"""Identifiers: one text, the name, for every label and every unit, however it is written.

Ids are text, whole numbers or UUIDs, one type in all files (`tables.check_names`). A cell's name follows from that cell
alone: 7, '007', '7.00', 7e0 and the bytes '7' have one. Merging two units is safe: they count as one, in one shard.
Splitting one is not: parts of units, erasures and arrivals know a unit by its name for the whole life of a domain, so
that two spellings of one name can never become two units.

    a number      its digits, without an exponent, a plus, a needless zero or a sign of zero: 7.5, -3, 1000. If more
                  than LONGEST_NAME zeros would have to be written, they are an exponent: 1e500
    a truth value true or false
    a moment      2020-01-02 or 2020-01-02 03:04:05.5, in UTC; without a zone, it is taken for UTC
    other text    its characters composed (NFC), blanks at its ends and zero bytes at its end cut off. Case counts, and
                  so do spellings that are merely alike, such as wide digits
    bytes         the text that they are in UTF-8, byte for byte escaped if they are not

Text is named by its reading, bytes by their text. A cell that is an object of Python is a word first (`word_of`).

Guarantees   equal labels have equal names in all types, and equal ids in all that `check_names` lets pass together; no
             cell can make it fail
Not covered  spellings that need a rule of their own to be read, such as 2.1.2020, 1,000, 20200102, 2020-01-02T03 or
             2020-01-01 24:00:00; numbers with an exponent of more than nine digits; text that is its own name, and is
             not composed, because it has more than LONGEST_TEXT characters or MOST_MARKS combining marks in a row
             Checked by tests/tasks/units/test_identifiers.py
"""

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl

from concord.tasks.data.concord_student import composed

ESCAPED = "backslashreplace"
"""Error handler for bytes that are not UTF-8: it keeps different bytes different."""

TRUTHS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
WHOLE = 2**53
"""Largest integer up to which a double holds every integer exactly."""
EXACT = 15
"""Largest number of digits such that a double holds every integer of that many digits."""

LONGEST_NAME = 400
"""Most zeros of a number that is written out: doubles and decimals need no more."""

LONGEST_INTEGER = 4096
"""Most bits of an integer; Python writes none of more than 4,300 digits."""
LONGEST_TEXT = 4096
"""Most characters of text that is parsed or composed, so that no cell takes long."""

# Every repetition is possessive (*+) and never retried with less, so a match takes time linear in the text.
NUMBER_NAME = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*+)\.?+([0-9]*+)(?:[eE]([+-]?)(?=[0-9])0*+([0-9]{0,9}))?")
MOMENT_NAME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ Tt]((?:[01][0-9]|2[0-3]):[0-9]{2})(?::([0-9]{2})(?:\.([0-9]++))?)?"
    r"(?: ?(?:([Zz]|UTC)|([+-][0-9]{2}):?([0-9]{2})?))?)?"
)
ODD = (
    r"[^\x00-\x7F]|^[+-]?\.?[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?$|^[0-9]{4}-[0-9]{2}-[0-9]{2}[ Tt]|"
    rf"^(?:{'|'.join(TRUTHS)})$"
)
"""Pattern of text that may differ from its name."""
PLAIN = rf"^(?:[A-EG-SU-Za-z_][!-~]*|0|[1-9][0-9]{{0,{EXACT - 1}}})$"
"""Pattern of text that is its own name, as most is: visible ASCII that is no number, date or truth value, or an integer
that every type keeps."""

BLANK_LETTERS = "".join(char for char in map(chr, range(0x3001)) if char.isspace())


def names_as_text(words: pl.Series) -> pl.Series:
    """The names of ids given as text. Only unusual ones are processed one by one."""
    others = ~words.str.contains(PLAIN)
    if not others.any():
        return words
    return words.clone().scatter(others.arg_true(), _named(words.filter(others)))


def _named(words: pl.Series) -> pl.Series:
    words = words.str.strip_chars_end("\0" + BLANK_LETTERS).str.strip_chars_start(BLANK_LETTERS)
    words = words.str.replace(r"^\+?(-?)0*([0-9]+)(?:\.0*)?$", "$1$2")  # most unusual ids have needless zeros
    whole = rf"^(?:0|-?[1-9][0-9]{{0,{LONGEST_NAME - 1}}})$"
    odd = words.filter(words.str.contains(ODD) & ~words.str.contains(whole)).unique()
    return words.replace(odd, pl.Series([name_of(word) for word in odd], dtype=pl.String))


def name_of(word: str) -> str:
    """The name of an id given as text without blanks around it."""
    if len(word) > LONGEST_TEXT:
        return word
    if number := NUMBER_NAME.fullmatch(word):
        return _number(number)
    if moment := MOMENT_NAME.fullmatch(word):
        return _moment(moment)
    return TRUTHS.get(word) or composed(word)


def decoded(cells: pl.Series) -> pl.Series:
    """Bytes as text."""
    return pl.Series([None if cell is None else cell.decode(errors=ESCAPED) for cell in cells], dtype=pl.String)


def word_of(cell: Any) -> str | None:
    """A cell as a word, or None. A whole number gives the same word as integer and as decimal.

    Conversions are those of Python's own types: a derived type could convert itself otherwise. One that fails is a
    missing cell to `column_of` and `frame_table`.
    """
    if isinstance(cell, np.generic):
        cell = str(cell) if isinstance(cell, np.datetime64) else cell.item()  # nanoseconds have no type of Python
    if cell is None or type(cell).__name__ == "NaTType":  # pandas' missing moment is a moment
        return None
    if isinstance(cell, str):
        return str.encode(cell, errors=ESCAPED).decode()  # half a character is no text
    if isinstance(cell, bytes | bytearray | memoryview):
        return bytes(cell).decode(errors=ESCAPED)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return (
            None
            if not math.isfinite(cell)
            else str(int(cell))
            if abs(cell) < WHOLE and cell == int(cell)
            else float.__repr__(cell)
        )
    if isinstance(cell, datetime):
        try:
            return (cell if cell.tzinfo is None else cell.astimezone(UTC).replace(tzinfo=None)).isoformat(sep=" ")
        except (ValueError, OverflowError):
            return None  # in UTC it is beyond the calendar
    if isinstance(cell, int):
        return int.__repr__(cell) if cell.bit_length() <= LONGEST_INTEGER else None
    if isinstance(cell, date | UUID):
        return date.isoformat(cell) if isinstance(cell, date) else UUID.__str__(cell)
    return Decimal.__str__(cell) if isinstance(cell, Decimal) and not cell.is_nan() else None


def _number(number: re.Match[str]) -> str:
    sign, whole, part, down, power = number.groups(default="")
    written = (whole + part).lstrip("0")
    digits = written.rstrip("0")
    if not digits:
        return "0"
    point = int(f"{down}{power or 0}") - len(part) + len(written) - len(digits)
    if abs(point) > LONGEST_NAME:
        text = f"{digits}e{point}"
    elif point >= 0:
        text = digits + "0" * point
    else:
        digits = digits.rjust(1 - point, "0")
        text = f"{digits[:point]}.{digits[point:]}"
    return f"-{text}" if sign == "-" else text


def _moment(parts: re.Match[str]) -> str:
    day, minute, second, part, utc, hours, minutes = parts.groups(default="")
    zone = f"{hours}:{minutes or '00'}" if hours else ""
    if utc:
        zone = "+00:00"
    try:
        moment = datetime.fromisoformat(f"{day}T{minute or '00:00'}:{second or '00'}{zone}")
        at = moment.astimezone(UTC) if zone else moment
    except (ValueError, OverflowError):
        return parts.string  # no such moment
    time, part = at.strftime("%H:%M:%S"), part.rstrip("0")
    day = at.date().isoformat()
    return day if time == "00:00:00" and not part else f"{day} {time}" + (f".{part}" if part else "")
