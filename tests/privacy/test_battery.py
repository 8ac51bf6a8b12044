"""Random bits against a standard battery: draws of `stable`, secrets that keys are derived to, and noise.

Draws and secrets follow from a key, which is fixed here: the outcome is the same at every run. Noise is drawn anew by
OpenDP. The battery is dieharder's, on Debian; it calls a test failed if its p-value is within 10⁻⁶ of 0 or 1.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

import numpy as np
import pytest

from tests.world import derive, gaussian, keyed_draws

KEY = bytes(range(32))
ROWS = 1 << 16
MOST = 10_000_000
"""Bytes that a test reads at most."""
BIRTHDAYS = 3_500_000
"""Bytes that the first of them reads: noise takes a hundred times as long to draw as bits."""
TESTS = {"birthdays": 0, "ones in a stream": 8, "runs": 15, "bits": 100}
"""Tests that dieharder calls good."""
SLOWER = {"runs of bits": 101, "serial": 102}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("dieharder") is None, reason="dieharder is not installed (Debian package)"),
]


def draws() -> Iterator[bytes]:
    """Draws of one session's rows, in order."""
    return (keyed_draws(KEY, first, ROWS).tobytes() for first in count(0, ROWS))


def first_draws() -> Iterator[bytes]:
    """The first rows' draws of many sessions."""
    keys = (derive(KEY, f"session-{number}") for number in count())
    return (keyed_draws(key, 0, 512).tobytes() for key in keys)


def secrets() -> Iterator[bytes]:
    """What keys are derived to."""
    return (b"".join(derive(KEY, f"{start + at}") for at in range(512)) for start in count(0, 512))


def noise() -> Iterator[bytes]:
    """Low bits of discrete Gaussians that are so wide that these are uniform but for e^(−2π²·2^8)."""
    while True:
        yield gaussian(2.0**36, ROWS).astype("<u4").tobytes()


def repeated() -> Iterator[bytes]:
    """Each draw serves two rows."""
    return (np.repeat(np.frombuffer(part, dtype="<u8"), 2).tobytes() for part in draws())


def biased() -> Iterator[bytes]:
    """A bit that is 1 a little more often than 0."""
    for part in draws():
        drawn = np.frombuffer(part, dtype="<u8").copy()
        drawn[::16] |= 1
        yield drawn.tobytes()


def counted() -> Iterator[bytes]:
    """No draws at all: the numbers of the rows."""
    return (np.arange(first, first + ROWS, dtype="<u8").tobytes() for first in count(0, ROWS))


@cache
def taken(stream: Callable[[], Iterator[bytes]], most: int) -> bytes:
    """The beginning of a stream."""
    held = bytearray()
    for part in stream():
        held += part
        if len(held) >= most:
            break
    return bytes(held)


def failed(stream: Callable[[], Iterator[bytes]], test: int, most: int = MOST) -> bool:
    """Whether the battery's test rejects a stream."""
    command = ["dieharder", "-g", "200", "-d", str(test), "-p", "20", "-D", "assessment"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as asked:
        assert asked.stdin
        assert asked.stdout
        try:
            asked.stdin.write(taken(stream, most))
            asked.kill()
            raise AssertionError("the battery asked for more than it was given")
        except BrokenPipeError:
            found = asked.stdout.read().decode()
    assert ("PASSED" in found) or ("WEAK" in found) or ("FAILED" in found), found
    return "FAILED" in found


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
@pytest.mark.parametrize("stream", [draws, first_draws, secrets])
def test_what_follows_from_a_key_passes(stream: Callable[[], Iterator[bytes]], test: int) -> None:
    assert not failed(stream, test)


@pytest.mark.parametrize("test", SLOWER.values(), ids=SLOWER)
def test_draws_pass_slower_tests(test: int) -> None:
    assert not failed(draws, test)


def noise_again() -> Iterator[bytes]:
    return noise()


def test_noise_passes() -> None:
    """The battery fails noise that is right with probability 2·10⁻⁶: what it fails is drawn a second time."""
    assert not all(failed(stream, TESTS["birthdays"], BIRTHDAYS) for stream in (noise, noise_again))


@pytest.mark.parametrize("stream", [repeated, biased, counted])
def test_a_planted_fault_does_not(stream: Callable[[], Iterator[bytes]]) -> None:
    assert any(failed(stream, test) for test in TESTS.values())
