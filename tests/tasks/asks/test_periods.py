"""Releases of a season at the door: their questions and periods stay what they were, and their totals are right."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests import world
from tests.support.sentences import facts
from tests.support.sums import LABELS, PERIODS, QUESTIONS, ROWS, STREAM, Season


@pytest.fixture
def season(tmp_path: Path) -> Season:
    return Season.in_home(tmp_path / "home")


def test_totals_are_those_of_all_rows_so_far_and_the_noise_that_is_said(season: Season) -> None:
    for number, released in enumerate(season.all()):
        so_far = slice(0, PERIODS[number].stop)
        for at, question in enumerate(QUESTIONS):
            exact = world.tally(question, ROWS[so_far], LABELS[so_far])
            sd = released["scales"][at] * released["spread"]
            assert np.abs(np.array(released["totals"][at]) - exact).max() < 6 * sd
        assert (released["release"], released["season"]) == (number, STREAM.season)
    with pytest.raises(world.BudgetRefused, match=r"has ended \(spent\)"):
        season.release(3, season.counted(4))


def test_a_question_that_follows_what_was_released_draws_nothing(season: Season) -> None:
    with pytest.raises(world.NotVerified, match="asks every question"):
        season.release(0, questions=QUESTIONS[:1])
    season.release(0)
    turned = [STREAM.question(at, (1, 0), ((3, 5), (0, 3))) for at in range(2)]
    with pytest.raises(world.NotVerified, match=facts("first release", "nothing was drawn")):
        season.release(1, questions=turned)
    with pytest.raises(world.NotVerified, match=facts("first release", "nothing was drawn")):
        season.release(1, questions=QUESTIONS[:1])
    assert season.session.batches == 1


@pytest.mark.parametrize("changed", ["sums", "period", "order"])
def test_periods_other_than_those_that_were_released_draw_nothing(season: Season, changed: str) -> None:
    """Files, sums or names of an earlier period: its noise was drawn for others."""
    season.release(0)
    season.release(1)
    first, second, third = season.counted(3)
    others = {
        "sums": [first.model_copy(update={"sums": third.sums}), second, third],
        "period": [first, second.model_copy(update={"period": world.Period(files={"another": "content"})}), third],
        "order": [second, first, third],
    }
    with pytest.raises(world.NotVerified, match=facts("releases", "drawn for")):
        season.release(2, others[changed])
    assert season.session.batches == 2


def test_sums_counted_again_need_an_erasure_on_record(season: Season) -> None:
    season.release(0)
    counted = season.counted(2)
    again = [each.sums for each in season.counted(2, other=True)]
    with pytest.raises(world.NotVerified, match="if a unit was erased, and none was"):
        season.release(1, counted, again=again)
    season.door.ledger.remark("d", "erased", "digest of a name")
    released = season.release(1, counted, again=again)
    assert season.session.batches == 2
    assert len(released["sums"]) == 2


def planted(released: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Releases that are wrong, by what is wrong with them."""
    *before, last = released
    turned = [{**each, "fields": each["fields"][::-1], "spans": each["spans"][::-1]} for each in last["questions"]]
    model = [last["questions"][0], {**last["questions"][1], "model": {"columns": 1, "weights": ""}}]
    several = {name: [{**each, name: 7} for each in last["questions"]] for name in ("steps", "classes")}
    nothing, short = [math.nan] * len(last["totals"][1]), last["totals"][1][:-1]
    changes: dict[str, dict[str, Any]] = {
        "follows a model": {"questions": model},
        "another question": {"questions": turned},
        "another season": {"season": 99},
        "other noise": {"scales": [scale / 2 for scale in last["scales"]]},
        "totals of nothing": {"totals": [last["totals"][0], nothing]},
        "other totals": {"totals": [last["totals"][0], [each + 2**20 for each in last["totals"][1]]]},
        "a number less": {"totals": [last["totals"][0], short]},
        "no totals": {"totals": []},
        "another place": {"release": 0},
        "no sums": {"sums": None},
    }
    each = {wrong: [*before, {**last, **change}] for wrong, change in changes.items()}
    for name, questions in several.items():
        each[f"other {name}"] = [{**of, "questions": questions} for of in released]
    return {**each, "one left out": released[1:], "sums of nothing": [{**of, "sums": [[], []]} for of in released]}


def test_the_referee_rejects_releases_that_are_not_those_of_a_season(season: Season) -> None:
    released = season.all()
    settings = world.read_settings(season.session.mechanism).only(world.StreamSettings)
    for number in range(4):
        world.check_season(settings, [world.ReleaseForm.model_validate(release) for release in released[:number]])
    for wrong in planted(released).values():
        with pytest.raises((world.NotVerified, ValidationError)):
            world.check_season(settings, [world.ReleaseForm.model_validate(release) for release in wrong])


def test_what_a_period_took_is_recorded_once(season: Season) -> None:
    vault, (counted,), session = season.door.vault, season.counted(1), season.session
    first = world.keep_counted(vault, session, 0, counted)
    late = counted.model_copy(update={"period": world.Period(files={"a": "1", "late": "2"})})
    assert world.keep_counted(vault, session, 0, late) == first
    assert list(world.periods_counted(vault, session)) == [first]
