"""A stream at the change of its season, killed there at one step after another: nothing is drawn or charged twice, and
every unit is in one period. Planted faults are rejected.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.promises.commands import Commands, killed
from tests.promises.walks import files
from tests.support.made import sums_of
from tests.support.people import Weeks, changed, tables_of_plan
from tests.world import Ints, Ledger, PeriodCounts, Randomness, Vault, flows_refresh, periods_counted, verify

STEPS = {
    "tests.world.flows_refresh.arrive": "before it is counted",
    "tests.world.flows_refresh.keep_counted": "before the count is on record",
    "tests.world.Ledger.begin_batch": "before it is begun",
    "tests.world.Ledger.commit_batch": "before it is committed",
}


def refreshing(home: Path, data: Path) -> None:
    tables = {name: section for name, section in tables_of_plan(data).items() if name not in ("teachers", "student")}
    tables["data"]["private"] = "arriving"
    streams = {"labeling": {"mechanism": "tallies", "rows": 6000}, "stream": {"season": 2}}
    flows_refresh.refresh(changed(tables | streams), home)


def counted(home: Path) -> list[PeriodCounts]:
    vault = Vault(home / "vault")
    return [found for each in Ledger.of(home).sessions("people") for found in periods_counted(vault, each)]


def units_of(home: Path, periods: Sequence[PeriodCounts]) -> list[int]:
    """The exact sums of the constant, which each unit moves alike."""
    return [int(sums_of([each.sums[1]], Vault(home / "vault"))[-1]) for each in periods]


def drawn(home: Path) -> dict[str, bytes]:
    return {path: content for path, content in files(home / "vault").items() if path.endswith(".npz")}


def drawn_again(source: Randomness, name: str, make: Callable[[], Sequence[Ints]]) -> list[Ints]:
    """As `kept`, whatever was drawn before."""
    made = list(make())
    with source.vault.create(f"sessions/{source.session}/{name}.npz") as sink:
        sink.write(b"".join(noisy.tobytes() for noisy in made))
    return made


def nobody(_: object) -> tuple[()]:
    return ()


PLANTED: dict[str, dict[str, Callable[..., Any]]] = {
    "noise is drawn again": {"tests.world.Randomness.kept": drawn_again},
    "a period knows nobody whom earlier ones asked": {"tests.world.flows_refresh._names_of": nobody},
}


def go_through(commands: Commands, steps: Sequence[str]) -> Path:
    """A home after two seasons, the first refresh of the second killed at those steps, of which the last two come when
    its count is on record: what arrives after that waits. Raises AssertionError if a promise is broken."""
    home, weeks = commands.home("home"), Weeks(commands.data / "arriving")
    for _ in range(2):
        weeks.arrive()
        commands.go(home)
    charged, (first,) = Ledger.of(home).total("people"), Ledger.of(home).sessions("people")
    before, units = drawn(home), units_of(home, counted(home))
    assert (first.status, len(before)) == ("spent", 2)
    for place in steps:
        weeks.arrive()
        killed(refreshing, home, commands.data, place, **commands.patch)
        assert before.items() <= drawn(home).items(), STEPS[place]
        before = drawn(home)
    assert len(before) == 3
    commands.go(home)
    assert drawn(home) == before
    commands.go(home)
    assert len(drawn(home)) == 4
    late = 1 + len(steps)
    periods = [[0], [1], [*range(2, late)], [late]]
    assert [len(each.period.files) for each in counted(home)] == [len(weeks) for weeks in periods]
    assert (len(Ledger.of(home).sessions("people")), Ledger.of(home).total("people")) == (2, charged)
    assert not (home / "vault" / "sums" / "people" / first.id).exists()  # nobody needs them any more
    units += units_of(home, counted(home)[2:])
    known, expected = set[Any](), list[int]()
    for taken in periods:
        arrived = set[Any]().union(*(weeks.persons[week] for week in taken)) - known
        known |= arrived
        expected.append(len(arrived))
    assert [each // (units[0] // expected[0]) for each in units] == expected
    return home


@pytest.mark.slow
def test_a_change_of_season_that_is_killed_is_finished_by_the_next(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = go_through(Commands(refreshing, tmp_path, mlflow_database, {}), list(STEPS))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    assert [check for check in verify(home) if not check.ok] == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_rejected(tmp_path: Path, mlflow_database: Path, fault: str) -> None:
    with pytest.raises(AssertionError):
        go_through(Commands(refreshing, tmp_path, mlflow_database, PLANTED[fault]), list(STEPS)[2:])
