"""Recompute the guarantee of a session from its recorded settings, independently of the code that claimed it.

If the mechanisms use doubles and rounding towards safety, this uses 40 decimal digits or exact sums; if they bound,
this enumerates, and the other way round. So a fault would have to be made twice, in two ways.

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
from concord.tasks.verify.recompute_gaussian import PublicSettings, sums_delta, tallies_charge, tallies_delta
from concord.tasks.verify.recompute_questions import DIGITS, TWO_TO_64, question_delta, question_slip

WIDE = 12
"""Width of the sum over responses, in units of the root of their number; the rest, below 1e-125, is added."""
LABELS = "labels"
"""The purpose of a session from which a student learns."""
VOTES_MOVED = {"rows": 1, "labels": 2}
AT_ONCE = 1 << 20
"""Outcomes of noise held in memory at once: a stranger's scale may ask for any number of them."""
SLACK = 1 + 1e-9
"""Allowance for rounding of doubles; claims are rounded up by more."""
ROUNDING_ROOM = SLACK**2
"""Factor by which a choice is drawn below its ε, as head-room for the rounding of its cost."""


Releases = Literal["labels", "rounds", "hypothesis", "answers"]
"""Labels of rows that teachers vote on; sums, round by round; a student; or answers, which the certificate repeats."""


@dataclass(frozen=True)
class Route:
    """The recomputation of one mechanism: δ at an ε, and Rényi nats at an order with additive δ.

    releases   what it releases, if a student learns from that or of that
    """

    least_delta: Callable[[PublicSettings, float], float]
    charge: Callable[[PublicSettings, float], tuple[float, float]]
    releases: Releases = "labels"


def least_delta(settings: PublicSettings, epsilon: float) -> float:
    """δ at which the settings are proved (epsilon, δ)-DP. Raises NotVerified if it cannot be recomputed."""
    if "relabel" in settings:
        return _relabelled_delta(settings, epsilon)
    return _route(settings).least_delta(settings, epsilon)


def stated_budget(settings: PublicSettings) -> tuple[float, float]:
    """The (ε, δ) that the settings state for the whole session. Raises NotVerified unless they prove it."""
    whole = settings.get("relabel", settings)
    epsilon, delta = float(whole["epsilon"]), float(whole["delta"])
    proved = least_delta(settings, epsilon)
    if not proved <= delta * SLACK:
        raise NotVerified(f"at ε = {epsilon:g} its settings prove δ = {proved:.6g}, and they state {delta:g}")
    return epsilon, delta


def charge(settings: PublicSettings, order: float) -> tuple[float, float]:
    """Rényi nats at `order` and the additive δ that the settings cost. Raises NotVerified."""
    if "relabel" in settings:
        epsilon, delta = stated_budget(settings)
        return _responses_nats(epsilon, 1, order), delta
    return _route(settings).charge(settings, order)


def charge_of_refusal(settings: PublicSettings, order: float) -> tuple[float, float] | None:
    """Nats and δ of one refusal; None if the session is charged whole, as all are except stable voting on rows that are
    not relabelled. Raises NotVerified."""
    if settings.get("name") != "stable" or "relabel" in settings:
        return None
    return charge({**settings, "cutoff": 1}, order)


def _relabelled_delta(settings: PublicSettings, epsilon: float) -> float:
    """From the whole ε back to that of the inner mechanism: amplification (Li, Qardaji & Su 2012), LabelBoost for an
    added or removed row, and group privacy over a row's copies; then δ forward again."""
    relabel = settings["relabel"]
    copies = int(relabel["copies"])
    with localcontext(prec=DIGITS):
        share, choice = Decimal(relabel["share"]), Decimal(relabel["choice_epsilon"])
        on_subset = 1 + (Decimal(epsilon).exp() - 1) / share
        each = (on_subset / (1 + (choice / 2).exp())).ln() / copies
        if each <= 0:
            return math.inf
        steps = sum((step * each).exp() for step in range(copies))
        return float(share * steps * Decimal(_route(settings).least_delta(settings, float(each))))


def releases(settings: PublicSettings, purpose: str = LABELS) -> Releases:
    """What a session of that purpose releases. Raises NotVerified if its guarantee cannot be recomputed."""
    return _route(settings).releases if purpose == LABELS else "answers"


def _route(settings: PublicSettings) -> Route:
    name = settings.get("name")
    if name not in ROUTES:
        raise NotVerified(f"the guarantee of {name!r} cannot be recomputed by another path")
    return ROUTES[name]


def _stable_delta(settings: PublicSettings, epsilon: float) -> float:
    """Rényi bound of the table at its own order, converted (Canonne, Kamath & Steinke 2020, Prop. 12), plus slips."""
    order = float(settings["order"])
    nats, slips = _stable_charge(settings, order)
    return _converted(nats, order, epsilon) + slips


def _stable_charge(settings: PublicSettings, order: float) -> tuple[float, float]:
    """T·κ(α)/(α−1) and T·π/(1−π), from the table's integers in decimal arithmetic."""
    cutoff, first = int(settings["cutoff"]), _table(settings["refusal"])[0]
    with localcontext(prec=DIGITS):
        slips = Decimal(cutoff) * (TWO_TO_64 - first) / first
        return float(cutoff * _kappa(settings["refusal"], order) / (Decimal(order) - 1)), float(slips)


@lru_cache(maxsize=64)
def _kappa(refusal: str, order: float) -> Decimal:
    """The dearest step of a table: κ(α) over adjacent entries, either way round."""
    with localcontext(prec=DIGITS):
        steps = [pair for pair in pairwise(_table(refusal)[1]) if pair[0] != pair[1]]
        costs = (_refusal_cost(Decimal(order), *pair[::way]) for pair in steps for way in (1, -1))
        return max(costs, default=Decimal(0))


@lru_cache(maxsize=8)
def _table(refusal: str) -> tuple[int, list[tuple[Decimal, Decimal]]]:
    """The first entry of a table, and the log-probabilities (refused, answered) of all."""
    table = [int(entry) for entry in np.frombuffer(base64.b64decode(refusal), "<u8")]
    with localcontext(prec=DIGITS):
        return table[0], [((Decimal(p) / TWO_TO_64).ln(), (Decimal(TWO_TO_64 - p) / TWO_TO_64).ln()) for p in table]


def _refusal_cost(alpha: Decimal, p: tuple[Decimal, Decimal], q: tuple[Decimal, Decimal]) -> Decimal:
    """ln [ p^α q^(1−α) / (1 − (1−p)^α (1−q)^(1−α)) ] of log-probabilities (refused, answered)."""
    paid = 1 - (alpha * p[1] + (1 - alpha) * q[1]).exp()
    return alpha * p[0] + (1 - alpha) * q[0] - paid.ln() if paid > 0 else Decimal("Infinity")


def _converted(nats: float, order: float, epsilon: float) -> float:
    return math.exp(min(0.0, (order - 1) * (nats - epsilon + math.log1p(-1 / order)) - math.log(order)))


def _moved(settings: PublicSettings, rows: str) -> int:
    """Number of noisy counts that one teacher moves by one over all rows."""
    return int(settings[rows]) * (1 if settings["classes"] == 2 else 2)


def _gaussian_delta(settings: PublicSettings, epsilon: float) -> float:
    """δ from the laws of one or two sums: of all released counts, and of the noise of all tests."""
    return sums_delta(epsilon, *groups(settings))


def _rho(settings: PublicSettings) -> float:
    """Σ sensitivity² / (2·scale²): zero-concentrated DP (Bun & Steinke 2016)."""
    return sum(moved / (2 * scale**2) for moved, scale in groups(settings))


def _concentrated_charge(settings: PublicSettings, order: float) -> tuple[float, float]:
    return order * _rho(settings), 0.0


def _responses_delta(each: float, times: int, epsilon: float) -> float:
    """Optimal composition (Kairouz, Oh & Viswanath 2015): `times` randomised responses of ε = `each`, summed."""
    from scipy.stats import binom  # heavy, and rarely asked for

    flip = 1 / (1 + math.exp(each))
    wide = WIDE * math.sqrt(times)
    flipped = np.arange(max(0, math.floor(times * flip - wide)), min(times, math.ceil(times * flip + wide)) + 1)
    cut = math.exp(-2 * WIDE**2) if flipped[0] > 0 else 0.0  # Hoeffding 1963
    return _hockey_stick(binom.pmf(flipped, times, flip), (times - 2 * flipped) * each, epsilon) + cut


def _responses_nats(each: float, times: int, order: float) -> float:
    with localcontext(prec=DIGITS):
        alpha, high = Decimal(order), 1 / (1 + Decimal(-each).exp())
        low = 1 - high
        moment = high**alpha * low ** (1 - alpha) + low**alpha * high ** (1 - alpha)
        return float(times * moment.ln() / (alpha - 1))


def _laplace_delta(settings: PublicSettings, epsilon: float) -> float:
    return _responses_delta(1 / float(settings["scale"]), _moved(settings, "queries"), epsilon)


def _laplace_charge(settings: PublicSettings, order: float) -> tuple[float, float]:
    return _responses_nats(1 / float(settings["scale"]), _moved(settings, "queries"), order), 0.0


def _choice_charge(settings: PublicSettings, order: float) -> tuple[float, float]:
    """The worst two-valued loss of range ε (Dong, Durfee & Rogers 2020), found by search."""
    with localcontext(prec=DIGITS):
        alpha, spread = Decimal(order), Decimal(pure(settings))
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


def _pure_delta(settings: PublicSettings, epsilon: float) -> float:
    return _responses_delta(pure(settings), 1, epsilon)


def _pure_charge(settings: PublicSettings, order: float) -> tuple[float, float]:
    return _responses_nats(pure(settings), 1, order), 0.0


def pure(settings: PublicSettings) -> float:
    """ε of one pure release. Of the exponential mechanism, its parameter (a unit moves an error count by 1), which is
    the ε of its settings divided by ROUNDING_ROOM; of an error estimate, the steps by which a shard moves the sum,
    divided by the noise's scale; of counts of groups, one step, likewise."""
    if settings["name"] in ("universal", "student_choice"):
        if settings.get("secret") not in VOTES_MOVED:
            raise NotVerified(f"a choice must say what is secret of a unit, got {settings.get('secret')!r}")
        return float(settings["epsilon"]) / ROUNDING_ROOM
    steps = 1 if settings["name"] == "group_counts" else int(settings["steps"])
    return steps / float(settings["scale"])


def _question_charge(settings: PublicSettings, order: float) -> tuple[float, float]:
    return _responses_nats(stated_budget(settings)[0], 1, order), question_slip(settings)


def _test_groups(settings: PublicSettings) -> tuple[tuple[int, float], ...]:
    """The counts a unit moves by one: a cell of the matrix and one of right and wrong; two of each if only its labels
    change."""
    if settings["secret"] not in VOTES_MOVED:
        raise NotVerified(f"a private test must say what is secret of a unit, got {settings['secret']!r}")
    moved = VOTES_MOVED[settings["secret"]]
    return (moved, float(settings["scale"])), (moved, float(settings["pair_scale"]))


def epochs(settings: PublicSettings) -> tuple[float, float]:
    """ε of one of the `cutoff` epochs of a sparse vector, and the probability that a label escapes."""
    return _epoch(settings), _escapes(settings)


def laplace_moves(settings: PublicSettings) -> tuple[float, int]:
    """ε of one Laplace count that a teacher moves, and the number of such counts."""
    return 1 / float(settings["scale"]), _moved(settings, "queries")


def groups(settings: PublicSettings) -> tuple[tuple[int, float], ...]:
    """Pairs (counts under Gaussian noise that a unit moves by one, their scale), for votes or the test of a student."""
    if settings["name"] == "private_test":
        return _test_groups(settings)
    if settings["name"] == "noisy_votes":
        return ((_moved(settings, "queries"), float(settings["scale"])),)
    tests = int(settings["queries"]), float(settings["test_scale"])
    return tests, (_moved(settings, "answers"), float(settings["scale"]))


def _epoch(settings: PublicSettings) -> float:
    return 1 / float(settings["threshold_scale"]) + 2 / float(settings["query_scale"])


def _escapes(settings: PublicSettings) -> float:
    """T·Pr[Y − X > threshold] of discrete Laplace X (threshold) and Y (query), summed over X, AT_ONCE of it."""
    from scipy.stats import dlaplace  # heavy, and rarely asked for

    across, along = float(settings["threshold_scale"]), float(settings["query_scale"])
    threshold = int(settings["threshold"])
    reach = threshold + math.ceil(80 * across)  # the rest is e^(-80) of the sum
    parts = (np.arange(start, min(start + AT_ONCE, reach + 1)) for start in range(-reach, reach + 1, AT_ONCE))
    chances = (dlaplace.pmf(noise, 1 / across) * dlaplace.sf(threshold + noise, 1 / along) for noise in parts)
    return int(settings["cutoff"]) * math.fsum(float(chance.sum()) for chance in chances)


def _threshold_delta(settings: PublicSettings, epsilon: float) -> float:
    return _responses_delta(_epoch(settings), int(settings["cutoff"]), epsilon) + _escapes(settings)


def _threshold_charge(settings: PublicSettings, order: float) -> tuple[float, float]:
    return _responses_nats(_epoch(settings), int(settings["cutoff"]), order), _escapes(settings)


def _hockey_stick(law: Any, loss: Any, epsilon: float) -> float:
    """Σ law·(1 − e^(ε − loss))⁺: the least δ at ε of a mechanism with that law of privacy loss."""
    return float(np.sum(law * -np.expm1(np.minimum(epsilon - loss, 0.0))))


ROUTES = {
    "stable": Route(_stable_delta, _stable_charge),
    "sparse_vector": Route(_threshold_delta, _threshold_charge),
    "published": Route(_threshold_delta, _threshold_charge),
    "noisy_votes": Route(_gaussian_delta, _concentrated_charge),
    "confident": Route(_gaussian_delta, _concentrated_charge),
    "laplace_votes": Route(_laplace_delta, _laplace_charge),
    "tallies": Route(tallies_delta, tallies_charge, "rounds"),
    "universal": Route(_pure_delta, _choice_charge, "hypothesis"),
    "student_choice": Route(_pure_delta, _choice_charge, "answers"),
    "error_estimate": Route(_pure_delta, _pure_charge, "answers"),
    "group_counts": Route(_pure_delta, _pure_charge, "answers"),
    "private_test": Route(_gaussian_delta, _concentrated_charge, "answers"),
    "optimal_release": Route(question_delta, _question_charge, "answers"),
    "laplace_release": Route(question_delta, _question_charge, "answers"),
}
