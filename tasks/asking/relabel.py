"""Relabelling: a secret subset of the private rows gets its labels from one hypothesis, chosen privately on it.

Nandi & Bassily 2020, Algorithm 4; then Algorithm 5's resampling. `tasks.units.split` draws the subset; here a
hypothesis ĥ is chosen among all dichotomies of a class on it, by the exponential mechanism on error counts; ĥ labels
the subset; and teachers learn from that, so that they agree if the class suits the data, however noisy the labels were.

Assumes      the blocks hold a Poisson subset, one row per unit; the class has cut points of public rows, so that time
             and failure depend on public numbers; the mechanism at the door is charged as in relabelled.py
Guarantees   ĥ is drawn once for the same blocks and settings, and stored in the vault before it is used: a retry or a
             second process takes the stored draw. Copies of a row are a keyed function of the row
Ends         with the session; a domain has one that is relabelled (see `artifacts.ledger.state`)
Not covered  ĥ, the subset and its size are not private: they stay in the vault until the session is forgotten
             Checked by tests/tasks/asking/test_relabel.py and tests/promises/test_crash.py; the exact law by
             tests/privacy/test_relabelled.py

The class (`hypothesis_space`) is the one that a plan names, over columns of the encoded matrix, with public cut points.

    class         columns   dichotomies of m, m' different numbers at most              complements
    stumps        any       2·(1 + Σ (m − 1))                                           in the class
    rectangles    2         m(m+1)/2 · m'(m'+1)/2 + 1                                   not in the class

A class is here if all its dichotomies can be listed exactly: relabelling (relabelled.py) and the universal learner
(exponential.py) are proved for complete lists alone, one candidate a dichotomy (tests/privacy/test_hypotheses.py).
Assumes      encoding and matrix are of public rows
Guarantees   independent of private rows: class, columns and cut points follow from the plan and public rows
Not covered  whether the class suits the data. Checked by tests/tasks/asking/test_relabel.py

Resampling (`resampled`) decides from which rows of the relabelled subset teachers learn (Algorithm 5, step 3): each
shard draws as many rows as it has, with replacement, from its own rows, so that a row reaches one teacher.
Assumes      the key is secret; rows lie by shard, and which shard that is follows from the row
Guarantees   draws are keyed, by shard and place: a retry gives the same rows. One more row changes one shard
Not covered  the law of the draws: any would do, being independent of the rows
             Checked by tests/tasks/asking/test_relabel.py and tests/tasks/data/test_orders.py
"""

import difflib
import json
import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Staged, Vault, owner
from concord.artifacts.learners import HypothesesPlan, RelabelPlan, TeachersPlan
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import LABEL, Encoding, PublicBatch, Ref
from concord.tasks.data.encode import read_frame, write_frame
from concord.tasks.data.matrix import Matrix, encode
from concord.tasks.mechanisms.hypotheses import Box, HypothesisClass, Rectangles, Stumps
from concord.tasks.mechanisms.noise import keyed_draws
from concord.tasks.mechanisms.relabelled import (
    BUDGETED,
    CHOICE_EPSILON,
    Relabelling,
    boost,
    choose_hypothesis,
    log_expm1,
)
from concord.tasks.units.guard import private_stage
from concord.tasks.units.split import SHARD

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


STREAM = 32
"""Bits of a shard's range in the keyed stream: draws of shard j start at j·2^32."""


def resampled(rows: pl.DataFrame, key: bytes) -> pl.DataFrame:
    """Relabelled rows (SHARD, cast features, LABEL), resampled within each shard, in the order of shards."""
    drawn, shard = [np.zeros(0, dtype=np.int64)], rows[SHARD].to_numpy().astype(np.int64)
    for item, first, size in zip(*np.unique(shard, return_index=True, return_counts=True), strict=True):
        draws = keyed_draws(key, int(item) << STREAM, int(size))
        drawn.append(first + (draws % np.uint64(size)).astype(np.int64))
    return rows[np.concatenate(drawn)]


class RelabelledRows(BaseModel):
    """Files of relabelling in the vault: the hypothesis drawn, and rows by shard, in blocks like those of `split`."""

    model_config = ConfigDict(frozen=True)

    choice: Ref
    blocks: tuple[Ref, ...]


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
        share=subset_share(relabel, plan.epsilon_of_labels),
        epsilon=plan.epsilon_of_labels,
        delta=plan.privacy.delta,
    )


def subset_share(relabel: RelabelPlan, epsilon: float) -> float:
    """The probability that a unit is in the secret subset, if labels may spend that ε."""
    return share_for(epsilon) if relabel.share is None else relabel.share


def share_for(epsilon: float, choice_epsilon: float = CHOICE_EPSILON, inner_epsilon: float = 1.0) -> float:
    """The share that leaves `inner_epsilon` of the whole's ε for the relabelled rows; at most 1."""
    on_subset = inner_epsilon * BUDGETED + boost(choice_epsilon)
    return min(1.0, math.exp(log_expm1(epsilon / BUDGETED) - log_expm1(on_subset)))


@private_stage
def relabel(
    blocks: Sequence[Ref],
    teachers: TeachersPlan,
    encoding: Encoding,
    space: HypothesisClass,
    settings: Relabelling,
    vault: Vault,
    folder: str,
    key: bytes,
) -> RelabelledRows:
    """Choose ĥ once, label the rows of all blocks by it, resample them, and write them in blocks.

    blocks   the subset by shard, as split wrote it
    key      for resampling
    """
    rows = pl.concat(read_frame(block, vault) for block in blocks)
    X = encode(rows, encoding).astype(np.float64)

    space_drawn = settings.model_dump(mode="json", exclude={"epsilon", "delta"})
    drawn_from = json.dumps([space_drawn, [block.digest for block in blocks]])
    path = f"choices/{owner(blocks[0])}/{vault.digest('choice', drawn_from)}.json"
    choice = vault.kept(path)
    if choice is None:
        hypotheses, y = space.dichotomies(X), rows[LABEL].to_numpy().astype(np.int64)
        chosen = choose_hypothesis(hypotheses, X, y, settings.choice_epsilon)
        choice = vault.keep(path, json.dumps(hypotheses.describe(chosen)).encode())
    labels = Box.rebuilt(json.loads(vault.read(choice))).predict(X)
    relabelled = rows.with_columns(pl.Series(LABEL, labels, rows.schema[LABEL]))
    labelled, written = resampled(relabelled, key), []
    for index in range(-(-teachers.count // teachers.block)):
        block = labelled.filter(labelled[SHARD] // teachers.block == index)
        written.append(write_frame(block, vault, f"{folder}/block-{index:05d}.arrow"))
    return RelabelledRows(choice=choice, blocks=tuple(written))
