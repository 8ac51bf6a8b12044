"""What a published student needs and scikit-learn lacks: this file travels with it, and imports nothing of Concord.

Its types are known as `concord_student.…`, wherever the file lies; within Concord it answers to that name too.

`Cells` reads raw cells: each by itself, by fixed rules that cannot fail. It gives the very bits that Concord reads
private rows to (concord.tasks.data.cells, which takes limits, words and logarithms from here), so that a student is
asked as it was trained.
Everything after it is scikit-learn's, but for a logarithm, a regressor's scores and a chosen hypothesis as classifiers.

Not covered  moments with a time zone as words. Checked by tests/tasks/student/test_parts.py
"""

import datetime
import hashlib
import json
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

Numbers = NDArray[np.float64]

NAME = "concord_student"
LARGEST = 1e100
"""Numbers beyond it count as missing, so that squares still add up."""
DAY = 86_400_000_000
"""Microseconds."""
DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, in days since 1970."""
TICKS = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400_000, "us": DAY, "ns": 1000 * DAY}
"""How many of a unit of time a day has."""
EPOCH = datetime.datetime(1970, 1, 1)
TRUE, FALSE = (
    tuple(dict.fromkeys(form for word in words for form in (word, word.title(), word.upper())))
    for words in (("true", "t", "yes", "y", "ja", "oui", "1"), ("false", "f", "no", "n", "nein", "non", "0"))
)
TRUTH = {**dict.fromkeys(TRUE, 1.0), **dict.fromkeys(FALSE, 0.0)}
"""The usual words of truth values."""
BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" + (
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Unicode calls white space; Python's own list is longer."""
MOST_MARKS = 30
"""Most combining marks in a row that are composed, as in Unicode's stream-safe format: n of them take n² steps."""
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_GAP, _TWO = rf"[{BLANKS}]*+", r"([0-9]{1,2}+)"
MOMENT = re.compile(
    rf"([0-9]{{1,4}}+|\+[0-9]++)-{_GAP}{_TWO}-{_GAP}{_TWO}"
    rf"(?:T?{_GAP}{_TWO}:{_GAP}{_TWO}:{_GAP}{_TWO}(?:\.([0-9]+))?)?"
)
"""Year, month and day, and perhaps hour, minute, second and a fraction."""
WITHOUT_SECONDS = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2})((?:Z|[+-][0-9]{2}:?[0-9]{2})?)$"
ZONED = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-5][0-9](?:\.[0-9]{1,9})?)"
    r"(Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])$"
)
"""Moments of ISO 8601 as the standard of Table Schemas has them, for `re` and for Rust's regular expressions."""
DATE_PARTS = {"Y": "[0-9]{4}", **dict.fromkeys("mdHMS", "[0-9]{1,2}")}
"""Parts of a date that a spelling may name, as strptime does."""
BUCKET = re.compile("bucket ([1-9][0-9]{0,7}) of ([1-9][0-9]{0,7})")
"""The name of a bucket that texts are hashed to."""


class Cells(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Raw columns of a pandas or polars frame as clean ones: what is no cell of the kind is missing.

    kind   numeric, boolean (0 or 1) or date (days since 1970): float64, NaN if missing; categorical: words, None
           if missing; hashed: the same, by the name of one of `size` buckets; uint8 or float32: lists of `size`
           numbers, one column each, zeros if missing
    """

    def __init__(self, kind: str, size: int = 1) -> None:
        self.kind = kind
        self.size = size

    def fit(self, X: Any, y: Any = None) -> "Cells":  # noqa: ARG002
        """Nothing is learned."""
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit, tags.no_validation = False, True
        tags.input_tags.two_d_array = False  # a frame is given, no array
        return tags

    def transform(self, X: Any) -> NDArray[Any]:
        """Clean cells (rows, columns), or (rows, size) of lists."""
        columns = [raw(X[name]) for name in X.columns]
        if self.kind in ("uint8", "float32"):
            return np.hstack([lists(cells, self.kind, self.size) for cells in columns])
        if self.kind == "hashed":
            return np.column_stack([buckets(words(cells), self.size) for cells in columns])
        return np.column_stack([READ[self.kind](cells) for cells in columns])


def raw(column: Any) -> Any:
    """The cells of a column, an array if that changes none: of lists of numbers, (rows, size). Else a list."""
    cells, stored = column.to_numpy(), str(getattr(column.dtype, "inner", column.dtype)).lower()
    octets = stored == "uint8" and cells.ndim == 2  # as doubles if a list is missing, which hold bytes exactly
    return cells if cells.dtype.kind in "mM" or stored == cells.dtype.name or octets else column.to_list()


class Spelled(Cells):
    """As Cells, of columns whose cells a data dictionary says to be written otherwise.

    absent        numbers, dates in days since 1970, or words that stand for a missing cell
    true, false   words of a truth value
    dates         the form of dates as text besides ISO's, as strptime has it
    """

    def __init__(
        self,
        kind: str,
        size: int = 1,
        absent: Sequence[Any] = (),
        true: Sequence[str] = (),
        false: Sequence[str] = (),
        dates: str = "",
    ) -> None:
        super().__init__(kind, size)
        self.absent, self.true, self.false, self.dates = absent, true, false, dates

    def transform(self, X: Any) -> NDArray[Any]:
        """Clean cells (rows, columns)."""
        return np.column_stack([self._read(raw(X[name])) for name in X.columns])

    def _read(self, cells: Any) -> NDArray[Any]:
        absent = [value for value in self.absent if isinstance(value, float) == (self.kind in ("numeric", "date"))]
        if self.kind in ("categorical", "hashed"):
            kept = words([None if text in absent else text for text in words(cells)])
            return buckets(kept, self.size) if self.kind == "hashed" else kept
        if self.kind == "boolean":
            truth = truth_words(self.true, self.false, self.absent)
            values = (
                cell if isinstance(cell, bool | np.bool_) else truth.get(word(cell) or "", math.nan) for cell in cells
            )
            return np.fromiter(values, np.float64)
        if self.kind == "numeric":
            amounts = numbers(cells)
            return np.where(np.isin(amounts, absent), np.nan, amounts)
        if self.dates and not isinstance(cells, np.ndarray):
            cells = [in_iso(cell.strip(BLANKS), self.dates) if isinstance(cell, str) else cell for cell in cells]
        days = dates(cells)
        return np.where(np.isin(np.rint(days * DAY), np.rint(np.array(absent) * DAY)), np.nan, days)


def truth_words(true: Sequence[str], false: Sequence[str], absent: Sequence[Any]) -> dict[str, float]:
    """Truth values by their words, without those of a missing cell: those that are given, and else the usual ones."""
    usual = {word: value for word, value in TRUTH.items() if not (true if value else false)}
    values = {**usual, **dict.fromkeys(true, 1.0), **dict.fromkeys(false, 0.0)}
    return {word: value for word, value in values.items() if word not in absent}


def iso_rule(form: str) -> tuple[str, str]:
    """The pattern of a date written as `form`, and its ISO text with groups as ${1}: for `re` and for Rust."""
    parts = re.split("%([YmdHMS])", form)
    at = {part: f"${{{place}}}" for place, part in enumerate(parts[1::2], start=1)}
    pattern = "".join(f"({DATE_PARTS[part]})" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
    time = f" {at['H']}:{at['M']}:{at.get('S', '00')}" if "H" in at else ""
    return f"^{pattern}$", f"{at['Y']}-{at['m']}-{at['d']}{time}"


def in_iso(text: str, form: str) -> str:
    """A date written as `form` as ISO text; any other text as it is."""
    pattern, iso = iso_rule(form)
    parts = re.fullmatch(pattern, text)
    return re.sub(r"\$\{([0-9])\}", lambda place: parts[int(place[1])], iso) if parts else text


def numbers(cells: Any) -> Numbers:
    """Finite numbers of numbers, truth values and text that reads as a number; NaN for everything else."""
    plain = isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf" and cells.ndim == 1
    values = cells.astype(np.float64) if plain else np.array([number(cell) for cell in cells], dtype=np.float64)
    values[values == 0] = 0.0  # −0.0 is 0.0
    return np.where(np.abs(values) <= LARGEST, values, np.nan)


def number(cell: Any) -> float:
    """The number that a cell is or reads as; NaN if it does not."""
    if isinstance(cell, str):
        word = cell.strip(BLANKS)
        return float(word) if NUMBER.fullmatch(word) else math.nan
    try:
        plain = isinstance(cell, int | float | Decimal | np.number | np.bool_) and not isinstance(cell, np.timedelta64)
        return float(cell) if plain else math.nan
    except (OverflowError, ValueError):  # an integer too large for a double, or a decimal that is NaN
        return math.nan


def truths(cells: Any) -> Numbers:
    """1 and 0 of truth values, their words and the numbers 1 and 0; NaN for everything else."""
    if not isinstance(cells, np.ndarray) or cells.dtype == object:
        cells = [TRUTH.get(cell.strip(BLANKS), math.nan) if isinstance(cell, str) else cell for cell in cells]
    values = numbers(cells)
    return np.where((values == 0) | (values == 1), values, np.nan)


def dates(cells: Any) -> Numbers:
    """Days since 1970, UTC, of dates, moments and ISO text; NaN for everything else."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        moments = cells.astype("datetime64[us]").view(np.int64).astype(np.float64)
        return np.where(_written(cells), moments / DAY, np.nan)
    return np.array([date(cell) for cell in cells], dtype=np.float64)


def date(cell: Any) -> float:
    """Days since 1970 of one cell; NaN if it is no date."""
    if isinstance(cell, str):
        return _read_date(cell.strip(BLANKS))
    if not isinstance(cell, datetime.date) or cell != cell:  # NaT is a date that is not itself
        return math.nan
    if not isinstance(cell, datetime.datetime):
        return float(cell.toordinal() - EPOCH.toordinal())
    moment = cell if cell.tzinfo is None else cell.astimezone(datetime.UTC).replace(tzinfo=None)
    return float((moment - EPOCH) // datetime.timedelta(microseconds=1)) / DAY


def words(cells: Any) -> NDArray[np.object_]:
    """Text of any plain cell, None for everything else: a whole number reads the same however it is stored."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        texts = np.datetime_as_string(cells)
        written = zip(texts, _written(cells), strict=True)
        listed = [str(text).replace("T", " ") if is_written else None for text, is_written in written]
    else:
        listed = [word(cell) for cell in cells]
    result = np.empty(len(listed), dtype=object)
    result[:] = listed
    return result


def word(cell: Any) -> str | None:
    """The text of one cell."""
    if isinstance(cell, str):
        return composed(cell.strip(BLANKS))
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, np.timedelta64):  # NumPy counts it among the integers
        return None
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        return _digits(cell)
    if isinstance(cell, Decimal):
        return format(cell, "f")
    if isinstance(cell, datetime.datetime):
        return None if cell != cell or cell.tzinfo else cell.isoformat(" ", "microseconds")
    if isinstance(cell, datetime.date):
        return cell.isoformat()
    return cell.hex() if isinstance(cell, bytes) else None


def buckets(texts: NDArray[np.object_], size: int) -> NDArray[np.object_]:
    """The name of each text's bucket; None of none."""
    return np.array([None if text is None else bucket(text, size) for text in texts], dtype=object)


def bucket(text: str, size: int) -> str:
    """The name of the bucket of a text, by its SHA-256: a public rule without a key, and without a list of words. The
    name of a bucket is in that bucket, so that synthetic rows are read as they were drawn."""
    named = BUCKET.fullmatch(text)
    if named and int(named[1]) <= int(named[2]) == size:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return f"bucket {1 + int.from_bytes(digest[:8], 'big') % size} of {size}"


def composed(text: str) -> str:
    """Text in Unicode's composed form (NFC); as it is if that would take long, of many combining marks in a row."""
    if text.isascii():
        return text
    runs = (len(list(run)) for marks, run in groupby(map(unicodedata.combining, text), bool) if marks)
    return text if max(runs, default=0) > MOST_MARKS else unicodedata.normalize("NFC", text)


READ: dict[str, Callable[[Any], NDArray[Any]]] = {
    "numeric": numbers,
    "boolean": truths,
    "date": dates,
    "categorical": words,
}


def lists(cells: Any, element: str, size: int) -> NDArray[np.float32]:
    """Lists of that size (rows, size); one of another size is all zeros, and so is an element that does not fit."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf" and cells.shape[1:] == (size,):
        return _elements(cells, element).astype(np.float32)
    rows = np.zeros((len(cells), size), dtype=np.float32)
    for at, cell in enumerate(cells):
        if isinstance(cell, list | tuple | np.ndarray) and len(cell) == size:
            as_it_is = isinstance(cell, np.ndarray) and cell.dtype != object
            parts = np.asarray(cell if as_it_is else [math.nan if part is None else part for part in cell])
            if parts.dtype.kind in "biuf" and parts.ndim == 1:
                rows[at] = _elements(parts, element)
    return rows


def _elements(parts: NDArray[Any], element: str) -> NDArray[Any]:
    """Numbers as elements of lists, zero where they do not fit."""
    with np.errstate(all="ignore"):
        if element == "float32":
            single = parts.astype(np.float32)
            return np.where(np.isfinite(single), single, np.float32(0))
        whole = np.trunc(parts) + np.float32(0)  # −0.0 becomes 0.0
        return np.where((whole >= 0) & (whole <= 255), whole, np.float32(0))


def signed_log(X: Numbers) -> Numbers:
    """±ln(1 + |x|) of every number, which spreads powers of ten evenly; zero stays zero.

    Logarithms are computed one by one: vectorised ones may differ in the last bit by position.
    """
    logs = [math.log1p(number) for number in np.abs(X).ravel().tolist()]
    return np.asarray(np.copysign(np.reshape(logs, X.shape), X))


class ScoreClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A regressor of class scores as a classifier: the class of the highest score, ties to the lowest.

    Unlike class weights, scores may be negative: means of unbiased noisy votes stay unbiased.
    """

    def __init__(self, regressor: Any, classes: Sequence[str]) -> None:
        self.regressor = regressor
        self.classes = classes

    def fit(self, X: Any, scores: NDArray[Any]) -> "ScoreClassifier":
        """Learn scores (rows, classes) from features X (rows, width)."""
        joint = get_tags(self.regressor).target_tags.multi_output
        self.regressor_ = clone(self.regressor if joint else MultiOutputRegressor(self.regressor)).fit(X, scores)
        self.classes_ = np.array(self.classes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Class names (rows,)."""
        check_is_fitted(self)
        return np.asarray(self.classes_[np.argmax(self.regressor_.predict(X), axis=1)])

    def predict_proba(self, X: Any) -> Numbers:
        """Probabilities (rows, classes): of all that are not below 0 and sum to 1, the nearest to the scores."""
        check_is_fitted(self)
        scores = np.asarray(self.regressor_.predict(X), dtype=np.float64)
        ordered = -np.sort(-scores, axis=1)
        over = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, scores.shape[1] + 1)
        last = (ordered > over).sum(axis=1, keepdims=True) - 1
        return np.asarray(np.maximum(scores - np.take_along_axis(over, last, axis=1), 0))


class Chosen(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A hypothesis, as JSON text of a box, and the names of its two classes."""

    def __init__(self, hypothesis: str, classes: Sequence[str]) -> None:
        self.hypothesis = hypothesis
        self.classes = classes

    def fit(self, X: object = None, y: object = None) -> "Chosen":  # noqa: ARG002
        """Nothing is learned: the hypothesis is chosen already."""
        self.classes_ = np.array(self.classes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Class names (rows,) of encoded rows (rows, width)."""
        check_is_fitted(self)
        rows, fields = np.nan_to_num(np.asarray(X, dtype=np.float64)), json.loads(self.hypothesis)
        inside = np.ones(len(rows), dtype=bool)
        for column, least, end in zip(fields["columns"], fields["low"], fields["high"], strict=True):
            inside &= (least is None or rows[:, column] >= least) & (end is None or rows[:, column] < end)
        return np.asarray(self.classes_[np.where(inside, fields["inside"], 1 - fields["inside"])])


def _read_date(text: str) -> float:
    text = re.sub(WITHOUT_SECONDS, r"\1:00\2", text)
    if zoned := re.fullmatch(ZONED, text):
        day, time, zone = zoned.groups()
        try:
            return date(datetime.datetime.fromisoformat(f"{day}T{time[:15]}{zone}"))
        except (ValueError, OverflowError):
            return math.nan
    parts = MOMENT.fullmatch(text)
    if parts is None:
        return math.nan
    try:
        year, month, day, hour, minute, second = (int(part or 0) for part in parts.groups()[:6])
        whole = datetime.datetime(year, month, day, hour, minute, min(second, 59)) - EPOCH
    except (ValueError, OverflowError):
        return math.nan
    leap = datetime.timedelta(seconds=1 if second == 60 else 0)
    ticks = (whole + leap) // datetime.timedelta(microseconds=1) + int((parts[7] or "")[:6].ljust(6, "0"))
    return float(ticks) / DAY if second <= 60 and ticks < DAY * (DAYS[1] + 1) else math.nan


def _written(moments: NDArray[Any]) -> NDArray[np.bool_]:
    """Which moments are of the years 1 to 9999."""
    day = TICKS[np.datetime_data(moments.dtype)[0]]
    ticks = moments.view(np.int64)
    return np.asarray(~np.isnat(moments) & (ticks >= day * DAYS[0]) & (ticks < day * (DAYS[1] + 1)))


def _digits(value: Any) -> str | None:
    """The shortest digits of a float; of a whole one, those of the whole number."""
    if not np.isfinite(value):
        return None
    if float(value).is_integer() and -(2**63) <= float(value) < 2**63:
        return str(int(value))
    value = np.float32(value) if isinstance(value, np.float16) else value
    least = np.float32(1e-6) if isinstance(value, np.float32) else 1e-5
    if least <= abs(value) < 1e16:
        return str(np.format_float_positional(value, unique=True, trim="-"))
    return str(np.format_float_scientific(value, unique=True, trim="-", exp_digits=1))


for _part in (Cells, Spelled, ScoreClassifier, Chosen, signed_log):
    _part.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])
