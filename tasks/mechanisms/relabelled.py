"""Private relabelling: the cost of a mechanism that answers from a relabelled random subset of the private rows.

Nandi & Bassily (2020), Algorithms 4 and 5, after LabelBoost (Beimel, Nissim & Stemmer 2015). A secret Poisson subset V
is drawn once, at rate `share`; a hypothesis ĥ is chosen among one candidate per dichotomy of the class on V by the
exponential mechanism on error counts; V is relabelled by ĥ; teachers learn from it and an inner mechanism answers.

Assumes      add or remove one row; a row is in V by a coin of its own, of rate `share`; every dichotomy is listed once;
             nothing but the inner mechanism sees V or ĥ, and neither is drawn a second time; (ε, δ) of the inner
             mechanism holds for tables that differ in one row of one shard
Guarantees   the whole is (ε, δ)-DP at `whole` of what the inner mechanism costs
Ends         with the inner mechanism; nothing is returned to the budget
Not covered  ĥ, V, its size, and anything else learned from them: not private. A further mechanism on the same V is not
             amplified by itself: the two have to be composed first. A row that changes is two steps

LabelBoost, exactly. Let V' be V and one more row (x, y), z a labelling of V by the class, w(z) = e^(−ε_c·errors/2) its
weight and W the sum. On V', z is continued by one or both labels of x, with weight w(z) for y and w(z)·c for the other,
c = e^(−ε_c/2): together ω(z)·w(z), where ω(z) is c, 1 or 1 + c. So z is chosen with odds w(z)/W on V and, summed over
what continues it, ω(z)·w(z)/W' on V', where W' = Σ ω·w is between c·W and (1 + c)·W. Either quotient is at most
(1 + c)/c = 1 + e^(ε_c/2): the choice of z is pure (ln(1 + e^(ε_c/2)), 0)-DP. Given z, the relabelled tables differ in
one row, however it is labelled, and the inner mechanism is (ε, δ)-DP. Composed: (ε + ln(1 + e^(ε_c/2)), δ). ∎ Adaptive
askers are covered: of a fixed asker, all answers together are one outcome, here and below.
The published constants are larger: (ε + 3, 4eδ) at ε_c = 1 for a replaced row. Here it is (ε + 0.974, δ).
One missing or repeated candidate breaks the proof, since ω then takes other values.

Amplification: (ε, δ) on V is (ln(1 + q·(e^ε − 1)), q·δ) on all rows (Li, Qardaji & Su 2012; Balle, Barthe & Gaboardi
2018). Algorithm 5 resamples V with replacement over all shards, which couples rows; here each shard resamples its own
rows, which changes one teacher only and is free.
Checked by tests/privacy/test_relabelled.py: the exact law of everything on every pair of small tables.
"""

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, SkipValidation, model_serializer

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost
from concord.artifacts.schemas import Frozen
from concord.tasks.mechanisms.distance import Answers, Floats, Ints, RandomSource
from concord.tasks.mechanisms.exponential import ExponentialMechanism
from concord.tasks.mechanisms.hypotheses import Hypotheses
from concord.tasks.mechanisms.mechanism import Mechanism

RELABELLED_PROOF = (
    "on rows relabelled as in Nandi & Bassily 2020, Algorithms 4 and 5: tasks/mechanisms/relabelled.py, by the lemma "
    "of LabelBoost (Beimel, Nissim & Stemmer 2015) for an added or removed row, and amplification by a secret subset"
)
"""Addition to the proof of a mechanism that answers from relabelled rows."""
CHOICE_EPSILON = 1.0
"""ε of choosing the hypothesis on the subset, as LabelBoost has it (Beimel, Nissim & Stemmer 2015)."""
BUDGETED = UP**3
"""Head-room left in a budget for rounding."""
LARGEST_EXPONENT = 700.0
"""Largest exponent used: e to this power is near the largest double."""


class Relabelling(Frozen):
    """Public settings of a relabelled session.

    hypotheses      name of the hypothesis class over the columns `features` (public names)
    grid            digest of the class with its public grid (HypothesisClass.digest)
    share           rate q at which a row is in the subset
    choice_epsilon  ε_c of the exponential mechanism
    epsilon, delta  of the whole
    """

    hypotheses: str
    features: tuple[str, ...]
    grid: str
    share: float
    choice_epsilon: float = CHOICE_EPSILON
    epsilon: float
    delta: float

    def model_post_init(self, context: Any) -> None:
        """Raises WrongInput if a setting is out of its range."""
        super().model_post_init(context)
        if not 0 < self.share <= 1 or not 0 < self.choice_epsilon < math.inf:
            raise WrongInput(
                "relabel: share must be above 0 and at most 1 and epsilon positive and finite, "
                f"got {self.share!r} and {self.choice_epsilon!r}"
            )

    def whole(self, epsilon: float, delta: float) -> tuple[float, float]:
        """(ε, δ) of the whole if the inner mechanism is (epsilon, delta)-DP; rounded up."""
        epsilon, delta = amplified(*label_boost(epsilon, delta, self.choice_epsilon), self.share)
        return epsilon * UP, delta * UP

    @property
    def inner(self) -> tuple[float, float]:
        """(ε, δ) left for the inner mechanism. Raises WrongInput if none is left."""
        return inner_budget(self.epsilon, self.delta, self.share, self.choice_epsilon)


class Relabelled(Frozen):
    """A mechanism that answers from relabelled rows: it runs as `inner` does, and is charged the whole cost at once. It
    is recorded as `inner` is, with the relabelling under `relabel`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: SkipValidation[Mechanism]
    relabelling: Relabelling

    @model_serializer
    def _record(self) -> dict[str, Any]:
        return {**self.inner.model_dump(mode="json"), "relabel": self.relabelling.model_dump(mode="json")}

    @property
    def epsilon(self) -> float:
        """ε of the whole."""
        return self.relabelling.epsilon

    @property
    def delta(self) -> float:
        """δ of the whole."""
        return self.relabelling.delta

    @property
    def name(self) -> str:
        """The name of the inner mechanism, which answers."""
        return self.inner.name

    @property
    def subset(self) -> tuple[float, float, str]:
        """Share of the secret subset, ε of the choice of its labels, and digest of the class they are chosen from."""
        return self.relabelling.share, self.relabelling.choice_epsilon, self.relabelling.grid

    @property
    def forms(self) -> Collection[str]:
        """As the inner mechanism."""
        return self.inner.forms

    @property
    def keyed(self) -> bool:
        """As the inner mechanism."""
        return self.inner.keyed

    @property
    def cutoff(self) -> int | None:
        """As the inner mechanism."""
        return self.inner.cutoff

    @property
    def queries(self) -> int | None:
        """As the inner mechanism."""
        return self.inner.queries

    @property
    def per_refusal(self) -> None:
        """None, so that the whole is charged: LabelBoost's lemma is proved for an (ε, δ) fixed in advance."""
        return None

    @property
    def counts(self) -> bool:
        """As the inner mechanism."""
        return self.inner.counts

    @property
    def cost(self) -> Cost:
        """The (ε, δ) it was calibrated to, or more if the inner mechanism costs more at its part of δ; never a
        Rényi curve."""
        _, delta = self.relabelling.inner
        epsilon, delta = self.relabelling.whole(self.inner.cost.epsilon(delta), delta)
        claim = max(epsilon, self.epsilon), max(delta, self.delta)
        return replace(Cost.approximate(*claim), claims=(claim,))

    @property
    def calibrated(self) -> Collection[str]:
        """As the inner mechanism."""
        return self.inner.calibrated

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:
        """Answer a batch as the inner mechanism does."""
        return self.inner.release(votes, source, first, refused)


def choose_hypothesis(hypotheses: Hypotheses, X: Floats, y: Ints, epsilon: float) -> int:
    """The candidate drawn by the exponential mechanism on error counts (sensitivity 1): X (rows, width), y (rows,)."""
    return ExponentialMechanism(epsilon=epsilon).choose(-hypotheses.errors(X, y))


# Costs ----------------------------------------------------------------------------------------------------------------


def label_boost(epsilon: float, delta: float, choice_epsilon: float) -> tuple[float, float]:
    """(ε, δ) on a fixed subset, for an added or removed row: (ε + ln(1 + e^(ε_c/2)), δ)."""
    return epsilon + boost(choice_epsilon), delta


def boost(choice_epsilon: float) -> float:
    """ln(1 + e^(ε_c/2)): the cost of choosing the labels of the rows in common."""
    return choice_epsilon / 2 + math.log1p(math.exp(-choice_epsilon / 2))


def amplified(epsilon: float, delta: float, share: float) -> tuple[float, float]:
    """(ε, δ) of a mechanism on a Poisson subset: (ln(1 + q·(e^ε − 1)), q·δ)."""
    return _log_one_plus(math.log(share), epsilon), share * delta


def inner_budget(epsilon: float, delta: float, share: float, choice_epsilon: float) -> tuple[float, float]:
    """The (ε, δ) of an inner mechanism for which `Relabelling.whole` is at most (epsilon, delta); rounded down.

    Raises WrongInput if choosing the labels alone takes all of ε; the error names the least ε and the largest share.
    """
    if not 0 < epsilon < math.inf or not 0 < delta < 1:
        raise WrongInput(f"epsilon must be positive and finite and delta between 0 and 1, got {epsilon!r}, {delta!r}")
    on_subset = _log_one_plus(-math.log(share), epsilon / BUDGETED)
    left = on_subset - boost(choice_epsilon)
    if left <= 0:
        least = BUDGETED * math.log1p(share * math.exp(min(choice_epsilon / 2, LARGEST_EXPONENT)))
        most = math.exp(-choice_epsilon / 2) * math.expm1(min(epsilon / BUDGETED, LARGEST_EXPONENT))
        raise WrongInput(
            f"privacy.epsilon = {epsilon:g} is spent by the choice of labels alone: at relabel.share = {share:g} it "
            f"must be above {least:.4g}, or the share below {most:.4g}"
        )
    return left, min(delta / share / BUDGETED, math.nextafter(1.0, 0.0))


def _log_one_plus(log_factor: float, epsilon: float) -> float:
    """ln(1 + factor·(e^ε − 1)), without overflow."""
    log_term = log_factor + log_expm1(epsilon) if epsilon > 0 else -math.inf
    return max(log_term, 0.0) + math.log1p(math.exp(-abs(log_term)))


def log_expm1(epsilon: float) -> float:
    """ln(e^ε − 1)."""
    return epsilon + math.log(-math.expm1(-epsilon))
