"""Who may import whom: the table of the architecture, executable. Imports go down, and no circle closes."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import TypeGuard

import pytest

from tests.house import House, imported, words
from tests.world import CATALOGUE, STUDENT_TEST

ROOT = Path(__file__).parents[1]
HOUSE = House(ROOT)
FACADE = "tests/world.py"

TYPES = {"concord.artifacts", "concord.__version__"}
PURE = {"numpy", "scipy", "dp_accounting"}
ROWS = {"numpy", "polars", "pyarrow", "pydantic"}
UNITS = {"concord.tasks.data", "concord.tasks.units"}
"""Rows are read by their units, and a unit's name is that of a cell: until the core closes, each imports the other."""
DOOR_WORK = {*UNITS, "concord.tasks.asking", "concord.tasks.advice", "concord.tasks.mechanisms"}

ROOMS: dict[str, set[str]] = {
    "artifacts": {"numpy", "pyarrow", "pydantic", "dp_accounting", *TYPES},
    "artifacts/home": {"concord.artifacts.errors", "concord.artifacts.schemas", "concord.artifacts.home"}
    | {"concord.artifacts.settings"}
    | {"numpy", "pyarrow", "cryptography"},
    "artifacts/ledger": {"pydantic", *TYPES},
    "artifacts/mlflow": {"numpy", "pyarrow", "pydantic", *TYPES},
    "tasks/mechanisms": {"concord.artifacts.privacy", "concord.artifacts.errors", "concord.tasks.mechanisms", *PURE}
    | {"concord.artifacts.sections.MECHANISMS", "concord.artifacts.schemas", "pydantic"},
    "tasks/units": {*UNITS, "concord.tasks.mechanisms", "threadpoolctl", *ROWS, *TYPES},
    "tasks/data": {*UNITS, "sklearn", "threadpoolctl", *ROWS, *TYPES},
    "tasks/asking": {*UNITS, "concord.tasks.mechanisms", "concord.tasks.asking", *TYPES, *ROWS}
    | {"scipy", "sklearn", "threadpoolctl"},
    "tasks/advice": {*UNITS, "concord.tasks.asking", "concord.tasks.mechanisms", "concord.tasks.advice"}
    | {"concord.tasks.student", "scipy", "sklearn", "threadpoolctl", *TYPES, *ROWS},
    "tasks/door": {
        "concord.tasks.door",
        "concord.tasks.verify.recompute",
        *DOOR_WORK,
        *TYPES,
        *ROWS,
    },
    "tasks/asks": {"concord.tasks.asks", "concord.tasks.door", *DOOR_WORK, *TYPES, *ROWS}
    | {"concord.tasks.student.private_figures", "concord.tasks.student.running_totals"},
    "tasks/student": {"concord.tasks.student", "concord.tasks.data", "concord.tasks.mechanisms", *TYPES, *ROWS}
    | {"pandas", "sklearn", "skops", "scipy", "threadpoolctl"},
    "tasks/publish": {"concord", "concord.tasks.publish", "concord.tasks.student", *DOOR_WORK, *TYPES, *ROWS}
    | {"concord.tasks.asks.kinds", "jinja2", "markupsafe", "matplotlib", "scipy"},
    "tasks/verify": {
        "concord.tasks.verify",
        "concord.tasks.asks.kinds",
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
    "flows/operation.py": {"httpx"},
    "flows/api.py": {"polars"},
    "flows/results.py": {"polars"},
    "flows/classifier.py": {"numpy", "polars", "pyarrow", "sklearn"},
    "flows/cluster.py": {"dask", "distributed"},
    "tasks/asking/answers.py": {"cloudpickle"},
    "tasks/asking/questions.py": {"cloudpickle"},
    "tasks/asks/estimate.py": {"scipy"},
    "tasks/data/sources.py": {"sqlalchemy"},
    "tasks/data/frames.py": {"pandas"},
    "tasks/advice/draft.py": {"jinja2"},
    "tasks/publish/export.py": {"sklearn"},
    "tasks/publish/report.py": {"sklearn"},
    "tasks/mechanisms/noise.py": {"opendp", "cryptography"},
    "artifacts/home/signing.py": {"pydantic"},
    "artifacts/settings.py": {"pydantic_settings"},
    "artifacts/ledger/database.py": {"sqlalchemy"},
    "artifacts/mlflow/read.py": {"mlflow"},
    "artifacts/mlflow/store.py": {"mlflow"},
    "artifacts/mlflow/write.py": {"mlflow"},
}
"""What one file knows and no other: who reads MLflow to verify loads nothing that writes."""
IMPURE = {"os", "pathlib", "io", "time", "datetime", "tempfile", "socket", "subprocess", "random", "secrets"}
"""Of the standard library, what a mechanism does without."""


@cache
def trees_of_tests() -> dict[str, ast.Module]:
    """The files of tests, parsed when first looked at: it takes a second, and each worker collects this file."""
    files = (ROOT / "tests").rglob("*.py")
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


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
        ("tasks/student/study.py", "concord.tasks.door.admit"),
        ("tasks/student/study.py", "concord.flows.learn"),
        ("tasks/door/door.py", "concord.tasks.asks.tallies"),
        ("tasks/data/cells.py", "concord.tasks.asking.questions"),
        ("tasks/verify/verify.py", "concord.tasks.door.admit"),
        ("artifacts/mlflow/describe.py", "mlflow"),
        ("artifacts/home/vault.py", "concord.artifacts.ledger.ledger"),
        ("artifacts/plan.py", "concord.tasks.student.study"),
        ("artifacts/plan.py", "sqlalchemy"),
        ("flows/learn.py", "mlflow"),
        ("flows/learn.py", "tasks.door.admit"),
    ],
)
def test_the_table_refuses_what_it_should(path: str, module: str) -> None:
    assert foreign(path, {module}) == {module}


APART = {
    "tasks/verify/replay.py": {"tasks/verify/recompute.py"},
    "tasks/verify/recompute.py": {"tasks/verify/recompute_discrete.py", "tasks/verify/recompute_gaussian.py"},
    "tasks/verify/recompute_discrete.py": set[str](),
    "tasks/verify/recompute_gaussian.py": set[str](),
    "tasks/verify/kinds.py": set[str](),
}
"""What checks the ledger shares no line with what writes it: of ours, each imports these rooms alone, and the kinds of
settings, the types of their values and the errors."""


@pytest.mark.parametrize("path", APART)
def test_what_checks_is_apart_from_what_is_checked(path: str) -> None:
    allowed = APART[path] | {"tasks/verify/kinds.py", "artifacts/schemas.py", "artifacts/errors.py"}
    assert HOUSE.arrows[path] - allowed == set()


TAKES_ANY_ASK = {"admit", "cache", "home", "run", "stage", "steps"}
KINDS = {
    node.name
    for path in HOUSE.rooms
    if path.startswith("tasks/asks/")
    for node in ast.walk(HOUSE.trees[path])
    if isinstance(node, ast.ClassDef)
} | (CATALOGUE.keys() - {"published", "stream"})  # names that stand for other things as well
ABOUT_A_KIND = {"LABELS", "STUDENT_TEST", STUDENT_TEST, "tallied", "learner"}


def takes_any_ask(path: str) -> bool:
    """Whether a file is of the door, or of a run whatever it asks."""
    room, file = str(PurePosixPath(path).parent), PurePosixPath(path).stem
    return room == "tasks/door" or (room == "flows" and file in TAKES_ANY_ASK)


@pytest.mark.parametrize("path", [path for path in HOUSE.rooms if takes_any_ask(path)])
def test_the_door_and_admission_know_no_kind_of_release(path: str) -> None:
    """They go by what an ask says of itself."""
    assert words(HOUSE.trees[path]) & (KINDS | ABOUT_A_KIND) == set()


def test_one_loop_passes_the_door() -> None:
    """Whatever is asked, `release` alone begins, draws, publishes and commits its steps."""
    calls = [path for path in HOUSE.rooms for node in ast.walk(HOUSE.trees[path]) if _calls(node, "pass_step")]
    assert calls == ["tasks/door/door.py"]


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def test_no_circle_closes() -> None:
    """Rooms have an order, or CycleError names a circle of them. One arrow goes back: every kind offers `calibrate`,
    which asks the room that knows all kinds."""
    arrows, kind = dict(HOUSE.arrows), "tasks/mechanisms/mechanism.py"
    arrows[kind] = arrows[kind] - {"tasks/mechanisms/calibration.py"}
    assert {*TopologicalSorter(arrows).static_order()} >= {*HOUSE.rooms}


def test_no_two_rooms_import_each_other() -> None:
    """But for a room within a room: `mechanisms` and its `hypotheses` are one."""
    folders = {path: str(PurePosixPath(path).parent).removesuffix("/hypotheses") for path in HOUSE.rooms}
    arrows = {(folders[path], folders[other]) for path, others in HOUSE.arrows.items() for other in others}
    within = {"artifacts", "flows"}  # the types and flows that all of a folder's rooms share lie in the folder itself
    both = {(a, b) for a, b in arrows if a != b and (b, a) in arrows and not within & {a, b}}
    assert both <= {("tasks/data", "tasks/units"), ("tasks/units", "tasks/data")}


def test_no_two_files_of_tests_have_one_name() -> None:
    """They are collected by name, so the second would stop the whole run."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_folder_says_what_it_offers() -> None:
    folders = {str(PurePosixPath(path).parent) for path in HOUSE.texts}
    for folder in folders:
        plate = ast.get_docstring(HOUSE.trees[f"{folder}/__init__.py"]) or ""
        assert plate, folder
        paths = [path for path in HOUSE.rooms if str(PurePosixPath(path).parent) == folder and not is_of_a_kind(path)]
        files = {PurePosixPath(path).stem for path in paths}
        named = {name for name in files if f"`{name}`" in plate}
        assert named == files - {"__init__"}, (folder, files - named)


def is_of_a_kind(path: str) -> bool:
    """Whether a file defines a mechanism, or an ask: these are known by the catalogues, and by their own words."""
    stated = {"tasks/mechanisms": "name", "tasks/asks": "purpose"}.get(str(PurePosixPath(path).parent))
    parts = [part for node in HOUSE.trees[path].body if isinstance(node, ast.ClassDef) for part in node.body]
    return any(isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == stated for part in parts)


NAMED = KINDS | {"questions"}
CATALOGUES = {"TALLIES", "MECHANISMS", "STUDENT_TEST"}
KNOW_NO_KIND = ("tasks/publish/", "tasks/verify/", "tasks/door/", "flows/", "artifacts/mlflow/")
TABLES = {
    "flows/cli/advice.py": "shows what each mechanism that a plan may name would do",
}
"""Files of those that name kinds of release, and why they may."""


def kinds_compared(tree: ast.AST) -> set[str]:
    """The comparisons of a file that name a kind of release or a mechanism; a plan's way to learn is neither."""
    compared = [node.pattern if isinstance(node, ast.match_case) else node for node in ast.walk(tree)]
    return {
        ast.unparse(node)
        for node in compared
        if isinstance(node, ast.Compare | ast.pattern) and _names_a_kind([*ast.walk(node)])
    }


def _names_a_kind(inside: list[ast.AST]) -> bool:
    if any(isinstance(part, ast.Attribute) and part.attr == "learner" for part in inside):
        return False
    return any(
        (isinstance(part, ast.Constant) and part.value in NAMED)
        or (isinstance(part, ast.Name) and part.id in CATALOGUES)
        for part in inside
    )


@pytest.mark.parametrize("path", [path for path in HOUSE.rooms if path.startswith(KNOW_NO_KIND)])
def test_nobody_but_the_catalogues_compares_a_kind_by_its_name(path: str) -> None:
    assert bool(kinds_compared(HOUSE.trees[path])) is (path in TABLES)


READ_BY_KEY = (
    "artifacts/facts.py",
    "tasks/mechanisms/mechanism.py",
    "tasks/mechanisms/catalogue.py",
    "tasks/verify/kinds.py",
    "tasks/verify/recompute.py",
)


def test_nobody_reads_a_session_s_settings_by_key() -> None:
    """Whoever does infers a kind from its keys, and knows each by heart: the catalogue reads mechanisms, and facts."""
    keyed = {path: [*_keyed(HOUSE.trees[path])] for path in HOUSE.rooms if path not in READ_BY_KEY}
    assert {path: lines for path, lines in keyed.items() if lines} == {}


def _keyed(tree: ast.AST) -> Iterator[int]:
    """Lines that take a part of settings by its key, or ask whether they have one."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=whole, ctx=ast.Load()) | ast.Attribute(value=whole, attr="get" | "keys" | "pop"):
                found = _is_settings(whole)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[whole]):
                found = _is_settings(whole)
            case _:
                continue
        if found:
            yield node.lineno


def _is_settings(node: ast.AST) -> bool:
    """Whether an expression is named, or is made by something named, as the settings of a session are."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=name)):
            return name in ("settings", "mechanism")
        case ast.Call(func=made):
            return _is_settings(made)
    return False


def test_no_name_is_dead() -> None:
    """What a file defines at its top is named somewhere else too, or is handed to a decorator."""
    texts = (*HOUSE.texts.values(), *(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")))
    named = Counter(word for text in texts for word in re.findall(r"\w+", text))
    defined = ((path, node) for path in HOUSE.rooms for node in HOUSE.trees[path].body)
    assert [(path, name) for path, node in defined for name in _names(node) if named[name] == 1] == []


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list:
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_our_packages_are_known_by_one_name() -> None:
    """A module imported as `tasks.…` beside `concord.tasks.…` would be there twice."""
    for path, tree in (HOUSE.trees | trees_of_tests()).items():
        assert not {name for name in imported(tree) if name.split(".")[0] in ("flows", "tasks", "artifacts")}, path


def test_tests_reach_the_product_through_one_facade() -> None:
    """So a module that moves, or is split or joined, changes no other test; and tests patch by the object, or where
    another process is told, by its name in the façade."""
    deep = re.compile(r"concord\.(flows|tasks|artifacts)\.")
    for path in trees_of_tests().keys() - {FACADE}:
        assert not {name for name in imported(trees_of_tests()[path]) if deep.match(name)}, path
        patched = {
            ast.unparse(node.args[0]).strip("f'") for node in ast.walk(trees_of_tests()[path]) if _sets_attribute(node)
        }
        assert not {name for name in patched if deep.match(name)}, path


def _sets_attribute(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"


def test_no_test_imports_another() -> None:
    """What tests share is in tests/support, or beside them in a file without tests."""
    files = {
        path.removesuffix(".py").replace("/", ".")
        for path in trees_of_tests()
        if path.rpartition("/")[2].startswith("test_")
    }
    taken = {
        path: {name for name in imported(tree) if files & {name, name.rpartition(".")[0]}}
        for path, tree in trees_of_tests().items()
    }
    assert {path: names for path, names in taken.items() if names} == {}


def test_a_file_takes_the_facade_whole_or_names_of_it_on_one_line() -> None:
    for path, tree in trees_of_tests().items():
        taken = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "tests.world"]
        assert not (taken and "tests.world" in imported(tree)), path
        assert all(node.lineno == node.end_lineno for node in taken), path


def test_the_facade_offers_what_some_test_takes() -> None:
    offered = {
        alias.asname or alias.name for node in ast.walk(trees_of_tests()[FACADE]) for alias in _of_the_product(node)
    }
    taken = {name.removeprefix("tests.world.") for tree in trees_of_tests().values() for name in imported(tree)}
    for path in trees_of_tests().keys() - {FACADE}:
        taken |= {*re.findall(r"\bworld\.(\w+)", (ROOT / path).read_text("utf-8"))}
    assert offered - taken == set()


def _of_the_product(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("concord.") else []
