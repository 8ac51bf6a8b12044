"""The house in figures, each beside its aim: rooms, arrows between them, names, and what one kind of release takes.

    .venv/bin/python -m tests.house [--run] [--root CHECKOUT]

A *room* is a source file with code in it; a folder's `__init__.py` that holds a docstring alone is its door plate.
`--run` walks the way of one small run as well, which takes a minute. Any layout of the three folders is understood,
so that before and after are measured by the same script.
"""

import argparse
import ast
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import get_args

from concord.artifacts import kinds
from concord.artifacts.learners import StudentPlan
from tests.walk import way

TOPS = ("flows", "tasks", "artifacts")
WINDOW = 6
"""Lines in a row that make a repetition."""
MECHANISM = "confident"
"""The mechanism whose name is looked for, to count the files that a new one touches."""
KIND_FILES = ("tasks/asks/group_counts.py", "tasks/mechanisms/group_counts.py")
"""Files of a kind of release, counts by groups, that are its alone: what adding a kind touches besides is measured."""
NAMES_OF_KIND = re.compile(
    r"\b(group_counts|GroupCounts|CountsAsk|CountQuestion|show_counts|count_command|MOST_GROUPS_SHOWN)\b"
)
"""Names by which other files know it."""
KINDS = "artifacts/kinds.py"
"""The room that reads the settings of sessions by key, and makes typed values of them."""
MAIN = ("flows/learn.py", "learn")
KIND_FACTS = {"tallied", "undecided", "relabel", "learner", "purpose"}
"""Attributes that say of which kind a plan or a session is."""
COMMON_WORDS = {"published", "stream"}
"""Kinds whose names stand for other things as well."""
RELEASES = kinds.KINDS.keys() - COMMON_WORDS
"""Kinds of release by name."""
KIND_NAMES = (
    RELEASES | {*get_args(StudentPlan.model_fields["learner"].annotation)} | {"auto", "relabel", "TALLIES", "AUTO"}
)
"""Kinds of release and of student by name, and constants of such names."""
AIMS = {
    "lines": 29_000,
    "files with code": 120,
    "median file": 250,
    "largest file": 450,
    "lines of tests": 42_000,
    "reads of a session's settings by key": 0,
    "places that branch on a kind": 40,
    "definitions two calls below `learn`": 60,
    "files two calls below `learn`": 18,
    "types in `learn` and what it calls": 12,
    "files that a kind touches besides its own": 6,
    "lines that a kind has in those": 60,
}
"""The most that each of these should be."""


class House:
    """The source files below one root, as their text says."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = sorted(path for top in TOPS for path in (root / top).rglob("*.py"))
        self.texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}
        self.trees = {path: ast.parse(text) for path, text in self.texts.items()}
        self.rooms = [path for path, tree in self.trees.items() if any(not _is_text(node) for node in tree.body)]

    @cached_property
    def lines(self) -> dict[str, int]:
        """Lines of each room."""
        return {path: len(self.texts[path].splitlines()) for path in self.rooms}

    @cached_property
    def arrows(self) -> dict[str, set[str]]:
        """The rooms that each room imports, within functions too."""
        rooms = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in self.rooms}
        found: dict[str, set[str]] = {path: set() for path in self.rooms}
        for path in self.rooms:
            for name in imported(self.trees[path]):
                whole = name.removeprefix("concord.")
                target = rooms.get(whole) or rooms.get(whole.rpartition(".")[0])
                if target not in (None, path):
                    found[path].add(str(target))
        return found

    @cached_property
    def circles(self) -> list[tuple[str, str]]:
        """Arrows that close a circle of rooms."""
        state: dict[str, bool] = {}
        closing = []

        def visit(room: str) -> None:
            state[room] = False
            for other in sorted(self.arrows[room]):
                if other not in state:
                    visit(other)
                elif not state[other]:
                    closing.append((room, other))
            state[room] = True

        for room in self.rooms:
            if room not in state:
                visit(room)
        return closing

    @cached_property
    def chain(self) -> list[str]:
        """The longest chain of imports; empty if there are circles."""
        longest: dict[str, list[str]] = {}

        def below(room: str) -> list[str]:
            if room not in longest:
                longest[room] = [room, *max((below(other) for other in sorted(self.arrows[room])), key=len, default=[])]
            return longest[room]

        return [] if self.circles else max((below(room) for room in self.rooms), key=len)

    def definitions(self, path: str) -> Iterator[str]:
        """The names that a room defines at its top."""
        for node in self.trees[path].body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.Assign):
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id

    @cached_property
    def twice(self) -> dict[str, list[str]]:
        """Public names that two rooms or more define, with those rooms."""
        homes: dict[str, list[str]] = defaultdict(list)
        for path in self.rooms:
            for name in sorted(set(self.definitions(path))):
                if not name.startswith("_"):
                    homes[name].append(path)
        return {name: paths for name, paths in sorted(homes.items()) if len(paths) > 1}

    @cached_property
    def private(self) -> Counter[tuple[str, str]]:
        """How often each private definition of a room is named in it, but for its own line."""
        named: Counter[tuple[str, str]] = Counter()
        for path in self.rooms:
            words = Counter(re.findall(r"\w+", self.texts[path]))
            for name in set(self.definitions(path)):
                if name.startswith("_"):
                    named[path, name] = words[name] - 1
        return named

    @cached_property
    def bodies(self) -> list[int]:
        """Lines of every function without its docstring."""
        functions = [n for tree in self.trees.values() for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        starts = [n.body[1 if _is_text(n.body[0]) and len(n.body) > 1 else 0].lineno for n in functions]
        return [(n.end_lineno or 0) - start + 1 for n, start in zip(functions, starts, strict=True)]

    @cached_property
    def repeated(self) -> int:
        """Runs of WINDOW lines of code, imports left out, that stand in two places or more."""
        places: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for path in self.rooms:
            imports = {at for node in ast.walk(self.trees[path]) for at in _lines_of_import(node)}
            stripped = (line.strip() for at, line in enumerate(self.texts[path].splitlines(), 1) if at not in imports)
            code = [line for line in stripped if len(line) > 3 and not line.startswith("#")]
            for at in range(len(code) - WINDOW + 1):
                places[tuple(code[at : at + WINDOW])].append(path)
        return sum(len(paths) > 1 for paths in places.values())

    @cached_property
    def touched(self) -> list[str]:
        """The rooms that know MECHANISM by its name or class: what a further mechanism touches."""
        known = re.compile(rf"\b{MECHANISM}\b|\b{MECHANISM.capitalize()}")
        return [path for path in self.rooms if any(known.search(part) for part in _code_of(self.trees[path]))]

    @cached_property
    def keyed(self) -> dict[str, list[int]]:
        """The lines of each room but KINDS at which the settings of a session are read by key."""
        found = {path: sorted(_keyed(self.trees[path])) for path in self.rooms if path != KINDS}
        return {path: lines for path, lines in found.items() if lines}

    @cached_property
    def branches(self) -> dict[str, list[int]]:
        """The lines of each room at which a condition asks of which kind a plan, a session or a student is."""
        found = {path: sorted(_branches(self.trees[path])) for path in self.rooms}
        return {path: lines for path, lines in found.items() if lines}

    @cached_property
    def added(self) -> dict[str, int]:
        """The rooms besides its own that know a kind of release, with their lines about it."""
        about = dict[str, int]()
        for path in (path for path in self.rooms if path not in KIND_FILES):
            lines = self.texts[path].splitlines()
            named = {at for at, line in enumerate(lines, 1) if NAMES_OF_KIND.search(line)}
            for node in self.trees[path].body:
                if isinstance(node, ast.FunctionDef) and NAMES_OF_KIND.search(node.name):
                    named |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
            if named:
                about[path] = len(named)
        return about

    @cached_property
    def known(self) -> dict[tuple[str, str], ast.AST]:
        """Functions, classes and methods by file and name."""
        found: dict[tuple[str, str], ast.AST] = {}
        for path in self.rooms:
            for node in self.trees[path].body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    found[path, node.name] = node
                    methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
                    found |= {(path, f"{node.name}.{each.name}"): each for each in methods}
        return found

    def seen_from(self, path: str) -> dict[str, tuple[str, str]]:
        """The definitions that a file names, its own and imported ones; a module stands for itself, without a name."""
        rooms = {room.removesuffix(".py").removesuffix("/__init__").replace("/", "."): room for room in self.rooms}
        seen = {name: (at, name) for at, name in self.known if at == path and "." not in name}
        for node in ast.walk(self.trees[path]):
            module = node.module.removeprefix("concord.") if isinstance(node, ast.ImportFrom) and node.module else ""
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                if (rooms.get(module, ""), alias.name) in self.known:
                    seen[alias.asname or alias.name] = (rooms[module], alias.name)
                elif f"{module}.{alias.name}" in rooms:
                    seen[alias.asname or alias.name] = (rooms[f"{module}.{alias.name}"], "")
        return seen

    def called_by(self, path: str, name: str) -> set[tuple[str, str]]:
        """Definitions that one calls: by their names, or as methods of a class that its file names."""
        seen, found = self.seen_from(path), set[tuple[str, str]]()
        body = self.known[path, name]
        parts = body.body if isinstance(body, ast.FunctionDef | ast.ClassDef) else []  # without decorators
        for call in (node.func for part in parts for node in ast.walk(part) if isinstance(node, ast.Call)):
            if isinstance(call, ast.Name):
                found |= {seen[call.id]} if call.id in seen else set()
            elif isinstance(call, ast.Attribute):
                at, owner = seen.get(call.value.id, ("", "")) if isinstance(call.value, ast.Name) else ("", "")
                own = [(at, f"{owner}.{call.attr}".removeprefix("."))]
                methods = [(file, f"{each}.{call.attr}") for file, each in seen.values()]
                found |= set([each for each in [*own, *methods] if each in self.known][:1])
        return found

    @cached_property
    def below_main(self) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        """Definitions at most two calls below MAIN, and the classes that its text or that of what it calls names."""
        first = self.called_by(*MAIN)
        second = set().union(*(self.called_by(*each) for each in first))
        types = set[tuple[str, str]]()
        for path, name in {MAIN, *first}:
            seen, words = self.seen_from(path), ast.walk(self.known[path, name])
            named = {seen[word.id] for word in words if isinstance(word, ast.Name) and word.id in seen}
            types |= {each for each in named if isinstance(self.known.get(each), ast.ClassDef)}
        return {MAIN, *first, *second}, types


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


def _branches(tree: ast.AST) -> Iterator[int]:
    """Lines of conditions, each once with all of its parts, and of comparisons elsewhere."""
    tests = list[ast.expr]()
    if isinstance(tree, ast.If | ast.IfExp | ast.While | ast.Assert):
        tests = [tree.test]
    elif isinstance(tree, ast.comprehension):
        tests = tree.ifs
    elif isinstance(tree, ast.BoolOp | ast.Compare):
        tests = [tree]
    found = [test for test in tests if any(_asks_kind(part) for part in ast.walk(test))]
    yield from (test.lineno for test in found)
    if tree not in found:
        for part in ast.iter_child_nodes(tree):
            if part not in found:
                yield from _branches(part)


def _asks_kind(part: ast.AST) -> bool:
    """Whether a part of a condition names a kind, or asks a plan or a session for its own."""
    if isinstance(part, ast.Attribute):
        return part.attr in KIND_FACTS
    if not isinstance(part, ast.Compare):
        return False
    sides = [part.left, *part.comparators]
    texts = {node.value for side in sides for node in ast.walk(side) if isinstance(node, ast.Constant)}
    names = {node.id for side in sides for node in ast.walk(side) if isinstance(node, ast.Name)}
    return bool(KIND_NAMES & (texts | names))


def imported(tree: ast.AST) -> set[str]:
    """Every module and every name of one that a file imports, by its full dotted name."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _lines_of_import(node: ast.AST) -> range:
    """The lines that an import takes; none of another node."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _code_of(tree: ast.AST) -> Iterator[str]:
    """Names and texts of a file that are not prose."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def figures(house: House) -> dict[str, object]:
    """All figures that the text alone gives, by what they are called in print."""
    sizes = sorted(house.lines.values())
    reached, types = house.below_main
    once = sum(count == 1 for count in house.private.values())
    return {
        "files with code": len(house.rooms),
        "lines": sum(sizes),
        "median file": int(statistics.median(sizes)),
        "largest file": sizes[-1],
        "files of 100 to 300 lines": sum(100 <= size <= 300 for size in sizes),
        "imports a file": round(statistics.mean(len(others) for others in house.arrows.values()), 1),
        "longest import chain": len(house.chain),
        "circles": len(house.circles),
        "body of a function, median": int(statistics.median(house.bodies)),
        "body of a function, largest": max(house.bodies),
        "public names defined twice": len(house.twice),
        "private definitions": len(house.private),
        "private definitions named once": once,
        f"runs of {WINDOW} lines that stand twice": house.repeated,
        "files that know a mechanism by name": len(house.touched),
        "reads of a session's settings by key": sum(map(len, house.keyed.values())),
        "places that branch on a kind": sum(map(len, house.branches.values())),
        "definitions two calls below `learn`": len(reached),
        "files two calls below `learn`": len({path for path, _ in reached}),
        "types in `learn` and what it calls": len(types),
        "files that a kind touches besides its own": len(house.added),
        "lines that a kind has in those": sum(house.added.values()),
        "lines of tests": sum(len(path.read_text("utf-8").splitlines()) for path in house.root.glob("tests/**/*.py")),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--run", action="store_true", help="walk from `concord run` to a mechanism as well")
    parser.add_argument("--names", action="store_true", help="list names, files and the chain as well")
    asked = parser.parse_args()
    house = House(asked.root)
    shown = figures(house)
    if asked.run:
        walked = way(asked.root)
        shown["frames from `concord run` to the mechanism"] = walked["frames"]
        shown["files those frames are in"] = walked["on_the_way"]
        shown["files loaded by then"] = walked["files"]
    for name, value in shown.items():
        print(f"{name:<44} {value}" + (f"  (aim: at most {AIMS[name]})" if name in AIMS else ""))
    if asked.names:
        print("\nchain:", " → ".join(house.chain))
        print("twice:", *(f"\n  {name}: {', '.join(paths)}" for name, paths in house.twice.items()))
        print("a mechanism is known to:", ", ".join(house.touched))
        print("a kind of release:", *(f"\n  {path}: {lines}" for path, lines in house.added.items()))
        print("branches on a kind:", *(f"\n  {path}: {lines}" for path, lines in house.branches.items()))
        print("below `learn`:", *(f"\n  {path}: {name}" for path, name in sorted(house.below_main[0])))
        print("its types:", ", ".join(sorted(name for _, name in house.below_main[1])))


if __name__ == "__main__":
    main()
