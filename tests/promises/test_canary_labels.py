"""If labels alone are secret, no label leaks, however a run ends.

Searched for: marked labels as written; the labels that teachers learned from, in order, and how many are of the second
class; plain digests of files that hold labels; votes, error counts, hypotheses and keys made from them. Not searched
for, since the plan declares them public: features, units, and the number of rows. Published files are searched for
names of files and columns, as everywhere.
"""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from concord.artifacts.errors import BudgetRefused, ConcordError, EnvironmentFailed, WrongInput
from concord.flows.cli.show import erased
from tests.promises.canary import NAME, VALUE, canary_tables, marked_labels
from tests.promises.kept import sequences
from tests.promises.marks import Marks
from tests.promises.scene import Scene

STUDENT = {"learner": "universal", "hypotheses": "thresholds", "features": ["size"]}


@pytest.fixture
def scene(scene: Scene, tmp_path: Path) -> Scene:
    """A fifth of the units become public rows: fewer than the counts searched for, since public rows are numbered."""
    tables = canary_tables(tmp_path / "labelled", marked_labels())
    for path in sorted((tmp_path / "labelled" / tables["data"]["private"]).iterdir()):
        pl.read_csv(path).write_parquet(path.with_suffix(".parquet"))
        path.unlink()
    tables["data"] |= {"public_share": 0.2, "features": ["size", "shade", "visits"]}
    del tables["data"]["public"]
    tables["privacy"] |= {"secret": "labels"}
    tables["labeling"] = {"mechanism": "noisy_votes", "queries": 5000}
    scene.tables, scene.marks_of = tables, Marks.of_labels
    return scene


def test_a_run_publishes_no_label(scene: Scene) -> None:
    assert 1200 < scene.run().asked < 2000
    assert any(what.startswith("labels of shards") for what, _ in sequences(scene.home))
    truth = marked_labels()["outcome"].to_list()
    assert scene.marks().found(" ".join(truth).encode())  # they would be seen
    scene.nothing_got_out(scene.marks().with_total("labels of the table", truth.count("yes")))


@pytest.mark.slow
def test_tallies_of_labels_publish_no_label(scene: Scene) -> None:
    """Tallies are decoded with the units' features; what is published of those contains no label."""
    scene.tables = {name: part for name, part in scene.tables.items() if name not in ("teachers", "student")}
    scene.tables["labeling"] = {"mechanism": "tallies", "rounds": 1, "batch": 128}
    assert scene.run().asked == 1
    found = [what for what, _ in sequences(scene.home)]
    assert any(what.startswith("labels of units") for what in found)
    assert any(what.startswith("sums of sums") for what in found)
    scene.nothing_got_out()


@pytest.mark.slow
def test_a_student_chosen_by_labels_alone_tells_no_error_count(scene: Scene) -> None:
    scene.tables = {name: part for name, part in scene.tables.items() if name not in ("teachers", "labeling")}
    scene.tables["student"] = STUDENT
    assert scene.run().asked == 1
    assert any(what.startswith("errors of counts") for what, _ in sequences(scene.home))
    scene.nothing_got_out()
    scene.fails(WrongInput, student__hypotheses="forests")
    assert "--new-session" in scene.fails(BudgetRefused, privacy__epsilon=1.0)


@pytest.mark.slow
def test_failures_tell_no_label(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug at the door with votes in its message, teachers that tell, a full disk, and an erasure before the rest."""

    def telling(*arguments: Any, **_: Any) -> None:
        raise ArithmeticError(f"{VALUE}: {arguments}")

    with monkeypatch.context() as patch:
        patch.setattr("concord.artifacts.ledger.ledger.Ledger.commit_batch", telling)
        scene.fails(EnvironmentFailed)
    scene.run(teachers__estimator="tests.promises.tellers.Teller", data__version="told", new_session=True)
    scene.nothing_got_out()
    before = scene.marks()
    erased(scene.home, "people", f"{VALUE}-unit-p1-17")
    scene.fails(BudgetRefused)
    scene.nothing_got_out(before)
    scene.nothing_is_left(before)


@pytest.mark.slow
def test_a_table_whose_labels_cannot_be_read_tells_nothing(scene: Scene) -> None:
    for path in scene.private.iterdir():
        pl.read_parquet(path).rename({"outcome": f"{NAME}-{VALUE}"}).write_parquet(path)
    scene.fails(ConcordError)
