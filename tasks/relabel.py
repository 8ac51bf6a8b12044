"""Relabel: a secret subset of the private rows gets its labels from one hypothesis, chosen privately on it.

Nandi & Bassily 2020, Algorithm 4; then Algorithm 5's resampling. `tasks.split` draws the subset; here a hypothesis ĥ is
chosen among all dichotomies of a class on it, by the exponential mechanism on error counts; ĥ labels the subset; and
teachers learn from that, so that they agree where the class is a good one, however noisy the labels were.

Assumes      the blocks hold a Poisson subset, one row a unit; the class has cut points of public rows, so that time and
             failure depend on public numbers; the mechanism at the door is charged as relabelled.py says
Guarantees   ĥ is drawn once for the same blocks and settings, durable in the vault before it is used: a retry or a
             second process takes what was drawn. Copies of a row are a keyed function of the row
Ends         with the session; a domain has one that is relabelled (see `artifacts.book`)
Not covered  ĥ, the subset and its size are not private: they stay in the vault until the session is forgotten
             Checked by tests/tasks/test_relabel.py and tests/promises/test_crash_draws.py; the law of all of it by
             tests/privacy/test_relabelled.py
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TypedDict

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from artifacts.encoding import Encoding
from artifacts.plan import Plan
from artifacts.schemas import Ref
from artifacts.sections import RelabelPlan, TeachersPlan
from artifacts.vault import Vault
from tasks.cells import LABEL
from tasks.encode import PublicBatch, encode, read_frame, write_frame
from tasks.hypothesis_space import hypothesis_space, public_matrix
from tasks.mechanisms.dichotomies import HypothesisClass
from tasks.mechanisms.hypotheses import from_description
from tasks.mechanisms.relabelled import Relabelling, choose_hypothesis, most_copies, share_for
from tasks.private import private_stage
from tasks.recipe import owner
from tasks.resample import resampled
from tasks.split import SHARD


class Relabelled(BaseModel):
    """What relabelling left in the vault: what was drawn, and the rows by shard, in blocks laid out as split's are."""

    model_config = ConfigDict(frozen=True)

    choice: Ref
    blocks: tuple[Ref, ...]


def candidates(plan: Plan, encoding: Encoding, batches: Sequence[PublicBatch], vault: Vault) -> HypothesisClass | None:
    """The class that a plan relabels by, its cut points from the first of its own public batches; None without one."""
    if plan.relabel is None:
        return None
    X = public_matrix(batches[:1], encoding, vault)
    return hypothesis_space(plan.relabel, encoding, X, "relabel", bounded=True)


def relabelling(plan: Plan, space: HypothesisClass, encoding: Encoding) -> Relabelling:
    """The public settings of a plan's relabelling. Raises WrongInput where they cannot be met."""
    asked = plan.relabel
    if asked is None:
        raise ValueError("the plan does not relabel")
    return Relabelling(
        hypotheses=space.name,
        features=tuple(encoding.outputs[column] for column in space.columns),
        grid=space.digest,
        form=asked.form,
        **subset_of(asked, plan.epsilon_of_labels, plan.privacy.delta),
    )


class Subset(TypedDict):
    """The numbers of a relabelling, on which alone its cost depends: see Relabelling."""

    share: float
    choice_epsilon: float
    copies: int


def subset_of(asked: RelabelPlan, epsilon: float, delta: float) -> Subset:
    """How the secret subset is drawn and chosen on, where labels may spend (epsilon, delta)."""
    return {
        "share": share_for(epsilon, asked.epsilon) if asked.share is None else asked.share,
        "choice_epsilon": asked.epsilon,
        "copies": most_copies(delta) if asked.form == "published" else 1,
    }


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
) -> Relabelled:
    """Choose ĥ once, label the rows of all blocks by it, resample them, and write them in as many blocks.

    blocks   the subset by shard, as split wrote it
    key      for resampling
    """
    rows = pl.concat(read_frame(block, vault) for block in blocks)
    X = encode(rows, encoding).astype(np.float64)

    def drawn() -> bytes:
        hypotheses = space.dichotomies(X)
        y = rows[LABEL].to_numpy().astype(np.int64)
        chosen = choose_hypothesis(hypotheses, X, y, settings.choice_epsilon)
        return json.dumps(hypotheses.describe(chosen)).encode()

    drawn_from = json.dumps([asdict(settings), [block.digest for block in blocks]])
    choice = vault.keep(f"choices/{owner(blocks[0])}/{vault.digest('choice', drawn_from)}.json", drawn)
    labels = from_description(json.loads(vault.read(choice))).predict(X)
    relabelled = rows.with_columns(pl.Series(LABEL, labels, rows.schema[LABEL]))
    drawn_rows = resampled(relabelled, settings, teachers.count, encoding, key)
    return Relabelled(choice=choice, blocks=tuple(_in_blocks(drawn_rows, teachers, vault, folder)))


def _in_blocks(rows: pl.DataFrame, teachers: TeachersPlan, vault: Vault, folder: str) -> Iterator[Ref]:
    for index in range(-(-teachers.count // teachers.block)):
        block = rows.filter(rows[SHARD] // teachers.block == index)
        yield write_frame(block, vault, f"{folder}/block-{index:05d}.arrow")
