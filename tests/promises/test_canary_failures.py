"""Failures reveal nothing private: before the door, at it, after it, and at the end of a session."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.promises.canary import NAME, VALUE, private_rows
from tests.promises.kept import files
from tests.promises.scene import Scene
from tests.world import BudgetRefused, ConcordError, EnvironmentFailed, NotVerified, WrongInput


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
    scene.fails(ConcordError)


def test_a_machine_that_gives_out_tells_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MemoryError" in scene.fails(EnvironmentFailed, teachers__estimator="tests.promises.tellers.Glutton")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", f"/disk/{VALUE}")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in scene.fails(EnvironmentFailed)


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
        assert "not what was written" in scene.fails(NotVerified)
    assert "--new-session" in scene.fails(BudgetRefused, teachers__count=61)
    file = next(scene.private.iterdir())
    rows = file.read_bytes()
    file.write_bytes(rows + f"{VALUE}-unit-new,1,{VALUE}-shade,1,yes,{VALUE}-note\n".encode())
    assert "version" in scene.fails(NotVerified)
    file.write_bytes(rows)
    test = Path(scene.plan().path("test"))
    pl.read_parquet(test).with_columns(outcome=pl.lit("perhaps")).write_parquet(test)
    assert "data.test" in scene.fails(WrongInput)
    test.unlink()
    (scene.home / "mlflow.db").unlink()
    (scene.home / "mlflow.db").mkdir()  # a folder cannot be put aside and replaced
    assert "MLflow" in scene.fails(EnvironmentFailed, data__test=None, student__refused="drop")
