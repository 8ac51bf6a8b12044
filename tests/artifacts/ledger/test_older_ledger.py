"""A ledger put back without its home: what the vault and the released files hold tells it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.at_door import MECHANISMS, Case, make_case
from tests.support.published import opening, world
from tests.support.sentences import facts
from tests.tasks.verify.signed_folder import STABLE
from tests.world import Checkpoint, NotVerified, Plan, PublicSource, Stores, planned_domain, write_checkpoint


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
    behind = replace(case, door=Stores.of(file.parent))
    with pytest.raises(NotVerified, match=facts("batch-00000.arrow", "was released", "backup")):
        behind.run()
    assert behind.door.ledger.batches("d-1") == ()


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Stores, Plan]:
    """A home with a session, and the plan that it was opened for."""
    small = world(tmp_path / "home")
    door, terms = Stores.of(small.home), small.plan.privacy.lifetime
    door.ledger.name_domain(
        "people", unit="one row", neighbours="add or remove one unit", epsilon=terms.epsilon, delta=terms.delta
    )
    door.ledger.open_session(opening(STABLE))
    own = PublicSource(path="public.parquet", digests=("digest",), batches=small.batches)
    write_checkpoint(
        door.vault, "people-1", Checkpoint(plan=small.plan, encoding=small.encoding, teachers=(), sources=(own,))
    )
    return door, small.plan


def test_a_ledger_that_lost_a_session_of_the_vault_opens_no_other(kept: tuple[Stores, Plan], tmp_path: Path) -> None:
    door, plan = kept
    assert planned_domain(door, plan).name == "people"
    (tmp_path / "home/ledger.db").unlink()
    with pytest.raises(NotVerified, match=facts("vault: people-1", "the ledger does not know")):
        Stores.of(tmp_path / "home")
