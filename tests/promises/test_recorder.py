"""A session of each kind publishes of another table what it published of the first, to the byte, once mechanisms draw
the same; and each of eight planted leaks is found. What is frozen, and what is masked: tests/promises/recorder.py

Every kind at the door in the default tests, and each way of reading private rows as a whole run besides. Where
mechanisms draw the same, nothing else may depend on rows at all: the tables differ in many units, so that all private
numbers do. Of questions to shards the winner is what is released, so their tables differ in few.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.promises.canary import canary_tables, marked_labels
from tests.promises.kinds import KINDS, QUESTIONS, Kind, open_question
from tests.promises.recorder import Recording, drawing, in_all_modules, recorded
from tests.promises.runs import READERS, RUNS, Run, Tables, tallied
from tests.support.recorded import DRAWN
from tests.support.sums import Rounds

Capture = pytest.CaptureFixture[str]
Ask = Callable[[Path, bool], object]
"""Asks in a home, with the numbers of the one table or of the other."""


def both(ask: Ask, folder: Path, capture: Capture) -> tuple[Recording, Recording]:
    """The recordings of one table and of the other, in the same place one after the other."""
    made: list[Recording] = []
    for other in (False, True):
        (folder / "home").mkdir(parents=True, mode=0o700)
        made.append(recorded(partial(ask, folder / "home", other), folder, capture, made[0] if made else None))
        folder.rename(folder.with_name(f"{folder.name}-{len(made)}"))
    return made[0], made[1]


def check_equal(first: Recording, second: Recording) -> None:
    """Nothing differs but exact answers, and those do."""
    assert first.questions
    assert first.exact != second.exact
    assert first.outcomes.keys() == second.outcomes.keys()
    assert first.differing(second) == []


def test_every_mechanism_s_draws_are_frozen() -> None:
    frozen = {owner for owner, _ in drawing()}
    assert [name for name, mechanism in DRAWN.items() if frozen.isdisjoint(type(mechanism).__mro__)] == []


# At the door ----------------------------------------------------------------------------------------------------------


def at_door(kind: Kind, home: Path, other: bool) -> object:
    """All that a kind's session is asked, and what it published."""
    kind.prepare(home)
    if other and kind.name in QUESTIONS:
        open_question(home, kind.name, one_in=8)
        return kind.ask(home)
    return kind.ask(home, other)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_another_table_changes_nothing_at_the_door_but_what_is_drawn(
    kind: Kind, tmp_path: Path, capfd: Capture
) -> None:
    check_equal(*both(partial(at_door, kind), tmp_path / "world", capfd))


# Whole runs -----------------------------------------------------------------------------------------------------------


def tables_of(run: Run, folder: Path, *, other: bool) -> dict[str, Any]:
    """The tables of a plan; with `other`, those without every fifth unit, or, where labels alone are
    secret, with their labels swapped: a chain of neighbours, so that all private numbers differ."""
    rows, fifth = marked_labels(), pl.col("person").str.ends_with("7") | pl.col("person").str.ends_with("3")
    if other and run.labels:
        swapped = pl.when(pl.col("outcome") == "no").then(pl.lit("yes")).otherwise(pl.lit("no"))
        rows = rows.with_columns(outcome=pl.when(fifth).then(swapped).otherwise("outcome"))
    elif other:
        rows = rows.filter(fifth.fill_null(value=False).not_())
    tables = canary_tables(folder, rows, labels=run.labels)
    written = datetime(2001 + other, 1, 1, tzinfo=UTC).timestamp()
    for path in sorted((folder / tables["data"]["private"]).iterdir()):
        os.utime(path, (written, written))
    return tables


def whole(run: Run, mlflow_database: Path, home: Path, other: bool) -> object:
    """The run over a table, in an empty home, whose store is the one of MLflow's address."""
    shutil.copy(mlflow_database, home / "mlflow.db")
    with world.variables({"MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db"}):
        return run.ask(run.plan(tables_of(run, home.with_name("data"), other=other)), home)


@pytest.fixture
def folder(plain_home: Path, tmp_path: Path) -> Path:  # noqa: ARG001  # flows are plain functions
    """A folder for a home with its tables."""
    return tmp_path / "world"


@pytest.mark.slow
@pytest.mark.parametrize("run", READERS, ids=lambda run: run.name)
def test_another_table_changes_nothing_of_a_run_but_what_is_drawn(
    run: Run, folder: Path, mlflow_database: Path, capfd: Capture
) -> None:
    check_equal(*both(partial(whole, run, mlflow_database), folder, capfd))


# Planted leaks --------------------------------------------------------------------------------------------------------


class Exact:
    """The exact totals that tallies are drawn from: `last`, and those of first rounds.

    `some` is a fact about the first round's that holds of one of the two tables alone.
    """

    def __init__(self, patch: pytest.MonkeyPatch, least: int | None = None) -> None:
        self.last, self.firsts, self._least, release = 0, list[int](), least, world.Tallies.release

        def noted(mechanism: world.Tallies, number: int, sums: Any, source: Any) -> Any:
            self.last = int(np.abs(sums).sum())
            self.firsts += [self.last] * (number == 0)
            return release(mechanism, number, sums, source)

        patch.setattr(world.Tallies, "release", noted)

    @property
    def some(self) -> bool:
        return self._least is not None and bool(self.firsts) and self.firsts[-1] >= self._least


def when_published(patch: pytest.MonkeyPatch, leak: Callable[[world.Released, str, Any], Any]) -> None:
    """Do `leak` with each file that is published, before it is; it may return other content."""
    write = world.Released.write

    def leaking(released: world.Released, path: str, data: Any) -> world.Ref:
        changed = leak(released, path, data)
        return write(released, path, data if changed is None else changed)

    patch.setattr(world.Released, "write", leaking)


def in_a_file_s_name(patch: pytest.MonkeyPatch, exact: Exact) -> None:
    def leak(released: world.Released, path: str, _: Any) -> None:
        named = released.root / path.split("/")[0] / f"sums-of-{exact.last}"
        named.parent.mkdir(parents=True, exist_ok=True)
        named.touch()

    when_published(patch, leak)


def in_a_file_s_time(patch: pytest.MonkeyPatch, exact: Exact) -> None:
    write = world.Released.write

    def leaking(released: world.Released, path: str, data: Any) -> world.Ref:
        ref = write(released, path, data)
        if "rounds/" in path:
            os.utime(released.root / path, (10**9 + exact.last, 10**9 + exact.last))
        return ref

    patch.setattr(world.Released, "write", leaking)


def in_a_side_value(patch: pytest.MonkeyPatch, exact: Exact) -> None:
    def leak(_: world.Released, path: str, data: Any) -> Any:
        if "rounds/" in path:
            return json.dumps({**json.loads(data), "rows": exact.last}).encode()
        return None

    when_published(patch, leak)


def in_how_it_ends(patch: pytest.MonkeyPatch, exact: Exact) -> None:
    def leak(*_: Any) -> None:
        if exact.some:
            raise world.EnvironmentFailed("there is too little to learn from")

    when_published(patch, leak)


def on_the_console(patch: pytest.MonkeyPatch, exact: Exact) -> None:
    when_published(patch, lambda *_: world.err.print(f"   tally ✓ {exact.last} votes"))


def in_the_number_of_rounds(patch: pytest.MonkeyPatch, exact: Exact) -> None:
    """The last round is left out where the first says enough."""
    release = world.door_door.release

    def fewer(stores: Any, session: world.Session, steps: Any) -> list[world.Ref]:
        last = (session.queries or 0) - 1
        asked = takewhile(lambda step: not (exact.some and step.number and step.number == last), steps)
        return release(stores, session, asked) or stores.ledger.released_by(session.id)[-1:]

    in_all_modules(patch, release, fewer)


def in_the_next_question(patch: pytest.MonkeyPatch, exact: Exact) -> None:
    """What is asked follows from exact sums in place of noisy ones, as a cut computed from private rows would."""
    question = world.Tallies.question

    def peeking(
        mechanism: world.Tallies, number: int, fields: Any, spans: Any, model: world.IntegerModel | None = None
    ) -> Any:
        if model is not None and exact.some:
            model = world.IntegerModel(model.weights + 1, model.intercept)
        return question(mechanism, number, fields, spans, model)

    patch.setattr(world.Tallies, "question", peeking)


def beside_the_noise(patch: pytest.MonkeyPatch, exact: Exact) -> None:
    """What passes the door is not what the mechanism drew alone."""
    kept = world.Randomness.kept

    def shifted(source: world.Randomness, name: str, draw: Callable[[], Any]) -> Any:
        return [array + exact.some for array in kept(source, name, draw)]

    patch.setattr(world.Randomness, "kept", shifted)


LEAKS: dict[str, tuple[Callable[[pytest.MonkeyPatch, Exact], None], str]] = {
    "a private number in a file's name": (in_a_file_s_name, "sums-of-"),
    "a private number as a file's time": (in_a_file_s_time, "rounds/"),
    "an exact number beside the noisy ones": (in_a_side_value, "rounds/"),
    "an exit status": (in_how_it_ends, "the ending"),
    "a line on the console": (on_the_console, "the console"),
    "a number of rounds": (in_the_number_of_rounds, "the questions"),
    "a number that passes the door beside the noise": (beside_the_noise, "what passed the door"),
    "a question": (in_the_next_question, "the questions"),
}
"""By name, what is planted, and a place where it is found."""


def not_found(ask: Ask, folder: Path, capture: Capture) -> list[str]:
    """The names of planted leaks that leave no difference between the two tables, or not in their places. Each run is
    in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        exact = Exact(patch)
        first, second = both(ask, folder / "clean", capture)
    assert first.differing(second) == []
    one, other = exact.firsts
    assert one != other
    missed = []
    for number, (name, (leak, place)) in enumerate(LEAKS.items()):
        with pytest.MonkeyPatch.context() as patch:
            leak(patch, Exact(patch, max(one, other)))
            first, second = both(ask, folder / str(number), capture)
        if not any(place in found for found in first.differing(second)):
            missed.append(name)
    return missed


def test_planted_leaks_are_found_at_the_door(tmp_path: Path, capfd: Capture) -> None:
    def ask(home: Path, other: bool) -> object:
        return Rounds.in_home(home).all(rows=150 if other else 200)

    assert not_found(ask, tmp_path, capfd) == []


def often(tables: Tables) -> Tables:
    """Rounds of labels follow one another if units are many."""
    found = tallied(tables)
    return {**found, "labeling": {**found["labeling"], "rows": 99_000}}


@pytest.mark.exhaustive
def test_planted_leaks_are_found_in_a_run(folder: Path, mlflow_database: Path, capfd: Capture) -> None:
    (run,) = (replace(run, tables=often) for run in RUNS if run.name == "tallies")
    assert not_found(partial(whole, run, mlflow_database), folder, capfd) == []
