"""Benchmark of relabelling: answered rows, refusals and excess error with it and without it. Run by `make bench`.

Teachers are the class's own empirical risk minimisers; the choice of the hypothesis, its cost and the answers are the
real mechanisms'. Every world has approximation error γ. Refused rows, and those after the halt, count as coins, as in
BTT18's Algorithm 3. One run each; in `tied`, queries alone move an excess by about 0.01. The figure is written to the
folder CONCORD_FIGURES.

    flips   a threshold, labels flipped with odds γ
    torn    a threshold; labels are coins in a stretch of 2γ, so that every threshold in it is a best one
    tied    stumps on 8 features, each the label flipped with odds γ, so that every one of them is a best one
"""

import math
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray

from concord.tasks.asking.relabel import hypothesis_class
from concord.tasks.mechanisms.distance import REFUSED, Floats, Ints
from concord.tasks.mechanisms.hypotheses import HypothesisClass
from concord.tasks.mechanisms.noise import keyed_draws
from concord.tasks.mechanisms.relabelled import Relabelling, calibrate_relabelled, choose_hypothesis, share_for
from concord.tasks.mechanisms.stable import StableVoting
from tests.privacy.bounds import relabelled_rows
from tests.privacy.exact import Silent

pytestmark = pytest.mark.bench

EPSILON, DELTA = 1.0, 1e-6
TEACHERS, CUTOFF, QUERIES = 600, 30, 2_000
SIZES = (10_000, 32_000, 100_000, 320_000, 1_000_000)
GAMMAS = (0.05, 0.2)
FEATURES = 8
LEAST_EXCESS = 1 / QUERIES
"""One query's worth: less is no measurement."""
CELLS = np.linspace(0, 1, 65)[:-1]


@dataclass(frozen=True)
class World:
    """Rows and their odds of label 1, with the class they are learned by."""

    kind: HypothesisClass
    draw: Callable[[np.random.Generator, int], tuple[Floats, Floats]]
    gamma: float


def flips(gamma: float) -> World:
    def draw(random: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
        X = random.uniform(size=(rows, 1))
        return X, np.where(X[:, 0] >= 0.5, 1 - gamma, gamma)

    return World(hypothesis_class("stumps", columns=[0], grid=[CELLS.tolist()]), draw, gamma)


def torn(gamma: float) -> World:
    def draw(random: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
        X = random.uniform(size=(rows, 1))
        return X, np.clip(np.sign(X[:, 0] - 0.5) * (np.abs(X[:, 0] - 0.5) > gamma), -1, 1) / 2 + 0.5

    return World(hypothesis_class("stumps", columns=[0], grid=[CELLS.tolist()]), draw, gamma)


def tied(gamma: float) -> World:
    def draw(random: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
        label = random.integers(0, 2, rows)
        X = (label[:, None] ^ (random.uniform(size=(rows, FEATURES)) < gamma)).astype(np.float64)
        return X, label.astype(np.float64)

    grid = [(0.0, 1.0)] * FEATURES
    return World(hypothesis_class("stumps", columns=range(FEATURES), grid=grid), draw, gamma)


WORLDS = {"flips": flips, "torn": torn, "tied": tied}


class Keyed(Silent):
    """A source of one session's uniform draws."""

    def __init__(self) -> None:
        super().__init__()
        self.key = secrets.token_bytes(32)

    def uniform(self, first: int, rows: int) -> NDArray[np.uint64]:
        return keyed_draws(self.key, first, rows)


@dataclass(frozen=True)
class Outcome:
    """Of one session: rows answered, rows refused, and the error of all labels beyond γ."""

    answered: int
    refused: int
    excess: float


def plain(epsilon: float, delta: float) -> StableVoting:
    return StableVoting.calibrate(epsilon=epsilon, delta=delta, cutoff=CUTOFF)


def relabelling(kind: HypothesisClass) -> Relabelling:
    features = tuple(map(str, kind.columns))
    return Relabelling(hypotheses=kind.name, features=features, grid=kind.digest, share=share_for(EPSILON))


def polled(world: World, X: Floats, y: Ints, queries: Floats, random: np.random.Generator, *, resample: bool) -> Ints:
    """Votes (rows, 2) of one risk minimiser a shard; of several that are as good, each teacher takes its own."""
    votes = np.zeros((len(queries), 2), dtype=np.int64)
    shard = random.integers(0, TEACHERS, len(X))
    for rows in np.split(np.argsort(shard, kind="stable"), np.searchsorted(np.sort(shard), np.arange(1, TEACHERS))):
        mine = random.choice(rows, len(rows)) if resample and len(rows) else rows
        found = world.kind.dichotomies(X[mine])
        errors = found.errors(X[mine], y[mine])
        best = random.choice(np.flatnonzero(errors == errors.min()))
        votes[np.arange(len(queries)), found.labels(queries, int(best))] += 1
    return votes


def session(world: World, rows: int, random: np.random.Generator, *, relabel: bool) -> Outcome:
    """One session of QUERIES rows on fresh data."""
    X, odds = world.draw(random, rows)
    y = (random.uniform(size=rows) < odds).astype(np.int64)
    queries, truth = world.draw(random, QUERIES)
    if relabel:
        settings = relabelling(world.kind)
        kept = random.uniform(size=rows) < settings.share
        X, y = X[kept], y[kept]
        found = world.kind.dichotomies(X)
        y = found.labels(X, choose_hypothesis(found, X, y, settings.choice_epsilon))
        made = calibrate_relabelled(settings, epsilon=EPSILON, delta=DELTA, make=plain)
        labels = made.release(polled(world, X, y, queries, random, resample=True), Keyed(), 0, 0).labels
    else:
        made_plain = plain(EPSILON, DELTA)
        labels = made_plain.release(polled(world, X, y, queries, random, resample=False), Keyed(), 0, 0).labels
    return outcome(labels, truth, world.gamma)


def outcome(labels: Ints, truth: Floats, gamma: float) -> Outcome:
    whole = np.full(len(truth), REFUSED)
    whole[: len(labels)] = labels
    wrong = np.select([whole == 1, whole == 0], [1 - truth, truth], 0.5)
    return Outcome(int((labels != REFUSED).sum()), int((labels == REFUSED).sum()), float(wrong.mean()) - gamma)


def hidden_constant(rows: int, excess: float, dimension: int) -> float:
    """What BN19's Theorem 3.3 hides in Õ if that many rows are just enough for the excess: n over its shape."""
    if not LEAST_EXCESS < excess < 1:
        return math.nan
    return rows / relabelled_rows(dimension=dimension, alpha=excess, epsilon=EPSILON, queries=QUERIES, private=1.0)


@dataclass(frozen=True)
class Measured:
    """What came of that many private rows."""

    rows: int
    without: Outcome
    relabelled: Outcome


Worlds = dict[tuple[str, float], list[Measured]]


def test_with_and_without_relabelling(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    found: Worlds = {}
    for name, gamma in product(WORLDS, GAMMAS):
        world = WORLDS[name](gamma)
        found[name, gamma] = [
            Measured(
                rows,
                without=session(world, rows, random, relabel=False),
                relabelled=session(world, rows, random, relabel=True),
            )
            for rows in SIZES
        ]
    path = Path(os.environ.get("CONCORD_FIGURES", tmp_path)) / "relabel.png"
    draw(found, path)
    with capsys.disabled():
        print("\n" + "\n".join(table(found)) + f"\nfigure: {path}")
    for gamma in GAMMAS:
        most = found["torn", gamma][-1]
        assert most.relabelled.answered > most.without.answered
        assert most.relabelled.excess < most.without.excess


def table(found: Worlds) -> Iterator[str]:
    """The lines of a table of everything measured."""
    share = share_for(EPSILON)
    yield f"ε = {EPSILON:g}, δ = {DELTA:g}, {TEACHERS} teachers, T = {CUTOFF}, {QUERIES:,} queries, q = {share:.3f}"
    columns = f"{'answered':>10}{'refused':>8}{'excess':>9}"
    yield f"{'':24}{'without relabelling':>27}{'with it':>27}{'Theorem 3.3':>17}"
    yield f"{'world':>7}{'γ':>6}{'n':>11}{columns}{columns}{'hidden constant':>17}"
    for (name, gamma), measured in found.items():
        dimension = WORLDS[name](gamma).kind.dimension
        for text in measured:
            cells = "".join(
                f"{o.answered:>10,}{o.refused:>8}{o.excess:>+9.4f}" for o in (text.without, text.relabelled)
            )
            constant = hidden_constant(text.rows, text.relabelled.excess, dimension)
            yield f"{name:>7}{gamma:>6}{text.rows:>11,}{cells}{constant:>17.3g}"


def draw(found: Worlds, path: Path) -> None:
    """Excess error by rows, a panel a world, with Theorem 3.3 at the least constant that covers its points."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    panels = figure.subplots(len(GAMMAS), len(WORLDS), sharex=True, sharey=True)
    for panel, ((name, gamma), measured) in zip(panels.T.ravel(), found.items(), strict=True):
        sizes = [item.rows for item in measured]
        panel.semilogx(sizes, [item.without.excess for item in measured], marker="o", label="without relabelling")
        panel.semilogx(sizes, [item.relabelled.excess for item in measured], marker="o", label="with relabelling")
        dimension = WORLDS[name](gamma).kind.dimension
        constant = np.nanmax([hidden_constant(item.rows, item.relabelled.excess, dimension) for item in measured])
        excesses = np.geomspace(1e-3, 0.5)
        shape = [
            relabelled_rows(
                dimension=dimension, alpha=float(a), epsilon=EPSILON, queries=QUERIES, private=float(constant)
            )
            for a in excesses
        ]
        panel.semilogx(shape, excesses, "k--", linewidth=0.8, label="Theorem 3.3, least constant")
        panel.set(title=f"{name}, γ = {gamma:g}", xlim=(sizes[0] / 2, sizes[-1] * 2), ylim=(-0.06, 0.5))
    panels[0, 0].legend(fontsize="small")
    figure.supxlabel("private rows")
    figure.supylabel("excess error, refusals as coins")
    figure.savefig(path)
