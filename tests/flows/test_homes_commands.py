"""The commands of several homes: through a folder or a store, from the command line, Prefect, and what they refuse."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import load_homes_plan, load_plan, of_home
from concord.flows import homes as flows_homes
from concord.flows import serving
from concord.flows.api import contribute
from concord.flows.cli.commands import command
from concord.flows.lead import status
from concord.flows.learn import learn
from concord.flows.refresh import refresh
from concord.flows.scheduled import scheduled_contribute, scheduled_lead
from concord.flows.stage import Stages
from tests.promises.kept import sequences
from tests.support.people import _toml
from tests.support.sentences import facts
from tests.support.several import NAMES, Several, stored

DOMAIN = "people"
pytestmark = pytest.mark.usefixtures("tracking")


def test_they_speak_through_an_address_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands, given again, write nothing more; a stranger's objects stop nobody."""
    bucket, several = stored(tmp_path, monkeypatch), Several(tmp_path / "world", rows=100)
    several.exchange, several.address = bucket / "run", "s3://bucket/run"
    several.exchange.mkdir()
    (several.exchange / f"question-0-{'0' * 12}.json").write_bytes(b"junk")
    (several.exchange / f"share-0-north-{'0' * 12}.json").write_bytes(b"junk")
    assert several.lead()["missing"] == list(NAMES)
    assert [several.contribute("south")["answered_now"] for _ in range(2)] == [True, False]
    files, charged = several.files(), Ledger.of(several.home("south")).total(DOMAIN)
    led = [several.lead() for _ in range(2)]
    assert led[0] == led[1]
    assert (led[0]["missing"], [*led[0]["refused"]]) == (["north", "west"], ["north"])
    assert (several.files(), Ledger.of(several.home("south")).total(DOMAIN)) == (files, charged)
    assert [name.rpartition("-")[0] for name in files] == ["question-0", "question-0", "share-0-north", "share-0-south"]
    assert status(several.plan, several.address)["rounds"][0]["answered"] == ["south"]


def test_a_table_at_an_address_is_copied_once_a_question_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, several = stored(tmp_path, monkeypatch), Several(tmp_path / "world", rows=100)
    shutil.copy(several.folder / "data" / "north.parquet", bucket)
    given = several.plan.data.model_copy(update={"private": "s3://bucket/north.parquet"})
    plan, home = several.plan.model_copy(update={"data": given}), several.home("north")
    several.exchange.mkdir()

    def contribute() -> dict[str, Any]:
        done: dict[str, Any] = flows_homes.contribute.fn(plan, home, str(several.exchange), "north", agreed=True)
        return done

    def copies() -> list[Path]:
        return [path for path in (home / "vault" / "tables").rglob("*") if path.is_file()]

    assert (contribute()["answered"], copies()) == (None, [])
    several.lead()
    several.copied("north", "local")
    shutil.copytree(several.exchange, tmp_path / "apart")
    assert contribute()["answered_now"]
    assert copies()
    local = several.folder / "home-local"
    flows_homes.contribute.fn(several.private("north"), local, str(tmp_path / "apart"), "north", agreed=True)
    remote, near = ([sums for what, sums in sequences(at) if what.startswith("sums")] for at in (home, local))
    assert np.sum(remote, axis=0).tolist() == np.sum(near, axis=0).tolist()


def test_a_share_appears_at_the_clock_s_next_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is ready right before one, which passes while the clock is read."""
    several, slept = Several(tmp_path / "world", rows=120, tick=60), list[float]()
    several.lead()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert not [name for name in several.files() if name.startswith("share")]

    times = iter([119.75, 120.25])
    monkeypatch.setattr(flows_homes, "time", SimpleNamespace(time=lambda: next(times), sleep=sleep))
    several.contribute("north")
    several.contribute("north")  # replayed at once
    assert slept == [0.25]


def written(several: Several) -> Path:
    """The plan as a file that names no private table."""
    tables = {name: section for name, section in several.given.items() if name != "folder"}
    tables["data"] = {name: value for name, value in tables["data"].items() if name != "private"}
    lines = [
        f"[{name}]\n" + "\n".join(f"{key} = {_toml(value)}" for key, value in keys.items())
        for name, keys in tables.items()
    ]
    (several.folder / "data" / "plan.toml").write_text("\n".join(lines))
    return several.folder / "data" / "plan.toml"


def test_a_plan_of_homes_names_no_private_table_and_is_run_by_its_own_commands(tmp_path: Path) -> None:
    several = Several(tmp_path / "world", rows=100)
    path = written(several)
    assert load_homes_plan(path).homes == several.plan.homes
    assert of_home(several.plan, "s3://bucket/rows.parquet").data.private == "s3://bucket/rows.parquet"
    path.write_text(path.read_text().replace("[data]", '[data]\nprivate = "north.parquet"'))
    with pytest.raises(WrongInput, match=facts("data.private", "[homes]", "--private")):
        load_homes_plan(path)
    for flow in (learn, refresh):
        with pytest.raises(WrongInput, match=facts("[homes]", "`concord lead`")):
            flow.fn(load_plan(path), tmp_path / "home")


def test_the_table_that_is_named_is_read_whatever_a_plan_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = Several(tmp_path / "world", rows=100)
    monkeypatch.setattr(serving, "run_once", lambda *_: lambda plan, *_: {"read": plan.path("private")})
    monkeypatch.chdir(tmp_path)
    for plan in (several.plan, several.private("south"), written(several)):
        for private, read in (
            ("mine.parquet", str(tmp_path / "mine.parquet")),
            ("s3://bucket/mine", "s3://bucket/mine"),
        ):
            assert contribute(plan, str(several.exchange), private, "north", home=tmp_path / "home") == {"read": read}
        for wrong in ("", "postgresql://me:secret@host/rows"):
            with pytest.raises(WrongInput, match=facts("--private")) as refused:
                contribute(plan, str(several.exchange), wrong, "north", home=tmp_path / "home")
            assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"keys": ["0" * 64]}, "keys must be as many as names"),
        ({"keys": ["0" * 64] * 3}, "must each be given once"),
        ({"lead": "east"}, "must be 64 hex digits"),
        ({"people": "somewhere"}, "people"),
        ({"public": "abc"}, "homes.public: must be 64 hex digits"),
    ],
)
def test_a_wrong_roster_is_refused_in_one_sentence(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    several = Several(tmp_path / "world", rows=20)
    several.given["homes"] |= changes
    with pytest.raises(WrongInput, match=match):
        assert several.plan


@pytest.mark.parametrize(
    ("section", "match"),
    [
        ({"stream": {"season": 4, "clock": "0 3 * * 1"}}, r"a plan has \[homes\] or \[stream\], not both"),
        ({"stream": {"delivery": "each row once"}}, "leave out .stream., and lead the homes; or give each home a plan"),
        ({"labeling": {"mechanism": "stable", "cutoff": 5}}, "homes add up noisy sums"),
    ],
)
def test_what_homes_cannot_do_is_refused(tmp_path: Path, section: dict[str, Any], match: str) -> None:
    several = Several(tmp_path / "world", rows=20)
    several.given |= section
    with pytest.raises(WrongInput, match=match):
        assert several.plan


def test_homes_says_who_has_answered_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    several = Several(tmp_path / "world", rows=100)
    path = written(several)
    monkeypatch.setattr("sys.argv", ["concord", "homes", str(path), "--exchange", str(several.exchange)])
    with pytest.raises(SystemExit):
        command()
    several.lead()
    several.contribute("south")
    with pytest.raises(SystemExit):
        command()
    shown = capsys.readouterr().out
    assert "nothing is asked yet" in shown
    assert " ".join(shown.splitlines()[-1].split()) == "0 south north, west"


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_they_are_deployed_flows_too(home: Path) -> None:
    several = Several(home.parent / "several")
    path, exchange = written(several), str(several.exchange)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("concord.flows.run.Stages", Stages)
        asked = {"plan": path, "exchange": exchange, "private": str(path.parent / "north.parquet"), "name": "north"}
        found = [
            scheduled_lead(plan=path, exchange=exchange, home=several.home("lead"), return_state=True),
            scheduled_contribute(**asked, home=several.home("north"), return_state=True),
            scheduled_contribute(**asked, home=several.home("north"), agreed=True, return_state=True),
            scheduled_contribute(**asked, home=several.home("north"), return_state=True),
        ]
    assert [state.name for state in found] == ["Waiting", "BudgetRefused", "Completed", "NothingNew"]
