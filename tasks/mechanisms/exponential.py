"""Private choice among finitely many candidates: the universal learner, and a student chosen among several.

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
Checked by tests/privacy/test_exponential.py: the exact loss on neighbours, and the sampler against this law.

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
Sizes for which it learns: `tasks.advice.expect`: cover_error and selection_rows.
Checked by tests/privacy/test_universal.py, on every pair of small tables.

Private choice among candidate students, by their errors on private units set aside
    Assumes      candidates follow from what was released before and from public rows: none has seen a unit that it is
                 evaluated on, except through the door. A unit counts once: by one row, or by one label, that each
                 candidate gets right or wrong. Sampling is OpenDP's (noise.py)
    Guarantees   the choice is (ε, 0)-DP and of range ε: at most α·ε²/8 Rényi nats at any order α, as above
    Ends         after one choice; choosing again costs again
    Not covered  error counts: not published. How a unit came to be in the test part (artifacts.parts). The chosen one
                 is the luckiest on those units, and looks better on them than it is: an interval from the same units
                 must hold for all candidates at once (`level_for`)

Proof. The candidates do not change with a unit that they are evaluated on: given all that was released before, they
are fixed. If rows are secret, one more unit adds one error to some candidates and none to others: scores are monotone,
and a candidate's weight is e^(−ε·errors). If labels are, a unit's errors go up for some and down for others, by one:
the weight is e^(−ε·errors/2). The rest is the exponential mechanism's. ∎
A unit with many rows that counted with each would move an error count by as many, and break this.

Intervals of the chosen one. For each of K candidates, fixed before the units were drawn, an interval at level 1 − β/K
misses its accuracy with probability β/K. So all K hold at once with probability 1 − β, and the chosen one is among
them, however it was chosen and by whatever of the units. ∎

Balanced accuracy is no score here. A unit of a class of n units moves that class's recall by 1/n, and one that changes
its class moves two of them; n is private and may be 1, so no ε below the range of all scores would be proved. Weighted
errors would do, if the plan or something released stated each class's weight: the largest weight is the most that a
unit moves a score.

Sample size. If every other candidate is wrong about a share g more of n units, the best is chosen with probability at
least 1/(1 + (K − 1)·e^(−r·g·n)), r = ε or ε/2: `units_apart` solves for n. This covers the randomness of the choice
only; `tasks.advice.expect.selection_rows` also covers that of which units were set aside.
Checked by tests/privacy/test_student_choice.py: the exact law on small parts, and planted bugs.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms import noise
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.hypotheses.dichotomies import Hypotheses
from concord.tasks.mechanisms.mechanism import FieldSettings


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


@dataclass(frozen=True, kw_only=True)
class ByErrors(FieldSettings):
    """One choice by errors on private units, each of which counts once. Public settings only: its ε, and which part of
    a unit is secret."""

    epsilon: float
    secret: Literal["rows", "labels"]

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise WrongInput(f"{self.name}: epsilon must be positive and finite, got {self.epsilon!r}")

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


class Universal(ByErrors):
    """The choice of a hypothesis among all dichotomies of public rows."""

    name: ClassVar[str] = "universal"
    proof: ClassVar[str] = (
        "tasks/mechanisms/exponential.py: the semi-private agnostic learner (Alon, Bassily & Moran 2019): the "
        "exponential mechanism (McSherry & Talwar 2007) over all dichotomies of public rows; pure, δ = 0"
    )

    def scores(self, hypotheses: Hypotheses, X: Floats, y: Ints) -> Ints:
        """Scores of the candidates: minus their errors on the private X (rows, width), y (rows,). Never published."""
        return -hypotheses.errors(X, y)


class StudentChoice(ByErrors):
    """The choice of one student among several."""

    name: ClassVar[str] = "student_choice"
    proof: ClassVar[str] = (
        "tasks/mechanisms/exponential.py: the exponential mechanism (McSherry & Talwar 2007) over candidates that "
        "follow from released things; of bounded range (Dong, Durfee & Rogers 2020); pure, δ = 0"
    )

    def choose_least(self, errors: Ints) -> int:
        """Draw the index of a candidate from private error counts (candidates,)."""
        return self.choose(-errors)

    def units_apart(self, gap: float, candidates: int, miss: float) -> int:
        """Number of units to set aside so that the best is chosen with probability 1 − `miss` if all others err by
        `gap` more."""
        return max(1, math.ceil(math.log((candidates - 1) * (1 - miss) / miss) / (self.choice.rate * gap)))


def level_for(candidates: int, level: float) -> float:
    """The level of each candidate's interval at which all intervals hold together at `level`."""
    return 1 - (1 - level) / candidates
