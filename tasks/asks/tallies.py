"""Tallies: rounds of noisy sums at the door, one question after another, each of which may depend on earlier sums.

A round is a step of its session, published with what is asked next. That follows from released sums, but in floating
point, whose last bits depend on the machine. So it is computed once, rounded to whole numbers, and published with the
round; a process that continues the session reads it there.

Assumes      the ledger reserved all rounds when the session was opened; `sums` are the exact ones of `question`
Guarantees   a round is drawn for once, after it was begun, and its file has the same bytes however often this runs and
             wherever it was stopped; a question or sums other than those on record stop it, and so does a question that
             its round did not pay for
Ends         with the last round: the session is charged whole, also if it is closed before
Not covered  a ledger restored from an older copy. Checked by tests/promises/test_drawn_once.py,
             tests/promises/test_door.py and test_crash.py
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from concord.artifacts.home.released import ROUND_FILE
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Bounds, Ref, canonical_json
from concord.artifacts.sessions import LABELS
from concord.tasks.data.codes import Codes
from concord.tasks.door.ask import Ask
from concord.tasks.door.door import Drawn, Step
from concord.tasks.door.exact import Exact
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.tallies import Tallies

ROUND_FORMAT = "concord round 2"
"""Format of a round's file, JSON: number, question, sums, and results computed from them."""


@dataclass(frozen=True)
class TalliesAsk(Ask[Tallies]):
    """Rounds of noisy sums.

    codes    digest of the public codes of the query
    public   digests of the plan's own public rows
    bounds   of a label that is a number
    coded    the codes
    """

    codes: str
    public: tuple[str, ...]
    bounds: Bounds | None = field(default=None, kw_only=True)
    coded: Codes = field(default=Codes(fields=(), coarse=(), fine=()), kw_only=True)

    purpose: ClassVar[str] = LABELS

    def settings(self) -> dict[str, Any]:
        """The settings of the mechanism, the codes, and the bounds of a number, which decide what a step of its sums
        is."""
        bounds = {} if self.bounds is None else {"bounds": list(self.bounds)}
        return {**self.mechanism.model_dump(mode="json"), "codes": self.codes, **bounds}

    def depends(self, plan: Plan) -> dict[str, Any]:
        """The budget, the settings, and the public rows."""
        return {
            "privacy": plan.privacy.model_dump(exclude={"lifetime"}, exclude_defaults=True),
            "tallies": self.settings(),
            "public": list(self.public),
        }


class Planner(Protocol):
    """The source of a session's questions, from public things and what was released: see `tasks.student.questions`."""

    @property
    def mechanism(self) -> Tallies: ...

    def follow(self, released: Sequence[Mapping[str, Any]], question: RoundQuestion, sums: Ints) -> Mapping[str, Any]:
        """Further results of the round after `released`, computed from its noisy sums."""


def round_step(
    planner: Planner, released: Sequence[Mapping[str, Any]], question: RoundQuestion, blocks: Sequence[Ref]
) -> Step:
    """The step that releases a round.

    released  what the files of the rounds before say
    blocks    files of its exact sums, as `tasks.units.sums.count` wrote them
    """
    number = len(released)
    record = {"round": number, "scale": planner.mechanism.rounds[number].scale, "question": question.record()}
    return Step(
        question=canonical_json(record),
        exact=Exact("sums", (tuple(blocks),)),
        publish=round_file,
        about=({"format": ROUND_FORMAT, **record}, planner, tuple(released), question),
        draw="round-{:05d}",
        path=ROUND_FILE,
        number=number,
        once=True,
    )


def round_file(drawn: Drawn) -> bytes:
    """The file of a round: its question and noisy sums, and what follows from them."""
    (record, planner, released, question), (noisy,) = drawn.about, drawn.arrays
    follows = planner.follow(released, question, noisy)
    return canonical_json({**drawn.claim, **record, "sums": noisy.tolist(), **follows}).encode()
