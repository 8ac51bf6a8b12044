"""Verify finds a changed byte in each kind of file and row it covers, and names it; an honest home passes. Of every
kind of release: tests/promises/test_lifecycle.py"""

import base64
from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import pytest

from tests.promises.kinds import KINDS
from tests.support.chained import database, rewrite
from tests.support.published import SESSION, World, opening, session, world_in
from tests.support.sentences import says
from tests.support.tracked import tracked
from tests.tasks.verify.signed_folder import DOOR, STABLE, failing
from tests.tasks.verify.tampering import excerpted
from tests.world import Ledger, Stores, Tracking, WrongInput, certify_answers, limited, verify

LEDGER = ["ledger chain", "ledger rule", "the home's sessions"]
ON_RECORD = ["on record", "certificate on record"]
OF_FOLDER = ["certificate", "guarantee", "budget", "files", "released labels", "public test", "what it says", "student"]
EVIDENCE = ["ledger excerpt", "signature"]
RECORDED = ["report and figures", "model", "MLflow"]
NAMES = [*ON_RECORD, *OF_FOLDER, *EVIDENCE, *RECORDED]


def failures(home: Path, subject: str | None = None) -> dict[str, str]:
    return failing(verify(home, subject))


def flip(data: bytes) -> bytes:
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_an_honest_home_passes_every_check(home: World) -> None:
    (run,) = Tracking.of(home.home).runs(SESSION)
    for subject in (None, SESSION, run):
        checks = verify(home.home, subject)
        assert failing(checks) == {}
        assert [check.name for check in checks] == [*LEDGER, *(f"{SESSION}: {name}" for name in NAMES)]
    assert "the settings prove δ = 9.9" in verify(home.home)[6].detail
    with pytest.raises(WrongInput, match="no session and no run 'nothing'"):
        verify(home.home, "nothing")


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
        ("mlartifacts/people/models/*/artifacts/code/concord_student.py", "model", "registered model's folder"),
    ],
)
def test_a_changed_or_missing_file_is_found_and_named(own: Path, pattern: str, check: str, named: str) -> None:
    (file, *_) = sorted(own.glob(pattern))
    file.write_bytes(flip(file.read_bytes()))
    assert named in failures(own)[check]
    file.unlink()
    assert named in failures(own)[check]


def test_any_changed_entry_of_the_ledger_stops_the_rest(own: Path) -> None:
    whole = (own / "ledger.db").read_bytes()
    entries = len(Ledger.of(own).records())
    changes = [
        f"UPDATE entries SET body = replace(body, '0', '1') || ' ' WHERE seq = {at + 1}" for at in range(entries)
    ]
    planted = ("VIEW planted AS SELECT 1", "TRIGGER planted AFTER INSERT ON entries BEGIN SELECT 1; END")
    for change in (*changes, *(f"CREATE {what}" for what in planted)):
        with database(own) as ledger:
            ledger.execute(change)
        assert set(failures(own)) == {"ledger chain"}, change
        (own / "ledger.db").write_bytes(whole)
    assert failures(own) == {}


def test_a_tracking_store_that_is_none_is_said_so(own: Path) -> None:
    (own / "mlflow.db").write_bytes(b"not a database" * 999)
    assert set(failures(own)) == {"MLflow store"}


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_an_edit_that_takes_time_without_end_is_broken_off_in_its_home_as_well(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited, "__kwdefaults__", {"memory": 1 << 30, "seconds": 3})
    excerpted({"entries.1.body.reserved.renyi": "1e1000000000"})(own / "released" / SESSION)
    assert "its check broke off" in failures(own)["limits"]


@pytest.fixture
def store(mlflow_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tracking store; the one of a home is found there, whatever the environment says."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return mlflow_database


def home_of(folder: Path, store: Path) -> World:
    copy(store, folder / "mlflow.db")
    return world_in(folder)


def test_a_session_that_stopped_at_the_door_has_its_labels_and_guarantee(tmp_path: Path, store: Path) -> None:
    small = home_of(tmp_path, store)
    session(small, STABLE, small.truth)
    checks = verify(tmp_path)
    assert failing(checks) == {}
    assert [check.name for check in checks[3:]] == [f"{SESSION}: {name}" for name in ("on record", "guarantee")]


CHEAP = replace(STABLE.cost, renyi=tuple(r * 0.999 for r in STABLE.cost.renyi))
STEEPER = base64.b64encode(np.delete(STABLE.refusal, 3).astype("<u8").tobytes()).decode()
LESS = STABLE.model_dump(mode="json") | {"epsilon": 2.4}


@pytest.mark.parametrize(
    ("terms", "check", "fault"),
    [
        ({"epsilon": 2.4, "mechanism": LESS}, "guarantee", "claimed 1e-05"),
        ({"mechanism": STABLE.model_dump(mode="json") | {"refusal": STEEPER}}, "guarantee", "the settings prove"),
        ({"whole": CHEAP}, "ledger rule", "the session is charged"),
        ({"cutoff": 21}, "ledger rule", "cutoff is 21"),
    ],
)
def test_a_session_that_says_or_charges_less_than_its_settings_is_found(
    tmp_path: Path, store: Path, terms: dict[str, Any], check: str, fault: str
) -> None:
    home_of(tmp_path, store)
    ledger = Ledger.of(tmp_path)
    ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=4.0, delta=4e-5)
    ledger.open_session(replace(opening(STABLE), **terms))
    assert fault in failures(tmp_path)[check]


def test_an_answer_that_a_certificate_names_and_the_ledger_lacks_is_found(tmp_path: Path, store: Path) -> None:
    """The last commit was dropped and the chain made anew: the session is open, and its batch begun, as it may be."""
    home, kind = tmp_path / "home", next(kind for kind in KINDS if kind.name == "questions")
    kind.prepare(home)
    copy(store, home / "mlflow.db")
    kind.ask(home)
    certify_answers("d-1", Stores.of(home))
    assert not {"certificate on record", "the home's sessions"} & failures(home).keys()
    rewrite(home, list.pop)
    found = failures(home)
    assert says(found["certificate on record"], "d-1/answers/answer-00001.json", "the ledger never committed")
    assert "counts 2 answered, and the ledger has 1" in found["the home's sessions"]


def test_an_earlier_run_is_checked_against_its_own_files(tmp_path: Path, store: Path) -> None:
    small = home_of(tmp_path, store)
    first = tracked(small, STABLE, small.truth, DOOR)
    report = small.released.root / SESSION / "report.html"
    small.released.write(f"{SESSION}/report.html", report.read_bytes() + b"\n")
    second = tracked(small, STABLE, None, DOOR)
    assert Tracking.of(tmp_path).runs(SESSION) == [second.run_id, first.run_id]
    assert set(failures(tmp_path, first.run_id)) == {"signature"}  # that report was never signed
    assert set(failures(tmp_path, second.run_id)) == {"signature"}
