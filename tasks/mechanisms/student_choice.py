"""Private choice among candidate students, by their errors on private units set aside.

Privacy statement
    Assumes      candidates follow from what was released before and from public rows: none has seen a unit that it is
                 tried on, but through the door. A unit counts once: by one row, or by one label, that each candidate
                 gets right or wrong. Sampling is OpenDP's (noise.py)
    Guarantees   the choice is (ε, 0)-DP and of range ε: at most α·ε²/8 Rényi nats at any order α (exponential.py)
    Ends         after one choice; choosing again costs again
    Not covered  error counts: not published. How a unit came to be in the test part (artifacts.parts). The chosen one
                 is the luckiest on those units, and looks better on them than it is: an interval from the same units
                 must hold for all candidates at once (`level_for`)

Proof. The candidates do not change with a unit that they are tried on: given all that was released before, they are
fixed. If rows are secret, one more unit adds one error to some candidates and none to others: scores are monotone,
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
from typing import ClassVar

from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.exponential import ByErrors


class StudentChoice(ByErrors):
    """The choice of one student among several."""

    name: ClassVar[str] = "student_choice"
    proof: ClassVar[str] = (
        "tasks/mechanisms/student_choice.py: the exponential mechanism (McSherry & Talwar 2007) over candidates that "
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
