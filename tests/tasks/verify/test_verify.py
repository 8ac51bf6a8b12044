"""Verify finds a changed byte in each kind of file and row it covers, and names it; an honest home passes."""

import base64
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import pytest

from tests.promises.kinds import KINDS, Kind
from tests.support.chained import rewrite
from tests.support.published import SESSION, World, opening, session, world
from tests.support.sentences import says
from tests.support.tracked import tracked
from tests.tasks.asks.test_questions import AGREED, STREAM, TORN, asked
from tests.tasks.verify.signed_folder import entry
from tests.world import (
    Check,
    Excerpt,
    Ledger,
    StableVoting,
    Stores,
    Tracked,
    Tracking,
    WrongInput,
    certify_answers,
    limited,
    verify,
)

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
DOOR = datetime(2026, 1, 2, tzinfo=UTC)
LEDGER = ["ledger chain", "ledger rule", "the home's sessions"]
ON_RECORD = ["on record", "certificate on record"]
OF_FOLDER = ["certificate", "guarantee", "budget", "files", "released labels", "public test", "what it says", "student"]
EVIDENCE = ["ledger excerpt", "signature"]
RECORDED = ["report and figures", "model", "MLflow"]
NAMES = [*ON_RECORD, *OF_FOLDER, *EVIDENCE, *RECORDED]


@pytest.fixture(scope="module")
def store(mlflow_database: Path) -> Iterator[Path]:
    """An empty tracking store; the one of a home is found there, whatever the environment says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield mlflow_database


def home_of(folder: Path, store: Path) -> World:
    folder.mkdir(exist_ok=True)
    copy(store, folder / "mlflow.db")
    return world(folder)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, store: Path) -> tuple[World, Tracked]:
    """A home that was not touched. Tests that change it put back what they changed."""
    small = home_of(tmp_path_factory.mktemp("home"), store)
    labels = small.truth.copy()
    labels[::15] = -1
    return small, tracked(small, STABLE, labels[:286], DOOR)


def failures(checks: list[Check]) -> dict[str, str]:
    return {check.name.removeprefix(f"{SESSION}: "): check.detail for check in checks if not check.ok}


@contextmanager
def changed(file: Path, change: Callable[[bytes], bytes | None]) -> Iterator[None]:
    before = file.read_bytes()
    after = change(before)
    if after is None:
        file.unlink()
    else:
        assert after != before
        file.write_bytes(after)
    try:
        yield
    finally:
        file.write_bytes(before)


def flip(data: bytes) -> bytes:
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def one_file(home: Path, pattern: str) -> Path:
    found = sorted(home.glob(pattern))
    assert found
    return found[0]


def test_an_honest_home_passes_every_check(honest: tuple[World, Tracked]) -> None:
    small, where = honest
    for subject in (None, SESSION, where.run_id):
        checks = verify(small.home, subject)
        assert failures(checks) == {}
        assert [check.name for check in checks] == [*LEDGER, *(f"{SESSION}: {name}" for name in NAMES)]
    assert "the settings prove δ = 9.9" in verify(small.home)[6].detail


@pytest.mark.parametrize(
    ("pattern", "check", "named"),
    [
        (f"released/{SESSION}/labels/batch-00001.arrow", "on record", "batch-00001.arrow"),
        (f"released/{SESSION}/student.skops", "certificate on record", "student.skops"),
        (f"released/{SESSION}/certificate.json", "report and figures", "certificate.json"),
        (f"released/{SESSION}/report.html", "report and figures", "report.html"),
        (f"released/{SESSION}/spend.svg", "report and figures", "spend.svg"),
        ("mlartifacts/people/*/artifacts/certificate.json", "report and figures", "MLflow's file certificate.json"),
        ("mlartifacts/people/*/artifacts/report.html", "report and figures", "MLflow's file report.html"),
        ("mlartifacts/people/models/*/artifacts/model.skops", "model", "model.skops"),
        ("mlartifacts/people/models/*/artifacts/MLmodel", "model", "registered model's folder"),
        (
            "mlartifacts/people/models/*/artifacts/code/concord_student.py",
            "model",
            "registered model's folder",
        ),
    ],
)
@pytest.mark.parametrize("change", [flip, lambda _: None], ids=["changed", "gone"])
def test_a_changed_or_missing_file_is_found_and_named(
    honest: tuple[World, Tracked], pattern: str, check: str, named: str, change: Callable[[bytes], bytes | None]
) -> None:
    home = honest[0].home
    with changed(one_file(home, pattern), change):
        assert named in failures(verify(home))[check]


def test_a_deleted_run_is_missed(honest: tuple[World, Tracked]) -> None:
    with closing(sqlite3.connect(honest[0].home / "mlflow.db")) as live:
        for stage in ("deleted", "active"):
            live.execute("UPDATE runs SET lifecycle_stage = ?", (stage,))
            live.commit()
            found = failures(verify(honest[0].home))
            assert ("no finished run" in found.get("MLflow", "")) == (stage == "deleted")


def test_a_tracking_store_that_is_none_is_said_so(tmp_path: Path, store: Path) -> None:
    small = home_of(tmp_path, store)
    session(small, STABLE, small.truth)
    (tmp_path / "mlflow.db").write_bytes(b"not a database" * 999)
    assert set(failures(verify(tmp_path))) == {"MLflow store"}


def test_any_changed_entry_of_the_ledger_stops_the_rest(honest: tuple[World, Tracked]) -> None:
    home = honest[0].home
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        entries = database.execute("SELECT seq, body FROM entries").fetchall()
        for seq, body in entries:
            database.execute("UPDATE entries SET body = ? WHERE seq = ?", (body.replace("0", "1", 1) + " ", seq))
            database.commit()
            assert set(failures(verify(home))) == {"ledger chain"}
            database.execute("UPDATE entries SET body = ? WHERE seq = ?", (body, seq))
            database.commit()
    assert failures(verify(home)) == {}


@pytest.mark.parametrize("kind", ["trigger", "view"])
def test_a_trigger_or_view_in_the_ledger_fails(honest: tuple[World, Tracked], kind: str) -> None:
    home, what = honest[0].home, "AS SELECT 1" if kind == "view" else "AFTER INSERT ON entries BEGIN SELECT 1; END"
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        database.execute(f"CREATE {kind} planted {what}")
        found = failures(verify(home))
        database.execute(f"DROP {kind} planted")
    assert set(found) == {"ledger chain"}
    assert f"{kind} 'planted'" in found["ledger chain"]


def dear(excerpt: bytes) -> bytes:
    """A charge of 10^9 digits."""
    values = json.loads(excerpt)
    entry("open")(values)["reserved"]["renyi"] = "1e1000000000"
    return Excerpt.model_validate(values).text


@pytest.mark.usefixtures("apart")
def test_an_edit_that_takes_time_without_end_is_broken_off_in_its_home_as_well(
    honest: tuple[World, Tracked], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = honest[0].home
    monkeypatch.setattr(limited, "__kwdefaults__", {"memory": 1 << 30, "seconds": 3})
    with changed(home / "released" / SESSION / "ledger.json", dear):
        assert "its check broke off" in failures(verify(home))["limits"]


def test_a_session_that_stopped_at_the_door_has_its_labels_and_guarantee(tmp_path: Path, store: Path) -> None:
    small = home_of(tmp_path, store)
    session(small, STABLE, small.truth)
    checks = verify(tmp_path)
    assert failures(checks) == {}
    assert [check.name for check in checks[3:]] == [f"{SESSION}: {name}" for name in ("on record", "guarantee")]


CHEAP = replace(STABLE.cost, renyi=tuple(r * 0.999 for r in STABLE.cost.renyi))
STEEPER = base64.b64encode(np.delete(STABLE.refusal, 3).astype("<u8").tobytes()).decode()
LESS = STABLE.settings() | {"epsilon": 0.97}


@pytest.mark.parametrize(
    ("terms", "check", "fault"),
    [
        ({"epsilon": 0.97, "mechanism": LESS}, "guarantee", "claimed 1e-05"),
        ({"mechanism": STABLE.settings() | {"refusal": STEEPER}}, "guarantee", "the settings prove"),
        ({"whole": CHEAP}, "ledger rule", "the session is charged"),
        ({"cutoff": 21}, "on record", "cutoff is 21"),
    ],
)
def test_a_session_that_says_or_charges_less_than_its_settings_is_found(
    tmp_path: Path, store: Path, terms: dict[str, Any], check: str, fault: str
) -> None:
    home_of(tmp_path, store)
    ledger = Ledger.of(tmp_path)
    ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=4.0, delta=4e-5)
    ledger.open_session(replace(opening(STABLE), **terms))
    assert fault in failures(verify(tmp_path))[check]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_flip_in_a_released_file_of_any_kind_is_found_and_named(tmp_path: Path, store: Path, kind: Kind) -> None:
    kind.prepare(tmp_path / "home")
    copy(store, tmp_path / "home" / "mlflow.db")
    kind.ask(tmp_path / "home")
    assert failures(verify(tmp_path / "home")) == {}
    for file in [path for path in (tmp_path / "home" / "released").rglob("*") if path.is_file()]:
        with changed(file, flip):
            assert file.name in failures(verify(tmp_path / "home"))["d-1: on record"]


def test_an_answer_that_a_certificate_names_and_the_ledger_lacks_is_found(tmp_path: Path, store: Path) -> None:
    """The last commit was dropped and the chain made anew: the session is open, and its batch begun, as it may be."""
    copy(store, tmp_path / "mlflow.db")
    door = Stores.of(tmp_path)
    for name, answers in (("first", AGREED), ("last", TORN)):
        asked(door, STREAM, answers, name)
    certify_answers("d-1", door)
    assert not {"d-1: certificate on record", "the home's sessions"} & failures(verify(tmp_path)).keys()
    rewrite(tmp_path, list.pop)
    found = failures(verify(tmp_path))
    assert says(found["d-1: certificate on record"], "d-1/answers/answer-00001.json", "the ledger never committed")
    assert "counts 1 refused, and the ledger has 0" in found["the home's sessions"]


def test_an_earlier_run_is_checked_against_its_own_files(tmp_path: Path, store: Path) -> None:
    small = home_of(tmp_path, store)
    first = tracked(small, STABLE, small.truth, DOOR)
    report = small.released.root / SESSION / "report.html"
    small.released.write(f"{SESSION}/report.html", report.read_bytes() + b"\n")
    second = tracked(small, STABLE, None, DOOR)
    assert Tracking.of(tmp_path).runs(SESSION) == [second.run_id, first.run_id]
    assert set(failures(verify(tmp_path, first.run_id))) == {"signature"}  # that report was never signed
    assert set(failures(verify(tmp_path, second.run_id))) == {"signature"}


def test_what_does_not_exist_cannot_be_verified(honest: tuple[World, Tracked]) -> None:
    with pytest.raises(WrongInput, match="no session and no run 'nothing'"):
        verify(honest[0].home, "nothing")
