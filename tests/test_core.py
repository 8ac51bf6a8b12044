"""The core: the files that privacy hangs on, in one list, and who may cross its border.

A fault outside these files costs accuracy, and is refused or bounded, but for those that tests/privacy/README.md names:
tests/privacy/test_outside_the_core.py plants some. Python's walls are conventions and no sandbox: this list says what
to read, and holds nobody who means to break it.
"""

import ast
import gc
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType, ModuleType, SimpleNamespace

import numpy as np
import pytest

from tests import world
from tests.house import House, imported
from tests.promises.kinds import KINDS, Kind

HOUSE = House(Path(__file__).parents[1])
FOLDERS = ("tasks/mechanisms/", "tasks/units/", "tasks/door/")
NAMED = {
    *(f"artifacts/{name}.py" for name in ("privacy", "domains", "parts", "sessions", "stores")),
    *(f"artifacts/home/{name}.py" for name in ("vault", "atomic", "users")),
    *(f"artifacts/ledger/{name}.py" for name in ("events", "state", "reading", "ledger", "database")),
}
BESIDE = {
    "tasks/mechanisms/calibration.py": "searches settings within a budget: the door opens none that do not prove it",
    "tasks/mechanisms/refusal_tables.py": "the same, of tables of refusals",
    "tasks/door/checkpoint.py": "what a session is continued with: public rows, and names of files",
    "tasks/door/erase.py": "removes files, and ends sessions by the ledger's rule",
}
"""Files of those folders that no guarantee hangs on."""
CORE = {path for path in HOUSE.rooms if path.startswith(FOLDERS)} - BESIDE.keys() | NAMED
CEILING = 9_095
"""Lines of the core. The aim is 4,500: more than it today is a decision that somebody sees here."""

VALUES = {
    f"artifacts/{name}.py"
    for name in ("errors", "schemas", "facts", "plan", "sections", "learners", "settings", "sources")
}
"""What every room reads: errors, settings, and values without a rule of privacy."""
LIBRARIES = {"numpy", "scipy", "opendp", "dp_accounting", "cryptography", "pyarrow", "polars", "pydantic", "sqlalchemy"}
ROWS_ARE_READ = {
    "tasks/units/arrivals.py": {"files", "places", "tables"},
    "tasks/units/blocks.py": {"cells", "codes", "files", "tables"},
    "tasks/units/counts.py": {"codes", "matrix"},
    "tasks/units/identifiers.py": {"concord_student"},
    "tasks/units/parts.py": {"tables"},
    "tasks/units/relabel.py": {"matrix"},
    "tasks/units/split.py": {"cells", "matrix", "sources", "tables"},
    "tasks/units/sums.py": {"codes", "grid"},
    "tasks/units/teachers.py": {"encode", "matrix"},
    "tasks/units/units.py": {"cells", "files", "tables"},
}
"""Rooms of tasks/data that read or encode a row for the core, which imports them still: they are not handed to it yet.
That a row becomes the same in any company is held by tests/privacy/test_row_alone.py."""
OTHERWISE = {
    "artifacts/stores.py": {
        "artifacts/certificate.py",
        "artifacts/home/released.py",
        "artifacts/ledger/home_contents.py",
    },
    "tasks/door/admit.py": {"tasks/verify/recompute.py"},
    "tasks/mechanisms/mechanism.py": {"tasks/mechanisms/calibration.py"},
}
"""What else the core imports: the stores are made in one place, a recorded cost is computed a second time, and a kind
hands its calibration on."""

VAULT, RELEASED = "concord.artifacts.home.vault", "concord.artifacts.home.released"
STORES, PRIVATE_PLACE = "concord.artifacts.stores.Stores", "concord.artifacts.stores.PrivatePlace"
NAMES_FILES = re.compile(r"(^|[.])(passed|outcome)$")
"""A disclosure and the outcome of a batch, whose `released` only names files: whatever else has one gives the files."""
WITHOUT_CONTENT = {f"{RELEASED}.{name}" for name in ("ROUND_FILE", "sha256", "settle")}
"""A name, a digest, and the end of a publication that was interrupted: they are given nothing to publish."""
OPEN_THE_VAULT = {
    "artifacts/home/signing.py": "the key that signs is a secret of the vault",
    "artifacts/ledger/excerpt.py": "so is the salt that hides entries",
    "tasks/asks/questions.py": "answers of shards",
    "tasks/asks/stream.py": "what a season's periods were counted to",
    "tasks/data/": "staged rows and tables that are no files lie there",
    "tasks/door/checkpoint.py": "checkpoints",
    "tasks/door/erase.py": "removes what was made of private rows",
    "flows/cache.py": "the keys of private stages' results, and their seal",
    "flows/cluster.py": "a secret of a cluster",
    "flows/home.py": "the seal of a memo, and frames that are kept as tables",
    "flows/private_stages.py": "the stages that work on private rows",
    "flows/refresh.py": "periods of a stream",
    "flows/run.py": "locks, digests of files, and tables that are no files",
}
"""Files outside the core that open the vault, or the one folder, and for what. To hand on `Stores` opens nothing. None
of them opens released files: what works on private rows cannot write what is published."""
NEVER = ("tasks/publish/", "tasks/verify/", "tasks/advice/", "tasks/student/")


def test_the_core_stays_below_its_ceiling() -> None:
    assert sum(len(HOUSE.texts[path].splitlines()) for path in CORE) <= CEILING
    assert BESIDE.keys() <= HOUSE.texts.keys()


@pytest.mark.parametrize("path", sorted(CORE))
def test_the_core_imports_itself(path: str) -> None:
    """And values, a few libraries, and the rooms by which rows are read."""
    rows = {f"tasks/data/{name}.py" for name in ROWS_ARE_READ.get(path, set())}
    assert HOUSE.arrows[path] - CORE - VALUES <= rows | OTHERWISE.get(path, set())
    foreign = {module.split(".")[0] for module in imported(HOUSE.trees[path])} - {"concord", *sys.stdlib_module_names}
    assert foreign <= LIBRARIES | ({"threadpoolctl"} if path == "tasks/units/guard.py" else set())


def test_who_else_opens_the_vault_is_listed_and_opens_no_released_file() -> None:
    """Of public rows, `staged` is enough."""
    outside = {path: HOUSE.trees[path] for path in HOUSE.rooms if path not in CORE}
    opening = {path for path, tree in outside.items() if _opens_the_vault(tree)}
    assert [path for path in opening if _opens_released_files(outside[path])] == []
    assert [path for path in opening if not path.startswith((*OPEN_THE_VAULT,))] == []
    assert [path for path in OPEN_THE_VAULT if not any(each.startswith(path) for each in opening)] == []
    assert len(OPEN_THE_VAULT) <= 13
    handed_on = {path for path, tree in outside.items() if imported(tree) & {STORES, PRIVATE_PLACE}}
    assert [path for path in opening | handed_on if path.startswith(NEVER)] == []


def _opens_the_vault(tree: ast.AST) -> bool:
    """By its name, in its room, or as a part of whatever has it. Paths are not looked at: no wall holds those."""
    return bool(imported(tree) & {VAULT, f"{VAULT}.Vault"}) or bool(_owners(tree, "vault"))


def _opens_released_files(tree: ast.AST) -> bool:
    """Likewise, and by whatever else their room has."""
    taken = {name for name in imported(tree) if name.startswith(RELEASED)} - WITHOUT_CONTENT
    return bool(taken) or not all(map(NAMES_FILES.search, _owners(tree, "released")))


def _owners(tree: ast.AST, part: str) -> list[str]:
    """Of what a file takes that part, as it is written there."""
    taken = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == part)
    return [ast.unparse(node.value) for node in taken]


HOME = "from concord.artifacts.home"


@pytest.mark.parametrize(
    "text",
    [
        "run.stores.released.write(path, run.stores.vault.read(ref))",
        "vault, files = home.vault, home.released",
        f"{HOME}.released import Released\nReleased(place.home).write(path, place.vault.read(ref))",
        f"{HOME}.vault import Vault\nplace.released.hold_back(path, Vault(place.home).read(ref))",
        f"{HOME} import released, vault\nreleased.Released(home).write(path, vault.Vault(home).read(ref))",
        f"{HOME}.released import publish_together\npublish_together(home, session, {{name: [place.vault.read(ref)]}})",
    ],
)
def test_a_file_that_opens_both_would_be_found(text: str) -> None:
    """The planted bugs: private content is written where published files are."""
    tree = ast.parse(text)
    assert _opens_the_vault(tree)
    assert _opens_released_files(tree)


def test_the_place_of_a_stage_is_on_one_side() -> None:
    assert not hasattr(world.PrivatePlace, "released")
    assert not hasattr(world.PublicPlace, "vault")


def test_exact_numbers_are_opened_at_the_door_alone() -> None:
    calls = [path for path in HOUSE.rooms for node in ast.walk(HOUSE.trees[path]) if _calls(node, "opened")]
    assert calls == ["tasks/door/door.py"]


def test_whose_a_private_row_is_is_decided_in_the_core_alone() -> None:
    """Outside, rows come by their domain's own secret, and of the part that is learned from: `PrivateRows.of`."""
    assert [path for path in HOUSE.rooms for node in ast.walk(HOUSE.trees[path]) if _calls(node, "PrivateRows")] == []


def test_provenance_is_written_in_the_core_alone() -> None:
    """Nor are rows read by another key, or as another part, than `PrivateRows.of` has; rooms of NEVER have no rows."""
    units, takes = "concord.tasks.units.", dict[str, set[str]]()
    writing = tuple(f"{units}{name}" for name in ("provenance", "parts.provenance_of", "sums.keep_sums"))
    for path in (path for path in HOUSE.rooms if path not in CORE):
        takes[path] = {name.removeprefix(units) for name in imported(HOUSE.trees[path]) if name.startswith(writing)}
        calls = [node for node in ast.walk(HOUSE.trees[path]) if _calls(node, "replace")]
        keywords = {word.arg for call in calls for word in ast.walk(call) if isinstance(word, ast.keyword)}
        assert not keywords & {"key", "part"} or path.startswith(NEVER), path
    assert {path: names for path, names in takes.items() if names} == {
        "tasks/asks/questions.py": {"provenance.read_made"}
    }


def test_a_step_is_made_of_values() -> None:
    """No function within a function, and no part of one, is handed to a step: it could close over private numbers."""
    steps = {path: [node for node in ast.walk(HOUSE.trees[path]) if _calls(node, "Step")] for path in HOUSE.rooms}
    made = {path: nodes for path, nodes in steps.items() if nodes}
    assert made.keys() == {f"tasks/asks/{name}.py" for name in ("questions", "stream", "tallies", "votes")} | {
        "tasks/door/ask.py"
    }
    for path, nodes in made.items():
        for part in (part for node in nodes for part in ast.walk(node)):
            assert not isinstance(part, ast.Lambda), path
            assert not _calls(part, "partial"), path


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_publishes_is_a_function_of_a_module_and_reaches_no_exact_number(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever `publish` can get at, by what it is given: neither the numbers that were drawn from, nor their bytes."""
    kind.prepare(tmp_path)
    true, met = world.door_door.pass_step, list[bool]()

    def watched(
        stores: world.Stores,
        before: world.Session,
        step: world.SessionStep,
        batch: world.Batch,
        numbers: world.OpenedNumbers,
    ) -> world.Ref:
        publish = step.publish
        assert "<" not in publish.__qualname__
        assert publish.__closure__ is None
        assert not [*_not_values(step.about)]

        def reaching(drawn: world.Drawn) -> bytes:
            met.append(bool(_reached(drawn) & _exact(numbers)))
            return publish(drawn)

        return true(stores, before, replace(step, publish=reaching), batch, numbers)

    monkeypatch.setattr(world.door_door, "pass_step", watched)
    kind.ask(tmp_path)
    assert met
    assert not any(met)


def _not_values(about: object) -> Iterator[object]:
    """What can compute or open, among all that an object holds: functions, and the stores of a home."""
    seen, left = set[int](), [about]
    while left:
        part = left.pop()
        if id(part) in seen or isinstance(part, ModuleType | type):
            continue
        seen.add(id(part))
        if isinstance(part, FunctionType | MethodType | partial | world.Stores | world.Vault | world.Ledger):
            yield part
        else:  # a function refers to its module, and that to whatever lives in this process
            left += gc.get_referents(part)


def _exact(numbers: world.OpenedNumbers) -> set[bytes]:
    """The exact numbers as bytes, as an array or a file has them; of answers, all together."""
    return {found for value in vars(numbers).values() for found in _bytes_in(value)}


def _reached(start: object) -> set[bytes]:
    """Arrays, files and lists of texts that can be got at from an object: by its parts, closures and defaults."""
    found, seen, left = set[bytes](), set[int](), [start]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, ModuleType | type):
            continue
        seen.add(id(each))
        found |= _bytes_in(each)
        if isinstance(each, FunctionType):
            left += [each.__closure__, each.__defaults__]
        elif not isinstance(each, str | bytes | int | float):
            left += gc.get_referents(each)
    return found


def _bytes_in(value: object) -> set[bytes]:
    if isinstance(value, np.ndarray):
        return {value.tobytes()} if value.size > 1 else set()
    if isinstance(value, bytes):
        return {value} if len(value) > 16 else set()
    if isinstance(value, list) and len(value) > 1:
        if all(isinstance(part, str) for part in value):
            return {"".join(value).encode()}
        return {found for part in value if not isinstance(part, list) for found in _bytes_in(part)}
    return {found for part in value for found in _bytes_in(part)} if isinstance(value, tuple) else set()


def test_what_publishes_an_exact_number_would_be_found() -> None:
    """The planted bug: the public things of a step hold what was drawn from."""
    sums = np.arange(5) + 1000
    numbers = SimpleNamespace(sums=sums, content=[sums.tobytes()])
    for about in (sums, {"next": sums.copy()}, lambda: sums, [sums.tobytes()]):
        assert _reached(world.Drawn(None, None, (), about)) & _exact(numbers)  # type: ignore[arg-type]
    assert not _reached(world.Drawn(None, None, (sums + 1,), "about")) & _exact(numbers)  # type: ignore[arg-type]


def test_public_things_that_compute_or_open_would_be_found(tmp_path: Path) -> None:
    """The planted bugs: a function, a method, a part of a function, or the vault, is handed on with the step."""
    vault = world.Vault(tmp_path / "vault")
    for about in (lambda: 0, {"follow": vault.read}, [partial(sum, [1])], SimpleNamespace(rows=vault.staged)):
        assert [*_not_values(about)], about
    assert not [*_not_values(({"format": "a"}, np.arange(5), world.Ref(path="sums/d/0.npy", digest="00")))]


def test_a_handle_holds_no_number() -> None:
    handle = world.Exact("sums", ((world.Ref(path="sums/d/0.npy", digest="00"),),))
    assert set(vars(handle)) == {"form", "files", "record", "earlier"}
