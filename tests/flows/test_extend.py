"""A session goes on with more public rows: the same teachers, mechanism and key, paid for as it goes; and it ends."""

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.homes import certified_rows, charged, labels_of, state_of
from tests.support.people import arrive, changed, people, write_plan, write_tables
from tests.support.sentences import facts, says


@pytest.mark.usefixtures("prefect_server")
def test_more_rows_are_answered_in_the_same_session(
    session: str, plan: world.Plan, home: Path, arriving: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, charge, read, since = labels_of(home, session), charged(home), list[int](), world.LedgerRows.since

    def noted(rows: world.LedgerRows, seq: int) -> list[world.LogRecord]:
        read.append(seq)
        return since(rows, seq)

    monkeypatch.setattr(world.LedgerRows, "since", noted)
    summary = world.start_extension(session, arriving, home)
    assert read.count(0) == 1  # the whole chain, which takes seconds at 100,000 batches
    assert (summary.session, summary.asked, summary.asked_now) == (session, 450, 150)
    assert summary.student["accuracy"] > 0.8
    assert labels_of(home, session).items() > before.items()
    assert certified_rows(home, summary)["row"].to_list() == list(range(450))
    assert summary.spent_now == {"epsilon": 0.0, "delta": 0.0}  # the session's reservation covers its refusals
    assert charged(home) == charge
    assert [batch.first for batch in world.Ledger.of(home).batches(session)] == [0, 128, 256, 300, 428]
    again = world.start(plan, home)  # the plan goes on with the whole session, from cache
    assert all(report.cached for report in again.stages)
    assert (again.certificate, again.asked, again.asked_now) == (summary.certificate, 450, 0)
    assert again.run_id == summary.run_id


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_rows_that_were_put_before_are_not_asked_again(
    session: str, plan: world.Plan, home: Path, tmp_path: Path
) -> None:
    """The plan's own file, the same rows by another name and in another format, and all but new files of a folder."""
    state = state_of(home, session)
    pl.read_parquet(plan.path("public")).write_ipc(tmp_path / "copy.arrow")
    for known in (Path(plan.path("public")), tmp_path / "copy.arrow"):
        assert world.start_extension(session, known, home).asked_now == 0
    assert state_of(home, session)[:2] == state[:2]
    folder = arrive(tmp_path / "arriving", 11)
    first, again = (world.start_extension(session, folder, home) for _ in range(2))
    assert (again.asked_now, again.run_id, again.asked) == (0, first.run_id, first.asked)
    assert all(report.cached for report in again.stages)
    last = world.start_extension(session, arrive(folder, 12, rows=40), home)
    assert (last.asked_now, last.asked) == (40, 490)


WRONG: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "a feature absent": lambda rows: rows.drop("size"),
    "another type": lambda rows: rows.with_columns(size=pl.lit("tall")),
    "no rows": pl.DataFrame.clear,
}


def test_a_wrong_table_is_told_and_nothing_is_spent(session: str, home: Path, arriving: Path) -> None:
    state = state_of(home, session)
    for made in (*WRONG.values(), None):
        if made is None:
            (arriving / "wrong.parquet").write_bytes(b"PAR1 is not enough")
        else:
            made(people(20, 4)).write_parquet(arriving / "wrong.parquet")
        with pytest.raises(world.WrongInput, match="--public"):
            world.start_extension(session, arriving, home)
    with pytest.raises(world.WrongInput, match="--public"):
        world.start_extension(session, arriving / "nowhere", home)
    assert state_of(home, session) == state


@pytest.mark.slow
def test_rows_after_the_cutoff_are_not_asked_and_the_run_still_agrees(
    session: str, plan: world.Plan, home: Path
) -> None:
    """The session ends within an extension; what it was given stays given, and is certified as not asked."""
    folder = home.parent / "arriving"
    for seed in range(20, 26):
        arrive(folder, seed, rows=400)
    summary = world.start_extension(session, folder, home)
    ledger = world.Ledger.of(home).session(session)
    assert (ledger.status, summary.refused) == ("spent", plan.labeling.cutoff)
    outcomes = certified_rows(home, summary)["outcome"].value_counts()
    assert dict(outcomes.iter_rows())["not asked"] == 2700 - summary.asked
    assert world.start(plan, home).run_id == summary.run_id
    with pytest.raises(world.RowsNotPaid) as unpaid:
        world.start_extension(session, folder, home)
    assert unpaid.value.summary.run_id == summary.run_id
    taught_again = world.study_again(session, home, world.StudentPlan(refused="drop"))
    # its unasked rows count as for `run`
    assert taught_again.run_id == world.start(changed(plan, student__refused="drop"), home).run_id
    assert all(check.ok for check in world.verify(home))


PAID_BY_ROW = {"mechanism": "noisy_votes", "queries": 400, "batch": 128}


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_rows_that_are_not_paid_for_are_named_and_stay_to_be_asked(
    plan: world.Plan, home: Path, tmp_path: Path, concord: Callable[..., tuple[int, str, str]]
) -> None:
    """600 rows for 100 that are left. Before: Completed, with 100 rows asked, and then NothingNew and exit status 0."""
    own = world.start(changed({**plan.model_dump(), "labeling": PAID_BY_ROW}), home)
    more = {"session": own.session, "public": str(arrive(tmp_path / "more", 20, rows=600)), "home": home}
    partly: Any = world.start_extension(**more, return_state=True)
    assert (partly.name, partly.is_completed()) == ("Partly", True)
    assert "100 rows queried now" in partly.message
    assert "500 not queried" in partly.message
    refused: Any = world.start_extension(**more, return_state=True)
    assert (refused.name, refused.is_failed()) == ("BudgetRefused", True)
    asked = ("extend", own.session, "--public", more["public"])
    for status, out, err in (concord(*asked), concord(*asked, "--json")):
        assert (status, "nothing new" in out) == (3, False)
        assert says(err, own.session, "ended", "500 public rows")
    assert (json.loads(out)["asked"], json.loads(out)["not_asked"]) == (400, 500)
    arrive(tmp_path / "more", 21, rows=30)
    assert "530 public rows have no label" in concord(*asked)[2]
    with pytest.raises(world.RowsNotPaid) as unpaid:
        world.start_extension(own.session, Path(plan.path("public")), home)
    assert unpaid.value.summary.asked == 400
    assert all(check.ok for check in world.verify(home))


@pytest.mark.slow
@pytest.mark.parametrize(
    "pays", [{"labeling__mechanism": "noisy_votes", "labeling__queries": 200}, {"labeling__cutoff": 1}]
)
@pytest.mark.usefixtures("prefect_server")
def test_a_run_whose_plan_pays_for_fewer_rows_names_the_others(
    home: Path, tmp_path: Path, concord: Callable[..., tuple[int, str, str]], pays: dict[str, Any]
) -> None:
    """It is no failure, since the plan says so. Before: Completed, then NothingNew, without a word."""
    fewer = write_plan(write_tables(tmp_path), **{"labeling__cutoff": None, **pays})
    for _ in range(2):
        state: Any = world.start(plan=fewer, home=home, return_state=True)
        assert (state.name, state.is_completed()) == ("Partly", True)
    again = world.run(fewer, home=home)
    assert again.not_asked == 300 - again.summary.asked > 0
    assert f"{again.not_asked} not queried" in state.message
    status, out, _ = concord("run", str(fewer))
    assert (status, f"{again.not_asked} not queried" in out) == (0, True)


@pytest.mark.slow
def test_rows_that_come_twice_in_the_plan_s_own_table_are_asked_once(
    plan: world.Plan, home: Path, tmp_path: Path
) -> None:
    rows = pl.read_parquet(plan.path("public")).head(128)
    pl.concat([rows, rows, rows.head(40)]).write_parquet(tmp_path / "twice.parquet")
    summary = world.start(changed(plan, data__public=str(tmp_path / "twice.parquet")), home)
    assert summary.asked == 128 + 40
    assert certified_rows(home, summary)["row"].to_list() == list(range(168))


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_each_command_says_which_other_one_puts_back_what_it_lacks(
    session: str, plan: world.Plan, home: Path, arriving: Path
) -> None:
    """Teachers come back by the run, later rows by the extension they came from, and neither spends."""
    shutil.rmtree(home / "vault" / "teachers")
    state = state_of(home, session)
    with pytest.raises(world.NotVerified, match="concord run PLAN"):
        world.start_extension(session, arriving, home)
    assert state_of(home, session) == state
    world.start(plan, home)
    assert world.start_extension(session, arriving, home).asked_now == 150
    recipe, labels = world.read_checkpoint(world.Stores.of(home), session), labels_of(home, session)
    assert recipe is not None
    shutil.rmtree((home / "vault" / recipe.sources[1].batches[0].ref.path).parent)
    with pytest.raises(world.NotVerified, match=facts("concord extend", "11.parquet")):
        world.start(plan, home)
    assert world.start_extension(session, Path(recipe.sources[1].path), home).asked_now == 0
    assert world.start(plan, home).asked == 450
    for folder in ("results", "vault/public", "vault/shards", "vault/teachers", "vault/votes"):
        shutil.rmtree(home / folder)
    with pytest.raises(world.NotVerified, match="concord run PLAN"):
        world.start_extension(session, arriving, home)
    with pytest.raises(world.NotVerified, match=facts("concord extend", "11.parquet")):
        world.start(plan, home)
    assert (charged(home), labels_of(home, session)) == (state[0], labels)


@pytest.mark.slow
def test_a_recipe_taken_back_is_seen(session: str, plan: world.Plan, home: Path, arriving: Path) -> None:
    """With the older recipe fewer rows are walked than the ledger counts: nothing is certified."""
    stores = world.Stores.of(home)
    old = world.read_checkpoint(stores, session)
    assert old is not None
    world.start_extension(session, arriving, home)
    world.write_checkpoint(stores, session, old)
    with pytest.raises(world.NotVerified, match="but the ledger has"):
        world.start(changed(plan, student__refused="drop"), home)


def free(lock: Path) -> bool:
    """Whether nobody holds that lock."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("by", ["extend", "run"])
def test_one_command_at_a_time_goes_on_with_a_session(
    session: str, plan: world.Plan, home: Path, arriving: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    lock, seen = home / "vault" / "sessions" / session / world.RUN, []
    true = world.Released.labels

    def looking(released: world.Released, refs: Any) -> Any:
        seen.append(free(lock))
        return true(released, refs)

    monkeypatch.setattr(world.Released, "labels", looking)
    other = changed(plan, student__refused="drop")
    world.start(other, home) if by == "run" else world.start_extension(session, arriving, home)
    assert seen
    assert not any(seen)
    assert free(lock)


def test_later_rows_are_files_of_this_machine(tmp_path: Path) -> None:
    """And an address, which may hold a password, is not shown; before anything is looked at."""
    with pytest.raises(world.WrongInput, match=facts("s3://", "copy")) as refused:
        world.start_extension("people-1", Path("s3://someone:hunter2@ward/later"), tmp_path)
    assert "hunter2" not in str(refused.value)
