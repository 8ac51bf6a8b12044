"""Hypothesis classes by name, and hypotheses from their JSON.

    class         columns   dichotomies of m, m' different numbers (u points) at most   complements
    thresholds    1         2m                                                          in the class
    intervals     1         m² − m + 2                                                  in the class
    stumps        any       2·(1 + Σ (m − 1))                                           in the class
    rectangles    2         m(m+1)/2 · m'(m'+1)/2 + 1                                   not in the class
    halfspaces    2         u² − u + 2, u = m·m'                                        in the class
    conjunctions  up to 13  3^columns + 1                                               not in the class

A class is here if all its dichotomies can be listed exactly: relabelling (relabelled.py) and the universal learner
(exponential.py) are proved for complete lists alone, one candidate a dichotomy.
Checked by tests/privacy/test_hypotheses.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.hypotheses.boxes import Box, Conjunctions, Intervals, Rectangles, Stumps, Thresholds
from concord.tasks.mechanisms.hypotheses.dichotomies import Hypothesis, HypothesisClass
from concord.tasks.mechanisms.hypotheses.halfspaces import HalfPlane, Halfspaces

CLASSES: dict[str, type[HypothesisClass]] = {
    kind.name: kind for kind in (Thresholds, Intervals, Stumps, Rectangles, Halfspaces, Conjunctions)
}

HYPOTHESIS_KINDS: dict[str, Callable[[dict[str, Any]], Hypothesis]] = {
    "box": Box.rebuilt,
    "halfplane": HalfPlane.rebuilt,
}


def hypothesis_class(
    name: str, *, columns: Sequence[int], grid: Sequence[Sequence[float]] | None = None
) -> HypothesisClass:
    """The class `name` over columns of a matrix; `grid` holds each column's public points in rising order.

    Raises WrongInput where the class cannot be listed, or can have more candidates than can be weighed.
    """
    if name not in CLASSES:
        raise WrongInput(
            f"hypotheses must be one of {', '.join(CLASSES)}, got {name!r}: every dichotomy of the class has to be "
            "listed exactly, which is possible for these alone"
        )
    points = None if grid is None else tuple(tuple(float(point) for point in column) for column in grid)
    return CLASSES[name](tuple(columns), points)


def from_description(description: dict[str, Any]) -> Hypothesis:
    """The hypothesis that `describe` wrote. Raises WrongInput where it is none."""
    try:
        return HYPOTHESIS_KINDS[description["kind"]](description)
    except (KeyError, TypeError, ValueError):
        raise WrongInput("a hypothesis must be the JSON of a box or of a half-plane") from None
