"""Questions to shards: every shard answers, from its own rows alone, in a process of its own."""

import fcntl
import itertools
import json
import logging
import math
import os
import random
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.made import content_of
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.processes import FRESH

SHARDS, BLOCK = 12, 5


class Table:
    """A plan's shards, as they are asked."""

    def __init__(self, folder: Path, private: pl.DataFrame | None = None) -> None:
        tables = tables_of_plan(write_tables(folder / "data", people(700, 1) if private is None else private))
        self.plan: world.Plan = changed(tables, teachers__count=SHARDS, teachers__block=BLOCK)
        self.vault, self.encoding = world.Vault(folder / "vault"), world.learn_encoding(self.plan)
        self.blocks = world.split(world.PrivateRows(self.plan, self.encoding, self.vault, bytes(32)), "shards")

    def ask(self, function: Callable[[pl.DataFrame], Any]) -> list[str]:
        portable = world.Question("q", function).portable
        with world.asking_questions.forking_helper() as helper:
            ask = partial(world.answer_of, helper, portable)
            kept = content_of(world.answer(ask, self.blocks, self.encoding, self.vault, "answers", {}), self.vault)
        return list(json.loads(kept)["answers"])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def helper() -> Iterator[socket.socket]:
    with world.forking_helper() as helper:
        yield helper


@pytest.fixture
def one_helper(helper: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """All questions are asked by one process, which starts in a second."""
    monkeypatch.setattr(world.asking_questions, "forking_helper", lambda: nullcontext(helper))


def height(rows: pl.DataFrame) -> int:
    return rows.height


@pytest.mark.usefixtures("one_helper")
def test_a_shard_is_shown_by_the_plan_s_columns_and_class_names(table: Table) -> None:
    def look(rows: pl.DataFrame) -> Hashable:
        return (tuple(rows.columns), frozenset(rows["outcome"]), rows.height, float(rows["visits"].sum()))

    seen = [world.from_plain(json.loads(text)) for text in table.ask(look)]
    columns, outcomes, heights, visits = zip(*seen, strict=True)
    assert len(seen) == SHARDS
    assert (sum(heights), sum(visits)) == (700, people(700, 1)["visits"].sum())
    assert set(columns) == {("size", "shade", "visits", "outcome")}
    assert frozenset().union(*outcomes) == {"no", "yes"}


class Rude(BaseException):
    """No kind of Exception."""


def failing(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


def forge() -> None:
    """Write an answer to whatever is open to be written to."""
    for at in range(3, 9):
        with suppress(OSError):
            if fcntl.fcntl(at, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                os.write(at, b'"forged"')


ENDS: list[Callable[[], object]] = [
    *map(failing, (ValueError("p1-17"), SystemExit(3), Rude("p1-17"), RecursionError(), StopIteration())),
    *map(failing, (MemoryError(), KeyboardInterrupt())),
    lambda: os._exit(3),
    lambda: os.kill(os.getpid(), signal.SIGSEGV),
    lambda: os.kill(os.getpid(), signal.SIGKILL),
    os.abort,
    lambda: os.closerange(0, 99),  # what it would answer to
    forge,
    lambda: people(5, 1),
    lambda: people(5, 1).to_dicts(),
    lambda: "x" * world.LONGEST,
]


@pytest.mark.usefixtures("one_helper")
@pytest.mark.parametrize("end", ENDS)
def test_a_shard_on_which_the_question_fails_or_ends_or_gives_no_answer_still_answers(
    table: Table, end: Callable[[], object]
) -> None:
    def question(rows: pl.DataFrame) -> object:
        return (end() or "fine") if "yes" in rows["outcome"].head(1) else "fine"

    assert set(table.ask(question)) == {world.NO_ANSWER, '"fine"'}


def test_an_answer_is_taken_from_a_helper_that_is_there_alone() -> None:
    with pytest.raises(world.EnvironmentFailed, match="has ended"), world.forking_helper() as helper:
        world.answer_of(
            helper, world.Question("q", lambda _: os.kill(os.getppid(), signal.SIGKILL)).portable, people(5, 1)
        )


def test_nothing_a_question_says_is_heard(table: Table, capfd: pytest.CaptureFixture[str]) -> None:
    """Nor what threads of Polars say, nor what is written past Python."""

    def say(cell: object) -> int:
        print(cell)
        print(cell, file=sys.stderr)
        logging.warning("%s", cell)
        warnings.warn(str(cell), stacklevel=1)
        return os.write(1, b"p1") + os.write(2, b"p2")

    def loud(rows: pl.DataFrame) -> int:
        say(rows["size"][0])
        cells = [pl.col(name).map_elements(say, return_dtype=pl.Int64) for name in ("size", "visits")]
        return int(rows.select(cells).to_series().sum() > 0)

    assert set(table.ask(loud)) == {"1"}
    assert capfd.readouterr() == ("", "")


def codes(rows: pl.DataFrame) -> int:
    """By the numbers of Polars' categories, which are the whole process's."""
    return int(rows["shade"].cast(pl.Categorical).to_physical().max())  # type: ignore[arg-type]


def test_one_shard_s_words_do_not_change_what_another_answers() -> None:
    def ask(*shards: list[str]) -> list[str]:
        question = world.Question("q", codes).portable
        with world.forking_helper() as helper:
            return [world.answer_of(helper, question, pl.DataFrame({"shade": words})) for words in shards]

    rest = ["b", "c"], ["c", "b"], ["b", "b"]
    before, after = ask(["x"], *rest), ask(["x", "other", "another"], *rest)
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, True, True, True]


KEPT: list[int] = []


def keeping(rows: pl.DataFrame) -> int:
    KEPT.append(rows.height)
    return len(KEPT)


def changing(rows: pl.DataFrame) -> int:
    found = rows.width
    rows.drop_in_place("shade")
    return found


def drawing(look: Callable[[], object], draw: Callable[[pl.DataFrame], object]) -> Callable[[pl.DataFrame], object]:
    """Draws from a global generator by as many as there are rows: the next shard would go on from there."""
    return lambda rows: (look(), draw(rows))[0]


CARRYING: dict[str, Callable[[pl.DataFrame], object]] = {
    "a list": keeping,
    "the rows themselves": changing,
    "Python's chance": drawing(random.random, lambda rows: [random.random() for _ in range(rows.height)]),
    "NumPy's chance": drawing(lambda: float(np.random.rand()), lambda rows: np.random.rand(rows.height)),
    "Polars' chance": drawing(
        lambda: int(pl.Series(range(999)).sample(1)[0]), lambda rows: rows.sample(rows.height // 2)
    ),
}


@pytest.mark.usefixtures("one_helper")
@pytest.mark.parametrize("by", CARRYING)
def test_nothing_is_carried_from_one_shard_to_the_next(table: Table, by: str) -> None:
    answers = table.ask(CARRYING[by])
    assert len(set(answers)) == 1
    assert world.NO_ANSWER not in answers


def ask_between_draws(folder: Path) -> None:
    table = Table(folder)
    random.seed(7)
    np.random.seed(7)
    expected = random.random(), np.random.rand()
    random.seed(7)
    np.random.seed(7)
    table.ask(lambda _: random.random() + np.random.rand())
    assert (random.random(), np.random.rand()) == expected


def test_the_operator_s_generators_go_on_as_they_were(tmp_path: Path) -> None:
    """In a new process: Prefect's threads, which earlier tests leave in this one, draw from Python's."""
    process = FRESH.Process(target=ask_between_draws, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0


def test_a_shard_s_rows_are_the_same_to_the_bit_wherever_they_lie() -> None:
    """The label, the numbers and where they lie in memory: in a block, that is decided by the shards before."""
    odd = [-0.0, 0.0, math.nan, 5e-324, -1e300, None, 0.1]
    mine = pl.DataFrame({"x": odd, "word": ["a", None, "bc", "", "d", "é", "f"], "pixels": [[1, 2]] * 7}).cast(
        {"pixels": pl.Array(pl.UInt8, 2)}
    )
    alone = world.frame(world.as_bytes(mine))
    for before in (0, 1, 3, 70):
        company = pl.concat([mine.clear(), *[mine.head(1)] * before, mine, mine]).rechunk()
        found = world.frame(world.as_bytes(company.slice(before, 7)))
        assert found.schema == mine.schema
        assert found["x"].fill_null(7.0).to_numpy().tobytes() == mine["x"].fill_null(7.0).to_numpy().tobytes()
        assert found.drop("x").equals(alone.drop("x"))
        held = found["x"].fill_null(0.0) if found["x"].null_count() == 0 else found["x"]
        assert held.to_arrow().buffers()[1].address % 64 == alone["x"].to_arrow().buffers()[1].address % 64 == 0


@pytest.mark.usefixtures("one_helper")
def test_a_unit_more_changes_the_answer_of_one_shard(table: Table, tmp_path: Path) -> None:
    """Neighbours: by what a question may see of a shard, to the bit."""

    def everything(rows: pl.DataFrame) -> int:
        return hash(rows.write_json())

    before, unit = table.ask(everything), people(5, 78).with_columns(size=pl.lit(1e300), person=pl.lit("another"))
    after = Table(tmp_path, pl.concat([people(700, 1), unit])).ask(everything)
    assert sum(itertools.starmap(str.__ne__, zip(before, after, strict=True))) == 1


# What is asked ------------------------------------------------------------------------------------------------------


class Locked:
    """A question that cannot be sent."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, rows: pl.DataFrame) -> int:
        return rows.height


@pytest.mark.slow
def test_a_question_is_tried_on_public_rows_first(table: Table) -> None:
    batches = list(world.stage_public(table.plan.path("public"), table.encoding, table.vault, "public", 128))
    for function, said in (
        (lambda rows: rows["wealth"].max(), "wealth"),
        (lambda rows: rows["size"], "got Series"),
        (lambda _: "x" * world.LONGEST, "at most"),
        (lambda rows: sys.exit(str(rows.columns)), r"SystemExit: \['size', 'shade', 'visits', 'outcome'\]"),
        (lambda _: os._exit(0), "it ends its process"),
        (Locked(), "cannot be sent to the process of a shard"),
    ):
        with pytest.raises(world.WrongInput, match=said):
            world.rehearse_question(world.Question("q", function), batches, table.encoding, table.vault)
    world.rehearse_question(world.Question("q", lambda _: None), batches, table.encoding, table.vault)


def test_a_question_has_a_name() -> None:
    assert [world.Question.of(height, name).name for name in (None, "how many")] == ["height", "how many"]
    for wrong, said in (
        (None, "needs a name"),
        *((name, "one line") for name in ("", " x", "a\nb", "x" * 101, "\ud800")),
    ):
        with pytest.raises(world.WrongInput, match=said):
            world.Question.of((lambda rows: rows.height) if wrong is None else height, wrong)
    with pytest.raises(world.WrongInput, match="must be a function"):
        world.Question("q", 7)  # type: ignore[arg-type]


def above(limit: Any, by: float = 0.0) -> Callable[[pl.DataFrame], bool]:
    return lambda rows, by=by: rows.height + by > limit  # type: ignore[misc]


def test_other_code_is_told_by_its_source_and_the_values_it_takes() -> None:
    functions = (height, codes, above(1), above(1.0), above(1, -0.0), above(1, 2.0))
    known = [world.Question("q", function).code for function in functions]
    assert len({*known, ""}) == 7
    assert known == [world.Question("another", function).code for function in functions]
    assert world.Question("q", above(object())).code == world.Question("q", len).code == ""
