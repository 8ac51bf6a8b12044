"""A stream end to end: what is released each period, who is asked in it, what is spent, and what stops it."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from mlflow import MlflowClient

from tests import world
from tests.support.homes import killed_at
from tests.support.openings import session
from tests.support.pages import ROOT, python_on
from tests.support.people import people, tables_of_plan, write_tables
from tests.support.recorded import RECORDED
from tests.support.sentences import facts

(OF_WEEKS,) = python_on("deployments/guides/stream.md")
"""The example of the guide."""


def weekly(folder: Path, **stream: Any) -> dict[str, Any]:
    """The plan, as nested tables, with its tables written."""
    given = tables_of_plan(write_tables(folder))
    given["labeling"] = {"mechanism": "tallies", "rows": 6000}
    given["data"] |= {"private": "arriving"}
    given["stream"] = {"season": 4, **stream}
    return {name: section for name, section in given.items() if name not in ("teachers", "student")}


def arrive(folder: Path, week: int, rows: pl.DataFrame | None = None) -> Path:
    """Write the file of a week."""
    (folder / "arriving").mkdir(exist_ok=True)
    file = folder / "arriving" / f"{week}.parquet"
    (people(1500, 10 + week) if rows is None else rows).write_parquet(file)
    return file


def start_refresh(plan: world.Plan, home: Path, *, new_session: bool = False) -> world.Summary:
    found: world.Summary = world.flows_refresh.refresh(plan, home, new_session=new_session)
    return found


def publish_rows(folder: Path, rows: int, seed: int, *, without: str = "outcome") -> None:
    people(rows, seed).drop("outcome", "person", without, strict=False).write_parquet(folder / "public.parquet")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def plan(data: Path) -> world.Plan:
    return world.parse_plan(weekly(data))


def published(home: Path, summary: world.Summary) -> list[dict[str, Any]]:
    files = sorted((home / "released" / summary.session / "rounds").iterdir())
    return [json.loads(file.read_bytes()) for file in files]


def units_read(released: dict[str, Any]) -> float:
    """The number of units by a release's running totals: that of the constant."""
    return float(released["totals"][1][-1] / released["questions"][1]["count"])


def test_the_end_of_a_season_is_told() -> None:
    """By the ledger's record of a season of four releases, which another season follows if it is of a stream."""
    last, of_four = "release 4 of 4: the season has ended, and ", {**RECORDED["stream"], "season": 4}
    whole = replace(session(mechanism=of_four, queries=4, stream="days"), asked=4)
    assert world.season_in_words(whole).startswith(f"{last}the next release begins another")
    assert world.season_in_words(replace(whole, stream="")) == f"{last}no release follows"
    assert world.season_in_words(replace(whole, asked=2, status="closed")).startswith(
        "release 2 of 4: the season has ended"
    )
    assert world.season_in_words(replace(whole, asked=2, status="open")) == "release 2 of 4"
    assert world.season_in_words(session()) == ""


def test_releases_follow_one_another_and_everybody_is_charged_once(data: Path, plan: world.Plan, home: Path) -> None:
    """Also before the first file has arrived, and after a file that was counted was moved away."""
    (data / "arriving").mkdir()
    first = start_refresh(plan, home)
    charged = world.Ledger.of(home).total("people")
    assert (first.asked, first.asked_now, first.inferred) == (1, 1, 300)
    for week in (1, 2):
        file = arrive(data, week)
        third = start_refresh(plan, home)
        assert (third.session, third.asked, third.spent_now["epsilon"]) == (first.session, week + 1, 0)
        file.rename(data / file.name)
    assert world.Ledger.of(home).total("people") == charged
    assert [check for check in world.verify(home) if not check.ok] == []
    certificate = json.loads(Path(third.certificate).read_bytes())
    assert "past and future" in certificate["sessions"][0]["mechanism"]["releases"]
    so_far = certificate["student"]["history"]
    assert (len(so_far), so_far[-1]) == (3, certificate["student"]["accuracy"])
    assert "releases-caption" in Path(third.report).read_text()
    recorded = MlflowClient(f"sqlite:///{home}/mlflow.db").get_metric_history(third.run_id, "accuracy_by_release")
    assert [point.value for point in recorded] == [each["value"] for each in so_far]
    assert len(world.Tracking.of(home).runs(first.session)) == 3  # none of them twice
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    names = [client.get_run(summary.run_id).info.run_name for summary in (first, third)]
    assert names == [f"release {number} of 4, {first.session}" for number in (1, 3)]  # told apart where they are cut
    assert (first.season, third.season) == ("release 1 of 4", "release 3 of 4")
    assert "release 3 of 4" in world.outcome_in_words(third)
    assert "| season | release 3 of 4 |" in world.outcome_in_markdown(third)
    found = published(home, third)
    exact = [pl.read_parquet(data / f"{week}.parquet")["person"].n_unique() for week in (1, 2)]
    noise = [each["scales"][1] * each["spread"] / each["questions"][1]["count"] for each in found]
    for release, units in enumerate((0, exact[0], sum(exact))):
        assert abs(units_read(found[release]) - units) < 6 * noise[release]
    assert third.student["accuracy"] > 0.8


@pytest.mark.slow
def test_the_example_runs(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first two weeks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORD_HOME", str(home))
    (tmp_path / "weekly.toml").write_bytes((ROOT / "deployments/plans/weekly.toml").read_bytes())
    weeks = "stays.iter_slices(-(-len(stays) // 12))"
    assert weeks in OF_WEEKS
    few = OF_WEEKS.replace(weeks, f"list({weeks})[:2]")
    exec(few, {})
    told = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1].isdigit()]
    assert [week for week, *_ in told] == ["1", "2"]
    assert all(float(right.rstrip("%")) > 75 for _, right, *_ in told)


def periods_of(home: Path) -> list[world.PeriodCounts]:
    """All periods of all seasons, in order."""
    seasons = world.Ledger.of(home).sessions("people")
    return [found for each in seasons for found in world.periods_counted(world.Vault(home / "vault"), each)]


DEATHS = ((world.Ledger, "begin_batch"), (world.Ledger, "commit_batch"), (world.flows_tally, "infer"))
"""Where a refresh is killed: before it is begun, before it is committed, and before its labels."""


CLOCKS = (
    ("0 3 * * *", "2026-11-22T02:59:59", "2026-11-22T03:00:00"),
    ("0 3 * * *", "2026-11-22T03:00:00", "2026-11-23T03:00:00"),
    ("15 14 1 * *", "2026-01-02T00:00:00", "2026-02-01T14:15:00"),
)


def test_the_next_time_is_the_clock_s() -> None:
    for clock, after, first in CLOCKS:
        found = world.flows_refresh.next_time(clock, datetime.fromisoformat(after).replace(tzinfo=UTC))
        assert found.astimezone(UTC).replace(tzinfo=None) == datetime.fromisoformat(first)
    for never in ("at three", "0 0 31 2 *", "", "0 0 3 * * 1"):
        with pytest.raises(world.WrongInput, match=r"stream\.clock must be five fields"):
            world.flows_refresh.next_time(never, datetime.now(UTC))

    async def in_a_notebook() -> datetime:
        return world.flows_refresh.next_time("0 3 * * *", datetime.now(UTC))

    assert asyncio.run(in_a_notebook()) > datetime.now(UTC)


def test_a_second_call_before_the_clock_s_next_time_is_answered_from_the_first(data: Path, home: Path) -> None:
    plan = world.parse_plan(weekly(data, clock="0 0 1 1 *"))
    arrive(data, 1)
    first = start_refresh(plan, home)
    arrive(data, 2)
    again = start_refresh(plan, home)
    assert (again.asked, again.asked_now, again.certificate_digest) == (1, 0, first.certificate_digest)
    with pytest.raises(world.BudgetRefused, match="a further session must be asked for"):
        start_refresh(world.parse_plan(weekly(data, clock="0 0 1 1 *", season=5)), home)
    publish_rows(data, 200, 99)
    other = start_refresh(plan, home)
    assert (other.session, other.asked_now, other.inferred) == (first.session, 0, 200)
    assert start_refresh(world.parse_plan(weekly(data)), home).asked == 2  # without a clock, each call is a release
    assert len(world.Ledger.of(home).sessions("people")) == 1


def test_a_clock_that_was_a_year_fast_stalls_no_schedule(
    data: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: nothing was released until the year was over, with exit status 0."""
    plan, a_year = world.parse_plan(weekly(data, clock="0 0 * * *")), timedelta(days=365)
    arrive(data, 1)
    fast = type("datetime", (datetime,), {"now": staticmethod(lambda zone: datetime.now(zone) + a_year)})
    with monkeypatch.context() as patch:
        patch.setattr(world.flows_refresh, "datetime", fast)
        start_refresh(plan, home)
    arrive(data, 2)
    assert [start_refresh(plan, home).asked for _ in range(2)] == [2, 2]


@pytest.mark.slow
def test_public_rows_may_be_others_at_every_refresh(data: Path, home: Path) -> None:
    """What is asked stays as it was in all seasons; labels are of the rows that are public by then."""
    plan, weeks = world.parse_plan(weekly(data, season=2)), (300, 200, 250, 150)
    (asked, _), charged = week_of(data, plan, home, 0, weeks[0]), world.Ledger.of(home).total("people")
    for week, death in enumerate(DEATHS, start=1):
        publish_rows(data, weeks[week] + 1, 70 + week)
        with killed_at(*death):
            start_refresh(plan, home)
        publish_rows(data, weeks[week], 80 + week)
        questions, found = week_of(data, plan, home, week, weeks[week])
        assert (questions, found.asked) == (asked, week % 2 + 1)
    assert (len(world.Ledger.of(home).sessions("people")), world.Ledger.of(home).total("people")) == (2, charged)
    assert [check for check in world.verify(home) if not check.ok] == []
    assert [check for check in world.verify_published(Path(found.certificate)) if not check.ok] == []
    publish_rows(data, 300, 99, without="size")
    with pytest.raises(world.WrongInput, match=facts("data.public", "'size'")):
        start_refresh(plan, home)
    publish_rows(data, weeks[0], 98)
    arrive(data, 4)
    with killed_at(world.flows_refresh, "keep_counted"):  # the stream's next season is open, and has asked nobody
        start_refresh(plan, home)
    publish_rows(data, 300, 99)
    another = start_refresh(plan, home, new_session=True)  # by codes of their own
    assert (another.session != found.session, another.asked) == (True, 1)
    assert world.Ledger.of(home).total("people").renyi > charged.renyi
    write_tables(data)  # the public rows of the first
    third = start_refresh(plan, home, new_session=True)
    assert (third.asked, world.Ledger.of(home).session(third.session).stream in streams_of(home)[:2]) == (1, False)
    assert start_refresh(plan, home, new_session=True).session == third.session
    publish_rows(data, 300, 97)
    assert start_refresh(plan, home).session != another.session  # the newest of all streams goes on
    assert [check for check in world.verify(home) if not check.ok] == []


def streams_of(home: Path) -> list[str]:
    """The streams of a home, in the order in which they began."""
    return [*dict.fromkeys(each.stream for each in world.Ledger.of(home).sessions("people"))]


def week_of(data: Path, plan: world.Plan, home: Path, week: int, rows: int) -> tuple[Any, world.Summary]:
    """A refresh after a file arrived, with so many public rows: what it asked, and its summary."""
    arrive(data, week)
    found = start_refresh(plan, home)
    labels = pl.read_ipc(home / "released" / found.session / "labels.arrow")
    assert (found.inferred, labels.height) == (rows, rows)
    return published(home, found)[-1]["questions"], found


def test_what_is_not_known_of_a_later_period_is_told_and_is_of_its_files_alone(
    data: Path, plan: world.Plan, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each unit is asked once, so that what is wrong with a delivery must show before it is counted."""
    arrive(data, 1)
    start_refresh(plan, home)
    assert "every private row is one of data.classes" in capsys.readouterr().err
    arrive(data, 2, people(1500, 12).with_columns(pl.col("outcome").str.to_uppercase()))
    assert start_refresh(plan, home).asked == 2
    told = capsys.readouterr().err
    assert "about 100% of the private rows have a label that data.classes lacks" in told
    assert "counts these units, which are not asked again" in told


@pytest.mark.slow
def test_what_stops_a_refresh_spends_and_loses_nothing(data: Path, plan: world.Plan, home: Path) -> None:
    good = arrive(data, 1)
    with pytest.raises(world.WrongInput, match=facts("[stream]", "`concord refresh`")):
        world.start(plan, home)
    with pytest.raises(world.WrongInput, match=facts("stream", "`concord run`")):
        start_refresh(plan.model_copy(update={"stream": None}), home)
    good.unlink()
    arrive(data, 1, people(1500, 1).drop("outcome"))
    with pytest.raises(world.WrongInput, match=facts("'outcome'", "data.label")):
        start_refresh(plan, home)
    assert world.Ledger.of(home).sessions("people") == ()
    first = arrive(data, 1)
    done = start_refresh(plan, home)
    for wrong in (people(1500, 2).drop("outcome"), people(1500, 2).with_columns(pl.lit(1).alias("person"))):
        second = arrive(data, 2, wrong)
        with pytest.raises(world.WrongInput, match=r"must (hold|store) the column"):
            start_refresh(plan, home)
        second.unlink()
    second = arrive(data, 2, people(1500, 2).with_columns(size=pl.lit(b"1")))
    with pytest.raises(world.WrongInput, match=r"'size' in a type that is not read as numeric, in .*2\.parquet"):
        start_refresh(plan, home)
    second.unlink()
    content = first.read_bytes()
    arrive(data, 1, people(1500, 3))
    with pytest.raises(world.NotVerified, match=facts("changed", "period")):
        start_refresh(plan, home)
    first.write_bytes(content)
    assert start_refresh(plan, home).asked == done.asked + 1
    for again in (False, True):  # no further season before this one has ended
        assert start_refresh(plan, home, new_session=again).session == done.session


@pytest.mark.slow
def test_a_new_season_asks_those_who_arrive_from_then_on_and_costs_nothing_more(data: Path, home: Path) -> None:
    """All that came before is known, though the season before was forgotten."""
    plan = world.parse_plan(weekly(data, season=2))
    for week in (1, 2):
        arrive(data, week)
        first = start_refresh(plan, home)
    charged = world.Ledger.of(home).total("people")
    arrive(data, 3, pl.concat([people(1500, 11), people(1500, 13)]))  # the first of them came in the first week
    with killed_at(world.flows_refresh, "keep_counted"):  # the next season is open, and has asked nobody
        start_refresh(plan, home)
    (new,) = {each.id for each in world.Ledger.of(home).sessions("people")} - {first.session}
    world.forget(world.Stores.of(home), first.session)
    second = start_refresh(plan, home)
    assert (second.asked, second.session) == (1, new)
    assert (second.spent_now["epsilon"], world.Ledger.of(home).total("people")) == (0, charged)
    (found,) = published(home, second)
    known = set(people(1500, 11)["person"]) | set(people(1500, 12)["person"])
    fresh = len(set(people(1500, 13)["person"]) - known)
    assert abs(units_read(found) - fresh) < 6 * found["scales"][1] * found["spread"] / found["questions"][1]["count"]
    assert found["decoded"]["units"] > 1.5 * fresh  # of both seasons
    third = start_refresh(plan, home)
    fourth = start_refresh(plan, home)  # a third season
    assert len({second.session, third.session, fourth.session}) == 2
    assert world.Ledger.of(home).total("people") == charged
    assert [check for check in world.verify(home) if not check.ok] == []
    for each in (second.session, fourth.session):
        world.close(world.Stores.of(home), each, give_back=False)
        world.forget(world.Stores.of(home), each)
    with pytest.raises(world.BudgetRefused, match=facts(fourth.session, "ended", "costs again")):
        start_refresh(plan, home)


def again_in(home: Path, session: str) -> list[tuple[world.Ref, ...]]:
    """What a season was counted to without whoever was erased."""
    door = world.Stores.of(home)
    return world.counted_again(door.vault, door.ledger.session(session), len(world.erased_units(door, "people")))


def sums_of(home: Path, periods: Sequence[Sequence[world.Ref]]) -> list[list[int]]:
    """The exact sums of labels of each period."""
    return [world.summed([each[1]], world.Vault(home / "vault"))[1].tolist() for each in periods]


@pytest.mark.slow
def test_who_is_erased_is_in_no_later_release_and_the_season_goes_on(data: Path, home: Path, tmp_path: Path) -> None:
    """What others add stays the same to the bit; the unit's name is still known, and what comes of it is left out. So
    it is if an older copy of the vault is put back, with the sums of before."""
    plan = world.parse_plan(weekly(data, season=5))
    for week in (1, 2):
        file = arrive(data, week)
        first = start_refresh(plan, home)
    before = sums_of(home, [each.sums for each in periods_of(home)])
    known = [set(people(1500, seed)["person"]) for seed in (11, 12)]
    erased, older = min(known[0]), shutil.copytree(home / "vault" / "sums", tmp_path / "sums")
    assert world.erase(world.Stores.of(home), "people", erased)
    assert not list((home / "vault" / "sums").rglob("*.npy"))
    shutil.copytree(older, home / "vault" / "sums", dirs_exist_ok=True)
    arrive(data, 3, people(1500, 11).filter(pl.col("person") == erased))
    content = file.read_bytes()
    people(1500, 14).write_parquet(file)
    with pytest.raises(world.NotVerified, match=facts("changed", "period")):
        start_refresh(plan, home)
    file.write_bytes(content)
    with killed_at(world.Ledger, "record_draw"):
        start_refresh(plan, home)
    second = start_refresh(plan, home)
    assert (second.session, second.asked, second.spent_now["epsilon"]) == (first.session, 3, 0)
    after, one = sums_of(home, again_in(home, first.session)), published(home, second)[0]["questions"][1]["count"]
    gone = np.subtract(before[0], after[0])
    assert (gone[-1], after[1], set(after[2])) == (one, before[1], {0})
    assert world.erase(world.Stores.of(home), "people", max(known[0]))
    assert start_refresh(plan, home).asked == 4
    assert np.subtract(after[0], sums_of(home, again_in(home, first.session))[0])[-1] == one
    file.unlink()
    assert start_refresh(plan, home).asked == 5
    assert [check for check in world.verify(home) if not check.ok] == []
    assert world.erase(world.Stores.of(home), "people", None)
    assert [path for path in (home / "vault" / "arrived").rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_an_older_copy_of_the_vault_stops_it(data: Path, plan: world.Plan, home: Path) -> None:
    arrive(data, 1)
    done = start_refresh(plan, home)
    (file,) = (home / "vault" / "streams" / "people").rglob(f"{done.session}-00000.json")
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(world.NotVerified, match=facts(done.session, "backup", "restore")):
        start_refresh(plan, home)
    file.write_bytes(content)
    (home / "vault" / periods_of(home)[0].sums[0].path).unlink()
    with pytest.raises(world.NotVerified, match="is missing or cannot be read"):
        start_refresh(plan, home)
    assert world.Ledger.of(home).session(done.session).batches == 1
