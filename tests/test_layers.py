"""Who may import whom: the table of the architecture, executable. Imports go down, and no circle closes."""

import ast
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.house import House, imported

ROOT = Path(__file__).parents[1]
HOUSE = House(ROOT)
LARGEST_FILE = 330
LONGEST_CHAIN = 14

TYPES = {"concord.artifacts", "concord.__version__"}
PURE = {"numpy", "scipy", "dp_accounting"}
ROWS = {"numpy", "polars", "pyarrow", "pydantic"}
DOOR_WORK = {"concord.tasks.data", "concord.tasks.asking", "concord.tasks.advice", "concord.tasks.mechanisms"}

ROOMS: dict[str, set[str]] = {
    "artifacts": {"numpy", "pyarrow", "pydantic", "dp_accounting", *TYPES},
    "artifacts/home": {"concord.artifacts.errors", "concord.artifacts.schemas", "concord.artifacts.home"}
    | {"concord.artifacts.settings"}
    | {"numpy", "pyarrow", "cryptography"},
    "artifacts/ledger": {"pydantic", *TYPES},
    "artifacts/mlflow": {"numpy", "pyarrow", "pydantic", *TYPES},
    "tasks/mechanisms": {"concord.artifacts.privacy", "concord.artifacts.errors", "concord.tasks.mechanisms", *PURE}
    | {"concord.artifacts.sections.MECHANISMS", "concord.artifacts.sections.GAME_CUTOFF"},
    "tasks/data": {"concord.tasks.data", "sklearn", "threadpoolctl", *ROWS, *TYPES},
    "tasks/asking": {"concord.tasks.data", "concord.tasks.mechanisms", "concord.tasks.asking", *TYPES, *ROWS}
    | {"scipy", "sklearn", "threadpoolctl"},
    "tasks/advice": {"concord.tasks.data", "concord.tasks.asking", "concord.tasks.mechanisms", "concord.tasks.advice"}
    | {*TYPES, *ROWS},
    "tasks/door": {"concord.tasks.door", *DOOR_WORK, *TYPES, *ROWS},
    "tasks/student": {"concord.tasks.student", "concord.tasks.data", "concord.tasks.mechanisms", *TYPES, *ROWS}
    | {"pandas", "sklearn", "skops", "scipy", "threadpoolctl"},
    "tasks/publish": {"concord", "concord.tasks.publish", "concord.tasks.student", *DOOR_WORK, *TYPES, *ROWS}
    | {"jinja2", "markupsafe", "matplotlib", "scipy"},
    "tasks/verify": {
        "concord.tasks.verify",
        "concord.tasks.publish",
        "concord.tasks.student",
        *DOOR_WORK,
        *TYPES,
        *ROWS,
    }
    | {"scipy"},
    "flows": {"concord", "prefect", "prefect_dask", "pydantic", "typer", "rich"},
}
ALONE = {
    "flows/hosted.py": {"uvicorn"},
    "flows/cluster.py": {"dask", "distributed"},
    "tasks/asking/alone.py": {"cloudpickle"},
    "tasks/asking/answers.py": {"cloudpickle"},
    "tasks/asking/questions.py": {"cloudpickle"},
    "tasks/data/databases.py": {"sqlalchemy"},
    "tasks/data/sources.py": {"deltalake"},
    "tasks/publish/disclosures.py": {"sklearn", "yaml"},
    "tasks/publish/export.py": {"sklearn"},
    "tasks/student/onnx.py": {"skl2onnx"},
    "tasks/mechanisms/noise.py": {"opendp", "cryptography"},
    "artifacts/home/signing.py": {"pydantic"},
    "artifacts/home/token.py": {"pkcs11"},
    "artifacts/model_signature.py": {"cryptography"},
    "artifacts/settings.py": {"pydantic_settings"},
    "artifacts/ledger/database.py": {"sqlalchemy"},
    "artifacts/mlflow/read.py": {"mlflow"},
    "artifacts/mlflow/store.py": {"mlflow"},
    "artifacts/mlflow/write.py": {"mlflow"},
}
"""What one file knows and no other: who reads MLflow to verify loads nothing that writes."""
IMPURE = {"os", "pathlib", "io", "time", "datetime", "tempfile", "socket", "subprocess", "random", "secrets"}
"""Of the standard library, what a mechanism does without."""


def room_of(path: str) -> str:
    """The longest entry of ROOMS that a file lies in."""
    return max((room for room in ROOMS if path.startswith(f"{room}/")), key=len)


def foreign(path: str, modules: set[str]) -> set[str]:
    """The imports of a file that its room does not allow."""
    room = room_of(path)
    allowed = ROOMS[room] | ALONE.get(path, set())
    standard = set(sys.stdlib_module_names) - (IMPURE if room == "tasks/mechanisms" else set())

    def is_allowed(module: str) -> bool:
        if module.split(".")[0] in standard:
            return True
        return any(module == name or module.startswith(f"{name}.") for name in allowed - {"concord"}) or (
            "concord" in allowed
            and (room == "flows" or not module.startswith("concord."))
            and module.split(".")[0] == "concord"
        )

    return {module for module in modules if not is_allowed(module)}


@pytest.mark.parametrize("path", HOUSE.rooms)
def test_a_file_imports_what_its_room_allows(path: str) -> None:
    assert foreign(path, imported(HOUSE.trees[path])) == set()


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("tasks/mechanisms/stable.py", "prefect.task"),
        ("tasks/mechanisms/stable.py", "time"),
        ("tasks/mechanisms/stable.py", "opendp.prelude"),
        ("tasks/mechanisms/stable.py", "concord.tasks.data.cells"),
        ("tasks/student/study.py", "mlflow"),
        ("tasks/student/study.py", "concord.tasks.door.release"),
        ("tasks/student/study.py", "concord.flows.learn"),
        ("tasks/data/cells.py", "concord.tasks.asking.teachers"),
        ("tasks/verify/verify.py", "concord.tasks.door.release"),
        ("artifacts/mlflow/describe.py", "mlflow"),
        ("artifacts/home/vault.py", "concord.artifacts.ledger.ledger"),
        ("artifacts/plan.py", "concord.tasks.student.study"),
        ("artifacts/plan.py", "sqlalchemy"),
        ("flows/learn.py", "mlflow"),
        ("flows/learn.py", "tasks.door.release"),
    ],
)
def test_the_table_refuses_what_it_should(path: str, module: str) -> None:
    assert foreign(path, {module}) == {module}


APART = {
    "tasks/verify/reckoning.py": {"concord.artifacts.errors", "concord.tasks.verify"},
    "tasks/verify/holdings.py": {"concord.tasks.verify"},
    "tasks/verify/recompute.py": {"concord.artifacts.errors", "concord.tasks.verify"},
    "tasks/verify/recompute_filter.py": {"concord.artifacts.errors", "concord.tasks.verify"},
    "tasks/verify/recompute_game.py": {"concord.artifacts.errors"},
    "tasks/verify/recompute_gaussian.py": {"concord.artifacts.errors"},
    "tasks/verify/recompute_questions.py": set[str](),
}
"""What checks the ledger shares no line with what writes it."""


@pytest.mark.parametrize("path", APART)
def test_what_checks_is_apart_from_what_is_checked(path: str) -> None:
    ours = {module for module in imported(HOUSE.trees[path]) if module.startswith("concord.")}
    assert {module for module in ours if not any(module.startswith(f"{name}.") for name in APART[path])} == set()


def test_no_circle_closes() -> None:
    assert HOUSE.circles == []


def test_no_two_rooms_import_each_other() -> None:
    """But for a room within a room: `mechanisms` and its `hypotheses` are one."""
    folders = {path: str(PurePosixPath(path).parent).removesuffix("/hypotheses") for path in HOUSE.rooms}
    arrows = {(folders[path], folders[other]) for path, others in HOUSE.arrows.items() for other in others}
    within = {"artifacts", "flows"}  # the types and flows that all of a folder's rooms share lie in the folder itself
    assert {(a, b) for a, b in arrows if a != b and (b, a) in arrows and not within & {a, b}} == set()


def test_files_are_of_a_size_to_read() -> None:
    assert {path: lines for path, lines in HOUSE.lines.items() if lines > LARGEST_FILE} == {}
    assert len(HOUSE.chain) <= LONGEST_CHAIN


def test_every_folder_says_what_it_offers() -> None:
    folders = {str(PurePosixPath(path).parent) for path in HOUSE.texts}
    for folder in folders:
        words = ast.get_docstring(HOUSE.trees[f"{folder}/__init__.py"]) or ""
        assert words, folder
        files = {PurePosixPath(path).stem for path in HOUSE.rooms if str(PurePosixPath(path).parent) == folder}
        named = {name for name in files if f"`{name}`" in words}
        assert named == files - {"__init__"}, (folder, files - named)


def test_our_packages_are_known_by_one_name() -> None:
    """A module imported as `tasks.…` beside `concord.tasks.…` would be there twice."""
    for path in (*HOUSE.texts, *(str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("*.py"))):
        modules = imported(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        assert not {name for name in modules if name.split(".")[0] in ("flows", "tasks", "artifacts")}, path
