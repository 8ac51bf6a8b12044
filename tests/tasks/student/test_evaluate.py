"""Measures of a student on public rows, of all of them and by group: each beside what a student that looks at nothing
would have, and found again by verification.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

from tests import world
from tests.support.sentences import facts, says

# All rows -------------------------------------------------------------------------------------------------------------


class Says:
    """A model that says what is written."""

    def __init__(self, *answers: str) -> None:
        self.answers = np.array(answers)

    def predict(self, _: object) -> object:
        return self.answers


def said_of(path: Path, truth: str, said: str, classes: str = "abc") -> world.PublicTest:
    """A letter a row."""
    pl.DataFrame({"class": list(truth)}).write_csv(path / "test.csv")
    encoding = world.Encoding(columns=(), label="class", classes=tuple(classes), unit=None)
    indices = np.array([classes.index(letter) for letter in truth])
    return world.measured(Says(*said), None, indices, encoding, str(path / "test.csv"))


def test_every_measure_by_hand(tmp_path: Path) -> None:
    test = said_of(tmp_path, "aaaaaabbcc", "aaaabbbaac")
    assert (test.rows, test.accuracy, test.majority, test.largest) == (10, world.share(6, 10), 0.6, "a")
    assert test.matrix == ((4, 2, 0), (1, 1, 0), (1, 0, 1))
    assert [item.rows for item in test.classes] == [6, 2, 2]
    assert [item.predicted for item in test.classes] == [6, 3, 1]
    assert [item.recall for item in test.classes] == [world.share(4, 6), world.share(1, 2), world.share(1, 2)]
    assert [item.precision for item in test.classes] == [world.share(4, 6), world.share(1, 3), world.share(1, 1)]
    assert test.balanced_accuracy == world.mean_of_shares([world.share(4, 6), world.share(1, 2), world.share(1, 2)])
    assert test.balanced_accuracy.value == pytest.approx((4 / 6 + 0.5 + 0.5) / 3)


def test_a_class_without_rows_or_without_answers_has_no_share_and_counts_for_nothing(tmp_path: Path) -> None:
    test = said_of(tmp_path, "aab", "aaa")
    assert [item.recall for item in test.classes] == [world.share(2, 2), world.share(0, 1), None]
    assert [item.precision for item in test.classes] == [world.share(2, 3), None, None]
    assert test.balanced_accuracy.value == 0.5


@pytest.fixture
def rare(tmp_path: Path) -> world.PublicTest:
    """A class of 2.6% of the rows, whose probability never reaches a half, and is normally higher for its rows."""
    draw = np.random.default_rng(26)
    truth = np.arange(5000) < 130
    logit = draw.normal(size=5000) + 1.045 * truth - 4.2  # AUC Φ(1.045 / √2) = 0.77
    pl.DataFrame({"class": np.where(truth, "yes", "no")}).write_parquet(tmp_path / "test.parquet")
    model = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([0.0])
    encoding = world.Encoding(columns=(), label="class", classes=("yes", "no"), unit=None)
    return world.measured(model, logit[:, None], 1 - truth.astype(np.int64), encoding, str(tmp_path / "test.parquet"))


def test_a_rare_outcome_that_the_student_never_names_is_no_failure(rare: world.PublicTest) -> None:
    """Its accuracy was that of naming the other class for every row, and nothing showed that it ranks rows."""
    yes, no = rare.classes
    assert (yes.rows, yes.predicted, yes.recall, rare.rarest) == (130, 0, world.share(0, 130), yes)
    assert yes.auc is not None
    assert no.auc is not None
    assert rare.auc is not None
    assert (yes.auc.value, yes.auc.low) == pytest.approx((no.auc.value, no.auc.low))
    assert (rare.auc.value, rare.auc.low) == pytest.approx((yes.auc.value, yes.auc.low))
    assert yes.auc.low < 0.77 < yes.auc.high < yes.auc.low + 0.1
    assert yes.average_precision is not None
    assert 3 * 0.026 < yes.average_precision.value < 0.3
    shown = rare.in_words
    assert f"AUC {yes.auc:.3f}" in shown
    assert says(shown, "'yes'", f"{yes.average_precision:.3f}", 0.026)
    assert "expected calibration error" in shown
    assert shown.count("%)") == 3  # accuracy, balanced accuracy and calibration
    no_better, blind, found = world.warnings_of(rare, None)
    assert "does not beat the majority-class baseline" in no_better
    assert "recall is 0 for the class 'yes'" in blind
    (threshold,) = rare.thresholds
    assert says(found, "recall", "'yes'", "above 0", threshold.in_words)
    assert f"`concord predict --threshold yes={threshold.least:g}`" in found
    assert threshold.recall.value > 0.5
    assert 0.026 < threshold.precision.value < threshold.recall.value


def test_a_student_that_looks_at_nothing_is_not_said_to_rank_and_gets_no_threshold(tmp_path: Path) -> None:
    pl.DataFrame({"class": list("aaab")}).write_parquet(tmp_path / "test.parquet")
    encoding = world.Encoding(columns=(), label="class", classes=("a", "b", "c"), unit=None)
    prior = DummyClassifier(strategy="prior").fit(np.zeros((4, 1)), list("aaab"))  # which never saw a "c"
    test = world.measured(prior, np.zeros((4, 1)), np.array([0, 0, 0, 1]), encoding, str(tmp_path / "test.parquet"))
    areas = [(each.auc and each.auc.value, each.average_precision) for each in test.classes]
    assert areas == [(0.5, world.share(0.75 * 3, 3)), (0.5, world.share(0.25, 1)), (None, None)]
    assert test.thresholds == ()
    assert test.calibration is not None
    assert [(each.rows, each.confidence, each.accuracy) for each in test.calibration] == [(4, 0.75, world.share(3, 4))]
    no_probabilities = said_of(tmp_path, "ab", "ab")
    assert "AUC" not in no_probabilities.in_words
    assert (no_probabilities.thresholds, no_probabilities.calibration) == ((), None)


def test_measures_of_a_number_by_hand_and_of_equal_numbers() -> None:
    test = world.number_measured(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]), "cost", "")
    assert (test.rmse.value**2, test.mean_rmse**2, test.r2.value) == pytest.approx((1 / 3, 2 / 3, 0.5))
    assert says(test.in_words, "RMSE 0.5774 (0.2594 to 1.285)", "3 public test rows")
    equal = np.full(7, 1e6 + 0.1)
    assert equal.mean() != equal[0]
    same = world.number_measured(equal, equal + 1, "cost", "")
    assert (same.rmse.value, same.mean_rmse, same.r2.value) == (1, 0, 0)


def test_a_threshold_is_the_best_of_all_and_one_that_a_reader_can_type() -> None:
    draw = np.random.default_rng(3)
    own = draw.random(400) < 0.1
    odds = 0.02 + 0.01 * draw.normal(size=400) + 0.01 * own
    found = world.best_threshold("it's rare", odds, own)
    balanced = [(odds[own] >= least).mean() + (odds[~own] < least).mean() for least in odds]
    assert (odds[own] >= found.least).mean() + (odds[~own] < found.least).mean() >= max(balanced) - 0.02
    assert len(f"{found.least:g}") <= len("0.01234")
    assert float(f"{found.least:g}") == found.least
    assert found == world.at_threshold("it's rare", found.least, odds, own)
    assert shlex.split(found.in_words.split("`")[1])[-1] == f"it's rare={found.least:g}"


# By group -------------------------------------------------------------------------------------------------------------

SIZE = world.Scaled(kind="numeric", name="size", mean=0, scale=1, fill=0, low=-3, high=3, missing=False)
NAMED = world.Encoding(columns=(SIZE,), label="kind", classes=("no", "yes"))
NUMBERS = world.Encoding(columns=(SIZE,), label="cost", classes=(), bounds=(-5.0, 5.0))


def grouped_table(folder: Path, rows: int = 400) -> str:
    """The named_student is right of every row of `a`, and of half of `b`'s; five rows have no region."""
    rng = np.random.default_rng(1)
    size, of_a = rng.normal(size=rows), rng.random(rows) < 0.6
    kind = np.where((size > 0) ^ (~of_a & (rng.random(rows) < 0.5)), "yes", "no")
    region = [None if row < 5 else ("north", "south")[row % 2] for row in range(rows)]
    frame = pl.DataFrame(
        {"size": size, "kind": kind, "cost": size + ~of_a, "sex": np.where(of_a, "a", "b"), "region": region}
    )
    frame.write_parquet(folder / "test.parquet")
    return str(folder / "test.parquet")


def named_student(encoding: world.Encoding = NAMED) -> Any:
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]], dtype=np.float32)
    if encoding.bounds:
        return world.published_student(encoding, LinearRegression().fit(X, X[:, 0]))
    return world.published_student(encoding, LogisticRegression(C=100).fit(X, np.array(["no", "no", "yes", "yes"])))


def by_groups(path: str, encoding: world.Encoding, groups: tuple[str, ...]) -> world.AnyPublicTest:
    made = named_student(encoding)
    return world.evaluate(made, path, encoding, groups)


def test_a_group_s_figures_are_those_of_its_rows(tmp_path: Path) -> None:
    path = grouped_table(tmp_path)
    frame, found = pl.read_parquet(path), by_groups(path, NAMED, ("sex", "region"))
    assert [(each.column, each.group) for each in found.groups] == [
        *(("sex", "a"), ("sex", "b"), ("region", None), ("region", "north"), ("region", "south")),
    ]
    a, b, none, north, south = found.groups
    of_a = frame.filter(pl.col("sex") == "a")["kind"]
    assert a.accuracy == world.share(a.rows, a.rows)
    assert a.recalls == tuple(world.share(of, of) for of in (of_a.to_list().count(name) for name in ("no", "yes")))
    b_rows = frame.filter(pl.col("sex") == "b")
    hits = (b_rows["size"] > 0).to_numpy() == (b_rows["kind"] == "yes").to_numpy()
    assert b.accuracy == world.share(int(hits.sum()), b.rows)
    assert says(b.in_words, "'b'", b.accuracy.in_words)
    assert a.confidence == pytest.approx(b.confidence, abs=0.1)  # it is as sure of both, and wrong of half of one
    assert (none.rows, none.accuracy, none.recalls, none.confidence) == (5, None, (), None)
    assert none.in_words == "region without a value: 5 rows, too few to measure"
    assert (north.rows + south.rows, a.rows + b.rows) == (395, 400)
    for column, groups in (("sex", [a, b]), ("region", [none, north, south])):
        world._groups_follow(found, column, groups)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_a_category_none_were_in_one_group_with_those_without_any(tmp_path: Path, kind: str) -> None:
    """The group of missing cells had their rows, and nobody saw that the student is wrong of one of the two."""
    rng, path = np.random.default_rng(1), str(tmp_path / f"test.{kind}")
    size, gas = rng.normal(size=400), np.array(["None", "gas", None])[rng.integers(0, 3, 400)]
    truth = ((size > 0) ^ (gas == "None")).astype(np.int64)
    frame = pl.DataFrame({"size": size, "kind": np.array(["no", "yes"])[truth], "gas": gas.tolist()})
    if kind == "csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    words = world.OneHot(name="gas", vocabulary=("None", "gas"), missing=True)
    encoding = NAMED.model_copy(update={"columns": (SIZE, words), "words": ("gas",)})
    X = world.encode(world.cast_rows(frame, encoding), encoding)
    made = world.published_student(encoding, LogisticRegression(C=100).fit(X, np.where(size > 0, "yes", "no")))
    found = world.evaluate(made, path, encoding, ("gas",))
    assert {each.group: each.rows for each in found.groups} == {
        word: gas.tolist().count(word) for word in (None, "None", "gas")
    }
    accuracies = {each.group: each.accuracy.value for each in found.groups if each.accuracy}
    assert accuracies["None"] < 0.1 < 0.9 < min(accuracies[None], accuracies["gas"])
    given = made["student"], made[:-1].transform(frame.select("size", "gas")), truth, encoding, path
    world._check_student(found, *given)
    with pytest.raises(world.NotVerified, match="the groups by 'gas'"):
        world._check_student(found.model_copy(update={"groups": found.groups[1:]}), *given)


def test_a_number_s_groups_have_errors(tmp_path: Path) -> None:
    found = by_groups(grouped_table(tmp_path), NUMBERS, ("sex",))
    a, b = found.groups
    assert a.rmse is not None
    assert b.rmse is not None
    assert (a.rmse.value, b.rmse.value) == pytest.approx((0, 1), abs=0.01)
    assert a.rmse.low <= a.rmse.value < b.rmse.low <= b.rmse.value <= b.rmse.high
    world._groups_follow(found, "sex", [a, b])


def test_columns_that_make_no_groups_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """Wrong plans: tests/texts."""
    path = grouped_table(tmp_path)
    with pytest.raises(world.WrongInput, match=facts("'size'", 400, "groups")):
        world.grouping(path, ("size",), NAMED)
    with pytest.raises(world.WrongInput, match=r"data\.groups"):
        world.grouping(path, ("ward",), NAMED)


def narrower(figure: world.Estimate | None) -> world.Estimate:
    """The figure with the interval of four times as many rows, or so."""
    assert figure is not None
    low, high = ((figure.value + end) / 2 for end in (figure.low, figure.high))
    return world.Estimate(value=figure.value, low=low, high=high)


def changed(found: world.PublicTest, at: int, **values: Any) -> world.PublicTest:
    groups = list(found.groups)
    groups[at] = groups[at].model_copy(update=values)
    return found.model_copy(update={"groups": tuple(groups)})


Change = Callable[[world.PublicTest], world.PublicTest]
EDITS: list[tuple[Change, str]] = [
    (lambda found: changed(found, 1, accuracy=world.share(9, 10)), "the accuracy of sex = 'b'"),
    (lambda found: changed(found, 1, accuracy=narrower(found.groups[1].accuracy)), "the accuracy of sex = 'b'"),
    (
        lambda found: changed(found, 0, recalls=(world.share(1, 2), world.share(1, 1))),
        "the recall of 'no' of sex = 'a'",
    ),
    (lambda found: changed(found, 0, recalls=(None, world.share(1, 1))), "the recall of 'no' of sex = 'a'"),
    (lambda found: changed(found, 0, confidence=0.5), "the mean confidence of sex = 'a'"),
    (lambda found: changed(found, 2, accuracy=world.share(5, 5)), "the accuracy of region = None"),
    (lambda found: changed(found, 0, rows=1), "the rows of sex = 'a'"),
    (lambda found: found.model_copy(update={"groups": found.groups[1:]}), "the groups by 'sex'"),
]


def test_a_figure_that_is_not_the_student_s_is_found(tmp_path: Path) -> None:
    """By the grouped_table; and without it, where the groups do not make the whole."""
    path = grouped_table(tmp_path)
    found, rows = by_groups(path, NAMED, ("sex", "region")), pl.read_parquet(path)
    assert isinstance(found, world.PublicTest)
    raw, truth = rows.select("size"), (rows["kind"] == "yes").to_numpy().astype(np.int64)
    student = named_student()
    given = student["student"], student[:-1].transform(raw), truth, NAMED, path
    world._check_student(found, *given)
    for change, named in EDITS:
        with pytest.raises(world.NotVerified, match=named):
            world._check_student(change(found), *given)
    for values in ({"rows": 1}, {"accuracy": world.share(1, 2)}):
        with pytest.raises(world.NotVerified, match="'sex'"):
            world._groups_follow(found, "sex", changed(found, 0, **values).groups[:2])
