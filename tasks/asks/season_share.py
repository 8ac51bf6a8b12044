"""A share of a season: the running totals that one of several homes answers to a question of whoever leads them.

    question (signed by the lead) ─ bound in the ledger ─ what arrived since, counted ─┃ release ─ totals (signed)

Every question of the season asks the same, so it may follow from nothing that was released, and a home that left one
out answers the next: its units of that time are in the period that it takes then, once. It names the last share of each
home, so that an older copy of a home that was put back refuses.

Assumes      as of `share` and `stream`
Guarantees   as of both: of two questions of a number one is answered, ever, and a unit is asked in one period of this
             run. A share is a function of the home's releases, the ledger's excerpt and public things alone. A release
             that was drawn for a question whose asking was killed is the answer to the next
Ends         with the season
Not covered  as of both. A home that never answers is not known from one to which nothing arrived. A lead that leaves
             out the share of an older copy: that is the witness's to tell. Only the lead keeps the clock: a hostile one
             may use a season up at any speed
             Checked by tests/tasks/asks/test_season_share.py and tests/flows/test_season_of_homes.py
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from concord.artifacts.home.released import sha256
from concord.artifacts.schemas import Ref, canonical_json
from concord.artifacts.sessions import Session
from concord.tasks.asks.share import Asked, Letter, ShareAsk, signed_share
from concord.tasks.asks.stream import SeasonAsk
from concord.tasks.door.stores import Stores
from concord.tasks.mechanisms.homes import Share
from concord.tasks.mechanisms.stream import Stream


@dataclass(frozen=True)
class SeasonShareAsk(SeasonAsk, ShareAsk):
    """The season of one home in one run; what is asked in it is agreed on, too: another question would stop it."""

    @classmethod
    def of(cls, asked: Asked, share: Share | Stream, name: str, key: str) -> Self:
        """As of rounds."""
        made = super().of(asked, share, name, key)
        return replace(made, agreed={**made.agreed, "questions": _digest(asked)})


def _digest(asked: Asked) -> str:
    return sha256(canonical_json([each.record() for each in asked.questions]).encode())


def follow_release(asked: Asked, release: Mapping[str, Any]) -> dict[str, Any]:
    """What a home's certificate says of a release, besides its sums; nothing of which question it was drawn for."""
    question, code = f"release {release['release']} of the run {asked.run}", _digest(asked)
    said = {"question": question, "code": code, "outcome": "answered"}
    return {**said, "answer": sha256(canonical_json(release["sums"]).encode())}


def answer_release(
    door: Stores,
    session: Session,
    ask: ShareAsk,
    asked: Asked,
    letter: Letter,
    released: Ref,
    codes: Literal["recomputed", "declared"],
) -> Letter:
    """Sign the running totals of a released file as the answer to a question, once, and keep it; or replay it."""
    found = json.loads(door.released.read(released))
    totals = [number for of_question in found["totals"] for number in of_question]
    return signed_share(door, session, ask, asked, letter, codes, found["release"], totals)
