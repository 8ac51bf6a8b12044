"""Classes of hypotheses: the one that a plan names, over columns of the encoded matrix, with public cut points; and the
public settings of a plan's relabelling.

    class         columns   dichotomies of m, m' different numbers at most              complements
    stumps        any       2·(1 + Σ (m − 1))                                           in the class
    rectangles    2         m(m+1)/2 · m'(m'+1)/2 + 1                                   not in the class

A class is here if all its dichotomies can be listed exactly: relabelling (relabelled.py) and the universal learner
(exponential.py) are proved for complete lists alone, one candidate a dichotomy (tests/privacy/test_hypotheses.py).
Assumes      encoding and matrix are of public rows
Guarantees   independent of private rows: class, columns and cut points follow from the plan and public rows
Not covered  whether the class suits the data. Checked by tests/tasks/asks/test_hypothesis_space.py
"""

import difflib
from collections.abc import Sequence

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Staged
from concord.artifacts.learners import HypothesesPlan
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicBatch
from concord.tasks.data.encode import read_frame
from concord.tasks.data.matrix import Matrix, encode
from concord.tasks.mechanisms.calibration import share_for
from concord.tasks.mechanisms.hypotheses import HypothesisClass, Rectangles, Stumps
from concord.tasks.mechanisms.relabelled import Relabelling

CUTS = 16
"""Public cut points of each column, if a class needs them."""
CLASSES: dict[str, type[HypothesisClass]] = {kind.name: kind for kind in (Stumps, Rectangles)}


def hypothesis_class(
    name: str, *, columns: Sequence[int], grid: Sequence[Sequence[float]] | None = None
) -> HypothesisClass:
    """The class `name` over columns of a matrix; `grid` holds each column's public points in rising order.

    Raises WrongInput if the class cannot be listed, or can have more candidates than can be weighed.
    """
    if name not in CLASSES:
        raise WrongInput(
            f"hypotheses must be one of {', '.join(CLASSES)}, got {name!r}: every dichotomy of the class has to be "
            "listed exactly, which is done for these alone"
        )
    points = None if grid is None else tuple(tuple(float(point) for point in column) for column in grid)
    return CLASSES[name](tuple(columns), points)


def hypothesis_space(
    plan: HypothesesPlan, encoding: Encoding, X: Matrix, field: str, *, bounded: bool = False
) -> HypothesisClass:
    """The class that section `field` of a plan names; with cut points if it has too many dichotomies without.

    X         encoded public rows (rows, encoding.width) from which cut points are taken
    bounded   use cut points also if the number of dichotomies would depend on the rows, because they are private
    Raises WrongInput if there is no such class or column, or if there are too many hypotheses.
    """
    columns = positions_of(plan.features or encoding.outputs, encoding, field)
    plain = hypothesis_class(plan.hypotheses, columns=columns)
    if plain.linear and not bounded:
        return plain
    grid = cut_points(X[:, columns], CUTS)
    return hypothesis_class(plan.hypotheses, columns=columns, grid=grid)


def positions_of(features: Sequence[str], encoding: Encoding, field: str) -> list[int]:
    """Positions of named columns in the encoded matrix. Raises WrongInput naming a column that is not there."""
    for name in features:
        if name not in encoding.outputs:
            near = difflib.get_close_matches(name, encoding.outputs, n=3, cutoff=0.4) or encoding.outputs[:3]
            among = ", ".join(map(repr, near))
            raise WrongInput(f"{field}.features must name columns as they are encoded, such as {among}; got {name!r}")
    return [encoding.outputs.index(name) for name in features]


def public_matrix(batches: Sequence[PublicBatch], encoding: Encoding, rows: Staged) -> Matrix:
    """Staged public rows, encoded: (rows, encoding.width)."""
    return np.concatenate([encode(read_frame(batch.ref, rows), encoding) for batch in batches])


def cut_points(X: Matrix, points: int) -> list[list[float]]:
    """For each column of X (rows, columns), its numbers in rising order; at most `points` quantiles of them."""
    cuts = []
    for column in X.astype(np.float64).T:
        numbers, ranks = np.unique(column), np.arange(points) * len(column) // points
        cuts.append((numbers if len(numbers) <= points else np.unique(np.sort(column)[ranks])).tolist())
    return cuts


def candidates(plan: Plan, encoding: Encoding, batches: Sequence[PublicBatch], rows: Staged) -> HypothesisClass | None:
    """The class that a plan relabels by, with cut points from its first public batch; None if it does not relabel."""
    if plan.relabel is None:
        return None
    X = public_matrix(batches[:1], encoding, rows)
    return hypothesis_space(plan.relabel, encoding, X, "relabel", bounded=True)


def relabelling(plan: Plan, space: HypothesisClass, encoding: Encoding) -> Relabelling:
    """The public settings of a plan's relabelling. Raises WrongInput if they cannot be met."""
    relabel = plan.relabel
    if relabel is None:
        raise ValueError("the plan does not relabel")
    return Relabelling(
        hypotheses=space.name,
        features=tuple(encoding.outputs[column] for column in space.columns),
        grid=space.digest,
        share=relabel.share or share_for(plan.epsilon_of_labels),
        epsilon=plan.epsilon_of_labels,
        delta=plan.privacy.delta,
    )
