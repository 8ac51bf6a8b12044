"""The values that stages exchange: small references, and the encoding of rows.

The encoding is learned from public rows and the plan alone, so it is public itself. Each feature column has a kind and
the public statistics its cells are encoded by; `tasks.data.encode` learns it, `tasks.data.matrix` applies it.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator


class Ref(BaseModel):
    """A file under the home folder: where it lies and what it must digest to. Safe to cache: it holds no content.

    The digest is keyed (HMAC) for files of the vault and plain SHA-256 for released ones.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    digest: str


class AnyPath(Protocol):
    """The place of a file: a `pathlib.Path`, or an object that opens like one (tasks.data.places)."""

    @property
    def open(self) -> Any: ...


class PublicBatch(BaseModel):
    """A batch of the public stream: its staged file, its first row in the stream, and its number of rows."""

    model_config = ConfigDict(frozen=True)

    ref: Ref
    first: int
    rows: int


def canonical_json(value: Any) -> str:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


Kind = Literal["numeric", "boolean", "date", "categorical", "text", "list", "null"]
WORDS: tuple[Kind, ...] = ("categorical", "text")
"""Kinds of column in which any cell of text is valid."""
Element = Literal["uint8", "float32"]


class Frozen(BaseModel):
    """Public settings: frozen, finite, of Unicode text, and no key they do not know."""

    # Pydantic takes half a pair of surrogates, which no file can hold, but for text whose length it limits.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, str_min_length=0)

    def with_(self, **changes: Any) -> Self:
        """The same with other values, validated like any."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | changes)


Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class TextFormat(Frozen):
    """The format of all CSV files of a plan. It is declared, never inferred from a file."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    separator: Literal[",", ";", "\t", "|"] = ","
    """The separator of the cells of a line."""
    decimal: Literal[".", ","] = "."
    """The decimal sign of a number."""
    thousands: Literal["", ".", ",", " ", "'"] = ""
    """The separator of groups of three digits; none by default."""
    encoding: Literal["utf-8", "latin-1", "iso-8859-15", "cp1250", "cp1251", "cp1252"] = "utf-8"
    """The encoding: UTF-8, or one with one byte per character, so that a wrong byte affects only its own line."""
    missing: tuple[Word, ...] = ()
    """Further markers of missing cells, such as n.b. The usual ones always count: an empty cell, ?, -, ., NA, N/A, NaN,
    NULL and the like. Any of them may still be a class."""

    @model_validator(mode="after")
    def signs_differ(self) -> Self:
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands must be two signs, got {self.decimal!r} for both")
        return self

    @property
    def rules(self) -> tuple[tuple[str, str, str], ...]:
        """Rules (pattern, sign, replacement) that turn a written number into a plain one, applied in order: in a word
        that matches the pattern, every such sign is replaced. Any other word stays as it is."""
        groups = rf"[+-]?[0-9]{{1,3}}(?:[{self.thousands}][0-9]{{3}})+(?:[{self.decimal}][0-9]*)?{EXPONENT}"
        comma = rf"[+-]?(?:[0-9]+,[0-9]*|,[0-9]+){EXPONENT}"
        return ((groups, self.thousands, ""),) * bool(self.thousands) + ((comma, ",", "."),) * (self.decimal == ",")

    def plain(self, word: str) -> str:
        """A cell's word as it is read: a number gets a decimal point and loses its groups."""
        for pattern, sign, by in self.rules:
            word = word.replace(sign, by) if re.fullmatch(pattern, word) else word
        return word


EXPONENT = "(?:[eE][+-]?[0-9]+)?"
LABEL = "concord.label"
"""Name of the column that holds the class index in cast rows."""
NO_NAMES = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "NaT")
"""Words that name no unit. None is ever added: parts, erasures and streams know a unit by its name for the whole life
of a domain, and one whose name changed could be in both parts."""
NULL_WORDS = (
    *(*NO_NAMES, "-", ".", "#N/A", "#N/A N/A", "#NA", "<NA>", "\\N"),
    *("-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""Text of a missing cell in a text file, as R, SAS, Excel, pandas, MySQL and C write it. Columnar files have nulls of
their own."""
FEATURES_FIELD, SCHEMA_FIELD = "data.features", "data.schema"
"""The plan's fields by whose rules cells of features are read: in columns of the second, an empty cell alone is
missing."""
COMMAS = TextFormat()
"""The CSV format if none is declared."""


class Spelling(Frozen):
    """How a data dictionary says that the cells of a column are written; nothing of it is found in cells.

    absent        numbers, dates in days since 1970, or words of a missing cell, besides NULL_WORDS
    true, false   words of a truth value, in place of the usual ones
    dates         the form of dates as text besides ISO's: %Y, %m and %d once each, and perhaps %H and %M, or %S as well
    """

    absent: tuple[float | str, ...] = ()
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    dates: str = ""


USUAL_SPELLING = Spelling()
Spelled = Annotated[Spelling, Field(exclude_if=lambda spelling: spelling == USUAL_SPELLING)]
"""The spelling of a column; no key of its JSON if it is the usual one."""


class Scaled(Frozen):
    """A number, a truth value (0 or 1) or a date (days since 1970), clipped to the public range and standardised.

    With `log` it is ±ln(1 + |x|) first, and the statistics are of that. A missing cell becomes `fill`, the public
    median; where public rows had missing cells, a second column says so.
    """

    kind: Literal["numeric", "boolean", "date"]
    name: str
    log: bool = False
    mean: float
    scale: Annotated[float, Field(gt=0)]
    fill: float
    low: float
    high: float
    missing: bool
    spelling: Spelled = USUAL_SPELLING

    @property
    def width(self) -> int:
        """Columns of the matrix it takes."""
        return 1 + self.missing


class OneHot(Frozen):
    """A category: one column a word of the public vocabulary. A word outside it is a missing cell: all zeros,
    and where public rows had missing cells, a further column says so.

    hashed   whether the vocabulary names buckets, one of which any text belongs to (concord_student.bucket)
    """

    kind: Literal["categorical"] = "categorical"
    name: str
    vocabulary: tuple[str, ...]
    missing: bool
    hashed: bool = False
    spelling: Spelled = USUAL_SPELLING

    @property
    def of_numbers(self) -> bool:
        """Whether its words are numbers, or any text's, so that numbers of a table mean them (`data.categories`)."""
        return self.hashed or all(re.fullmatch(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", word) for word in self.vocabulary)

    @property
    def width(self) -> int:
        """Columns of the matrix it takes."""
        return len(self.vocabulary) + self.missing


BUCKETS = 256
"""Number of columns that words of free text are hashed to: in a small shard, more would be seen too seldom."""


class Hashed(Frozen):
    """Free text, by its words (`data.text`): one column a bucket, 1 if a word of the cell falls into it. The bucket of
    a word follows from a public rule, scikit-learn's `HashingVectorizer`; nothing is learned. Missing is zero."""

    kind: Literal["text"] = "text"
    name: str
    size: Annotated[int, Field(ge=1)] = BUCKETS
    spelling: Spelled = USUAL_SPELLING

    @property
    def width(self) -> int:
        """Columns of the matrix it takes."""
        return self.size


class Passed(Frozen):
    """A list of fixed size, such as an image: passed through flat; uint8 is divided by 255; missing is zero."""

    spelling: ClassVar[Spelling] = USUAL_SPELLING
    kind: Literal["list"] = "list"
    name: str
    element: Element
    size: Annotated[int, Field(ge=1)]

    @property
    def width(self) -> int:
        """Columns of the matrix it takes."""
        return self.size


class Empty(Frozen):
    """A column without a single public value, or of dates in words, of which other tables hold other ones: nothing can
    be learned of it, so nothing is encoded."""

    spelling: ClassVar[Spelling] = USUAL_SPELLING
    kind: Literal["null"] = "null"
    name: str

    @property
    def width(self) -> int:
        """Columns of the matrix it takes."""
        return 0


Column = Annotated[Scaled | OneHot | Hashed | Passed | Empty, Field(discriminator="kind")]


LARGEST_NUMBER = 1e100
"""Numbers beyond it count as missing: no bound of a label or a column lies there."""
Bounds = Annotated[tuple[Annotated[float, Field(strict=True)], ...], Field(min_length=2, max_length=2)]
"""The least and the largest that a number may be."""


class Encoding(Frozen):
    """The feature columns in order, the names of label, classes and privacy unit, and how CSV files are written.

    bounds   of the label if it is a number: there are no classes then
    words    columns of which a category is a usual word of a missing cell, such as None, since a schema declares it or
             public rows that are no CSV hold it: of these an empty cell alone is missing
    """

    columns: tuple[Column, ...]
    label: str
    classes: tuple[str, ...]
    bounds: Bounds | None = None
    unit: str | None = None
    format: TextFormat = COMMAS
    words: Annotated[tuple[str, ...], Field(exclude_if=lambda words: not words)] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the feature columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def asked(self) -> dict[str, str]:
        """The feature columns in order, each with the plan's field by whose rule its cells are read."""
        return {name: SCHEMA_FIELD if name in self.words else FEATURES_FIELD for name in self.features}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns of the encoded matrix, in order: age, "age missing", city=Rome, note#7, pixels[7]."""
        names = list[str]()
        for column in self.columns:
            name = column.name
            match column:
                case Scaled():
                    names += [name, f"{name} missing"][: column.width]
                case OneHot():
                    names += [*(f"{name}={word}" for word in column.vocabulary), f"{name} missing"][: column.width]
                case Hashed():
                    names += [f"{name}#{at}" for at in range(column.size)]
                case Passed():
                    names += [f"{name}[{at}]" for at in range(column.size)]
        return tuple(names)

    @property
    def width(self) -> int:
        """Columns of the encoded matrix."""
        return sum(column.width for column in self.columns)

    @property
    def digest(self) -> str:
        """SHA-256 in hex of its JSON: not keyed, because it holds public things only."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def spelled(self, change: Callable[[Spelling], Spelling]) -> Self:
        """With another spelling of the columns that are not spelled as usual."""

        columns = tuple(
            column
            if column.spelling == USUAL_SPELLING
            else column.model_copy(update={"spelling": change(column.spelling)})
            for column in self.columns
        )
        return self.model_copy(update={"columns": columns})

    @property
    def identity(self) -> str:
        """A digest that is the same on every processor: statistics of logarithms, whose last bits may differ, are
        rounded first."""
        statistics = ("mean", "scale", "fill", "low", "high")
        columns = tuple(
            column.model_copy(update={key: float(f"{getattr(column, key):.9g}") for key in statistics})
            if isinstance(column, Scaled) and column.log
            else column
            for column in self.columns
        )
        return self.model_copy(update={"columns": columns}).digest


class PublicRows(Frozen):
    """The encoding of rows, and the plan's own public rows in batches."""

    encoding: Encoding
    batches: tuple[PublicBatch, ...]


class CertificatePart(Frozen):
    """A part of the certificate: frozen, finite, and no key it does not know."""


class Budget(CertificatePart):
    """An (ε, δ) pair."""

    epsilon: float
    delta: float

    @property
    def in_words(self) -> str:
        """Both, in words."""
        return f"ε = {self.epsilon:g}, δ = {self.delta:g}"
