"""A clock that is set back by a day before any reading of it, by the product or MLflow: `run`, `extend` and `refresh`
go on, nothing is charged twice, no published time is earlier than the last private work, and no schedule stalls.
"""

import datetime
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow import utils as mlflow_utils
from mlflow.tracking import MlflowClient

from tests.promises.commands import plainly
from tests.support.people import Weeks, arrive, changed, people, tables_of_plan, write_tables
from tests.world import Ledger, Records, extend, flows_refresh, learn, mlflow_write, verify

pytestmark = pytest.mark.slow
TRUE = datetime.datetime
DAY = 86_400
SAMPLE = 3
"""Readings of a walk before which the clock is set back by default."""


@dataclass
class Clock:
    """Goes on by a second at each reading; is set back by a day before number `at`.

    days   by how many days it was set forward
    """

    at: int | None = None
    readings: int = 0
    days: int = 0

    def time(self) -> float:
        """Seconds since 1970, as `time.time`."""
        self.readings += 1
        back = self.at is not None and self.readings > self.at
        return 2e9 + self.readings + DAY * (self.days - back)

    def now(self, zone: datetime.tzinfo | None = None) -> datetime.datetime:
        return TRUE.fromtimestamp(self.time(), zone)

    def put_in(self, patch: pytest.MonkeyPatch) -> None:
        """Have every module of the product, and MLflow, read this clock."""
        assert mlflow_write  # loaded, as all modules that read a clock
        clock = type("datetime", (TRUE,), {"now": staticmethod(self.now)})
        for name, module in list(sys.modules.items()):
            if name.startswith("concord.") and vars(module).get("datetime") is TRUE:
                patch.setattr(module, "datetime", clock)
        patch.setattr(mlflow_utils.time, "time", SimpleNamespace(time=self.time))


Walk = Callable[[Clock, Path, Path], None]
"""Gives commands in a home, over a folder of tables, and examines the home after each."""


def examine(home: Path, said: set[str]) -> None:
    """Every check passes, and no time of a run that is not in `said` yet is before the last commit, or its start."""
    assert [check for check in verify(home) if not check.ok] == []
    last = [TRUE.fromisoformat(record.at) for record in Ledger.of(home).records() if record.kind == "commit"][-1]
    client = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    for run in (run for run in runs if run.info.run_id not in said):
        begun, end = run.info.start_time, run.info.end_time
        points = [client.get_metric_history(run.info.run_id, name) for name in run.data.metrics]
        assert last.timestamp() * 1000 <= begun <= min([end, *(point.timestamp for line in points for point in line)])
    session = Ledger.of(home).sessions("people")[-1].id
    assert Records.of(home).runs(session)[0] not in said  # the latest run is the one that is named first
    said.update(run.info.run_id for run in runs)


def labelled(_: Clock, home: Path, data: Path) -> None:
    """`run`, again, and `extend`."""
    said = set[str]()
    labeling = {"mechanism": "noisy_votes", "queries": 450, "batch": 128}
    plan = changed(tables_of_plan(data) | {"teachers": {"count": 20, "block": 10}, "labeling": labeling})
    learn(plan, home)
    examine(home, said)
    charged, (session,) = Ledger.of(home).total("people"), Ledger.of(home).sessions("people")
    learn(plan, home)
    extend(session.id, arrive(data / "more", 11), home)
    examine(home, said)
    assert len(Ledger.of(home).sessions("people")) == 1
    assert Ledger.of(home).session(session.id).asked > session.asked
    assert Ledger.of(home).total("people") <= charged


def refreshed(clock: Clock, home: Path, data: Path) -> None:
    """`refresh` on each of four days, of which two release a period at least."""
    said, weeks = set[str](), Weeks(data / "arriving")
    tables = {name: part for name, part in tables_of_plan(data).items() if name not in ("teachers", "student")}
    tables["data"]["private"] = "arriving"
    streams = {"labeling": {"mechanism": "tallies", "rows": 6000}, "stream": {"season": 9, "clock": "0 0 * * *"}}
    asked = list[int]()
    for _ in range(4):
        weeks.arrive()
        flows_refresh.refresh(changed(tables | streams), home)
        (session,) = Ledger.of(home).sessions("people")
        if session.asked > sum(asked[-1:]):
            examine(home, said)
        asked.append(session.asked)
        clock.days += 1
    assert asked[0] == 1
    assert asked[-1] >= 3


WALKS: tuple[Walk, ...] = (labelled, refreshed)


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
def test_a_clock_set_back_between_any_two_steps_changes_nothing(
    walk: Walk, tmp_path: Path, mlflow_database: Path, exhaustive: bool
) -> None:
    def readings(name: str, clock: Clock) -> int:
        """How often a clock is read in a walk."""
        home, data = tmp_path / name, write_tables(tmp_path / f"data {name}", people(800, 1))
        home.mkdir(mode=0o700)
        shutil.copy(mlflow_database, home / "mlflow.db")
        with pytest.MonkeyPatch.context() as patch, plainly():
            patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
            clock.put_in(patch)
            walk(clock, home, data)
        return clock.readings

    steps = range(readings("undisturbed", Clock()))
    for at in steps if exhaustive else steps[len(steps) // 6 :: len(steps) // SAMPLE]:
        readings(f"set back at {at}", Clock(at))
