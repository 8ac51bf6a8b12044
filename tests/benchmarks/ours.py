"""What Concord makes of a benchmark's table: class probabilities of test rows.

Noise is the exact one a session draws, from the operating system: a run cannot be repeated to the bit. What a plan
would state in public is right: the number of private rows, of which a teacher gets about sixty-five.
"""

import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV

from tests import world
from tests.benchmarks.tables import Case

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
ROWS_A_TEACHER, FEWEST, MOST = 65, 20, 1500
CUTOFF = 200
"""Refusals that stable voting may spend, as deployments/plans/kdd99.toml has it."""
RIDGE = "sklearn.linear_model.Ridge"
ALPHAS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
ORDER = 5.75
"""α* of a domain with a cap of (4, 4δ)."""


@dataclass(frozen=True)
class Parts:
    """Something for each row: of private, public and test rows."""

    private: NDArray[Any]
    public: NDArray[Any]
    test: NDArray[Any]


@dataclass(frozen=True)
class Coded:
    """A case as numbers, by what was learned from its public rows, or follows from its schema: the encoded matrix and
    labels, and codes for each ε. Only `open_labels` looks at the labels of public rows.

    sizes     bins and cells other than the plan's
    learned   codes by bins and cells, and those of all rows
    """

    case: Case
    encoding: world.Encoding
    encoded: Parts
    labels: Parts
    public: pl.DataFrame
    private: pl.DataFrame
    test: pl.DataFrame
    votes: dict[int, Ints] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    learned: dict[tuple[object, ...], tuple[world.Codes, Parts]] = field(default_factory=dict)

    @property
    def classes(self) -> int:
        """How many."""
        return len(self.case.classes)

    def at(self, epsilon: float) -> tuple[world.Codes, Parts]:
        """The codes that tallies would take at that ε, or the grid of a schema, and those of all rows."""
        if self.schema is not None:
            return self.on_grid
        sizes: dict[str, Any] = {**world.planned_sizes(plan_of(self, epsilon), self.encoding), **self.sizes}
        key = tuple(sizes.values())
        if key not in self.learned:
            made = world.learn_codes([self.public], self.encoding.columns, **sizes)
            self.learned[key] = made, Parts(*(made.of(part) for part in (self.private, self.public, self.test)))
        return self.learned[key]

    @property
    def schema(self) -> world.TableSchema | None:
        """What is declared in place of public rows."""
        return None if self.case.schema is None else world.schema_of(self.case.schema)

    @cached_property
    def on_grid(self) -> tuple[world.Codes, Parts]:
        """The cells of the schema, and those of all rows."""
        assert self.schema is not None
        grid, columns = world.grid_of(self.schema), world.reading_columns(self.schema)
        rows = (self.case.private, self.case.public, self.case.test)
        return grid, Parts(*(grid.of(world.cast_columns(part, columns)) for part in rows))


def coded(case: Case) -> Coded:
    """The case by what its public rows teach, or rows that are drawn from its schema."""
    schema = None if case.schema is None else world.schema_of(case.schema)
    columns = columns_of(case.public if schema is None else world.stand_ins(schema), schema)
    encoding = world.Encoding(columns=columns, label=case.label, classes=case.classes)
    rows = [world.cast_rows(part, encoding) for part in (case.private, case.known, case.test)]
    return Coded(
        case,
        encoding,
        Parts(*(world.encode(part, encoding) for part in rows)),
        Parts(*(part[world.LABEL].to_numpy().astype(np.int64) for part in rows)),
        public=rows[1],
        private=rows[0],
        test=rows[2],
    )


def columns_of(rows: pl.DataFrame, schema: world.TableSchema | None) -> tuple[world.Column, ...]:
    """What public rows teach of their columns, or synthetic ones of a schema."""
    with tempfile.TemporaryDirectory() as folder:
        rows.write_parquet(f"{folder}/public.parquet")
        table = world.open_public(f"{folder}/public.parquet")
        columns = world.learn_columns(table, table.names)
    return columns if schema is None else world.as_declared(columns, schema)


class Drawn:
    """Fresh exact noise, and draws under a key of their own: the randomness of one session."""

    def __init__(self) -> None:
        self.key = secrets.token_bytes(32)

    def uniform(self, first: int, rows: int) -> NDArray[np.uint64]:
        return world.mechanisms_noise.keyed_draws(self.key, first, rows)

    def laplace(self, scale: float, size: int) -> Ints:
        return world.mechanisms_noise.laplace(scale, size)

    def gaussian(self, scale: float, size: int) -> Ints:
        return world.mechanisms_noise.gaussian(scale, size)

    def once(self, name: str, draw: Callable[[], Ints]) -> Ints:  # noqa: ARG002
        return draw()


@dataclass(frozen=True)
class Said:
    """Class probabilities of the test rows (rows, classes), and the same by the odds that the classes had before.

    chosen   the mechanism, if it was not asked for by name; or the views of a row that the rule would count
    ratio    R, by which that rule chooses
    """

    probabilities: Floats
    odds: Floats
    chosen: str | None = None
    ratio: float | None = None


def said(probabilities: Floats) -> Said:
    """What a model says; its prior is its mean on the rows it is asked about."""
    safe = np.clip(probabilities, 1e-9, 1)
    return Said(probabilities, np.log(safe) - np.log(safe.mean(axis=0)))


# Tallies --------------------------------------------------------------------------------------------------------------


def plan_of(data: Coded, epsilon: float, mechanism: str = world.TALLIES) -> world.Plan:
    """The plan whose tables these are, which states the number of private rows; for "auto", teachers may vote too."""
    case = data.case
    given = {"public": "public.parquet"} if case.schema is None else {"schema": case.schema}
    said: dict[str, Any] = {
        "data": {"private": "private.parquet", "label": case.label, **given},
        "privacy": {"domain": "rows", "epsilon": epsilon, "delta": case.delta},
        "labeling": {"mechanism": mechanism, "rows": len(data.labels.private)},
    }
    said["data"]["classes"] = list(case.classes)
    said["privacy"]["lifetime"] = {"epsilon": epsilon, "delta": case.delta}
    if mechanism != world.TALLIES:
        said["teachers"] = {"count": teachers_for(data), **world.PROPOSED.model_dump()}
        said["labeling"]["cutoff"] = CUTOFF
    if mechanism != world.TALLIES or any(isinstance(column, world.Passed) for column in data.encoding.columns):
        said["student"] = {"estimator": RIDGE}
    return world.parse_plan(said)


def learn(data: Coded, epsilon: float, mechanism: world.Tallies) -> world.RoundFile:
    """All rounds of tallies: what the last one's file would say."""
    codes, places = data.at(epsilon)
    public = data.public if world.deepens(codes) else None
    pairs = world.asks_pairs(plan_of(data, epsilon), codes)
    planner = world.RoundPlanner(mechanism, codes, places.public, public=public, pairs=pairs)
    return steps(data, planner, lambda asked: places.private if asked is codes else asked.of(data.private))[-1]


def steps(
    data: Coded, planner: world.RoundPlanner | world.SketchPlanner, rows: Callable[[world.Codes], world.CodeMatrix]
) -> list[world.RoundFile]:
    """All steps, each under fresh exact noise: what their files would say.

    rows   the private rows by the codes that a step asks about
    """
    source, released = Drawn(), list[world.RoundFile]()
    for number, each in enumerate(planner.mechanism.rounds):
        question, asked = planner.question(released), planner.codes_after(released)
        sums = planner.mechanism.release(number, world.tally(question, rows(asked), data.labels.private), source)
        follows = planner.follow(released, question, sums)
        now = {"question": question.record(), "scale": each.scale, "sums": sums.tolist(), "codes": asked}
        released.append({**now, **follows})
    return released


def tallies(data: Coded, epsilon: float, seed: int) -> Said:
    """The linear student; of lists, one that learns the inferred labels."""
    codes, places = data.at(epsilon)
    last = learn(data, epsilon, world.planned_tallies(plan_of(data, epsilon), codes, len(places.public)))
    decoded = world.Decoded.from_record(last["decoded"])
    if any(isinstance(field, world.VectorField) for field in codes.fields):
        rows = places.public if last["codes"] is codes else last["codes"].of(data.public)
        return taught(data, codes, world.scores(decoded, rows), seed)
    rows = last["codes"].completed(places.test)
    return Said(world.scores(decoded, rows), world.odds_scores(decoded, rows))


def sketched(data: Coded, epsilon: float) -> list[world.RoundFile]:
    """All steps of a sketch."""
    (grid, places), plan = data.at(epsilon), plan_of(data, epsilon)
    planner = world.SketchPlanner(world.planned_sketch(plan, grid), plan.data.sketched)
    return steps(data, planner, lambda asked: on_cells(places.private, grid, asked))


def on_cells(rows: world.CodeMatrix, grid: world.Codes, asked: world.Codes) -> world.CodeMatrix:
    """Codes of rows by their cells; the grid's own are the cells themselves."""
    return rows if asked == grid else world.recoded(rows, grid, asked)


def sketch(data: Coded, epsilon: float, seed: int) -> Said:  # noqa: ARG001
    """The linear student of synthetic rows, without a public one."""
    return decoded_student(data, epsilon, sketched(data, epsilon)[-1])


def decoded_student(data: Coded, epsilon: float, last: world.RoundFile) -> Said:
    """What the model says to which the last step of a sketch is decoded."""
    (grid, places), decoded = data.at(epsilon), world.Decoded.from_record(last["decoded"])
    rows = world.recoded(places.test, grid, last["codes"])
    return Said(world.scores(decoded, rows), world.odds_scores(decoded, rows))


def taught(data: Coded, codes: world.Codes, targets: Floats, seed: int) -> Said:
    """What a student says that learned those scores (rows, classes) of public rows: of pictures, networks of their
    gradients, else trees."""
    own = (
        world.Pictures(random_state=seed)
        if world.deepens(codes)
        else ExtraTreesRegressor(min_samples_leaf=2, random_state=seed)
    )
    student = world.ScoreClassifier(own, list(data.case.classes)).fit(data.encoded.public, targets)
    return said(student.predict_proba(data.encoded.test))


def auto(data: Coded, epsilon: float, seed: int) -> Said | str:
    """What mechanism = "auto" stands for, run."""
    chosen = world.decided(plan_of(data, epsilon, "auto"), data.encoding)[0].labeling.mechanism
    return replace((tallies if chosen == world.TALLIES else voted(chosen))(data, epsilon, seed), chosen=chosen)


# Votes ----------------------------------------------------------------------------------------------------------------


def teachers_for(data: Coded) -> int:
    """How many: each gets about ROWS_A_TEACHER rows."""
    return min(MOST, max(FEWEST, len(data.labels.private) // ROWS_A_TEACHER))


def votes_of(data: Coded, seed: int, teachers: world.TeachersPlan | None = None) -> Ints:
    """Votes (public rows, classes) of the teachers that `concord init` proposes, on shards drawn by `seed`."""
    if teachers is None:
        teachers = world.TeachersPlan(count=teachers_for(data), **world.PROPOSED.model_dump())
    shards = np.random.default_rng(seed).integers(0, teachers.count, len(data.labels.private))
    order = np.argsort(shards, kind="stable")
    bounds = np.searchsorted(shards[order], np.arange(teachers.count + 1))
    counts = np.zeros((len(data.labels.public), data.classes), dtype=np.uint32)
    with world.silenced():
        for shard in range(teachers.count):
            mine = order[bounds[shard] : bounds[shard + 1]]
            X, y = world.aligned_copy(data.encoded.private[mine]), world.aligned_copy(data.labels.private[mine])
            world.add_votes(counts, [world.fitted_teacher(teachers, shard, X, y, data.classes)], data.encoded.public)
    return counts.astype(np.int64)


def voted(name: str) -> Callable[[Coded, float, int], Said]:
    """What a student of that mechanism's answers says: of noisy counts a ridge regression, else a logistic one, as
    `concord init` proposes."""

    def run(data: Coded, epsilon: float, seed: int) -> Said:
        if seed not in data.votes:
            data.votes[seed] = votes_of(data, seed)
        return student(data, name, epsilon, data.votes[seed])

    return run


def student(data: Coded, name: str, epsilon: float, votes: Ints) -> Said:
    """What a student of the mechanism's answers to those votes says."""
    teachers = int(votes[0].sum())
    mechanism = world.calibrate(
        name,
        epsilon=epsilon,
        delta=data.case.delta,
        cutoff=CUTOFF,
        queries=len(votes),
        classes=data.classes,
        teachers=teachers,
        order=ORDER,
    )
    source: world.RandomSource = Drawn()
    answers = mechanism.release(votes, source, 0, 0)
    if mechanism.counts and answers.counts is not None:
        ridge = RidgeCV(alphas=ALPHAS).fit(data.encoded.public, answers.counts / teachers)
        return said(shares(ridge.predict(data.encoded.test)))
    answered = np.flatnonzero(answers.labels >= 0)
    return logistic(data.encoded.public[answered], answers.labels[answered], data.encoded.test, data.classes)


def shares(predicted: Floats) -> Floats:
    """Scores (rows, classes) as probabilities."""
    clipped = np.clip(predicted, 1e-9, None)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))


def logistic(X: world.Matrix | csr_matrix, y: Ints, test: world.Matrix | csr_matrix, classes: int) -> Said:
    """A logistic regression of those labels, or the only one there is."""
    found = np.zeros((test.shape[0], classes))
    names = np.unique(y)
    if len(names) < 2:
        found[:, names if len(names) else 0] = 1
    else:
        found[:, names] = LogisticRegression(max_iter=1000).fit(X, y).predict_proba(test)
    return said(found)


# For peers ------------------------------------------------------------------------------------------------------------


def inputs(data: Coded, epsilon: float) -> dict[str, NDArray[Any]]:
    """What `tests/benchmarks/peers.py` reads: codes by field, numbers as they are encoded, and their public bounds."""
    (codes, places), numbers, bounds, start = data.at(epsilon), [], [], 0
    for column in data.encoding.columns:
        if isinstance(column, world.Scaled):
            numbers.append(start)
            bounds.append([(edge - column.mean) / column.scale for edge in (column.low, column.high)])
        start += column.width
    coarse = list(codes.coarse)
    starts = np.array([codes.span(at).start for at in coarse])
    made: dict[str, NDArray[Any]] = {
        "sizes": np.array([codes.fields[at].size for at in coarse]),
        "is_number": np.array([isinstance(codes.fields[at], world.NumberField) for at in coarse]),
        "bounds": np.array(bounds).reshape(-1, 2),
        "classes": np.array(data.classes),
        "delta": np.array(data.case.delta),
    }
    for part in ("private", "test"):
        made[f"{part}_codes"] = getattr(places, part)[:, coarse] - starts
        made[f"{part}_numbers"] = getattr(data.encoded, part)[:, numbers].astype(np.float64)
        made[f"{part}_labels"] = getattr(data.labels, part)
    return made


VOTES = ("stable", "noisy_votes", "confident", "laplace_votes")
OURS: Mapping[str, Callable[[Coded, float, int], Said | str]] = {
    "auto": auto,
    "tallies": tallies,
    "sketch": sketch,
    **{name: voted(name) for name in VOTES},
}
