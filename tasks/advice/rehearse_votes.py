"""Rehearse votes: what an ensemble of teachers would teach, on public rows with synthetic labels.

    private rows of synthetic labels ─ teachers ─ votes on public rows ─ mechanism ─ student ─ scores of the public rows

Teachers, mechanism and student are the code that runs, with the plan's settings; `rehearse` has the labels and the
measures. Noise is NumPy's, so that results repeat: nothing here is private.

Hundreds of teachers on large shards would take minutes. So MOST_TRAINED teachers are trained at most, fewer if a fit is
much work, on MOST_SHARD rows each at most; each casts the votes of an equal part of the ensemble. At most MOST_ASKED
rows are asked. The expectation says how many of each there were.

Assumes      plan, public rows and class shares are public
Guarantees   nothing private is read and nothing is charged
Not covered  how [relabel] changes labels; students that are chosen among hypotheses;
             teachers of free text alone. Teachers see some of the rows that they vote on, with other labels.
             Checked by tests/tasks/advice/test_rehearse.py
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from concord.artifacts.home.released import labels_table
from concord.artifacts.learners import StudentPlan, TeachersPlan
from concord.artifacts.plan import Plan
from concord.tasks.advice.expectation import Expectation, SimulatedNoise, expectation
from concord.tasks.advice.planned import PlannedVotes
from concord.tasks.advice.public_facts import PublicFacts
from concord.tasks.advice.rehearse import (
    SIGNALS,
    Ahead,
    Stage,
    assumed_shares,
    labels_of,
    rehearse_classes,
    typical_truth,
)
from concord.tasks.data.matrix import Matrix, encode
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.student.evaluate import class_probabilities
from concord.tasks.student.study import SEED, fitted, lessons
from concord.tasks.units.guard import silenced
from concord.tasks.units.linear import is_linear
from concord.tasks.units.teachers import aligned_copy, fitted_teacher, read_only

DRAWS = tuple(product(SIGNALS, range(2)))
"""Strengths of the signal in the synthetic labels, each with the numbers of its draws of labels and noise."""
MOST_TRAINED, MOST_NOT_LINEAR, LEAST_TRAINED = 200, 40, 25
"""Most teachers that are trained, most that are not linear, and least however much work one is."""
MOST_WORK = 5e7
"""Most cells of all shards, times classes, if more than LEAST_TRAINED teachers are trained."""
MOST_SHARD = 1_000
"""Most rows of a shard."""
USUAL_SHARD = 100
"""Rows of a shard if the plan does not state the number of private units."""
MOST_ASKED = 20_000
"""Most public rows that are asked."""


@dataclass(frozen=True, kw_only=True)
class VotesStage(Stage):
    """An ensemble of `trained` teachers, on `size` rows each, and what its votes pass.

    X      the rows as a matrix (m, width)
    names  of the classes
    asked  number of public rows that are asked
    """

    X: Matrix
    teachers: TeachersPlan
    trained: int
    size: int
    names: Sequence[str]
    asked: int
    student: StudentPlan
    mechanism: Mechanism

    @classmethod
    def of(cls, plan: Plan, public: PublicFacts, planned: PlannedVotes) -> "VotesStage":
        """The ensemble of a plan as far as the bounds of work allow, with the rows of a teacher that are planned if
        their number is known, and its first student."""
        codes, names, X = public.codes(plan), plan.data.classes, encode(public.sample, public.encoding)
        size = USUAL_SHARD if planned.shard is None else max(1, min(MOST_SHARD, round(planned.shard)))
        most = MOST_TRAINED if is_linear(plan.teachers) else MOST_NOT_LINEAR
        able = int(MOST_WORK // (size * max(1, X.shape[1]) * len(names)))
        return cls(
            codes=codes,
            rows=codes.of(public.sample),
            classes=len(names),
            X=X,
            teachers=plan.teachers,
            trained=min(plan.teachers.count, most, max(LEAST_TRAINED, able)),
            size=size,
            names=names,
            asked=min(planned.queries, MOST_ASKED),
            student=plan.student,
            mechanism=planned.mechanism,
        )

    def private(self, rng: np.random.Generator) -> Ints:
        """The rows of all shards, one shard after the other."""
        return rng.integers(0, len(self.X), self.trained * self.size)

    def votes(self, private: Ints, labels: Ints) -> Ints:
        """Votes (m, C) of all teachers on the rows, once they have learned the labels of those that are `private`."""
        counts, every = np.zeros((len(self.X), self.classes), np.int64), np.arange(len(self.X))
        shards = zip(np.split(private, self.trained), np.split(labels, self.trained), strict=True)
        with silenced():
            for shard, (rows, labels_of_shard) in enumerate(shards):
                X, y = aligned_copy(self.X[rows]), aligned_copy(labels_of_shard)
                teacher = fitted_teacher(self.teachers, shard, X, y, self.classes)
                stands_for = self.teachers.count // self.trained + (shard < self.teachers.count % self.trained)
                counts[every, teacher.votes(read_only(self.X), self.classes)] += stands_for
        return counts

    def learned(self, private: Ints, labels: Ints, rng: np.random.Generator) -> Floats:
        """The probabilities (m, C) that the student gives the rows, or 1 for its class if it gives none."""
        X, voters, votes, rows = self.X, self.teachers.count, self.votes(private, labels), np.arange(len(self.X))
        queried = rows[: self.asked] if self.asked <= len(rows) else rng.integers(0, len(rows), self.asked)
        answers = self.mechanism.release(votes[queried][: self.mechanism.queries], SimulatedNoise(rng), 0, 0)
        released = labels_table(range(len(queried)), answers.labels, answers.counts, self.names, {"session": ""})
        used, targets = lessons(released, self.names, self.student.refused, teachers=voters, seed=SEED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of too few iterations, on labels that noise has changed
            model = fitted(self.student, X[queried[used]], targets, self.names)
        odds = class_probabilities(model, X, self.names)
        if odds is not None:
            return odds
        return np.asarray(model.predict(X)[:, None] == np.array(self.names), np.float64)


def expected_answers(plan: Plan, public: PublicFacts, planned: PlannedVotes) -> Expectation | None:
    """What to expect of the planned mechanism on votes of simulated teachers, with synthetic labels of a typical
    signal; None if no feature has codes, since then there are none."""
    stage, rng = VotesStage.of(plan, public, planned), np.random.default_rng(1)
    if not stage.codes.fine:
        return None
    truth = typical_truth(stage.codes, stage.rows, public.shares or assumed_shares(stage.classes, 0).tolist(), rng)
    private = stage.private(rng)
    votes = stage.votes(private, labels_of(private, truth, rng)).astype(np.float64)
    return expectation(planned.mechanism, -np.sort(-votes, axis=1), planned.queries)


@dataclass(frozen=True, kw_only=True)
class VotesAhead(Ahead):
    """What to expect of votes by a mechanism.

    trained    teachers that were trained in place of all, on `shard` rows each
    asked      public rows in the simulated query
    """

    trained: int
    shard: int
    asked: int


def expect_votes(
    plan: Plan, public: PublicFacts, planned: PlannedVotes, draws: Sequence[tuple[str, int]] = DRAWS
) -> VotesAhead | None:
    """What to expect if the votes of a plan pass its mechanism; None if no student is fitted, or if no feature has
    codes: then there are no synthetic labels."""
    if plan.student.learner != "fitted" or not public.codes(plan).fine:
        return None
    stage = VotesStage.of(plan, public, planned)
    rehearsed = [rehearse_classes(signal, stage, draw, public.shares) for signal, draw in draws]
    size, trained, voters = stage.size, stage.trained, planned.teachers
    who = f"{trained:,} of {voters:,} teachers" if trained < voters else "all teachers"
    stated = " (labeling.rows is not stated)" if planned.shard is None else ""
    by = f"; simulated by {who}, on {size:,} rows each{stated}, which label {stage.asked:,} of {planned.queries:,} rows"
    expected = Ahead.of(plan.data.classes, rehearsed, more=by)
    return VotesAhead(**vars(expected), trained=trained, shard=size, asked=stage.asked)
