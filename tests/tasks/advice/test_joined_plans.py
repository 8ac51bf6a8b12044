"""All numbers together in a plan: when they are counted, in which rounds, and what `concord plan` says of that."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.support.clusters import clustered, permuted, tables_of_clusters
from tests.support.people import changed


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    return tables_of_clusters(tmp_path / "data")


def facts_of(plan: world.Plan) -> tuple[world.PublicFacts, world.Tallies]:
    public = world.PublicFacts.of(plan)
    return public, world.planned_tallies(plan, public.codes(plan), public.rows)


def said(plan: world.Plan, public: world.PublicFacts) -> str | None:
    return world.views_in_words(plan, public.encoding, public.codes(plan), public.ratio)


def test_clusters_are_counted_in_rounds_of_their_own(given: dict[str, Any]) -> None:
    plan = world.parse_plan(given)
    public, mechanism = facts_of(plan)
    codes, rounds = public.codes(plan), mechanism.rounds
    assert codes.joined is not None
    due = [("codes", 5, False), ("codes", 1, False), ("labels", 1, False), ("labels", 5, True)]
    assert [(of.what, of.fields, of.count > 0) for of in rounds[:4]] == due
    assert math.fsum(of.share for of in rounds) == pytest.approx(1)
    assert sum(of.share for of in rounds[1:3]) == pytest.approx(0.3)
    assert {of.cells for of in rounds[1:3]} == {codes.fields[codes.joined].size}
    for changes, share in (({"labeling__rows": 1000}, 0.5), ({"privacy__epsilon": 0.9}, 0.15)):
        other = facts_of(changed(given, **changes))[1].rounds
        assert sum(of.share for of in other[1:3]) == pytest.approx(share)
    words = said(plan, public)
    assert words is not None
    assert words.startswith("columns, and by cells of all numbers together: public rows cluster (R = 0.")
    assert f"{public.ratio():.2f}, at most {world.most_ratio(5):.2f}). R is the variance that cells leave" in words


def test_columns_alone_are_counted_otherwise_and_it_is_said_why(given: dict[str, Any], tmp_path: Path) -> None:
    off = changed(given, labeling__joined=False)
    public, alone = facts_of(off)
    assert public.codes(off).joined is None
    assert said(off, public) == "columns alone: labeling.joined is false"
    hidden = changed(given, labeling__rows=40)
    assert said(hidden, public) == "columns alone: noise would hide the cells of all numbers together"
    for rows, why in (
        (permuted(clustered(800, 2), 4), "public rows do not cluster (R = "),
        (clustered(world.LEAST_ROWS - 1, 2), f"there are fewer than {world.LEAST_ROWS} public rows"),
    ):
        rows.drop("outcome").write_parquet(tmp_path / "data" / "public.parquet")
        public, mechanism = facts_of(world.parse_plan(given))
        assert (said(world.parse_plan(given), public) or "").startswith(f"columns alone: {why}")
        assert [of.fields for of in mechanism.rounds[:2]] == [of.fields for of in alone.rounds[:2]] == [5, 5]
    some = clustered(800, 2)
    some.drop("outcome", *some.columns[:3]).write_parquet(tmp_path / "data" / "public.parquet")
    few = world.parse_plan(given)
    assert said(few, world.PublicFacts.of(few)) == "columns alone: there are fewer than 2 columns of numbers that vary"


@pytest.mark.parametrize(
    "changes",
    [
        {"stream": {"season": 4, "delivery": "each row once"}},
        {"privacy": {"secret": "labels"}},
        {"data": {"label": "pace", "classes": None, "bounds": [-5, 5]}},
    ],
    ids=["a stream", "labels alone are secret", "a number as label"],
)
def test_some_plans_never_count_them(given: dict[str, Any], changes: dict[str, dict[str, Any]]) -> None:
    for section, values in changes.items():
        merged = {**given.get(section, {}), **values}
        given[section] = {key: value for key, value in merged.items() if value is not None}
    plan = world.parse_plan(given)
    encoding = world.learn_encoding(plan)
    assert "joined" not in world.planned_sizes(plan, encoding)
    assert said(plan, world.PublicFacts.of(plan)) is None


def test_a_rehearsal_of_all_or_of_some_columns_asks_about_them_too(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some columns it has as many units for each cell as of all."""
    monkeypatch.setattr(world.advice_rehearse_tallies, "DRAWS", 1)
    plan = world.parse_plan(given)
    public = world.PublicFacts.of(plan)
    whole = world.expect_tallies(plan, public)
    assert whole.views == said(plan, public)
    assert [ahead.together for ahead in whole.rounds[:4]] == [False, True, True, False]
    assert max(each.right for each in whole.rehearsed) > 0.9
    mechanism, codes = world.planned_tallies(plan, public.codes(plan), public.rows), public.codes(plan)
    assert codes.joined is not None
    stage = world.TalliesStage.planned(plan, mechanism, codes, codes.of(public.sample), public.rows)
    part = stage.within(plan, 3e8)
    assert 1 < len(part.codes.coarse) < 5
    assert part.codes.joined is not None
    cells = [of.fields[of.joined].size for of in (part.codes, codes) if of.joined is not None]
    assert cells[0] == cells[1] * len(part.codes.coarse) // 5
    assert part.rows[:, part.codes.joined].tolist() == part.codes.completed(part.rows)[:, part.codes.joined].tolist()
    assert [of.fields for of in part.mechanism.rounds[:3]] == [len(part.codes.coarse), 1, 1]
    labels = (part.rows[:, 0] > part.rows[:, 0].mean()).astype(np.int64)
    rng = np.random.default_rng(0)
    drawn = part.private(rng)
    assert (part.learned(drawn, labels[drawn], rng).argmax(axis=1) == labels).mean() > 0.7
