"""What tallies cost, from their recorded rounds alone.

The largest residual is searched for among all that a model may expect, where the mechanism has a formula; δ is an
integral over the law of the privacy loss, where it has a closed form, through lattices rounded from another split.

Assumes      the recorded rounds are those that ran; every unit adds what its rounds' settings allow
Guarantees   `tallies_delta` is a δ at which they are proved (ε, δ)-DP; `tallies_charge` is ρ·α nats
Not covered  whether what ran asked no more than was recorded: the door checks each question against its round
             Checked by tests/tasks/verify/test_recompute_tallies.py, with settings tampered with

Proof of δ. σ² = s² + t². A Gaussian of scale s, rounded to the integers with odds ∝ e^(−(z − x)²/2t²), is the discrete
one of scale σ within a factor [(1 − θ_t)/(1 + θ_σ), 1 + θ_t] a number, θ_t = 2·Σ_j e^(−2π²t²j²) (Poisson). So with m
numbers δ(ε) ≤ e^a·E (1 − e^(ε − a − b − L))⁺, L normal of mean μ²/2 and variance μ², μ² = Σ N/s², and a and b the
logarithms of both factors, m times, summed over rounds. ∎
"""

import math
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

Settings = Mapping[str, Any]
ROUNDED = Decimal("1.5")
"""t."""
DIGITS = 60
NODES = 256
WIDTHS = 14.0
"""Of the normal law beyond where the loss is ε: what is left out is below 1e-40 of what is not."""
ROUNDING = 1e-11
"""Added to δ, relatively."""


def tallies_charge(settings: Settings, order: float) -> tuple[float, float]:
    """Rényi nats at `order`: ρ·order (Bun & Steinke 2016), ρ = Σ N/2σ² (Canonne, Kamath & Steinke 2020)."""
    with localcontext(prec=DIGITS):
        return float(_rho(settings) * Decimal(order)), 0.0


def tallies_delta(settings: Settings, epsilon: float) -> float:
    """δ of all rounds at ε: by whichever of the two proofs gives less."""
    with localcontext(prec=DIGITS):
        return min(_by_rounding(settings, epsilon), _by_curve(float(_rho(settings)), epsilon))


def moved(settings: Settings, of_round: Settings) -> int:
    """N: the largest squared norm by which neighbours move a round's sums."""
    classes, steps = int(settings["classes"]), int(settings["steps"])
    fields, count = int(of_round["fields"]), int(of_round["count"])
    row = fields * max(_squares(classes, steps, str(of_round["what"]), int(of_round["least"])))
    if settings["secret"] == "rows":
        return row + count**2
    one_label = [steps] if classes == 2 else [steps, -steps]
    changed = fields * sum(part**2 for part in one_label)
    if not settings["many"]:
        return changed
    with localcontext(prec=DIGITS):
        truncated = Decimal(changed).sqrt() + Decimal(int(of_round["cells"])).sqrt()
        return min(4 * row, math.ceil(truncated**2))


def _squares(classes: int, steps: int, what: str, least: int) -> list[int]:
    """The squared norm of one row's residual, over what a model may expect of it."""
    if what == "codes":
        return [steps**2]
    if classes == 2:
        return [max(expected, steps - expected) ** 2 for expected in range(least, steps - least + 1)]
    rest = steps - classes * least
    corners = [[least + (rest if at == given else 0) for at in range(classes)] for given in range(classes + 1)]
    return [
        sum((steps * (at == label) - part) ** 2 for at, part in enumerate(corner))
        for corner in corners
        for label in range(classes)
    ]


def _rounds(settings: Settings) -> list[tuple[int, int, Decimal]]:
    """N, numbers and scale of each."""
    return [(moved(settings, each), int(each["cells"]), Decimal(float(each["scale"]))) for each in settings["rounds"]]


def _rho(settings: Settings) -> Decimal:
    return sum((square / (2 * scale**2) for square, _, scale in _rounds(settings)), Decimal(0))


def _by_curve(rho: float, epsilon: float) -> float:
    """Least over orders of the conversion of Canonne, Kamath & Steinke 2020, Prop. 12."""
    orders = 1 + np.geomspace(1e-3, 1e5, 20_000)
    logs = (orders - 1) * (orders * rho - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return math.exp(min(0.0, float(logs.min())))


def _by_rounding(settings: Settings, epsilon: float) -> float:
    rounds = _rounds(settings)
    if min(scale for _, _, scale in rounds) <= 2 * ROUNDED:
        return 1.0
    above = sum((cells * (1 + _theta(ROUNDED)).ln() for _, cells, _ in rounds), Decimal(0))
    below = sum((cells * ((1 + _theta(scale)) / (1 - _theta(ROUNDED))).ln() for _, cells, scale in rounds), Decimal(0))
    mu = sum((square / (scale**2 - ROUNDED**2) for square, _, scale in rounds), Decimal(0)).sqrt()
    beyond = _expected_beyond(float(mu), float(Decimal(epsilon) - above - below))
    return min(1.0, float(above.exp()) * beyond * (1 + ROUNDING))


def _theta(scale: Decimal) -> Decimal:
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    return 2 * sum(((-2 * (pi * scale * j) ** 2).exp() for j in range(1, 9)), Decimal(0))


def _expected_beyond(mu: float, epsilon: float) -> float:
    """E (1 − e^(ε − L))⁺, L = μ²/2 + μ·x, by Gauss and Legendre from where L is ε."""
    start = (epsilon - mu**2 / 2) / mu
    first = max(start, -WIDTHS)
    stretch = min(WIDTHS + max(0.0, -first), 60 / max(first, 1e-9))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    x = first + (nodes + 1) / 2 * stretch
    density = np.exp(-(x**2 - first**2) / 2)
    total = float(np.sum(weights * density * -np.expm1(-mu * (x - start)))) * stretch / 2
    return math.exp(-(first**2) / 2) * total / math.sqrt(2 * math.pi)
