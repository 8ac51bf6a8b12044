"""Remarks: what the columns of a public table seem to hold, and which of them teach nothing, for a plan to say.

Assumes      the table is public
Guarantees   a remark follows from public rows alone, an even sample of them
Not covered  what columns mean, which only their owner knows: a remark is advice, and the plan decides.
             Checked by tests/tasks/data/test_typing.py
"""

import re
from collections.abc import Callable, Collection, Mapping

import polars as pl

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import NULL_WORDS, Kind
from concord.tasks.data.cells import is_padded
from concord.tasks.data.csv_files import COMMA, POINT
from concord.tasks.data.encode import VOCABULARY, systematic_sample
from concord.tasks.data.tables import Table, are_dates

MAY_NAME_ROWS = (
    "many different whole numbers; remove it if they identify rows, name it as `unit` if they identify persons"
)
MAY_BE_NAMES = "only a few different whole numbers; if they are codes, list the column in `categories`"
FREE_TEXT = "free text, left out; list it in `text` if teachers are to vote by its words"
MOSTLY_NUMBERS = (
    "mostly numbers, but parsed as text: if the other values mean that the number is missing, leave those cells empty, "
    "or list them in `format.missing` for CSV"
)
WITH_COMMAS = 'numbers with decimal commas, left out: declare `format = { decimal = "," }`, or store them as numbers'
NUMBERS_DIFFER = f"left out: {MOSTLY_NUMBERS}"
TOO_MANY = "most cells hold a rare category, left out: it would be missing; name it as `unit` if it identifies persons"
ALL_DIFFER = "nearly every cell is a different category, left out: nothing can be learned from it"
DATES = "dates as text, left out: other tables hold other dates; write them as 2026-12-31, or store them as dates"
ONE_VALUE = "one value alone, left out: nothing can be learned from it"
LEADING_ZEROS = "digits with a leading zero are categories"
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


def may_name_rows(cells: pl.Series) -> bool:
    """Whether numbers may be names of rows or people: many distinct integers, a quarter as many as rows."""
    numbers = cells.cast(pl.Float64, strict=False).drop_nulls()
    many = numbers.n_unique() > max(VOCABULARY, len(numbers) / 4)
    return many and bool((numbers == numbers.round()).all())


def of_digits(cells: pl.Series) -> bool:
    """Whether words are all digits: a zero in front of some makes them words."""
    return is_padded(cells.cast(pl.String)) and bool(cells.cast(pl.String).str.contains("^[+-]?[0-9]+$").all())


def is_free_text(cells: pl.Series) -> bool:
    """Whether the values are sentences that mostly occur once, so that a vocabulary of them is useless."""
    texts = cells.cast(pl.String).drop_nulls()
    words = texts.str.split(" ").list.len().mean()
    return len(texts) > 0 and texts.n_unique() > len(texts) / 2 and float(str(words)) >= SENTENCE


def is_mostly_rare(cells: pl.Series) -> bool:
    """Whether most cells hold a word that is too rare for a vocabulary."""
    words = cells.cast(pl.String).drop_nulls()
    return 2 * int(words.value_counts()["count"].top_k(VOCABULARY).sum()) < len(words)


def is_one_value(cells: pl.Series) -> bool:
    """Whether all cells are equal; missing cells are equal to each other."""
    if cells.dtype == pl.String:
        cells = cells.set(cells.str.strip_chars().is_in(NULL_WORDS), None)
    return cells.n_unique() == 1


def names_rows(cells: pl.Series) -> bool:
    """Whether nearly all words occur once, so that a vocabulary of them has no word of another table."""
    words = cells.cast(pl.String).drop_nulls()
    return len(words) >= LEAST_WORDS and words.n_unique() > ALL_BUT * len(words)


CODE = "^[A-Za-z]+[-.]?[0-9]|^[0-9]+[-.]?[A-Za-z]+$"
"""A word of letters and digits, as codes are: V57, 3b."""


def are_mostly_numbers(cells: pl.Series) -> bool:
    """Whether more than half of the words are measured numbers, so that stray words made the column one of text.
    Numbers that are codes do not count, such as wards, or diagnoses if others are written V57."""
    words = cells.cast(pl.String).drop_nulls()
    numbers = words.cast(pl.Float64, strict=False)
    others = words.filter(numbers.is_null())
    among_codes = may_be_names(numbers) and others.n_unique() > 1  # one word alone may be that of a missing number
    of_codes = among_codes or 2 * int(others.str.contains(CODE).sum()) >= max(1, len(others))
    return 2 * numbers.count() > len(words) and not of_codes


def have_commas(cells: pl.Series) -> bool:
    """Whether more than half of the words are numbers with a decimal comma, or with groups of digits."""
    words = cells.cast(pl.String).drop_nulls()
    commas = words.str.contains(f"^(?:{COMMA})$") & words.str.contains(",", literal=True)
    return 2 * int(commas.sum()) > len(words)


def are_differing_numbers(cells: pl.Series) -> bool:
    """Whether the words are measured numbers, apart from stray ones, that are useless as categories."""
    of_no_use = names_rows(cells) or is_mostly_rare(cells)
    return of_no_use and are_mostly_numbers(cells) and not of_digits(cells)


def check_target(option: str, label: str, words: Collection[str]) -> None:
    """Raise WrongInput, with advice, if labels are measured numbers and not classes, or one class alone."""
    if len(words) < 2:
        held = "".join(f"{word!r} alone" for word in words) or "nothing"
        raise WrongInput(f"{option} must name a column of classes, but {label!r} holds {held}: give --classes")
    numbers = sorted(float(word) for word in words if re.fullmatch(POINT, word) and "," not in word)
    whole = all(number.is_integer() for number in numbers)
    if len(numbers) == len(words) and (len(numbers) > MOST_CLASSES or (len(numbers) > 2 and not whole)):
        cut = numbers[len(numbers) // 2]
        raise WrongInput(
            f"{option} must name a column of classes, but {label!r} holds {len(numbers)} different numbers, from "
            f"{numbers[0]:g} to {numbers[-1]:g}: write a column of ranges into all tables, such as 'below {cut:g}' and "
            f"'{cut:g} or more', with cuts that are public; say what the classes are with --classes; or learn the "
            "number with --bounds"
        )


def remarks_on(table: Table, kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Remarks on columns: that numbers may be names, that words are numbers, sentences or dates or all differ, or that
    all cells are equal. If several apply, the last one counts."""
    plain = [name for name, kind in kinds.items() if kind != "list"]
    sample = systematic_sample(table.frames(plain)) if plain else pl.DataFrame()
    rules: dict[Kind, dict[str, Callable[[pl.Series], bool]]] = {
        "numeric": {MAY_BE_NAMES: may_be_names, MAY_NAME_ROWS: may_name_rows},
        "categorical": {
            MOSTLY_NUMBERS: are_mostly_numbers,
            LEADING_ZEROS: of_digits,
            TOO_MANY: is_mostly_rare,
            ALL_DIFFER: names_rows,
            NUMBERS_DIFFER: are_differing_numbers,
            FREE_TEXT: is_free_text,
            DATES: are_dates,
            WITH_COMMAS: have_commas,
        },
    }
    checks = {name: rules.get(kinds[name], {}) | {ONE_VALUE: is_one_value} for name in plain}
    return {name: remark for name in plain for remark, holds in checks[name].items() if holds(sample[name])}
