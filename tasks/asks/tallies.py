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
             tests/tasks/asks/test_rounds.py and tests/promises/test_crash.py
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Bounds, Ref, canonical_json
from concord.artifacts.sessions import LABELS, Batch, BatchOutcome, Session
from concord.artifacts.stores import Stores
from concord.tasks.asking.tally import sums_bytes, total_of
from concord.tasks.data.codes import Codes
from concord.tasks.door.ask import Ask
from concord.tasks.door.door import Step, publish_round
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

    @property
    def epsilon(self) -> float:
        """ε of the mechanism."""
        return self.mechanism.epsilon

    @property
    def delta(self) -> float:
        """δ of the mechanism."""
        return self.mechanism.delta

    @property
    def queries(self) -> int:
        """Number of steps: rounds, or releases of a season."""
        return self.mechanism.queries

    def settings(self) -> dict[str, Any]:
        """The settings of the mechanism, the codes, and the bounds of a number, which decide what a step of its sums
        is."""
        bounds = {} if self.bounds is None else {"bounds": list(self.bounds)}
        return {**self.mechanism.settings(), "codes": self.codes, **bounds}

    def depends(self, plan: Plan) -> dict[str, Any]:
        """The budget, the settings, and the public rows."""
        return {
            "privacy": plan.privacy.model_dump(exclude={"lifetime"}, exclude_defaults=True),
            "tallies": self.settings(),
            "public": list(self.public),
        }


@dataclass(frozen=True)
class CountedRound:
    """A round that paid for its question, with the files of its exact sums, as `tasks.asking.tally.count` wrote them.

    Raises NotVerified if round `number` of the mechanism did not pay for the question.
    """

    mechanism: Tallies
    number: int
    question: RoundQuestion
    blocks: Sequence[Ref]

    def __post_init__(self) -> None:
        try:
            self.mechanism.check(self.number, self.question)
        except ValueError as wrong:
            raise NotVerified(f"{wrong}: nothing was drawn") from None

    def step(self, stores: Stores, session: Session, follow: Callable[[Ints], Mapping[str, Any]]) -> Step[Ints]:
        """The step of a session that releases it.

        follow   returns further results, computed from the noisy sums and public things alone
        Raises NotVerified if the sums are of another question.
        """
        mechanism, number, exact = self.mechanism, self.number, total_of(self.blocks, stores.vault)
        if exact.shape != (self.question.size,):
            raise NotVerified(f"round {number} was counted for another question than it asks: nothing was drawn")
        asked = {"round": number, "scale": mechanism.rounds[number].scale, "question": self.question.record()}

        def publish(step: Batch, noisy: Ints) -> BatchOutcome:
            own = {"format": ROUND_FORMAT, **asked, "sums": noisy.tolist()}
            return publish_round(stores, session, step, lambda: {**own, **follow(noisy)})

        return Step(
            question=canonical_json(asked),
            exact=[sums_bytes(exact)],
            draw=lambda _, source, __: source.once(
                f"round-{number:05d}", lambda: mechanism.release(number, exact, source)
            ),
            publish=publish,
            number=number,
        )


def sums_digest(blocks: Sequence[Ref], vault: Vault) -> str:
    """Keyed digest of the sums of all blocks; it does not depend on how rows are spread over them."""
    return vault.digest("sums", sums_bytes(total_of(blocks, vault)))
