"""What a home holds shows that its ledger was deleted, emptied, cut back, edited or put back, with an intact chain."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import world
from tests.support.at_door import MECHANISMS, Case, make_case
from tests.support.chained import Said, rewrite
from tests.support.published import SESSION, certified, opening, world_in
from tests.support.sentences import facts

STABLE = world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that published a session, which has ended."""
    small = world_in(tmp_path_factory.mktemp("held") / "home")
    labels = small.truth.copy()
    labels[::15] = -1
    certified(small, STABLE, labels[:286])
    return small.home


@pytest.fixture
def home(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "home"))


def unsettled(entries: list[Said]) -> None:
    entries[:] = [entry for entry in entries if entry.kind != "settle"]


def claiming_less(entries: list[Said]) -> None:
    for entry in entries:
        if entry.kind == "open":
            entry.body["epsilon"] = 0.5


CHANGES: dict[Callable[[list[Said]], None], str] = {
    unsettled: f"the certificate of {SESSION} counts session {SESSION} as spent, and by the ledger it is open",
    claiming_less: f"counts session {SESSION} with a claim that it has not",
}
"""Besides those of tests/flows/cli/test_changed_ledger.py."""


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_ledger_that_was_changed_and_chained_anew_is_denied_by_the_home(
    home: Path, change: Callable[[list[Said]], None]
) -> None:
    world.checked_ledger(home)
    rewrite(home, change)
    world.Ledger.of(home).verify()  # its chain is intact
    with pytest.raises(world.NotVerified, match=CHANGES[change]) as found:
        world.checked_ledger(home)
    assert "restore the right one" in str(found.value)


def test_a_ledger_that_went_on_is_not(home: Path) -> None:
    ledger = world.Ledger.of(home)
    ledger.recap("people", 20.0, 1e-4, "the board said so")
    ledger.open_session(opening(STABLE, "people-2"), further=True)
    ledger.recap("people", 9.0, 1e-4, "and again")
    assert world.checked_ledger(home).caps("people") == ((4.0, 4e-5), (20.0, 1e-4), (9.0, 1e-4))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"session": []}', '{"session": "people-1", "counts": 3}'])
def test_what_is_no_certificate_denies_nothing(home: Path, text: str) -> None:
    """That it was changed is for `verify` to say."""
    (home / "released" / SESSION / "certificate.json").write_text(text)
    assert world.checked_ledger(home).caps("people") == ((4.0, 4e-5),)


def test_a_session_opened_while_the_home_is_looked_at_is_not_missed(home: Path) -> None:
    """Its files come after its entry, so the home is looked at first."""
    held = world.HomeContents(home)
    world.Ledger.of(home).open_session(opening(STABLE, "people-2"), further=True)
    (home / "released/people-2").mkdir()
    (home / "released/people-2/labels.arrow").touch()
    held.check(world.Ledger.of(home))


@pytest.fixture(params=MECHANISMS, ids=lambda mechanism: mechanism.name)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return make_case(tmp_path / "home", request.param)


def test_an_older_ledger_draws_for_no_rows_that_were_released(case: Case) -> None:
    """Where ledger.db alone is put back, a session's next draws have served rows that it does not know of."""
    file = case.door.vault.root.parent / "ledger.db"
    older = file.read_bytes()
    case.run()
    file.write_bytes(older)
    case.batches.reverse()
    case.votes.reverse()
    behind = replace(case, door=world.Stores.of(file.parent))
    with pytest.raises(world.NotVerified, match=facts("batch-00000.arrow", "was released", "backup")):
        behind.run()
    assert behind.door.ledger.batches("d-1") == ()


@pytest.fixture
def kept(tmp_path: Path) -> tuple[world.Stores, world.Plan]:
    """A home with a session, and the plan that it was opened for."""
    small = world_in(tmp_path / "home")
    door, terms = world.Stores.of(small.home), small.plan.privacy.lifetime
    door.ledger.name_domain(
        "people", unit="one row", neighbours="add or remove one unit", epsilon=terms.epsilon, delta=terms.delta
    )
    door.ledger.open_session(opening(STABLE))
    own = world.PublicSource(path="public.parquet", digests=("digest",), batches=small.batches)
    world.write_checkpoint(
        door, "people-1", world.Checkpoint(plan=small.plan, encoding=small.encoding, teachers=(), sources=(own,))
    )
    return door, small.plan


def test_a_ledger_that_lost_a_session_of_the_vault_opens_no_other(
    kept: tuple[world.Stores, world.Plan], tmp_path: Path
) -> None:
    door, plan = kept
    assert world.planned_domain(door, plan).name == "people"
    (tmp_path / "home/ledger.db").unlink()
    with pytest.raises(world.NotVerified, match=facts("vault: people-1", "the ledger does not know")):
        world.Stores.of(tmp_path / "home")
