"""A certificate that says what the ledger never did is found and named; one that was right once stays right."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from tests.support.published import SESSION, certified, opening, world
from tests.world import Check, Ledger, StableVoting, verify

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
CERTIFICATE = f"released/{SESSION}/certificate.json"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Path:
    """A home with a certified session."""
    home = tmp_path_factory.mktemp("home")
    copy(mlflow_database, home / "mlflow.db")
    small = world(home)
    labels = small.truth.copy()
    labels[::15] = -1
    certified(small, STABLE, labels[:286])
    return home


@pytest.fixture
def home(written: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """That home; what a test makes of its certificate and ledger is put back."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    files = written / CERTIFICATE, written / "ledger.db"
    before = [file.read_bytes() for file in files]
    yield written
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)


def detail_of(checks: list[Check]) -> str:
    """What the check of the certificate found; nothing where it holds."""
    (check,) = (check for check in checks if check.name == f"{SESSION}: certificate on record")
    return "" if check.ok else check.detail


def said_of(home: Path) -> str:
    return detail_of(verify(home, SESSION))


def changed(home: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The home, once its certificate was changed so."""
    certificate = json.loads((home / CERTIFICATE).read_bytes())
    change(certificate)
    (home / CERTIFICATE).write_text(json.dumps(certificate))
    return home


def tell(home: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """What is found once the certificate was changed so."""
    return said_of(changed(home, change))


LEADING = ("sessions", 0)
"""Where the record of the session stands."""


def at(*place: Any, value: Any, new: bool = False) -> Callable[[dict[str, Any]], None]:
    """The change of what stands at that place into `value`; None takes it away."""

    def change(certificate: dict[str, Any]) -> None:
        part: Any = certificate
        for step in place[:-1]:
            part = part[step]
        assert new or part[place[-1]] != value
        if value is None:
            del part[place[-1]]
        else:
            part[place[-1]] = value

    return change


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a caveat removed": (at("caveats", 1, value=None), "The guarantee covers what is published"),
    "a caveat added": (at("caveats", 1, value="It is safe."), "It is safe."),
    "a caveat changed": (at("caveats", 3, value="It is safe."), "Concord cannot detect by itself"),
    "the version of the data": (at("data_version", value="2"), "data_version is 2"),
    "the proof": (
        at(*LEADING, "mechanism", "proof", value="evident"),
        "proof is evident",
    ),
    "the mechanism's name": (
        at(*LEADING, "mechanism", "name", value="exact"),
        "name is exact",
    ),
    "what the domain spent": (at("domain", "spent", "epsilon", value=0.5), "domain, spent, epsilon is 0.5"),
    "its cap": (at("domain", "cap", "epsilon", value=9.0), "domain, cap, epsilon is 9.0"),
    "how many sessions it has": (at("domain", "sessions", value=7), "domain, sessions is 7"),
    "rows that were not asked": (at(*LEADING, "counts", "not_asked", value=0), "not_asked is 0"),
    "a file of labels": (at(*LEADING, "files", 0, value=None), "labels leave out some"),
    "two claims": (at("guarantee", "epsilon", value=2.0), "guarantee, epsilon is 2.0"),
    "another claim": (
        at(*LEADING, "guarantee", "epsilon", value=0.5),
        f"guarantee of session {SESSION}, epsilon is 0.5",
    ),
    "another part": (at(*LEADING, "part", value="test"), f"part of session {SESSION} is test"),
    "fewer teachers": (at(*LEADING, "teachers", value=7), f"teachers of session {SESSION} is 7"),
    "fewer refusals": (at(*LEADING, "counts", "refused", value=10), "the certificate's counts"),
    "another cutoff": (
        at(*LEADING, "mechanism", "settings", "cutoff", value=10),
        f"mechanism of session {SESSION}, settings, cutoff is 10",
    ),
    "another version": (at("format", value="concord certificate 2"), "was written by another version"),
    "a relabelling": (
        at(*LEADING, "mechanism", "settings", "relabel", value={"share": 1}, new=True),
        f"mechanism of session {SESSION}, settings, relabel is",
    ),
    "an answer that nobody gave": (
        at(
            *LEADING,
            "outcomes",
            value=[{"question": "who", "code": "", "outcome": "answered", "answer": "you"}],
        ),
        f"outcomes of session {SESSION} is",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_certificate_that_says_what_the_ledger_never_did_is_found(home: Path, change: str) -> None:
    edit, found = CHANGES[change]
    assert found in tell(home, edit)


def test_a_certificate_names_the_version_that_wrote_it(home: Path) -> None:
    assert "concord is 'latest', which is not a version" in tell(home, at("versions", "concord", value="latest"))


def test_it_stays_right_when_the_ledger_goes_on(home: Path) -> None:
    ledger = Ledger.of(home)
    ledger.name_domain("elsewhere", unit="one row", neighbours="add or remove one unit", epsilon=1.0, delta=1e-5)
    ledger.open_session(opening(STABLE, "people-2"), further=True)
    ledger.recap("people", 20.0, 1e-4, "the board said so")
    assert said_of(home) == ""
