"""The environment is read in one place, and a variable that cannot be meant is named."""

import ast
from pathlib import Path

import pytest

from tests.house import House
from tests.support.sentences import facts
from tests.world import HOME, Settings, WrongInput

ROOT = Path(__file__).parents[2]
VARIABLES = {str(field.validation_alias) for field in Settings.model_fields.values()}
FILLED = {
    *(f"flows/{name}.py" for name in ("environment", "database", "server", "serving", "hosted", "cli/app")),
    "artifacts/process.py",
    "tasks/asking/questions.py",
    "tasks/verify/limited.py",
}
"""What fills the environment for Prefect, MLflow and our own processes, or hands it on."""


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def test_nobody_else_reads_the_environment() -> None:
    house = House(ROOT)
    readers = {
        path
        for path, tree in house.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    }
    assert readers - FILLED == {"artifacts/settings.py"}


def test_unset_and_empty_variables_leave_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Settings.now()
    assert plain.home == HOME
    for variable in VARIABLES - {"CONCORD_LEDGER"}:
        monkeypatch.setenv(variable, "")
    assert Settings.now() == plain


def test_a_ledger_that_is_meant_and_not_named_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the home's own would be spent from, where another was meant."""
    monkeypatch.setenv("CONCORD_LEDGER", "")
    with pytest.raises(WrongInput, match=facts("CONCORD_LEDGER", "empty")):
        Settings.now()


def test_names_count_in_capitals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("concord_ledger", "elsewhere")
    assert Settings.now().ledger is None


def test_every_variable_is_explained_to_operators() -> None:
    pages = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "deployments").rglob("*.md")))
    assert {variable for variable in VARIABLES if variable not in pages} == set()
