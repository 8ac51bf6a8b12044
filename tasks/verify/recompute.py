"""Recompute the guarantee of a session from its recorded settings, independently of the code that claimed it.

If the mechanisms use doubles and rounding towards safety, this uses 40 decimal digits or exact sums; if they bound,
this enumerates, and the other way round; of Gaussians, it integrates what they have in closed form. So a fault would
have to be made twice, in two ways.

A kind is one class: its settings, and the proof of what they cost. To add one, write its class and name it in KINDS.

Assumes      settings are those that ran (as the ledger's chain records); the theorems named below
Guarantees   `least_delta` is a δ at which the settings are proved (ε, δ)-DP; `charge` is the charge due in a domain
Not covered  mechanisms without a kind here: refused
             Checked by tests/tasks/verify/test_recompute.py, against the mechanisms and with settings tampered with
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from concord.artifacts.errors import NotVerified
from concord.artifacts.schemas import Bounds
from concord.tasks.verify.kinds import (
    Amount,
    Count,
    KindSettings,
    Proof,
    RelabellingSettings,
    Releases,
    Secret,
    Unknown,
    VotesSettings,
)
from concord.tasks.verify.recompute_discrete import (
    DIGITS,
    TWO_TO_64,
    PureAnswers,
    PureProof,
    choice_nats,
    entries,
    kappa,
    responses_delta,
    responses_nats,
)
from concord.tasks.verify.recompute_gaussian import GaussianProof, MovedNumbers, TalliesSettings, converted

LABELS = "labels"
"""The purpose of a session from which a student learns."""
AT_ONCE = 1 << 20
"""Outcomes of noise held in memory at once."""
SLACK = 1 + 1e-9
"""Allowance for rounding of doubles; claims are rounded up by more."""
ROUNDING_ROOM = SLACK**2
"""Factor by which a choice is drawn below its ε, as head-room for the rounding of its cost."""

VOTES_MOVED = {"rows": 1, "labels": 2}
"""Counts that a unit moves by one, by what is secret of it."""


def read_settings(settings: Mapping[str, Any]) -> KindSettings:
    """The settings on record as an object of their kind; `Unknown` if no kind fits."""
    name, why = settings.get("name"), "this version has no such kind"
    try:
        if isinstance(name, str) and name in KINDS:
            return KINDS[name].read(settings)
    except NotVerified as reason:
        why = str(reason)
    return Unknown(name=str(name), relabel=True if settings.get("relabel") is not None else None, why=why)


@lru_cache(maxsize=256)
def least_delta(kind: KindSettings, epsilon: float) -> float:
    """δ at which the settings are proved (epsilon, δ)-DP. Raises NotVerified if it cannot be recomputed."""
    proof = _proof(kind)
    return proof.least_delta(epsilon) if kind.relabel is None else _relabelled_delta(proof, kind.relabel, epsilon)


def stated_budget(kind: KindSettings) -> tuple[float, float]:
    """The (ε, δ) that the settings state for the whole session. Raises NotVerified unless they prove it."""
    epsilon, delta = kind.claim
    if epsilon is None or delta is None:
        raise NotVerified(f"the settings of {kind.name!r} state no ε and δ")
    proved = least_delta(kind, epsilon)
    if not proved <= delta * SLACK:
        raise NotVerified(f"at ε = {epsilon:g} its settings prove δ = {proved:.6g}, and they state {delta:g}")
    return epsilon, delta


@lru_cache(maxsize=256)
def charge(kind: KindSettings, order: float) -> tuple[float, float]:
    """Rényi nats at `order` and the additive δ that the settings cost. Raises NotVerified."""
    proof = _proof(kind)
    if kind.relabel is None:
        return proof.charge(order)
    epsilon, delta = stated_budget(kind)  # charged as one answer
    return responses_nats(epsilon, 1, order), delta


def charge_of_refusal(kind: KindSettings, order: float) -> tuple[float, float] | None:
    """Nats and δ of one refusal; None if the session is charged whole. Raises NotVerified."""
    whole = not _proof(kind).by_refusal or kind.relabel is not None
    return None if whole else charge(kind.model_copy(update={"cutoff": 1}), order)


def _relabelled_delta(inner: Proof, relabel: RelabellingSettings, epsilon: float) -> float:
    """From the whole ε back to that of the inner mechanism: amplification (Li, Qardaji & Su 2012) and LabelBoost for an
    added or removed row; then δ forward again."""
    with localcontext(prec=DIGITS):
        share, choice = Decimal(relabel.share), Decimal(relabel.choice_epsilon)
        on_subset = 1 + (Decimal(epsilon).exp() - 1) / share
        left = (on_subset / (1 + (choice / 2).exp())).ln()
        if left <= 0:
            return math.inf
        return float(share * Decimal(inner.least_delta(float(left))))


def releases(kind: KindSettings, purpose: str = LABELS) -> Releases:
    """What a session of that purpose releases. Raises NotVerified if its guarantee cannot be recomputed."""
    return _proof(kind).releases if purpose == LABELS else "answers"


def _proof(kind: KindSettings) -> Proof:
    if isinstance(kind, Proof):
        return kind
    raise NotVerified(f"the guarantee of {kind.name!r} cannot be recomputed by another path: {kind.only(Unknown).why}")


# Labels by votes ------------------------------------------------------------------------------------------------------


class StableSettings(Proof, VotesSettings):
    """Stable voting; `refusal` is the table in base64, and `order` the Rényi order that it was made for."""

    by_refusal: ClassVar[bool] = True

    cutoff: Count
    order: Amount
    refusal: str

    def least_delta(self, epsilon: float) -> float:
        """Rényi bound of the table at its own order, converted (Canonne, Kamath & Steinke 2020, Prop. 12), plus
        slips."""
        nats, slips = self.charge(self.order)
        return converted(nats, self.order, epsilon) + slips

    def charge(self, order: float) -> tuple[float, float]:
        """T·κ(α)/(α−1) and T·π/(1−π), from the table's integers in decimal arithmetic."""
        first = int(entries(self.refusal)[0])
        with localcontext(prec=DIGITS):
            slips = Decimal(self.cutoff) * (TWO_TO_64 - first) / first
            return float(self.cutoff * kappa(self.refusal, order) / (Decimal(order) - 1)), float(slips)


class NoisyThresholdSettings(PureProof, VotesSettings):
    """The sparse vector technique."""

    cutoff: Count
    threshold: Count
    threshold_scale: Amount
    query_scale: Amount

    @property
    def pure(self) -> PureAnswers:
        """Its epochs, and the probability that a label escapes."""
        return 1 / self.threshold_scale + 2 / self.query_scale, self.cutoff, self.cutoff * self._escape()

    def _escape(self) -> float:
        """Pr[Y − X > threshold] of discrete Laplace X (threshold) and Y (query), summed over X, AT_ONCE of it."""
        from scipy.stats import dlaplace  # heavy, and rarely asked for

        across, along, threshold = self.threshold_scale, self.query_scale, self.threshold
        reach = threshold + math.ceil(80 * across)  # the rest is e^(-80) of the sum
        parts = (np.arange(start, min(start + AT_ONCE, reach + 1)) for start in range(-reach, reach + 1, AT_ONCE))
        # a tail is summed from below: `sf` is 1 less a sum, in which a small one is lost
        chances = (dlaplace.pmf(noise, 1 / across) * dlaplace.cdf(-1 - threshold - noise, 1 / along) for noise in parts)
        return math.fsum(float(chance.sum()) for chance in chances)


class PublishedSettings(NoisyThresholdSettings):
    """The papers' Algorithm 3."""

    queries: Count
    beta: Amount
    teachers: Count


class NoisyCountsSettings(VotesSettings):
    """Noisy counts of votes."""

    queries: Count
    classes: Count
    scale: Amount

    def moved(self, rows: int) -> int:
        """Number of noisy counts that one teacher moves by one over so many rows."""
        return rows * (1 if self.classes == 2 else 2)


class LaplaceVotesSettings(PureProof, NoisyCountsSettings):
    """Under Laplace noise."""

    @property
    def pure(self) -> PureAnswers:
        """The counts that a teacher moves."""
        return 1 / self.scale, self.moved(self.queries), 0.0


class NoisyVotesSettings(GaussianProof, NoisyCountsSettings):
    """Under Gaussian noise."""

    @property
    def moves(self) -> list[MovedNumbers]:
        """The counts of all rows."""
        return [_by_ones(self.moved(self.queries), self.scale)]


class ConfidentSettings(GaussianProof, NoisyCountsSettings):
    """Under Gaussian noise, where a noisy test finds them far apart."""

    answers: Count
    threshold: Count
    test_scale: Amount

    @property
    def moves(self) -> list[MovedNumbers]:
        """The tests of all rows, and the counts of those answered."""
        return [_by_ones(self.queries, self.test_scale), _by_ones(self.moved(self.answers), self.scale)]


def _by_ones(count: int, scale: float) -> MovedNumbers:
    """So many numbers that move by one each."""
    return count, count, Decimal(scale)


# Answers --------------------------------------------------------------------------------------------------------------


class QuestionSettings(PureProof, VotesSettings):
    """A single question."""

    releases: ClassVar[Releases] = "answers"

    @property
    @abstractmethod
    def odds(self) -> list[tuple[Decimal, Decimal]]:
        """Probabilities of an answer and of a refusal by distance, up to that at which they mirror those at 0."""

    @property
    def slip(self) -> float:
        """δ of the answer: its probability at a distance of 0."""
        return float(self.odds[0][0])

    @property
    def pure(self) -> PureAnswers:
        """One answer, of the ε that the settings state."""
        return stated_budget(self)[0], 1, self.slip

    def least_delta(self, epsilon: float) -> float:
        """The largest excess of one side's probabilities over e^ε times the other's, over every pair of neighbours:
        their distances differ by one, either way round; or their answers differ, and both are at distance 0."""
        odds = self.odds
        with localcontext(prec=DIGITS):
            grows, sides = Decimal(epsilon).exp(), [pair[::way] for pair in pairwise(odds) for way in (1, -1)]
            over = [sum(max(p - grows * q, Decimal(0)) for p, q in zip(*side, strict=True)) for side in sides]
            return float(max([odds[0][0], *over]))


class OptimalReleaseSettings(QuestionSettings):
    """By a table of refusals."""

    refusal: str

    @property
    def odds(self) -> list[tuple[Decimal, Decimal]]:
        """Those of the table."""
        with localcontext(prec=DIGITS):
            table = entries(self.refusal).tolist()
            return [(Decimal(TWO_TO_64 - entry) / TWO_TO_64, Decimal(entry) / TWO_TO_64) for entry in table]

    @property
    def slip(self) -> float:
        """The planned δ, which the table rounds down."""
        return self.delta


class LaplaceReleaseSettings(QuestionSettings):
    """By a noisy threshold, in the papers' form."""

    scale: Amount
    threshold: Amount

    @property
    def odds(self) -> list[tuple[Decimal, Decimal]]:
        """The tails of the noise."""
        with localcontext(prec=DIGITS):
            least = math.floor(self.threshold) + 1
            return [_tail(Decimal(self.scale), least - distance) for distance in range(2 * least + 1)]


def _tail(scale: Decimal, least: int) -> tuple[Decimal, Decimal]:
    """Probabilities that discrete Laplace noise is at least `least`, and that it is below."""
    ratio = (-1 / scale).exp()
    small = ratio ** (least if least > 0 else 1 - least) / (1 + ratio)
    return (small, 1 - small) if least > 0 else (1 - small, small)


class ErrorEstimateSettings(PureProof, KindSettings):
    """An estimate of how much teachers err, from so many shards; a `share` of the units is set aside."""

    releases: ClassVar[Releases] = "answers"

    epsilon: Amount
    shards: Count
    steps: Count
    scale: Amount
    share: Amount = 0.0

    @property
    def pure(self) -> PureAnswers:
        """One sum, which a shard moves by some steps."""
        return self.steps / self.scale, 1, 0.0


class PrivateTestSettings(GaussianProof, KindSettings):
    """A private test: noise of `scale` and `pair_scale`; of a number, beside the errors of a constant."""

    releases: ClassVar[Releases] = "answers"

    epsilon: Amount
    delta: Amount
    classes: Count
    bounds: Bounds | None = None
    secret: Secret
    scale: Amount
    pair_scale: Amount
    session: str | None = None
    student: str | None = None
    share: Amount | None = None
    clean: bool = False
    constant: float = 0.0

    @property
    def moves(self) -> list[MovedNumbers]:
        """A cell of the matrix, and one of right and wrong."""
        return [_by_ones(VOTES_MOVED[self.secret], scale) for scale in (self.scale, self.pair_scale)]


# Students and sums ----------------------------------------------------------------------------------------------------


class UniversalSettings(Proof, KindSettings):
    """The choice of a hypothesis among `candidates`, of the class of that name and digest."""

    releases: ClassVar[Releases] = "hypothesis"

    epsilon: Amount
    secret: Secret
    hypotheses: str = ""
    features: tuple[str, ...] = ()
    digest: str = Field(default="", alias="class")
    candidates: Count = 0

    @property
    def of_choice(self) -> float:
        """ε of a choice in which a unit moves an error count by 1: that of the settings divided by ROUNDING_ROOM."""
        return self.epsilon / ROUNDING_ROOM

    def least_delta(self, epsilon: float) -> float:
        """That of one randomised response."""
        return responses_delta(self.of_choice, 1, epsilon)

    def charge(self, order: float) -> tuple[float, float]:
        """That of the worst two-valued loss of that range."""
        return choice_nats(self.of_choice, order), 0.0


class SketchSettings(TalliesSettings):
    """Rounds of tables and of labels, about the cells of a declared schema."""


class StreamSettings(TalliesSettings):
    """A season of running sums, by coefficients of so many `bits`; `rounds` are the questions of each release. A unit
    moves release k, from its own on, by q_k times itself."""

    season: Count
    bits: Count
    matrix: Literal["square root"]

    @property
    def moves(self) -> list[MovedNumbers]:
        """The sums of each question in all releases."""
        squares = sum(weight**2 for weight in self.weights)
        return [(square * squares, cells * self.season, scale) for square, cells, scale in super().moves]

    @property
    def weights(self) -> list[int]:
        """q_k by c_k = c_{k−1}·(2k − 1)/2k, c_0 = 1, in fractions; halves are rounded up."""
        exact, rounded = Fraction(1), list[int]()
        for k in range(1, self.season + 1):
            rounded.append(math.floor(exact * 2**self.bits + Fraction(1, 2)))
            exact *= Fraction(2 * k - 1, 2 * k)
        return rounded


KINDS: dict[str, type[KindSettings]] = {
    "stable": StableSettings,
    "noisy_votes": NoisyVotesSettings,
    "confident": ConfidentSettings,
    "laplace_votes": LaplaceVotesSettings,
    "sparse_vector": NoisyThresholdSettings,
    "published": PublishedSettings,
    "optimal_release": OptimalReleaseSettings,
    "laplace_release": LaplaceReleaseSettings,
    "tallies": TalliesSettings,
    "sketch": SketchSettings,
    "stream": StreamSettings,
    "universal": UniversalSettings,
    "private_test": PrivateTestSettings,
    "error_estimate": ErrorEstimateSettings,
}
"""The kinds by the names of their mechanisms."""
