"""The end of a session: what closing returns, and what forgetting destroys and keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.published import opening, world
from tests.world import (
    Charge,
    Checkpoint,
    Mechanism,
    NoisyVotes,
    Opening,
    PublicSource,
    Ref,
    StableVoting,
    Stores,
    WrongInput,
    close,
    commitment,
    forget,
    read_checkpoint,
    sums_folder,
    votes_folder,
    write_checkpoint,
)

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
NOISY = NoisyVotes.calibrate(epsilon=1.0, delta=1e-5, queries=300, classes=2)


@pytest.fixture
def door(tmp_path: Path) -> Stores:
    """A home folder with public rows, and a domain for sessions."""
    world(tmp_path / "home")
    door = Stores.of(tmp_path / "home")
    door.ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=9.0, delta=1e-3)
    return door


def write(door: Stores, path: str) -> Ref:
    with door.vault.create(path) as sink:
        sink.write(b"secret")
    return sink.ref


def session(door: Stores, name: str, teachers: str = "a", mechanism: Mechanism = STABLE) -> str:
    """An open session with a key, teachers, votes, and noise that was kept."""
    door.vault.make_secret(f"sessions/{name}")
    asked: Opening = replace(opening(mechanism, name), commitment=commitment(door.vault, name))
    door.ledger.open_session(asked, further=True)
    small = world(door.vault.root.parent)
    blocks = (write(door, f"teachers/{teachers}-1/000000"), write(door, f"teachers/{teachers}-2/000050"))
    own = PublicSource(path="public.parquet", digests=("digest",), batches=small.batches)
    recipe = Checkpoint(plan=small.plan, encoding=small.encoding, teachers=blocks, sources=(own,))
    write_checkpoint(door.vault, name, recipe)
    write(door, f"{votes_folder(door.vault, blocks)}/poll-0")
    write(door, f"sessions/{name}/answers-00000.npz")
    return name


def secrets_of(door: Stores) -> set[str]:
    """Every file of the vault but public rows and the installation's own secret."""
    paths = {str(file.relative_to(door.vault.root)) for file in door.vault.root.rglob("*") if file.is_file()}
    return {path for path in paths if not path.startswith("public/")} - {"secrets/installation"}


@pytest.mark.parametrize(("mechanism", "give_back"), [(STABLE, True), (STABLE, False), (NOISY, True)])
def test_what_was_not_spent_returns_if_it_is_asked_for_and_the_mechanism_pays_by_refusal(
    door: Stores, mechanism: Mechanism, give_back: bool
) -> None:
    reserved = door.ledger.session(session(door, "one", mechanism=mechanism)).charge
    ended = close(door, "one", give_back=give_back)
    assert ended.settled == (Charge() if give_back and mechanism is STABLE else reserved) == door.ledger.total("people")
    assert close(door, "one", give_back=not give_back) == ended  # closing twice changes nothing


def test_an_open_session_is_not_forgotten(door: Stores) -> None:
    session(door, "one")
    before = secrets_of(door)
    with pytest.raises(WrongInput, match="concord close one"):
        forget(door, "one")
    assert secrets_of(door) == before


def test_what_an_open_session_votes_with_is_kept(door: Stores) -> None:
    close(door, session(door, "one"), give_back=True)
    only_one = secrets_of(door)
    session(door, "two")
    session(door, "other", teachers="b")
    before = secrets_of(door)
    assert forget(door, "one")
    gone = before - secrets_of(door)
    assert gone == {path for path in only_one if "sessions/one" in path}
    close(door, "two", give_back=True)
    assert forget(door, "two")
    assert {path for path in secrets_of(door) if path.startswith("teachers/")} == {
        "teachers/b-1/000000",
        "teachers/b-2/000050",
    }


def test_what_another_version_made_is_forgotten_with_the_session_unless_an_open_one_votes_with_it(
    door: Stores,
) -> None:
    """Another version, or another size of blocks, makes teachers and sums of its own, which take the place of these."""
    session(door, "two", teachers="both")
    recipe = read_checkpoint(door.vault, session(door, "one", teachers="both"))
    assert recipe is not None
    units = write(door, "units/people/1/block-0")
    write(door, f"{sums_folder(units)}/round-0.npy")
    for kept in ((units,), (), (write(door, "units/people/2/block-0"),)):
        write_checkpoint(door.vault, "one", recipe.model_copy(update={"teachers": kept}))
    close(door, "one", give_back=True)
    assert forget(door, "one")
    assert not {path for path in secrets_of(door) if path.startswith(("units/", "sums/"))}
    assert len({path for path in secrets_of(door) if path.startswith(("teachers/both", "votes/"))}) == 3
    close(door, "two", give_back=True)
    assert forget(door, "two")
    assert secrets_of(door) == set()
