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

The printed guarantee (Theorem 3.1) is of what is printed; if it cannot be proved, `calibrated_published` refuses it
(calibration.py), although what runs here would still be covered: it would no longer be what the paper claims.
Checked by tests/privacy/test_published.py: the ε at which the printed guarantee ends, by δ, and the exact adversary.
"""

from typing import ClassVar

from concord.tasks.mechanisms.sparse_vector import NoisyThreshold


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
