"""A home whose rows arrive against a hostile lead: each unit is asked once, whatever the lead asks, and when."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import ConcordError, NotVerified, WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Ref
from concord.flows import homes as flows_homes
from concord.flows import season
from concord.tasks.asks.share import Answered, Asked, Letter, ModelRecord, bound
from concord.tasks.asks.stream import periods_counted
from concord.tasks.data import arrivals
from concord.tasks.door.stores import Stores
from concord.tasks.mechanisms.contributions import IntegerModel
from concord.tasks.verify.reckoning import reckon
from concord.tasks.verify.verify import verify
from tests.support.hostile import DOMAIN, narrower, other_codes, stopped, the_label_itself
from tests.support.people import people
from tests.support.several import Weekly, plainly

SEASON = 4
DEATHS: tuple[tuple[Any, str], ...] = (
    *((flows_homes, step) for step in ("release_period", "answer_release", "certify_answers")),
    *((season, step) for step in ("take", "arrive", "keep_counted")),
    *((Ledger, step) for step in ("begin_batch", "record_draw", "commit_batch")),
)
"""Where the home is killed, after the question is bound."""


class Watched(Weekly):
    """A home that is asked, in a season whose first question is `first`; looked at after each call."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SEASON)
        self.week, self.again = 0, False
        self.lead()
        self.first = self.asked(0)[0]
        self.shares, self.drawn = dict[int, bytes](), dict[Path, bytes]()
        self.charged: Any = None

    def ask(self, *questions: Asked, dies: tuple[Any, str] | None = None) -> dict[str, Any] | None:
        """These questions in place of all others; rows arrive meanwhile."""
        self.week += 1
        self.arrive("north", self.week, rows=40)
        for path in self.exchange.glob("question-*"):
            path.unlink()
        for question in questions:
            self.post(question, instead=False)
        done = None
        with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
            if dies:
                patch.setattr(*dies, stopped)
            done = self.contribute("north", again=self.again)
        self.look()
        return done

    def number(self, number: int) -> Asked:
        """The season's question of that number, as far as the home can tell."""
        known = bound(Ledger.of(self.home("north")), DOMAIN, self.first.run)
        before = known.get(number - 1, "0" * 64) if number else ""
        last: tuple[dict[str, str], ...] = ({},) if number else ()
        return self.first.model_copy(update={"number": number, "before": before, "shares": last})

    def look(self) -> None:
        """One session, charged once; a number answered once, a release drawn once and a file taken once."""
        door = Stores.of(self.home("north"))
        session, *further = door.ledger.sessions(DOMAIN) or [None]
        assert not further, "a further session"
        if session is None:
            return
        self.charged = self.charged or door.ledger.total(DOMAIN)
        assert door.ledger.total(DOMAIN) == self.charged, "charged beyond the claim"
        shares = [Letter(path.read_bytes()) for path in self.exchange.glob("share-*-north-*")]
        for letter in shares:
            share = letter.read(Answered, self.key("north").public.raw.hex())
            assert self.shares.setdefault(share.number, letter.data) == letter.data, "two answers of a number"
            assert session.asked > share.release, "answered before it was paid for"
        for path in self.home("north").rglob("vault/sessions/*/*.npz"):
            assert self.drawn.setdefault(path, path.read_bytes()) == path.read_bytes(), "drawn anew"
        assert len(self.drawn) <= SEASON
        taken = [file for each in periods_counted(door.vault, session) for file in each.period.files]
        assert len({*taken}) == len(taken), "asked again"
        assert [*reckon(door.ledger.records())] == []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Watched]:
    with plainly():
        yield Watched(tmp_path / "world")


def with_model(asked: Asked) -> dict[str, Any]:
    """Which follows from what was released: earlier units would be asked anew, and have not paid for that."""
    model = IntegerModel(np.ones((asked.codes.size, 1), np.int64), np.zeros(1, np.int64))
    return {"model": ModelRecord(**model.record())}


LIES: dict[str, tuple[Callable[[Asked], dict[str, Any]], str]] = {
    "a model": (with_model, "none that its round paid for"),
    "other fields": (lambda asked: {"fields": asked.fields[:-1]}, "changes the codes, rounds or rows"),
    "other codes": (other_codes, "not those of the public table"),
    "the label as a feature": (the_label_itself, "other features"),
    "less noise": (narrower, "too little noise"),
    "shares of two rounds": (lambda _: {"shares": ({}, {})}, "does not follow"),
    "a share it never gave": (lambda _: {"shares": ({"north": "0" * 64},)}, "an older copy of the home was put back"),
    "a further release": (lambda _: {"number": SEASON}, "rounds 0 to 3"),
    "another run": (lambda _: {"run": "0" * 32}, "--new-session"),
}


def test_a_question_that_is_not_the_season_s_is_refused(world: Watched) -> None:
    """Before it is bound, and anything private is read."""
    world.ask(world.first)
    ledger = Ledger.of(world.home("north"))
    for attack, match in LIES.values():
        with pytest.raises(ConcordError, match=match):
            world.ask(world.number(1).model_copy(update=attack(world.first)))
        assert (ledger.sessions(DOMAIN)[0].asked, [*bound(ledger, DOMAIN, world.first.run)]) == (1, [0])
    world.ask(world.number(3))
    with pytest.raises(NotVerified, match="has answered a later one"):
        world.ask(world.number(2))
    with pytest.raises(NotVerified, match="another question of this number"):
        world.ask(world.number(3).model_copy(update={"until": "later"}))


@pytest.mark.parametrize("later", [pytest.param(0, id="that question"), pytest.param(1, id="the next")])
@pytest.mark.parametrize("dies", DEATHS, ids=[name for _, name in DEATHS])
@pytest.mark.slow
def test_a_killed_answer_is_finished(world: Watched, dies: tuple[Any, str], later: int) -> None:
    """With one draw for what arrived until then, and a next answer with what arrived later."""
    world.ask(world.first)
    world.ask(world.number(1), dies=dies)
    done = world.ask(world.number(1 + later))
    assert done is not None
    assert done["answered_now"] or dies[1] == "certify_answers"
    door = Stores.of(world.home("north"))
    (session,) = door.ledger.sessions(DOMAIN)
    assert sorted(world.shares) == [0, 1 + later]
    world.ask(world.number(3))
    taken = [len(each.period.files) for each in periods_counted(door.vault, session)]
    assert (sum(taken), len(world.drawn)) == (4, len(taken))  # files of four weeks, each release drawn once
    assert [check for check in verify(world.home("north")) if not check.ok] == []


def test_rows_do_not_stay_if_it_is_killed_once_they_are_released(world: Watched) -> None:
    world.ask(world.first, dies=(season.Periods, "tidy"))
    left = [path for path in (world.home("north") / "vault" / "units").rglob("*") if path.is_file()]
    assert left
    world.ask(world.first)
    assert not any(path.exists() for path in left)


def test_an_older_vault_under_a_newer_ledger_is_named(world: Watched) -> None:
    world.ask(world.first)
    (session,) = Ledger.of(world.home("north")).sessions(DOMAIN)
    (period,) = (world.home("north") / "vault" / "streams").rglob(f"{session.id}-00000.json")
    period.unlink()
    with pytest.raises(NotVerified, match="the vault lacks periods"):
        world.ask(world.number(1))


def test_a_table_without_its_labels_costs_nothing(world: Watched) -> None:
    (folder := world.folder / "data" / "weekly-north").mkdir()
    people(40, 1).drop("outcome").write_parquet(folder / "1.parquet")
    with pytest.raises(WrongInput, match="must hold the column 'outcome'"):
        world.contribute("north")
    assert Ledger.of(world.home("north")).sessions(DOMAIN) == ()


def hostile(world: Watched, seed: int, steps: int) -> None:
    """A lead that asks what it likes after all that it has seen: skips, replays, forks, lies, kills."""
    chance = random.Random(seed)
    for _ in range(steps):
        seen = random.Random(b"".join(world.shares.values()) + chance.randbytes(1))
        asked = world.number(seen.randrange(SEASON))
        if chance.random() < 0.3:
            asked = asked.model_copy(update=chance.choice([*LIES.values()])[0](world.first))
        if chance.random() < 0.2:
            asked = asked.model_copy(update={"until": "another"})
        dies = chance.choice(DEATHS) if chance.random() < 0.4 else None
        with suppress(ConcordError):
            world.ask(asked, dies=dies)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_a_hostile_lead_asks_each_unit_once(world: Watched, seed: int) -> None:
    world.ask(world.first)
    hostile(world, seed, 6 if seed == 1 else 30)


def test_a_home_that_answers_a_number_twice_would_be_found(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: it knows neither the session nor the question of before."""
    monkeypatch.setattr(flows_homes, "sessions_of_run", lambda *_, **__: [])
    monkeypatch.setattr(flows_homes, "bind", lambda *_: None)
    world.again = True
    world.ask(world.first)
    with pytest.raises(AssertionError, match="a further session"):
        world.ask(world.first.model_copy(update={"until": "another"}))


def test_a_home_that_asks_units_again_would_be_found(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: it does not know what earlier periods took."""
    true = arrivals.take
    forgetful = lambda plan, vault, contents, _, columns, until: true(plan, vault, contents, [], columns, until=until)  # noqa: E731
    monkeypatch.setattr(season, "take", forgetful)
    world.ask(world.first)
    with pytest.raises(AssertionError, match="asked again"):
        world.ask(world.number(1))


def test_a_home_that_draws_anew_would_be_found(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what was drawn before it died is neither kept nor on record."""

    def keep(vault: Vault, path: str, make: Callable[[], bytes]) -> Ref:
        with vault.create(path) as sink:
            sink.write(make())
        return sink.ref

    world.ask(world.first)
    monkeypatch.setattr(Vault, "keep", keep)
    monkeypatch.setattr(Ledger, "record_draw", lambda *_: None)
    world.ask(world.number(1), dies=(Ledger, "commit_batch"))
    with pytest.raises(AssertionError, match="drawn anew"):
        world.ask(world.number(1))
