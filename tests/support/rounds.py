"""All rounds of tallies, or steps of a sketch, as their published files say."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.world import Codes, Ints, RoundPlanner, RoundQuestion, SketchPlanner

Sums = Callable[[RoundQuestion, Codes, float], Ints]
"""What is released of a question by those codes, under noise of that scale."""


def all_rounds(planner: RoundPlanner | SketchPlanner, sums: Sums) -> list[dict[str, Any]]:
    """The file of each round, as it would be read again. Each question is one that was paid for."""
    files = list[dict[str, Any]]()
    for number, each in enumerate(planner.mechanism.rounds):
        question = planner.question(files)
        planner.mechanism.check(number, question)
        found = sums(question, planner.codes_after(files), each.scale)
        file = {"question": question.record(), "scale": each.scale, "sums": found.tolist()}
        files.append(json.loads(json.dumps({**file, **planner.follow(files, question, found)}, allow_nan=False)))
    return files


def under_noise(exact: Callable[[RoundQuestion, Codes], Ints], seed: int) -> Sums:
    """Exact sums under normal noise from a seed, in whole numbers."""
    source = np.random.default_rng(seed)

    def sums(question: RoundQuestion, codes: Codes, scale: float) -> Ints:
        found = exact(question, codes)
        return found + np.rint(source.normal(0, scale, len(found))).astype(np.int64)

    return sums
