"""Mechanisms of every kind, their settings as the ledger has them, and the guarantee recomputed of such settings."""

import json
from collections.abc import Mapping
from typing import Any

from tests import world

DELTA = 1e-5
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": DELTA}


def least_delta(settings: Mapping[str, Any], epsilon: float) -> float:
    return world.verify_recompute.least_delta(world.read_settings(settings), epsilon)


def charge(settings: Mapping[str, Any], order: float) -> tuple[float, float]:
    return world.verify_recompute.charge(world.read_settings(settings), order)


def settings_of(mechanism: Any) -> dict[str, Any]:
    """As the ledger has them."""
    settings: dict[str, Any] = json.loads(json.dumps(mechanism.model_dump(mode="json")))
    return settings


def votes(name: str, epsilon: float = 1.0, cutoff: int = 20, classes: int = 2, delta: float = DELTA) -> Any:
    stream: dict[str, Any] = {"cutoff": cutoff, "queries": 1000, "classes": classes, "teachers": 200, "order": 2.0}
    return world.calibrate(name, epsilon=epsilon, delta=delta, **stream)


def space(share: float = 0.25, choice_epsilon: float = 1.0) -> world.Relabelling:
    given: dict[str, Any] = {"hypotheses": "stumps", "features": ("age",), "grid": "0" * 64, **BUDGET}
    return world.Relabelling(**given, share=share, choice_epsilon=choice_epsilon)


def relabelled(name: str) -> Any:
    epsilon, delta = space().inner
    return world.Relabelled(inner=votes(name, epsilon, delta=delta), relabelling=space())


def sums(epsilon: float, classes: int = 2, rounds: int = 3, secret: Any = "rows", **more: Any) -> world.Tallies:
    asked = world.planned_rounds(classes=classes, fields=14, codes=450, rounds=rounds, secret=secret)
    return world.calibrated_sums(
        world.Tallies, epsilon=epsilon, delta=DELTA, classes=classes, rounds=asked, secret=secret, **more
    )


def tables(epsilon: float, classes: int = 2, narrow: tuple[int, ...] = (1000, 70, 12, 5), **more: Any) -> world.Sketch:
    rounds = world.sketch_rounds(classes=classes, narrow=narrow, wide=[33] * sum(cells > 64 for cells in narrow))
    return world.calibrated_sums(world.Sketch, epsilon=epsilon, delta=DELTA, classes=classes, rounds=rounds, **more)


def season(epsilon: float, releases: int, **more: Any) -> world.Stream:
    asked = world.planned_rounds(classes=2, fields=14, codes=450, rounds=1)
    return world.calibrated_sums(
        world.Stream, epsilon=epsilon, delta=DELTA, classes=2, rounds=asked, season=releases, many=True, **more
    )
