"""The end of a session: what closing returns, and what forgetting destroys and keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests import world
from tests.support.published import opening, world_in

STABLE = world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20)
NOISY = world.calibrated_votes(world.NoisyVotes, epsilon=1.0, delta=1e-5, queries=300, classes=2)


@pytest.fixture
def door(tmp_path: Path) -> world.Stores:
    """A home folder with public rows, and a domain for sessions."""
    world_in(tmp_path / "home")
    door = world.Stores.of(tmp_path / "home")
    door.ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=9.0, delta=1e-3)
    return door


def write(door: world.Stores, path: str) -> world.Ref:
    with door.vault.create(path) as sink:
        sink.write(b"secret")
    return sink.ref


def session(door: world.Stores, name: str, teachers: str = "a", mechanism: world.Mechanism = STABLE) -> str:
    """An open session with a key, teachers, votes, and noise that was kept."""
    door.vault.make_secret(f"sessions/{name}")
    asked: world.Opening = replace(opening(mechanism, name), commitment=world.commitment(door.vault, name))
    door.ledger.open_session(asked, further=True)
    small = world_in(door.vault.root.parent)
    blocks = (write(door, f"teachers/{teachers}-1/000000"), write(door, f"teachers/{teachers}-2/000050"))
    own = world.PublicSource(path="public.parquet", digests=("digest",), batches=small.batches)
    recipe = world.Checkpoint(plan=small.plan, encoding=small.encoding, teachers=blocks, sources=(own,))
    world.write_checkpoint(door, name, recipe)
    write(door, f"{world.votes_folder(door.vault, blocks)}/poll-0")
    write(door, f"sessions/{name}/answers-00000.npz")
    return name


def secrets_of(door: world.Stores) -> set[str]:
    """Every file of the vault but public rows and the installation's own secret."""
    paths = {str(file.relative_to(door.vault.root)) for file in door.vault.root.rglob("*") if file.is_file()}
    return {path for path in paths if not path.startswith("public/")} - {"secrets/installation"}


@pytest.mark.parametrize(("mechanism", "give_back"), [(STABLE, True), (STABLE, False), (NOISY, True)])
def test_what_was_not_spent_returns_if_it_is_asked_for_and_the_mechanism_pays_by_refusal(
    door: world.Stores, mechanism: world.Mechanism, give_back: bool
) -> None:
    reserved = door.ledger.session(session(door, "one", mechanism=mechanism)).charge
    ended = world.close(door, "one", give_back=give_back)
    due = world.Charge() if give_back and mechanism is STABLE else reserved
    assert ended.settled == due == door.ledger.total("people")
    assert world.close(door, "one", give_back=not give_back) == ended  # closing twice changes nothing


def test_an_open_session_is_not_forgotten(door: world.Stores) -> None:
    session(door, "one")
    before = secrets_of(door)
    with pytest.raises(world.WrongInput, match="concord close one"):
        world.forget(door, "one")
    assert secrets_of(door) == before


def test_what_an_open_session_votes_with_is_kept(door: world.Stores) -> None:
    world.close(door, session(door, "one"), give_back=True)
    only_one = secrets_of(door)
    session(door, "two")
    session(door, "other", teachers="b")
    before = secrets_of(door)
    assert world.forget(door, "one")
    gone = before - secrets_of(door)
    assert gone == {path for path in only_one if "sessions/one" in path}
    world.close(door, "two", give_back=True)
    assert world.forget(door, "two")
    assert {path for path in secrets_of(door) if path.startswith("teachers/")} == {
        "teachers/b-1/000000",
        "teachers/b-2/000050",
    }


def test_what_another_version_made_is_forgotten_with_the_session_unless_an_open_one_votes_with_it(
    door: world.Stores,
) -> None:
    """Another version, or another size of blocks, makes teachers and sums of its own, which take the place of these."""
    session(door, "two", teachers="both")
    recipe = world.read_checkpoint(door, session(door, "one", teachers="both"))
    assert recipe is not None
    units = write(door, "units/people/1/block-0")
    write(door, f"{world.sums_folder(units)}/round-0.npy")
    for kept in ((units,), (), (write(door, "units/people/2/block-0"),)):
        world.write_checkpoint(door, "one", recipe.model_copy(update={"teachers": kept}))
    world.close(door, "one", give_back=True)
    assert world.forget(door, "one")
    assert not {path for path in secrets_of(door) if path.startswith(("units/", "sums/"))}
    assert len({path for path in secrets_of(door) if path.startswith(("teachers/both", "votes/"))}) == 3
    world.close(door, "two", give_back=True)
    assert world.forget(door, "two")
    assert secrets_of(door) == set()
