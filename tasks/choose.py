"""Choose: the universal student, a hypothesis chosen among all that tell the public rows apart by its private errors.

Nobody votes: the exponential mechanism picks one candidate of a cover made of public rows (tasks.mechanisms.universal),
its errors counted on one private row a unit. The choice passes the door like any answer, once, and ends its session.

Assumes      encoding, batches and plan are public, so the cover is; two classes
Guarantees   (ε, 0) for the released hypothesis; error counts and n stay in the vault
Ends         with the choice
Not covered  see tasks.mechanisms.universal. Checked by tests/flows/test_universal_flow.py
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from artifacts.encoding import Encoding
from artifacts.plan import Plan
from artifacts.schemas import Ref
from artifacts.sessions import Session
from artifacts.vault import Vault
from tasks.admit import Asked, canonical
from tasks.cells import LABEL
from tasks.encode import PublicBatch, encode
from tasks.hypothesis_space import hypothesis_space, public_matrix
from tasks.mechanisms.dichotomies import Hypotheses
from tasks.mechanisms.universal import Universal
from tasks.mechanisms.voting import Ints
from tasks.once import Once, publish
from tasks.private import private_stage
from tasks.release import Door, release_once
from tasks.split import one_row_a_unit
from tasks.units import NOBODY, Erased


@dataclass(frozen=True)
class Choice(Once[Universal]):
    """The universal learner over the cover of some public rows.

    about   public: the class by name and digest, its columns, and how many candidates the cover has
    """

    candidates: Hypotheses

    @classmethod
    def of(cls, plan: Plan, encoding: Encoding, batches: Sequence[PublicBatch], vault: Vault) -> "Choice":
        """The choice that a plan asks for. Raises WrongInput where its class cannot be listed on the public rows."""
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
    def earlier(self) -> "Choice":
        """The same choice as version 0.1.0 drew it: its sessions are gone on with, not opened anew."""
        return replace(self, mechanism=replace(self.mechanism, secret=None))


def choice_asked(plan: Plan, choice: Choice, encoding: Encoding, batches: Sequence[PublicBatch], vault: Vault) -> Asked:
    """The session of a choice."""
    depends = {
        "privacy": plan.privacy.model_dump(exclude={"lifetime"}, exclude_defaults=True),
        "choice": choice.settings(),
        "public": [batch.ref.digest for batch in batches],
    }
    return choice.asked(plan, encoding, vault, depends, teachers=0)


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
    """How many private rows, one a unit, each candidate gets wrong: (candidates,), in a file of the vault."""
    errors = np.zeros(len(candidates), dtype=np.int64)
    for rows in one_row_a_unit(plan, encoding, vault, folder, key, erased):
        errors += candidates.errors(encode(rows, encoding).astype(np.float64), rows[LABEL].to_numpy().astype(np.int64))
    buffer = io.BytesIO()
    np.save(buffer, errors, allow_pickle=False)
    with vault.create(f"{folder}/errors.npy") as sink:
        sink.write(buffer.getvalue())
    return sink.ref


def choose(
    door: Door, session: Session, choice: Choice, batches: Sequence[PublicBatch], counts: Ref, classes: Sequence[str]
) -> Ref:
    """The door: choose once and publish, or replay. Returns the released hypothesis, JSON.

    counts   the file of `count_errors`
    Raises NotVerified where candidates, counts or key are not those on record.
    """
    counted = door.vault.read(counts)

    def draw() -> Ints:
        errors = np.load(io.BytesIO(counted), allow_pickle=False)
        return np.array([choice.mechanism.choose(-errors)])

    def published(answer: Ints) -> Ref:
        chosen = {"classes": list(classes), "hypothesis": choice.candidates.describe(int(answer[0]))}
        return publish(door, session, "hypothesis.json", format="concord hypothesis 1", **chosen)

    about = canonical({"choice": choice.settings(), "public": [batch.ref.digest for batch in batches]})
    return release_once(door, session, about=about.encode(), counted=counted, draw=draw, publish=published)
