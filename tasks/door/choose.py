"""Sessions with a single answer: the choice of a student, and the estimate of how much teachers err.

    Assumes      the mechanism that draws the answer is pure ε-DP; the question and its settings are public
    Guarantees   the session claims (ε, 0); if it is asked again, it is found by all settings its answer depends on
    Ends         with its answer
    Not covered  the private numbers the answer is drawn from: see below, and the tests named there

Choice: the universal student, a hypothesis chosen among all dichotomies of the public rows by its private errors.
There are no teachers: the exponential mechanism picks one candidate of a cover made of public rows
(tasks.mechanisms.exponential), whose errors are counted on one private row per unit. The choice is released at the door
once, like any answer, and ends its session.
    Assumes      encoding, batches and plan are public, so the cover is; two classes
    Guarantees   (ε, 0) for the released hypothesis; error counts and n stay in the vault
    Ends         with the choice
    Not covered  see tasks.mechanisms.exponential. Checked by tests/flows/test_universal_flow.py and
                 tests/tasks/door/test_label_private_choice.py

Estimate: how much teachers err, released once with noise, to choose a cutoff by (BTT18, Remark 1). In each shard the
rows of some units are set aside; a teacher learns from the others and is tested on those. Only the sum over shards is
released, at the door, in a session of its own (tasks.mechanisms.error_estimate).
    Assumes      blocks are those of `tasks.data.split`, with a column ASIDE; plan and encoding are public
    Guarantees   (ε, 0) for the released sum: one unit is in one shard, and one shard moves the sum by `steps` at most
    Ends         with its one release
    Not covered  teachers that learn from all rows of a shard err a little less. Checked by
                 tests/flows/test_estimate.py
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import BaseModel

from concord.artifacts.home.vault import Vault
from concord.artifacts.learners import TeachersPlan
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref, canonical_json
from concord.artifacts.sessions import Session
from concord.tasks.asking.relabel import hypothesis_space, public_matrix
from concord.tasks.asking.teachers import aligned_copy, fitted_teacher, read_only
from concord.tasks.data.cells import LABEL
from concord.tasks.data.encode import PublicBatch, encode, read_frame
from concord.tasks.data.guard import private_stage, silenced
from concord.tasks.data.split import ASIDE, SHARD, one_row_a_unit
from concord.tasks.data.units import NOBODY, Erased
from concord.tasks.door.checkpoint import Randomness
from concord.tasks.door.release import Stores, publish_answer, release_once
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.error_estimate import ErrorEstimate
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.hypotheses.dichotomies import Hypotheses
from concord.tasks.mechanisms.mechanism import Once


@dataclass(frozen=True)
class UniversalChoice(Once[Universal]):
    """The universal learner over the cover of some public rows.

    about   public: the class by name and digest, its columns, and how many candidates the cover has
    """

    candidates: Hypotheses

    @classmethod
    def of(cls, plan: Plan, encoding: Encoding, batches: Sequence[PublicBatch], vault: Vault) -> "UniversalChoice":
        """The choice that a plan asks for. Raises WrongInput if its class cannot be listed on the public rows."""
        X = public_matrix(batches, encoding, vault)
        space = hypothesis_space(plan.student.space, encoding, X, "student")
        candidates = space.dichotomies(X.astype(np.float64))
        about = {
            "hypotheses": plan.student.space.hypotheses,
            "features": [encoding.outputs[column] for column in space.columns],
            "class": space.digest,
            "candidates": len(candidates),
        }
        return cls(Universal(epsilon=plan.epsilon_of_choice, secret=plan.privacy.secret), about, candidates)

    @property
    def earlier(self) -> "UniversalChoice":
        """The same choice as version 0.1.0 drew it; sessions of that version are continued with it."""
        return replace(self, mechanism=replace(self.mechanism, secret=None))


def choice_depends_on(plan: Plan, choice: UniversalChoice, batches: Sequence[PublicBatch]) -> dict[str, Any]:
    """Settings that identify a choice besides data and encoding, as JSON."""
    return {
        "privacy": plan.privacy.model_dump(exclude={"lifetime"}, exclude_defaults=True),
        "choice": choice.settings(),
        "public": [batch.ref.digest for batch in batches],
    }


@private_stage
def count_errors(
    plan: Plan,
    encoding: Encoding,
    candidates: Hypotheses,
    vault: Vault,
    folder: str,
    key: bytes,
    erased: Erased = NOBODY,
) -> Ref:
    """Count the private rows, one per unit, that each candidate gets wrong: (candidates,), in a file of the vault."""
    errors = np.zeros(len(candidates), dtype=np.int64)
    for rows in one_row_a_unit(plan, encoding, vault, folder, key, erased):
        errors += candidates.errors(encode(rows, encoding).astype(np.float64), rows[LABEL].to_numpy().astype(np.int64))
    buffer = io.BytesIO()
    np.save(buffer, errors, allow_pickle=False)
    with vault.create(f"{folder}/errors.npy") as sink:
        sink.write(buffer.getvalue())
    return sink.ref


def choose(
    door: Stores,
    session: Session,
    choice: UniversalChoice,
    batches: Sequence[PublicBatch],
    counts: Ref,
    classes: Sequence[str],
) -> Ref:
    """Choose once and publish, or replay the choice. Returns the released hypothesis, JSON.

    counts   the file of `count_errors`
    Raises NotVerified if candidates, counts or key are not those on record.
    """
    counted = door.vault.read(counts)

    def draw() -> Ints:
        errors = np.load(io.BytesIO(counted), allow_pickle=False)
        return np.array([choice.mechanism.choose(-errors)])

    def published(answer: Ints) -> Ref:
        chosen = {"classes": list(classes), "hypothesis": choice.candidates.describe(int(answer[0]))}
        return publish_answer(door, session, "hypothesis.json", format="concord hypothesis 1", **chosen)

    about = canonical_json({"choice": choice.settings(), "public": [batch.ref.digest for batch in batches]})
    return release_once(door, session, about=about.encode(), counted=counted, draw=draw, publish=published)


HeldOut = Once[ErrorEstimate]
"""An error estimate; `about` is the public share of units that are set aside."""


class Suggestion(BaseModel):
    """An estimated error rate and the cutoff it suggests; all of it follows from the released sum.

    rate        mean error of a teacher on rows set aside; upper_rate is above it with probability 1 − beta/2
    queries     public rows the cutoff is for: enough with probability 1 − beta if every teacher errs at the upper rate
                (BTT18, Theorem 3.2)
    """

    rate: float
    upper_rate: float
    queries: int
    beta: float
    cutoff: int

    @classmethod
    def of(cls, held_out: HeldOut, released: bytes, *, queries: int, beta: float) -> "Suggestion":
        """The suggestion computed from the released file."""
        estimate, noisy = held_out.mechanism, int(json.loads(released)["sum"])
        return cls(
            rate=estimate.rate(noisy),
            upper_rate=estimate.upper_rate(noisy, beta / 2),
            queries=queries,
            beta=beta,
            cutoff=estimate.suggested_cutoff(noisy, queries=queries, beta=beta),
        )


def estimate_depends_on(plan: Plan, held_out: HeldOut) -> dict[str, Any]:
    """Settings that identify an estimate besides data and encoding, as JSON; none concerns the budget for labels."""
    return {
        "secret": plan.privacy.secret,
        "teachers": plan.teachers.model_dump(include={"count", "estimator", "params"}),
        "estimate": held_out.settings(),
    }


@private_stage
def measure(block: Ref, shards: range, teachers: TeachersPlan, encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Write the numbers of errors and of tested rows of one block's teachers, (2, shards), to a file of the vault."""
    rows = read_frame(block, vault)
    X, y = encode(rows, encoding), rows[LABEL].to_numpy().astype(np.int64)
    aside = rows[ASIDE].to_numpy().astype(bool)
    bounds = np.searchsorted(rows[SHARD].to_numpy(), [*shards, shards.stop])
    found = np.zeros((2, len(shards)), dtype=np.int64)
    with silenced():
        for at, (shard, first, last) in enumerate(zip(shards, bounds[:-1], bounds[1:], strict=True)):
            mine, out = slice(first, last), aside[first:last]
            teacher = fitted_teacher(
                teachers, shard, aligned_copy(X[mine][~out]), aligned_copy(y[mine][~out]), len(encoding.classes)
            )
            votes = teacher.votes(read_only(aligned_copy(X[mine][out])), len(encoding.classes))
            found[:, at] = np.count_nonzero(votes != y[mine][out]), len(votes)
    with vault.create(path) as sink:
        sink.write(found.tobytes())
    return sink.ref


def release_estimate(door: Stores, session: Session, held_out: HeldOut, measured: Sequence[Ref]) -> Ref:
    """Release the noisy sum at the door, or replay it. Returns the released file, JSON.

    measured   the files of `measure`, block by block
    Raises NotVerified if measurements or key are not those on record.
    """
    counted = [door.vault.read(ref) for ref in measured]

    def draw() -> Ints:
        errors, tried = np.hstack([np.frombuffer(block, dtype=np.int64).reshape(2, -1) for block in counted])
        total = held_out.mechanism.total(errors, tried)
        return np.array([held_out.mechanism.release(total, Randomness(door.vault, session.id))])

    def published(answer: Ints) -> Ref:
        found = {"settings": held_out.settings(), "sum": int(answer[0])}
        return publish_answer(door, session, "estimate.json", format="concord error estimate 1", **found)

    about = canonical_json(held_out.settings()).encode()
    return release_once(door, session, about=about, counted=b"".join(counted), draw=draw, publish=published)
