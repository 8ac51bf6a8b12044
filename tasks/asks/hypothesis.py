"""The universal student: a hypothesis chosen among all dichotomies of the public rows by its private errors.

There are no teachers: the exponential mechanism picks one candidate of a cover made of public rows
(tasks.mechanisms.exponential), whose errors are counted on one private row per unit.

Assumes      encoding, batches and plan are public, so the cover is; two classes
Guarantees   (ε, 0) for the released hypothesis; error counts and n stay in the vault
Ends         with the choice
Not covered  see tasks.mechanisms.exponential. Checked by tests/flows/test_universal_flow.py and
             tests/tasks/asks/test_hypothesis.py
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.home.vault import Staged
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicBatch
from concord.artifacts.sessions import LABELS
from concord.tasks.asks.hypothesis_space import hypothesis_space, public_matrix
from concord.tasks.door.ask import SingleAsk
from concord.tasks.door.door import Drawn
from concord.tasks.door.exact import FormName
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.hypotheses import Hypotheses


@dataclass(frozen=True)
class HypothesisAsk(SingleAsk[Universal]):
    """The universal learner over the cover of some public rows.

    about    public: the class by name and digest, its columns, and how many candidates the cover has
    public   digests of the public rows
    """

    candidates: Hypotheses
    classes: tuple[str, ...]
    public: tuple[str, ...]

    purpose: ClassVar[str] = LABELS
    stage = "choose"
    form: ClassVar[FormName] = "scores"
    file: ClassVar[str] = "hypothesis.json"

    @classmethod
    def of(cls, plan: Plan, encoding: Encoding, batches: Sequence[PublicBatch], rows: Staged) -> "HypothesisAsk":
        """The choice that a plan asks for. Raises WrongInput if its class cannot be listed on the public rows."""
        X = public_matrix(batches, encoding, rows)
        space = hypothesis_space(plan.student.space, encoding, X, "student")
        candidates = space.dichotomies(X.astype(np.float64))
        about = {
            "hypotheses": plan.student.space.hypotheses,
            "features": [encoding.outputs[column] for column in space.columns],
            "class": space.digest,
            "candidates": len(candidates),
        }
        mechanism = Universal(epsilon=plan.epsilon_of_choice, secret=plan.privacy.secret)
        public = tuple(batch.ref.digest for batch in batches)
        return cls(mechanism, about, candidates, encoding.classes, public)

    @property
    def question(self) -> dict[str, Any]:
        """Its settings, and the public rows."""
        return {"choice": self.settings(), "public": list(self.public)}

    def depends(self, plan: Plan) -> dict[str, Any]:
        """The question, and the budget."""
        return {"privacy": plan.privacy.model_dump(exclude={"lifetime"}, exclude_defaults=True), **self.question}

    def result(self, drawn: Drawn) -> dict[str, Any]:
        """The hypothesis."""
        chosen = {"classes": list(self.classes), "hypothesis": self.candidates.describe(int(drawn.arrays[0][0]))}
        return {"format": "concord hypothesis 2", **chosen}
