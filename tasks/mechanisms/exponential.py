"""Private choice among finitely many candidates: the universal learner.

Exponential mechanism
    Assumes      candidates are fixed or public; each score is a whole number (say, rows classified well) that moves by
                 at most `sensitivity` between neighbours, and if they are `monotone` no two in opposite directions;
                 sampling is OpenDP's (noise.py)
    Guarantees   one choice is epsilon-DP, and epsilon-bounded-range as well, which costs less Rényi divergence
    Ends         after one choice; choosing again from the same data costs again
    Not covered  candidates found in private rows; running time

With best = max score and aᵢ = e^(ε·(scoreᵢ − best)/2Δ), or e^(ε·(scoreᵢ − best)/Δ) of monotone scores, candidate r is
chosen with probability aᵣ / Σ aᵢ (McSherry & Talwar 2007, Theorem 6): it is the highest score with Gumbel noise of
scale 2Δ/ε or Δ/ε. Permute-and-flip (McKenna & Sheldon 2020), with exponential noise, comes closer to the best score,
but its log-ratios spread further, and a relabelling (Lemma 3.1 of BN19) is not proved for it.
Range (Dong, Durfee & Rogers 2020). Between neighbours, the log of the r-th probability moves by what r's
exponent moves by, plus one number for all r. Exponents move by values in an interval of length ε: scores by values in
[−Δ, Δ], in [0, Δ] or in [−Δ, 0], times the factor. So log-ratios lie within an interval of length ε, and since
probabilities sum to 1, it holds 0: the choice is ε-DP. ∎
Checked by tests/privacy/test_universal.py: the exact loss on neighbours, and the sampler against this law.

Universal learner: a student chosen among all dichotomies of the public rows, by its errors on private ones
    Assumes      candidates are fixed by public rows alone; one row a privacy unit; labels 0 and 1; sampling is OpenDP's
    Guarantees   the choice is (ε, 0)-DP and of range ε, as above: if rows are secret for an added or removed row, if
                 labels are secret for a changed one
    Ends         after one choice; choosing again costs again
    Not covered  error counts and n: not published. A cover built from private rows, even without their labels. If rows
                 are secret, a row that changes is two steps

Alon, Bassily & Moran (2019), the semi-private agnostic learner: candidates are one hypothesis per dichotomy of the
class on public, unlabelled rows; the exponential mechanism weighs them by private error counts. Every row is then
answered by the chosen hypothesis: post-processing, without limit. Nandi & Bassily (2020) take the first queries,
answered by Algorithm 5, for public rows: the two costs add.
Proof. An added row raises the error count of every candidate by one or by nothing, so scores are monotone and a
candidate's weight is e^(−ε·errors). A row whose label changes raises the counts of those that were right by one and
lowers those of all others by one, as does any changed row at most: not monotone, and the weight is e^(−ε·errors/2). ∎
Checked by tests/privacy/test_universal.py, on every pair of small tables.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms import noise
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.mechanism import PublicSettings


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism:
    """Chooses a candidate with probability proportional to its weight. Public settings only: ε of one choice, how far
    one privacy unit moves a score, and whether it moves all scores in the same direction."""

    epsilon: float
    sensitivity: int = 1
    monotone: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf or self.sensitivity < 1:
            raise WrongInput(
                f"a choice needs 0 < epsilon < inf and sensitivity >= 1, got {self.epsilon} and {self.sensitivity}"
            )

    @property
    def cost(self) -> Cost:
        """Pure ε of one choice, with bounded range."""
        return Cost.bounded_range(self.epsilon)

    @property
    def rate(self) -> float:
        """Fall of the logarithm of a candidate's weight per point of score lost."""
        return self.epsilon / (self.sensitivity if self.monotone else 2 * self.sensitivity)

    def weights(self, scores: Ints) -> Floats:
        """Weights aᵢ, (candidates,); 1 for the best candidates."""
        return np.asarray(np.exp(self.rate * (scores - scores.max())))

    def probabilities(self, scores: Ints) -> Floats:
        """Probabilities with which `choose` chooses each candidate, (candidates,)."""
        weights = self.weights(scores)
        return np.asarray(weights / weights.sum())

    def choose(self, scores: Ints) -> int:
        """Draw the index of a candidate from scores (candidates,)."""
        return noise.sample_by_weight(
            scores, epsilon=self.epsilon, sensitivity=self.sensitivity, monotone=self.monotone
        )


class Universal(PublicSettings):
    """One choice of a hypothesis among all dichotomies of public rows, by errors on private units, each of which counts
    once. Public settings only: its ε, and which part of a unit is secret; and the class, by name and digest, over which
    columns, with how many candidates."""

    name: ClassVar[str] = "universal"
    proof: ClassVar[str] = (
        "tasks/mechanisms/exponential.py: the semi-private agnostic learner (Alon, Bassily & Moran 2019): the "
        "exponential mechanism (McSherry & Talwar 2007) over all dichotomies of public rows; pure, δ = 0"
    )

    releases: ClassVar[str] = "one hypothesis of a class, chosen by its errors on the private rows"
    forms: ClassVar[Collection[str]] = ("scores",)
    delta: ClassVar[float] = 0.0
    cutoff: ClassVar[None] = None
    queries: ClassVar[int] = 1
    per_refusal: ClassVar[None] = None
    of_ask: ClassVar[Collection[str]] = ("hypotheses", "features", "digest", "candidates")

    epsilon: Annotated[float, Field(gt=0)]
    secret: Literal["rows", "labels"]
    hypotheses: str = ""
    features: tuple[str, ...] = ()
    digest: str = Field(default="", alias="class")
    candidates: int = 0

    @property
    def choice(self) -> ExponentialMechanism:
        """The exponential mechanism that draws, at ε less head-room for the rounding of its cost."""
        return ExponentialMechanism(epsilon=self.epsilon / UP**2, monotone=self.secret == "rows")

    @property
    def cost(self) -> Cost:
        """Pure ε, with bounded range."""
        return self.choice.cost

    def choose(self, scores: Ints) -> int:
        """Draw the index of a candidate from private scores (candidates,)."""
        return self.choice.choose(scores)
