"""The tables that the benchmark of the field is run on: private rows, public rows, rows to evaluate on.

Data sets are those of `make data`; the synthetic families are drawn from fixed seeds. Rows have ten normal columns and
five of words, and their class follows a logit that is linear in them, but where a family says otherwise.

A case whose name ends in `-schema` has no public row: a Table Schema declares ranges and categories in their place.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tests.benchmarks import packaged
from tests.benchmarks.prepare import adult, kdd99, mnist

Floats = NDArray[np.float64]
KINDS = {
    "dos": ("back", "land", "neptune", "pod", "smurf", "teardrop"),
    "probe": ("ipsweep", "nmap", "portsweep", "satan"),
    "u2r": ("buffer_overflow", "loadmodule", "perl", "rootkit"),
    "normal": ("normal",),
}
SHIFTS = {
    "women": pl.col("sex") == "Female",
    "over-40": pl.col("age") > 40,
    "no-college": pl.col("education-num") <= 9,
    "part-time": pl.col("hours-per-week") < 40,
}
PUBLIC, TEST = 10_000, 20_000
"""Rows of a synthetic family besides the private ones."""
FEW = (500, 2_000, 8_000)
ONE_UNIT = ("penbased", "satimage", "optdigits")
"""Tables whose features are numbers of one unit, such as penbased-vector, where they are one list."""
SMALLER = ("adult", *packaged.TABLES)
"""Tables of which FEW private rows are a case of their own, such as adult-500; the other rows are the same."""
DECLARED = "-schema"
"""What ends the name of a case without public rows."""
HASHED = "-hashed-schema"
"""What ends the name of one whose schema lists no categories: texts are hashed."""
NAMES = 5_000
"""Words of the column of names, as frequent as words of a language."""


@dataclass(frozen=True)
class Case:
    """Private rows with labels, public rows, rows to evaluate on, and what is promised.

    known    the public rows with their labels, which only a model of public labels learns from
    schema   a Table Schema in place of public rows, of which there are none then
    """

    private: pl.DataFrame
    known: pl.DataFrame
    test: pl.DataFrame
    label: str
    classes: tuple[str, ...]
    delta: float = 1e-5
    schema: Mapping[str, Any] | None = None

    @property
    def public(self) -> pl.DataFrame:
        """What is known of public rows: all but their labels."""
        return self.known.drop(self.label)


def cases(folder: Path) -> dict[str, Callable[[], Case]]:
    """Every case by name, made when it is asked for."""
    shifted = {f"adult-{name}": partial(_adult, folder, kept) for name, kept in SHIFTS.items()}
    found: dict[str, Callable[[], Case]] = {
        "adult": partial(_adult, folder, pl.lit(True)),
        **shifted,
        "kdd99": partial(_kdd99, folder),
        "kdd99-unique": partial(_kdd99, folder, unique=True),
        "kdd99-kinds": partial(_kinds, folder),
        "mnist": partial(_mnist, folder),
        "rare": rare,
        "realizable": partial(family, 30_000),
        "agnostic": partial(family, 30_000, flipped=0.2),
        "agnostic-2k": partial(family, 2_000, flipped=0.2),
        "agnostic-1m": partial(family, 1_000_000, flipped=0.2),
        "classes-10": partial(family, 30_000, classes=10),
        "shifted": partial(family, 30_000, flipped=0.1, shifted=True),
        **{f"xor-{columns}": partial(xor, columns) for columns in (2, 3)},
        "names": names,
    }
    found |= {name: partial(_packaged, name) for name in packaged.TABLES}
    found |= {f"{name}-vector": partial(_vector, found[name]) for name in ONE_UNIT}
    found |= {f"{name}-{rows}": partial(_few, found[name], rows) for name in SMALLER for rows in FEW}
    hashed = {f"{name}{HASHED}": partial(_declared, found[name], hashed=True) for name in ("adult", "names")}
    return found | hashed | {f"{name}{DECLARED}": partial(_declared, whole) for name, whole in found.items()}


def _adult(folder: Path, kept: pl.Expr) -> Case:
    tables = adult(folder)
    known = tables["public"].with_columns(tables["truth"]["income"]).filter(kept)
    return Case(tables["private"], known, tables["test"], "income", ("<=50K", ">50K"))


def _kdd99(folder: Path, *, unique: bool = False) -> Case:
    tables = dict(kdd99(folder))
    known = tables["public"].with_columns(tables["truth"]["labels"])
    if unique:
        tables = {name: tables[name].unique(maintain_order=True) for name in ("private", "test")}
        known = known.unique(maintain_order=True)
    return Case(tables["private"], known, tables["test"], "labels", ("normal", "attack"), 1e-6)


def _kinds(folder: Path) -> Case:
    """Attacks by kind: half the rows private, few public ones; r2l and u2r are rare."""
    kind = {f"{word}.": name for name, words in KINDS.items() for word in words}
    rows = pl.read_parquet(folder / "kddcup99_10pct.parquet").unique(maintain_order=True)
    rows = rows.with_columns(pl.col("labels").replace_strict(kind, default="r2l"))
    rows = rows[np.random.default_rng(0).permutation(rows.height)]
    classes = ("normal", "dos", "probe", "r2l", "u2r")
    return Case(rows[45_000:], rows[:15_000], rows[15_000:45_000], "labels", classes, 1e-6)


def _mnist(folder: Path) -> Case:
    tables = {name: rows.with_columns(pl.col("^label$").cast(pl.String)) for name, rows in mnist(folder).items()}
    known = tables["public"].with_columns(tables["truth"]["label"])
    return Case(tables["private"], known, tables["test"], "label", tuple("0123456789"))


def _packaged(name: str) -> Case:
    private, known, test = packaged.parted(name)
    return Case(private, known, test, packaged.LABEL, tuple(sorted(private[packaged.LABEL].unique())))


def _vector(whole: Callable[[], Case]) -> Case:
    """The case with all features as one list."""
    case = whole()
    listed = pl.concat_arr(pl.exclude(case.label).cast(pl.Float32)).alias("numbers")
    parts = {name: getattr(case, name).select(listed, case.label) for name in ("private", "known", "test")}
    return replace(case, **parts)


def _few(whole: Callable[[], Case], rows: int) -> Case:
    case = whole()
    if case.private.height <= rows:
        raise ValueError(f"the case has {case.private.height} private rows, not more than {rows}")
    return replace(case, private=case.private.sample(rows, seed=1))


def _declared(whole: Callable[[], Case], *, hashed: bool = False) -> Case:
    """The case without its public rows: their place is taken by what a good dictionary of the table would declare, or
    one that lists no categories."""
    case = whole()
    rows = pl.concat([part.select(case.private.columns) for part in (case.private, case.known, case.test)])
    schema = schema_of_rows(rows.drop(case.label))
    if hashed:
        for field in schema["fields"]:
            field["constraints"].pop("enum", None)
    return replace(case, known=case.known.clear(), schema=schema)


def schema_of_rows(rows: pl.DataFrame) -> dict[str, Any]:
    """A Table Schema that fits these rows: only a benchmark may make one so."""
    return {"fields": [_field(rows[name]) for name in rows.columns]}


def _field(cells: pl.Series) -> dict[str, Any]:
    """The categories of all rows; or their range, rounded outwards to two digits."""
    if not cells.dtype.is_numeric():
        words = sorted(set(cells.cast(pl.String).drop_nulls()) - {"?"})
        return {"name": cells.name, "type": "string", "constraints": {"enum": words}}
    numbers = cells.drop_nulls().to_numpy().astype(np.float64)
    whole = bool((numbers == np.rint(numbers)).all())
    low, high = -_rounded_up(-numbers.min()), _rounded_up(numbers.max())
    if low == high:
        high = low + 1
    constraints = {"minimum": int(low) if whole else low, "maximum": int(high) if whole else high}
    return {"name": cells.name, "type": "integer" if whole else "number", "constraints": constraints}


def _rounded_up(value: float) -> float:
    """To two significant digits."""
    digit = 10.0 ** (math.floor(math.log10(abs(value))) - 1) if value else 1.0
    return float(f"{math.ceil(value / digit - 1e-9) * digit:.12g}")


def xor(columns: int, rows: int = 30_000) -> Case:
    """The class is whether an odd number of the first columns, of ten, lie above their middle: no single column tells
    anything of it."""
    numbers = np.random.default_rng(13).normal(size=(rows + PUBLIC + TEST, 10))
    odd = (numbers[:, :columns] > 0).sum(axis=1) % 2 == 1
    table = {f"n{at}": column for at, column in enumerate(numbers.T)} | {"y": np.where(odd, "odd", "even")}
    return _parted(pl.DataFrame(table), rows, ("even", "odd"))


def rare(rows: int = 50_000) -> Case:
    """About 2 % positive, by a logit that is linear but for one product."""
    draw = np.random.default_rng(7)
    total = rows + PUBLIC + TEST
    numbers, words = draw.normal(size=(total, 10)), draw.integers(0, 4, (total, 5))
    slopes, levels = draw.normal(size=10) * 0.5, draw.normal(size=(5, 4)) * 0.5
    logit = numbers @ slopes + levels[np.arange(5), words].sum(axis=1) + 0.5 * numbers[:, 0] * numbers[:, 1]
    positive = draw.random(total) < 1 / (1 + np.exp(5.3 - logit))
    return _parted(_table(numbers, words, np.where(positive, "yes", "no")), rows, ("no", "yes"))


def family(rows: int, *, classes: int = 2, flipped: float = 0.0, shifted: bool = False) -> Case:
    """Rows of a linear rule, of which a share has another label, drawn evenly.

    flipped   0: realizable; else agnostic
    shifted   public rows are those alone whose first number is above its mean
    """
    draw = np.random.default_rng(11)
    total = rows + (2 * PUBLIC if shifted else PUBLIC) + TEST
    numbers, words = draw.normal(size=(total, 10)), draw.integers(0, 4, (total, 5))
    slopes, levels = draw.normal(size=(10, classes)), draw.normal(size=(5, 4, classes))
    scores = numbers @ slopes + levels[np.arange(5), words].sum(axis=1)
    best = np.argmax(scores, axis=1)
    moved = draw.random(total) < flipped
    label = np.where(moved, (best + draw.integers(1, classes, total)) % classes, best)
    names = np.array([f"c{at}" for at in range(classes)])
    case = _parted(_table(numbers, words, names[label]), rows, tuple(names.tolist()))
    kept = case.known.filter(pl.col("n0") > 0) if shifted else case.known
    return Case(case.private, kept, case.test, case.label, case.classes)


def names(rows: int = 30_000) -> Case:
    """Rows of a linear rule in five numbers and in a name, one of NAMES, whose frequencies are those of Zipf's law."""
    draw = np.random.default_rng(17)
    total = rows + PUBLIC + TEST
    numbers, shares = draw.normal(size=(total, 5)), 1 / np.arange(1, NAMES + 1)
    name = draw.choice(NAMES, total, p=shares / shares.sum())
    logit = numbers @ draw.normal(size=5) + 2 * draw.normal(size=NAMES)[name]
    label = np.where(draw.random(total) < 1 / (1 + np.exp(-logit)), "yes", "no")
    return _parted(_table(numbers, np.char.add("name ", name[:, None].astype(str)), label), rows, ("no", "yes"))


def _table(numbers: Floats, words: NDArray[Any], label: NDArray[np.str_]) -> pl.DataFrame:
    columns = {f"n{at}": column for at, column in enumerate(numbers.T)}
    return pl.DataFrame(columns | {f"w{at}": column.astype(str) for at, column in enumerate(words.T)} | {"y": label})


def _parted(table: pl.DataFrame, rows: int, classes: tuple[str, ...]) -> Case:
    return Case(table[:rows], table[rows:-TEST], table[-TEST:], "y", classes)
