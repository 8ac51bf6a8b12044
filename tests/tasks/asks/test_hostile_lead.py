"""A lead that chooses by what it has seen: one answer of each round, however it asks."""

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import ConcordError
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Ref
from concord.flows import homes as flows_homes
from concord.tasks.asks.share import Answered, Asked, Letter, ModelRecord, ShareAsk, bound
from concord.tasks.mechanisms.contributions import IntegerModel
from concord.tasks.verify.reckoning import ledger_faults
from tests.support.hostile import ATTACKS, DOMAIN, Watched, stopped
from tests.support.several import NAMES

DEATHS = (
    *((flows_homes, step) for step in ("gather", "begin", "certify_answers")),
    (ShareAsk, "answer"),
    *((Ledger, step) for step in ("begin_batch", "record_draw", "commit_batch")),
)
LIES: tuple[Callable[[Asked], dict[str, Any]], ...] = (
    *(attack for attack, _ in ATTACKS.values()),
    lambda asked: {"number": asked.number + 1},
    lambda asked: {"number": len(asked.mechanism.rounds)},
    lambda _: {"run": "0" * 32},
    lambda _: {"plan": "0" * 64},
)


class HostileLead:
    """It asks two homes, each through a folder of its own, whatever it likes after all that it has seen."""

    def __init__(self, world: Watched, seed: int, *, again: bool = False) -> None:
        self.world, self.chance, self.again = world, random.Random(seed), again
        self.asked = [world.asked(number)[0] for number in (0, 1)]
        self.shares, self.drawn = dict[tuple[str, int], bytes](), dict[Path, bytes]()
        self.charged = {name: Ledger.of(world.home(name)).total(DOMAIN) for name in NAMES}
        for name in NAMES:
            shutil.copytree(world.exchange, self.folder(name))
            self.look(name)

    def folder(self, name: str) -> Path:
        return self.world.folder / f"exchange-{name}"

    def question(self) -> Asked:
        """One from before, or another one: its fields and model follow from the shares seen; perhaps with a lie."""
        found = self.chance.choice(self.asked)
        seen = random.Random(b"".join(self.shares.values()) + self.chance.randbytes(1))
        if self.chance.random() < 0.5:
            found = found.model_copy(update={"fields": tuple(seen.sample(found.fields, len(found.fields)))})
        if found.model is not None and self.chance.random() < 0.5:
            weights = IntegerModel.from_record(found.model.model_dump()).weights
            chosen = np.array([seen.randrange(-5, 6) for _ in range(weights.size)], np.int64).reshape(weights.shape)
            model = IntegerModel(chosen, np.zeros(weights.shape[1], np.int64)).record()
            found = found.model_copy(update={"model": ModelRecord(**model)})
        if self.chance.random() < 0.4:
            found = found.model_copy(update=self.chance.choice(LIES)(found))
        self.asked.append(found)
        return found

    def ask(self, name: str, *questions: Asked, dies: tuple[Any, str] | None = None) -> None:
        """Put these questions to a home, in place of the earlier ones, and look at what became of it."""
        self.world.exchange = self.folder(name)
        for path in self.world.exchange.glob("question-*" if self.chance.random() < 0.5 else "*"):
            path.unlink()
        for question in questions:
            self.world.post(question, instead=False)
        with pytest.MonkeyPatch.context() as patch, suppress(ConcordError, KeyboardInterrupt):
            if dies:
                patch.setattr(*dies, stopped)
            self.world.contribute(name, new_session=self.again)
        self.look(name)

    def look(self, name: str) -> None:
        """Each round was answered once, after it was paid for, and all of them are within the claim."""
        ledger, home = Ledger.of(self.world.home(name)), self.world.home(name)
        key, (session, *further) = self.world.key(name).public.raw.hex(), ledger.sessions(DOMAIN)
        for path in self.folder(name).glob(f"share-*-{name}-*"):
            letter = Letter.read(path.read_bytes(), Answered, key)
            share = letter.content
            assert self.shares.setdefault((name, share.number), letter.data) == letter.data, "two answers of a round"
            assert session.asked > share.number, "answered before it was paid for"
            assert (session.epsilon, session.delta) == (share.epsilon, share.delta)
        for path in home.rglob("vault/sessions/*/*.npz"):
            assert self.drawn.setdefault(path, path.read_bytes()) == path.read_bytes(), "drawn anew"
        assert not further, "a further session"
        assert ledger.total(DOMAIN) == self.charged[name], "charged beyond the claim"
        assert len(bound(ledger, DOMAIN, session.mechanism["share"]["run"])) <= (session.queries or 0)
        assert [*ledger_faults(ledger.records())] == []

    def walk(self, steps: int) -> None:
        for _ in range(steps):
            name, dies = self.chance.choice(NAMES[:2]), self.chance.choice(DEATHS)
            asked = [self.question() for _ in range(self.chance.choice((1, 1, 1, 2)))]
            self.ask(name, *asked, dies=dies if self.chance.random() < 0.3 else None)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_a_hostile_lead_gets_one_answer_of_each_round_however_it_chooses(world: Watched, seed: int) -> None:
    lead = HostileLead(world, seed)
    lead.walk(8 if seed == 1 else 40)
    assert {number for _, number in lead.shares} == {0, 1}


def test_a_home_that_answers_a_round_twice_would_be_found(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: it knows neither the session nor the question of before."""
    monkeypatch.setattr(flows_homes, "sessions_of_run", lambda *_, **__: [])
    monkeypatch.setattr(flows_homes, "bind", lambda *_: None)
    lead = HostileLead(world, 1, again=True)
    other = lead.asked[0].model_copy(update={"fields": lead.asked[0].fields[::-1]})
    with pytest.raises(AssertionError, match="two answers of a round"):
        lead.ask("north", other)


def test_a_home_that_draws_anew_would_be_found(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what was drawn before it died is neither kept nor on record."""

    def keep(vault: Vault, path: str, make: Callable[[], bytes]) -> Ref:
        with vault.create(path) as sink:
            sink.write(make())
        return sink.ref

    monkeypatch.setattr(Vault, "keep", keep)
    monkeypatch.setattr(Ledger, "record_draw", lambda *_: None)
    lead = HostileLead(world, 1)
    lead.ask("north", lead.asked[1], dies=(Ledger, "commit_batch"))
    with pytest.raises(AssertionError, match="drawn anew"):
        lead.ask("north", lead.asked[1])
