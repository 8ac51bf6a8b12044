"""Rounds of tallies at the door: one question after another, each of which may depend on earlier released sums.

    for each round:  ledger.begin ─ draw ─ kept in the vault ─ published with what is asked next ─ ledger.commit

A round is a batch of its session. The next question follows from released sums, but in floating point, whose last bits
depend on the machine. So it is computed once, rounded to whole numbers, and published with the round; a process that
continues the session reads it there.

Assumes      the ledger reserved all rounds when the session was opened; `sums` are the exact ones of `question`
Guarantees   a round is drawn for once, after it was begun, and its file has the same bytes however often this runs and
             wherever it was stopped; a question or sums other than those on record stop it, and so does a question that
             its round did not pay for
Ends         with the last round: the session is charged whole. If it is closed before, a round that was begun is paid
             for, drawn or not; rounds never begun are given back in a domain whose filter is `gaussian`
             (artifacts.domains), and in no other
Not covered  a home folder restored from an older copy that no witness knows. If only the ledger is an older copy, a
             round that was drawn and given back is detected before anything else is opened. Checked by
             tests/tasks/door/test_rounds.py and tests/promises/test_crash_rounds.py
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import round_path
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Cost, Whole
from concord.artifacts.schemas import Encoding, Ref, canonical_json
from concord.artifacts.sessions import Batch, Session
from concord.tasks.asking.tally import sums_bytes, total_of
from concord.tasks.data.encode import PublicBatch
from concord.tasks.data.guard import private_stage
from concord.tasks.door.admit import Asked, known_by
from concord.tasks.door.checkpoint import Randomness, session_key
from concord.tasks.door.release import Stores, open_door
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.tallies import Tallies

ROUND_FORMAT = "concord round 1"
"""Format of a round's file, JSON: number, question, sums, and results computed from them."""


@dataclass(frozen=True)
class TalliedSession:
    """Settings of a session of tallies: the mechanism, and the digest of the public codes it asks about."""

    mechanism: Tallies
    codes: str

    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None

    @property
    def queries(self) -> int:
        """Number of rounds."""
        return len(self.mechanism.rounds)

    @property
    def cost(self) -> Cost:
        """Cost of all rounds."""
        return self.mechanism.cost

    @property
    def rounds(self) -> tuple[Cost, ...]:
        """Cost of each round; empty if the noise of one is so narrow that only the whole session has a proof."""
        alone = tuple(replace(self.mechanism, rounds=(each,)).cost for each in self.mechanism.rounds)
        whole = any(isinstance(part, Whole) for cost in alone for part in cost.parts or ())
        return () if whole else alone

    def settings(self) -> dict[str, Any]:
        """As JSON."""
        return {**self.mechanism.settings(), "codes": self.codes}

    def asked(self, plan: Plan, encoding: Encoding, public: Sequence[PublicBatch], vault: Vault) -> Asked:
        """The session that the plan asks for."""
        depends = {
            "privacy": plan.privacy.model_dump(exclude={"lifetime"}, exclude_defaults=True),
            "tallies": self.settings(),
            "public": [batch.ref.digest for batch in public],
        }
        who = known_by(vault, plan, encoding, depends)
        epsilon, delta = plan.privacy.epsilon, plan.privacy.delta
        alone = self.rounds
        return Asked(plan=plan, mechanism=self, identity=who, epsilon=epsilon, delta=delta, teachers=0, rounds=alone)


@private_stage
def release_round(
    door: Stores,
    session: Session,
    mechanism: Tallies,
    number: int,
    question: RoundQuestion,
    blocks: Sequence[Ref],
    follow: Callable[[Ints], Mapping[str, Any]],
) -> Ref:
    """Release round `number` of a session, or replay it; returns its released file.

    blocks   exact sums of `question`, as `tasks.asking.tally.count` wrote them
    follow   returns further results, computed from the noisy sums and public things alone
    Raises NotVerified if question, sums or key are not those on record.
    """
    with open_door(door, session):
        exact, key = total_of(blocks, door.vault), derive(session_key(door.vault, session.id), "digests")
        _check_paid(mechanism, number, question, exact)
        asked = {"round": number, "scale": mechanism.rounds[number].scale, "question": question.record()}
        batch = Batch(
            index=number,
            first=number,
            rows=1,
            rows_digest=keyed_digest(key, "rows", canonical_json(asked)),
            votes_digest=keyed_digest(key, "votes", sums_bytes(exact)),
        )
        begun = door.ledger.begin_batch(session.id, batch)
        if begun.outcome is not None:
            door.released.read(begun.outcome.released)
            return begun.outcome.released
        source = Randomness(door.vault, session.id)
        noisy = source.once(f"round-{number:05d}", lambda: mechanism.release(number, exact, source))

        def written() -> bytes:
            claim = {"format": ROUND_FORMAT, "session": session.id, "epsilon": session.epsilon, "delta": session.delta}
            return canonical_json({**claim, **asked, "sums": noisy.tolist(), **follow(noisy)}).encode()

        kept = door.vault.keep(f"sessions/{session.id}/round-{number:05d}.json", written)
        released = door.released.write(round_path(session.id, number), door.vault.read(kept))
        door.ledger.commit_batch(session.id, number, asked=1, answered=1, refused=0, released=released)
        return released


def _check_paid(mechanism: Tallies, number: int, question: RoundQuestion, sums: Ints) -> None:
    try:
        mechanism.check(number, question)
    except ValueError as wrong:
        raise NotVerified(f"{wrong}: nothing was drawn") from None
    if sums.shape != (question.size,):
        raise NotVerified(f"round {number} was counted for another question than it asks: nothing was drawn")


def sums_digest(blocks: Sequence[Ref], vault: Vault) -> str:
    """Keyed digest of the sums of all blocks; it does not depend on how rows are spread over them."""
    return vault.digest("sums", sums_bytes(total_of(blocks, vault)))
