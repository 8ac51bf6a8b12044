"""Arguments of stages by Prefect's engine: what a task is given, under which key its result is kept, and that Prefect
does not look through it, which took longer than all else in tables of many columns.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from tests.world import Place, StageName, Stages, Vault, at_work, key_of, mapped, on_workers, stage

pytestmark = pytest.mark.usefixtures("prefect_server")
SEARCHED, RAN = list[str](), list[Any]()


@pytest.fixture(autouse=True)
def _nothing_yet() -> None:
    SEARCHED.clear()
    RAN.clear()


class Cuts(list[float]):
    """Cuts of codes that tell of Prefect's search for futures in them."""

    def __iter__(self) -> Iterator[float]:
        if sys._getframe(1).f_code.co_name == "visit_collection":
            SEARCHED.append("searched")
        return super().__iter__()


@stage("code")
def once(place: Place, cuts: Cuts) -> list[float]:
    """A stage of one task."""
    RAN.append((type(cuts), place.key))
    return cuts[:1]


@mapped("tally")
def each(place: Place, part: int, cuts: Cuts) -> list[float]:
    """A stage of a task for each part."""
    RAN.append((type(cuts), place.key))
    return cuts[part:]


@task(name="gather", persist_result=False, cache_policy=NO_CACHE)
def part_of_stage(call: Cuts) -> float:
    """A task that is part of a stage."""
    RAN.append((type(call), ""))
    return call[0]


def in_turn(run: Any, cuts: Cuts) -> list[Any]:
    with each.in_turn(run, [0, 1], 1, cuts) as result:
        return [result(0), result(1)]


WAYS: dict[str, Callable[[Any, Cuts], Any]] = {
    "a stage of one task": once,
    "a mapped stage": lambda run, cuts: each(run, [0, 1], cuts),
    "a stage in turn": in_turn,
    "a part of a stage": lambda _, cuts: on_workers(part_of_stage, [{"call": cuts}] * 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_argument_is_searched_and_each_is_in_the_key(way: str, home: Path) -> None:
    @flow
    def learn(start_from: StageName | None, cut: float) -> list[Any]:
        with at_work(home, None):
            return [WAYS[way](SimpleNamespace(stages=Stages(home, start_from)), Cuts([cut, 1.5]))]

    found = [learn(None, 0.5), learn(None, 0.5), learn("code", 0.5), learn(None, 0.25)]
    assert found[0] == found[1] == found[2] != found[3]
    assert not SEARCHED
    assert {kind for kind, _ in RAN} == {Cuts}
    keys, vault = [key for _, key in RAN if key], Vault(home / "vault")
    match way:
        case "a part of a stage":
            assert len(RAN) == 8  # it is in no cache
        case "a stage of one task":
            assert keys == [key_of(vault, "code", "1", {"cuts": [cut, 1.5]}) for cut in (0.5, 0.5, 0.25)]
        case _:
            parts = [{"part": part, "cuts": [cut, 1.5]} for cut in (0.5, 0.5, 0.25) for part in (0, 1)]
            assert sorted(keys) == sorted(key_of(vault, "tally", "1", call) for call in parts)
