"""Figures by group: counted on the rows of each group, none of too few rows, and found again by verification."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from tests.support.sentences import facts, says
from tests.world import (
    AnyPublicTest,
    Encoding,
    Estimate,
    Files,
    NotVerified,
    PublicTest,
    Scaled,
    WrongInput,
    _check_student,
    _groups_follow,
    by_group,
    digested,
    evaluate,
    grouping,
    published_student,
    share,
)

SIZE = Scaled(kind="numeric", name="size", mean=0, scale=1, fill=0, low=-3, high=3, missing=False)
NAMED = Encoding(columns=(SIZE,), label="kind", classes=("no", "yes"))
NUMBERS = Encoding(columns=(SIZE,), label="cost", classes=(), bounds=(-5.0, 5.0))


def table(folder: Path, rows: int = 400) -> str:
    """The student is right of every row of `a`, and of half of `b`'s; five rows have no region."""
    rng = np.random.default_rng(1)
    size, of_a = rng.normal(size=rows), rng.random(rows) < 0.6
    kind = np.where((size > 0) ^ (~of_a & (rng.random(rows) < 0.5)), "yes", "no")
    region = [None if row < 5 else ("north", "south")[row % 2] for row in range(rows)]
    frame = pl.DataFrame(
        {"size": size, "kind": kind, "cost": size + ~of_a, "sex": np.where(of_a, "a", "b"), "region": region}
    )
    frame.write_parquet(folder / "test.parquet")
    return str(folder / "test.parquet")


def student(encoding: Encoding = NAMED) -> Any:
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]], dtype=np.float32)
    if encoding.bounds:
        return published_student(encoding, LinearRegression().fit(X, X[:, 0]))
    return published_student(encoding, LogisticRegression(C=100).fit(X, np.array(["no", "no", "yes", "yes"])))


def measured(path: str, encoding: Encoding, groups: tuple[str, ...]) -> AnyPublicTest:
    made = student(encoding)
    found = evaluate(made, path, encoding)
    return found.model_copy(update={"groups": by_group(made, path, encoding, groups)})


def test_a_group_s_figures_are_those_of_its_rows(tmp_path: Path) -> None:
    path = table(tmp_path)
    frame, found = pl.read_parquet(path), measured(path, NAMED, ("sex", "region"))
    assert [(each.column, each.group) for each in found.groups] == [
        *(("sex", "a"), ("sex", "b"), ("region", None), ("region", "north"), ("region", "south")),
    ]
    a, b, none, north, south = found.groups
    of_a = frame.filter(pl.col("sex") == "a")["kind"]
    assert a.accuracy == share(a.rows, a.rows)
    assert a.recalls == tuple(share(of, of) for of in (of_a.to_list().count(name) for name in ("no", "yes")))
    b_rows = frame.filter(pl.col("sex") == "b")
    hits = (b_rows["size"] > 0).to_numpy() == (b_rows["kind"] == "yes").to_numpy()
    assert b.accuracy == share(int(hits.sum()), b.rows)
    assert says(b.in_words, "'b'", b.accuracy.in_words)
    assert a.confidence == pytest.approx(b.confidence, abs=0.1)  # it is as sure of both, and wrong of half of one
    assert (none.rows, none.accuracy, none.recalls, none.confidence) == (5, None, (), None)
    assert none.in_words == "region without a value: 5 rows, too few to measure"
    assert (north.rows + south.rows, a.rows + b.rows) == (395, 400)
    for column, groups in (("sex", [a, b]), ("region", [none, north, south])):
        _groups_follow(found, column, groups)


def test_a_number_s_groups_have_errors(tmp_path: Path) -> None:
    found = measured(table(tmp_path), NUMBERS, ("sex",))
    a, b = found.groups
    assert a.rmse is not None
    assert b.rmse is not None
    assert (a.rmse.value, b.rmse.value) == pytest.approx((0, 1), abs=0.01)
    assert a.rmse.low <= a.rmse.value < b.rmse.low <= b.rmse.value <= b.rmse.high
    _groups_follow(found, "sex", [a, b])


def test_columns_that_make_no_groups_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """Wrong plans: tests/texts."""
    path = table(tmp_path)
    with pytest.raises(WrongInput, match=facts("'size'", 400, "groups")):
        grouping(path, ("size",), NAMED)
    with pytest.raises(WrongInput, match=r"data\.groups"):
        grouping(path, ("ward",), NAMED)


def narrower(figure: Estimate | None) -> Estimate:
    """The figure with the interval of four times as many rows, or so."""
    assert figure is not None
    low, high = ((figure.value + end) / 2 for end in (figure.low, figure.high))
    return Estimate(value=figure.value, low=low, high=high)


def changed(found: PublicTest, at: int, **values: Any) -> PublicTest:
    groups = list(found.groups)
    groups[at] = groups[at].model_copy(update=values)
    return found.model_copy(update={"groups": tuple(groups)})


Change = Callable[[PublicTest], PublicTest]
EDITS: list[tuple[Change, str]] = [
    (lambda found: changed(found, 1, accuracy=share(9, 10)), "the accuracy of sex = 'b'"),
    (lambda found: changed(found, 1, accuracy=narrower(found.groups[1].accuracy)), "the accuracy of sex = 'b'"),
    (lambda found: changed(found, 0, recalls=(share(1, 2), share(1, 1))), "the recall of 'no' of sex = 'a'"),
    (lambda found: changed(found, 0, recalls=(None, share(1, 1))), "the recall of 'no' of sex = 'a'"),
    (lambda found: changed(found, 0, confidence=0.5), "the mean confidence of sex = 'a'"),
    (lambda found: changed(found, 2, accuracy=share(5, 5)), "the accuracy of region = None"),
    (lambda found: changed(found, 0, rows=1), "the rows of sex = 'a'"),
    (lambda found: found.model_copy(update={"groups": found.groups[1:]}), "the groups by 'sex'"),
]


def test_a_figure_that_is_not_the_student_s_is_found(tmp_path: Path) -> None:
    """By the table; and without it, where the groups do not make the whole."""
    path = table(tmp_path)
    found, rows = measured(path, NAMED, ("sex", "region")), pl.read_parquet(path)
    assert isinstance(found, PublicTest)
    raw, truth = rows.select("size"), (rows["kind"] == "yes").to_numpy().astype(np.int64)
    _check_student(found, student(), raw, truth, path)
    for change, named in EDITS:
        with pytest.raises(NotVerified, match=named):
            _check_student(change(found), student(), raw, truth, path)
    for values in ({"rows": 1}, {"accuracy": share(1, 2)}):
        with pytest.raises(NotVerified, match="'sex'"):
            _groups_follow(found, "sex", changed(found, 0, **values).groups[:2])


def test_a_stage_is_run_again_for_other_groups() -> None:
    table = Files("x", ("digest",))
    assert digested(table) != digested(replace(table, groups=("sex",)))
