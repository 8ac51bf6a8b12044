"""Rehearsals: they repeat, read nothing private, follow ε and the number of units, and say so if nothing is learned."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.people import tables_of_plan, write_tables
from tests.support.sentences import says
from tests.world import (
    DRAWS,
    MOST_WORK,
    SIGNALS,
    ClassRehearsed,
    CodeMatrix,
    Codes,
    Decoded,
    NoisyRound,
    OneHot,
    Passed,
    Plan,
    PublicFacts,
    Rehearsed,
    Scaled,
    StreamPlan,
    TalliesStage,
    expect_classes,
    expect_tallies,
    in_words,
    learn_codes,
    parse_plan,
    planned_tallies,
    rehearse,
    student_infer,
)

NUMBER: dict[str, Any] = {"label": "size", "classes": None, "bounds": [-4.0, 4.0], "test": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data"))


def asked(folder: Path, *, epsilon: float = 1.0, rows: int = 3000, **data: Any) -> Plan:
    """A plan for tallies; its private table does not exist, for nothing may read it."""
    tables = tables_of_plan(folder)
    given = {**tables["data"], "private": "nowhere.parquet", **data}
    tables["data"] = {key: value for key, value in given.items() if value is not None}
    privacy = {"epsilon": epsilon, "lifetime": {"epsilon": 20.0, "delta": 1e-4}, "large_delta": True}
    tables["privacy"] = {**tables["privacy"], **privacy}
    tables["labeling"] = {"mechanism": "tallies", "rows": rows}
    return parse_plan({name: tables[name] for name in ("data", "privacy", "labeling", "folder") if name in tables})


def rehearsed(plan: Plan) -> tuple[Rehearsed, ...]:
    return expect_tallies(plan, PublicFacts.of(plan)).rehearsed


def test_a_rehearsal_repeats_and_reads_no_private_table(folder: Path) -> None:
    plan = asked(folder)
    assert not Path(plan.path("private")).exists()
    first = rehearsed(plan)
    assert [each.signal for each in first] == [signal for signal in SIGNALS for _ in range(DRAWS)]
    assert first == rehearsed(plan)


def test_nobody_is_right_more_often_than_is_possible(folder: Path) -> None:
    for each in rehearsed(asked(folder)):
        assert each.right <= each.possible + 1e-12
        assert (each.largest or 0.0) <= each.possible + 1e-12


def test_of_a_number_the_variance_that_is_explained_is_rehearsed(folder: Path) -> None:
    few, many = (rehearsed(asked(folder, rows=rows, **NUMBER)) for rows in (300, 30_000))
    for less, more in zip(few, many, strict=True):
        assert less.right < more.right <= more.possible
        assert more.largest is None
    assert many[-1].right > 0.8
    assert "expect an R² of" in in_words(many)
    assert not many[0].classes


def test_more_epsilon_and_more_units_teach_more(folder: Path) -> None:
    little, more, many = (
        np.mean([each.right for each in rehearsed(asked(folder, epsilon=epsilon, rows=rows))])
        for epsilon, rows in ((0.05, 300), (4.0, 300), (4.0, 30_000))
    )
    assert little + 0.05 < more < many


def test_releases_of_a_stream_are_rehearsed_with_their_own_noise_and_units(folder: Path) -> None:
    plan = asked(folder, rows=5200).model_copy(update={"stream": StreamPlan(season=52)})
    found = expect_tallies(plan, PublicFacts.of(plan))
    assert [each.release for each in found.releases] == [1, 4, 13, 26, 52]
    assert [round(each.noise, 2) for each in found.releases] == [1.52, 1.86, 2.09, 2.21, 2.32]
    assert [each.units for each in found.releases] == pytest.approx([100, 400, 1300, 2600, 5200])
    assert found.releases[0].rehearsed.right < found.releases[-1].rehearsed.right
    assert found.releases[-1].rehearsed == next(each for each in found.rehearsed if each.signal == "typical")


def test_shares_of_classes_are_those_of_the_public_test_table(folder: Path) -> None:
    plan = asked(folder)
    public = PublicFacts.of(plan)
    assert public.shares is not None
    assert rehearsed(plan)[0].largest == pytest.approx(max(public.shares), abs=1e-3)
    silent = asked(folder, test=None)
    assert PublicFacts.of(silent).shares is None
    weak = [each.largest for each in rehearsed(silent)][:DRAWS]
    assert weak == pytest.approx([0.5, 0.75, 0.5], abs=1e-3)


def test_what_learns_nothing_is_said_to(folder: Path) -> None:
    public = PublicFacts.of(asked(folder))
    hopeless = expect_tallies(asked(folder, epsilon=0.001, rows=60), public)
    assert not hopeless.feasible
    assert says(hopeless.reason, "not expected", "baseline", "ε")
    assert np.ptp([each.right for each in hopeless.rehearsed]) > 0.05  # by luck alone
    assert expect_tallies(asked(folder, rows=30_000), public).feasible


def test_recalls_and_shares_of_the_classes_make_the_accuracy(folder: Path) -> None:
    """Measured on drawn rows and on all of them: in every draw of every signal."""
    for each in rehearsed(asked(folder)):
        total = sum(part.share * (part.recall or 0.0) for part in each.classes)
        assert total == pytest.approx(each.right, abs=0.02)
        assert each.classes[0].auc == pytest.approx(each.classes[1].auc)
    missed = ClassRehearsed(share=0.0, recall=None, auc=None)
    unseen = Rehearsed(signal="weak", right=0.6, possible=0.7, largest=0.6, classes=(missed,))
    (absent,) = expect_classes(["never"], [unseen])
    assert (absent.recall, absent.auc, absent.missed) == (None, None, ())


def test_words_have_the_whole_range() -> None:
    weak = Rehearsed(signal="weak", right=0.61, possible=0.7, largest=0.6)
    strong = Rehearsed(signal="strong", right=0.9, possible=0.95, largest=0.6)
    assert in_words([weak, strong]).endswith(
        "expect an accuracy of 61% to 90% (without privacy 70% to 95%; majority-class baseline 60%)"
    )


def test_pictures_are_rehearsed_by_their_first_round(folder: Path) -> None:
    levels = np.random.default_rng(0).integers(0, 256, (40, 196))
    pictures = pl.DataFrame({"image": pl.Series(levels, dtype=pl.Array(pl.UInt8, 196))})
    codes = learn_codes([pictures], [Passed(name="image", element="uint8", size=196)], coarse=8)
    plan = asked(folder, rows=10**6)
    mechanism = planned_tallies(plan, codes, pictures.height)
    stage = TalliesStage.planned(plan, mechanism, codes, codes.of(pictures), 40)
    assert {each.signal for each in rehearse(plan, stage)} == set(SIGNALS)


@pytest.mark.parametrize(("columns", "classes", "bins", "kept"), [(14, 2, 32, 14), (16, 26, 32, 15), (300, 2, 4, 152)])
def test_a_rehearsal_is_of_as_many_columns_as_its_work_allows(
    folder: Path, columns: int, classes: int, bins: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by what the decoder is given: weights and sums of each class."""
    draw = np.random.default_rng(0)
    rows = pl.DataFrame({f"x{at}": draw.normal(size=400) for at in range(columns)})
    number: dict[str, Any] = {"kind": "numeric", "mean": 0, "scale": 1, "fill": 0, "low": -9, "high": 9}
    codes = learn_codes([rows], [Scaled(name=name, missing=False, **number) for name in rows.columns], coarse=8)
    assert {codes.fields[at].size for at in codes.fine} == {bins + 1}
    named = [f"class {at}" for at in range(classes)]
    plan = asked(folder, classes=named, rows=1000)
    given = list[tuple[int, int, int]]()

    def decoded(heard: list[NoisyRound], public: CodeMatrix, own: Codes, **_: Any) -> Decoded:
        sums = sum(len(each.cells) for each in heard)
        logits = heard[-1].question.columns
        weights = sum(own.fields[at].size for at in own.fine)
        given.append((len(own.fine), len(public), logits * (sums + weights) ** 3))
        zero = np.zeros((own.size, logits))
        found = {"intercept": zero[0], "units": 1.0, "prior": zero[0], "importance": np.zeros(own.width)}
        return Decoded(weights=zero, spread=zero, kappa=zero[0], moved=0.0, **found)

    monkeypatch.setattr(student_infer, "decode", decoded)
    rehearse(plan, TalliesStage.planned(plan, planned_tallies(plan, codes, 400), codes, codes.of(rows), 400))
    fields, public, work = max(given, key=lambda each: each[2])
    assert fields == kept
    assert public == np.ceil(400 * kept / columns)
    assert work <= MOST_WORK["strong"]


def test_a_strong_signal_tells_classes_of_rows_in_clumps(folder: Path) -> None:
    """Half of the rows are alike, and a class has a fifth: along the first direction nobody could tell who is of it."""
    draw = np.random.default_rng(0)
    clump, part = draw.random(2000) < 0.5, draw.random(2000) < 0.2
    cells = {f"c{at}": np.where(clump, "here", "there") for at in range(6)} | {
        f"p{at}": np.where(part, "one", "other") for at in range(3)
    }
    rows = pl.DataFrame(cells)
    codes = learn_codes([rows], [OneHot(name=name, vocabulary=(), missing=False) for name in cells], coarse=8)
    plan = asked(folder, rows=5000)
    stage = TalliesStage.planned(plan, planned_tallies(plan, codes, 2000), codes, codes.of(rows), 2000)
    strong = rehearse(plan, stage, (0.8, 0.2))[-1]
    assert strong.signal == "strong"
    assert strong.right > (strong.largest or 0.0) + 0.08


def test_the_largest_clump_of_rows_is_of_the_class_of_largest_share(folder: Path) -> None:
    """Otherwise nobody could tell the classes, though clumps have just their shares."""
    clump = np.random.default_rng(0).choice(["a", "b", "c"], 2000, p=[0.1, 0.7, 0.2])
    rows = pl.DataFrame({f"c{at}": clump for at in range(3)})
    codes = learn_codes([rows], [OneHot(name=name, vocabulary=(), missing=False) for name in rows.columns], coarse=8)
    plan = asked(folder, rows=5000, classes=["x", "y", "z"])
    stage = TalliesStage.planned(plan, planned_tallies(plan, codes, 2000), codes, codes.of(rows), 2000)
    strong = rehearse(plan, stage, (0.2, 0.1, 0.7))[-1]
    assert strong.right > 0.95


def test_labels_alone_may_be_secret(folder: Path) -> None:
    tables = asked(folder).model_dump(exclude_unset=True)
    tables["privacy"]["secret"] = "labels"
    assert all(each.right > 0 for each in rehearsed(parse_plan(tables)))
