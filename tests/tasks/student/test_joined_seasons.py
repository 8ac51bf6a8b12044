"""Seasons of a stream read as one: the same units, and nearly what one round over all of them would say."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.coded import CODES, hear, labels_of, question_of, rows_of, truth
from tests.world import Floats, NoisyRound, decode, estimated_units, joined, logits

UNITS, NOISE = (30_000, 2_000, 20_000), (100.0, 75.0, 75.0)


def seasons(seed: int) -> list[list[NoisyRound]]:
    found = []
    for at, (units, noise) in enumerate(zip(UNITS, NOISE, strict=True)):
        rows = rows_of(units, 10 * seed + at)
        labels = labels_of(rows, truth(), 10 * seed + at)
        found.append([hear(question_of(CODES.fine), rows, labels, noise, 10 * seed + at)])
    return found


def error(heard: list[NoisyRound]) -> float:
    public, fresh = rows_of(8000, 1), rows_of(5000, 3)
    decoded = decode(heard, public, CODES)
    off: Floats = logits(decoded, fresh)[:, 0] - truth()[fresh].sum(axis=1)[:, 0]
    return float(np.sqrt(np.mean(off**2)))


def test_all_seasons_say_more_than_one_and_a_noisy_one_misleads_nobody() -> None:
    found = [seasons(seed) for seed in range(4)]
    alone = np.mean([error(each[0]) for each in found])
    whole = np.mean([error(joined(each)) for each in found])
    added = np.mean([error(_added(each)) for each in found])
    assert whole < 0.9 * alone
    assert whole < 1.02 * added


def _added(each: list[list[NoisyRound]]) -> list[NoisyRound]:
    """The same sums, plainly added: nothing that is read as one may be worse."""
    rounds = [season[0] for season in each]
    scale = float(np.sqrt(sum(one.scale**2 for one in rounds)))
    return [replace(rounds[0], scale=scale, sums=np.sum([one.sums for one in rounds], axis=0))]


def test_what_it_stands_for_is_said_by_its_count_and_noise() -> None:
    (heard,) = joined(seasons(0))
    units, noise = estimated_units([heard])
    assert 30_000 < units < sum(UNITS)  # a season that says less of each unit counts for fewer
    assert noise == pytest.approx(heard.scale / heard.question.count)
    assert heard.noise < np.sqrt(sum(each**2 for each in NOISE))


def test_one_season_is_read_as_it_was_released() -> None:
    first = seasons(0)[0]
    assert joined([first])[0] is first[0]
    (twice,) = joined([first, first])
    assert twice.sums == pytest.approx(2 * first[0].sums)
    assert twice.scale == pytest.approx(np.sqrt(2) * first[0].scale)
