"""The exact law of relabelling on tiny tables: Poisson subset, dichotomies, exponential mechanism, and a mechanism.

Tables are sorted rows (x, label); mechanisms are laws over a fixed number of outcomes whose exact cost is known.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np

from tests.privacy.exact import hockey_stick
from tests.world import ExponentialMechanism, Floats, hypothesis_class

Row = tuple[int, int]
Table = tuple[Row, ...]
Law = Callable[[Table], Floats]
"""The probability of every outcome on a table."""
Chosen = list[tuple[tuple[int, ...], float]]
"""Every labelling of a table's rows, and its probability."""
Choice = Callable[[Table], Chosen]


def tables(points: int, most: int) -> list[Table]:
    """Every table of up to `most` rows with x below `points` and labels 0 and 1."""
    rows = list(product(range(points), (0, 1)))
    return [table for size in range(most + 1) for table in combinations_with_replacement(rows, size)]


def pairs(points: int, most: int) -> Iterator[tuple[Table, Table]]:
    """Every table of fewer than `most` rows, and it with one more row of every kind."""
    for table in tables(points, most - 1):
        for row in product(range(points), (0, 1)):
            yield table, tuple(sorted((*table, row)))


def worst_delta(law: Law, epsilon: float, points: int, most: int) -> float:
    """The largest hockey-stick divergence at `epsilon`, either way round, over all neighbours."""
    return max(hockey_stick((law(here), law(there)), epsilon) for here, there in pairs(points, most))


def worst_loss(law: Law, points: int, most: int) -> float:
    """The largest log-ratio of an outcome's probabilities, over all neighbours; inf where one is 0 alone."""
    return max(loss(law, here, there) for here, there in pairs(points, most))


def loss(law: Law, here: Table, there: Table) -> float:
    """The largest log-ratio of an outcome's probabilities on two tables."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nanmax(np.abs(np.log(law(here)) - np.log(law(there)))))


def chosen(epsilon: float, name: str = "stumps", of: Sequence[int] = (0,)) -> Choice:
    """The real choice: dichotomies of the class on the rows, weighed by the exponential mechanism."""
    kind, mechanism = hypothesis_class(name, columns=of), ExponentialMechanism(epsilon=epsilon)

    @cache
    def law(table: Table) -> Chosen:
        X, y = columns(table)
        found = kind.dichotomies(X)
        odds = mechanism.probabilities(-found.errors(X, y))
        return [(tuple(found.labels(X, at).tolist()), float(p)) for at, p in enumerate(odds)]

    return law


def columns(table: Table) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """X (rows, 2), x and whether it is odd, and y (rows,) of a table."""
    rows = np.array(table, dtype=np.int64).reshape(-1, 2)
    return np.column_stack([rows[:, 0], rows[:, 0] % 2]).astype(np.float64), rows[:, 1]


def relabelled(choice: Choice, mechanism: Law) -> Law:
    """A mechanism on the table relabelled by what `choice` draws."""

    @cache
    def law(table: Table) -> Floats:
        return np.asarray(sum(p * mechanism(with_labels(table, labels)) for labels, p in choice(table)))

    return law


def with_labels(table: Table, labels: Sequence[int]) -> Table:
    return tuple(sorted((x, label) for (x, _), label in zip(table, labels, strict=True)))


def sampled(share: float, law: Law) -> Law:
    """A law on a Poisson subset."""

    @cache
    def mixture(table: Table) -> Floats:
        kept = product((False, True), repeat=len(table))
        return np.asarray(sum(_odds(share, keep) * law(_subset(table, keep)) for keep in kept))

    return mixture


def _odds(share: float, keep: Sequence[bool]) -> float:
    return math.prod(share if kept else 1 - share for kept in keep)


def _subset(table: Table, keep: Sequence[bool]) -> Table:
    return tuple(row for row, kept in zip(table, keep, strict=True) if kept)


def times(count: int, law: Law) -> Law:
    """That many independent runs on one table."""

    @cache
    def product_law(table: Table) -> Floats:
        whole = np.ones(1)
        for _ in range(count):
            whole = np.outer(whole, law(table)).ravel()
        return whole

    return product_law


# Mechanisms of known cost ---------------------------------------------------------------------------------------------


def noisy(epsilon: float, count: Callable[[Table], Sequence[int]], top: int) -> Law:
    """Counts with geometric noise each, cut to 0 … top: (epsilon, 0)-DP where a row moves one count by one."""

    @cache
    def law(table: Table) -> Floats:
        whole = np.ones(1)
        for value in count(table):
            whole = np.outer(whole, geometric(epsilon, value, top)).ravel()
        return whole

    return law


@cache
def geometric(epsilon: float, value: int, top: int) -> Floats:
    """The law of value + discrete Laplace noise of scale 1/epsilon, cut to 0 … top."""
    ratio = math.exp(-epsilon)
    mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(top + 1) - value)
    mass[0], mass[-1] = ratio**value / (1 + ratio), ratio ** (top - value) / (1 + ratio)
    return np.asarray(mass)


def ones(table: Table) -> list[int]:
    """How many rows are labelled 1."""
    return [sum(label for _, label in table)]


def both_labels(table: Table) -> list[int]:
    """How many rows are labelled 1, and how many 0."""
    return [*ones(table), len(table) - ones(table)[0]]


def everywhere(table: Table) -> list[int]:
    """How many rows there are of every kind, on two points."""
    return [table.count(row) for row in product((0, 1), repeat=2)]


def leaking(delta: float, law: Law, every: Sequence[Table]) -> Law:
    """With probability delta the table itself, else `law`: (ε, delta)-DP where the law is (ε, 0)."""
    number = {table: at for at, table in enumerate(every)}

    @cache
    def mixture(table: Table) -> Floats:
        itself = np.zeros(len(number))
        itself[number[table]] = delta
        return np.concatenate([itself, (1 - delta) * law(table)])

    return mixture
