"""What a check says of two values that differ."""

import pytest

from tests.support.sentences import facts
from tests.world import NotVerified, equal


@pytest.mark.parametrize(
    ("found", "recorded", "named"),
    [
        (1, 2, ("the cutoff is 1", "recorded as 2")),
        (
            {"name": "tallies", "settings": {"codes": "8" * 99, "epsilon": 0.1}},
            {"name": "tallies", "settings": {"codes": "8" * 99, "epsilon": 1.0}},
            ("the cutoff, settings, epsilon is 0.1", "recorded as 1.0"),
        ),
        (({"share": 1}, 7), ({"share": 2}, 7), ("the cutoff, share is 1", "recorded as 2")),
        ({}, {"name": "x"}, ("the cutoff, name is None", "recorded as x")),
    ],
)
def test_the_first_value_that_differs_is_named(found: object, recorded: object, named: tuple[str, ...]) -> None:
    with pytest.raises(NotVerified, match=facts(*named)):
        equal("the cutoff", found, recorded)


def test_long_values_are_cut() -> None:
    with pytest.raises(NotVerified, match="…"):
        equal("it", "a" * 99, "b")
