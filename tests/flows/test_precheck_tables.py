"""The operator hears what a plan does not recognise, rounded; may stop at a terminal; and nobody else is asked."""

import builtins
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

import concord
from tests import world
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.sentences import says

WRONG = world.Unmatched(1.0, 0.0, {"shade": 0.126})
RIGHT = world.Unmatched(0.0, 0.0, {"shade": 0.001})


def test_shares_are_rounded() -> None:
    due = {0.0001: "under 1%", 0.0449: "about 4%", 0.126: "about 13%", 1.0: "about 100%"}
    assert {share: world.rounded(share) for share in due} == due
    assert list(world.shares_in_words(WRONG, None)) == [
        "about 100% of the private rows have a label that data.classes lacks: it counts as the first class",
        "about 13% of the private rows have an unknown value in 'shade': it counts as missing",
    ]
    assert list(world.shares_in_words(world.Unmatched(0.0, 0.0001, {}), None)) == [
        "the label of every private row is one of data.classes",
        "under 1% of the private rows have no id in the column of data.unit: they are left out",
    ]
    beyond = list(world.shares_in_words(WRONG, (0.0, 4.0)))
    assert beyond[0] == (
        "about 100% of the private rows have no label that is a number from 0 to 4, as data.bounds says: outside the "
        "bounds it is clipped to the nearer bound; a missing one counts as the midpoint"
    )
    assert next(world.shares_in_words(RIGHT, (0.0, 4.0))).startswith(
        "the label of every private row is a number from 0"
    )
    assert world.is_worth_asking(WRONG)
    assert not world.is_worth_asking(RIGHT)
    assert world.is_worth_asking(world.Unmatched(0.0, 0.02, {}))


class Terminal:
    """A console at a terminal, and what it was asked."""

    is_terminal, quiet = True, False

    def __init__(self, answer: str) -> None:
        self.answer, self.asked, self.lines = answer, list[str](), list[str]()

    def input(self, question: str, **_: Any) -> str:
        self.asked.append(question)
        return self.answer

    def print(self, line: str, **_: Any) -> None:
        self.lines.append(line)


def rows(label: float = 0.0, unit: float = 0.0, shade: float = 0.0) -> pl.DataFrame:
    """A thousand private rows, of which those shares have a label, a unit or a shade that no plan knows."""
    row = pl.int_range(pl.len())
    return people(1000, 1).with_columns(
        pl.when(row < 1000 * share).then(pl.lit(word)).otherwise(name).alias(name)
        for name, share, word in (("outcome", label, "YES"), ("person", unit, ""), ("shade", shade, "purple"))
    )


WRONG_ROWS, RIGHT_ROWS = rows(label=1.0, shade=0.126), rows(shade=0.001)


@dataclass
class Prechecked:
    """The pre-check of a plan's tables, in a folder, as a run has them."""

    folder: Path
    patch: pytest.MonkeyPatch

    def check(self, private: pl.DataFrame, most: float | None = None, session: Any = None) -> None:
        """Of those private rows, and of public ones without a day; `most` is the plan's most_unknown."""
        plan = changed(
            tables_of_plan(write_tables(self.folder, private.with_columns(day=pl.lit("")))), data__most_unknown=most
        )
        public = pl.read_parquet(self.folder / "public.parquet").with_columns(day=pl.lit(None, pl.String))
        public.write_parquet(self.folder / "public.parquet")
        run: Any = SimpleNamespace(plan=plan, stages=SimpleNamespace())
        encoding = world.learn_encoding(plan)
        world.precheck_tables(run, world.private_table(plan), encoding, session)

    def at(self, terminal: Terminal, private: pl.DataFrame, *, wanted: bool, tty: bool = True, **how: Any) -> Terminal:
        """The same at a terminal, where the operator wants to be asked or not."""
        for module in (world.flows_console, world.flows_admit):
            self.patch.setattr(module, "err", terminal)
        self.patch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: tty))
        with world.flows_console.asking(wanted):
            self.check(private, **how)
        return terminal


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prechecked:
    return Prechecked(tmp_path, monkeypatch)


@pytest.mark.parametrize("answer", ["n", "", "no", "what"])
def test_the_operator_may_stop_it_and_no_share_is_in_the_error(tables: Prechecked, answer: str) -> None:
    with pytest.raises(world.WrongInput, match="nothing was charged") as stopped:
        tables.at(Terminal(answer), WRONG_ROWS, wanted=True)
    assert "%" not in str(stopped.value)


def test_it_goes_on_if_the_operator_says_so_or_nobody_can_be_asked(tables: Prechecked) -> None:
    assert len(tables.at(Terminal("y"), WRONG_ROWS, wanted=True).asked) == 1
    for wanted, tty in ((False, True), (True, False)):  # --yes or a schedule; no terminal
        silent = tables.at(Terminal("n"), WRONG_ROWS, wanted=wanted, tty=tty)
        assert silent.asked == []
        assert len(silent.lines) == 4
        assert says(silent.lines[0], "about 100%", "data.classes")
        assert says(silent.lines[1], "about 13%", "'shade'")
        assert says(silent.lines[2], "'day'", "left out", "dates as text")
        assert says(silent.lines[3], "terminal", "spends")
    assert tables.at(Terminal("n"), RIGHT_ROWS, wanted=True).asked == []


def test_a_notebook_shows_it_in_the_cell_and_goes_on(tables: Prechecked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is charged, as everywhere; and no cell waits for an answer that nobody can type."""
    cells, shell = list[dict[str, str]](), type("ZMQInteractiveShell", (), {})
    display = ModuleType("IPython.display")
    display.__dict__["display"] = lambda shown: cells.append(shown._repr_mimebundle_(None, None))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    monkeypatch.setattr(world.flows_admit, "err", world.flows_console.PrintableConsole(stderr=True))
    tables.check(WRONG_ROWS)
    lines = [cell["text/plain"] for cell in cells]
    assert says(lines[0], "100%", "private rows", "data.classes")
    assert lines[-1].endswith("the run goes on, and spends; data.most_unknown in the plan can stop it\n")
    assert all(cell["text/html"].startswith("<pre") for cell in cells)


def test_a_check_that_fails_stops_nothing(tables: Prechecked) -> None:
    """The stage that reads the table afterwards says what is wrong with it."""
    silent = tables.at(Terminal("n"), WRONG_ROWS.rename({"outcome": "result"}), wanted=True)
    assert (silent.asked, silent.lines) == ([], [])


@pytest.mark.parametrize(("session", "seen"), [(None, 1), (object(), 0)])
def test_a_session_that_goes_on_is_not_looked_over(monkeypatch: pytest.MonkeyPatch, session: Any, seen: int) -> None:
    """Its table may be gone."""
    tables, run = list[Any](), cast("Any", SimpleNamespace(plan=SimpleNamespace(stream=None)))
    monkeypatch.setattr(world.PrivateFiles, "of", lambda *_: SimpleNamespace(table="private"))
    monkeypatch.setattr(world.flows_admit, "precheck_tables", lambda *given: tables.append(given))
    monkeypatch.setattr(world.flows_admit, "begin", lambda *_, **__: None)
    admitted: Any = SimpleNamespace(session=session, ask=None, stream=SimpleNamespace(sources=(), encoding=None))
    monkeypatch.setattr(world.flows_admit, "may_open_further", lambda *_: False)
    world.flows_admit.open_together(run, [admitted], [lambda *_: cast("Any", None)])
    assert len(tables) == seen


def test_what_a_season_counts_next_is_told_and_decides_nothing(tables: Prechecked) -> None:
    """Nothing more is charged for it, and its units are not asked again: at a terminal, the operator may stop it."""
    silent = tables.at(Terminal("n"), WRONG_ROWS, wanted=True, tty=False, session=object(), most=0.2)
    assert says(silent.lines[0], "about 100%", "data.classes")
    assert says(silent.lines[-1], "terminal", "counts these units", "not asked again")
    with pytest.raises(world.WrongInput, match="nothing was charged"):
        tables.at(Terminal("n"), WRONG_ROWS, wanted=True, session=object())


def test_a_plan_may_say_that_it_stops_where_nobody_is_asked_and_no_share_is_in_the_error(tables: Prechecked) -> None:
    some = rows(label=0.21, unit=0.21, shade=0.21)
    for wanted, tty in ((False, True), (True, False)):
        for column in (rows(label=0.21), rows(unit=0.21), rows(shade=0.21)):
            with pytest.raises(world.WrongInput, match=r"data\.most_unknown = 0\.2 in some column; correct") as stopped:
                tables.at(Terminal("y"), column, wanted=wanted, tty=tty, most=0.2)
            assert not {"21", "shade"} & {*str(stopped.value).replace("%", " ").split()}
        tables.at(Terminal("y"), some, wanted=wanted, tty=tty, most=0.22)
        tables.at(Terminal("y"), some, wanted=wanted, tty=tty)
    assert len(tables.at(Terminal("y"), some, wanted=True, most=0.2).asked) == 1  # at a terminal, the operator decides


@pytest.mark.slow
@pytest.mark.parametrize("given", ["files", "frame"])
def test_it_stops_before_anything_is_charged_and_is_shown_from_python_before_that(
    tmp_path: Path, home: Path, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = people(6000, 1).with_columns(pl.col("outcome").replace("yes", "YES"))
    plan = changed(tables_of_plan(write_tables(tmp_path, rows)), data__most_unknown=0.2)
    with pytest.raises(world.WrongInput, match="stopped before anything was spent"):
        concord.run(plan, private=rows if given == "frame" else None, home=home)
    assert says(capsys.readouterr().err, "private rows", "data.classes")
    assert world.Ledger.of(home).domain("people") is None or not world.Ledger.of(home).sessions("people")
    right = people(6000, 1).with_columns(" " + pl.col("outcome") + "\t")
    done = concord.run(plan, private=right, home=home)  # blanks around a label do not count
    assert any("data.most_unknown:" in caveat for caveat in done.certificate.caveats)
    assert concord.verify(done.session, home=home)["ok"]
