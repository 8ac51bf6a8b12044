"""Parts of a domain's units: exact δ for a unit of either part, whatever an asker opens by what came before.

Sessions are randomised responses to whether a unit is there, of all units that the session touches. The asker knows who
is in which part and opens whatever the ledger admits; the worst is found by trying all. The ledger, the commitment and
the rule of who is in which part are the real ones; faults are planted in each.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from tests import world
from tests.privacy.ledgers import DELTA, DOMAIN, EPSILON, NAMES, Kind, kind_of, members, named, opening
from tests.support.openings import InMemory
from tests.support.people import changed, tables_of_plan, write_tables
from tests.support.sentences import facts

EACH = 0.5
"""ε of each session."""
ROOM = 3
"""Sessions that the cap covers on one unit."""


@dataclass(frozen=True)
class Scene:
    """A domain divided by one home and plan, and what may be asked of it."""

    division: world.Division
    kinds: tuple[Kind, ...]
    before: tuple[Kind, ...] = ()

    def book(self, opened: tuple[int, ...]) -> InMemory | None:
        """The ledger after so many sessions of each kind; those of `before` come before the division. None: refused."""
        book = named()
        try:
            for at, kind in enumerate(self.before):
                book.open_session(opening(f"before-{at}", EACH, kind), further=True)
            book.divide("people", self.division)
            for at, (kind, count) in enumerate(zip(self.kinds, opened, strict=True)):
                for number in range(count):
                    book.open_session(opening(f"{at}-{number}", EACH, kind), further=True)
        except world.BudgetRefused:
            return None
        return book


def worst(scene: Scene, unit: str) -> float:
    """The largest δ at EPSILON that any asker reaches of whether that unit is there."""
    chance = 1 / (1 + math.exp(-EACH))

    @cache
    def admitted(opened: tuple[int, ...]) -> bool:
        return scene.book(opened) is not None

    @cache
    def gain(opened: tuple[int, ...], loss: int) -> float:
        """Σ (1 − e^(ε − loss))⁺ that is still to be had, where outcomes so far lost `loss` times EACH."""
        best = max(0.0, 1 - math.exp(EPSILON - loss * EACH))
        for at, kind in enumerate(scene.kinds):
            more = tuple(count + (at == other) for other, count in enumerate(opened))
            if unit in kind.touches and admitted(more):
                best = max(best, chance * gain(more, loss + 1) + (1 - chance) * gain(more, loss - 1))
        return best

    def after(before: int, loss: int) -> float:
        """The same, with the sessions of before still to come."""
        if before == 0:
            return gain((0,) * len(scene.kinds), loss)
        if unit not in scene.before[before - 1].touches:
            return after(before - 1, loss)
        return chance * after(before - 1, loss + 1) + (1 - chance) * after(before - 1, loss - 1)

    return after(len(scene.before), 0)


@dataclass(frozen=True)
class Homes:
    plan: world.Plan
    vault: world.Vault
    other: world.Vault

    def scene(self, *more: Kind, before: tuple[Kind, ...] = ()) -> Scene:
        own = [kind_of(self.plan, self.vault, part) for part in (world.LEARNING, world.TEST, world.EVERY)]
        return Scene(own[0].division, (*own, *more), before)

    def one_of(self, first: Kind, second: Kind) -> str:
        """A unit that both touch."""
        return min(first.touches & second.touches)


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    plan = changed(tables_of_plan(write_tables(tmp_path / "data")), test__share=0.5)
    vaults = [world.Vault(tmp_path / name) for name in ("vault", "other")]
    for vault in vaults:
        vault.make_secret("domains/people")
    return Homes(plan, *vaults)


def units(homes: Homes) -> Iterator[str]:
    for part in (world.LEARNING, world.TEST):
        yield min(members(homes.plan, homes.vault, part))


def test_a_unit_of_either_part_keeps_the_cap_however_sessions_interleave(homes: Homes) -> None:
    scene = homes.scene()
    for unit in units(homes):
        assert 0 <= worst(scene, unit) <= DELTA


def test_each_part_has_the_whole_budget_and_no_more(homes: Homes) -> None:
    scene = homes.scene()
    assert scene.book((ROOM, ROOM, 0)) is not None
    assert scene.book((ROOM + 1, 0, 0)) is None
    assert scene.book((0, ROOM + 1, 0)) is None
    assert scene.book((ROOM, ROOM, 1)) is None
    assert scene.book((ROOM - 1, ROOM - 1, 1)) is not None
    charged = DOMAIN.filter.charge(world.Cost.approximate(EACH))
    book = scene.book((2, 1, 1))
    assert book is not None
    assert book.totals("people") == {world.LEARNING: charged.times(3), world.TEST: charged.times(2)}
    assert book.total("people") == charged.times(3)


def of_another_home(homes: Homes) -> tuple[Scene, str]:
    """A home that shares the ledger and holds another part key: whom it tests on, this one may learn from."""
    tried = kind_of(homes.plan, homes.other, world.TEST)
    scene = homes.scene(tried)
    return scene, homes.one_of(scene.kinds[0], tried)


def of_another_share(homes: Homes) -> tuple[Scene, str]:
    other = homes.plan.model_copy(update={"test": world.PrivateTestPlan(share=0.95)})
    tried = kind_of(other, homes.vault, world.TEST)
    scene = homes.scene(tried)
    return scene, homes.one_of(scene.kinds[0], tried)


def of_an_older_session(homes: Homes) -> tuple[Scene, str]:
    """Sessions from before the division touched all units, those of the test part too."""
    older = kind_of(homes.plan, homes.vault, world.EVERY)
    scene = homes.scene(before=(older,) * ROOM)
    return scene, min(scene.kinds[1].touches)


def of_a_claim_before_the_division(homes: Homes) -> tuple[Scene, str]:
    """They named the learning part of a division that was put on the record only later, and learned from all."""
    older = replace(kind_of(homes.plan, homes.vault, world.LEARNING), touches=frozenset(NAMES))
    scene = homes.scene(before=(older,) * ROOM)
    return scene, min(scene.kinds[1].touches)


def whatever_names_a_part(_: world.Parts, session: world.Terms) -> str:
    return session.part if session.part in world.artifacts_parts.PARTS else world.EVERY


def older_ones_learn(book: world.Parts, session: world.Terms) -> str:
    return TRUE(book, session) or world.LEARNING


def without_key_and_share(key: bytes, *_: str) -> str:  # noqa: ARG001
    return "one division for all"


TRUE = world.Parts.touched_by
SCENES = (of_another_home, of_another_share, of_an_older_session, of_a_claim_before_the_division)
FAULTS = {
    "a part key that differs is not seen": (
        of_another_home,
        (world.units_parts, "keyed_digest", without_key_and_share),
    ),
    "a share that changes is not seen": (of_another_share, (world.units_parts, "keyed_digest", without_key_and_share)),
    "another division is taken for this one": (
        of_another_home,
        (world.Parts, "touched_by", whatever_names_a_part),
    ),
    "an older session counts as clean": (of_an_older_session, (world.Parts, "touched_by", older_ones_learn)),
    "a claim from before the division counts": (
        of_a_claim_before_the_division,
        (world.Parts, "touched_by", whatever_names_a_part),
    ),
}


@pytest.mark.parametrize("scene", SCENES)
def test_what_may_touch_any_unit_counts_in_every_part(
    homes: Homes, scene: Callable[[Homes], tuple[Scene, str]]
) -> None:
    made, unit = scene(homes)
    assert worst(made, unit) <= DELTA


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_breaks_the_cap(homes: Homes, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    scene, planted = FAULTS[fault]
    monkeypatch.setattr(*planted)
    made, unit = scene(homes)
    assert worst(made, unit) > DELTA


def test_the_share_never_changes(homes: Homes) -> None:
    book = homes.scene().book((1, 0, 0))
    assert book is not None
    other = kind_of(homes.plan.model_copy(update={"test": world.PrivateTestPlan(share=0.4)}), homes.vault, world.TEST)
    with pytest.raises(world.WrongInput, match=facts("test.share", "'people'", "is 0.5", "got 0.4")):
        book.divide("people", other.division)
    known = len(book.records())
    book.divide("people", kind_of(homes.plan, homes.other, world.TEST).division)
    assert len(book.records()) == known
