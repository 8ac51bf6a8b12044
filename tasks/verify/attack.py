"""Attack sessions of a plan on simulated data, to show what its guarantee means: membership inference.

    public rows, synthetic labels ─ stand-in private rows ─┬─ with a target    ─ a session as it runs ─┐
                                                           └─ without it       ─ another              ─┴─ which was it?

Each of many shadow sessions has some targets, at random, and leaves out the others. Two attackers try to tell which:
one sees all that was released and knows all private rows but one target; the other sees the student alone. Targets have
their least likely labels, since those stand out. If labels alone are secret, a target that is left out is there with
another label.

Of a plan that declares a schema, plausible rows of the schema take the place of public ones.

Assumes      plan, and public rows or the schema, are public
Guarantees   nothing private is read and nothing is charged. Sums, votes, noise, decoder and student are the
             code that runs
Not covered  other attacks, other rows and other targets: it illustrates the bound, and the proof is what protects.
             Units are single rows. Wide tables, and sketches of more than SKETCHED columns, are attacked by some of
             their columns, as they are rehearsed
             Checked by tests/tasks/verify/test_attack.py, where a session without noise is seen
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.plan import Plan
from concord.artifacts.table_schema import varies
from concord.tasks.advice.choose import PublicFacts
from concord.tasks.advice.rehearse_sketch import SketchStage
from concord.tasks.advice.rehearse_tallies import SumsStage, TalliesStage, within_work
from concord.tasks.advice.synthetic_labels import typical_truth
from concord.tasks.advice.tallies import learning_units, planned_tallies, read_at_end
from concord.tasks.asking.teachers import add_votes, aligned_copy, fitted_teacher
from concord.tasks.data.codes import CodeMatrix, Codes
from concord.tasks.data.guard import silenced
from concord.tasks.data.matrix import encode
from concord.tasks.mechanisms.contributions import RoundQuestion, tally
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student.study import fitted
from concord.tasks.verify.audit import Fresh

STAND_INS = 4_000
"""Most private rows that are made up."""
TARGETS = 32
"""Rows that a session may have or not."""
WORK = 1e9
"""Most work of decoding a session, as computed by `rehearse_tallies.work`."""
SKETCHED = 6
"""Most columns of a sketch, whose tables are asked and fitted anew in each session."""
SHARD_ROWS = 30
"""Rows of a shard, if the plan does not say how many units there are."""
FEW_WRONG = 0.01
"""False-positive rate at which true positives are counted."""
FOLDS = 10
"""Parts of the sessions from whose differences an error is estimated."""
LEAST_SESSIONS = 2 * FOLDS
CERTAIN = 1e-9
"""Least distance of a probability from 0 and 1."""


@dataclass(frozen=True)
class Leak:
    """One attacker's success: scores (sessions, targets), higher if the target seems to be there, and whether it is."""

    attacker: str
    scores: Floats
    there: Any

    @property
    def auc(self) -> float:
        """The probability that a target in the data scores higher than one that was left out."""
        return _auc(self.scores, self.there)

    @property
    def error(self) -> float:
        """Standard error of the AUC, by parts of the sessions: scores of one session are not independent."""
        parts = zip(np.array_split(self.scores, FOLDS), np.array_split(self.there, FOLDS), strict=True)
        return float(np.std([_auc(*part) for part in parts], ddof=1)) / math.sqrt(FOLDS)

    def true_positive_rate(self, wrong: float = FEW_WRONG) -> float:
        """The true-positive rate at a false-positive rate of `wrong`."""
        return float(np.mean(self.scores[self.there] > np.quantile(self.scores[~self.there], 1 - wrong)))

    @property
    def curve(self) -> tuple[Floats, Floats]:
        """Shares of false and of true positives at all thresholds."""
        order = np.argsort(-self.scores, axis=None)
        hits = self.there.ravel()[order]
        return np.cumsum(~hits) / max(1, (~hits).sum()), np.cumsum(hits) / max(1, hits.sum())


@dataclass(frozen=True)
class AttackResult:
    """Attacks on shadow sessions of one guarantee, with `rows` stand-in rows and `columns` of the plan's `of`."""

    guarantee: Guarantee
    leaks: tuple[Leak, ...]
    rows: int
    columns: int
    of: int

    @property
    def holds(self) -> bool:
        """Whether no attacker is clearly above the bound: by three standard errors."""
        return all(leak.auc - 3 * leak.error <= self.guarantee.largest_auc for leak in self.leaks)

    def record(self) -> dict[str, Any]:
        """As JSON, in the form of SACRO-ML's reports of attacks; it has no time, since no clock is read."""
        sessions, targets = self.leaks[0].scores.shape
        bound = {"AUC": self.guarantee.largest_auc, f"TPR@{FEW_WRONG}": self.guarantee.most_found(FEW_WRONG)}
        params = {"sessions": sessions, "targets": targets, "stand_in_rows": self.rows}
        return {
            "metadata": {
                "attack_name": "membership inference on shadow sessions of simulated data",
                "attack_params": {**params, "columns": self.columns, "of_columns": self.of},
                "global_metrics": {
                    "epsilon": self.guarantee.epsilon,
                    "delta": self.guarantee.delta,
                    "bound": bound,
                    "holds": self.holds,
                },
            },
            "attack_experiment_logger": {
                "attack_instance_logger": {
                    f"instance_{at}": {
                        "attacker": leak.attacker,
                        "AUC": leak.auc,
                        "AUC_error": leak.error,
                        f"TPR@{FEW_WRONG}": leak.true_positive_rate(),
                    }
                    for at, leak in enumerate(self.leaks)
                }
            },
        }


def attack(plan: Plan, guarantee: Guarantee, mechanism: Mechanism | None, sessions: int = 100) -> AttackResult:
    """Attack that many shadow sessions of a plan, half of them with each target.

    mechanism   what answered votes; None for tallies, which follow from the plan
    Raises WrongInput if sessions are too few, or if the plan asks neither for tallies nor for votes.
    """
    if sessions < LEAST_SESSIONS:
        raise WrongInput(f"--sessions must be at least {LEAST_SESSIONS}, got {sessions}")
    if mechanism is None and learning_units(plan) is None:
        raise WrongInput("attack knows sessions of votes and of tallies, whose plan says labeling.rows")
    if plan.data.declared is not None:
        sketched = SketchStage.of(plan, 0, SKETCHED)
        of = sum(map(varies, plan.data.sketched.columns))
        return on_sums(sketched, guarantee, sessions, units=sketched.units, of=of)
    public = PublicFacts.of(plan)
    if mechanism is not None:
        return _on_votes(plan, guarantee, mechanism, public, sessions)
    codes, units = public.codes(plan), learning_units(plan)
    whole = read_at_end(planned_tallies(plan, codes, public.rows))
    kept, rows = within_work(whole, codes, codes.of(public.sample), WORK)
    of_labels = [each.fields for each in whole.rounds if each.what == "labels"]
    used = (
        whole
        if kept is codes
        else read_at_end(planned_tallies(plan, kept, public.rows, (len(of_labels), of_labels[-1])))
    )
    stage = TalliesStage.on(used, kept, rows)
    return on_sums(stage, guarantee, sessions, units=units, of=len(codes.coarse))


def on_sums(
    stage: SumsStage, guarantee: Guarantee, sessions: int, *, units: float | None = None, of: int = 0
) -> AttackResult:
    """Attack the sums of a stage, with synthetic labels of its rows."""
    mechanism, rng = stage.mechanism, np.random.default_rng(2)
    private, labels, others, truth = _stand_ins(mechanism, stage.codes, stage.rows, units, rng)
    targets, base = private[:TARGETS], private[TARGETS:]
    there = rng.random((sessions, TARGETS)) < 1 / 2
    source, known = Fresh(sessions, 1), np.zeros((len(mechanism.rounds), *there.shape))
    seen = np.zeros(there.shape)
    for session, present in enumerate(there):
        source.next_trial()

        def noisy(
            number: int, asked: RoundQuestion, codes: Codes, present: Any = present, session: int = session
        ) -> Ints:
            rows = stage.coded(codes)
            one = [tally(asked, rows[[row]], labels[[at]]) for at, row in enumerate(targets)]
            none = [_left_out(mechanism, asked, rows[[row]], others[[at]]) for at, row in enumerate(targets)]
            told = np.where(present[:, None], one, none)
            exact = tally(asked, rows[base], labels[TARGETS:]) + told.sum(axis=0)
            released = mechanism.release(number, exact, source)
            moved, noise = np.array(one) - np.array(none), (released - exact).astype(np.float64)
            square, along = (moved.astype(np.float64) ** 2).sum(axis=1), moved @ noise
            odds = np.where(present, along + square / 2, along - square / 2) / mechanism.rounds[number].scale ** 2
            known[number, session] = odds
            return released

        given = stage.decoded(mechanism, len(private), noisy)[targets]
        seen[session] = _sure(given, labels[:TARGETS], truth, mechanism.classes)
    knows, steps = "knows all but the targets, and sees the sums", range(len(known))
    of_steps = [Leak(f"{knows} of step {number + 1} alone", known[number], there) for number in steps]
    leaks = (
        Leak(f"{knows} that the student is decoded from", known.sum(axis=0), there),
        Leak("sees the student", *_apart(seen, there)),
        max(of_steps, key=lambda leak: leak.auc),  # beside the others' noise, a step without any would go unseen
    )
    columns = len(stage.codes.coarse)
    return AttackResult(guarantee, leaks, len(private), columns, of or columns)


def _stand_ins(
    mechanism: Tallies, codes: Codes, rows: CodeMatrix, units: float | None, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints, Floats]:
    """Private rows as places among public ones, the targets first; their labels; other labels of the targets; and the
    place of a number, if labels are numbers."""
    classes = mechanism.classes or 2
    chances = typical_truth(codes, rows, [1 / classes] * classes, rng)
    private = rng.integers(0, len(rows), TARGETS + round(min(units or STAND_INS, STAND_INS)))
    if not mechanism.classes:
        place = np.rint(mechanism.steps * chances[private, 1]).astype(np.int64)
        place[:TARGETS] = np.where(place[:TARGETS] < mechanism.steps / 2, mechanism.steps, 0)
        return private, place, mechanism.steps - place[:TARGETS], place[:TARGETS] / mechanism.steps
    drawn = (rng.random((len(private), 1)) > chances[private].cumsum(axis=1)).sum(axis=1)
    labels: Ints = np.minimum(drawn, classes - 1).astype(np.int64)
    labels[:TARGETS] = chances[private[:TARGETS]].argmin(axis=1)
    return private, labels, chances[private[:TARGETS]].argmax(axis=1), chances


def _left_out(mechanism: Tallies, asked: RoundQuestion, row: CodeMatrix, other: Ints) -> Ints:
    """What a target adds that is not there: nothing, or if labels alone are secret, what it adds with another label."""
    return tally(asked, row, other) if mechanism.secret == "labels" else np.zeros(asked.size, np.int64)


def _sure(given: Floats, labels: Ints, truth: Floats, classes: int) -> Floats:
    """The student's log-odds of the targets' labels; for numbers, how near its predictions are."""
    if not classes:
        return -np.abs(given[:, 1] - truth)
    own = np.clip(given[np.arange(len(labels)), labels], CERTAIN, 1 - CERTAIN)
    return np.asarray(np.log(own) - np.log1p(-own))


def _apart(seen: Floats, there: Any) -> tuple[Floats, Any]:
    """Scores (sessions, targets), those of each target with mean 0 and deviation 1: one threshold serves all."""
    return (seen - seen.mean(axis=0)) / np.maximum(seen.std(axis=0), CERTAIN), there


def _on_votes(
    plan: Plan, guarantee: Guarantee, mechanism: Mechanism, public: PublicFacts, sessions: int
) -> AttackResult:
    """Attack votes of teachers, trained on shards of stand-in rows."""
    rng, classes, shards = np.random.default_rng(2), plan.data.classes, plan.teachers.count
    codes, X = public.codes(plan), encode(public.sample, public.encoding)
    chances = typical_truth(codes, codes.of(public.sample), [1 / len(classes)] * len(classes), rng)
    at: Ints = rng.integers(0, len(X), min(TARGETS, shards))
    votes, both = _cast(plan, X, chances, at, rng)
    there = rng.random((sessions, len(at))) < 1 / 2
    source, known, seen = Fresh(sessions, len(X)), np.zeros(there.shape), np.zeros(there.shape)
    for session, present in enumerate(there):
        source.next_trial()
        cast = votes + np.where(present[:, None, None], both[1], both[0]).sum(axis=0)
        said = mechanism.release(cast, source, 0, 0).labels
        rows, kept = np.flatnonzero(said >= 0), said[said >= 0]
        known[session] = (both[1] - both[0])[:, rows, kept].sum(axis=1)
        model = fitted(plan.student, X[rows], np.eye(len(classes))[kept], classes)
        seen[session] = _sure(_chances(model, X[at], classes), chances[at].argmin(axis=1), chances, len(classes))
    leaks = (
        Leak("sees the released labels, and knows how each target sways votes", *_apart(known, there)),
        Leak("sees the student", *_apart(seen, there)),
    )
    return AttackResult(guarantee, leaks, shards * _shard_rows(plan), len(codes.coarse), len(codes.coarse))


def _shard_rows(plan: Plan) -> int:
    """Stand-in rows of a shard."""
    units = learning_units(plan)
    return SHARD_ROWS if units is None else max(1, min(round(units / plan.teachers.count), STAND_INS // 10))


def _cast(plan: Plan, X: Any, chances: Floats, at: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Votes (rows, classes) of the shards without a target, and of each shard with one (2, targets, rows, classes):
    without it, and with it. The targets are the rows `at`, each in a shard of its own."""
    classes, size = chances.shape[1], _shard_rows(plan)
    votes, both = np.zeros((len(X), classes), np.int64), np.zeros((2, len(at), len(X), classes), np.int64)

    def of_teacher(shard: int, rows: Ints, given: Ints) -> Ints:
        found = np.zeros((len(X), classes), np.uint32)
        add_votes(found, [fitted_teacher(plan.teachers, shard, aligned_copy(X[rows]), given, classes)], X)
        return found.astype(np.int64)

    with silenced():
        for shard in range(plan.teachers.count):
            rows: Ints = rng.integers(0, len(X), size)
            drawn = (rng.random((size, 1)) > chances[rows].cumsum(axis=1)).sum(axis=1)
            given: Ints = np.minimum(drawn, classes - 1).astype(np.int64)
            if shard >= len(at):
                votes += of_teacher(shard, rows, given)
                continue
            target, odds = at[[shard]], chances[at[shard]]
            with_it = np.append(rows, target), np.append(given, odds.argmin())
            left_out = (rows, given) if plan.privacy.secret == "rows" else (with_it[0], np.append(given, odds.argmax()))
            both[0, shard], both[1, shard] = of_teacher(shard, *left_out), of_teacher(shard, *with_it)
    return votes, both


def _chances(model: Any, X: Any, classes: tuple[str, ...]) -> Floats:
    """Probabilities (rows, classes); certain ones of a student that gives none."""
    found = np.zeros((len(X), len(classes)))
    if hasattr(model, "predict_proba"):
        found[:, [classes.index(str(name)) for name in model.classes_]] = model.predict_proba(X)
    else:
        found[np.arange(len(X)), [classes.index(str(name)) for name in model.predict(X)]] = 1
    return found


def _auc(scored: Floats, there: Any) -> float:
    """AUC by the sum of ranks (Mann & Whitney); 0.5 if one side is empty."""
    from scipy.stats import rankdata

    inside, outside = int(there.sum()), int((~there).sum())
    if not inside or not outside:
        return 1 / 2
    ranks = rankdata(scored, axis=None).reshape(scored.shape)
    return (float(ranks[there].sum()) - inside * (inside + 1) / 2) / (inside * outside)
