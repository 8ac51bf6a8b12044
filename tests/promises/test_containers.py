"""One private cell changes no other: in every container, through every door of Python.

A column of labels, or of cells, is read with a plain cell and with an odd one in the same place. All other labels and
cells, through every rule by which they are used, are compared bit for bit, and so is how the reading ends.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, tzinfo
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import concord
from tests import world
from tests.support.raw import CELLS, TYPES, Cell, column, exact
from tests.support.rules import through_the_rules
from tests.support.sources import plan_over

pandas = pytest.importorskip("pandas")


def fails(*_: Any, **__: Any) -> Any:
    raise ValueError("SECRET")


def failing(base: type, *methods: str) -> type:
    """A type of that base whose own methods fail."""
    return type("Failing", (base,), {"__hash__": base.__hash__} | dict.fromkeys(methods, fails))


RELEASED = memoryview(b"no")
RELEASED.release()
ODD: tuple[Any, ...] = (
    *(None, math.nan, math.inf, -0.0, 0.5, 2, 2**70, 10**5000, True, 1j, "?", "", "NA", "\ud800", b"\xff", [1], {}),
    *(object(), np.array([1, 2]), np.float32(0.1), np.datetime64("2020-01-01T00:00:00.000000001")),
    *(pandas.NA, pandas.NaT, pandas.Timestamp("2020-01-01", tz="Europe/Paris"), np.datetime64("NaT")),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("1e400"), date(1, 1, 1), datetime.max, RELEASED),
    failing(float, "__eq__", "__abs__", "__int__")(1.0),
    failing(int, "bit_length", "__eq__")(1),
    failing(np.float64, "item")(1.0),
    failing(bytes, "__bytes__")(b"no"),
    failing(datetime, "isoformat", "astimezone")(2020, 1, 1),
    failing(object, "__str__", "__repr__", "__bool__", "__len__", "__float__", "__getattribute__")(),
    datetime(2020, 1, 1, tzinfo=failing(tzinfo, "utcoffset")()),
)
"""Odd cells; the last raise when they are compared, converted or read."""


class Kind(NamedTuple):
    """Two classes of one kind, and the types by which Arrow, pandas and NumPy store them."""

    classes: tuple[Any, Any]
    arrow: pa.DataType
    pandas: Any
    numpy: str


KINDS = {
    "words": Kind(("no", "yes"), pa.string(), "string", "U9"),
    "truth values": Kind((False, True), pa.bool_(), "boolean", "bool"),
    "integers": Kind((0, 1), pa.int8(), "Int8", "int16"),
    "integers that no double holds": Kind((2**53 + 1, 2**53 + 3), pa.int64(), "Int64", "int64"),
    "numbers": Kind((0.5, 1.5), pa.float64(), "Float64", "float64"),
    "days": Kind((date(2020, 1, 1), date(2020, 1, 2)), pa.date32(), "datetime64[s]", "datetime64[D]"),
}
NUMBERS = ("truth values", "integers", "integers that no double holds", "numbers")
Make = Callable[[Sequence[Any]], Any]


def objects(cells: Sequence[Any]) -> Any:
    return np.fromiter(cells, dtype=object, count=len(cells))


def chunks(cells: Sequence[Any], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(part, kind).dictionary_encode() for part in (cells[:3], cells[3:])])


def coded(cells: Sequence[Any], kind: Kind) -> Any:
    known = kind.classes
    codes = [known.index(cell) if type(cell) is type(known[0]) and cell in known else -1 for cell in cells]
    return pandas.Series(pandas.Categorical.from_codes(codes, categories=np.array(known, dtype=kind.numpy)))


OBJECTS: dict[str, Make] = {
    "list": list,
    "tuple": tuple,
    "NumPy's objects": objects,
    "pandas' objects": lambda cells: pandas.Series(objects(cells)),
    "an index of pandas": lambda cells: pandas.Index(objects(cells), dtype=object),
    "polars' objects": lambda cells: pl.Series(list(cells), dtype=pl.Object),
}
"""Containers of any object."""
TYPED: dict[str, Callable[[Sequence[Any], Kind], Any]] = {
    "NumPy": lambda cells, kind: np.array(list(cells), kind.numpy),
    "NumPy, a column": lambda cells, kind: np.array([[cell] for cell in cells], kind.numpy),
    "NumPy, masked": lambda cells, kind: np.ma.MaskedArray(np.array(list(cells), kind.numpy), mask=[False] * 9),
    "NumPy's bytes in another order": lambda cells, kind: np.array(list(cells), kind.numpy).astype(
        np.dtype(kind.numpy).newbyteorder()
    ),
    "pandas": lambda cells, kind: pandas.Series(list(cells), dtype=kind.pandas),
    "an array of pandas": lambda cells, kind: pandas.array(list(cells), dtype=kind.pandas),
    "pandas, of Arrow": lambda cells, kind: pandas.Series(list(cells), dtype=pandas.ArrowDtype(kind.arrow)),
    "categories": lambda cells, kind: pandas.Series(list(cells), dtype=kind.pandas).astype("category"),
    "categories of NumPy": coded,
    "polars": lambda cells, kind: pl.Series(pa.array(cells, kind.arrow)),
    "Arrow": lambda cells, kind: pa.array(cells, kind.arrow),
    "Arrow, with a dictionary": lambda cells, kind: chunks(cells, kind.arrow),
}
"""Containers whose cells have a type."""
CONTAINERS: dict[tuple[str, str], Make] = {
    **{(name, kind): make for (name, make), kind in product(OBJECTS.items(), KINDS)},
    **{(name, kind): partial(make, kind=KINDS[kind]) for (name, make), kind in product(TYPED.items(), KINDS)},
}
QUICK = ("truth values", "integers that no double holds")
"""Kinds of labels that NumPy and pandas mix up, which are tested on every change."""
PLACE = 4


def cases(*quick: str, among: Iterable[str]) -> list[Any]:
    """Every container of those kinds of labels; kinds that are not quick are slow."""
    slow: Any = pytest.mark.slow
    return [
        pytest.param(name, kind, marks=() if kind in quick else slow) for name, kind in CONTAINERS if kind in {*among}
    ]


def alternating(kind: str, odd: Any = ...) -> list[Any]:
    """Nine labels, of the one class and the other in turn, the middle one odd."""
    cells = [KINDS[kind].classes[row % 2] for row in range(9)]
    return cells if odd is ... else [*cells[:PLACE], odd, *cells[PLACE + 1 :]]


def held(make: Make, kind: str) -> list[Any]:
    """The container with a plain cell, and with every odd one that it can hold."""
    found = [make(alternating(kind))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, about odd cells
        for odd in ODD:
            with suppress(Exception):  # of libraries, which do not take such a cell
                found.append(make(alternating(kind, odd)))
    return found


def rows_of(table: Any, folder: Path) -> pl.DataFrame:
    """What the private reader makes of a frame that was given to concord.run."""
    vault = world.Vault(folder / "vault")
    plan = plan_over(world.keep_frame(table, vault, "private", "ward"), folder)
    private = world.open_private(world.with_snapshots(plan, vault).path("private"))
    return pl.concat(private.frames(dict.fromkeys(private.names, "data.features")))


def others(bits: list[Any]) -> list[Any]:
    return [*bits[:PLACE], *bits[PLACE + 1 :]]


def label_bits(rows: Any, kind: str) -> list[Any]:
    encoding = world.Encoding(columns=(), label="label", classes=tuple(str(name) for name in KINDS[kind].classes))
    return others(exact(world.cast_rows(pl.DataFrame(rows), encoding)[world.LABEL]))


def number_bits(rows: Any) -> list[Any]:
    encoding = world.Encoding(columns=(), label="label", classes=(), bounds=(-(2.0**54), 2.0**54))
    return others(exact(world.cast_rows(pl.DataFrame(rows), encoding)[world.LABEL]))


RIGHT = others([np.uint16(row % 2).tobytes() for row in range(9)])


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[pa.Table]:
    """The private tables that classifier and regressor give to concord.run."""
    tables: list[pa.Table] = []

    def run(_: Any, private: pa.Table, **__: Any) -> Any:
        tables.append(private)
        return SimpleNamespace(student=None)

    monkeypatch.setattr(concord, "run", run)
    return tables


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize(("name", "kind"), cases("words", *QUICK, among=KINDS))
def test_one_label_changes_no_other_of_a_classifier(given: list[pa.Table], name: str, kind: str) -> None:
    for labels in held(CONTAINERS[name, kind], kind):
        world.ConcordClassifier(classes=list(KINDS[kind].classes), rows=9).fit(np.zeros((9, 1)), labels, public=[[1.0]])
        assert label_bits(given.pop(), kind) == RIGHT


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize(("name", "kind"), cases(*QUICK, among=NUMBERS))
def test_one_label_changes_no_other_of_a_regressor(given: list[pa.Table], name: str, kind: str) -> None:
    right = others([np.float64(float(KINDS[kind].classes[row % 2])).tobytes() for row in range(9)])
    for labels in held(CONTAINERS[name, kind], kind):
        world.ConcordRegressor(bounds=[-(2.0**54), 2.0**54], rows=9).fit(np.zeros((9, 1)), labels, public=[[1.0]])
        assert number_bits(given.pop()) == right


FRAMES: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda column: pandas.DataFrame({"c": column, "label": column}),
    "polars": lambda column: pl.DataFrame([column.alias("c"), column.alias("label")]),
    "Arrow": lambda column: pa.table({"c": column, "label": column}),
}
DOORS: dict[str, Callable[[Any, list[pa.Table]], Any]] = {
    "concord.run": lambda frame, _: frame,
    "classifier": lambda frame, given: (
        world.ConcordClassifier(classes=["a", "b"], rows=9, plan={"data": {"label": "y"}}).fit(
            frame, range(9), public=frame
        )
        and given.pop()
    ),
}


IN_FRAMES = [
    (name, kind)
    for name in ("pandas' objects", "pandas", "pandas, of Arrow", "categories of NumPy", "polars", "Arrow")
    for kind in ("words", *QUICK)
]


@pytest.mark.parametrize("door", ["concord.run", pytest.param("classifier", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "kind"), IN_FRAMES)
def test_one_cell_changes_no_other_of_a_frame(
    tmp_path: Path, given: list[pa.Table], name: str, kind: str, door: str
) -> None:
    of, first = FRAMES.get(name, FRAMES["pandas"]), None
    for cells in held(CONTAINERS[name, kind], kind):
        rows = rows_of(DOORS[door](of(cells), given), tmp_path)
        found = {rule: others(bits) for rule, bits in through_the_rules(rows["c"]).items()}
        first = found if first is None else first
        assert found == first
        assert label_bits(rows, kind) == RIGHT


@pytest.mark.parametrize(
    "stored",
    [pytest.param(stored, marks=() if at % 5 == 0 else pytest.mark.slow) for at, stored in enumerate(TYPES)],
    ids=str,
)
def test_no_bits_of_an_arrow_cell_change_another_or_how_it_ends(
    tmp_path: Path, given: list[pa.Table], stored: pa.DataType
) -> None:
    """All odd cells of a type in one column, and some in columns of their own, each between two plain ones."""

    def beside(bits: list[Any]) -> list[Any]:
        return [bit for at, bit in enumerate(bits) if at % 3 != 1]

    def ended(odd: Sequence[Cell]) -> tuple[Any, Any]:
        cells = column(stored, [bits for each in odd for bits in (b"a", each, b"b")])
        try:
            X = np.zeros((len(cells), 1))
            world.ConcordClassifier(classes=["a", "b"], rows=len(cells)).fit(X, cells, public=[[1.0]])
            labels: Any = beside(given.pop()["label"].to_pylist())
        except world.WrongInput as refused:
            labels = str(refused)
        try:
            table = rows_of(pa.table({"c": cells}), tmp_path)
            return labels, {rule: beside(found) for rule, found in through_the_rules(table["c"]).items()}
        except world.WrongInput as refused:
            return labels, str(refused)

    assert ended(CELLS) == ended([b"a"] * len(CELLS))
    plain = ended([b"a"])
    for bits in CELLS[::15]:
        assert ended([bits]) == plain, bits


MATRICES: dict[str, Callable[[Any], Any]] = {
    "float64": lambda odd: np.array([[0.1], [odd], [2.0]]),
    "float32": lambda odd: np.array([[0.1], [odd], [2.0]], dtype=np.float32),
    "longdouble": lambda odd: np.array([[np.longdouble("0.1")], [odd], [2.0]], dtype=np.longdouble),
    "big-endian": lambda odd: np.array([[0.1], [odd], [2.0]], dtype=">f8"),
    "in Fortran's order": lambda odd: np.array([[0.1], [odd], [2.0]], order="F"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", MATRICES)
def test_one_number_changes_no_other_of_an_array(given: list[pa.Table], name: str) -> None:
    found = set()
    for odd in (1.0, math.nan, math.inf, -0.0, 5e-324, 1e300 if name != "float32" else 1e30, np.longdouble("1e4000")):
        with np.errstate(all="ignore"):
            X = MATRICES[name](odd)
        world.ConcordClassifier(classes=["a", "b"], rows=3).fit(X, ["a", "b", "a"], public=[[1.0]])
        first, _, last = exact(pl.DataFrame(given.pop())["x0"])
        found.add((first, last))
    assert len(found) == 1


@pytest.mark.parametrize("rows", [lambda odd: [[0.1], [odd]], lambda odd: objects([0.1, odd]).reshape(2, 1)])
def test_what_has_no_type_is_refused_by_its_container_and_no_cell_is_printed(rows: Callable[[Any], Any]) -> None:
    said = set()
    for odd in (1.0, *ODD, "SECRET", 777.5):
        with pytest.raises(world.WrongInput, match="X must be") as refused:
            world.ConcordClassifier(classes=["a", "b"], rows=2).fit(rows(odd), ["a", "b"], public=[[1.0]])
        said.add(str(refused.value))
    assert len(said) == 1


@pytest.mark.filterwarnings("ignore")
def test_labels_read_by_numpy_as_before_are_caught(given: list[pa.Table], monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: one type for all labels, which NumPy chooses."""

    def guessed(labels: Any, *_: Any) -> pl.Series:
        return pl.Series(
            [world.units_identifiers.word_of(each) for each in np.asarray(labels).tolist()], dtype=pl.String
        )

    monkeypatch.setattr(world.flows_classifier, "column_of", guessed)
    monkeypatch.setattr(
        world.flows_classifier,
        "_names_of",
        lambda classes: {world.units_identifiers.word_of(name): str(name) for name in classes},
    )
    for kind, odd in (("truth values", math.nan), ("integers that no double holds", math.nan)):
        labels = alternating(kind, odd)
        world.ConcordClassifier(classes=list(KINDS[kind].classes), rows=9).fit(np.zeros((9, 1)), labels, public=[[1.0]])
        assert label_bits(given.pop(), kind) != RIGHT, kind
