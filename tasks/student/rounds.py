"""Rounds: how many a plan asks of tallies and of a sketch, of what, and at which share of the budget.

Assumes      classes, fields and codes are public: they follow from the plan, public rows or a declared schema
Guarantees   nothing about privacy: whatever is planned, a mechanism charges for it (tasks.mechanisms.tallies)
Ends         not applicable: nothing is drawn
Not covered  which fields a later round asks: that follows from released sums (tasks.student.infer)
             Checked by tests/privacy/test_tallies.py and test_sketch.py
"""

import math
from collections.abc import Sequence
from itertools import combinations

from concord.tasks.mechanisms.contributions import columns, row_square
from concord.tasks.mechanisms.tallies import STEPS, Round

SHARES = {1: (1.0,), 2: (0.3, 0.7), 3: (0.3, 0.3, 0.4)}
"""Shares of ρ by number of rounds."""
TRUST = (1 / 2, 1 / 4, 1 / 20)
"""The least that a model may expect of either of two classes, by round: rows it is sure of count for less."""
MIXED = 3 / 10
"""Share of the expectation of a model of more classes that is the same for every class."""
LATER_FIELDS = 7
"""Most fields asked after the first round: the most predictive ones, judged by released sums."""
PAIRED = 24
"""The most columns whose pairs may all be asked."""
GROUPS, FINER = 4, 8
"""Groups of a column's values, besides missing ones, if all pairs are asked, and then a few of them."""
REPAIR_SHARE = 1 / 10
"""Share of ρ for totals of the codes, by which public rows unlike the private ones are recognised and repaired."""
JOINED_SHARE = 3 / 10
"""Share of ρ for the totals and the labels of all numbers together, if they are joined."""
COUNT_SHARE = 10
"""A unit's constant is its norm divided by this, which adds half a percent of noise."""


def planned_rounds(
    *,
    classes: int,
    fields: int,
    codes: int,
    rounds: int = 3,
    repair: bool = True,
    secret: str = "rows",
    spaces: bool = False,
    pairs: bool = False,
    joined: int = 0,
    joined_share: float = JOINED_SHARE,
    later: int = LATER_FIELDS,
    steps: int = STEPS,
) -> tuple[Round, ...]:
    """The default rounds: totals of the codes first if `repair`, then rounds of labels. If only labels are secret, a
    single round, since every round of the same codes would measure the same. If all numbers are joined, they have
    totals and a round of labels of their own, after the totals of columns: `joined_share` of ρ.

    fields, codes   columns of a row, and code numbers in all
    spaces          whether each later round queries other codes, for which there is no model yet
    pairs           whether later rounds may query pairs of columns instead
    joined          cells of all numbers together; 0 if they are not joined
    later           most fields that later rounds query
    """
    if secret == "labels":
        least, cells = least_expected(classes, steps, 0), codes * columns(classes, "labels")
        return (Round(fields=fields, cells=cells, least=least, share=1.0),)
    rest = 1 - REPAIR_SHARE if repair else 1.0
    ways = math.comb(fields, 2) if pairs else 0
    # most cells of all pairs of columns, or of the few that are asked then
    paired = max(ways * (GROUPS + 1) ** 2, min(ways, LATER_FIELDS) * (FINER + 1) ** 2)
    of_labels = [
        Round(
            fields=min(fields, later) if at else fields,
            cells=(max(codes, paired) if at else codes) * columns(classes, "labels"),
            least=least_expected(classes, steps, 0 if spaces else at),
            share=rest * share,
        )
        for at, share in enumerate(SHARES[rounds])
    ]
    norm = math.isqrt(fields * row_square(classes, steps, "labels", of_labels[0].least))
    of_labels[0] = of_labels[0].with_(count=max(1, norm // COUNT_SHARE), cells=of_labels[0].cells + 1)
    totals = [Round(what="codes", fields=fields, cells=codes, least=0, share=REPAIR_SHARE)] * repair
    if not joined:
        return (*totals, *of_labels)
    cells, least = joined * columns(classes, "labels"), of_labels[0].least
    of_cells = [Round(what="codes", fields=1, cells=joined, least=0, share=joined_share * REPAIR_SHARE)] * repair
    of_cells.append(Round(fields=1, cells=cells, least=least, share=joined_share * rest))
    of_columns = [planned.with_(share=(1 - joined_share) * planned.share) for planned in (*totals, *of_labels)]
    return (*of_columns[: len(totals)], *of_cells, *of_columns[len(totals) :])


def least_expected(classes: int, steps: int, at: int) -> int:
    """The least, in steps, that the model of round `at` of labels, from 0, may expect of a class: less in each."""
    return math.floor(steps * (TRUST[at] if classes <= 2 else (MIXED if at else 1.0) / classes))


# Sketches ------------------------------------------------------------------------------------------------------------

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
        least, cells = least_expected(classes, steps, at), sum(narrow) * columns(classes, "labels")
        rounds.append(Round(fields=fields, cells=cells, least=least, share=rest * share))
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
