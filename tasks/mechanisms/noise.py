"""Randomness: exact noise and selection from OpenDP, and keyed draws.

Discrete noise and private selection from OpenDP, and the keyed stream of 64-bit draws
    Assumes      OpenDP's samplers are exact and its generator is the operating system's; AES-256 is a pseudo-random
                 function; a key is secret and an index under it serves one row for ever
    Guarantees   `laplace` and `gaussian` draw from the distributions that costs are computed for, with no
                 floating-point rounding (Canonne, Kamath & Steinke 2020, Alg. 1 and 3); `sample_by_weight` is
                 epsilon-DP (McSherry & Talwar 2007); `keyed_draws` gives a row the same uniform draw at every call
    Ends         nothing is kept between calls
    Not covered  running time, which depends on the noise; noise cannot be keyed, so the caller must store it
Checked by tests/privacy/test_noise.py: samplers against their exact probabilities, the stream against AES by hand; the
choices by test_universal.py.

Progress: drawing and decoding a round of many classes takes minutes, so an observer may be told how far it is. Only
numbers of draws and of classes are reported, which are public, and never what was drawn.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Annotated, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from pydantic import AfterValidator, Field

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.distance import Draws, Ints

DRAWS_AT_A_TIME = 65_536
"""Draws requested from OpenDP at a time: it returns Python lists, eight times as large as the array."""
LARGEST_SCALE = 2.0**40
"""Largest scale allowed: noise that cannot reach 2^63 never wraps when it is added to a count."""
AES_BLOCK = 16  # bytes of an AES block
DRAW = 8  # bytes of a 64-bit draw


def drawable(scale: float) -> float:
    """The scale, if noise of it can be drawn. Raises WrongInput."""
    if not 0 < scale <= LARGEST_SCALE:
        raise WrongInput(
            f"the scale of noise must be above 0 and at most 2^40, got {scale!r}: if it was calibrated, the budget is "
            "too small for noise that can be drawn"
        )
    return scale


Scale = Annotated[float, Field(allow_inf_nan=True), AfterValidator(drawable)]
"""A scale of noise in a mechanism's settings: no session is charged whose noise cannot be drawn."""


def laplace(scale: float, size: int) -> Ints:
    """`size` draws of discrete Laplace noise, probability of z ∝ exp(−|z| / scale)."""
    return _noise("make_laplace", "l1_distance", scale, size)


def gaussian(scale: float, size: int) -> Ints:
    """`size` draws of discrete Gaussian noise, probability of z ∝ exp(−z² / (2·scale²))."""
    return _noise("make_gaussian", "l2_distance", scale, size)


@cache
def _opendp() -> Any:
    """OpenDP, loaded only where noise is drawn, because it is heavy."""
    from opendp import prelude

    prelude.enable_features("contrib")
    return prelude


def _noise(make: str, metric: str, scale: float, size: int) -> Ints:
    dp = _opendp()
    add = getattr(dp.m, make)(_integers(), getattr(dp, metric)(T="i64"), scale=float(drawable(scale)))
    noise = np.zeros(size, dtype=np.int64)
    for start in range(0, size, DRAWS_AT_A_TIME):
        report(start, size)
        noise[start : start + DRAWS_AT_A_TIME] = add(noise[start : start + DRAWS_AT_A_TIME])
    return noise


def sample_by_weight(scores: Ints, *, epsilon: float, sensitivity: int, monotone: bool = False) -> int:
    """An index drawn in proportion to exp(epsilon·score / (2·sensitivity)), or exp(epsilon·score / sensitivity) of
    monotone scores: the exponential mechanism, epsilon-DP.

    OpenDP also proves ρ = epsilon²/8 for it (Cesar & Rogers 2021).

    scores       (candidates,) whole numbers, each moving by at most `sensitivity` between neighbours
    epsilon      of the choice, pure
    monotone     between neighbours, no two scores move in opposite directions: weights may fall twice as fast
    """
    if not 0 < epsilon < float("inf") or sensitivity < 1:
        raise ValueError(f"epsilon must be positive and finite and sensitivity at least 1, got {epsilon, sensitivity}")
    # OpenDP rounds its cost upwards, so a scale of exactly range/ε may count as a little more than granted
    scale = (sensitivity if monotone else 2 * sensitivity) / epsilon * (1 + 1e-9)
    dp = _opendp()
    metric = dp.linf_distance(T="i64", monotonic=monotone)
    choose = dp.m.make_noisy_max(_integers(), metric, dp.zero_concentrated_divergence(), scale=scale)
    if not choose.check(sensitivity, epsilon**2 / 8):
        raise ArithmeticError(f"OpenDP does not grant epsilon = {epsilon!r} to a choice at scale {scale!r}")
    return int(choose(np.asarray(scores, dtype=np.int64)))


def _integers() -> Any:
    return _opendp().vector_domain(_opendp().atom_domain(T="i64"))


def keyed_draws(key: bytes, first: int, rows: int) -> Draws:
    """The uniform 64-bit draws of rows first … first + rows − 1 under a 32-byte key.

    Row i holds bytes 8i to 8i + 7, little-endian, of the AES-256-CTR key stream from counter zero (NIST SP 800-38A),
    so any stretch can be drawn alone.
    """
    if first < 0 or rows < 0:
        raise ValueError(f"first and rows must be at least 0, got {first, rows}")
    block, skipped = divmod(first * DRAW, AES_BLOCK)
    before = skipped // DRAW
    stream = np.zeros(before + rows, dtype="<u8")
    octets = stream.view(np.uint8).data
    Cipher(AES256(key), CTR(block.to_bytes(AES_BLOCK, "big"))).encryptor().update_into(octets, octets)
    return stream[before:]


Observer = Callable[[int, int], None]
_observer: ContextVar[Observer] = ContextVar("observer", default=lambda _done, _size: None)


@contextmanager
def reporting(observer: Observer) -> Iterator[None]:
    """Within the context, `observer` is called with how many steps are done, and how many there are."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def report(done: int, size: int) -> None:
    """Report to the observer that so many steps of `size` are done."""
    _observer.get()(done, size)
