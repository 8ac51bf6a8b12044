"""A check that takes memory and keeps it, for tests of limits."""

from typing import Any

KEPT: list[bytearray] = []


def keep(size: int) -> list[Any]:
    """Take so many bytes for the rest of the process; no checks."""
    KEPT.append(bytearray(size))
    return []
