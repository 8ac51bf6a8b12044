"""What a public column holds is said aloud: codes are words, numbers may be names, sentences are no vocabulary, and
measured numbers no classes."""

import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.console import Terminal
from tests.support.console import concord as without_home
from tests.support.sentences import facts, says

ROWS = 400
WARDS = pl.DataFrame(
    {
        "zip": [f"{at * 37 % 99:05d}" for at in range(ROWS)],
        "ward": [at * 7 % 40 for at in range(ROWS)],
        "age": [20 + at * 13 % 71 for at in range(ROWS)],
        "size": [at / 7 for at in range(ROWS)],
        "remark": [f"the {at}th patient came back with a cough" for at in range(ROWS)],
        "town": [("Ulm", "Bad Tölz")[at % 2] for at in range(ROWS)],
        "outcome": [("no", "yes")[at * 7 % 3 == 0] for at in range(ROWS)],
    }
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulated_once: None) -> Path:  # noqa: ARG001
    WARDS.write_csv(tmp_path / "private.csv")
    WARDS.drop("outcome").write_csv(tmp_path / "public.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_digits_with_a_zero_in_front_are_words_in_any_part_of_a_table(tmp_path: Path) -> None:
    """Quoted or not: 00011 and 11 were one number."""
    (tmp_path / "a.csv").write_text('zip,half,year\n"12345",0.5,2020\n')
    (tmp_path / "b.csv").write_text('zip,half,year\n00011,-0.25,2\n"11",0,3\n')
    table = world.open_public(str(tmp_path))
    assert table.kinds(table.names) == {"zip": "categorical", "half": "numeric", "year": "numeric"}
    assert world.learn_columns(table, ["zip"]) == (
        world.OneHot(name="zip", vocabulary=("00011", "11", "12345"), missing=False),
    )


def test_further_rows_of_a_column_of_numbers_may_have_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("zip\n00011\n")
    number = world.Scaled(kind="numeric", name="zip", mean=0, scale=1, fill=0, low=0, high=9, missing=False)
    world.open_public(str(tmp_path / "t.csv")).check(world.Encoding(columns=(number,), label="l", classes=("a", "b")))


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([f"P{at}" for at in range(40)], world.ALL_DIFFER),
        ([f"P{at}" for at in range(10)], None),  # too few to tell
        ([f"P{at % 30}" for at in range(40)], None),
        ([f"{at:03d}" for at in range(40)], world.ALL_DIFFER),  # zeros in front do not make it worth learning
        ([f"she came back {at}" for at in range(40)], world.FREE_TEXT),
        (["0011"] * 40, world.ONE_VALUE),
        ([None, " "] * 20, world.ONE_VALUE),
        ([*map(str, range(30)), "n.a."], world.NUMBERS_DIFFER),
        ([str(at % 9 / 2) for at in range(30)] + ["unknown"], world.MOSTLY_NUMBERS),
        ([str(at % 9) for at in range(30)] + ["unknown"], world.MOSTLY_NUMBERS),  # or wards: only their owner knows
        ([str(at % 9) for at in range(30)] + ["unknown", "ICU"], None),  # wards, say: as words they are right
        ([str(250 + at % 40) for at in range(600)] + ["V57", "E11.9", "V58"] * 9, None),  # diagnoses
        ([f"{at % 30}" for at in range(200)] + ["3b", "12A"] * 3, None),  # wards and their parts
        ([str(at % 90 / 4) for at in range(300)] + ["<5", "n.d."] * 3, world.MOSTLY_NUMBERS),
        (["V57", "428", "V58", "E11"] * 9, None),
        ([f"P{at // 3}" for at in range(1200)], world.TOO_MANY),
        ([f"P{at % 100}" for at in range(1200)], None),
        ([str(at) for at in range(300)] * 3 + ["n.a."], world.NUMBERS_DIFFER),
    ],
)
def test_words_that_name_rows_are_left_out(tmp_path: Path, cells: list[str | None], found: str | None) -> None:
    pl.DataFrame({"name": cells}).write_parquet(tmp_path / "t.parquet")
    assert (
        world.remarks_on(world.open_public(str(tmp_path / "t.parquet")), {"name": "categorical"}).get("name") == found
    )


def test_numbers_that_may_name_people_became_features_without_a_word(tmp_path: Path) -> None:
    """Each of 200 people has two rows: nothing said so, and each row was protected by itself."""
    columns = {"person": [1000 + at // 2 for at in range(400)], "age": [at % 90 for at in range(400)]}
    pl.DataFrame(columns | {"size": [at / 7 for at in range(400)]}).write_csv(tmp_path / "t.csv")
    table = world.open_public(str(tmp_path / "t.csv"))
    assert world.remarks_on(table, table.kinds(table.names)) == {"person": world.MAY_NAME_ROWS}


DAYS = [date(2023, 1, 1) + timedelta(days=at % 200) for at in range(ROWS)]


FORMS = ("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%Y/%m/%d", "%d-%b-%Y", "%B %d, %Y", "%d. %B %Y", "%d.%m.%Y %H:%M")


def init(*given: str, public: str = "public.csv", unit: str = "row", stdin: Any = None) -> tuple[int, str, str]:
    """What `concord init` ends with, prints, and says in the end."""
    stated = ("--domain", "ward", "--rows", "9000", "--classes", "no,yes", "--label", "outcome", "--unit", unit)
    return without_home("init", "--private", "private.csv", "--public", public, *stated, *given, stdin=stdin)


def test_init_says_what_it_takes_each_column_for_and_leaves_out_what_is_not_worth_learning(folder: Path) -> None:
    """On the console, as data and in the plan. A comment in the plan said it, and nobody read it; dates of a country
    became categories that other tables lack."""
    days = pl.Series(DAYS, dtype=pl.Datetime)
    more = {f"day {at}": days.dt.strftime(form) for at, form in enumerate(FORMS)} | {"parts": pl.lit("x")}
    for table in ("private", "public"):
        rows = pl.read_csv(folder / f"{table}.csv", infer_schema=False).with_columns(**more)
        rows.write_csv(folder / f"{table}.csv")
    status, shown, error = init()
    assert status == 0, error
    assert "parsed as categories: 'town'" in shown
    left_out = {"parts": world.ONE_VALUE, "remark": world.FREE_TEXT} | {
        f"day {at}": world.DATES for at in range(len(FORMS))
    }
    text = (folder / "plan.toml").read_text()
    for name, why in left_out.items():
        assert f"column '{name}': categorical; {why}" in shown
        assert f'# "{name}", # categorical; {why}' in text
    assert "column 'age'" not in shown
    assert f'"zip", # categorical; {world.LEADING_ZEROS}' in text
    assert f'"ward", # numeric; {world.MAY_BE_NAMES}' in text
    assert world.load_plan(folder / "plan.toml").data.features == ("zip", "ward", "age", "size", "town")
    WARDS.with_columns(parts=pl.struct("age", "size"), bits=pl.lit(b"1")).write_parquet(folder / "public.parquet")
    status, shown, error = init("--categories", "ward,age", "--out", "other.toml", "--json", public="public.parquet")
    assert status == 0, error
    assert json.loads(shown)["columns"]["remark"] == f"categorical; {world.FREE_TEXT}"
    assert world.load_plan(folder / "other.toml").data.categories == ("ward", "age")
    assert all(f'# "{name}", # {world.UNREAD}' in (folder / "other.toml").read_text() for name in ("parts", "bits"))


@pytest.mark.usefixtures("folder")
def test_init_asks_about_few_whole_numbers_at_a_terminal() -> None:
    answers = Terminal("private.csv\npublic.csv\n\noutcome\nno,yes\n\nward\n9000\n1\n\n\n\ny\n\n\n\n\n")
    status, _, error = without_home("init", stdin=answers)
    assert status == 0, error
    assert says(error, "'ward'", "few different whole numbers")
    assert "'age'" not in error
    assert world.load_plan(Path("plan.toml")).data.categories == ("ward",)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_public_table_without_a_column_to_learn_from_is_refused_with_each_reason(folder: Path, form: str) -> None:
    one = pl.DataFrame({"age": [41], "ward": ["surgery"]})
    several = pl.DataFrame({"size": [1] * 30, "remark": ["20.12.2023"] * 29 + ["21.12.2023"]})
    for rows, said in (
        (one, ("'age'", world.ONE_VALUE)),
        (several, ("'size'", world.ONE_VALUE, "'remark'", world.DATES)),
    ):
        rows.write_csv(folder / "public.csv") if form == "csv" else rows.write_parquet(folder / "public.parquet")
        status, _, error = init(public=f"public.{form}")
        assert (status, says(error, *said)) == (2, True), error


def test_init_refuses_a_measured_label_of_the_test_table_whatever_classes_are_given(folder: Path) -> None:
    WARDS.write_csv(folder / "test.csv")
    tables = ("--private", "private.csv", "--public", "public.csv", "--test", "test.csv")
    given = ("init", *tables, "--label", "size", "--domain", "ward", "--rows", "9000")
    status, _, error = without_home(*given)
    assert (status, "'size' holds 400 different numbers" in error) == (2, True), error
    status, _, error = without_home(*given, "--classes", "0,1", "--unit", "row")
    assert (status, says(error, "declared class", "'size'")) == (2, True), error


@pytest.mark.parametrize(("form", "suffix"), [("%d.%m.%Y", "csv"), ("%d.%m.%Y", "parquet"), ("%Y-%m-%d", "parquet")])
def test_a_run_without_a_plan_of_init_spent_on_dates_as_words(tmp_path: Path, form: str, suffix: str) -> None:
    path, frame = tmp_path / f"t.{suffix}", pl.DataFrame({"day": pl.Series(DAYS).dt.strftime(form), "town": "Ulm"})
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    day, town = world.learn_columns(world.open_public(str(path)), ["day", "town"])
    assert day == world.Empty(name="day")
    assert isinstance(town, world.OneHot)
    (listed,) = world.learn_columns(world.open_public(str(path)), ["day"], ["day"])
    assert isinstance(listed, world.OneHot)


def test_a_day_that_is_read_as_one_is_a_feature(tmp_path: Path) -> None:
    for name, cells in (("csv", [str(day) for day in DAYS]), ("addresses", [f"10.0.{at}.7" for at in range(ROWS)])):
        pl.DataFrame({"cell": cells}).write_csv(tmp_path / f"{name}.csv")
    days, addresses = (world.open_public(str(tmp_path / f"{name}.csv")) for name in ("csv", "addresses"))
    assert world.remarks_on(days, days.kinds(["cell"])) == {}
    assert world.remarks_on(addresses, addresses.kinds(["cell"])) == {"cell": world.ALL_DIFFER}


def test_numbers_that_name_things_are_words_wherever_they_are_stored(tmp_path: Path) -> None:
    stored = {"whole": pl.Int16, "decimal": pl.Float64, "text": pl.String}
    for name, dtype in stored.items():
        WARDS.select(pl.col("ward").cast(dtype)).write_parquet(tmp_path / f"{name}.parquet")
    learned = {
        name: world.learn_columns(world.open_public(str(tmp_path / f"{name}.parquet")), ["ward"], ["ward"])
        for name in ("whole", "text")
    }
    (column,) = learned["whole"]
    assert isinstance(column, world.OneHot)
    assert column.vocabulary[:3] == ("0", "1", "10")
    encoding = world.Encoding(columns=(column,), label="l", classes=("a", "b"))
    for name in ("whole", "text"):
        table = world.open_public(str(tmp_path / f"{name}.parquet"))
        table.check(encoding)
        (frame,) = table.frames(["ward"])
        assert world.cast_rows(frame, encoding)["ward"].to_list() == [str(ward) for ward in WARDS["ward"]]
    assert world.column_types(str(tmp_path / "decimal.parquet"), encoding) == {"ward": "any"}
    towns = world.OneHot(name="ward", vocabulary=("Ulm",), missing=True)
    with pytest.raises(world.WrongInput, match=facts("categorical", "numeric")):
        world.open_public(str(tmp_path / "whole.parquet")).check(encoding.model_copy(update={"columns": (towns,)}))


TARGETS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "prices": (("1.5", "2.25", "7"), "holds 3 different numbers, from 1.5 to 7: write a column of ranges"),
    "counts": (tuple(map(str, range(21))), "'below 10' and '10 or more'"),
    "digits": (tuple(map(str, range(10))), None),
    "truth": (("0", "1"), None),
    "one class": (("yes",), "holds 'yes' alone: give --classes"),
    "no class": ((), "holds nothing: give --classes"),
    "halves": (("0.5", "1.5"), None),
    "words": (("yes", "no", "1.5"), None),
    "many words": (tuple(f"w{at}" for at in range(100)), None),
}


@pytest.mark.parametrize("what", TARGETS)
def test_measured_numbers_are_no_classes(what: str) -> None:
    words, sentence = TARGETS[what]
    if sentence is None:
        world.check_target("--label", "price", words)
        return
    with pytest.raises(world.WrongInput, match=re.escape(sentence)):
        world.check_target("--label", "price", words)


def test_words_are_hashed_by_a_rule_that_needs_no_other_row(folder: Path) -> None:
    table = world.open_public(str(folder / "public.csv"))
    columns = world.learn_columns(table, ["town", "remark"], texts=["remark"])
    assert columns[1] == world.Hashed(name="remark")
    encoding = world.Encoding(columns=columns, label="outcome", classes=("no", "yes"))
    rows = pl.DataFrame({"town": ["Ulm"] * 4, "remark": ["A cough. Again: a COUGH", "again cough", None, "  "]})
    matrix = world.encode(world.cast_rows(rows, encoding), encoding)[:, columns[0].width :]
    assert matrix.shape == (4, 256)
    assert matrix.sum(axis=1).tolist() == [2, 2, 0, 0]
    assert (matrix[0] == matrix[1]).all()
    assert set(encoding.outputs[-256:]) == {f"remark#{at}" for at in range(256)}
    assert world.column_types(str(folder / "public.csv"), encoding)["remark"] == "string"
    with pytest.raises(world.WrongInput, match=facts("text", "'age'", "numeric")):
        world.learn_columns(table, ["age"], texts=["age"])
    digits = pl.DataFrame({"town": ["Ulm"], "remark": ["12"]})
    digits.write_csv(folder / "later.csv")
    world.open_public(str(folder / "later.csv")).check(encoding)
