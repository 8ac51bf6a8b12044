"""Recompute the guarantee of a session from its recorded settings, independently of the code that claimed it.

If the mechanisms use doubles and rounding towards safety, this uses 40 decimal digits or exact sums; if they bound,
this enumerates, and the other way round; of Gaussians, it integrates what they have in closed form. So a fault would
have to be made twice, in two ways.

Assumes      settings are those that ran (as the ledger's chain records); the theorems named below
Guarantees   `least_delta` is a δ at which the settings are proved (ε, δ)-DP; `charge` is the charge due in a domain
Not covered  mechanisms without a route here: refused
             Checked by tests/tasks/verify/test_recompute.py, against the mechanisms and with settings tampered with
"""

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from concord.artifacts.errors import NotVerified
from concord.tasks.verify.kinds import (
    ErrorEstimateSettings,
    KindSettings,
    LaplaceReleaseSettings,
    NoisyCountsSettings,
    NoisyThresholdSettings,
    OptimalReleaseSettings,
    StableSettings,
    UniversalSettings,
    Unknown,
    VotesSettings,
)
from concord.tasks.verify.recompute_gaussian import converted, moved_counts, noise_charge, noise_delta

DIGITS = 40
TWO_TO_64 = 2**64
OF_DOUBLES = 1e-15
"""Most relative error of a multiple of a logarithm in doubles: four roundings."""
WIDE = 18.5
"""Width of the sum over responses, in units of the root of their number; the rest, below 1e-297, is added."""
LABELS = "labels"
"""The purpose of a session from which a student learns."""
AT_ONCE = 1 << 20
"""Outcomes of noise held in memory at once."""
SLACK = 1 + 1e-9
"""Allowance for rounding of doubles; claims are rounded up by more."""
ROUNDING_ROOM = SLACK**2
"""Factor by which a choice is drawn below its ε, as head-room for the rounding of its cost."""


Releases = Literal["labels", "rounds", "hypothesis", "answers"]
"""Labels of rows that teachers vote on; sums, round by round; a student; or answers, which the certificate repeats."""


PureAnswers = tuple[float, int, float]
"""A session as answers that are pure but for one δ: ε of each, their number, and that δ."""
QuestionKind = OptimalReleaseSettings | LaplaceReleaseSettings


@lru_cache(maxsize=256)
def least_delta(kind: KindSettings, epsilon: float) -> float:
    """δ at which the settings are proved (epsilon, δ)-DP. Raises NotVerified if it cannot be recomputed."""
    return _route(kind).least_delta(kind, epsilon)


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
    return _route(kind).charge(kind, order)


def charge_of_refusal(kind: KindSettings, order: float) -> tuple[float, float] | None:
    """Nats and δ of one refusal; None if the session is charged whole. Raises NotVerified."""
    return charge(kind.model_copy(update={"cutoff": 1}), order) if _route(kind).by_refusal else None


def _relabelled_delta(kind: VotesSettings, epsilon: float) -> float:
    """From the whole ε back to that of the inner mechanism: amplification (Li, Qardaji & Su 2012) and LabelBoost for an
    added or removed row; then δ forward again."""
    relabel, inner = kind.relabel, kind.model_copy(update={"relabel": None})
    assert relabel is not None  # as its route says
    with localcontext(prec=DIGITS):
        share, choice = Decimal(relabel.share), Decimal(relabel.choice_epsilon)
        on_subset = 1 + (Decimal(epsilon).exp() - 1) / share
        left = (on_subset / (1 + (choice / 2).exp())).ln()
        if left <= 0:
            return math.inf
        return float(share * Decimal(least_delta(inner, float(left))))


def releases(kind: KindSettings, purpose: str = LABELS) -> Releases:
    """What a session of that purpose releases. Raises NotVerified if its guarantee cannot be recomputed."""
    return _named(kind).releases if purpose == LABELS else "answers"


def _route(kind: KindSettings) -> "Route":
    named = _named(kind)
    return named if kind.relabel is None else RELABELLED


def _named(kind: KindSettings) -> "Route":
    if isinstance(kind, Unknown):
        raise NotVerified(f"the guarantee of {kind.name!r} cannot be recomputed by another path: {kind.why}")
    return ROUTES[kind.name]


def _stable_delta(kind: StableSettings, epsilon: float) -> float:
    """Rényi bound of the table at its own order, converted (Canonne, Kamath & Steinke 2020, Prop. 12), plus slips."""
    nats, slips = _stable_charge(kind, kind.order)
    return converted(nats, kind.order, epsilon) + slips


def _stable_charge(kind: StableSettings, order: float) -> tuple[float, float]:
    """T·κ(α)/(α−1) and T·π/(1−π), from the table's integers in decimal arithmetic."""
    cutoff, first = kind.cutoff, int(_entries(kind.refusal)[0])
    with localcontext(prec=DIGITS):
        slips = Decimal(cutoff) * (TWO_TO_64 - first) / first
        return float(cutoff * _kappa(kind.refusal, order) / (Decimal(order) - 1)), float(slips)


@lru_cache(maxsize=64)
def _kappa(refusal: str, order: float) -> Decimal:
    """The dearest step of a table: κ(α) over adjacent entries, either way round."""
    with localcontext(prec=DIGITS):
        costs = (_refusal_cost(Decimal(order), *step) for step in _dear_steps(_entries(refusal), order).tolist())
        return max(costs, default=Decimal(0))


def _dear_steps(table: Any, order: float) -> Any:
    """The steps (steps, 2) of a table, either way round, that may be the dearest: all but those that cost less than
    another even if doubles err as far as they may. Decimals of every step of a long table would take minutes."""
    down = np.stack([table[:-1], table[1:]], axis=1)[table[:-1] != table[1:]]
    steps = np.concatenate([down, down[:, ::-1]])
    with np.errstate(all="ignore"):  # a cost that is no number is not less than another
        answered = np.where(steps > 0, -steps / TWO_TO_64, 1.0)
        shares = np.stack([steps / TWO_TO_64, answered])
        (p, q), (kept_p, kept_q) = np.where(shares < 1 / 2, np.log(shares), np.log1p(-shares[::-1])).swapaxes(1, 2)
        paid = -np.expm1(order * kept_p + (1 - order) * kept_q)
        cost = order * p + (1 - order) * q - np.log(paid)
        error = OF_DOUBLES * order * (np.abs(p) + np.abs(q) + (np.abs(kept_p) + np.abs(kept_q)) / paid)
        return steps[~(cost + error < np.fmax.reduce(cost - error, initial=0.0))]


def _entries(refusal: str) -> Any:
    """A table of probabilities, each an integer over 2^64."""
    return np.frombuffer(base64.b64decode(refusal), "<u8")


def _refusal_cost(alpha: Decimal, p: int, q: int) -> Decimal:
    """ln [ p^α q^(1−α) / (1 − (1−p)^α (1−q)^(1−α)) ] of entries of a table."""
    refused = [(Decimal(entry) / TWO_TO_64).ln() for entry in (p, q)]
    answered = [(Decimal(TWO_TO_64 - entry) / TWO_TO_64).ln() for entry in (p, q)]
    paid = 1 - (alpha * answered[0] + (1 - alpha) * answered[1]).exp()
    return alpha * refused[0] + (1 - alpha) * refused[1] - paid.ln() if paid > 0 else Decimal("Infinity")


def _responses_delta(of_one: float, times: int, epsilon: float) -> float:
    """Optimal composition (Kairouz, Oh & Viswanath 2015): `times` randomised responses of ε = `each`, summed."""
    from scipy.stats import binom  # heavy, and rarely asked for

    flip = math.exp(-of_one) / (1 + math.exp(-of_one))
    wide = WIDE * math.sqrt(times)
    flipped = np.arange(max(0, math.floor(times * flip - wide)), min(times, math.ceil(times * flip + wide)) + 1)
    cut = math.exp(-2 * WIDE**2) if flipped[0] > 0 else 0.0  # Hoeffding 1963
    return _hockey_stick(binom.pmf(flipped, times, flip), (times - 2 * flipped) * of_one, epsilon) + cut


def _responses_nats(of_one: float, times: int, order: float) -> float:
    with localcontext(prec=DIGITS):
        alpha, high = Decimal(order), 1 / (1 + Decimal(-of_one).exp())
        low = 1 / (1 + Decimal(of_one).exp())  # 1 − high would be 0 from ε = 92 on
        moment = high**alpha * low ** (1 - alpha) + low**alpha * high ** (1 - alpha)
        return float(times * moment.ln() / (alpha - 1))


def _laplace_answers(kind: NoisyCountsSettings) -> PureAnswers:
    """The counts that a teacher moves."""
    return 1 / kind.scale, moved_counts(kind, kind.queries), 0.0


def _chosen(kind: UniversalSettings) -> float:
    """ε of a choice in which a unit moves an error count by 1: that of its settings divided by ROUNDING_ROOM."""
    return kind.epsilon / ROUNDING_ROOM


def _choice_delta(kind: UniversalSettings, epsilon: float) -> float:
    return _responses_delta(_chosen(kind), 1, epsilon)


def _choice_charge(kind: UniversalSettings, order: float) -> tuple[float, float]:
    """The worst two-valued loss of range ε (Dong, Durfee & Rogers 2020), found by search."""
    with localcontext(prec=DIGITS):
        alpha, spread = Decimal(order), Decimal(_chosen(kind))
        low, high = Decimal(0), spread
        for _ in range(4 * DIGITS):  # ternary search: the moment rises, then falls
            third = (high - low) / 3
            nearer = _two_valued_nats(low + third, spread, alpha) < _two_valued_nats(high - third, spread, alpha)
            low, high = (low + third, high) if nearer else (low, high - third)
        return float(_two_valued_nats(low, spread, alpha)), 0.0


def _two_valued_nats(top: Decimal, spread: Decimal, alpha: Decimal) -> Decimal:
    """Rényi divergence where the likelihood ratio is e^top or e^(top − spread), with the odds that make its mean 1."""
    above, below = top.exp(), (top - spread).exp()
    odds = (1 - below) / (above - below)
    return (odds * above**alpha + (1 - odds) * below**alpha).ln() / (alpha - 1)


def _estimate_answers(kind: ErrorEstimateSettings) -> PureAnswers:
    """One sum, which a shard moves by some steps."""
    return kind.steps / kind.scale, 1, 0.0


def _question_answers(kind: QuestionKind) -> PureAnswers:
    """One answer; and the planned δ, or in the papers' form the tail of its noise."""
    slip = kind.delta if isinstance(kind, OptimalReleaseSettings) else float(_odds(kind)[0][0])
    return stated_budget(kind)[0], 1, slip


def _question_delta(kind: QuestionKind, epsilon: float) -> float:
    """The largest excess of one side's probabilities over e^ε times the other's, over every pair of neighbours: their
    distances differ by one, either way round; or their answers differ, and both are at distance 0."""
    odds = _odds(kind)
    with localcontext(prec=DIGITS):
        grows, sides = Decimal(epsilon).exp(), [pair[::way] for pair in pairwise(odds) for way in (1, -1)]
        over = [sum(max(p - grows * q, Decimal(0)) for p, q in zip(*side, strict=True)) for side in sides]
        return float(max([odds[0][0], *over]))


def _odds(kind: QuestionKind) -> list[tuple[Decimal, Decimal]]:
    """Probabilities of an answer and of a refusal by distance; in the papers' form up to the distance at which they
    mirror those at 0."""
    with localcontext(prec=DIGITS):
        if isinstance(kind, OptimalReleaseSettings):
            table = _entries(kind.refusal).tolist()
            return [(Decimal(TWO_TO_64 - entry) / TWO_TO_64, Decimal(entry) / TWO_TO_64) for entry in table]
        least = math.floor(kind.threshold) + 1
        return [_tail(Decimal(kind.scale), least - distance) for distance in range(2 * least + 1)]


def _tail(scale: Decimal, least: int) -> tuple[Decimal, Decimal]:
    """Probabilities that discrete Laplace noise is at least `least`, and that it is below."""
    ratio = (-1 / scale).exp()
    small = ratio ** (least if least > 0 else 1 - least) / (1 + ratio)
    return (small, 1 - small) if least > 0 else (1 - small, small)


def _stated_answer(kind: KindSettings) -> PureAnswers:
    """One answer of the (ε, δ) that the settings state."""
    epsilon, delta = stated_budget(kind)
    return epsilon, 1, delta


def _epochs(kind: NoisyThresholdSettings) -> PureAnswers:
    """The epochs of a sparse vector, and the probability that a label escapes."""
    return 1 / kind.threshold_scale + 2 / kind.query_scale, kind.cutoff, _escapes(kind)


def _escapes(kind: NoisyThresholdSettings) -> float:
    """T·Pr[Y − X > threshold] of discrete Laplace X (threshold) and Y (query), summed over X, AT_ONCE of it."""
    from scipy.stats import dlaplace  # heavy, and rarely asked for

    across, along, threshold = kind.threshold_scale, kind.query_scale, kind.threshold
    reach = threshold + math.ceil(80 * across)  # the rest is e^(-80) of the sum
    parts = (np.arange(start, min(start + AT_ONCE, reach + 1)) for start in range(-reach, reach + 1, AT_ONCE))
    # a tail is summed from below: `sf` is 1 less a sum, in which a small one is lost
    chances = (dlaplace.pmf(noise, 1 / across) * dlaplace.cdf(-1 - threshold - noise, 1 / along) for noise in parts)
    return kind.cutoff * math.fsum(float(chance.sum()) for chance in chances)


def _hockey_stick(law: Any, loss: Any, epsilon: float) -> float:
    """Σ law·(1 − e^(ε − loss))⁺: the least δ at ε of a mechanism with that law of privacy loss."""
    return float(np.sum(law * -np.expm1(np.minimum(epsilon - loss, 0.0))))


@dataclass(frozen=True)
class Route:
    """The recomputation of one mechanism.

    least_delta   δ at an ε
    charge        Rényi nats at an order, and additive δ
    releases      the kind of its results
    by_refusal    whether a session that ends early is charged by its refusals
    """

    least_delta: Callable[[Any, float], float]
    charge: Callable[[Any, float], tuple[float, float]]
    releases: Releases = "labels"
    by_refusal: bool = False

    @classmethod
    def of_answers(cls, answers: Callable[[Any], PureAnswers], releases: Releases = "labels") -> "Route":
        """That of a session which comes to pure answers."""

        def least_delta(kind: KindSettings, epsilon: float) -> float:
            of_one, times, besides = answers(kind)
            return _responses_delta(of_one, times, epsilon) + besides

        def charge(kind: KindSettings, order: float) -> tuple[float, float]:
            of_one, times, besides = answers(kind)
            return _responses_nats(of_one, times, order), besides

        return cls(least_delta, charge, releases)


RELABELLED = Route(_relabelled_delta, Route.of_answers(_stated_answer).charge)
"""The route of any mechanism whose shards were relabelled: charged as one answer, by the (ε, δ) that it states."""
VOTES = Route(noise_delta, noise_charge)
SUMS = Route(noise_delta, noise_charge, releases="rounds")
QUESTION = Route(_question_delta, Route.of_answers(_question_answers).charge, releases="answers")
ROUTES = {
    "stable": Route(_stable_delta, _stable_charge, by_refusal=True),
    "sparse_vector": Route.of_answers(_epochs),
    "published": Route.of_answers(_epochs),
    "noisy_votes": VOTES,
    "confident": VOTES,
    "laplace_votes": Route.of_answers(_laplace_answers),
    "tallies": SUMS,
    "stream": SUMS,
    "sketch": SUMS,
    "universal": Route(_choice_delta, _choice_charge, releases="hypothesis"),
    "error_estimate": Route.of_answers(_estimate_answers, releases="answers"),
    "private_test": Route(noise_delta, noise_charge, releases="answers"),
    "optimal_release": QUESTION,
    "laplace_release": QUESTION,
}
