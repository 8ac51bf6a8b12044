"""Texts that users meet are those on file, and what is said of a wrong plan names what is wrong."""

import pytest

from tests.support.sentences import says
from tests.texts.shown import FOLDER, TEXTS, rendered
from tests.texts.wrong_plans import wrong
from tests.world import WrongInput


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_the_one_on_file(name: str) -> None:
    assert rendered(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), "make reference writes it anew"


def test_a_wrong_plan_is_told_in_one_line_that_names_a_key_at_fault() -> None:
    for _, changes, parse in wrong():
        with pytest.raises(WrongInput) as told:
            parse()
        assert "\n" not in str(told.value)
        keys = {part for place in changes for part in place.split(".")} | {changes.get("name")} - {None}
        assert any(says(told.value, key) for key in keys), (changes, told.value)
