"""The page of scale is what the simulation says, and the simulation what arithmetic says where that is enough."""

import pytest

from tests.benchmarks.schedule import AHEAD, PAGE, Size, interleaved, measured, page, simulate, spread
from tests.world import FAR_AHEAD


def test_the_page_is_what_the_script_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, measured()) == text, "python -m tests.benchmarks.schedule writes it"
    assert "| 1,024 |" in text
    assert AHEAD == FAR_AHEAD


def test_one_worker_takes_the_sum_and_many_the_longest() -> None:
    tasks = [3.0, 1.0, 2.0, 2.0]
    assert spread(tasks, 1) == sum(tasks)
    assert spread(tasks, 9) == max(tasks)
    assert spread(tasks, 2) == 5.0


@pytest.mark.parametrize(
    ("polls", "door", "workers", "ahead", "wall"),
    [
        ([4.0] * 6, [1.0] * 6, 1, 64, 25.0),  # polls decide, and the last passage
        ([4.0] * 6, [1.0] * 6, 6, 64, 10.0),  # the door decides, after the first poll
        ([4.0] * 3, [5.0] * 3, 1, 64, 19.0),
        ([4.0] * 4, [1.0] * 4, 4, 0, 20.0),  # nothing ahead: one after the other
    ],
)
def test_polls_and_door_go_on_together(
    polls: list[float], door: list[float], workers: int, ahead: int, wall: float
) -> None:
    assert interleaved(polls, door, workers, ahead) == wall


def test_more_workers_take_no_longer_and_no_less_than_the_single_process() -> None:
    rates, size = measured(), Size(private=10**7, public=10**7, teachers=1000)
    runs = [simulate(size, rates, workers) for workers in (1, 4, 16, 64)]
    assert [run.wall for run in runs] == sorted((run.wall for run in runs), reverse=True)
    single = runs[0].stages["encode"] + runs[0].stages["split"] + size.public / rates.labels
    assert all(run.wall >= single for run in runs)
    assert all(run.busy == runs[0].busy for run in runs)
