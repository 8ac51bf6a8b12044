"""No kind of release tells anything but what it releases, however it ends: not an exact number that it is drawn from,
no private value, and no moment before the last private work.

On success, over all kinds of `tests.promises.runs`. For each way of reading private rows, and each way of being drawn
and replayed: if its private work fails with rows in the message; killed at each step of the door, and resumed; refused;
and after an erasure. Where labels alone are secret, features, units and the
number of rows are not searched for, since the plan declares them public.
"""

import json
from collections.abc import Callable, Container
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.promises.canary import NAME, VALUE, canary_tables, marked_labels, moments_between, published
from tests.promises.kept import KINDS as PRIVATE
from tests.promises.kept import files, sequences, set_aside
from tests.promises.kinds import KINDS
from tests.promises.marks import LENGTH, OF_TWO, Marks, leaks
from tests.promises.runs import READERS, RUNS, STAGES_OF_OTHERS, Run, far_off
from tests.promises.scene import Scene
from tests.support.homes import dies
from tests.world import BudgetRefused, ConcordError, EnvironmentFailed, Ledger, Released, erased, show_erasure

ALWAYS = ("tallies", "estimate", "question")
"""Kinds of the default tests; votes are in test_canary.py."""
ENDING = {*(run.name for run in READERS), "noisy_votes", "questions", "test"}
"""Kinds that are ended in every way: one for each way of reading, and besides, noise that is on record, a session that
stays open, and a test after a run."""
UNIT = f"{VALUE}-unit-p1-17"


def some(names: Container[str]) -> pytest.MarkDecorator:
    """Some kinds in place of all."""
    seldom: Any = pytest.mark.exhaustive
    chosen = [
        pytest.param(run, marks=seldom if run.name in STAGES_OF_OTHERS else (), id=run.name)
        for run in RUNS
        if run.name in names
    ]
    return pytest.mark.parametrize("run", chosen, indirect=True)


@pytest.fixture(
    params=[pytest.param(run, marks=[] if run.name in ALWAYS else pytest.mark.slow, id=run.name) for run in RUNS]
)
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


@pytest.fixture
def scene(scene: Scene, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    totals, known = far_off(monkeypatch), Marks.of_labels if run.labels else Marks.of

    def marks(private: Path, home: Path) -> Marks:
        found = run.more(home, known(private, home))
        for total in totals:
            found = found.with_total("the total that was released with noise", total)
        return found

    scene.marks_of = marks
    if run.labels:
        scene.tables = canary_tables(tmp_path / "labelled", marked_labels(), labels=True)
    return scene


def test_every_kind_is_run() -> None:
    assert {kind.name for kind in KINDS} <= {run.name for run in RUNS}


def test_it_publishes_nothing_private_and_no_moment_before_the_last_private_work(scene: Scene, run: Run) -> None:
    before = datetime.now(UTC)
    run.ask(run.plan(scene.tables), scene.home)
    marks = scene.marks()
    scene.nothing_got_out(marks)
    private = [path for kind in PRIVATE for path in files(scene.home, kind)]
    last = max(path.stat().st_mtime for path in private)
    assert list(moments_between(published(scene.home), before.timestamp(), last)) == []
    assert list(moments_between(published(scene.home), last, datetime.now(UTC).timestamp()))  # they would be seen
    planted_are_found(run, scene.home, marks)


def planted_are_found(run: Run, home: Path, marks: Marks) -> None:
    """The planted bug: what a kind is drawn from, in a released file, in the spellings of text and of arrays."""
    found, file = [*sequences(home), *set_aside(home)], home / "released" / "planted"
    assert all(any(what.startswith(made) for what, _ in found) for made in run.made)
    for what, numbers in found:
        if len(numbers) < (LENGTH if len(set(numbers.tolist())) > 2 else OF_TWO) and not what.startswith("units of"):
            continue  # too short to be told from anything else
        for spelt in (numbers.tobytes(), numbers.astype("<f8").tobytes(), json.dumps(numbers.tolist()).encode()):
            file.write_bytes(b"of them [" + spelt)
            assert any(what in leak for leak in leaks([file], marks)), what


# However it ends ----------------------------------------------------------------------------------------------------


def telling(*given: Any, **named: Any) -> Any:
    raise ArithmeticError(f"{VALUE}: {given} {named}")  # a bug, with rows or counts in its message


Step = tuple[type, str]
PUBLISH: tuple[Step, ...] = ((Released, "write"),)
DOOR: tuple[tuple[tuple[Step, ...], Callable[..., Any]], ...] = (
    (((Ledger, "begin_batch"),), dies),
    (((Ledger, "record_draw"), *PUBLISH), dies),
    (PUBLISH, dies),
    (((Ledger, "commit_batch"),), telling),
)
"""What is called with a session's name, or a path that begins with it, at each step of a batch; and how that fails.
Keyed draws are not on record."""


def failing(run: Run, home: Path, true: Callable[..., Any], fault: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which fails for the sessions of that kind."""

    def step(owner: Any, about: str, *given: Any, **named: Any) -> Any:
        name = about.split("/")[0]
        known = [session for session in Ledger.of(home).sessions("people") if session.id == name]
        if known and known[0].mechanism["name"] == run.draws:
            fault(about, *given, **named)
        return true(owner, about, *given, **named)

    return step


def without_labels(private: Path) -> None:
    """The column of labels has another name, with a private value."""
    for path in private.iterdir():
        if path.suffix == ".csv":
            path.write_text(path.read_text().replace("outcome", f"{NAME}-{VALUE}", 1))
        else:
            pl.read_parquet(path).rename({"outcome": f"{NAME}-{VALUE}"}).write_parquet(path)


@pytest.mark.slow
@some([run.name for run in READERS])
def test_a_table_without_its_labels_tells_nothing(scene: Scene, run: Run) -> None:
    without_labels(scene.private)
    scene.refuses(ConcordError, lambda: run.ask(run.plan(scene.tables), scene.home))


class TestHoweverItEnds:
    """Without Prefect's engine, whose record of failures is searched in test_canary_failures.py."""

    @pytest.fixture
    def home(self, plain_home: Path) -> Path:
        return plain_home

    @pytest.mark.slow
    @some(ENDING)
    def test_it_tells_nothing_however_it_ends(self, scene: Scene, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        plan, home = run.plan(scene.tables), scene.home

        def ask() -> object:
            return run.ask(plan, home)

        for work in run.works:
            with monkeypatch.context() as patch:
                patch.setattr(work, telling)
                assert "nothing of the data is shown" in scene.refuses(EnvironmentFailed, ask)
        for places, fault in DOOR:
            with monkeypatch.context() as patch:
                for owner, step in places:
                    patch.setattr(owner, step, failing(run, home, getattr(owner, step), fault))
                scene.refuses(KeyboardInterrupt if fault is dies else EnvironmentFailed, ask)
        ask()
        before = scene.marks()
        scene.nothing_got_out(before)
        other = run.plan(scene.tables, **dict(run.other))
        scene.refuses(BudgetRefused, lambda: run.ask(other, home))
        result = erased(home, "people", UNIT)
        show_erasure(result)
        scene.messages.append(json.dumps(result))
        scene.nothing_is_left(before, result["goes_on"])
        if result["goes_on"]:
            ask()
        else:
            scene.refuses(BudgetRefused, ask)
        scene.nothing_got_out(before)
