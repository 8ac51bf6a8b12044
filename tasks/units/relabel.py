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
             Checked by tests/tasks/units/test_relabel.py and tests/promises/test_crash.py; the exact law by
             tests/privacy/test_relabelled.py

Resampling (`resampled`) decides from which rows of the relabelled subset teachers learn (Algorithm 5, step 3): each
shard draws as many rows as it has, with replacement, from its own rows, so that a row reaches one teacher.
Assumes      the key is secret; rows lie by shard, and which shard that is follows from the row
Guarantees   draws are keyed, by shard and place: a retry gives the same rows. One more row changes one shard
Not covered  the law of the draws: any would do, being independent of the rows
             Checked by tests/tasks/units/test_relabel.py and tests/tasks/data/test_orders.py
"""

import json
from collections.abc import Sequence

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import LABEL, Encoding, Ref
from concord.tasks.data.matrix import encode
from concord.tasks.mechanisms.hypotheses import Box, HypothesisClass
from concord.tasks.mechanisms.noise import keyed_draws
from concord.tasks.mechanisms.relabelled import Relabelling, choose_hypothesis
from concord.tasks.units.guard import private_stage
from concord.tasks.units.provenance import read_shards, whole
from concord.tasks.units.split import SHARD

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


@private_stage
def relabel(
    blocks: Sequence[Ref],
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
    Raises NotVerified if they are not those of each shard once.
    """
    parts = [read_shards(block, vault) for block in blocks]
    made, rows = whole([part for part, _ in parts]), pl.concat(rows for _, rows in parts)
    X = encode(rows, encoding).astype(np.float64)

    space_drawn = settings.model_dump(mode="json", exclude={"epsilon", "delta"})
    drawn_from = json.dumps([space_drawn, [block.digest for block in blocks]])
    path = f"choices/{made.domain}/{vault.digest('choice', drawn_from)}.json"
    choice = vault.kept(path)
    if choice is None:
        hypotheses, y = space.dichotomies(X), rows[LABEL].to_numpy().astype(np.int64)
        chosen = choose_hypothesis(hypotheses, X, y, settings.choice_epsilon)
        choice = vault.keep(path, json.dumps(hypotheses.describe(chosen)).encode())
    labels = Box.rebuilt(json.loads(vault.read(choice))).predict(X)
    relabelled = rows.with_columns(pl.Series(LABEL, labels, rows.schema[LABEL]))
    drawn, written = resampled(relabelled, key), list[Ref]()
    for part, _ in parts:
        block = drawn.filter(drawn[SHARD].is_between(*part.span, closed="left"))
        labelled = part.with_(reading=path, subset=(*part.subset, settings.choice_epsilon, space.digest))
        written.append(labelled.rows(block, vault, f"{folder}/block-{len(written):05d}.arrow"))
    return RelabelledRows(choice=choice, blocks=tuple(written))
