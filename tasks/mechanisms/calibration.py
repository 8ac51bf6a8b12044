"""Calibration: the settings with which a mechanism answers most, or adds the least noise, within a budget.

No guarantee hangs on it. A mechanism's cost is computed from the settings that run, and no session is opened whose
settings do not prove what it claims (tasks.door.admit): a fault here refuses more rows, adds more noise, or opens
nothing.

Sparse vector: of all settings that are (epsilon, delta)-DP at the cutoff, the one whose refusals fall to 1% at the
least distance. Two splits are searched, both public: δ between composition and labels that escape, and ε₁ between
threshold noise and query noise. The split of noise differs from Lyu, Su & Li 2017 (1 : 2^(2/3), least variance): here
the far tail counts as well.

The published algorithm: the guarantee printed with it (BTT18, Theorem 3.1) is of ε₁ = 4/λ over T + 1 epochs. Textbook
composition does not give it; optimal composition does up to ε of 7 to 10, by δ, thanks to slack in λ. Beyond, it is
refused.

Assumes      budgets and sizes are public
Guarantees   a mechanism whose cost is within (epsilon, delta), nearly all of which it uses, or WrongInput
Ends         not applicable: nothing is drawn
Not covered  as above. Checked by tests/privacy/test_calibration.py, and by test_outside_the_core.py with planted faults
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost, hockey_stick
from concord.tasks.mechanisms.catalogue import CATALOGUE
from concord.tasks.mechanisms.confident import ConfidentGNMax
from concord.tasks.mechanisms.distance import WHOLE
from concord.tasks.mechanisms.error_estimate import ErrorEstimate
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.gaussian import Gaussian
from concord.tasks.mechanisms.mechanism import Mechanism, PublicSettings
from concord.tasks.mechanisms.noise import drawable
from concord.tasks.mechanisms.noisy_votes import NoisyCounts, shifts
from concord.tasks.mechanisms.private_test import COUNTS_MOVED, PrivateTest
from concord.tasks.mechanisms.published import PublishedAlgorithm
from concord.tasks.mechanisms.queries import LaplaceRelease, OptimalRelease, growth, most_after
from concord.tasks.mechanisms.refusal_tables import LEAST_ORDER, fitted_table
from concord.tasks.mechanisms.relabelled import BUDGETED, CHOICE_EPSILON, boost, log_expm1
from concord.tasks.mechanisms.sparse_vector import SparseVector, sum_tail
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.mechanisms.stream import MOST_BITS, coefficients
from concord.tasks.mechanisms.tallies import STEPS, Round, Tallies

Noisy = TypeVar("Noisy", bound=Gaussian | NoisyCounts)
Counts = TypeVar("Counts", bound=NoisyCounts)
Sums = TypeVar("Sums", bound=Tallies)
Settings = TypeVar("Settings", bound=PublicSettings)

PRECISION = 1e-9
"""Relative precision to which calibration finds the least scale."""


def least_noise(build: Callable[[float], Noisy]) -> Noisy:
    """The mechanism with the least noise scale whose cost is within its budget; `build` makes a mechanism from a scale.

    More noise must never cost more. Raises WrongInput if the noise would be wider than can be drawn.
    """

    def fits(mechanism: Noisy) -> bool:
        return mechanism.cost.epsilon(mechanism.delta) <= mechanism.epsilon

    low, high = 0.0, 1.0
    while not fits(build(high)):  # which refuses a scale that cannot be drawn
        low, high = high, 2 * high
    while high > low * (1 + PRECISION):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(build(middle)) else (middle, high)
    return build(high)


def check_budget(*, epsilon: float, delta: float, queries: int, classes: int) -> None:
    """Raises WrongInput unless epsilon, delta, queries and classes are in their ranges."""
    if not 0 < epsilon < math.inf or not 1e-280 <= delta < 1:  # tails of a smaller one are no doubles
        raise WrongInput(f"epsilon must be positive and finite, 1e-280 ≤ delta < 1, got {epsilon!r}, {delta!r}")
    if queries < 1 or classes < 2:
        raise WrongInput(f"queries must be at least 1 and classes at least 2, got {queries!r}, {classes!r}")


# Votes ----------------------------------------------------------------------------------------------------------------


def calibrated_stable(*, epsilon: float, delta: float, cutoff: int, order: float = LEAST_ORDER) -> StableVoting:
    """The table that answers most within (epsilon, delta) at `cutoff` refusals. Raises WrongInput if none fits.

    order   Rényi order of the domain that will be charged: a table's curve is infinite a little above the order it is
            built for
    """
    built_at, refusal = fitted_table(float(epsilon), float(delta), int(cutoff), float(order))
    return StableVoting(epsilon=float(epsilon), delta=float(delta), cutoff=int(cutoff), order=built_at, refusal=refusal)


def calibrated_votes(kind: type[Counts], *, epsilon: float, delta: float, queries: int, classes: int) -> Counts:
    """The least noise with which `queries` rows stay within (epsilon, delta), of a kind whose noise has one scale."""
    check_budget(epsilon=epsilon, delta=delta, queries=queries, classes=classes)
    return least_noise(lambda scale: kind(epsilon=epsilon, delta=delta, queries=queries, classes=classes, scale=scale))


TEST_SHARE = 1 / 8
"""Part of ρ that goes to the tests of confident votes, near what the paper's settings spend on them."""


def calibrated_confident(
    *, epsilon: float, delta: float, queries: int, classes: int, teachers: int, answers: int | None = None
) -> ConfidentGNMax:
    """The least noise with which `queries` tests and `answers` released rows (by default half of the queries) stay
    within (epsilon, delta). The threshold is half-way between the largest count when teachers agree least and when they
    all agree.
    """
    check_budget(epsilon=epsilon, delta=delta, queries=queries, classes=classes)
    most = math.ceil(queries / 2) if answers is None else answers
    if not 1 <= most <= queries:
        raise WrongInput(f"answers must be between 1 and queries = {queries}, got {most}")

    def at(unit: float) -> ConfidentGNMax:
        return ConfidentGNMax(
            epsilon=epsilon,
            delta=delta,
            queries=queries,
            classes=classes,
            answers=most,
            threshold=math.ceil(teachers * (1 + 1 / classes) / 2),
            test_scale=unit * math.sqrt(queries / TEST_SHARE),
            scale=unit * math.sqrt(most * shifts(classes) / (1 - TEST_SHARE)),
        )

    return least_noise(at)


REFUSALS = 0.01
"""Calibration of a sparse vector minimises the distance at which refusal falls to this."""
LABEL_SHARES = (0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 1.0)
"""Parts of δ tried for labels that escape; the rest pays for optimal composition."""
QUERY_RATIOS = tuple(1 + step / 50 for step in range(-10, 41))
"""Ratios of query scale to threshold scale tried. Far tails favour 1, least variance favours 2^(1/3)."""
SEARCHED_PART = 1 - 1e-5
"""Part of each budget that is searched; the rest covers rounding up when the settings found are certified."""


def calibrated_sparse_vector(*, epsilon: float, delta: float, cutoff: int) -> SparseVector:
    """The settings that refuse least within (epsilon, delta) at `cutoff` refusals. Raises WrongInput on misuse."""
    return _sparse_vector(float(epsilon), float(delta), int(cutoff))


@cache
def _sparse_vector(epsilon: float, delta: float, cutoff: int) -> SparseVector:
    if not cutoff / 2**38 <= epsilon < math.inf or not 0 < delta < 1 or cutoff < 1:  # for noise of LARGEST_SCALE
        needs = "cutoff / 2^38 <= epsilon < inf, 0 < delta < 1 and cutoff >= 1"
        raise WrongInput(f"sparse vector needs {needs}, got {epsilon}, {delta}, {cutoff}")
    candidates = list[SparseVector]()
    for share in LABEL_SHARES:
        epoch = _largest_epoch(epsilon * SEARCHED_PART, delta * (1 - share) * SEARCHED_PART, cutoff)
        for ratio in QUERY_RATIOS:
            threshold_scale = (1 + 2 / ratio) / epoch
            query_scale = ratio * threshold_scale
            escaping = least_with_tail(threshold_scale, query_scale, delta * share * SEARCHED_PART / cutoff)
            candidate = SparseVector(
                epsilon=epsilon,
                delta=delta,
                cutoff=cutoff,
                threshold=max(0, escaping - 1),
                threshold_scale=threshold_scale,
                query_scale=query_scale,
            )
            candidates.append(candidate)
    return min(candidates, key=lambda candidate: (reach(candidate), candidate.threshold_scale))


def reach(mechanism: SparseVector) -> int:
    """The least distance at which a row is refused with probability at most REFUSALS."""
    return mechanism.threshold + least_with_tail(mechanism.threshold_scale, mechanism.query_scale, REFUSALS)


def least_with_tail(first_scale: float, second_scale: float, probability: float) -> int:
    """The least t ≥ 0 with Pr[X + Y ≥ t] ≤ probability, for a probability above 0 (`sum_tail`)."""
    low, high = -1, 1
    while sum_tail(first_scale, second_scale, high) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sum_tail(first_scale, second_scale, middle) > probability else (low, middle)
    return high


def _largest_epoch(epsilon: float, delta: float, cutoff: int) -> float:
    """The largest ε₁ whose optimal `cutoff`-fold composition is (epsilon, delta)-DP; at least epsilon / cutoff."""
    low, high = epsilon / cutoff, 2 * epsilon / cutoff
    while hockey_stick(high, cutoff, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(middle, cutoff, epsilon) <= delta else (low, middle)
    return low


def calibrated_published(
    *, epsilon: float, delta: float, cutoff: int, queries: int, beta: float = 0.05
) -> PublishedAlgorithm:
    """The settings printed with BTT18's Algorithm 2. Raises WrongInput if the printed guarantee, or that of what runs,
    is not proved."""
    if not 0 < epsilon < math.inf or not 0 < delta < 1 or not 0 < beta < 1 or cutoff < 1 or queries < 1:
        raise WrongInput(
            "published needs 0 < epsilon < inf, 0 < delta < 1, 0 < beta < 1, cutoff >= 1 and queries >= 1, "
            f"got {epsilon}, {delta}, {beta}, {cutoff}, {queries}"
        )
    scale = drawable(2 * noise_scale(epsilon, delta, cutoff)) / 2
    log = math.log(4 * queries * cutoff / min(delta, beta / 2))
    made = PublishedAlgorithm(
        epsilon=epsilon,
        delta=delta,
        cutoff=cutoff,
        threshold=_threshold(scale, delta, queries),
        threshold_scale=scale,
        query_scale=2 * scale,
        queries=queries,
        beta=beta,
        teachers=math.ceil(34 * math.sqrt(2) * scale * log),  # all but `cutoff` rows are answered in 1 − 2·beta
    )
    printed = printed_cost(epsilon=epsilon, delta=delta, cutoff=cutoff, queries=queries)
    if max(cost.epsilon(delta) for cost in (made.cost, printed)) > epsilon:
        raise WrongInput(
            f"the guarantee printed with BTT18's Algorithm 2 cannot be proved at epsilon = {epsilon:g}, delta = "
            f"{delta:g}, cutoff = {cutoff} and queries = {queries}: above an epsilon of 7 to 10 it need not hold"
        )
    return made


def noise_scale(epsilon: float, delta: float, cutoff: int) -> float:
    """λ of Algorithm 2, line 1, in votes."""
    return math.sqrt(32 * cutoff * math.log(2 / delta)) / epsilon


def printed_cost(*, epsilon: float, delta: float, cutoff: int, queries: int) -> Cost:
    """Cost of Algorithm 2 as printed; its guarantee holds if that is at most `epsilon` at `delta`.

    Sensitivity 2 makes an epoch cost 4/λ; "while c ≤ T" makes T + 1 of them; and with an even number of teachers the
    label may differ at a printed distance of 1.
    """
    scale, epochs = noise_scale(epsilon, delta, cutoff), cutoff + 1
    slip = epochs * sum_tail(scale, 2 * scale, _threshold(scale, delta, queries))
    return Cost.approximate(4 / scale * UP, slip, times=epochs)


def _threshold(scale: float, delta: float, queries: int) -> int:
    """w of Algorithm 2, line 2, in votes, rounded down: whole votes exceed w if and only if they exceed its floor."""
    return math.floor(2 * scale * math.log(2 * queries / delta))


class VoteTerms(TypedDict):
    """What a mechanism of votes may be calibrated to besides its budget; each takes the terms that it needs.

    cutoff      refusals until it halts, for mechanisms that pay by refusal
    queries     largest number of rows it may answer, for mechanisms that pay by row
    classes     number of classes
    teachers    number of votes on a row
    order       Rényi order at which its domain is charged, if its cost must be finite there
    """

    cutoff: int | None
    queries: int
    classes: int
    teachers: int
    order: float


def calibrate(name: str, *, epsilon: float, delta: float, **terms: Unpack[VoteTerms]) -> Mechanism:
    """The mechanism `name` that spends at most (epsilon, delta) by its end. Raises WrongInput if that cannot be met."""
    make, sizes = calibration_of(CATALOGUE[name]), {**terms, "cutoff": terms["cutoff"] or 0}
    taken = inspect.signature(make).parameters
    try:
        made: Mechanism = make(epsilon=epsilon, delta=delta, **{key: sizes[key] for key in sizes if key in taken})
    except ValueError as wrong:
        raise WrongInput(f"labeling: {wrong}") from None
    return made


# Single answers -------------------------------------------------------------------------------------------------------

LONGEST_TABLE = 50_000
"""Optimal tables longer than this are refused: a plan has at most twice as many shards."""
RATE_STEPS = 1000
"""Steps of an error rate: rounding moves it by at most a twentieth of a percentage point."""


def calibrated_laplace(*, epsilon: float, delta: float) -> LaplaceRelease:
    """Noise of scale 1/ε, rounded up, and Γ = ln(1/δ)/ε. Raises WrongInput."""
    _check_single(epsilon, delta)
    threshold = math.log(1 / delta) / epsilon
    # just below a whole number, the noise would exceed it a little more often than δ, since it is rounded up
    threshold = max(threshold, math.floor(threshold * UP**2))
    return LaplaceRelease(epsilon=epsilon, delta=delta, scale=1 / epsilon * UP, threshold=threshold)


def calibrated_optimal(*, epsilon: float, delta: float) -> OptimalRelease:
    """The table that answers most within (epsilon, delta). Raises WrongInput."""
    _check_single(epsilon, delta)
    if 2 / epsilon * math.log1p(math.expm1(epsilon) / (2 * delta)) > LONGEST_TABLE:
        raise WrongInput(
            f"the optimal release would refuse beyond distance {LONGEST_TABLE} at epsilon = {epsilon:g} and "
            f"delta = {delta:g}"
        )
    grows, slip = growth(epsilon), math.floor(Fraction(delta) * WHOLE)
    answered = [slip]
    while answered[-1] < WHOLE:
        answered.append(most_after(answered[-1], grows, slip))
    table = np.array([WHOLE - count for count in answered], np.uint64)
    return OptimalRelease(epsilon=epsilon, delta=delta, refusal=table)


def _check_single(epsilon: float, delta: float) -> None:
    if not 2.0**-39 <= epsilon <= 600 or not 2.0**-60 <= delta < 1:  # for noise of LARGEST_SCALE
        needs = "2^-39 <= epsilon <= 600 and 2^-60 <= delta < 1"
        raise WrongInput(f"a single release needs {needs}, got {epsilon} and {delta}")


def calibrated_estimate(*, epsilon: float, shards: int, steps: int = RATE_STEPS) -> ErrorEstimate:
    """Noise of the least scale for epsilon. Raises WrongInput."""
    if not 0 < epsilon < math.inf or shards < 1 or steps < 1:
        raise WrongInput(
            "an error estimate needs 0 < epsilon < inf, at least 1 shard and at least 1 step, "
            f"got {epsilon!r}, {shards!r}, {steps!r}"
        )
    return ErrorEstimate(epsilon=epsilon, shards=shards, steps=steps, scale=steps / epsilon * UP**2)


def calibrated_choice(*, epsilon: float, secret: Literal["rows", "labels"]) -> Universal:
    """One choice at that ε, which has nothing to search. Raises WrongInput."""
    if not 0 < epsilon < math.inf:
        raise WrongInput(f"universal: epsilon must be positive and finite, got {epsilon!r}")
    return Universal(epsilon=epsilon, secret=secret)


def share_for(epsilon: float, choice_epsilon: float = CHOICE_EPSILON, inner_epsilon: float = 1.0) -> float:
    """The share of the units to relabel that leaves `inner_epsilon` of the whole's ε for the mechanism; at most 1."""
    on_subset = inner_epsilon * BUDGETED + boost(choice_epsilon)
    return min(1.0, math.exp(log_expm1(epsilon / BUDGETED) - log_expm1(on_subset)))


# Sums -----------------------------------------------------------------------------------------------------------------

LARGEST_SUM = 62
"""Bits that the stated units' sums may have."""
PAIR_SHARE = 1 / 2
"""Part of a private test's ρ that goes to right and wrong."""


def calibrated_sums(
    kind: type[Sums], *, epsilon: float, delta: float, classes: int, rounds: Sequence[Round], **settings: Any
) -> Sums:
    """The least noise with which all rounds stay within (epsilon, delta), each at its share of ρ.

    settings    other fields, such as `many`; of a stream its `season`
    """
    check_budget(epsilon=epsilon, delta=delta, queries=max(1, len(rounds)), classes=classes or 2)
    made = kind(epsilon=epsilon, delta=delta, classes=classes, rounds=tuple(rounds), **settings)

    def at(unit: float) -> Sums:
        scaled = [
            planned.with_(scale=unit * math.sqrt(square / planned.share)) for square, planned in made.squares_by_round
        ]
        return made.with_(rounds=tuple(scaled))

    return least_noise(at)


def bits_for(units: int, season: int) -> int:
    """The bits of q with which sums of so many stated units do not wrap: MOST_BITS, or fewer for very many."""
    weight = sum(coefficients(season, MOST_BITS)) >> MOST_BITS
    return max(1, min(MOST_BITS, LARGEST_SUM - math.ceil(math.log2(units * STEPS * (weight + 1)))))


def calibrated_test(
    *,
    epsilon: float,
    delta: float,
    classes: int,
    secret: str,
    most: tuple[float, float] | None = None,
) -> PrivateTest:
    """The least noise within (epsilon, delta) and, with `most` = (order, nats), within those nats at that order.

    Raises WrongInput.
    """
    is_known = (classes == 0 or classes > 1) and secret in COUNTS_MOVED
    if not (0 < epsilon < math.inf and 0 < delta < 1 and is_known):
        raise WrongInput(
            "a private test needs 0 < epsilon < inf, 0 < delta < 1, at least 2 classes, or 0 for a number, and "
            f"'rows' or 'labels' as what is secret, got {epsilon!r}, {delta!r}, {classes!r}, {secret!r}"
        )
    once = PrivateTest(epsilon=epsilon, delta=delta, classes=classes, secret=secret, scale=1.0, pair_scale=1.0)

    def at(unit: float) -> PrivateTest:
        return once.with_(scale=unit / math.sqrt(1 - PAIR_SHARE), pair_scale=unit / math.sqrt(PAIR_SHARE))

    calibrated = least_noise(at)
    if most is None:
        return calibrated
    order, nats = most
    rho = nats / order / UP**2
    return calibrated if calibrated.rho <= rho else at(math.sqrt(COUNTS_MOVED[secret] / (2 * rho)) * UP)


# By kind --------------------------------------------------------------------------------------------------------------

CALIBRATED: dict[type[PublicSettings], Callable[..., Any]] = {
    StableVoting: calibrated_stable,
    ConfidentGNMax: calibrated_confident,
    SparseVector: calibrated_sparse_vector,
    PublishedAlgorithm: calibrated_published,
    LaplaceRelease: calibrated_laplace,
    OptimalRelease: calibrated_optimal,
    ErrorEstimate: calibrated_estimate,
    Universal: calibrated_choice,
    PrivateTest: calibrated_test,
}
"""What calibrates a kind in a way of its own."""


def calibration_of(kind: type[PublicSettings]) -> Callable[..., Any]:
    """What calibrates a mechanism of that kind: its own function, or the least noise of sums or of counts of votes."""
    least: Callable[..., Any] = calibrated_sums if issubclass(kind, Tallies) else calibrated_votes
    return CALIBRATED.get(kind, partial(least, kind))


def calibrated(kind: type[Settings], terms: Mapping[str, Any]) -> Settings:
    """Settings of that kind, as `kind.calibrate` gives them."""
    return cast("Settings", calibration_of(kind)(**terms))
