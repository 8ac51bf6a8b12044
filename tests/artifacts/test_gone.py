"""A plan or a command that names what is gone gets one sentence with the alternative."""

import pytest
from typer.testing import CliRunner

from tests.world import GONE, WrongInput, app, parse_plan

COMMANDS = [name for name in GONE if name.startswith("concord ")]
KEYS = [name for name in GONE if not name.startswith("concord ")]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_is_gone_names_the_alternative(key: str) -> None:
    *sections, name = key.split(".")
    tables: dict[str, object] = {name: 1}
    for section in reversed(sections):
        tables = {section: tables}
    with pytest.raises(WrongInput) as refused:
        parse_plan(tables)
    assert str(refused.value) == f"{key} is no longer a key of the plan: {GONE[key]}"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_gone_names_the_alternative(name: str) -> None:
    refused = CliRunner().invoke(app, [name.removeprefix("concord "), "anything", "--at-all"])
    assert isinstance(refused.exception, WrongInput)
    assert str(refused.exception) == f"`{name}` is no longer a command: {GONE[name]}"
