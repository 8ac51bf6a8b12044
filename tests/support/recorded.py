"""Settings of a session of each kind, as the ledger records them."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from tests import world

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
STREAM: dict[str, Any] = {"cutoff": 20, "queries": 1000, "classes": 2, "teachers": 200, "order": 2.0}
ROUNDS = world.planned_rounds(classes=2, fields=14, codes=450, rounds=2)
SUMS: dict[str, Any] = {**BUDGET, "classes": 2, "rounds": ROUNDS}
ASIDE = {"session": "census-1", "share": 0.1, "clean": True}
RELABEL = {
    **{"hypotheses": "rectangles", "features": ["age", "hours"], "grid": "6f", "share": 0.05, "choice_epsilon": 1.0},
    **{"epsilon": 0.5, "delta": 1e-6},
}
NUMBER = {"bounds": [0.0, 50.0], "constant": 23.4}

ADDED: dict[str, dict[str, Any]] = {
    "stable": {"relabel": RELABEL},
    "optimal_release": {"question": "which is most common"},
    "tallies": {"codes": "7f", "bounds": [0.0, 50.0]},
    "sketch": {"codes": "7f", "bounds": [0.0, 50.0]},
    "stream": {"codes": "7f"},
    "universal": {"hypotheses": "rectangles", "features": ["age"], "class": "8f", "candidates": 120},
    "private_test": {**ASIDE, "student": "9f", **NUMBER},
    "error_estimate": {"share": 0.3},
}
"""What an ask adds to the settings of its mechanism."""
ASKED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    **{name: (partial(world.calibrate, name), {**BUDGET, **STREAM}) for name in world.MECHANISMS},
    **{name: (form.calibrate, BUDGET) for name, form in world.FORMS.items()},
    "tallies": (partial(world.calibrated_sums, world.Tallies), SUMS),
    "sketch": (
        partial(world.calibrated_sums, world.Sketch),
        {**SUMS, "rounds": world.sketch_rounds(classes=2, narrow=[1000, 70, 12], wide=[33, 33])},
    ),
    "stream": (partial(world.calibrated_sums, world.Stream), {**SUMS, "season": 12}),
    "universal": (world.Universal.calibrate, {"epsilon": 1.0, "secret": "rows"}),
    "private_test": (world.calibrated_test, {**BUDGET, "classes": 2, "secret": "rows"}),
    "error_estimate": (world.calibrated_estimate, {"epsilon": 1.0, "shards": 40}),
}
"""How a mechanism of each kind is made, and what of."""
DRAWN: dict[str, Any] = {name: make(**given) for name, (make, given) in ASKED.items()}
"""A mechanism of each kind."""
RECORDED: dict[str, dict[str, Any]] = {
    each.name: json.loads(json.dumps({**each.model_dump(mode="json"), **ADDED.get(each.name, {})}))
    for each in DRAWN.values()
}
"""Every setting that a session of each kind may have."""
