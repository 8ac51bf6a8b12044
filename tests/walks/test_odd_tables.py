"""A walk for each of four odd tables: what `init`, `plan` and `run` say, and that nothing misleads.

A walk ends where a command refuses, before anything is spent; otherwise the student is published, and every warning
that must stand beside it does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.console import heard
from tests.walks.odd_tables import TABLES
from tests.world import UNTESTED, Certificate, Ledger, PublicTest, advice_rehearse_tallies, advice_rehearse_votes

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Walk:
    """What was said: by `init` with its plan, by `plan`, and by `run`; and what is certified, if anything."""

    status: int
    init: str
    plan: str
    run: str
    certificate: Certificate | None

    @property
    def everything(self) -> str:
        """All that was said, by all commands."""
        return "\n".join((self.init, self.plan, self.run))


@pytest.fixture
def walk(plain_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Walk]:
    """Goes the way with one of TABLES, up to the first command that refuses."""
    home = plain_home
    monkeypatch.setattr(advice_rehearse_votes, "MOST_TRAINED", 40)
    monkeypatch.setattr(advice_rehearse_tallies, "DRAWS", 1)
    monkeypatch.setenv("CONCORD_HOME", str(home))
    monkeypatch.chdir(tmp_path)

    def go(name: str) -> Walk:
        said = dict.fromkeys(("init", "plan", "run"), "")
        commands = {
            "init": ("init", *TABLES[name].lay_out(tmp_path), "--domain", "walk", "--epsilon", "2"),
            "plan": ("plan", "plan.toml"),
            "run": ("run", "plan.toml"),
        }
        for command, arguments in commands.items():
            status, shown, errors = heard(*arguments)
            said[command] = shown + errors
            assert "Traceback" not in errors
            if status:
                break
        if (tmp_path / "plan.toml").exists():
            said["init"] += (tmp_path / "plan.toml").read_text()
        files = sorted((home / "released").glob("walk-*/certificate.json"))
        certificate = Certificate.model_validate_json(files[0].read_bytes()) if files else None
        spent = (home / "ledger.db").exists() and bool(Ledger.of(home).sessions("walk"))
        assert (status == 0) == (certificate is not None) == spent  # what is refused spends nothing
        for path in published(home):
            assert not any(f"{table}.".encode() in path.read_bytes() for table in ("private", "public"))
        words = {command: " ".join(text.split()) for command, text in said.items()}
        return Walk(status, **words, certificate=certificate)

    return go


def published(home: Path) -> list[Path]:
    """Every file that is for others."""
    return [path for part in ("released", "mlartifacts") for path in (home / part).rglob("*") if path.is_file()]


def certified(walk: Walk) -> Certificate:
    """The certificate of a walk that went to its end. What stands in it stands on the console as well."""
    assert walk.status == 0, walk.everything
    assert walk.certificate is not None
    test = walk.certificate.student.public_test
    if isinstance(test, PublicTest):
        assert test.in_words in walk.run
    for warning in walk.certificate.warnings:
        assert warning in walk.run
    return walk.certificate


Go = Callable[[str], Walk]


def test_a_spreadsheet_of_europe(walk: Go) -> None:
    went = walk("semicolons")
    certified(went)
    assert "CSV files: cells between semicolons, decimal commas, latin-1" in went.init
    assert 'format = { separator = ";", decimal = ",", encoding = "latin-1" }' in went.init
    assert "it counts as missing" not in went.run


def test_misnamed_classes_are_said_to_the_operator_if_nothing_else_tells(walk: Go) -> None:
    went = walk("misnamed, untested")
    assert "about 100% of the private rows have a label that data.classes lacks: it counts as the first" in went.run
    of_one_class, *of_pairs = sorted(certified(went).warnings, key=lambda each: each.startswith("Single columns"))
    assert of_one_class == f"the likeliest class of every row is 'E', and {UNTESTED}"
    assert all(each.startswith("Single columns predict the label poorly") for each in of_pairs)
    assert len(of_pairs) <= 1


def test_columns_of_one_table_alone(walk: Go) -> None:
    went = walk("columns of one table")
    assert "extra" not in certified(went).features
    assert '# "extra", # numeric; not in the private table, left out' in went.init
    assert "secret" not in went.everything  # names of the private table's columns may be values


def test_an_index_without_a_name_is_left_out_and_marks_of_windows_are_nothing(walk: Go) -> None:
    went = walk("an index without a name")
    assert '# "", # without a name' in went.init
    assert "CSV files:" not in went.init  # nothing unusual is found
    assert set(certified(went).features) == {"age", "calls", "job", "balance"}
    assert "the label of every private row is one of data.classes" in went.run
