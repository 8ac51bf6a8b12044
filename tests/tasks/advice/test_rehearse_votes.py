"""Rehearsals of votes: by every mechanism, within bounds that they state, with recall and AUC of each class."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.people import changed, tables_of_plan, write_tables
from tests.support.sentences import says
from tests.world import (
    LEAST_TRAINED,
    MECHANISMS,
    MOST_ASKED,
    MOST_NOT_LINEAR,
    MOST_SHARD,
    MOST_TRAINED,
    USUAL_SHARD,
    Codes,
    Plan,
    PublicFacts,
    SimulatedNoise,
    VotesAhead,
    VotesStage,
    advice_rehearse_votes,
    expect_votes,
    expected_answers,
)

LEARNERS: dict[str, dict[str, Any]] = {
    "probabilities": {"estimator": "sklearn.linear_model.LogisticRegression"},
    "scores": {"estimator": "sklearn.linear_model.Ridge", "refused": "soft"},
    "no probabilities": {"estimator": "sklearn.svm.LinearSVC", "refused": "drop"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data"))


@pytest.fixture
def few_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 150 teachers 30 are trained, who stand for all of them."""
    monkeypatch.setattr(advice_rehearse_votes, "MOST_TRAINED", 30)


def asked(folder: Path, mechanism: str = "noisy_votes", **changes: Any) -> Plan:
    """A plan for votes; its private table does not exist, for nothing may read it."""
    ends = {"cutoff": 12} if "cutoff" in MECHANISMS[mechanism] else {}
    sections = {name: changes.pop(name) for name in [*changes] if "__" not in name}
    tables = {**tables_of_plan(folder), "labeling": {"mechanism": mechanism, "rows": 6000, **ends}, **sections}
    return changed(tables, data__private="nowhere.parquet", privacy__large_delta=True, **changes)


def rehearsed(plan: Plan, **given: Any) -> VotesAhead:
    public = PublicFacts.of(plan)
    found = expect_votes(plan, public, public.votes(plan), **given)
    assert found is not None
    return found


@pytest.mark.usefixtures("few_trained")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_recall_and_auc_of_each_class_are_stated_whatever_answers(folder: Path, mechanism: str) -> None:
    found = rehearsed(asked(folder, mechanism), draws=[("typical", 0)])
    assert [each.name for each in found.classes] == ["no", "yes"]
    assert all(each.recall and each.auc and 0.3 < each.auc[0] <= 1 for each in found.classes)
    (each,) = found.rehearsed
    assert each.right <= each.possible + 1e-12
    total = sum(part.share * (part.recall or 0.0) for part in each.classes)
    assert total == pytest.approx(each.right, abs=0.02)


@pytest.mark.usefixtures("few_trained")
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_rehearsal_repeats_and_reads_no_private_table(folder: Path, learner: str) -> None:
    plan = asked(folder, student=LEARNERS[learner])
    assert not Path(plan.path("private")).exists()
    first = rehearsed(plan, draws=[("strong", 0)])
    assert first == rehearsed(plan, draws=[("strong", 0)])
    assert first.rehearsed[0].right > 0.85


def test_more_epsilon_teaches_more(folder: Path) -> None:
    lifetime: dict[str, Any] = {"privacy__lifetime": {"epsilon": 20.0, "delta": 4e-5}}
    little, much = (
        rehearsed(asked(folder, privacy__epsilon=epsilon, **lifetime), draws=[("typical", 0), ("typical", 1)])
        for epsilon in (0.05, 15.0)
    )
    assert much.feasible
    assert np.mean([each.right for each in little.rehearsed]) + 0.05 < np.mean([each.right for each in much.rehearsed])


@pytest.mark.parametrize(
    ("teachers", "rows", "trained", "shard"),
    [
        ({"count": 3}, 60, 3, 20),
        ({"count": 900}, 90_000, MOST_TRAINED, 100),
        ({"count": 90}, None, 90, USUAL_SHARD),
        ({"count": 900}, 9_000_000, MOST_TRAINED, MOST_SHARD),
        ({"count": 900, "estimator": "sklearn.tree.DecisionTreeClassifier"}, 90_000, MOST_NOT_LINEAR, 100),
    ],
)
def test_a_bounded_number_of_teachers_is_trained_and_it_says_so(
    folder: Path, teachers: dict[str, Any], rows: int | None, trained: int, shard: int
) -> None:
    plan = asked(folder, teachers=teachers, labeling__rows=rows, privacy__epsilon=1.0)
    found = rehearsed(plan, draws=[("weak", 0)])
    assert (found.trained, found.shard) == (trained, shard)
    few = f"by {trained} of {found.teachers} teachers" if trained < found.teachers else "by all teachers"
    assert f"{few}, on {shard:,} rows each{' (labeling.rows is not stated)' if rows is None else ''}" in found.reason


def test_votes_of_a_few_trained_teachers_are_those_of_all(folder: Path) -> None:
    plan = asked(folder, teachers__count=777)
    public = PublicFacts.of(plan)
    stage = VotesStage.of(plan, public, public.votes(plan))
    private = stage.private(np.random.default_rng(0))
    votes = stage.ensemble.votes(private, private % 2)
    assert (stage.ensemble.trained, votes.shape) == (MOST_TRAINED, (len(stage.rows), 2))
    assert set(votes.sum(axis=1)) == {777}


def test_rows_answered_are_those_of_simulated_teachers_with_rows_of_their_own(folder: Path) -> None:
    """More rows of a teacher agree more; without codes, such as of free text alone, there are no labels to simulate."""
    plan = asked(folder, "stable")
    public = PublicFacts.of(plan)
    few, many = (expected_answers(plan, public, replace(public.votes(plan), shard=rows)) for rows in (10, 500))
    assert few is not None
    assert many is not None
    assert few.answered < many.answered <= 300
    silent = replace(public, codes=lambda _: Codes(fields=(), coarse=(), fine=()))
    assert expected_answers(plan, silent, public.votes(plan)) is None


def test_much_work_trains_fewer_teachers_and_many_public_rows_are_not_all_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice_rehearse_votes, "MOST_WORK", 1)
    plan = asked(folder, labeling__queries=10**6)
    public = replace(PublicFacts.of(plan), rows=10**6)
    found = expect_votes(plan, public, public.votes(plan), draws=[("weak", 0)])
    assert found is not None
    assert (found.trained, found.queries, found.asked) == (LEAST_TRAINED, 10**6, MOST_ASKED)
    assert says(found.reason, f"{MOST_ASKED:,}", "1,000,000 rows")


def test_a_student_that_is_not_fitted_is_not_rehearsed(folder: Path) -> None:
    plan = asked(folder, student={"learner": "universal", "hypotheses": "stumps", "epsilon": 1.0})
    public = PublicFacts.of(plan)
    assert expect_votes(plan, public, public.votes(plan)) is None


@pytest.mark.parametrize("scale", [0.7, 30.0])
def test_simulated_noise_has_the_variance_of_what_is_drawn(scale: float) -> None:
    source = SimulatedNoise(np.random.default_rng(0))
    decay = np.exp(-1 / scale)
    assert np.var(source.laplace(scale, 200_000)) == pytest.approx(2 * decay / (1 - decay) ** 2, rel=0.03)
    assert np.var(source.gaussian(scale, 200_000)) == pytest.approx(scale**2 + 1 / 12, rel=0.03)
    draws = source.uniform(0, 100_000)
    assert draws.dtype == np.dtype(np.uint64)
    assert np.mean(draws / 2**64) == pytest.approx(0.5, abs=0.01)
