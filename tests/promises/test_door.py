"""The door, for every kind of release: paid first, drawn once, replayed, and nothing else whatever is put to it.

Each promise is tested on all of `tests.promises.kinds`, and a planted bug shows that the test would find it broken.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.promises.kinds import KINDS, Kind
from tests.promises.walks import files
from tests.support.homes import dies
from tests.support.processes import FRESH
from tests.support.sentences import facts

NOISE = ("laplace", "gaussian", "sample_by_weight", "keyed_draws")
"""Everything that draws."""


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def home(tmp_path: Path, kind: Kind) -> Path:
    """A home whose session is open and asked nothing yet."""
    kind.prepare(tmp_path / "home")
    return tmp_path / "home"


def session_of(home: Path) -> world.Session:
    return world.Ledger.of(home).session("d-1")


def flip(file: Path) -> None:
    """Change the last byte of a file."""
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


# Paid first ---------------------------------------------------------------------------------------------------------


def steps_of(home: Path, kind: Kind) -> list[str]:
    """The steps of a release in their order: what is begun, drawn, put on record, published and committed."""
    steps: list[str] = []

    def noting(step: str, true: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            if step != "publish" or str(given[1]).startswith("d-1"):
                steps.append(step)
            return true(*given, **named)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for owner, name, step in (
            (world.Ledger, "begin_batch", "begin"),
            (world.Ledger, "record_draw", "record"),
            (world.Released, "write", "publish"),
            (world.Ledger, "commit_batch", "commit"),
            *((world.mechanisms_noise, name, "draw") for name in NOISE),
        ):
            patch.setattr(owner, name, noting(step, getattr(owner, name)))
        kind.ask(home)
    return steps


def order_is_kept(steps: list[str], *, keyed: bool) -> bool:
    """Whether nothing is drawn before its batch is begun, nothing published before its draw is on record, and nothing
    committed before it is published."""
    begun = drawn = recorded = published = False
    for step in steps:
        match step:
            case "begin":
                begun, drawn, recorded, published = True, False, False, False
            case "draw":
                drawn = True
                if not begun:
                    return False
            case "record":
                recorded = True
            case "publish":
                published = True
                if not (begun and (keyed or recorded)):
                    return False
            case "commit":
                if not published:
                    return False
                begun = False
    return drawn and published


def test_what_is_drawn_is_paid_for_and_on_record_before_it_is_published(home: Path, kind: Kind) -> None:
    assert order_is_kept(steps_of(home, kind), keyed=kind.keyed)
    session = session_of(home)
    assert session.asked == session.answered + session.refused > 0
    if kind.name != "questions":  # a stream of questions stays open
        assert session.status == "spent" or session.cutoff is not None
    world.Ledger.of(home).verify()


@pytest.mark.parametrize("missing", ["begin", "record", "publish"])
def test_a_step_that_is_left_out_would_be_found(home: Path, kind: Kind, missing: str) -> None:
    """The planted bugs: a draw before its batch is begun, a release before its draw is on record, and a commit of what
    was never published."""
    steps = [step for step in steps_of(home, kind) if step != missing]
    assert not order_is_kept(steps, keyed=kind.keyed) or (kind.keyed and missing == "record")


# Replayed -----------------------------------------------------------------------------------------------------------


def drawing(*_: object, **__: object) -> Any:
    raise AssertionError("it draws")


def test_asked_again_it_is_replayed_and_nothing_is_drawn_or_spent(
    home: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind.ask(home)
    before = files(home / "released"), session_of(home), world.Ledger.of(home).total("d")
    for name in NOISE:
        monkeypatch.setattr(world.mechanisms_noise, name, drawing)
    kind.ask(home)
    assert (files(home / "released"), session_of(home), world.Ledger.of(home).total("d")) == before


def test_a_draw_in_place_of_a_replay_would_be_found(home: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever draws is trapped above: asked for the first time, each kind is caught."""
    for name in NOISE:
        monkeypatch.setattr(world.mechanisms_noise, name, drawing)
    with pytest.raises(world.EnvironmentFailed, match="AssertionError"):
        kind.ask(home)
    assert not files(home / "released")


# Nothing else -------------------------------------------------------------------------------------------------------


def test_other_private_numbers_stop_before_a_draw(home: Path, kind: Kind) -> None:
    kind.ask(home)
    before = files(home / "released"), session_of(home)
    if kind.named:
        kind.ask(home, other=True)
    else:
        with pytest.raises(world.NotVerified, match=facts("batch 0", "session d-1", "changed")):
            kind.ask(home, other=True)
    assert (files(home / "released"), session_of(home)) == before


def test_numbers_that_change_between_draw_and_release_stop_it(home: Path, kind: Kind) -> None:
    """The draw was for other numbers, so that both together would tell of them."""
    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(world.Ledger, "commit_batch", dies)
        kind.ask(home)
    released = files(home / "released")
    with pytest.raises(world.NotVerified, match="changed since it was begun"):
        kind.ask(home, other=True)
    assert files(home / "released") == released


def test_without_its_key_or_with_another_nothing_goes_on(home: Path, kind: Kind) -> None:
    secret = home / "vault" / "secrets" / "sessions" / "d-1"
    secret.unlink()
    with pytest.raises(world.NotVerified, match="the key of session d-1"):
        kind.ask(home)
    world.Vault(home / "vault").make_secret("sessions/d-1")
    with pytest.raises(world.NotVerified, match="is not the one it was opened with"):
        kind.ask(home)
    assert not files(home / "released")


def test_a_released_file_that_changed_is_not_handed_on(home: Path, kind: Kind) -> None:
    kind.ask(home)
    for file in (home / "released").rglob("*"):
        if file.is_file():
            flip(file)
    with pytest.raises(world.NotVerified):
        kind.ask(home)


# Ended --------------------------------------------------------------------------------------------------------------


def test_a_session_that_was_closed_first_draws_nothing(home: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    world.close(world.Stores.of(home), "d-1", give_back=True)
    monkeypatch.setattr(world.Randomness, "kept", drawing)
    for name in NOISE:
        monkeypatch.setattr(world.mechanisms_noise, name, drawing)
    with suppress(world.BudgetRefused, world.NotVerified):  # rows that come too late are published as not asked
        kind.ask(home)
    session = session_of(home)
    assert (session.asked, session.batches) == (0, 0)


def test_what_was_begun_is_paid_though_the_session_is_closed_before_it_is_released(home: Path, kind: Kind) -> None:
    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(world.Released, "write", dies)
        kind.ask(home)
    pending = session_of(home).pending
    assert pending is not None
    world.close(world.Stores.of(home), "d-1", give_back=True)
    session = session_of(home)
    assert session.settled is not None
    if session.per_refusal is None:
        assert session.settled == session.reserved
    else:
        refused = session.per_refusal.times(min(pending.rows, session.cutoff or pending.rows))
        assert session.settled == (refused if refused <= session.reserved else session.reserved)


# Two at once --------------------------------------------------------------------------------------------------------


def test_of_two_processes_one_draws_and_both_have_the_same(home: Path, kind: Kind) -> None:
    both = [FRESH.Process(target=kind.ask, args=(home,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    released, session = files(home / "released"), session_of(home)
    kind.ask(home)
    assert (files(home / "released"), session_of(home)) == (released, session)
    records = [record.kind for record in world.Ledger.of(home).records()]
    assert records.count("begin") == records.count("commit") == session.batches
    world.Ledger.of(home).verify()
