"""Estimate: how much teachers err, released once with noise, to choose a cutoff by (BTT18, Remark 1).

In each shard the rows of some units are set aside; a teacher learns from the others and is tried on those. Only the
sum over shards leaves, through the door, in a session of its own (tasks.mechanisms.error_estimate).

Assumes      blocks are those of `tasks.split`, with a column ASIDE; plan and encoding are public
Guarantees   (ε, 0) for the released sum: one unit is in one shard, and one shard moves the sum by `steps` at most
Ends         with its one release
Not covered  teachers that learn from all rows of a shard err a little less. Checked by tests/flows/test_estimate.py
"""

import json
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel

from artifacts.encoding import Encoding
from artifacts.plan import Plan
from artifacts.schemas import Ref
from artifacts.sections import TeachersPlan
from artifacts.sessions import Session
from artifacts.vault import Vault
from tasks.admit import Asked, canonical
from tasks.cells import LABEL
from tasks.encode import encode, read_frame
from tasks.mechanisms.error_estimate import ErrorEstimate
from tasks.mechanisms.voting import Ints
from tasks.once import Once, publish
from tasks.private import calm, private_stage
from tasks.randomness import Randomness
from tasks.release import Door, release_once
from tasks.split import ASIDE, SHARD
from tasks.teach import apart, read_only, taught

HeldOut = Once[ErrorEstimate]
"""An error estimate; `about` is the public share of units that are set aside."""


class Suggestion(BaseModel):
    """What an estimate says, and the cutoff it suggests; all of it follows from the released sum.

    rate        mean error of a teacher on rows set aside; upper_rate passes it but for chance beta/2
    queries     public rows the cutoff is for: enough, but for chance beta, if every teacher errs at the upper rate
                (BTT18, Theorem 3.2)
    """

    rate: float
    upper_rate: float
    queries: int
    beta: float
    cutoff: int

    @classmethod
    def of(cls, held_out: HeldOut, released: bytes, *, queries: int, beta: float) -> "Suggestion":
        """From the released file."""
        estimate, noisy = held_out.mechanism, int(json.loads(released)["sum"])
        return cls(
            rate=estimate.rate(noisy),
            upper_rate=estimate.upper_rate(noisy, beta / 2),
            queries=queries,
            beta=beta,
            cutoff=estimate.suggested_cutoff(noisy, queries=queries, beta=beta),
        )


def estimate_asked(plan: Plan, held_out: HeldOut, encoding: Encoding, vault: Vault) -> Asked:
    """The session of an estimate; what the plan spends on labels is no part of its identity."""
    depends = {
        "secret": plan.privacy.secret,
        "teachers": plan.teachers.model_dump(include={"count", "estimator", "params"}),
        "estimate": held_out.settings(),
    }
    return held_out.asked(plan, encoding, vault, depends, teachers=plan.teachers.count)


@private_stage
def measure(block: Ref, shards: range, teachers: TeachersPlan, encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Errors and rows tried, of the teachers of one block: (2, shards), in a file of the vault."""
    rows = read_frame(block, vault)
    X, y = encode(rows, encoding), rows[LABEL].to_numpy().astype(np.int64)
    aside = rows[ASIDE].to_numpy().astype(bool)
    bounds = np.searchsorted(rows[SHARD].to_numpy(), [*shards, shards.stop])
    found = np.zeros((2, len(shards)), dtype=np.int64)
    with calm():
        for at, (shard, first, last) in enumerate(zip(shards, bounds[:-1], bounds[1:], strict=True)):
            mine, out = slice(first, last), aside[first:last]
            teacher = taught(teachers, shard, apart(X[mine][~out]), apart(y[mine][~out]), len(encoding.classes))
            votes = teacher.votes(read_only(apart(X[mine][out])), len(encoding.classes))
            found[:, at] = np.count_nonzero(votes != y[mine][out]), len(votes)
    with vault.create(path) as sink:
        sink.write(found.tobytes())
    return sink.ref


def release_estimate(door: Door, session: Session, held_out: HeldOut, measured: Sequence[Ref]) -> Ref:
    """The door: release the noisy sum, or replay it. Returns the released file, JSON.

    measured   the files of `measure`, block by block
    Raises NotVerified where measurements or key are not those on record.
    """
    counted = [door.vault.read(ref) for ref in measured]

    def draw() -> Ints:
        errors, tried = np.hstack([np.frombuffer(block, dtype=np.int64).reshape(2, -1) for block in counted])
        total = held_out.mechanism.total(errors, tried)
        return np.array([held_out.mechanism.release(total, Randomness(door.vault, session.id))])

    def published(answer: Ints) -> Ref:
        found = {"settings": held_out.settings(), "sum": int(answer[0])}
        return publish(door, session, "estimate.json", format="concord error estimate 1", **found)

    about = canonical(held_out.settings()).encode()
    return release_once(door, session, about=about, counted=b"".join(counted), draw=draw, publish=published)
