"""The class of hypotheses that a plan names, over columns of the encoded matrix, with public cut points.

Assumes      encoding and matrix are of public rows
Guarantees   nothing here depends on a private row: class, columns and cut points follow from the plan and public rows
Not covered  whether the class suits the data. Checked by tests/tasks/test_hypothesis_space.py
"""

import difflib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from artifacts.encoding import Encoding
from artifacts.errors import WrongInput
from artifacts.sections import HypothesesPlan
from artifacts.vault import Vault
from tasks.encode import Matrix, PublicBatch, encode, read_frame
from tasks.mechanisms.dichotomies import HypothesisClass
from tasks.mechanisms.hypotheses import hypothesis_class


def hypothesis_space(
    plan: HypothesesPlan, encoding: Encoding, X: Matrix, field: str, *, bounded: bool = False
) -> HypothesisClass:
    """The class that section `field` of a plan names; with cut points where its dichotomies would outgrow the rows.

    X         encoded public rows (rows, encoding.width), which the cut points are of
    bounded   with cut points wherever how many dichotomies there are would tell of the rows, which are private
    Raises WrongInput where there is no such class or column, or too many hypotheses.
    """
    columns = columns_of(plan.features or encoding.outputs, encoding, field)
    plain = hypothesis_class(plan.hypotheses, columns=columns)
    if plain.bound is not None or (plain.linear and not bounded):
        return plain
    grid = cut_points(X[:, columns], plan.grid)
    return hypothesis_class(plan.hypotheses, columns=columns, grid=grid)


def columns_of(features: Sequence[str], encoding: Encoding, field: str) -> list[int]:
    """Where columns of the encoded matrix are, by their names. Raises WrongInput naming one that is not there."""
    for name in features:
        if name not in encoding.outputs:
            near = difflib.get_close_matches(name, encoding.outputs, n=3, cutoff=0.4) or encoding.outputs[:3]
            among = ", ".join(map(repr, near))
            raise WrongInput(f"{field}.features must name columns as they are encoded, such as {among}; got {name!r}")
    return [encoding.outputs.index(name) for name in features]


def public_matrix(batches: Sequence[PublicBatch], encoding: Encoding, vault: Vault) -> Matrix:
    """Staged public rows, encoded: (rows, encoding.width)."""
    return np.concatenate([encode(read_frame(batch.ref, vault), encoding) for batch in batches])


def cut_points(X: Matrix, points: int) -> list[list[float]]:
    """For each column of X (rows, columns), its numbers in rising order; where there are more, so many quantiles."""
    return [_thinned(np.sort(column), points).tolist() for column in X.astype(np.float64).T]


def _thinned(ordered: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    numbers = np.unique(ordered)
    ranks = np.arange(points) * len(ordered) // points
    return numbers if len(numbers) <= points else np.unique(ordered[ranks])
