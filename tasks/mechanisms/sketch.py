"""Sketch: tables of the private rows, one-way and two-way, then rounds of labels, with exact discrete noise.

It needs no public table: synthetic rows that resemble the released tables take its place (tasks.student.sketch), and
tallies (tallies.py) of labels are counted by their codes.

Privacy statement
    Assumes      cells of the one-way tables follow from a declared schema alone; how later tables group those cells,
                 and all other questions, follow from plan, schema and what was released before; a step is drawn
                 once, at the door
    Guarantees   (epsilon, delta) for all tables and rounds together, against any adaptive choice of groups, questions
                 and of the rows themselves, and Rényi α·ρ at every order α, ρ = Σ N_r / (2·scale_r²), for adding or
                 removing a unit
    Ends         after the last round; a step that is begun is paid for, whether or not it is used
    Not covered  replacing a unit by another (two steps, four times ρ); whether the schema was read off private rows;
                 labels alone secret, which needs no sketch because the rows are public then

Proof. A unit of one row adds S to exactly one cell of each table asked, whatever groups of cells a table has, because
groups partition cells and cells partition all values; and c to the count. Of T one-way tables it moves the sums by v
with ‖v‖² = T·S² + c², of P two-way ones by ‖v‖² = P·S², and of a round of labels by at most N_r (tallies.py). Those
norms and all scales are fixed when the session is opened. A unit of several rows contributes their mean, truncated
towards zero, which is no longer than the longest of them. So step r is N_r/2σ_r²-zero-concentrated whatever was
released before (Canonne, Kamath & Steinke 2020, Thm. 14), and that adds (Bun & Steinke 2016); the sharper δ is
noise.py's, `moved_delta`. Fitting, drawing and decoding synthetic rows are post-processing. ∎
Checked by tests/privacy/test_sketch.py: the exact law on a tiny universe, against an adversary, and planted bugs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.contributions import columns
from concord.tasks.mechanisms.tallies import LATER_FIELDS, STEPS, Round, Tallies, least_expected

TOTALS_SHARE = 1 / 10
"""Share of ρ for one-way tables."""
TWO_CLASSES = 3 / 10, (2 / 10, 3 / 10, 5 / 10)
"""Share of ρ for two-way tables, and the shares of the rest by round of labels: for two classes, or a number."""
MORE_CLASSES = 2 / 10, (4 / 10, 3 / 10, 3 / 10)
"""The same for more classes: each class has fewer rows, and labels of later rounds are noisier than those of the first.
Chosen on letter, which has 26 classes."""
MOST_PAIR_CELLS = 1 << 20
"""Most cells of all two-way tables together: their noise is drawn in seconds."""
LEAST_GROUPS, MOST_GROUPS = 6, 34
"""Groups of a column's cells in a two-way table: with fewer than that, pairs would say too little to be asked."""


@dataclass(frozen=True, kw_only=True)
class Sketch(Tallies):
    """Public settings only, independent of private rows. Its first rounds are tables, counted in the first one; the
    others are of labels."""

    name: ClassVar[str] = "sketch"
    proof: ClassVar[str] = (
        "tasks/mechanisms/sketch.py: discrete Gaussian tables and sums of bounded whole contributions (Canonne, Kamath "
        "& Steinke 2020), composed over steps"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.secret != "rows":
            raise WrongInput("a sketch is for privacy.secret = 'rows': if labels alone are secret, the rows are public")
        asked = [each.what for each in self.rounds]
        if asked[: self.tables] != ["codes"] * self.tables or not 1 <= self.tables <= 2 or asked[-1] != "labels":
            raise WrongInput("a sketch asks one-way tables, then two-way ones if any, then labels")
        if [each.count > 0 for each in self.rounds] != [True] + [False] * (len(self.rounds) - 1):
            raise WrongInput("a sketch counts units in its first step alone")

    @property
    def tables(self) -> int:
        """Number of steps that ask tables: 2, or 1 if there are no two-way ones."""
        return sum(each.what == "codes" for each in self.rounds)


def sketch_rounds(
    *, classes: int, narrow: Sequence[int], wide: Sequence[int] = (), steps: int = STEPS
) -> tuple[Round, ...]:
    """The steps of a sketch: one-way tables with the count, all two-way ones if groups suffice, three rounds of labels.

    narrow   cells of each column's narrow table
    wide     cells of each wide table, of the numbers that have one
    """
    tables, pairs = len(narrow) + len(wide), math.comb(len(narrow), 2)
    count, cells = math.isqrt(tables * steps**2) // 2, sum(narrow) + sum(wide) + 1
    totals = Round(what="codes", fields=tables, cells=cells, least=0, count=count, share=TOTALS_SHARE)
    pairs_share, label_shares = TWO_CLASSES if classes <= 2 else MORE_CLASSES
    rounds, rest = [totals], 1 - TOTALS_SHARE
    if groups := most_groups(narrow):
        paired = _pair_cells(narrow, groups)
        rounds.append(Round(what="codes", fields=pairs, cells=paired, least=0, share=pairs_share))
        rest -= pairs_share
    for at, share in enumerate(label_shares):
        fields = len(narrow) if at == 0 else min(len(narrow), LATER_FIELDS)
        least, asked = least_expected(classes, steps, at), sum(narrow) * columns(classes, "labels")
        rounds.append(Round(fields=fields, cells=asked, least=least, share=rest * share))
    return tuple(rounds)


def most_groups(narrow: Sequence[int]) -> int:
    """K₀, the most groups of a column's cells in two-way tables: fixed beforehand by the numbers of cells alone; 0 if
    there are no two-way tables."""
    if len(narrow) < 2:
        return 0
    fitting = (
        most for most in range(MOST_GROUPS, LEAST_GROUPS - 1, -1) if _pair_cells(narrow, most) <= MOST_PAIR_CELLS
    )
    return next(fitting, 0)


def _pair_cells(narrow: Sequence[int], most: int) -> int:
    return sum(min(most, one) * min(most, other) for one, other in combinations(narrow, 2))
