"""Successful runs publish nothing private, and show no private value to the operator.

Marked values, names and counts are planted in the private table. After each run every published byte is searched for
them, and for everything in the vault made from the table: keys, votes, counts, labels, hypotheses, plain digests. The
operator's side is searched for the same except names. For failures see test_canary_failures.py; test_canary_search.py
checks that the search finds planted leaks.
"""

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tests.promises.canary import NAME, VALUE, canary_tables, moments_between, operated, private_rows, published
from tests.promises.kept import files
from tests.promises.marks import Marks, leaks
from tests.promises.scene import Scene
from tests.support.people import people, write_plan
from tests.support.processes import own_environment
from tests.world import StudentPlan, WrongInput, labels_schema, start_extension, study_again

PRECHECK = "have a label that data.classes lacks"
GUARANTEE = {"session", "epsilon", "delta", "unit", "neighbours", "mechanism"}


def test_a_run_whose_teachers_tell_and_fail_publishes_nothing_private(scene: Scene) -> None:
    before = datetime.now(UTC)
    summary = scene.run(teachers__estimator="tests.promises.tellers.Teller")
    assert summary.answered > 0
    told = scene.capture.readouterr()
    assert PRECHECK in told.err  # to the operator, and to nobody else
    scene.messages += [told.out, told.err]
    assert leaks([*published(scene.home), *operated(scene.home)], Marks({"the pre-check": PRECHECK.encode()}, {})) == []
    scene.nothing_got_out()
    for path in (scene.home / "released").rglob("*.arrow"):
        schema = pa.ipc.open_file(path).schema
        text = {name.decode(): value.decode() for name, value in schema.metadata.items()}
        assert set(text) == GUARANTEE
        assert schema.equals(labels_schema(2, text), check_metadata=True)
    door = max(path.stat().st_mtime for path in files(scene.home, "votes"))
    assert list(moments_between(published(scene.home), before.timestamp(), door)) == []
    assert list(moments_between(published(scene.home), door, datetime.now(UTC).timestamp()))  # they would be seen


@pytest.mark.slow
def test_an_extended_session_publishes_nothing_private(scene: Scene, tmp_path: Path) -> None:
    first = scene.run(labeling__mechanism="noisy_votes", labeling__cutoff=None, labeling__queries=600)
    people(150, 9).drop("outcome", "person").write_parquet(tmp_path / "more.parquet")
    assert start_extension(first.session, tmp_path / "more.parquet", scene.home).asked_now > 0
    scene.nothing_got_out()
    study_again(first.session, scene.home, StudentPlan(refused="drop"))
    scene.nothing_got_out()


def odd_types(rows: pl.DataFrame) -> pl.DataFrame:
    marked = pl.concat_str(pl.lit(f"{VALUE}-"), "visits")
    return rows.with_columns(
        size=pl.struct(marked, "size"), shade=pl.concat_list(marked), visits=marked.cast(pl.Binary)
    ).with_columns(person=pl.col("person").cast(pl.Categorical))


@pytest.mark.slow
def test_private_types_of_every_kind_are_read_and_told_to_nobody(scene: Scene) -> None:
    shutil.rmtree(scene.private)
    scene.private.mkdir()
    rows, file = private_rows(), scene.private / f"{NAME}-0.parquet"
    odd_types(rows).write_parquet(file)
    with pytest.raises(WrongInput, match="'size' in a type that is not read as numeric"):
        scene.run()
    scene.nothing_got_out()
    as_words = {"size": pl.String, "shade": pl.Categorical, "person": pl.Categorical}
    rows.with_columns(pl.col(name).cast(dtype) for name, dtype in as_words.items()).write_parquet(file)
    assert scene.run().asked > 0
    scene.nothing_got_out()


@pytest.mark.slow
def test_a_fit_that_prints_as_compiled_code_does_or_leaves_the_program_changes_nothing(scene: Scene) -> None:
    for fault in ("Native", "Quitter"):
        scene.run(teachers__estimator=f"tests.promises.tellers.{fault}", data__version=fault, new_session=True)
    scene.nothing_got_out()


KEEPING = """
from contextlib import contextmanager
from concord.flows import server
from concord.flows.cli import main

@contextmanager
def kept(folder, home):
    folder.mkdir(parents=True)
    yield folder

server.passing_folder = kept
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "status"), [("Native", 0), ("Glutton", 1)])
def test_the_command_leaves_nothing_private_in_its_console_and_in_prefect(
    tmp_path: Path, estimator: str, status: int
) -> None:
    """The command has its own process and Prefect server, with database and logs below the home folder. The database is
    kept, or it would go with the server. Its workers have processes of their own."""
    folder, home = tmp_path / "data", tmp_path / "home"
    private, few = canary_tables(folder)["data"]["private"], {"teachers__count": 60, "teachers__block": 30}
    talking = {"teachers__estimator": f"tests.promises.tellers.{estimator}", "teachers__runner": "dask"}
    plan = write_plan(folder, data__private=private, **few, **talking)
    command = [sys.executable, "-c", KEEPING, "run", str(plan), "--home", str(home)]
    console = tmp_path / "console"
    with console.open("wb") as both:  # a file: a pipe would be waited for as long as any process has it
        ended = subprocess.run(command, check=False, stdout=both, stderr=both, env=own_environment())
    assert ended.returncode == status, console.read_text()
    marks = Marks.of(folder / private, home)
    assert (home / "prefect" / "server" / "prefect.db").exists()
    assert leaks(published(home), marks.with_names()) == []
    assert leaks(operated(home), marks) == []
    assert marks.found(console.read_bytes()) == set()
