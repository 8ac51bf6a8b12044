"""Samplers against their exact probabilities, with wrong-scale twins; the keyed stream against AES by hand, and derived
keys against HKDF.

Each sample is tested by chi-squared. N and REJECT are declared once: a right sampler fails once in a billion runs, and
every twin must be rejected by the same test on the same sample.
"""

import hmac
from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests import world
from tests.privacy.exact import Floats, gaussian_law, laplace_law

N = 20_000
REJECT = 1e-9
TWINS = [0.8, 1.25]
KEY = bytes(range(32))

Law = Callable[[float], tuple[world.Ints, Floats]]
Sampler = Callable[[float, int], world.Ints]
SAMPLERS = [
    pytest.param(world.mechanisms_noise.laplace, laplace_law, id="laplace"),
    pytest.param(world.mechanisms_noise.gaussian, gaussian_law, id="gaussian"),
]


def p_value(sample: world.Ints, law: tuple[world.Ints, Floats]) -> float:
    """Chi-squared of a sample against exact probabilities; rare values are pooled, five expected or more a bin."""
    values, masses = law
    expected = np.append(masses * len(sample), 0.0)
    edges = np.searchsorted(np.cumsum(expected), np.arange(0, len(sample), max(5, len(sample) // 200)))
    bins = np.unique(np.append(0, edges))
    where = np.clip(sample - values[0], 0, len(values))
    seen = np.add.reduceat(np.bincount(where, minlength=len(expected)), bins)
    hoped = np.add.reduceat(expected, bins)
    return float(chisquare(seen, hoped).pvalue)


@pytest.mark.parametrize(("sampler", "law"), SAMPLERS)
@pytest.mark.parametrize("scale", [0.6, 3.0, 41.5])
def test_noise_follows_its_law_and_no_other_scale(sampler: Sampler, law: Law, scale: float) -> None:
    sample = sampler(scale, N)
    assert sample.dtype == np.int64
    assert p_value(sample, law(scale)) > REJECT
    for twin in TWINS:
        assert p_value(sample, law(scale * twin)) < REJECT


@pytest.mark.parametrize(("sampler", "law"), SAMPLERS)
def test_noise_asked_for_in_parts_follows_it_too(sampler: Sampler, law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.mechanisms_noise, "DRAWS_AT_A_TIME", 999)
    sample = sampler(3.0, 10_001)
    assert len(sample) == 10_001
    assert p_value(sample, law(3.0)) > REJECT


@pytest.mark.parametrize(("sampler", "law"), SAMPLERS)
def test_draws_in_a_row_are_not_alike(sampler: Sampler, law: Law) -> None:
    values, masses = law(1.0)
    of_gaps = np.arange(2 * values[0], 2 * values[-1] + 1), np.convolve(masses, masses)
    sample = sampler(1.0, N)
    assert p_value(np.diff(sample)[::2], of_gaps) > REJECT
    drawn_in_pairs = np.repeat(sample[::2], 2)
    assert p_value(np.diff(drawn_in_pairs)[::2], of_gaps) < REJECT


@pytest.mark.parametrize("sampler", [world.mechanisms_noise.laplace, world.mechanisms_noise.gaussian])
def test_the_largest_noise_never_wraps_and_none_is_none(sampler: Sampler) -> None:
    assert np.abs(sampler(world.mechanisms_noise.LARGEST_SCALE, 100)).max() < 2**62
    assert sampler(1.0, 0).shape == (0,)


CALIBRATIONS: list[Callable[[float], object]] = [
    lambda epsilon: world.calibrated_sparse_vector(epsilon=epsilon, delta=0.1, cutoff=9),
    lambda epsilon: world.calibrated_published(epsilon=epsilon, delta=0.1, cutoff=9, queries=9),
    lambda epsilon: world.calibrated_laplace(epsilon=epsilon, delta=0.1),
    lambda epsilon: world.calibrated_estimate(epsilon=epsilon, shards=9),
]


@pytest.mark.parametrize("calibrate", CALIBRATIONS)
@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-20, 1e-13])
def test_a_budget_that_asks_for_wider_noise_is_refused(calibrate: Callable[[float], object], epsilon: float) -> None:
    """Noise of such a scale cannot be drawn, and the smallest of these budgets ended in a traceback."""
    with pytest.raises(world.WrongInput):
        calibrate(epsilon)


def by_hand(key: bytes, rows: int) -> list[int]:
    """The key stream as NIST SP 800-38A states it: blocks are encrypted counters, big-endian, from zero."""
    counters = b"".join(block.to_bytes(16, "big") for block in range((rows + 1) // 2))
    stream = Cipher(AES256(key), ECB()).encryptor().update(counters)
    return [int.from_bytes(stream[8 * row : 8 * row + 8], "little") for row in range(rows)]


def test_draws_are_the_key_stream_of_aes() -> None:
    zero = "dc95c078a2408989ad48a21492842087"  # AES-256 of a zero block under a zero key (NIST's GFSbox answers)
    assert world.mechanisms_noise.keyed_draws(bytes(32), 0, 2).tobytes().hex() == zero
    assert world.mechanisms_noise.keyed_draws(KEY, 0, 65).tolist() == by_hand(KEY, 65)


def test_keys_are_derived_as_rfc_5869_says() -> None:
    extracted = hmac.digest(bytes(32), KEY, "sha256")
    assert world.derive(KEY, "draws") == hmac.digest(extracted, b"concord/draws\x01", "sha256")


@given(first=st.integers(0, 200), rows=st.integers(0, 200))
def test_any_stretch_is_a_slice_of_the_whole(first: int, rows: int) -> None:
    whole = world.mechanisms_noise.keyed_draws(KEY, 0, 400)
    assert np.array_equal(world.mechanisms_noise.keyed_draws(KEY, first, rows), whole[first : first + rows])


@pytest.mark.parametrize("first", [2**32 - 1, 2**32, 2**63 - 3, 2**64 + 1])
def test_far_stretches_join(first: int) -> None:
    assert (
        world.mechanisms_noise.keyed_draws(KEY, first, 5)[2:].tolist()
        == world.mechanisms_noise.keyed_draws(KEY, first + 2, 3).tolist()
    )


def test_draws_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        world.mechanisms_noise.keyed_draws(KEY, -1, 1)
    with pytest.raises(ValueError, match="key"):
        world.mechanisms_noise.keyed_draws(KEY[:16], 0, 1)
