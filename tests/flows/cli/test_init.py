"""The command `init`: a plan out of public figures and columns, which runs as it stands; nothing private is read."""

import json
import tomllib
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from jsonschema import Draft7Validator

import concord
from tests import world
from tests.support.console import Terminal, heard
from tests.support.console import concord as without_home
from tests.support.sentences import says

FLAGS = ("Malta", "Panama, rep.", 'the "Cook" islands', None)
STATED = ("--domain", "harbour", "--rows", "9,000")
BY_ROW = ("--unit", "row")


def ships(rows: int, seed: int) -> pl.DataFrame:
    """Made-up arrivals: text, dates, truth values and nulls; three classes that the columns nearly tell apart."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, rows)
    length = rng.normal(40 + 60 * kind, 18)
    wrong = rng.random(rows) < 0.03
    verdict = np.where(wrong, rng.integers(0, 3, rows), kind)
    return pl.DataFrame(
        {
            "ship": [f"S{number}" for number in rng.integers(0, rows, rows)],
            "flag": [FLAGS[integer] for integer in rng.integers(0, len(FLAGS), rows)],
            "arrived": [date(2024, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 365, rows)],
            "length (m)": pl.Series(length.round(1)).set(pl.Series(rng.random(rows) < 0.05), None),
            "pilot": kind > rng.integers(0, 2, rows),
            "cargo": np.array(["fish", "steel", "cars"])[np.where(rng.random(rows) < 0.7, kind, 0)],
            "verdict": np.array(["wave through", "look at", "search"])[verdict],
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tables of ships, in the folder the command is given in."""
    ships(9000, 1).write_parquet(tmp_path / "private.parquet")
    ships(9000, 1).write_csv(tmp_path / "private.csv", datetime_format="%Y-%m-%d")
    public = ships(400, 2).drop("verdict", "ship")
    public.write_parquet(tmp_path / "public.parquet")
    public.write_csv(tmp_path / "public.csv")
    ships(300, 3).write_parquet(tmp_path / "test.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tables(kind: str) -> tuple[str, ...]:
    return ("--private", f"private.{kind}", "--public", f"public.{kind}", "--label", "verdict")


def described(*arguments: str) -> str:
    """The plan that `init` writes."""
    assert without_home("init", *arguments, "--out", "described.toml")[0] == 0
    text = Path("described.toml").read_text(encoding="utf-8")
    Path("described.toml").unlink()
    return text


@pytest.mark.parametrize("kind", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_a_table_never_seen_goes_from_init_to_verify_as_it_stands(
    concord: Callable[..., Any], folder: Path, kind: str
) -> None:
    begun = concord("init", *tables(kind), *STATED, "--test", "test.parquet", "--unit", "ship", "--epsilon", "3")
    assert begun[0] == 0, begun
    assert world.load_plan(folder / "plan.toml").data.classes == ("look at", "search", "wave through")
    assert json.loads(concord("plan", "plan.toml", "--json")[1])["mechanisms"][0]["feasible"]
    status, printed, error = concord("run", "plan.toml", "--json")
    assert status == 0, error
    assert json.loads(printed)["student"]["accuracy"] > 0.8
    assert json.loads(concord("verify", "--json")[1])["ok"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_of_the_private_table_only_the_column_names_matter(folder: Path, kind: str) -> None:
    given = (*tables(kind), *STATED, *BY_ROW, "--test", "test.parquet")
    before = described(*given)
    names = (*ships(1, 1).columns, "remark")
    others = pl.DataFrame({name: ["not", "like the others"] for name in names} | {"verdict": [7, None]})
    others.write_csv(folder / "private.csv") if kind == "csv" else others.write_parquet(folder / "private.parquet")
    assert described(*given) == before


@pytest.mark.usefixtures("folder")
def test_a_number_as_label_has_bounds_in_place_of_classes() -> None:
    length = (*tables("csv")[:5], "length (m)", "--bounds", "-10", "300", "--test", "test.parquet")
    text = described(*length, *STATED, *BY_ROW)
    assert "bounds = [-10.0, 300.0]" in text
    assert 'learner = "linear" #' in text
    assert "any regressor" in text
    status, _, error = without_home("init", *length, *STATED, *BY_ROW, "--no-tallies")
    assert (status, says(error, "--no-tallies", "--bounds")) == (2, True)
    status, _, error = without_home("init", *tables("csv"), *STATED, *BY_ROW, "--bounds", "3", "1")
    assert (status, "data: bounds must be two numbers" in error) == (2, True)


def test_lists_are_learned_by_a_student_that_reads_them(folder: Path) -> None:
    for name in ("private", "public", "test"):
        rows = pl.read_parquet(folder / f"{name}.parquet").with_columns(bands=pl.concat_arr(pl.lit(1.0), pl.lit(2.0)))
        rows.write_parquet(folder / f"{name}.parquet")
    text = described(*tables("parquet"), *STATED, *BY_ROW, "--test", "test.parquet", "--tallies")
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    plan = world.load_plan(folder / "plan.toml")
    assert (plan.student.learner, plan.student.params) == ("fitted", {"min_samples_leaf": 2})
    world.check_columns(plan, world.learn_encoding(plan))


def test_a_season_stands_there_and_what_its_releases_will_be_worth_is_said(folder: Path) -> None:
    classes = ("--classes", "look at,search,wave through")
    status, printed, _ = without_home("init", *tables("csv"), *STATED, *classes, "--unit", "ship", "--season", "52")
    assert status == 0
    said = [line.split()[1] for line in printed.splitlines() if len(line.split()) > 5 and line.split()[1].isdigit()]
    assert said == ["1", "4", "13", "26", "52"]
    assert "concord refresh plan.toml" in printed
    text = (folder / "plan.toml").read_text(encoding="utf-8")
    assert "`concord refresh` runs it" in text
    for written, clock in ((text, None), (text.replace("# clock =", "clock ="), "0 3 * * 1")):
        assert tomllib.loads(written)["stream"] == {"season": 52} | ({"clock": clock} if clock else {})
        (folder / "plan.toml").write_text(written, encoding="utf-8")
        assert world.load_plan(folder / "plan.toml").stream == world.StreamPlan(season=52, clock=clock)


def test_the_public_columns_stand_there_with_what_they_hold(folder: Path) -> None:
    public = ships(50, 2).with_columns(odd=pl.lit(b"no feature"))
    public.write_parquet(folder / "public.parquet")
    text = described(*tables("parquet"), *STATED, "--test", "test.parquet", "--unit", "ship")
    assert tomllib.loads(text)["data"]["features"] == ["flag", "arrived", "length (m)", "pilot", "cargo"]
    for name, kind in (("flag", "categorical"), ("arrived", "date"), ("length (m)", "numeric"), ("pilot", "boolean")):
        assert f'"{name}", # {kind}' in text


BLANK = "\n" * 4
"""What a publication says of itself is left unsaid."""


def test_it_asks_for_what_was_not_given_and_again_if_an_answer_cannot_be(folder: Path) -> None:
    answers = Terminal(
        "nowhere.csv\nprivate.csv\nprivate.csv\npublic.csv\n\nsize\nverdict\nsearch\nsearch, look at\ncrew\n\nrow\n"
        "my harbour\nharbour\nmany\n9 000\nsome\n2\n\n1\n8\n\n"
        "Port authority\nfor pilots\n2026-02-30\n2026-01-31\n"
    )
    status, _, error = without_home("init", stdin=answers)
    assert status == 0, error
    plan = world.load_plan(folder / "plan.toml")
    assert (plan.data.private, plan.data.public, plan.data.label) == ("private.csv", "public.csv", "verdict")
    assert (plan.data.classes, plan.data.unit, plan.privacy.domain) == (("search", "look at"), None, "harbour")
    assert (plan.data.test, plan.privacy.delta) == (None, world.usual_delta(9000))
    assert (plan.privacy.epsilon, plan.privacy.lifetime.epsilon) == (2.0, 8.0)
    about = plan.about
    assert (about.issuer, about.use, about.date) == ("Port authority", "for pilots", "2026-01-31")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_default_promised_a_row_where_the_private_table_alone_says_whose_it_is(folder: Path, kind: str) -> None:
    given = (*tables(kind), *STATED, "--test", "test.parquet")
    status, printed, error = without_home("init", *given)
    assert (status, printed) == (2, "")
    assert says(error, "--unit", "--private", "'ship'")
    assert not (folder / "plan.toml").exists()
    assert tomllib.loads(described(*given, "--unit", "ship"))["data"]["unit"] == "ship"
    assert "unit" not in tomllib.loads(described(*given, *BY_ROW))["data"]
    ships(400, 2).drop("verdict").write_parquet(folder / "public.parquet")
    ships(400, 2).drop("verdict").write_csv(folder / "public.csv")
    assert "unit" not in tomllib.loads(described(*given))["data"]  # nothing is the private table's alone


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["unit", "label", "domain"])
def test_an_empty_option_was_a_setting(name: str) -> None:
    stated = {"--label": "verdict", "--unit": "ship", "--domain": "harbour", "--rows": "9,000", f"--{name}": ""}
    given = [part for pair in stated.items() for part in pair]
    status, _, error = without_home("init", *tables("csv")[:4], *given, "--classes", "look at,search")
    assert (status, f"be given --{name}" in error or f"--{name} must be given" in error) == (2, True), error


def test_at_a_terminal_it_asks_whose_a_row_is_even_if_nothing_else_is_missing(folder: Path) -> None:
    given = (*tables("csv"), *STATED, "--test", "test.parquet")
    status, _, error = heard("init", *given, stdin=Terminal("\nrow\n"))
    assert (status, "the private table alone has 'ship'" in error) == (0, True), error
    assert world.load_plan(folder / "plan.toml").data.unit is None


def test_nothing_is_asked_if_all_that_must_be_is_given(folder: Path) -> None:
    """So that commands can be pasted into a terminal, one after the other."""
    given = (*tables("csv"), *STATED, *BY_ROW, "--test", "test.parquet", "--issuer", "A", "--date", "2026-01-31")
    status, _, error = heard("init", *given, stdin=Terminal())
    assert (status, error) == (0, "")
    stated = world.load_plan(folder / "plan.toml").about
    assert (stated.issuer, stated.use, stated.date) == ("A", None, "2026-01-31")


def test_a_private_column_called_row_is_a_unit_like_any_other(folder: Path) -> None:
    ships(90, 1).rename({"ship": "row"}).write_parquet(folder / "private.parquet")
    given = (*tables("parquet"), *STATED, *BY_ROW, "--test", "test.parquet")
    assert tomllib.loads(described(*given))["data"]["unit"] == "row"


@pytest.mark.usefixtures("folder")
def test_classes_with_commas_are_given_one_by_one() -> None:
    both = ("--classes", "a, b", "--classes", "c")
    assert tomllib.loads(described(*tables("csv"), *STATED, *BY_ROW, *both))["data"]["classes"] == ["a, b", "c"]
    item = ("--classes", "a, b")
    assert tomllib.loads(described(*tables("csv"), *STATED, *BY_ROW, *item))["data"]["classes"] == ["a", "b"]


def test_a_number_of_rows_with_a_german_point_was_refused() -> None:
    for said in ("2000", "2,000", "2.000", "2 000", "2_000", "2'000", " 2000 "):
        assert world.parse_setting("rows", said, {}) == 2000
    for said in ("2.5", "2,00", "0", "-2000", "1.000.00", "²"):
        with pytest.raises(world.WrongInput, match="--rows must be a whole number above 0"):
            world.parse_setting("rows", said, {})
    for rows in (1, 9, 10, 6000, 99_999, 10**7):
        assert 0 < world.usual_delta(rows) == world.usual_delta(float(rows)) < world.LARGE / rows


def test_a_plan_is_never_overwritten(folder: Path) -> None:
    (folder / "plan.toml").write_text("mine")
    status, _, error = without_home("init", *tables("csv"), *STATED, "--test", "test.parquet")
    assert (status, (folder / "plan.toml").read_text()) == (2, "mine")
    assert "plan.toml already exists" in error


@pytest.mark.parametrize("how", ["options", "Python", "dialogue"])
def test_a_domain_that_the_home_knows_keeps_the_cap_on_record(folder: Path, how: str) -> None:
    """`init` wrote four times its own ε, which the run then refused, as another cap than that of the domain."""
    home = world.prepare(folder / "home")
    terms = {"unit": "all rows with one ship", "neighbours": world.NEIGHBOURS["rows"]}
    world.Ledger.of(home).name_domain("harbour", **terms, epsilon=7.0, delta=3e-5)
    given = (*tables("parquet"), "--test", "test.parquet", "--unit", "ship", "--home", str(home))
    if how == "Python":
        names = {name[2:]: value for name, value in zip(given[0:-2:2], given[1:-2:2], strict=True)}
        concord.init(**names, domain="harbour", rows=9000, home=home)
    else:
        answers = Terminal("\n9000\n\n\n\n\n" + BLANK) if how == "dialogue" else None
        stated = ("--domain", "harbour") if answers else ("--domain", "harbour", "--rows", "9000")
        status, _, error = without_home("init", *given, *stated, stdin=answers)
        assert status == 0, error
    assert world.load_plan(folder / "plan.toml").privacy.lifetime.model_dump() == {"epsilon": 7.0, "delta": 3e-5}
    (folder / "plan.toml").unlink()
    status, _, error = without_home("init", *given, *STATED, "--epsilon", "8")
    assert (status, says(error, "--epsilon", 7, "'harbour'", 8, "concord domain")) == (2, True)


def test_an_editor_that_knows_schemas_finds_that_of_the_plan(folder: Path) -> None:
    """The file of another version is replaced, and a link that was planted in its place is not followed."""
    (folder / "elsewhere").write_text("of an older version")
    (folder / world.PLAN_SCHEMA_FILE).symlink_to(folder / "elsewhere")
    text = described(*tables("parquet"), "--classes", "look at,search,wave through", *STATED, *BY_ROW)
    assert (folder / "elsewhere").read_text() == "of an older version"
    assert text.startswith(f"#:schema {world.PLAN_SCHEMA_FILE}\n")
    Draft7Validator(json.loads((folder / world.PLAN_SCHEMA_FILE).read_bytes())).validate(tomllib.loads(text))


def test_from_python_paths_and_numbers_are_taken_as_their_text_and_a_frame_is_refused(folder: Path) -> None:
    stated: dict[str, Any] = {"label": "verdict", "domain": "ships", "unit": "ship", "rows": 9000}
    tables = {name: f"{name}.parquet" for name in ("private", "public", "test")}
    world.flows_api.init("text.toml", home=folder / "home", **tables, **stated, classes="look at,search,wave through")
    paths = {name: Path(table) for name, table in tables.items()}
    classes = np.array(["look at", "search", "wave through"])
    given = stated | {"rows": np.int64(9000), "epsilon": np.float64(1), "classes": classes}
    world.flows_api.init(Path("paths.toml"), home=folder / "home", **paths, **given)
    assert (folder / "paths.toml").read_text() == (folder / "text.toml").read_text()
    with pytest.raises(world.WrongInput, match="--private must be a path, got DataFrame"):
        world.flows_api.init("frame.toml", home=folder / "home", **paths | {"private": ships(9, 1)}, **stated)


def test_it_says_how_a_database_is_named() -> None:
    stated = ("--label", "x", "--classes", "a,b", "--domain", "d", "--rows", "9")
    status, _, error = without_home("init", "--private", "postgresql://me:hunter2@host/ward", "--public", "b", *stated)
    assert (status, "a database is named by { query" in error) == (2, True), error
    assert "hunter2" not in error
