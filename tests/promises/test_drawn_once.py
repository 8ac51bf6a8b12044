"""Drawn once: whatever is put back, and however many copies of a home there are, noise is drawn once for one charge.

The ledger lies outside the home, or only the vault is put back, so the ledger knows of a batch whose draw is gone. Then
nothing more is drawn, and what was released stays as it is. A draw that is not on record was never seen, and may be
made again.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tests.promises.kinds import KINDS, VOTES, Kind
from tests.promises.walks import files
from tests.world import LEDGER, ConcordError, Ledger, NotVerified, Stores, close

NOISY = [kind for kind in KINDS if not kind.keyed]
THRESHOLDS = ("sparse_vector", "published")
"""Mechanisms whose noise outlasts a batch."""


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def home(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose session is open and asked nothing yet, with its ledger outside."""
    monkeypatch.setenv(LEDGER, f"sqlite:///{tmp_path / 'outside' / 'ledger.db'}")
    kind.prepare(tmp_path / "home")
    return tmp_path / "home"


@contextmanager
def power_fails_at(step: str, calls: int = 1) -> Iterator[None]:
    """The block, which ends before the ledger has done `step` for that many times."""
    left = calls
    done = getattr(Ledger, step)

    def failing(*given: object, **named: object) -> object:
        nonlocal left
        left -= 1
        return done(*given, **named) if left else _fail()

    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Ledger, step, failing)
        yield


def _fail() -> NoReturn:
    raise KeyboardInterrupt


def put_back(copy: Path, home: Path) -> None:
    shutil.rmtree(home)
    shutil.copytree(copy, home)


def copy_of(folder: Path) -> Path:
    return Path(shutil.copytree(folder, folder.with_name(f"{folder.name} before")))


@pytest.mark.parametrize("what", ["vault", ""], ids=["vault", "home"])
def test_noise_is_not_drawn_again_after_an_older_copy_is_put_back(home: Path, kind: Kind, what: str) -> None:
    """Power fails when a result is published and its batch not committed."""
    before = copy_of(home / what)
    with power_fails_at("commit_batch"):
        kind.ask(home)
    released = files(home / "released")
    assert released
    put_back(before, home / what)
    if kind.keyed:
        kind.ask(home)
        assert released.items() <= files(home / "released").items()
        return
    with pytest.raises(NotVerified, match="restore a copy of it"):
        kind.ask(home)
    assert files(home / "released").items() <= released.items()
    Ledger.of(home).verify()


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name in VOTES], ids=lambda kind: kind.name, indirect=True
)
def test_noise_that_outlasts_a_batch_is_not_drawn_again_either(home: Path, kind: Kind) -> None:
    """A noisy threshold is kept for later rows: after its first batch, nothing is asked under another one."""
    before = copy_of(home / "vault")
    with power_fails_at("begin_batch", 2):
        kind.ask(home)
    put_back(before, home / "vault")
    if kind.name not in THRESHOLDS:
        kind.ask(home)
        return
    with pytest.raises(NotVerified, match="thresholds"):
        kind.ask(home)


@pytest.mark.parametrize("kind", NOISY, ids=lambda kind: kind.name, indirect=True)
def test_of_two_copies_with_one_ledger_one_publishes(home: Path, kind: Kind) -> None:
    """Each has drawn for the same batch; the ledger takes the draw of one of them."""
    other = copy_of(home)
    with power_fails_at("record_draw"):
        kind.ask(other)
    with power_fails_at("commit_batch"):
        kind.ask(home)
    with pytest.raises(NotVerified, match=r"(put that in its place|restore a copy of it).*concord close --whole d-1`"):
        kind.ask(other)
    assert not files(other / "released")


@pytest.mark.parametrize("kind", NOISY, ids=lambda kind: kind.name, indirect=True)
def test_a_draw_that_is_not_on_record_was_seen_by_nobody_and_is_made_again(home: Path, kind: Kind) -> None:
    before = copy_of(home / "vault")
    with power_fails_at("record_draw"):
        kind.ask(home)
    assert not files(home / "released")
    put_back(before, home / "vault")
    kind.ask(home)
    assert files(home / "released")


@pytest.mark.parametrize("kind", NOISY, ids=lambda kind: kind.name, indirect=True)
def test_a_draw_that_is_not_put_on_record_would_be_found(home: Path, kind: Kind) -> None:
    """The planted bug, by which noise was once drawn twice: the kept draw alone says that there is one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "record_draw", lambda *_: None)
        with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
            test_noise_is_not_drawn_again_after_an_older_copy_is_put_back(home, kind, "vault")


@pytest.mark.parametrize("kind", NOISY, ids=lambda kind: kind.name, indirect=True)
def test_a_session_whose_draw_is_gone_can_be_closed(home: Path, kind: Kind) -> None:
    before = copy_of(home / "vault")
    with power_fails_at("commit_batch"):
        kind.ask(home)
    put_back(before, home / "vault")
    with suppress(ConcordError):
        kind.ask(home)
    close(Stores.of(home), "d-1", give_back=True)
    assert Ledger.of(home).session("d-1").status == "closed"
