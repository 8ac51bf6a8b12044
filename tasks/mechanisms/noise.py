"""Randomness: exact discrete noise and private selection from OpenDP, and the keyed stream of 64-bit draws.

Privacy statement
    Assumes      OpenDP's samplers are exact and its generator is the operating system's; AES-256 is a pseudo-random
                 function; a key is secret and an index under it serves one row for ever
    Guarantees   `laplace` and `gaussian` draw from the very distributions that costs are computed for, with no
                 floating-point rounding (Canonne, Kamath & Steinke 2020, Alg. 1 and 3); `select` is epsilon-DP
                 (McKenna & Sheldon 2020); `keyed_draws` gives a row the same uniform draw at every call
    Ends         nothing is kept between calls
    Not covered  running time, which depends on the noise; noise cannot be keyed, so whoever publishes it keeps it
Checked by tests/privacy/test_noise.py: samplers against their exact probabilities, the stream against AES by hand; the
choices by test_exponential.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from tasks.mechanisms.voting import Draws, Ints

dp.enable_features("contrib")

CHUNK = 65_536
"""Draws asked of OpenDP at a time: it answers in Python lists, eight times as large as the array."""
MOST = 2.0**40
"""Scales above it are refused: noise that cannot reach 2^63 never wraps when it is added to a count."""
BLOCK = 16  # bytes of an AES block
DRAW = 8  # bytes of a 64-bit draw


def laplace(scale: float, size: int) -> Ints:
    """`size` draws of discrete Laplace noise, probability of z ∝ exp(−|z| / scale)."""
    return _noise(dp.m.make_laplace, dp.l1_distance(T="i64"), scale, size)


def gaussian(scale: float, size: int) -> Ints:
    """`size` draws of discrete Gaussian noise, probability of z ∝ exp(−z² / (2·scale²))."""
    return _noise(dp.m.make_gaussian, dp.l2_distance(T="i64"), scale, size)


def _noise(make: Callable[..., dp.Measurement], metric: dp.Metric, scale: float, size: int) -> Ints:
    if not 0 < scale <= MOST:
        raise ValueError(f"scale must be positive and at most 2^40, got {scale!r}")
    add = make(_integers(), metric, scale=float(scale))
    noise = np.zeros(size, dtype=np.int64)
    for start in range(0, size, CHUNK):
        noise[start : start + CHUNK] = add(noise[start : start + CHUNK])
    return noise


def select(scores: Ints, *, epsilon: float, sensitivity: int, monotone: bool = False) -> int:
    """The index of a nearly highest score, by permute-and-flip: never further from it than the exponential mechanism.

    scores       (candidates,) whole numbers, each moving by at most `sensitivity` between neighbours
    epsilon      of the choice, pure
    monotone     between neighbours, no two scores move in opposite directions: weights may fall twice as fast
    """
    return _noisy_max(scores, dp.max_divergence(), epsilon, epsilon, sensitivity, monotone)


def sample_by_weight(scores: Ints, *, epsilon: float, sensitivity: int, monotone: bool = False) -> int:
    """An index drawn in proportion to exp(epsilon·score / (2·sensitivity)), or exp(epsilon·score / sensitivity) of
    monotone scores: the exponential mechanism, epsilon-DP.

    OpenDP grants it ρ = epsilon²/8 as well (Cesar & Rogers 2021); arguments are those of `select`.
    """
    return _noisy_max(scores, dp.zero_concentrated_divergence(), epsilon**2 / 8, epsilon, sensitivity, monotone)


def _noisy_max(
    scores: Ints, measure: dp.Measure, granted: float, epsilon: float, sensitivity: int, monotone: bool
) -> int:
    if not 0 < epsilon < float("inf") or sensitivity < 1:
        raise ValueError(f"epsilon must be positive and finite and sensitivity at least 1, got {epsilon, sensitivity}")
    # OpenDP rounds its cost upwards, so a scale of exactly range/ε may count as a little more than granted
    scale = (sensitivity if monotone else 2 * sensitivity) / epsilon * (1 + 1e-9)
    metric = dp.linf_distance(T="i64", monotonic=monotone)
    choose: Any = dp.m.make_noisy_max(_integers(), metric, measure, scale=scale)
    if not choose.check(sensitivity, granted):
        raise ArithmeticError(f"OpenDP does not grant epsilon = {epsilon!r} to a choice at scale {scale!r}")
    return int(choose(np.asarray(scores, dtype=np.int64)))


def _integers() -> dp.Domain:
    return dp.vector_domain(dp.atom_domain(T="i64"))


def keyed_draws(key: bytes, first: int, rows: int, buffer: Draws | None = None) -> Draws:
    """The uniform 64-bit draws of rows first … first + rows − 1 under a 32-byte key.

    Row i holds bytes 8i to 8i + 7, little-endian, of the AES-256-CTR key stream from counter zero (NIST SP 800-38A),
    so any stretch can be drawn alone. A `buffer` of at least rows + 1 draws is overwritten and returned as a view:
    memory that is already mapped takes a billion draws a second, fresh memory a tenth of that.
    """
    if first < 0 or rows < 0:
        raise ValueError(f"first and rows must be at least 0, got {first, rows}")
    block, skipped = divmod(first * DRAW, BLOCK)
    before = skipped // DRAW
    stream = np.empty(before + rows, dtype="<u8") if buffer is None else buffer[: before + rows]
    if len(stream) < before + rows:
        raise ValueError(f"buffer must hold at least {rows + 1} draws, got {len(stream)}")
    stream[:] = 0
    octets = stream.view(np.uint8).data
    Cipher(AES256(key), CTR(block.to_bytes(BLOCK, "big"))).encryptor().update_into(octets, octets)
    return stream[before:]
