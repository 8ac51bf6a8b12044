"""Small mechanisms of every kind, whose whole law can be enumerated or attacked."""

from math import isqrt
from typing import Any

from tests.world import LEAST_ORDER, Round, Sketch, Stream, Tallies, calibrate, calibrated_sums

EPSILON = 1.0
"""Of sums."""
STEPS = 32
"""A vote's, in tallies."""
HALF = Round(fields=1, cells=2, least=STEPS // 2, count=12, share=0.5)
ROUNDS = (HALF.with_(count=0, cells=1), HALF.with_(count=0, cells=1, least=STEPS // 8))
"""Two over one cell."""


def tallies(*rounds: Round, classes: int = 2, **settings: Any) -> Tallies:
    return calibrated_sums(
        Tallies, epsilon=EPSILON, delta=0.01, classes=classes, rounds=rounds, steps=STEPS, **settings
    )


def one_round(classes: int = 2, **changed: Any) -> Round:
    """Of two fields."""
    return HALF.with_(**{"fields": 2, "cells": 99, "least": STEPS // (classes or 2), "share": 1.0} | changed)


TABLES = Round(what="codes", fields=2, cells=6, least=0, count=isqrt(2 * 2**2) // 2, share=0.25)
PAIRS = Round(what="codes", fields=1, cells=6, least=0, share=0.35)
LABELS = Round(fields=2, cells=5, least=0, share=0.4)


def sketch(*steps: Round, **settings: Any) -> Sketch:
    """Two steps a vote; by default over tables of one column, of both, and labels."""
    asked = steps or (TABLES, PAIRS, LABELS)
    return calibrated_sums(Sketch, epsilon=EPSILON, delta=0.01, classes=2, rounds=asked, steps=2, **settings)


def stream(**changed: Any) -> Stream:
    """Four releases of one number, of which a row is 1 or −1: q is 2, 1, 1, 1."""
    given: dict[str, Any] = {"epsilon": EPSILON, "delta": 0.06, "classes": 2, "steps": 2, "bits": 1, "season": 4}
    return calibrated_sums(Stream, **{**given, "rounds": (Round(fields=1, cells=1, least=1, share=1.0),), **changed})


SUMS: dict[str, Any] = {
    "tallies": tallies(*ROUNDS),
    "tallies of secret labels": tallies(one_round(3, count=0), classes=3, secret="labels"),
    "tallies of a number": tallies(one_round(), classes=0),
    "sketch": sketch(),
    "stream": stream(),
}
"""Mechanisms that release sums."""


def calibrated(name: str, classes: int = 2, cutoff: int = 1, epsilon: float = 2.0) -> Any:
    """A mechanism that answers two rows of thirty teachers, or is refused so often; its δ is 1e-6."""
    settings: dict[str, Any] = {"cutoff": cutoff, "queries": 2, "classes": classes, "teachers": 30}
    return calibrate(name, epsilon=epsilon, delta=1e-6, order=LEAST_ORDER, **settings)
