"""Rehearsals: one law of every kind of plan (it repeats, reads nothing private, exceeds nothing that is possible, and
follows ε and the number of units), and what each kind bounds and states.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.people import tables_of_plan, write_tables
from tests.support.sentences import says

Changes = dict[str, Any]
NUMBER: Changes = {"label": "size", "classes": None, "bounds": [-4.0, 4.0], "test": None}
RANGE = {"minimum": 0, "maximum": 1e6}
FIELDS: list[Changes] = [
    {"name": "wage", "type": "number", "constraints": RANGE},
    {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}},
    {"name": "since", "type": "date", "constraints": {"minimum": "1990-01-01", "maximum": "2030-12-31"}},
    {"name": "member", "type": "boolean"},
    {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}},
    {"name": "one", "type": "string", "constraints": {"enum": ["the only one"]}},
    {"name": "note", "type": "date"},
]
SKETCHED: Changes = {"public": None, "test": None, "unit": None, "features": None, "schema": {"fields": FIELDS}}
SHARES: Changes = {"shares": {"no": 0.7, "yes": 0.3}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One draw of sums; of 150 teachers 30 are trained, who stand for all of them."""
    for sums in (world.advice_rehearse_sketch, world.advice_rehearse_tallies):
        monkeypatch.setattr(sums, "DRAWS", 1)
    monkeypatch.setattr(world.advice_rehearse_votes, "MOST_TRAINED", 30)


def asked(
    folder: Path,
    epsilon: float = 1.0,
    rows: int | None = 6000,
    *,
    mechanism: str = "tallies",
    data: Changes | None = None,
    **sections: Changes,
) -> world.Plan:
    """A plan whose private table does not exist, for nothing may read it; `sections` are added to those it has."""
    tables = tables_of_plan(folder)
    ends = {"cutoff": 12} if "cutoff" in world.MECHANISMS.get(mechanism, ()) else {}
    tables["labeling"] = {"mechanism": mechanism, "rows": rows, **ends}
    lifetime = {"epsilon": 20.0, "delta": 1e-4}
    budget = {"epsilon": epsilon, "delta": min(1e-5, 0.1 / (rows or 1)), "lifetime": lifetime}
    tables["privacy"] = {**tables["privacy"], **budget}
    tables["data"] = {**tables["data"], "private": "nowhere.parquet", **(data or {})}
    if mechanism == "tallies":
        tables = {name: tables[name] for name in ("data", "privacy", "labeling", "folder")}
    for name, section in sections.items():
        tables[name] = {**tables.get(name, {}), **section}
    for name in ("data", "labeling"):
        tables[name] = {key: value for key, value in tables[name].items() if value is not None}
    return world.parse_plan(tables)


def foreseen(plan: world.Plan, *, draws: Sequence[tuple[str, int]] = (("typical", 0), ("strong", 0))) -> Any:
    """What is expected of the plan; `draws` are those of votes."""
    if plan.data.public is None:
        return world.expect_sketch(plan)
    public = world.PublicFacts.of(plan)
    if plan.tallied:
        return world.expect_tallies(plan, public)
    found = world.expect_votes(plan, public, public.votes(plan), draws=draws)
    assert found is not None
    return found


RIDGE = {"estimator": "sklearn.linear_model.Ridge", "refused": "soft"}
VECTOR = {"estimator": "sklearn.svm.LinearSVC", "refused": "drop"}
PLANS: dict[str, Callable[..., world.Plan]] = {
    "tallies": asked,
    "tallies of a number": partial(asked, data=NUMBER),
    "tallies of secret labels": partial(asked, privacy={"secret": "labels"}),
    "a sketch": partial(asked, data={**SKETCHED, **SHARES}),
    "a sketch of a number": partial(asked, data={**SKETCHED, "classes": None, "bounds": [0, 10]}),
    **{f"votes by {name}": partial(asked, mechanism=name) for name in world.MECHANISMS},
    "votes that teach scores": partial(asked, mechanism="noisy_votes", student=RIDGE),
    "votes that teach no probabilities": partial(asked, mechanism="noisy_votes", student=VECTOR),
}
MORE: dict[str, tuple[tuple[float, int], ...]] = {
    "tallies": ((0.05, 300), (4.0, 300), (4.0, 30_000)),
    "tallies of a number": ((1.0, 100), (1.0, 30_000)),
    "a sketch": ((0.01, 200), (8.0, 200_000)),
    "votes by noisy_votes": ((0.05, 6000), (15.0, 6000)),
}
"""ε and the number of private rows, of which each teaches more than the one before it."""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", PLANS)
def test_it_repeats_reads_nothing_private_and_nobody_is_right_more_often_than_is_possible(
    folder: Path, kind: str
) -> None:
    """Recalls and shares of the classes make the accuracy, within what drawn rows and all of them differ."""
    plan = PLANS[kind](folder)
    assert not Path(plan.path("private")).exists()
    found = foreseen(plan)
    assert found == foreseen(plan)
    assert found.rehearsed
    for each in found.rehearsed:
        assert max(each.right, each.largest or 0.0) <= each.possible + 1e-12
        if each.classes:
            total = sum(part.share * (part.recall or 0.0) for part in each.classes)
            assert total == pytest.approx(each.right, abs=0.02)
            assert each.classes[0].auc == pytest.approx(each.classes[1].auc)
    assert [each.name for each in found.classes] == ([] if plan.data.bounds else ["no", "yes"])
    assert all(each.recall and each.auc and 0.3 < each.auc[0] <= 1 for each in found.classes)
    assert ("expect an R² of" in found.reason) == (plan.data.bounds is not None)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", MORE)
def test_more_epsilon_and_more_units_teach_more(folder: Path, kind: str) -> None:
    found = [foreseen(PLANS[kind](folder, *given)) for given in MORE[kind]]
    rights = [np.mean([each.right for each in ahead.rehearsed]) for ahead in found]
    assert rights[0] + 0.05 < rights[1] <= rights[-1]
    assert found[-1].feasible


@pytest.mark.usefixtures("quick")
def test_what_learns_nothing_is_said_to(folder: Path) -> None:
    for hopeless in (foreseen(asked(folder, 0.001, 60)), foreseen(PLANS["a sketch"](folder, 0.01, 200))):
        assert not hopeless.feasible
        assert says(hopeless.reason, "not expected", "baseline")
        assert hopeless.rehearsed


def test_a_class_that_no_draw_has_is_not_foreseen_and_words_have_the_whole_range() -> None:
    missed = world.ClassRehearsed(share=0.0, recall=None, auc=None)
    weak = world.Rehearsed(signal="weak", right=0.61, possible=0.7, largest=0.6, classes=(missed,))
    strong = world.Rehearsed(signal="strong", right=0.9, possible=0.95, largest=0.6)
    (absent,) = world.expect_classes(["never"], [weak])
    assert (absent.recall, absent.auc, absent.missed) == (None, None, ())
    assert world.rehearsed_in_words([weak, strong]).endswith(
        "61% to 90% (without privacy 70% to 95%; majority-class baseline 60%)"
    )


# Tallies --------------------------------------------------------------------------------------------------------------


def test_releases_of_a_stream_are_rehearsed_with_their_own_noise_and_units(folder: Path) -> None:
    found = foreseen(asked(folder, rows=5200, stream={"season": 52}))
    assert [each.release for each in found.releases] == [1, 4, 13, 26, 52]
    assert [round(each.noise, 2) for each in found.releases] == [1.52, 1.86, 2.09, 2.21, 2.32]
    assert [each.units for each in found.releases] == pytest.approx([100, 400, 1300, 2600, 5200])
    assert found.releases[0].rehearsed.right < found.releases[-1].rehearsed.right
    assert found.releases[-1].rehearsed == next(each for each in found.rehearsed if each.signal == "typical")


def test_shares_of_classes_are_those_of_the_public_test_table(folder: Path) -> None:
    plan, silent = asked(folder, rows=3000), asked(folder, rows=3000, data={"test": None})
    shares = world.PublicFacts.of(plan).shares
    assert shares is not None
    rehearsed = foreseen(plan).rehearsed
    assert [each.signal for each in rehearsed] == [signal for signal in world.SIGNALS for _ in range(world.DRAWS)]
    assert rehearsed[0].largest == pytest.approx(max(shares), abs=1e-3)
    assert world.PublicFacts.of(silent).shares is None
    weak = [each.largest for each in foreseen(silent).rehearsed][: world.DRAWS]
    assert weak == pytest.approx([0.5, 0.75, 0.5], abs=1e-3)


@pytest.mark.parametrize("test", ["test.parquet", None])
def test_shares_that_the_plan_states_are_those_of_every_signal(folder: Path, test: str | None) -> None:
    """Labels of a strong signal had other shares: rows in clumps take more than the 50 steps that were taken."""
    found = foreseen(asked(folder, data={"test": test, "shares": {"no": 0.06, "yes": 0.94}})).rehearsed
    assert [each.largest for each in found] == pytest.approx([0.94] * len(found), abs=1e-3)


def stage_of(plan: world.Plan, rows: pl.DataFrame, columns: Sequence[Any]) -> world.TalliesStage:
    """Of tallies by the codes of these public rows."""
    codes = world.learn_codes([rows], columns, coarse=8)
    return world.TalliesStage.planned(
        plan, world.planned_tallies(plan, codes, rows.height), codes, codes.of(rows), rows.height
    )


def test_pictures_are_rehearsed_by_their_first_round(folder: Path) -> None:
    levels = np.random.default_rng(0).integers(0, 256, (40, 196))
    pictures = pl.DataFrame({"image": pl.Series(levels, dtype=pl.Array(pl.UInt8, 196))})
    plan = asked(folder, rows=10**6)
    stage = stage_of(plan, pictures, [world.Passed(name="image", element="uint8", size=196)])
    assert {each.signal for each in world.rehearse_sums(plan, stage)} == set(world.SIGNALS)


@pytest.mark.parametrize(("columns", "classes", "bins", "kept"), [(14, 2, 32, 14), (16, 26, 32, 15), (300, 2, 4, 152)])
def test_a_rehearsal_is_of_as_many_columns_as_its_work_allows(
    folder: Path, columns: int, classes: int, bins: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by what the decoder is given: weights and sums of each class."""
    draw = np.random.default_rng(0)
    rows = pl.DataFrame({f"x{at}": draw.normal(size=400) for at in range(columns)})
    number: Changes = {"kind": "numeric", "mean": 0, "scale": 1, "fill": 0, "low": -9, "high": 9}
    plan = asked(folder, rows=1000, data={"classes": [f"class {at}" for at in range(classes)]})
    stage = stage_of(plan, rows, [world.Scaled(name=name, missing=False, **number) for name in rows.columns])
    assert {stage.codes.fields[at].size for at in stage.codes.fine} == {bins + 1}
    given = list[tuple[int, int, int]]()

    def decoded(heard: list[world.NoisyRound], public: world.CodeMatrix, own: world.Codes, **_: Any) -> world.Decoded:
        sums = sum(len(each.cells) for each in heard)
        logits = heard[-1].question.columns
        weights = sum(own.fields[at].size for at in own.fine)
        given.append((len(own.fine), len(public), logits * (sums + weights) ** 3))
        zero = np.zeros((own.size, logits))
        found = {"intercept": zero[0], "units": 1.0, "prior": zero[0], "importance": np.zeros(own.width)}
        return world.Decoded(weights=zero, spread=zero, kappa=zero[0], moved=0.0, **found)

    monkeypatch.setattr(world.student_questions, "decode", decoded)
    world.rehearse_sums(plan, stage)
    fields, public, work = max(given, key=lambda each: each[2])
    assert (fields, public) == (kept, np.ceil(400 * kept / columns))
    assert work <= world.MOST_WORK["strong"]


def test_a_strong_signal_tells_classes_of_rows_in_clumps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the rows are alike, and a class has a fifth: along the first direction nobody could tell who is of it.
    And the largest clump is of the class of largest share: otherwise nobody could, though clumps have their shares."""
    monkeypatch.setattr(world.advice_rehearse_tallies, "SIGNALS", ("strong",))
    draw = np.random.default_rng(0)
    half, fifth = draw.random(2000) < 0.5, draw.random(2000) < 0.2
    clumps = draw.choice(["a", "b", "c"], 2000, p=[0.1, 0.7, 0.2])
    cells = {f"c{at}": np.where(half, "here", "there") for at in range(6)}
    cells |= {f"p{at}": np.where(fifth, "one", "other") for at in range(3)}
    for rows, shares, least in (
        (pl.DataFrame(cells), (0.8, 0.2), 0.88),
        (pl.DataFrame({f"c{at}": clumps for at in range(3)}), (0.2, 0.1, 0.7), 0.95),
    ):
        plan = asked(folder, rows=5000, data={"classes": ["x", "y", "z"][: len(shares)]})
        stage = stage_of(plan, rows, [world.OneHot(name=name, vocabulary=(), missing=False) for name in rows.columns])
        assert world.rehearse_sums(plan, stage, shares)[-1].right > least


# A sketch -------------------------------------------------------------------------------------------------------------


def test_plausible_rows_are_cells_of_the_schema_that_depend_on_one_another() -> None:
    schema, rows = world.schema_of({"fields": FIELDS}), 4_000
    grid, found = world.grid_of(schema), list[Any]()
    for seed in range(6):
        cells = world.plausible_cells(schema, rows, np.random.default_rng(seed))
        assert np.array_equal(cells, world.plausible_cells(schema, rows, np.random.default_rng(seed)))
        for wide, narrow in zip(grid.coarse, grid.fine, strict=True):
            own = cells[:, narrow] - grid.fields[narrow].start
            assert 0 <= own.min() < own.max() < grid.fields[narrow].size
            places = world.groups_of(grid.fields[narrow], grid.fields[wide])[own] + grid.fields[wide].start
            assert np.array_equal(cells[:, wide], places)
        both = cells[:, grid.fine[:2]].astype(np.float64)
        found.append(np.asarray(np.corrcoef(both, rowvar=False))[0, 1])
    assert max(map(abs, found)) > 0.2


@pytest.mark.usefixtures("quick")
def test_a_sketch_states_its_columns_and_steps_and_no_accuracy_without_the_shares_of_classes(folder: Path) -> None:
    """It was "64 % to 99 %" of a 5.7 % outcome."""
    found = foreseen(PLANS["a sketch"](folder))
    assert all(each.largest == pytest.approx(0.7, abs=0.01) for each in found.rehearsed)
    assert (found.columns, found.left_out) == (("wage", "age", "since", "member", "sex", "one"), ("note",))
    assert [step.what for step in found.steps] == ["one-way tables", "two-way tables", "labels", "labels", "labels"]
    assert [step.columns for step in found.steps] == [8, 10, 5, 5, 5]
    assert sum(step.share for step in found.steps) == pytest.approx(1)
    for classes in (["low", "high"], ["low", "middle", "high"]):
        silent = foreseen(asked(folder, data={**SKETCHED, "classes": classes}))
        assert says(silent.reason, "cannot be foreseen", "--shares", "data.shares")
        assert (silent.rehearsed, silent.classes, silent.feasible) == ((), (), True)


@pytest.mark.usefixtures("quick")
def test_shares_are_those_of_a_test_table_that_stores_declared_categories_as_numbers(folder: Path) -> None:
    """`plan` and `init` refused what `run` evaluates: "must be text in every row, got numeric"."""
    rows = pl.DataFrame({"ward": [1, 2] * 20, "outcome": ["no", "no", "no", "yes"] * 10})
    rows.write_parquet(folder / "coded.parquet")
    ward = {"name": "ward", "type": "integer", "constraints": {"enum": [1, 2, 3]}}
    found = foreseen(asked(folder, data={**SKETCHED, "test": "coded.parquet", "schema": {"fields": [ward]}}))
    assert all(each.largest == pytest.approx(0.75, abs=0.02) for each in found.rehearsed)


def test_of_a_wide_schema_some_columns_are_rehearsed_the_same_ones_whatever_their_order() -> None:
    fields = [{"name": f"x{at}", "type": "number", "constraints": RANGE} for at in range(40)]
    kept, part = world.rehearsed_columns(world.schema_of({"fields": fields}))
    other, _ = world.rehearsed_columns(world.schema_of({"fields": fields[::-1]}))
    assert (len(kept.names), part) == (world.MOST_COLUMNS, world.MOST_COLUMNS / 40)
    assert {*kept.names} == {*other.names}
    few = world.schema_of({"fields": FIELDS})
    assert world.rehearsed_columns(few) == (few.only(["wage", "age", "since", "member", "sex"]), 1)


# Votes ----------------------------------------------------------------------------------------------------------------

TREE = "sklearn.tree.DecisionTreeClassifier"
ENSEMBLES: list[tuple[Changes, int | None, int, int]] = [
    ({"count": 3}, 60, 3, 20),
    ({"count": 900}, 90_000, world.MOST_TRAINED, 100),
    ({"count": 90}, None, 90, world.USUAL_SHARD),
    ({"count": 900}, 9_000_000, world.MOST_TRAINED, world.MOST_SHARD),
    ({"count": 900, "estimator": TREE}, 90_000, world.MOST_NOT_LINEAR, 100),
]
"""Teachers, private rows, how many of them are trained, and on how many rows each."""


def test_a_bounded_number_of_teachers_is_trained_on_rows_that_are_and_it_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weak = (("weak", 0),)
    for teachers, rows, trained, shard in ENSEMBLES:
        found: world.VotesAhead = foreseen(
            asked(folder, 1.0, rows, mechanism="noisy_votes", teachers=teachers), draws=weak
        )
        assert (found.trained, found.shard) == (trained, shard)
        few = f"by {trained} of {teachers['count']} teachers" if trained < teachers["count"] else "by all teachers"
        stated = "" if rows else " (labeling.rows is not stated)"
        assert f"{few}, on {shard:,} rows each{stated}" in found.reason
    monkeypatch.setattr(world.advice_rehearse_votes, "MOST_WORK", 1)
    plan = asked(folder, mechanism="noisy_votes", labeling={"queries": 10**6})
    public = replace(world.PublicFacts.of(plan), rows=10**6)
    much = world.expect_votes(plan, public, public.votes(plan), draws=weak)
    assert much is not None
    assert (much.trained, much.asked) == (world.LEAST_TRAINED, world.MOST_ASKED)
    assert says(much.reason, f"{world.MOST_ASKED:,}", "1,000,000 rows")


def test_votes_of_a_few_trained_teachers_are_those_of_all(folder: Path) -> None:
    plan = asked(folder, mechanism="noisy_votes", teachers={"count": 777})
    public = world.PublicFacts.of(plan)
    stage = world.VotesStage.of(plan, public, public.votes(plan))
    private = stage.private(np.random.default_rng(0))
    votes = stage.votes(private, private % 2)
    assert (stage.trained, votes.shape) == (world.MOST_TRAINED, (len(stage.rows), 2))
    assert set(votes.sum(axis=1)) == {777}


def test_rows_answered_are_those_of_simulated_teachers_with_rows_of_their_own(folder: Path) -> None:
    """More rows of a teacher agree more; without codes, such as of free text alone, there are no labels to simulate;
    and a student that is not fitted is not rehearsed."""
    plan = asked(folder, mechanism="stable")
    public = world.PublicFacts.of(plan)
    few, many = (world.expected_answers(plan, public, replace(public.votes(plan), shard=rows)) for rows in (10, 500))
    assert few is not None
    assert many is not None
    assert few.answered < many.answered <= 300
    silent = replace(public, codes=lambda _: world.Codes(fields=(), coarse=(), fine=()))
    assert world.expected_answers(plan, silent, public.votes(plan)) is None
    chosen = asked(folder, mechanism="stable", student={"learner": "universal", "hypotheses": "stumps", "epsilon": 0.5})
    assert world.expect_votes(chosen, public, public.votes(chosen)) is None


@pytest.mark.parametrize("scale", [0.7, 30.0])
def test_simulated_noise_has_the_variance_of_what_is_drawn(scale: float) -> None:
    source = world.SimulatedNoise(np.random.default_rng(0))
    decay = np.exp(-1 / scale)
    assert np.var(source.laplace(scale, 200_000)) == pytest.approx(2 * decay / (1 - decay) ** 2, rel=0.03)
    assert np.var(source.gaussian(scale, 200_000)) == pytest.approx(scale**2 + 1 / 12, rel=0.03)
    draws = source.uniform(0, 100_000)
    assert draws.dtype == np.dtype(np.uint64)
    assert np.mean(draws / 2**64) == pytest.approx(0.5, abs=0.01)
