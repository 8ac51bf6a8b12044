"""A ledger that was deleted, emptied, cut back or mistaken for another fails, since the home holds more than it tells;
one that went on, or serves another home as well, does not."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.support import postgresql
from tests.support.chained import database
from tests.support.copies import copied
from tests.support.published import CLASSES, SESSION, opening, world_in, write_labels
from tests.support.sentences import says
from tests.support.tracked import tracked
from tests.tasks.verify.signed_folder import failing
from tests.tasks.verify.tampering import told

STABLE = world.calibrated_stable(epsilon=0.5, delta=1e-6, cutoff=20)
HELD = "the home's sessions"


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Path:
    """A home with an open session that was certified and tracked."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        copy(mlflow_database, home / "mlflow.db")
        small = world_in(home)
        labels = small.truth.copy()
        labels[::30] = -1
        tracked(small, STABLE, labels, datetime(2026, 1, 2, tzinfo=UTC))
    return home


@pytest.fixture
def home(certified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that home."""
    for name in ("MLFLOW_TRACKING_URI", "CONCORD_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    return copied(certified, tmp_path / "home")


def warned(checks: list[world.Check]) -> dict[str, str]:
    return {check.name: check.detail for check in checks if check.warning}


def cut_back(home: Path, entries: int) -> None:
    with database(home) as ledger:
        ledger.execute("DELETE FROM entries WHERE seq > ?", (entries,))


@pytest.mark.parametrize("where", ["released files", "vault", "MLflow"])
def test_each_place_that_holds_a_session_is_enough(tmp_path: Path, home: Path, where: str) -> None:
    """What else the home held is gone."""
    other = tmp_path / "other"
    other.mkdir()
    if where == "released files":
        shutil.copytree(home / "released", other / "released")
    elif where == "vault":
        (other / f"vault/sessions/{SESSION}").mkdir(parents=True)
        (other / f"vault/sessions/{SESSION}/recipe.json").touch()
    else:
        copied(home, other)
        for kept in ("released", "vault", "held"):
            shutil.rmtree(other / kept, ignore_errors=True)
        (other / "ledger.db").unlink()
    assert failing(world.verify(other))[HELD].startswith(f"{where}: {SESSION}, which")


def test_a_ledger_cut_back_within_a_session_is_found_and_a_batch_that_was_begun_is_in_order(home: Path) -> None:
    """A process may have died between the release and its commit; but two batches before the last were committed."""
    last = world.Ledger.of(home).records()[-1].seq
    cut_back(home, last - 1)
    assert "on record" not in failing(world.verify(home))
    cut_back(home, last - 2)
    assert says(failing(world.verify(home))["on record"], "batch-00002.arrow", "the ledger never committed")


def test_a_forgotten_session_that_a_moved_home_cannot_record_again_is_a_warning(home: Path) -> None:
    """A run of its plan, which was advised, would have been refused, and with --new-session would have cost again."""
    stores = world.Stores.of(home)
    world.close(stores, SESSION, give_back=False)
    (home / "mlflow.db").unlink()
    assert "a run of its plan records it again" in failing(world.verify(home))["MLflow"]
    world.forget(stores, SESSION)
    checks = world.verify(home)
    assert failing(checks) == {}
    assert "is not recorded again" in warned(checks)[f"{SESSION}: MLflow"]


def answer(home: Path) -> world.Session:
    """One more row through the ledger and into a file."""
    ledger, released = world.Ledger.of(home), world.Released(home)
    state = ledger.session(SESSION)
    batch = world.Batch(
        index=state.batches, first=state.next_row, rows=1, question_digest=f"row {state.asked}", exact_digest="v"
    )
    ledger.begin_batch(SESSION, batch)
    asked = range(state.next_row, state.next_row + 1)
    table = world.labels_table(asked, np.array([1]), None, CLASSES, {"session": SESSION})
    ref = write_labels(released, world.labels_path(SESSION, state.batches), table)
    return ledger.commit_batch(SESSION, batch.released_as(ref))


def test_a_certificate_stays_right_when_the_ledger_goes_on(home: Path) -> None:
    """Rows answered since then are told."""
    for rows in (1, 2):
        answer(home)
        checks = world.verify(home)
        assert failing(checks) == {}
        (result,) = (check.detail for check in checks if check.name == f"{SESSION}: certificate on record")
        assert f"{rows} rows were answered since" in result

    ledger = world.Ledger.of(home)
    ledger.name_domain("elsewhere", unit="one row", neighbours="add or remove one unit", epsilon=1.0, delta=1e-5)
    ledger.open_session(opening(STABLE, "people-2"), further=True)
    ledger.recap("people", 20.0, 1e-4, "the board said so")
    assert "certificate on record" not in failing(world.verify(home, SESSION))
    told({"sessions.0.counts": lambda of: of | {"asked": 301, "answered": 291}})(home / "released" / SESSION)
    assert "the certificate's counts" in failing(world.verify(home))["certificate on record"]  # of when it was written


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty ledger that two homes may share."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shared.db'}"
    else:
        with postgresql.server() as server:
            yield f"postgresql+psycopg://{server}"


def test_of_two_homes_on_one_ledger_each_verifies_its_own(
    tmp_path: Path, mlflow_database: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("CONCORD_LEDGER", address)
    first, second = world_in(tmp_path / "first"), world_in(tmp_path / "second")
    for small in (first, second):
        copy(mlflow_database, small.home / "mlflow.db")
    labels = first.truth.copy()
    labels[::30] = -1
    tracked(first, STABLE, labels, datetime(2026, 1, 2, tzinfo=UTC))
    second.vault.make_secret("sessions/people-2")
    world.Ledger.of(second.home).open_session(opening(STABLE, "people-2"), further=True)
    for home, own, other in ((first.home, SESSION, "people-2"), (second.home, "people-2", SESSION)):
        checks = world.verify(home)
        assert failing(checks) == {}
        assert warned(checks)["other homes"].endswith(f"verify there {other}")
        assert any(check.name.startswith(f"{own}: ") for check in checks)
        assert not any(check.name.startswith(f"{other}: ") for check in world.verify(home, other))
    shutil.rmtree(first.home / "released" / SESSION)
    assert f"no finished run of session {SESSION}" not in failing(world.verify(first.home)).get("MLflow", "")
    assert "is missing" in failing(world.verify(first.home))["on record"]


def certify_anew(home: Path, name: str) -> None:
    """A further session with a released batch and a certificate of its own, as a run would write it."""
    ledger, released = world.Ledger.of(home), world.Released(home)
    ledger.open_session(opening(world.calibrated_stable(epsilon=0.1, delta=1e-7, cutoff=3), name), further=True)
    begun = ledger.begin_batch(name, world.Batch(index=0, first=0, rows=1, question_digest=name, exact_digest=name))
    ref = write_labels(
        released,
        world.labels_path(name, 0),
        world.labels_table(range(1), np.array([1]), None, CLASSES, {"session": name}),
    )
    ledger.commit_batch(name, begun.released_as(ref))
    model = world.Certificate.model_validate_json((home / "released" / SESSION / "certificate.json").read_bytes())
    certificate = world.describe({name: [ref]}, model.stated, ledger, released)
    released.write(f"{name}/certificate.json", certificate.model_dump_json().encode())


@pytest.mark.parametrize("sessions", [1, 6])
def test_history_is_folded_once_however_many_certificates_there_are(
    home: Path, monkeypatch: pytest.MonkeyPatch, sessions: int
) -> None:
    """Once for the chain, once for all certificates together; each is compared where it may have been written."""
    for number in range(sessions):
        certify_anew(home, f"people-{number + 2}")
    entries, folded, described = len(world.Ledger.of(home).records()), 0, 0
    read = world.LedgerState.read

    def counting(state: world.LedgerState, record: Any) -> None:
        nonlocal folded
        folded += 1
        read(state, record)

    def describing(*result: Any) -> world.Certificate:
        nonlocal described
        described += 1
        return world.describe(*result)

    monkeypatch.setattr(world.LedgerState, "read", counting)
    monkeypatch.setattr(world.verify_certificate, "describe", describing)
    checks = world.verify(home)
    assert [check.ok for check in checks if check.name.endswith(": certificate on record")] == [True] * (sessions + 1)
    excerpt = world.Excerpt.read((home / "released" / SESSION / "ledger.json").read_bytes())
    assert folded == 2 * entries + len(excerpt.entries)  # which is a ledger of its own, and read once as well
    assert described <= 2 * (sessions + 1)
    assert json.loads((home / "released/people-2/certificate.json").read_text())["domain"]["sessions"] == 2


def test_a_certificate_of_a_standing_that_never_was_is_named_though_the_ledger_went_on(home: Path) -> None:
    """The other sessions' checks are made, too."""
    answer(home)
    told({"domain.sessions": 7})(home / "released" / SESSION)
    checks = world.verify(home)
    assert "certificate on record" in failing(checks)
    assert any(check.name == f"{SESSION}: MLflow" for check in checks)
