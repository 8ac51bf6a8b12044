"""Attacks on sessions of made-up data: what is seen stays below the bound, and a leak would be seen."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.plan import Plan, parse_plan
from concord.tasks.advice.choose import PublicFacts
from concord.tasks.advice.rehearse_sketch import SketchStage
from concord.tasks.advice.rehearse_tallies import TalliesStage
from concord.tasks.advice.tallies import planned_tallies
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.publish.figures import attack_figure
from concord.tasks.student import synthetic
from concord.tasks.verify import attack as attacking
from concord.tasks.verify.attack import Leak, attack, on_sums
from tests.support.people import tables_of_plan, write_tables

EPSILON, DELTA = 1.0, 1e-5
GUARANTEE = Guarantee.at(EPSILON, DELTA, "one row", "add or remove one unit")


def plan_of(folder: Path, **changes: Any) -> Plan:
    tables = tables_of_plan(write_tables(folder))
    tables["privacy"].update(epsilon=EPSILON, delta=DELTA, lifetime={"epsilon": 4.0, "delta": 4e-5})
    tables["data"].update(private="not there")
    return parse_plan({**tables, **changes})


def tallied(folder: Path, secret: str = "rows") -> Plan:
    plan = plan_of(folder, labeling={"mechanism": "auto", "rows": 3000}).naming("tallies")
    return plan.model_copy(update={"privacy": plan.privacy.model_copy(update={"secret": secret})})


@pytest.mark.parametrize("secret", ["rows", "labels"])
def test_a_session_of_tallies_stays_below_its_bound_and_one_without_noise_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setattr(attacking, "STAND_INS", 300)
    plan = tallied(tmp_path, secret)
    public = PublicFacts.of(plan)
    codes = public.codes(plan)
    mechanism, rows = planned_tallies(plan, codes, public.rows), codes.of(public.sample)
    once = replace(mechanism, rounds=mechanism.rounds[:1] if secret == "labels" else mechanism.rounds[:2])
    honest = on_sums(TalliesStage.on(once, codes, rows), GUARANTEE, 20)
    assert honest.holds
    loud = replace(once, rounds=tuple(replace(each, scale=1.0) for each in once.rounds))
    leaking = on_sums(TalliesStage.on(loud, codes, rows), GUARANTEE, 20)
    assert not leaking.holds
    assert leaking.leaks[0].auc > 0.999
    assert leaking.leaks[0].true_positive_rate() > 0.99


def test_it_reads_nothing_private_and_says_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacking, "STAND_INS", 200)
    found = attack(tallied(tmp_path, "labels"), GUARANTEE, None, 20)  # its private table is not there
    record = json.loads(json.dumps(found.record()))
    assert found.holds
    metrics = record["metadata"]["global_metrics"]
    assert metrics["bound"]["AUC"] == pytest.approx(0.7311, abs=1e-3)
    assert metrics["bound"]["TPR@0.01"] == pytest.approx(0.0272, abs=1e-4)
    instances = record["attack_experiment_logger"]["attack_instance_logger"]
    assert [0 <= each["AUC"] <= 1 for each in instances.values()] == [True] * 3
    picture = attack_figure({leak.attacker: leak.curve for leak in found.leaks}, GUARANTEE)
    assert "no attack can pass" in picture
    with pytest.raises(WrongInput, match="--sessions must be at least 20"):
        attack(tallied(tmp_path / "again"), GUARANTEE, None, 19)


@pytest.fixture
def fitted_roughly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between the steps of a sketch is not attacked, and takes most of the time."""
    monkeypatch.setattr(attacking, "STAND_INS", 300)
    monkeypatch.setattr(synthetic, "UPDATES", 60)


def sketch_of(folder: Path) -> Plan:
    age = {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}}
    sex = {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}}
    data = {"private": "not there", "schema": {"fields": [age, sex]}, "label": "y", "classes": ["a", "b"]}
    return plan_of(folder, data=data, labeling={"mechanism": "tallies", "rows": 3000}, teachers={})


@pytest.mark.usefixtures("fitted_roughly")
def test_a_sketch_stays_below_its_bound_and_one_without_noise_is_seen(tmp_path: Path) -> None:
    plan = sketch_of(tmp_path)
    honest = attack(plan, GUARANTEE, None, 20)
    assert honest.holds
    assert (honest.columns, honest.of) == (2, 2)
    stage = SketchStage.of(plan, 0)
    rounds = tuple(replace(each, scale=1.0) for each in stage.mechanism.rounds)
    leaking = on_sums(replace(stage, mechanism=replace(stage.mechanism, rounds=rounds)), GUARANTEE, 20)
    assert not leaking.holds
    assert leaking.leaks[0].auc > 0.999


@pytest.mark.usefixtures("fitted_roughly")
@pytest.mark.parametrize("step", [0, 1, 4])
def test_a_step_of_a_sketch_without_noise_is_seen_beside_the_noise_of_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    noisy = Sketch.release

    def bare_once(self: Sketch, number: int, sums: Ints, source: Any) -> Ints:
        return sums.copy() if number == step else noisy(self, number, sums, source)

    monkeypatch.setattr(Sketch, "release", bare_once)
    leaking = attack(sketch_of(tmp_path), GUARANTEE, None, 20)
    assert not leaking.holds
    assert f"step {step + 1} alone" in leaking.leaks[-1].attacker


def test_votes_are_attacked_and_votes_without_noise_are_seen(tmp_path: Path) -> None:
    """Two teachers, each of few rows, of which one has the target; without refusals their votes tell."""
    tree = {"count": 12, "estimator": "sklearn.tree.DecisionTreeClassifier", "params": {"random_state": 0}}
    plan = plan_of(tmp_path, teachers=tree, labeling={"mechanism": "stable", "cutoff": 20})
    honest = attack(plan, GUARANTEE, StableVoting.calibrate(epsilon=EPSILON, delta=DELTA, cutoff=20), 20)
    assert honest.holds
    bare = StableVoting.calibrate(epsilon=EPSILON, delta=DELTA, cutoff=20)
    open_to_all = replace(bare, refusal=np.ones_like(bare.refusal), cutoff=10**6)
    leaking = attack(plan, GUARANTEE, open_to_all, 20)
    assert leaking.leaks[0].auc > honest.leaks[0].auc + 0.1


def test_scores_are_measured_as_the_field_does() -> None:
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(1)
    there = rng.random((40, 8)) < 1 / 2
    scores = rng.normal(size=there.shape) + there
    leak = Leak("x", scores, there)
    assert leak.auc == pytest.approx(roc_auc_score(there.ravel(), scores.ravel()))
    misses, hits = leak.curve
    assert (misses[-1], hits[-1]) == (1, 1)
    assert leak.true_positive_rate(0.5) == pytest.approx(hits[np.searchsorted(misses, 0.5)], abs=0.05)
    assert 0 < leak.error < 0.1
