"""Failures reveal nothing private: before the door, at it, after it, and at the end of a session."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.promises.canary import NAME, VALUE, private_rows, relabelling
from tests.promises.kept import drawn, files
from tests.promises.scene import Scene


def headless(private: Path) -> None:
    """A private file without a header, so that its first line is a row, with two equal cells."""
    (private / f"{NAME}-0.csv").write_text(f"{VALUE}-1,{VALUE}-2,{VALUE}-1\n" * 9)


def another_format(private: Path) -> None:
    (private / f"{NAME}-0.csv").write_bytes(f"PAR1 {VALUE}".encode())
    for other in ("1", "2"):
        (private / f"{NAME}-{other}.csv").unlink()


def half_a_table(private: Path) -> None:
    table = private_rows()
    for path in private.iterdir():
        table.write_parquet(path, compression="uncompressed", row_group_size=1000)
    rows = path.read_bytes()
    path.write_bytes(rows[:4] + b"?" * 20000 + rows[20004:])


@pytest.mark.parametrize("spoil", [headless, another_format, half_a_table])
def test_a_private_table_that_cannot_be_read_tells_nothing(scene: Scene, spoil: Callable[[Path], None]) -> None:
    spoil(scene.private)
    scene.fails(world.ConcordError)


def test_a_machine_that_gives_out_tells_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MemoryError" in scene.fails(world.EnvironmentFailed, teachers__estimator="tests.promises.tellers.Glutton")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", f"/disk/{VALUE}")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in scene.fails(world.EnvironmentFailed)


@contextmanager
def damaged(votes: Sequence[Path], *, at: int) -> Iterator[None]:
    """Damage nine bytes of each file. Votes counted ahead of the session's end are never read."""
    whole = {file: file.read_bytes() for file in votes}
    for file, content in whole.items():
        start = at % len(content)
        file.write_bytes(content[:start] + bytes(9) + content[start + 9 :])
    yield
    for file, content in whole.items():
        file.write_bytes(content)


@pytest.mark.slow
def test_what_goes_wrong_after_a_run_tells_nothing(scene: Scene) -> None:
    """Each fault is detected at a different place: vault, private table, ledger, test table, MLflow."""
    scene.run()
    with damaged(files(scene.home, "votes"), at=0):
        assert "not what was written" in scene.fails(world.NotVerified)
    assert "--new-session" in scene.fails(world.BudgetRefused, teachers__count=61)
    file = next(scene.private.iterdir())
    rows = file.read_bytes()
    file.write_bytes(rows + f"{VALUE}-unit-new,1,{VALUE}-shade,1,yes,{VALUE}-note\n".encode())
    assert "version" in scene.fails(world.NotVerified)
    file.write_bytes(rows)
    test = Path(scene.plan().path("test"))
    pl.read_parquet(test).with_columns(outcome=pl.lit("perhaps")).write_parquet(test)
    assert "data.test" in scene.fails(world.WrongInput)
    test.unlink()
    (scene.home / "mlflow.db").unlink()
    (scene.home / "mlflow.db").mkdir()  # a folder cannot be put aside and replaced
    assert "MLflow" in scene.fails(world.EnvironmentFailed, data__test=None, student__refused="drop")


@pytest.mark.slow
def test_a_budget_that_is_gone_after_the_draw_tells_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a relabelled session: it is admitted and its hypothesis drawn; while it polls, others take the rest of the
    budget."""
    scene.tables = relabelling(scene.tables)
    begin = world.flows_admit.begin

    def too_late(
        run: world.RunContext,
        admitted: world.Admitted[world.VotesAsk],
        private: world.PrivateFiles,
        *arguments: Any,
        **named: Any,
    ) -> Any:
        world.claim(run.stores, run.plan, private.files)
        with suppress(world.BudgetRefused):
            for other in map(str, count()):
                asked = world.opening_of(run.stores, run.plan, admitted.ask, admitted.stream.encoding)
                asked = replace(asked, id=other, commitment=other, mechanism={"name": "another"})
                run.stores.ledger.open_session(asked, further=True)
        return begin(run, admitted, private, *arguments, **named)

    monkeypatch.setattr(world.flows_admit, "begin", too_late)
    assert "does not cover" in scene.fails(world.BudgetRefused, new_session=True)
    assert drawn(scene.home)
