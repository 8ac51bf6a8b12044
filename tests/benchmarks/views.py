"""Columns, all numbers together, and both: what the rule for joined numbers (tasks.data.joined) chooses between.

columns  tallies of a plan with `labeling.joined = false`
list     all numbers as one list, public scores of at most FARTHEST either way, beside columns of words: the model that
         tallies of the list's cells are decoded to. No plan asks so
both     columns, and cells of all numbers together, whatever the rule says; where it says the same, this is `tallies`

`dp_sgd_list` (tests/benchmarks/peers.py) learns from the same scores.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tests import world
from tests.benchmarks.ours import Coded, Parts, Said, coded, learn, plan_of, tallies

TABLES = ("texture", "satimage", "penbased", "segment", "letter", "phoneme", "magic", "credit", "optdigits")
FURTHER = ("banana", "spambase", "twonorm", "ring")
"""Tables whose public rows do not cluster, or that have two columns."""
PEER = "dp_sgd_list"


def columns(data: Coded, epsilon: float, seed: int) -> Said:
    """Rows by their columns alone."""
    return tallies(replace(data, sizes={"joined": 0}, learned={}), epsilon, seed)


def listed(data: Coded, epsilon: float, seed: int) -> Said:  # noqa: ARG001
    """Rows by the cells of all numbers as one list."""
    case, numbers = data.case, world.joinable(data.encoding.columns)
    names = [column.name for column in numbers]

    def together(raw: pl.DataFrame, cast: pl.DataFrame) -> pl.DataFrame:
        points = (world.FARTHEST / world.LARGEST_LEVEL * world.public_scores(cast, numbers)).astype(np.float32)
        return raw.drop(names).with_columns(pl.Series("numbers", points, dtype=pl.Array(pl.Float32, len(names))))

    private, known = together(case.private, data.private), together(case.known, data.public)
    whole = coded(replace(case, private=private, known=known, test=together(case.test, data.test)))
    codes, places = whole.at(epsilon)
    last = learn(whole, epsilon, world.planned_tallies(plan_of(whole, epsilon), codes, len(places.public)))
    decoded = world.Decoded.from_record(last["decoded"])
    return Said(world.scores(decoded, places.test), world.odds_scores(decoded, places.test))


def both(data: Coded, epsilon: float, seed: int) -> Said | str:
    """Rows by columns and by all numbers together; with R, and what the rule chooses."""
    plan, numbers = plan_of(data, epsilon), world.joinable(data.encoding.columns)
    if not (most := world.planned_sizes(plan, data.encoding).get("joined", 0)):
        return "cells below the noise"
    ratio = world.unclustered(data.public, data.encoding.columns)
    joined = replace(data, sizes={"joined": 0}, learned={})
    codes, places = joined.at(epsilon)
    chosen = "both" if world.clustered(ratio, len(codes.coarse)) else "columns"
    names = [column.name for column in numbers]
    codes = codes.with_joined(world.public_scores(data.public, numbers), places.public, names, most)
    completed = Parts(*(codes.completed(part) for part in (places.private, places.public, places.test)))
    joined.learned.update(dict.fromkeys(joined.learned, (codes, completed)))
    return replace(tallies(joined, epsilon, seed), chosen=chosen, ratio=ratio)


VIEWS: Mapping[str, Callable[[Coded, float, int], Said | str]] = {"columns": columns, "list": listed, "both": both}


def by_view(lines: Sequence[dict[str, Any]], cell: Callable[..., str]) -> Iterator[tuple[str, ...]]:
    """A row a case and ε: R, what the rule chooses, and the accuracy by each view and of the peer."""
    yield "", "ε", "R", "by the rule", *VIEWS, "DP-SGD on the list, its best learning rate in hindsight"
    for case in (*TABLES, *FURTHER):
        mine = [line for line in lines if line["case"] == case]
        for epsilon in _epsilons(mine):
            here = [line for line in mine if line["epsilon"] == epsilon]
            ruled = next((line for line in here if "ratio" in line), None)
            stated = ("", "columns") if ruled is None else (f"{ruled['ratio']:.2f}", ruled["chosen"])
            cells = (cell([line for line in here if line["method"] == name], "accuracy") for name in (*VIEWS, PEER))
            yield case, f"{epsilon:g}", *stated, *cells


def _epsilons(lines: Iterable[dict[str, Any]]) -> list[float]:
    return sorted({line["epsilon"] for line in lines if line["method"] in VIEWS})
