"""Algorithm 2 of Model-Agnostic Private Learning (BTT18) with every constant it prints: λ, w and k.

    λ = √(32 T ln(2/δ)) / ε    w = 2λ ln(2m/δ)    k = 34√2 λ ln(4mT / min(δ, β/2))
    threshold noise of scale λ, redrawn after each refusal; query noise of scale 2λ (A_stab at ε = 1/2λ)

Three departures, all towards safety. The distance is the true one, which one vote moves by 1; the printed
max(0, margin − 1) moves by 2. It halts at the T-th refusal; the printed "while c ≤ T" allows T + 1. Noise is discrete
Laplace at the printed scales, and its cost is recomputed for it.

Assumes      as sparse_vector.py; m bounds the rows asked, though no privacy hangs on it
Guarantees   (epsilon, delta) at the cutoff: with ε₁ = 2/λ and η, as sparse_vector.py proves
Ends         at the cutoff-th refusal, or at the m-th row
Not covered  as sparse_vector.py; usefulness: k is tens of thousands. `stable` answers the same rows with hundreds

The printed guarantee (Theorem 3.1), for what is printed: ε₁ = 4/λ over T + 1 epochs. Textbook composition does not give
it; optimal composition does up to ε of 7 to 10, by δ, thanks to slack in λ. Beyond, it is refused, although what runs
here would still be covered: it would no longer be what the paper claims.
Checked by tests/privacy/test_published.py: the ε at which the printed guarantee ends, by δ, and the exact adversary.
"""

import math
from typing import ClassVar

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms.noise import LARGEST_SCALE
from concord.tasks.mechanisms.sparse_vector import NoisyThreshold, sum_tail


class PublishedAlgorithm(NoisyThreshold):
    """The noisy threshold at the printed settings. `queries` is m, `teachers` the printed k for failure rate `beta`."""

    name: ClassVar[str] = "published"
    proof: ClassVar[str] = (
        "tasks/mechanisms/published.py: Model-Agnostic Private Learning (Bassily, Thakkar & Thakurta 2018), Algorithm "
        "2, its cost recomputed"
    )
    pays_for: ClassVar[str] = "each refusal"
    take_if: ClassVar[str] = "you compare with the published algorithm"

    queries: int
    beta: float
    teachers: int

    @classmethod
    def calibrate(
        cls, *, epsilon: float, delta: float, cutoff: int, queries: int, beta: float = 0.05
    ) -> "PublishedAlgorithm":
        """The printed settings. Raises WrongInput if the printed guarantee, or that of what runs, is not proved."""
        _check(epsilon, delta, cutoff, queries, beta)
        scale = noise_scale(epsilon, delta, cutoff)
        if 2 * scale > LARGEST_SCALE:
            raise WrongInput(f"the budget is too small for noise of any scale up to {LARGEST_SCALE:g}")
        made = cls(
            epsilon=epsilon,
            delta=delta,
            cutoff=cutoff,
            threshold=_threshold(scale, delta, queries),
            threshold_scale=scale,
            query_scale=2 * scale,
            queries=queries,
            beta=beta,
            teachers=teachers_required(epsilon=epsilon, delta=delta, cutoff=cutoff, queries=queries, beta=beta),
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


def teachers_required(*, epsilon: float, delta: float, cutoff: int, queries: int, beta: float) -> int:
    """k of Algorithm 2, line 1: teachers for which all but `cutoff` rows are answered with probability 1 − 2·beta."""
    _check(epsilon, delta, cutoff, queries, beta)
    log = math.log(4 * queries * cutoff / min(delta, beta / 2))
    return math.ceil(34 * math.sqrt(2) * noise_scale(epsilon, delta, cutoff) * log)


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


def _check(epsilon: float, delta: float, cutoff: int, queries: int, beta: float) -> None:
    if not 0 < epsilon < math.inf or not 0 < delta < 1 or not 0 < beta < 1 or cutoff < 1 or queries < 1:
        raise WrongInput(
            "published needs 0 < epsilon < inf, 0 < delta < 1, 0 < beta < 1, cutoff >= 1 and queries >= 1, "
            f"got {epsilon}, {delta}, {beta}, {cutoff}, {queries}"
        )
