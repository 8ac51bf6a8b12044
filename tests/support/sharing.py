"""One of several homes, for tests of the door: it answers a lead's questions over the codes of a few made-up rows."""

from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from concord.artifacts.home.signing import SigningKey
from concord.artifacts.schemas import Empty, Encoding
from concord.artifacts.sections import HomesPlan
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.tasks.asks.share import Answered, Asked, Letter, ModelRecord, ShareAsk, bind
from concord.tasks.data.codes import Codes, NumberField, WordField
from concord.tasks.door.checkpoint import commitment
from concord.tasks.mechanisms.homes import Share
from tests.support.tallied import DOMAIN, NAME, SPANS, TALLIES, Rounds, follow, opening

CODES = Codes(
    fields=(
        NumberField(kind="numeric", name="size", start=0, cuts=(0.5,)),
        WordField(name="shade", start=3, words=()),
    ),
    coarse=(0, 1),
    fine=(0, 1),
)
assert [(CODES.span(field).start, CODES.span(field).stop) for field in (0, 1)] == [*SPANS]
FIRST = Asked(
    run="0" * 32,
    number=0,
    plan="0" * 64,
    homes=HomesPlan(
        names=("north", "south"),
        public_keys=("0" * 64, "1" * 64),
        lead="2" * 64,
        people="in one home",
        public="3" * 64,
        tick=0,
    ),
    before="",
    shares=(),
    mechanism=TALLIES,
    encoding=Encoding(columns=(Empty(name="size"), Empty(name="shade")), label="label", classes=("no", "yes")),
    codes=CODES,
    fields=(0, 1),
    model=None,
)
ASK = ShareAsk.of(FIRST, Share(**{each.name: getattr(TALLIES, each.name) for each in fields(TALLIES)}), "north", "")


@dataclass
class Shares:
    """The session of a run in a home."""

    door: Stores

    @classmethod
    def in_home(cls, home: Path) -> "Shares":
        """The session in a home, opened now if it is not open yet."""
        door = Stores.of(home)
        if not door.ledger.domain("d"):
            cap = {"epsilon": DOMAIN.filter.epsilon, "delta": DOMAIN.filter.delta}
            door.ledger.name_domain("d", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **cap)
            door.vault.make_secret(f"sessions/{NAME}")
            made = replace(opening(commitment(door.vault, NAME)), purpose=ASK.purpose, mechanism=ASK.settings())
            door.ledger.open_session(replace(made, whole=ASK.cost, queries=ASK.queries))
        return cls(door)

    @property
    def session(self) -> Session:
        return self.door.ledger.session(NAME)

    def answer(self, asked: Asked, rows: int = 200) -> Answered:
        """The share that answers a question, as it was asked by the lead of a run."""
        letter = Letter(asked.model_dump_json().encode(), asked)
        bind(self.door.ledger, "d", asked, letter.digest)
        blocks = Rounds(self.door).blocks(asked.number, asked.question, rows)
        share = ASK.answer(self.door, self.session, letter, blocks, "declared")
        return Letter.read(share, Answered, SigningKey.of(self.door.vault).public.raw.hex()).content

    def all(self, rows: int = 200) -> list[Answered]:
        """The shares in turn: each question follows from the share before."""
        asked, given = FIRST, list[Answered]()
        for number in range(len(TALLIES.rounds)):
            if given:
                model = ModelRecord(**follow(number - 1, np.array(given[-1].sums))["next"]["model"])
                asked = asked.model_copy(update={"number": number, "model": model})
            given.append(self.answer(asked, rows))
        return given
