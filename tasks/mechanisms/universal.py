"""The universal learner: a student chosen among all dichotomies of the public rows, by its errors on private ones.

Alon, Bassily & Moran (2019), the semi-private agnostic learner: candidates are one hypothesis per dichotomy of the
class on public, unlabelled rows; the exponential mechanism weighs them by private error counts. Every row is then
answered by the chosen hypothesis: post-processing, without limit. Nandi & Bassily (2020) take the first queries,
answered by Algorithm 5, for public rows: the two costs add.

Assumes      candidates are fixed by public rows alone; one row a privacy unit; labels 0 and 1; sampling is OpenDP's
Guarantees   the choice is (ε, 0)-DP and of range ε (exponential.py), where rows are secret for an added or removed row,
             where labels are secret for a changed one
Ends         after one choice; choosing again costs again
Not covered  error counts and n: not published. A cover built from private rows, even without their labels. Where rows
             are secret, a row that changes is two steps

Proof. An added row raises the error count of every candidate by one or by nothing, so scores are monotone and a
candidate's weight is e^(−ε·errors). A row whose label changes raises the counts of those that were right by one and
lowers those of all others by one, as does any changed row at most: not monotone, and the weight is e^(−ε·errors/2). ∎
Version 0.1.0 took the second weights for both, and charged its sessions as randomised response, whose losses spread
twice as far: those sessions do not say what is `secret`, and are priced as they ran.
Sizes for which it learns: sample_sizes.cover_rows and selection_rows.
Checked by tests/privacy/test_universal.py, on every pair of small tables.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from artifacts.errors import WrongInput
from artifacts.privacy import UP, Cost
from tasks.mechanisms.dichotomies import Hypotheses
from tasks.mechanisms.exponential import ExponentialMechanism
from tasks.mechanisms.refusal import Floats
from tasks.mechanisms.voting import Ints


@dataclass(frozen=True, kw_only=True)
class Universal:
    """Public settings only: ε of the one choice, and what is secret of a unit; None of version 0.1.0, see above."""

    name: ClassVar[str] = "universal"
    proof: ClassVar[str] = (
        "tasks/mechanisms/universal.py: the semi-private agnostic learner (Alon, Bassily & Moran 2019): the "
        "exponential mechanism (McSherry & Talwar 2007) over all dichotomies of public rows; pure, δ = 0"
    )

    epsilon: float
    secret: Literal["rows", "labels"] | None

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise WrongInput(f"universal: epsilon must be positive and finite, got {self.epsilon!r}")

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "Universal":
        """The mechanism that `settings` was taken from."""
        return cls(epsilon=float(settings["epsilon"]), secret=settings.get("secret"))

    @property
    def choice(self) -> ExponentialMechanism:
        """What draws: at ε less head-room for the rounding of its cost."""
        return ExponentialMechanism(epsilon=self.epsilon / UP**2, monotone=self.secret == "rows")

    @property
    def cost(self) -> Cost:
        """ε, pure."""
        return self.choice.cost if self.secret else Cost.approximate(self.choice.epsilon)

    def settings(self) -> dict[str, Any]:
        """As JSON."""
        told = {"secret": self.secret} if self.secret else {}
        return {"name": self.name, "epsilon": self.epsilon, **told}

    def scores(self, hypotheses: Hypotheses, X: Floats, y: Ints) -> Ints:
        """What candidates are weighed by, less their errors on the private X (rows, width), y (rows,): never shown."""
        return -hypotheses.errors(X, y)

    def choose(self, scores: Ints) -> int:
        """The number of the chosen candidate, of private scores (candidates,)."""
        return self.choice.choose(scores)
