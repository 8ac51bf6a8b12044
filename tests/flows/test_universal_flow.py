"""A student that is chosen, end to end: what is published, what is spent, what is replayed and what stops it."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.homes import certificate_of
from tests.support.people import people, tables_of_plan, write_tables
from tests.support.sentences import facts
from tests.world import (
    Encoding,
    Ledger,
    Matrix,
    Plan,
    Run,
    Stores,
    WrongInput,
    asks_hypothesis,
    encode,
    forget,
    parse_plan,
    start,
    verify,
    verify_published,
)

STUDENT = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    """A plan without teachers over made-up people, as nested tables."""
    given = tables_of_plan(write_tables(tmp_path / "data")) | {"student": STUDENT}
    given["privacy"] |= {"epsilon": 2.0}
    return {name: section for name, section in given.items() if name not in ("teachers", "labeling")}


@pytest.fixture
def plan(tables: dict[str, Any]) -> Plan:
    return parse_plan(tables)


def all_verifies(home: Path) -> bool:
    published = home / "released" / Ledger.of(home).sessions("people")[-1].id
    return all(check.ok for check in (*verify(home), *verify_published(published)))


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server", "session")
def test_a_student_is_chosen_without_a_vote(plan: Plan, home: Path) -> None:
    summary = start(plan, home)
    assert [report.name for report in summary.stages] == ["encode", "count", "choose", "study", "certify"]
    assert summary.student["accuracy"] > 0.65
    assert (summary.teachers, summary.guarantee["epsilon"], summary.guarantee["delta"]) == (0, 2.0, 0.0)
    session = Ledger.of(home).session(summary.session)
    assert (session.status, session.mechanism["name"], session.delta) == ("spent", "universal", 0.0)
    assert session.mechanism["secret"] == "rows"
    assert session.settled == session.reserved
    assert session.reserved.delta == 0
    assert all_verifies(home)
    certificate = certificate_of(summary)
    assert certificate.mechanism.settings["candidates"] > 100
    assert "No teacher ensemble was used" in Path(summary.report).read_text()
    published = Run(summary, home)
    assert set(published.student.predict(pl.read_parquet(plan.path("public")))) == {"no", "yes"}
    with pytest.raises(WrongInput, match=facts("labels", "chosen")):
        _ = published.labels


@pytest.mark.slow
def test_the_best_hypothesis_is_likely(tables: dict[str, Any], home: Path) -> None:
    """With a budget to spare the choice is a least error: size and shade decide the label of the people."""
    plan = parse_plan({**tables, "privacy": tables["privacy"] | {"epsilon": 5.0}})
    assert start(plan, home).student["accuracy"] > 0.75


def test_errors_are_counted_on_one_row_a_unit(plan: Plan, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def noting(rows: pl.DataFrame, encoding: Encoding) -> Matrix:
        counted.append(rows.height)
        return encode(rows, encoding)

    monkeypatch.setattr(asks_hypothesis, "encode", noting)
    start(plan, home)
    assert sum(counted) == people(6000, 1)["person"].n_unique() < 6000


def test_a_class_that_is_wrong_is_refused_before_private_data_is_read(tables: dict[str, Any], home: Path) -> None:
    Path(tables["folder"], "private.csv").write_text("none of the columns\n")
    for change, details in (
        ({"hypotheses": "trees"}, "hypotheses must be one of .* got 'trees'"),
        ({"features": ["size", "shade"]}, r"student\.features must name .* got 'shade'"),
    ):
        with pytest.raises(WrongInput, match=details):
            start(parse_plan({**tables, "student": STUDENT | change}), home)
    assert Ledger.of(home).domains() == ()


@pytest.mark.slow
def test_it_is_forgotten_like_any_session(session: str, home: Path) -> None:
    assert forget(Stores.of(home), session)
    private = [path for folder in ("counts", "sessions") for path in (home / "vault" / folder).rglob("*")]
    assert [path for path in private if path.is_file()] == []
    assert all_verifies(home)
