"""Running totals: what a stream's releases add up to, and the noise in them.

A release mixes the sums of all periods so far by coefficients q (tasks.mechanisms.stream). From y_0 … y_t anyone
computes Σ_{s≤t} x_s plus noise: b_0·y_t + … + b_t·y_0, where b are the coefficients of 1/((1 − x)·q(x)). These undo the
*rounded* q, so rounding it costs nothing.

Assumes      the releases are published: post-processing, in whole numbers
Guarantees   totals are exact, rounded once, and the same on any machine
Not covered  sums of more units than were stated wrap at 2^64, and are read as if they had not.
             Checked by tests/privacy/test_stream.py
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.stream import Stream, coefficients
from concord.tasks.mechanisms.tallies import Tallies


def totals(stream: Stream, released: Sequence[Ints]) -> Ints:
    """Running totals of one question from its releases y_0 … y_t, to whole steps."""
    inverse, unit = _inverse(len(released), stream.bits), 1 << stream.bits
    weighted = sum(
        weight * unit ** (len(released) - 1 - at) * sums.astype(object)
        for at, (weight, sums) in enumerate(zip(inverse, reversed(released), strict=True))
    )
    whole, wrapped = unit ** len(released), 1 << 64
    rounded = (2 * weighted + whole) // (2 * whole)
    return np.asarray((rounded + wrapped // 2) % wrapped - wrapped // 2).astype(np.int64)


def spread(stream: Stream, released: int) -> float:
    """Standard deviation of the noise in running totals after that many releases, for noise of scale 1."""
    unit = 1 << stream.bits
    parts = (weight / unit ** (at + 1) for at, weight in enumerate(_inverse(released, stream.bits)))
    return math.sqrt(math.fsum(part**2 for part in parts))


def as_read(stream: Stream, released: int) -> Tallies:
    """Plain tallies with the noise that running totals have after that many releases."""
    kept = {name: getattr(stream, name) for name in stream.model_fields_set & Tallies.model_fields.keys()}
    noise = spread(stream, released)
    return Tallies(**{**kept, "rounds": tuple(of.with_(scale=of.scale * noise) for of in stream.rounds)})


@lru_cache(maxsize=16)
def _inverse(terms: int, bits: int) -> tuple[int, ...]:
    """b_k·2^(bits·(k + 1)) for k < terms, whole numbers: b are the coefficients of 1/((1 − x)·q(x))."""
    q, unit = coefficients(terms, bits), 1 << bits
    parts = [1]  # of 1/q(x), likewise
    for k in range(1, terms):
        parts.append(-sum(q[j] * unit ** (j - 1) * parts[k - j] for j in range(1, k + 1)))
    running = list[int]()
    for part in parts:
        running.append((running[-1] * unit if running else 0) + part)
    return tuple(running)
