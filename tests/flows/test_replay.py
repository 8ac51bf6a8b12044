"""A run that is cached is answered without a flow engine, by what it left; what is not whole is run in full."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.people import changed
from tests.world import (
    ADDRESS_VARIABLE,
    AsItStands,
    Batch,
    Ledger,
    NotKept,
    NotVerified,
    Plan,
    Ref,
    Summary,
    Tracking,
    flows_serving,
    flows_start,
    is_known,
    learn,
    remember,
    replayed,
)

pytestmark = pytest.mark.usefixtures("prefect_server")


def replay(plan: Plan, home: Path) -> Summary | None:
    return replayed(lambda: learn.fn(plan, home))


def facts(summary: Summary) -> dict[str, Any]:
    return summary.model_dump(exclude={"stages": {"__all__": {"seconds"}}})


def ledger_entries(home: Path) -> int:
    return len(Ledger.of(home).records())


def sizes(home: Path) -> dict[str, int]:
    return {str(file.relative_to(home)): file.stat().st_size for file in home.rglob("*") if file.is_file()}


def test_a_replay_says_what_the_full_run_says_and_writes_nothing(session: str, plan: Plan, home: Path) -> None:
    full = flows_start.start(plan, home)
    entries, runs = ledger_entries(home), Tracking.of(home).runs(session)
    replay(plan, home)
    before = sizes(home)
    again = replay(plan, home)
    assert again is not None
    assert facts(again) == facts(full)
    assert all(stage.cached for stage in again.stages)
    assert (ledger_entries(home), Tracking.of(home).runs(session)) == (entries, runs)
    assert sizes(home) == before  # a home does not grow, however often it is asked


def test_a_replay_asks_mlflow_only_if_something_changed(
    session: str, plan: Plan, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, of = replay(plan, home), Tracking.of
    monkeypatch.setattr(Tracking, "of", None)  # calling it fails
    again = replay(plan, home)
    assert first is not None
    assert again is not None
    assert facts(again) == facts(first)
    of(home)._client.delete_run(first.run_id)
    with pytest.raises(TypeError):
        replay(plan, home)
    monkeypatch.undo()
    back = replay(plan, home)
    assert back is not None
    assert Tracking.of(home).runs(session) == [back.run_id] != [first.run_id]


@pytest.mark.usefixtures("session")
def test_a_known_plan_needs_no_server(plan: Plan, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS_VARIABLE)
    assert is_known(plan, home)
    monkeypatch.setattr(flows_serving, "serving_flows", None)  # calling it fails
    assert all(stage.cached for stage in flows_start.start(plan, home).stages)
    assert not is_known(changed(plan, student__refused="drop"), home)
    monkeypatch.setenv(ADDRESS_VARIABLE, "http://127.0.0.1:1/api")
    assert not is_known(plan, home)  # its owner wants every run on its record


def test_what_is_not_whole_is_run_in_full(session: str, plan: Plan, home: Path) -> None:
    teachers = next(file for file in (home / "vault" / "teachers").rglob("*") if file.is_file())
    results, released = home / "results", home / "released" / session
    edits = {teachers: b"", next(results.glob("poll-*")): b"", next(results.glob("study-*")): b"!}"}
    entries = ledger_entries(home)
    for file, edit in {**edits, released / "student.skops": b"!"}.items():
        whole = file.read_bytes()
        file.write_bytes(whole[: -len(edit) - 1] + edit) if edit else file.unlink()
        assert replay(plan, home) is None, file.name
        file.write_bytes(whole)
    assert ledger_entries(home) == entries
    file = next((released / "labels").iterdir())
    file.write_bytes(file.read_bytes() + b"!")
    with pytest.raises(NotVerified):  # what was released is not made anew
        replay(plan, home)


@pytest.mark.usefixtures("session")
def test_a_replay_opens_no_session_and_looks_at_no_private_row(
    plan: Plan, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = changed(plan, privacy__epsilon=0.5)
    capsys.readouterr()
    assert replayed(lambda: learn.fn(other, home, new_session=True)) is None
    assert len(Ledger.of(home).sessions("people")) == 1
    assert "check" not in capsys.readouterr().err


def test_a_ledger_as_it_stands_gives_no_batch_that_is_not_committed(session: str, home: Path) -> None:
    """Else the door would draw for it."""
    ledger = Ledger.of(home)
    known = ledger.session(session)
    batch = Batch(index=known.batches, first=known.next_row, rows=2, question_digest="a" * 64, exact_digest="b" * 64)
    with pytest.raises(NotKept):
        AsItStands.of(home).begin_batch(session, batch)
    assert len(ledger.batches(session)) == known.batches
    ledger.begin_batch(session, batch)
    with pytest.raises(NotKept):
        AsItStands.of(home).begin_batch(session, batch)
    released = Ref(path="x", digest="0" * 64)
    with pytest.raises(NotKept):
        AsItStands.of(home).commit_batch(session, batch.released_as(released, answered=2))


def test_word_of_a_run_is_no_result(plan: Plan, home: Path) -> None:
    """Whoever leaves such a file in a home has the replay tried first, and nothing believed."""
    (home / "results").mkdir(parents=True, exist_ok=True)
    remember(plan, home)
    assert replay(plan, home) is None
