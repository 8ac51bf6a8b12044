"""What columns do: a scorecard that adds up to the student's odds."""

import math
from datetime import date
from typing import Any

import numpy as np
import pytest

from tests.support.students import STUDENTS, encoding_of, linear, public_rows
from tests.world import added, explained_scorecard, publish_explain


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
def test_points_of_a_row_add_up_to_its_odds(classes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With six digits: a reader has three, which say little of a row near the end of a range."""
    monkeypatch.setattr(publish_explain, "DIGITS", 6)
    student, rows = linear(public_rows(), encoding_of(public_rows(), classes)), public_rows().head(20)
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


def test_a_number_s_card_is_of_its_place_and_another_student_has_none() -> None:
    card = explained_scorecard(STUDENTS["a number"](public_rows()))
    assert card is not None
    assert card.classes == ("number",)
    spreads = [max(c.points[0] for c in cells) - min(c.points[0] for c in cells) for cells in card.columns.values()]
    assert spreads == sorted(spreads, reverse=True)
    assert explained_scorecard(STUDENTS["logistic regression"](public_rows())) is None
