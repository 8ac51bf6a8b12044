"""The guarantee recomputed of settings as the ledger has them, or of what was made of them."""

from collections.abc import Mapping
from typing import Any

from tests.world import Kind, verify_recompute


def least_delta(settings: Mapping[str, Any], epsilon: float) -> float:
    return verify_recompute.least_delta(Kind.of(settings), epsilon)


def charge(settings: Mapping[str, Any], order: float) -> tuple[float, float]:
    return verify_recompute.charge(Kind.of(settings), order)
