"""Texts that users meet are those on file, and what is said of a wrong plan names what is wrong."""

from pathlib import Path

import pytest

from tests.support.sentences import says
from tests.texts import wrong_plans, wrong_tables
from tests.texts.shown import FOLDER, TEXTS, rendered
from tests.world import WrongInput


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_the_one_on_file(name: str) -> None:
    assert rendered(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), "make reference writes it anew"


def test_a_wrong_plan_is_told_in_one_line_that_names_a_key_at_fault() -> None:
    for _, changes, parse in wrong_plans.wrong():
        with pytest.raises(WrongInput) as told:
            parse()
        assert "\n" not in str(told.value)
        keys = {part for place in changes for part in place.split(".")} | {changes.get("name")} - {None}
        assert any(says(told.value, key) for key in keys), (changes, told.value)


def test_a_wrong_table_is_told_in_one_line_that_names_its_field_and_shows_nothing_private(tmp_path: Path) -> None:
    for section, what, read in wrong_tables.wrong(tmp_path):
        with pytest.raises(WrongInput, match=r"^data(\.|: )") as told:
            read()
        assert "\n" not in str(told.value), what
        assert section == "A public table" or "CANARY" not in str(told.value), what
