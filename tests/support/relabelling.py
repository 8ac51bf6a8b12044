"""Relabelling over a small world: the plan that asks for it, and the stages before the door one by one."""

from pathlib import Path
from typing import Any

import polars as pl

from tests import world
from tests.support.made import frame_of
from tests.support.people import changed, tables_of_plan, write_tables

KEY = bytes(range(32))
K = 30


def tables(folder: Path) -> dict[str, Any]:
    """A plan that relabels by stumps on one of the columns that decide the label."""
    found = tables_of_plan(folder)
    found["teachers"] = {"count": K, "block": 20, "estimator": "sklearn.tree.DecisionTreeClassifier"}
    found["teachers"]["params"] = {"max_depth": 2}
    found["relabel"] = {"hypotheses": "stumps", "features": ["size"], "share": 0.3}
    found["labeling"] = {"mechanism": "noisy_votes", "queries": 2000, "batch": 128}
    return found


class Small:
    """The stages before the door, one by one, over a private table, or over existing tables."""

    def __init__(self, folder: Path, private: pl.DataFrame | None = None, *, unit: str | None = "person") -> None:
        if private is not None:
            write_tables(folder / "data", private)
        self.plan = changed(tables(folder / "data"), data__unit=unit)
        self.vault = world.Vault(folder / "vault")
        self.encoding: world.Encoding = world.learn_encoding(self.plan)
        staged = world.stage_public(self.plan.path("public"), self.encoding, self.vault, "public", 128)
        space = world.candidates(self.plan, self.encoding, staged, self.vault)
        assert space is not None
        self.space, self.settings = space, world.relabelling(self.plan, space, self.encoding)

    def subset(self, share: float | None) -> pl.DataFrame:
        """Rows of the secret subset, by shard."""
        return pl.concat([frame_of(ref, self.vault) for ref in self.blocks(share)])

    def blocks(self, share: float | None) -> tuple[world.Ref, ...]:
        """The files of the subset."""
        return world.split(world.PrivateRows(self.plan, self.encoding, self.vault, KEY), "shards/people", share)

    def relabelled(self, share: float = 0.3) -> world.RelabelledRows:
        """The relabelled subset."""
        given = (self.blocks(share), self.encoding, self.space, self.settings)
        return world.relabel(*given, self.vault, "relabelled/people", KEY)

    def resampled(self, share: float = 0.3) -> pl.DataFrame:
        """The rows that teachers learn from."""
        return pl.concat([frame_of(ref, self.vault) for ref in self.relabelled(share).blocks])
