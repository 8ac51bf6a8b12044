"""What a check says of two values that differ."""

import pytest

from concord.artifacts.errors import NotVerified
from concord.tasks.verify.checks import equal
from tests.support.sentences import facts


@pytest.mark.parametrize(
    ("found", "recorded", "named"),
    [
        (1, 2, ("1", "2")),
        (
            {"name": "tallies", "settings": {"codes": "8" * 99, "epsilon": 0.1}},
            {"name": "tallies", "settings": {"codes": "8" * 99, "epsilon": 1.0}},
            ("settings", "epsilon", "0.1", "1.0"),
        ),
        (({"share": 1}, 7), ({"share": 2}, 7), ("share", "1", "2")),
        ({}, {"name": "x"}, ("name", "None", "x")),
    ],
)
def test_the_first_value_that_differs_is_named(found: object, recorded: object, named: tuple[str, ...]) -> None:
    with pytest.raises(NotVerified, match=facts("the cutoff", *named)):
        equal("the cutoff", found, recorded)


def test_long_values_are_cut() -> None:
    with pytest.raises(NotVerified, match="…"):
        equal("it", "a" * 99, "b")
