"""Membership inference on shadow sessions of simulated data: what is seen stays below the bound, and a leak is seen.

    public rows, synthetic labels ─ stand-in private rows ─┬─ with a target    ─ a session as it runs ─┐
                                                           └─ without it       ─ another              ─┴─ which was it?

Each session has some targets, at random, and leaves out the others. One attacker sees all that was released and knows
all private rows but one target; another sees the student alone. Targets have their least likely labels, since those
stand out. If labels alone are secret, a target that is left out is there with another label.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests import world
from tests.privacy.audit import Fresh
from tests.support.people import tables_of_plan, write_tables

EPSILON, DELTA = 1.0, 1e-5
BOUND = 1 - (1 - DELTA) ** 2 / (1 + math.exp(EPSILON))
"""The largest AUC of any test of membership: the area under the trade-off curve of (ε, δ)."""
SESSIONS, TARGETS, STAND_INS, SHARD_ROWS = 20, 32, 300, 30


def holds(scores: world.Floats, there: Any) -> bool:
    """Whether an attacker is not above the bound by more than three standard errors, taken over parts of the sessions:
    scores of one session are not independent."""
    parts = zip(np.array_split(scores, 10), np.array_split(there, 10), strict=True)
    error = np.std([auc(*part) for part in parts], ddof=1) / math.sqrt(10)
    return bool(auc(scores, there) - 3 * error <= BOUND)


def auc(scores: world.Floats, there: Any) -> float:
    return float(roc_auc_score(there.ravel(), scores.ravel()))


def likelier(given: world.Floats, labels: world.Ints) -> world.Floats:
    """The student's log-odds of the targets' labels."""
    own = np.clip(given[np.arange(len(labels)), labels], 1e-9, 1 - 1e-9)
    return np.asarray(np.log(own) - np.log1p(-own))


def alike(seen: world.Floats) -> world.Floats:
    """Scores (sessions, targets), those of each target with mean 0 and deviation 1: one threshold serves all."""
    return np.asarray((seen - seen.mean(axis=0)) / np.maximum(seen.std(axis=0), 1e-9))


def on_sums(stage: world.SumsStage) -> tuple[world.Floats, world.Floats, Any]:
    """Scores from the sums of each step (steps, sessions, targets), scores from the student, and which were there."""
    mechanism, rng = stage.mechanism, np.random.default_rng(2)
    chances = world.typical_truth(stage.codes, stage.rows, [1 / mechanism.classes] * mechanism.classes, rng)
    private: world.Ints = rng.integers(0, len(stage.rows), TARGETS + STAND_INS)
    labels: world.Ints = (
        (rng.random((len(private), 1)) > chances[private].cumsum(axis=1)[:, :-1]).sum(axis=1).astype(np.int64)
    )
    targets, base, others = private[:TARGETS], private[TARGETS:], chances[private[:TARGETS]].argmax(axis=1)
    labels[:TARGETS] = chances[targets].argmin(axis=1)
    there = rng.random((SESSIONS, TARGETS)) < 1 / 2
    source, known, seen = Fresh(SESSIONS, 1), np.zeros((len(mechanism.rounds), *there.shape)), np.zeros(there.shape)
    for session, present in enumerate(there):
        source.next_trial()

        def noisy(
            number: int, asked: world.RoundQuestion, codes: world.Codes, present: Any = present, session: int = session
        ) -> world.Ints:
            rows = stage.coded(codes)
            one = np.array([world.tally(asked, rows[[row]], labels[[at]]) for at, row in enumerate(targets)])
            none = np.array([world.tally(asked, rows[[row]], others[[at]]) for at, row in enumerate(targets)])
            none *= mechanism.secret == "labels"
            exact = world.tally(asked, rows[base], labels[TARGETS:]) + np.where(present[:, None], one, none).sum(axis=0)
            released = mechanism.release(number, exact, source)
            square = ((one - none).astype(np.float64) ** 2).sum(axis=1)
            along = (one - none) @ (released - exact).astype(np.float64)
            odds = np.where(present, along + square / 2, along - square / 2)
            known[number, session] = odds / mechanism.rounds[number].scale ** 2
            return released

        seen[session] = likelier(stage.decoded(mechanism, len(private), noisy)[targets], labels[:TARGETS])
    return known, alike(seen), there


def stands(stage: world.SumsStage) -> bool:
    """Whether no attacker is above the bound; beside the noise of others, a step without any would go unseen."""
    known, seen, there = on_sums(stage)
    return all(holds(scores, there) for scores in (known.sum(axis=0), seen, *known))


def without_noise(stage: world.SumsStage) -> world.SumsStage:
    rounds = tuple(each.with_(scale=1.0) for each in stage.mechanism.rounds)
    return replace(stage, mechanism=stage.mechanism.with_(rounds=rounds))


def plan_of(folder: Path, **changes: Any) -> world.Plan:
    tables = tables_of_plan(write_tables(folder))
    tables["privacy"].update(epsilon=EPSILON, delta=DELTA, lifetime={"epsilon": 4.0, "delta": 4e-5})
    return world.parse_plan({**tables, **changes})


@pytest.mark.parametrize("secret", ["rows", "labels"])
def test_a_session_of_tallies_stays_below_its_bound_and_one_without_noise_is_seen(tmp_path: Path, secret: str) -> None:
    plan = plan_of(tmp_path, labeling={"mechanism": "auto", "rows": 3000}).naming("tallies")
    plan = plan.model_copy(update={"privacy": plan.privacy.model_copy(update={"secret": secret})})
    public = world.PublicFacts.of(plan)
    codes = public.codes(plan)
    mechanism = world.planned_tallies(plan, codes, public.rows)
    once = mechanism.with_(rounds=mechanism.rounds[: 1 if secret == "labels" else 2])
    stage = world.TalliesStage.planned(plan, once, codes, codes.of(public.sample), public.rows)
    assert stands(stage)
    known, _, there = on_sums(without_noise(stage))
    assert auc(known.sum(axis=0), there) > 0.999


@pytest.fixture
def sketch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> world.SketchStage:
    """What stands between the steps of a sketch is not attacked, takes most of the time, and is fitted roughly."""
    monkeypatch.setattr(world.student_synthetic, "UPDATES", 60)
    age = {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}}
    sex = {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}}
    data = {"private": "not there", "schema": {"fields": [age, sex]}, "label": "y", "classes": ["a", "b"]}
    plan = plan_of(tmp_path, data=data, labeling={"mechanism": "tallies", "rows": 3000}, teachers={})
    return world.SketchStage.of(plan, 0)


@pytest.mark.slow
def test_a_sketch_stays_below_its_bound_and_one_without_noise_is_seen(sketch: world.SketchStage) -> None:
    assert stands(sketch)
    known, _, there = on_sums(without_noise(sketch))
    assert auc(known.sum(axis=0), there) > 0.999


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 1, 4])
def test_a_step_of_a_sketch_without_noise_is_seen_beside_the_noise_of_all_others(
    sketch: world.SketchStage, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    noisy = world.Sketch.release

    def bare_once(self: world.Sketch, number: int, sums: world.Ints, source: Any) -> world.Ints:
        return sums.copy() if number == step else noisy(self, number, sums, source)

    monkeypatch.setattr(world.Sketch, "release", bare_once)
    known, _, there = on_sums(sketch)
    assert not holds(known[step], there)
    assert max(range(len(known)), key=lambda each: auc(known[each], there)) == step


def on_votes(plan: world.Plan, mechanism: world.StableVoting) -> tuple[world.Floats, world.Floats, Any]:
    """Scores from labels and how each target sways votes, scores from the student, and which were there."""
    rng, classes, public = np.random.default_rng(2), plan.data.classes, world.PublicFacts.of(plan)
    codes, X = public.codes(plan), world.encode(public.sample, public.encoding)
    chances = world.typical_truth(codes, codes.of(public.sample), [1 / len(classes)] * len(classes), rng)
    shards = plan.teachers.count
    both = np.zeros((2, shards, len(X), len(classes)), np.int64)  # of each shard, without its target and with it
    at: world.Ints = rng.integers(0, len(X), shards)
    least = chances[at].argmin(axis=1)
    with world.silenced():
        for shard in range(shards):
            rows: world.Ints = rng.integers(0, len(X), SHARD_ROWS)
            given = (rng.random((SHARD_ROWS, 1)) > chances[rows].cumsum(axis=1)[:, :-1]).sum(axis=1).astype(np.int64)
            for side, size in enumerate((SHARD_ROWS, SHARD_ROWS + 1)):
                own, said = np.append(rows, at[shard])[:size], np.append(given, least[shard])[:size]
                cast = np.zeros((len(X), len(classes)), np.uint32)
                teacher = world.fitted_teacher(plan.teachers, shard, world.aligned_copy(X[own]), said, len(classes))
                world.add_votes(cast, [teacher], X)
                both[side, shard] = cast
    there = rng.random((SESSIONS, shards)) < 1 / 2
    source, known, seen = Fresh(SESSIONS, len(X)), np.zeros(there.shape), np.zeros(there.shape)
    for session, present in enumerate(there):
        source.next_trial()
        released = mechanism.release(
            np.where(present[:, None, None], both[1], both[0]).sum(axis=0), source, 0, 0
        ).labels
        rows = np.flatnonzero(released >= 0)
        known[session] = (both[1] - both[0])[:, rows, released[rows]].sum(axis=1)
        model: Any = world.fitted(plan.student, X[rows], np.eye(len(classes))[released[rows]], classes)
        predicted = np.zeros((shards, len(classes)))
        predicted[:, [classes.index(str(name)) for name in model.classes_]] = model.predict_proba(X[at])
        seen[session] = likelier(predicted, least)
    return alike(known), alike(seen), there


def test_votes_stay_below_their_bound_and_votes_without_refusals_are_seen(tmp_path: Path) -> None:
    """A dozen teachers, each of few rows, of which one is the target; without refusals their votes tell."""
    tree = {"count": 12, "estimator": "sklearn.tree.DecisionTreeClassifier", "params": {"random_state": 0}}
    plan = plan_of(tmp_path, teachers=tree, labeling={"mechanism": "stable", "cutoff": 20})
    honest = world.calibrated_stable(epsilon=EPSILON, delta=DELTA, cutoff=20)
    known, seen, there = on_votes(plan, honest)
    assert holds(known, there)
    assert holds(seen, there)
    leaking, _, there = on_votes(plan, honest.with_(refusal=np.ones_like(honest.refusal), cutoff=10**6))
    assert auc(leaking, there) > auc(known, there) + 0.1
