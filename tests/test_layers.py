"""Who may import whom: the table of the architecture, executable."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"flows", "tasks", "artifacts"}
COMMON = {"numpy", "pyarrow", "pydantic", "dp_accounting", "cryptography", "jinja2", "markupsafe"}

LAYERS = {
    "flows": {"tasks", "artifacts", "flows", "prefect", "prefect_dask", "typer", "rich", "pydantic"},
    "tasks": {"artifacts", "tasks", "prefect", "sklearn", "skops", "polars", "pyarrow", "numpy", "matplotlib"}
    | {"pydantic", "joblib", "threadpoolctl", "pandas", "scipy"},
    "tasks/mechanisms": {
        "artifacts.composition",
        "artifacts.privacy",
        "artifacts.errors",
        "artifacts.sections.MECHANISMS",  # the catalogue: what plans may name
        "artifacts.sections.GAME_CUTOFF",  # and up to which cutoff one of its accountants
        "tasks.mechanisms",
        "numpy",
        "scipy",
        "dp_accounting",
    },
    "artifacts": {"artifacts", *COMMON},
}
# MLflow is known where its store is made, where it is written, where it is read, and where a model is packed for it:
# who reads it to verify loads nothing that writes.
ALONE = {
    "tasks/mechanisms/noise.py": {"opendp", "cryptography"},
    "flows/cluster.py": {"dask", "distributed"},
    "flows/hosted.py": {"uvicorn"},
    "artifacts/entries.py": {"sqlalchemy"},
    "artifacts/tracking.py": {"mlflow"},
    "artifacts/recorded.py": {"mlflow"},
    "artifacts/tracking_store.py": {"mlflow"},
    "artifacts/model_folder.py": {"mlflow"},
}
# What checks the ledger shares no line with what writes it.
APART = {
    "tasks/reckoning.py": {"artifacts.errors", "tasks.recompute", "tasks.holdings"},
    "tasks/holdings.py": set[str](),
    "tasks/recompute.py": {"artifacts.errors", "tasks.recompute_game"},
    "tasks/recompute_game.py": set[str](),
}
STANDARD_BUT_IMPURE = {
    "os",
    "pathlib",
    "io",
    "time",
    "datetime",
    "tempfile",
    "socket",
    "subprocess",
    "random",
    "secrets",
}


def sources() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for top in OURS for path in (ROOT / top).rglob("*.py"))


def imports(path: str) -> set[str]:
    """Every module a file imports, by its full dotted name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(path: str) -> str:
    return max((name for name in LAYERS if path.startswith(f"{name}/")), key=len)


def foreign(path: str, modules: set[str]) -> set[str]:
    """The imports of a file that its layer does not allow."""
    allowed = LAYERS[layer(path)] | ALONE.get(path, set())
    standard = set(sys.stdlib_module_names) - (STANDARD_BUT_IMPURE if layer(path) == "tasks/mechanisms" else set())

    def fine(module: str) -> bool:
        return module.split(".")[0] in standard or any(module == one or module.startswith(f"{one}.") for one in allowed)

    return {module for module in modules if not fine(module)}


@pytest.mark.parametrize("path", sources())
def test_a_file_imports_what_its_layer_allows(path: str) -> None:
    assert foreign(path, imports(path)) == set()


@pytest.mark.parametrize("path", APART)
def test_what_checks_is_apart_from_what_is_checked(path: str) -> None:
    ours = {module for module in imports(path) if module.split(".")[0] in OURS}
    assert {module for module in ours if not any(f"{module}.".startswith(f"{one}.") for one in APART[path])} == set()


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("tasks/mechanisms/stable.py", "prefect.task"),
        ("tasks/mechanisms/stable.py", "time"),
        ("tasks/mechanisms/stable.py", "opendp.prelude"),
        ("tasks/study.py", "mlflow"),
        ("artifacts/publication.py", "mlflow"),
        ("tasks/study.py", "flows.learn"),
        ("artifacts/vault.py", "tasks.study"),
        ("artifacts/plan.py", "sqlalchemy"),
    ],
)
def test_the_table_refuses_what_it_should(path: str, module: str) -> None:
    assert foreign(path, {module}) == {module}


@pytest.mark.parametrize("path", [path for path in sources() if path.endswith("__init__.py")])
def test_packages_are_empty(path: str) -> None:
    assert (ROOT / path).read_text() == ""
