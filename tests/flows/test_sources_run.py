"""Whole runs over tables that are no files: the page's lines run, and nothing is read twice or spent twice."""

import re
from pathlib import Path

import polars as pl
import pytest

from tests.support.homes import charged
from tests.support.pages import python_on
from tests.support.people import people, tables_of_plan, write_plan, write_tables
from tests.support.sources import PASSWORD, VARIABLE, asked_of, database
from tests.world import Ledger, Stores, Vault, erase, parse_plan, run, study_again, with_snapshots

PAGE = "deployments/guides/tables.md"


def test_a_plan_that_was_left_to_advice_keeps_its_snapshots(tmp_path: Path) -> None:
    tables = tables_of_plan(write_tables(tmp_path))
    tables["labeling"] = {"mechanism": "auto", "cutoff": 12}
    plan = parse_plan(tables)
    snapshot = type("Kept", (str,), {})("snapshot://somewhere#else")
    held = plan.model_copy(update={"data": plan.data.model_copy(update={"private": snapshot})})
    assert held.naming("stable", 12).data.private is snapshot
    assert with_snapshots(plan, Vault(tmp_path / "vault")) is plan


@pytest.mark.slow
def test_a_run_over_a_query_reads_it_once_and_again_after_an_erasure(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, tables = people(6000, 1), tables_of_plan(write_tables(tmp_path))
    address = database(tmp_path / "ward.db", rows.rows(), rows.columns)
    source = asked_of(monkeypatch, address)
    monkeypatch.setenv("UNUSED", PASSWORD)
    tables["data"]["private"] = source
    tables["data"]["test"] = asked_of(monkeypatch, address, "select size, shade, visits, outcome from ward limit 200")
    done = run(tables, home=home)
    (tmp_path / "ward.db").rename(tmp_path / "away.db")
    spent = charged(home)
    again = run(tables, home=home)
    assert (again.session, again.summary.asked_now) == (done.session, 0)
    study_again(done.session, home)
    assert charged(home) == spent
    assert [remark.kind for remark in Ledger.of(home).remarks("people") if remark.kind == "holds"] == ["holds"]
    files = [file for file in (home / "released").rglob("*") if file.is_file()]
    named = re.compile(rb"\bward\b")  # as a word: those letters are part of a signature with probability 2e-5
    assert not [file for file in files if named.search(file.read_bytes())]
    (tmp_path / "away.db").rename(tmp_path / "ward.db")
    erase(Stores.of(home), "people", rows["person"][0])
    assert not (home / "vault" / "tables" / "people").exists()


@pytest.mark.slow
def test_the_lines_of_the_page_run_and_a_frame_given_twice_is_one_table(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(write_tables(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORD_HOME", str(home))
    (example,) = python_on(PAGE)
    exec(example, {})
    assert "epsilon=4.0" in capsys.readouterr().out
    frames = {"private": pl.read_csv("private.csv"), "test": pl.read_parquet("test.parquet").to_pandas()}
    done = run("plan.toml", **frames)
    assert done.summary.asked_now == 0
    assert len(Ledger.of(home).sessions("people")) == 1
    assert VARIABLE not in example
