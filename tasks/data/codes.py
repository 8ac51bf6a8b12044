"""Codes: the public integers by which a tally counts a row, one for each field.

The codes are learned from public rows and the columns of the encoding. A cell's code is found by comparisons and
look-ups alone, cell by cell, so that no row changes another row's codes by one bit.

Assumes      cells are cast (tasks.data.cells): finite numbers, words of the public vocabulary, or null
Guarantees   a row has exactly one code of each field, whatever its cells are, and ranges of codes are disjoint: the
             one-hot row of codes has norm √F for every row, so no clipping is needed
Not covered  public rows that are private ones in disguise. Checked by tests/tasks/data/test_codes.py and, alone against
             in company, by tests/privacy/test_row_alone.py
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Required, Self, TypedDict, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from concord.artifacts.schemas import Column, Frozen, OneHot, Passed, Scaled
from concord.tasks.data.cells import Numbers, WordPlaces, cast_columns, distinct, numbers_of
from concord.tasks.data.encode import systematic_sample
from concord.tasks.data.joined import JoinedField, clustered, joinable, learn_joined, public_scores, unclustered
from concord.tasks.data.vectors import VectorField, learn_layer, learn_view

CodeMatrix = NDArray[np.int32]

ATOM = 0.1
"""Share of public rows above which a number gets a code of its own."""
FREQUENT = 0.01
"""Least share of public rows at which a word gets a code of its own."""


class CodeSizes(TypedDict, total=False):
    """How finely codes divide columns; a plan decides all but `fine`.

    coarse, fine   bins of a number in the first round and in later ones, which nest in them
    cells          most cells of a vector
    tails          whether the outermost fine bins are divided further, as `interval_cuts` does
    joined         most cells of all numbers together, if public rows cluster; 0 if numbers are not joined
    """

    coarse: Required[int]
    fine: int
    cells: int
    tails: bool
    joined: int


CODED = (Scaled, OneHot, Passed)
"""Columns that have codes; columns without values and free text have none."""
MOST_CODES = 2048
"""Most codes of the fine fields of all numbers and words, if few enough bins allow it: the time of decoding grows with
the third power of their number. Only the most frequent words get codes, for the same reason."""
LEAST_BINS = 2
MOST_PASSES = 128
"""Most cuts at which one pass over the cells per cut is faster than one binary search per cell."""
FINE = 32
"""Default number of fine bins of a number."""
VECTOR_CELLS = 300
"""Default number of cells of vectors."""


class NumberField(Frozen):
    """A number, truth value or date, by the interval it lies in: code start + (how many cuts are at most the number).

    The last code is that of a missing cell.
    """

    kind: Literal["numeric", "boolean", "date"]
    name: str
    start: int
    cuts: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.cuts) + 2


def codes_of_numbers(cells: pl.Series, fields: Sequence[NumberField]) -> list[CodeMatrix]:
    """The codes (rows,) of each cell in several views of a column, from one search for its interval between the cuts of
    all views."""
    numbers, cuts = numbers_of(cells, fields[0].kind), sorted({cut for field in fields for cut in field.cuts})
    if len(cuts) > MOST_PASSES:
        places = np.searchsorted(cuts, numbers, side="right")
    else:
        places = np.zeros(len(numbers), np.min_scalar_type(len(cuts) + 1))
        for cut in cuts:
            places += (numbers >= cut).view(np.uint8)
    places[np.isnan(numbers)] = len(cuts) + 1
    lowest = np.array([-np.inf, *cuts])
    return [
        np.array([*np.searchsorted(field.cuts, lowest, side="right"), field.size - 1], np.int32)[places]
        + np.int32(field.start)
        for field in fields
    ]


class WordField(Frozen):
    """A category: a code for each frequent word, one for the other words, the last for a missing cell."""

    kind: Literal["categorical"] = "categorical"
    name: str
    start: int
    words: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.words) + 2

    def of(self, cells: pl.Series) -> CodeMatrix:
        """The code (rows,) of each cell."""
        places = {word: at for at, word in enumerate(self.words)} | {None: self.size - 1}
        return self.start + np.array([places.get(word, self.size - 2) for word in cells], np.int32)


class PairField(Frozen):
    """Two columns at once, by groups of their fine codes: a cell for each group of the one and group of the other.

    both         the two fine fields
    left, right  the group of each of their codes, from 0
    """

    kind: Literal["pair"] = "pair"
    name: str
    start: int
    both: tuple[int, int]
    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of codes."""
        return (max(self.left) + 1) * (max(self.right) + 1)

    @property
    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What each code of either field, from 0, adds to `start`."""
        left, right = np.array(self.left), np.array(self.right)
        return left * (max(self.right) + 1), right


ColumnField = NumberField | WordField | VectorField
CodedField = Annotated[ColumnField | PairField | JoinedField, Field(discriminator="kind")]


class Codes(Frozen):
    """The fields of a row's codes. A number has two, a coarse view and a fine one; a category and a vector have one.
    Fields of several columns come last, all numbers together and then pairs: their codes follow from fine ones.

    fields   F of them; their ranges of codes follow one another and cover 0 … D−1
    coarse   the fields that the first round asks: one for each column
    fine     the fields of later rounds: one for each column, in the same order
    """

    fields: tuple[CodedField, ...]
    coarse: tuple[int, ...]
    fine: tuple[int, ...]

    @model_validator(mode="after")
    def ranges_are_disjoint(self) -> Self:
        """Check that ranges are disjoint: if they overlapped, the norm of a row could be F, not √F."""
        start = 0
        for field in self.fields:
            if field.start != start:
                raise ValueError(f"the codes of field {field.name!r} must start at {start}, got {field.start}")
            start += field.size
            if isinstance(field, PairField):
                sizes = [self.fields[at].size for at in field.both if at in self.fine]
                if sizes != [len(field.left), len(field.right)]:
                    raise ValueError(f"the codes of {field.name!r} must be groups of the codes of two fine fields")
            if isinstance(field, JoinedField):
                sizes = [self.fields[at].size for at in field.columns if at in self.fine]
                if sizes != [*map(len, field.levels)]:
                    raise ValueError(f"{field.name} must have a level for each code of their fine fields")
        if not all(0 <= at < len(self.fields) for at in (*self.coarse, *self.fine)):
            raise ValueError(f"coarse and fine must be fields 0 to {len(self.fields) - 1}")
        return self

    @property
    def size(self) -> int:
        """D, the number of codes."""
        return sum(field.size for field in self.fields)

    @property
    def width(self) -> int:
        """F, the codes of a row."""
        return len(self.fields)

    @property
    def pairs(self) -> dict[int, PairField]:
        """The fields of pairs of columns, by number."""
        return {at: field for at, field in enumerate(self.fields) if isinstance(field, PairField)}

    @property
    def joined(self) -> int | None:
        """The number of the field that joins all numbers; None without one."""
        return next((at for at, field in enumerate(self.fields) if isinstance(field, JoinedField)), None)

    @property
    def derived(self) -> tuple[int, ...]:
        """The fields of several columns, which come last."""
        return tuple(at for at, field in enumerate(self.fields) if isinstance(field, PairField | JoinedField))

    @property
    def weighed(self) -> tuple[int, ...]:
        """The fields for which a model has weights: the fine ones, and those of several columns."""
        return (*self.fine, *self.derived)

    @property
    def digest(self) -> str:
        """SHA-256 in hex of its JSON; not keyed, because codes are public."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def span(self, field: int) -> slice:
        """The range of codes of a field."""
        start = self.fields[field].start
        return slice(start, start + self.fields[field].size)

    def spans(self, fields: Iterable[int]) -> list[tuple[int, int]]:
        """The first code of each of these fields, and the first one beyond it."""
        return [(self.span(field).start, self.span(field).stop) for field in fields]

    def with_joined(self, scores: NDArray[np.int64], rows: CodeMatrix, numbers: Iterable[str], most: int) -> Self:
        """With a further field of all numbers together, of at most that many cells.

        scores   of public rows (rows, numbers), as `public_scores` gives them
        rows     codes (rows, F) of the same rows
        numbers  names of the columns
        """
        fine = {self.fields[at].name: at for at in self.fine}
        sizes = {fine[name]: self.fields[fine[name]].size for name in numbers}
        joined = learn_joined(scores, self.within(rows, sizes), sizes, self.size, most)
        return type(self)(fields=(*self.fields, joined), coarse=self.coarse, fine=self.fine)

    def with_pairs(self, groups: Mapping[int, tuple[int, ...]], both: Iterable[tuple[int, int]]) -> Self:
        """With a further field for each two fine fields in `both`, by the group of each of their codes, from 0."""
        fields = list(self.fields)
        for one, other in both:
            name, start = f"{fields[one].name} × {fields[other].name}", fields[-1].start + fields[-1].size
            pair = PairField(name=name, start=start, both=(one, other), left=groups[one], right=groups[other])
            fields.append(pair)
        return type(self)(fields=tuple(fields), coarse=self.coarse, fine=self.fine)

    def of(self, cells: pl.DataFrame) -> CodeMatrix:
        """The codes (rows, F) of cast rows, in Fortran's order."""
        return self._of(cells.height, distinct(cells.select(list(self._views()))), np.dtype(np.int32))

    def completed(self, codes: CodeMatrix) -> CodeMatrix:
        """Codes (rows, F) from those of single columns, which come first in `codes`."""
        if not self.derived:
            return codes
        completed = np.empty((len(codes), self.width), codes.dtype, order="F")
        single = self.width - len(self.derived)
        completed[:, :single] = codes[:, :single]
        self._derive(completed)
        return completed

    def within(self, codes: NDArray[Any], fields: Iterable[int]) -> list[NDArray[np.int64]]:
        """The codes (rows,) of rows (rows, F) in each of these fields, from 0."""
        return [codes[:, at].astype(np.int64) - self.fields[at].start for at in fields]

    def _derive(self, codes: NDArray[Any]) -> None:
        """Fill in the codes of fields of several columns."""
        for at in self.derived:
            field = self.fields[at]
            if isinstance(field, JoinedField):
                codes[:, at] = field.of(self.within(codes, field.columns))
            elif isinstance(field, PairField):
                one, other = self.within(codes, field.both)
                left, right = field.parts
                codes[:, at] = field.start + left[one] + right[other]

    def of_raw(self, raw: pl.DataFrame, columns: Sequence[Column]) -> NDArray[Any]:
        """The codes of rows that are not cast yet, in the smallest type that holds them; each word is cast only once.

        columns   columns of the encoding, by whose rules cells are cast
        """
        views = self._views()
        used = {column.name: column for column in columns if column.name in views}
        cells = distinct(raw.select(list(used)))
        plain = cast_columns(raw, [column for name, column in used.items() if isinstance(cells[name][1], slice)])
        for name, (words, places) in cells.items():
            cast = plain if name in plain.columns else cast_columns(words.to_frame(name), [used[name]])
            cells[name] = cast[name], places
        return self._of(raw.height, cells, np.min_scalar_type(self.size - 1))

    def _of(self, rows: int, cells: Mapping[str, tuple[pl.Series, WordPlaces]], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Codes from distinct cast cells and the index of each row's cell."""
        codes = np.empty((rows, self.width), dtype=dtype, order="F")
        for name, views in self._views().items():
            values, places = cells[name]
            numbers = [field for field in views.values() if isinstance(field, NumberField)]
            others = [field.of(values) for field in views.values() if not isinstance(field, NumberField)]
            coded = codes_of_numbers(values, numbers) if numbers else others
            for at, codes_of_values in zip(views, coded, strict=True):
                codes[:, at] = codes_of_values[places]
        self._derive(codes)
        return codes

    def _views(self) -> dict[str, dict[int, ColumnField]]:
        """The fields of each column, by number."""
        views = dict[str, dict[int, ColumnField]]()
        for at, field in enumerate(self.fields):
            if not isinstance(field, PairField | JoinedField):
                views.setdefault(field.name, {})[at] = field
        return views


def coarser(fine: CodedField, coarse: CodedField) -> NDArray[np.int64]:
    """The code of a column's coarse view, from 0, for each code of its fine view (codes,)."""
    if not (isinstance(fine, NumberField) and isinstance(coarse, NumberField)):
        return np.arange(fine.size)
    lowest = np.array([-np.inf, *fine.cuts])
    return np.append(np.searchsorted(coarse.cuts, lowest, side="right"), coarse.size - 1)


def coarse_bins(epsilon: float) -> int:
    """Bins of a number in the first round; fewer for small ε, because noise is large."""
    return 16 if epsilon >= 1 else 8


def learn_codes(frames: Iterable[pl.DataFrame], columns: Sequence[Column], **sizes: Unpack[CodeSizes]) -> Codes:
    """Codes of cast public rows. Wide tables get half as many bins, and so on, until codes are MOST_CODES at most.

    Raises ValueError if coarse bins do not divide the fine ones.
    """
    coarse, fine, cells = sizes["coarse"], sizes.get("fine", FINE), sizes.get("cells", VECTOR_CELLS)
    if fine % coarse:
        raise ValueError(f"coarse bins must divide the {fine} fine ones, got {coarse}")
    used = [column for column in columns if isinstance(column, CODED)]
    sample = systematic_sample(frame.select([column.name for column in used]) for frame in frames)
    while True:
        few, least, fields, views = min(coarse, fine), max(FREQUENT, 1 / (4 * fine)), list[CodedField](), []
        for column in used:
            first, values = len(fields), sample[column.name]
            start = fields[-1].start + fields[-1].size if fields else 0
            match column:
                case Passed():
                    fields.append(learn_view(column, values, start, cells))
                case OneHot():
                    counts = values.drop_nulls().value_counts(name="rows")
                    counts = counts.filter(pl.col("rows") >= least * values.len())
                    words = tuple(counts.sort("rows", values.name, descending=[True, False])[values.name])
                    fields.append(WordField(name=column.name, start=start, words=words))
                case Scaled():
                    numbers = np.unique(numbers_of(values.drop_nulls(), column.kind), return_counts=True)
                    for bins, tails in ((few, False), (fine, sizes.get("tails", False) and fine > few)):
                        cuts = interval_cuts(*numbers, values.len(), bins, tails)
                        fields.append(NumberField(kind=column.kind, name=column.name, start=start, cuts=cuts))
                        start += fields[-1].size
            views.append((first, len(fields) - 1))
        binned = sum(fields[at].size for _, at in views if not isinstance(fields[at], VectorField))
        if binned <= MOST_CODES or fine <= LEAST_BINS:
            break
        fine //= 2
    codes = Codes(fields=tuple(fields), coarse=tuple(at for at, _ in views), fine=tuple(at for _, at in views))
    most = sizes.get("joined", 0)
    if not most or not clustered(unclustered(sample, columns), len(views)):
        return codes
    together = joinable(columns)
    return codes.with_joined(public_scores(sample, together), codes.of(sample), [of.name for of in together], most)


def interval_cuts(
    values: Numbers, counts: NDArray[np.int64], rows: int, bins: int, tails: bool = False
) -> tuple[float, ...]:
    """The least number of every interval but the first, from the distinct `values` of a column, ascending, and how many
    of its `rows` have each.

    A value of more than ATOM of the rows is an interval of its own; the other values fall into `bins` quantiles, which
    atoms may cut into several intervals. Doubling `bins` only adds cuts. With `tails`, the first and the last quantile
    are halved, and their outer halves once more: numbers differ most there. For a score that is a sum of normal
    numbers, 36 intervals then err as little as 64 quantiles do.
    """
    atom = counts > ATOM * rows
    others = np.where(atom, 0, counts)
    twice_middle = 2 * np.cumsum(others) - others
    bin_of = 4 * bins * twice_middle // max(1, 2 * others.sum())  # in quarters of a bin
    divided = [1, 2, 4 * bins - 2, 4 * bins - 1] if tails else []
    bin_of = np.searchsorted(sorted({*range(4, 4 * bins, 4), *divided}), bin_of, side="right")
    group = np.where(atom, -1 - np.arange(len(values)), bin_of)
    return tuple(values[1:][group[1:] != group[:-1]].tolist())


def deepens(codes: Codes) -> bool:
    """Whether rows are pictures and nothing else, so that later rounds may ask about learned spaces."""
    first = codes.fields[0]
    return len(codes.fields) == 1 and isinstance(first, VectorField) and first.view == "gradients"


def deepened(codes: Codes, cells: pl.DataFrame, scores: NDArray[np.float64]) -> Codes:
    """Codes of the space that a network learned from scores (rows, classes) of cast public rows."""
    (field,) = codes.fields
    if not isinstance(field, VectorField):
        raise TypeError(f"a space is learned of pictures, got field {field.name!r}")
    learned = learn_layer(field, cells[field.name], scores, field.size - 1)
    return Codes(fields=(learned,), coarse=codes.coarse, fine=codes.fine)
