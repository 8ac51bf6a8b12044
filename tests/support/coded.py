"""Rows drawn as codes, labels drawn from known weights, and simulated rounds of tallies."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.world import CodeMatrix, Codes, IntegerModel, NoisyRound, NumberField, RoundQuestion, What, WordField, tally

Floats = NDArray[np.float64]
STEPS = 1 << 16
CODES = Codes(
    fields=(
        NumberField(kind="numeric", name="age", start=0, cuts=(2.0, 4.0, 6.0)),
        NumberField(kind="numeric", name="age", start=5, cuts=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)),
        WordField(name="city", start=14, words=("Rome", "Oslo", "Lima")),
        WordField(name="team", start=19, words=("a", "b")),
    ),
    coarse=(0, 2, 3),
    fine=(1, 2, 3),
)


def rows_of(rows: int, seed: int, cities: Sequence[float] = (0.4, 0.3, 0.2, 0.1)) -> CodeMatrix:
    """Codes (rows, 4): ages 0 to 7, cities by those odds, teams equally likely; nothing is missing."""
    draw = np.random.default_rng(seed)
    age = draw.integers(0, 8, rows)
    city, team = draw.choice(4, rows, p=cities), draw.integers(0, 2, rows)
    return np.column_stack([age // 2, 5 + age, 14 + city, 19 + team]).astype(np.int32)


def truth(classes: int = 2, shift: float = 0.0) -> Floats:
    """Weights (D, K) by code: a slope of age, which grows with the class, and two cities that differ."""
    columns = 1 if classes == 2 else classes
    weights = np.zeros((CODES.size, columns))
    for column in range(columns):
        turn = 1.0 - 2 * column / max(1, columns - 1) if columns > 1 else 1.0
        weights[5:13, column] = turn * np.linspace(-1.5, 1.5, 8) + shift
        weights[14 + column % 3, column] += 1.0
    return weights


def labels_of(rows: CodeMatrix, weights: Floats, seed: int) -> NDArray[np.int64]:
    """A class for each row (rows,), drawn by its logits."""
    logits = weights[rows].sum(axis=1)
    if logits.shape[1] == 1:
        logits = np.column_stack([np.zeros(len(rows)), logits])
    drawn: NDArray[np.int64] = np.argmax(logits + np.random.default_rng(seed).gumbel(size=logits.shape), axis=1)
    return drawn


def question_of(
    fields: Sequence[int],
    classes: int = 2,
    least: int = STEPS // 2,
    model: IntegerModel | None = None,
    what: What = "labels",
) -> RoundQuestion:
    """The question of a round about those fields; the first round of labels counts units."""
    return RoundQuestion(
        classes=classes,
        steps=STEPS,
        what=what,
        least=least,
        count=STEPS // 10 if model is None and what == "labels" else 0,
        fields=tuple(fields),
        spans=tuple((CODES.span(field).start, CODES.span(field).stop) for field in fields),
        model=model,
    )


def hear(
    question: RoundQuestion, rows: CodeMatrix, labels: NDArray[np.int64], noise: float, seed: int = 0
) -> NoisyRound:
    """A round over private rows, with noise of that many votes."""
    sums = tally(question, rows, labels)
    drawn = np.random.default_rng(seed).normal(0, noise * STEPS, len(sums))  # a simulation: nothing here is private
    return NoisyRound(question, noise * STEPS, sums + np.rint(drawn).astype(np.int64))


def one_hot(rows: CodeMatrix, fields: Sequence[int] | None = None) -> Floats:
    """Dense one-hot rows of these fields' codes; by default of the fine ones, and a column of ones."""
    asked = CODES.fine if fields is None else fields
    parts = [np.eye(CODES.fields[at].size)[rows[:, at] - CODES.fields[at].start] for at in asked]
    return np.hstack(parts if fields is not None else [*parts, np.ones((len(rows), 1))])
