"""What holds of every mechanism, over the catalogue: a new one is held to it by its line there."""

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded import DRAWN, RECORDED
from tests.world import (
    MECHANISMS,
    TALLIES,
    artifacts_kinds,
    from_settings,
    mechanisms_mechanism,
)


@pytest.mark.parametrize("name", DRAWN)
def test_settings_rebuild_it_to_the_bit(name: str) -> None:
    made: Any = DRAWN[name]
    kind = artifacts_kinds.Kind.of({key: value for key, value in RECORDED[made.name].items() if key != "relabel"})
    again: Any = from_settings(kind) if name in MECHANISMS else type(made).from_settings(kind)
    assert type(again) is type(made)
    assert again.settings() == made.settings()
    assert again.cost == made.cost


def test_the_list_of_plans_is_the_files_there_are_and_what_ends_each() -> None:
    """`artifacts.sections` may import no mechanism, so it lists them."""
    files = Path(str(mechanisms_mechanism.__file__)).parent.glob("*.py")
    modules = [import_module(f"concord.tasks.mechanisms.{file.stem}") for file in files]
    assert {module.MECHANISM.name for module in modules if hasattr(module, "MECHANISM")} == {*MECHANISMS, TALLIES}
    for name, ends in MECHANISMS.items():
        taken = signature(mechanisms_mechanism.mechanism_class(name).calibrate).parameters
        assert tuple(end for end in ("cutoff", "queries") if end in taken) == ends
