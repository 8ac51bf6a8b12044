"""The house in the figures of the architecture: its size, who may touch the vault, and how far a draw is.

    .venv/bin/python -m tests.house [--run]

A *room* is a source file with code in it; a folder's `__init__.py` that holds a docstring alone is its door plate.
`--run` counts the frames of one small run as well, which takes a minute.
"""

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOPS = ("flows", "tasks", "artifacts")
KIND = {"error_estimate", "ErrorEstimate"}
"""Name and class of a kind of release, whose places are counted."""
STORES = "concord.artifacts.stores.Stores"
PLAN = """
data = {private = "private.csv", public = "public.csv", label = "y", classes = ["no", "yes"]}
privacy = {domain = "small", epsilon = 2.0, delta = 1e-5, lifetime = {epsilon = 4.0, delta = 4e-5}}
labeling = {mechanism = "tallies", rows = 400}
"""
PROBE = """
import json, sys, traceback
from concord.flows.cli import main
from concord.tasks.mechanisms import noise
def noting(*arguments):
    names = [frame.name for frame in traceback.extract_stack()[:-1]]
    json.dump([len(names), len(names) - names.index("pass_step")], open("frames.json", "w"))
    raise SystemExit
noise._noise = noting
sys.argv = ["concord", "run", "plan.toml", "--home", "home", "--quiet"]
main()
"""


class House:
    """The source files below one root, as their text says."""

    def __init__(self, root: Path) -> None:
        paths = sorted(path for top in TOPS for path in (root / top).rglob("*.py"))
        self.texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}
        self.trees = {path: ast.parse(text) for path, text in self.texts.items()}
        self.rooms = [path for path, tree in self.trees.items() if any(not _is_text(node) for node in tree.body)]
        self.names = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in self.rooms}

    def reached(self, tree: ast.AST) -> set[str]:
        """The rooms that a file imports, within functions too."""
        whole = (name.removeprefix("concord.") for name in imported(tree))
        found = (self.names.get(name) or self.names.get(name.rpartition(".")[0]) for name in whole)
        return {room for room in found if room is not None}

    @cached_property
    def arrows(self) -> dict[str, set[str]]:
        """The rooms that each room imports."""
        return {path: self.reached(self.trees[path]) - {path} for path in self.rooms}


def imported(tree: ast.AST) -> set[str]:
    """Every module and every name of one that a file imports, by its full dotted name."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def words(tree: ast.AST) -> set[str]:
    """Every name, attribute and whole text in a file."""
    nodes = [vars(node) for node in ast.walk(tree)]
    found = (node.get(part) for node in nodes for part in ("id", "attr", "name", "value"))
    return {word for word in found if isinstance(word, str)}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def figures(house: House) -> Iterator[tuple[str, object]]:
    """What each figure is called, and the figure."""
    from typer.main import get_command

    from tests.world import app

    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    reached = [house.reached(ast.parse(text)) for text in tests]
    keys = (ROOT / "deployments/plans/README.md").read_text(encoding="utf-8")
    yield "lines of source", sum(len(text.splitlines()) for text in house.texts.values())
    yield "files of source", len(house.rooms)
    yield "lines of tests", sum(len(text.splitlines()) for text in tests)
    yield "files that take `Stores`, and so the vault", sum(STORES in imported(tree) for tree in house.trees.values())
    yield "places that state a kind", sum(bool(KIND & words(tree)) for tree in house.trees.values())
    moved = statistics.mean(sum(room in found for found in reached) for room in house.rooms)
    yield "test files that import a moved source file, mean", round(moved, 1)
    yield "commands", len(get_command(app).commands)  # type: ignore[attr-defined]  # the app is a group
    yield "plan keys", len(re.findall(r"^\| `", keys, re.MULTILINE))


def frames() -> list[int]:
    """Frames on the stack where a small run first draws: from `concord run`, and from the step through the door."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plan.toml").write_text(PLAN)
        rows = [f"{at % 7},{at % 11},{'yes' if at % 7 > 3 else 'no'}" for at in range(400)]
        (folder / "private.csv").write_text("\n".join(("a,b,y", *rows)))
        (folder / "public.csv").write_text("\n".join(("a,b", *(row.rpartition(",")[0] for row in rows[:40]))))
        environment = os.environ | {"PYTHONPATH": str(ROOT / ".package")}
        subprocess.run([sys.executable, "-c", PROBE], cwd=folder, env=environment, capture_output=True, check=False)
        found: list[int] = json.loads((folder / "frames.json").read_text())
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--run", action="store_true", help="count the frames of one small run as well")
    shown = dict(figures(House(ROOT)))
    if parser.parse_args().run:
        shown["frames to the first draw; to OpenDP in a round"] = "; ".join(map(str, frames()))
    for what, figure in shown.items():
        print(f"{what:<50} {figure}")
