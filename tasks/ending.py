"""The end of a session: close it, and forget what only it needed.

Assumes      whoever closes a session decides by public and released things alone, or gives nothing back
Guarantees   a closed session draws no more; of a forgotten one no key, teacher or vote is left in the vault, unless a
             session that is open votes with the same teachers; nor the hypothesis that relabelled its rows, and they.
             What `concord verify` reads is kept: it needs no secret
Not covered  copies of the vault made elsewhere, and what a disk keeps of removed files.
             Checked by tests/tasks/test_ending.py
"""

from collections.abc import Iterator

from artifacts.errors import WrongInput
from artifacts.sessions import Session
from tasks.recipe import Recipe, read_recipe, votes_folder
from tasks.release import RUN, Door, alone


def close(door: Door, name: str, *, give_back: bool) -> Session:
    """End an open session by the ledger's rule; one that has ended stays as it is. Raises WrongInput if unknown.

    give_back   what was reserved and not spent returns to the domain, where the mechanism pays by refusal
    """
    session = door.ledger.session(name)
    if session.status != "open":
        return session
    with alone(door.vault, name):
        return door.ledger.settle(name, give_back=give_back)


def forget(door: Door, name: str) -> bool:
    """Destroy the secrets of a session that has ended; whether there were any. Raises WrongInput where it is open.

    The key goes first, the recipe, which names the rest, last, and only then does the ledger say that it is forgotten:
    what was interrupted is finished by forgetting again.
    """
    session = door.ledger.session(name)
    if session.status == "open":
        raise WrongInput(f"session {name} is open and must be closed before it is forgotten: `concord close {name}`")
    there = any((door.vault.root / path).exists() for path in (f"secrets/sessions/{name}", f"sessions/{name}"))
    if there:
        _destroy(door, name)
    door.ledger.remark(session.domain, "forgotten", name)
    return there


def _destroy(door: Door, name: str) -> None:
    with alone(door.vault, name, RUN), alone(door.vault, name):
        recipe = read_recipe(door.vault, name)
        door.vault.destroy(f"secrets/sessions/{name}")
        for path in () if recipe is None else _dispensable(door, recipe):
            door.vault.destroy(path)
        door.vault.destroy(f"sessions/{name}")


def _dispensable(door: Door, recipe: Recipe) -> Iterator[str]:
    """Teachers of a recipe that no open session votes with, the votes they cast, and what relabelling left."""
    needed = {ref.path for other in _open_recipes(door) for ref in (*other.teachers, *other.relabelled)}
    yield from (ref.path for ref in (*recipe.teachers, *recipe.relabelled) if ref.path not in needed)
    voting = [other.teachers for other in _open_recipes(door) if other.teachers]
    votes = votes_folder(door.vault, recipe.teachers) if recipe.teachers else None
    if votes is not None and votes not in {votes_folder(door.vault, teachers) for teachers in voting}:
        yield votes


def _open_recipes(door: Door) -> list[Recipe]:
    open_sessions = [
        session.id
        for domain in door.ledger.domains()
        for session in door.ledger.sessions(domain.name)
        if session.status == "open"
    ]
    recipes = [read_recipe(door.vault, session) for session in open_sessions]
    return [recipe for recipe in recipes if recipe is not None]
