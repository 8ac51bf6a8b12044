"""What columns do: a scorecard that adds up to the student's odds."""

import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from tests.world import (
    Decoded,
    Encoding,
    Scaled,
    added,
    cast_rows,
    explained_scorecard,
    learn_codes,
    learn_columns,
    linear_student,
    open_public,
    publish_explain,
    published_student,
)

ROWS = 400


def rows_of(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    shade, day = rng.choice(["dark", "light"], ROWS), [date(2010 + int(at), 3, 4) for at in rng.integers(0, 20, ROWS)]
    return pl.DataFrame({"size": rng.normal(size=ROWS), "shade": shade, "day": day, "member": rng.random(ROWS) < 0.5})


def additive(folder: Path, classes: tuple[str, ...], bounds: tuple[float, float] | None = None) -> Any:
    rows, rng = rows_of(1), np.random.default_rng(2)
    rows.write_parquet(folder / "public.parquet")
    table = open_public(str(folder / "public.parquet"))
    encoding = Encoding(columns=learn_columns(table, table.names), label="label", classes=classes, bounds=bounds)
    codes = learn_codes([cast_rows(rows, encoding)], encoding.columns, coarse=8)
    columns = len(classes) if len(classes) > 2 else 1
    parts: dict[str, Any] = {
        "kappa": np.ones(columns),
        "spread": np.zeros((len(codes.fine) + 1, columns)),
        "moved": 0.0,
    }
    decoded = Decoded(
        weights=rng.normal(size=(codes.size, columns)).round(1),
        intercept=rng.normal(size=columns),
        units=500.0,
        prior=np.full(columns, 0.1),
        importance=np.zeros(len(codes.fields)),
        **parts,
    )
    return linear_student(decoded, encoding, codes)


def holds(cell: str, value: Any) -> bool:
    """Whether a cell of the card, as it reads, is that of a value."""
    if isinstance(value, bool):
        return cell == ("yes" if value else "no")
    if isinstance(value, str):
        return cell == value
    number = (value - date(1970, 1, 1)).days if isinstance(value, date) else value
    ends = [_number(word) for word in cell.split() if word[0].isdigit() or word[0] == "-"]
    if cell.startswith("below"):
        return bool(number < ends[0])
    return bool(number >= ends[0] and (cell.endswith("or more") or number < ends[1]))


def _number(word: str) -> float:
    return (date.fromisoformat(word) - date(1970, 1, 1)).days if word.count("-") == 2 else float(word)


@pytest.mark.parametrize("classes", [("no", "yes"), ("no", "yes", "unsure")])
def test_points_of_a_row_add_up_to_its_odds(
    tmp_path: Path, classes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        publish_explain, "DIGITS", 6
    )  # a reader has three, which say little of a row near the end of a range
    student, rows = additive(tmp_path, classes), rows_of(3).head(20)
    card = explained_scorecard(student)
    assert card is not None
    assert card.classes == (("yes",) if len(classes) == 2 else classes)
    model = student["student"]
    logits = added(model.weights, model.intercept, student["encode"].transform(rows.to_pandas()))
    for row, expected in zip(rows.to_dicts(), logits, strict=True):
        total = np.array(card.base)
        for name, value in row.items():
            cells = [each for each in card.columns[name] if each.cell != "no value" and holds(each.cell, value)]
            [own] = [each for each in cells if each.cell != "other category"]
            total = total + own.points
        rounding = (len(row) + 1) / 2 + 1
        assert np.abs(total - 10 * expected / math.log(2)).max() <= rounding, row
    assert all(cells[-1].cell == "no value" for cells in card.columns.values())


def test_a_number_s_card_is_of_its_place_and_another_student_has_none(tmp_path: Path) -> None:
    card = explained_scorecard(additive(tmp_path, (), (0.0, 10.0)))
    assert card is not None
    assert card.classes == ("number",)
    spreads = [max(c.points[0] for c in cells) - min(c.points[0] for c in cells) for cells in card.columns.values()]
    assert spreads == sorted(spreads, reverse=True)
    assert explained_scorecard(fitted()) is None


def fitted() -> Any:
    """A student that was fitted to labels."""
    size = Scaled(kind="numeric", name="size", mean=0, scale=1, fill=0, low=-3, high=3, missing=False)
    model = LogisticRegression().fit(np.array([[-2], [2]], dtype=np.float32), np.array(["no", "yes"]))
    return published_student(Encoding(columns=(size,), label="kind", classes=("no", "yes")), model)
