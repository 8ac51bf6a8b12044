"""Every sync of the product, found in its source; each can be taken out, as a control of tests of power losses."""

import ast
import inspect
import types
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import concord

SYNCS = ("fsync", "fdatasync", "sync", "sync_folder", "sync_tree", "syncfs")
COMMITS = {"synchronous = EXTRA": "synchronous = OFF", "synchronous_commit = on": "synchronous_commit = off"}


@dataclass(frozen=True)
class Sync:
    """A call that syncs, asks for it (`durable=`) or has a database do so: one of each kind a function."""

    module: str
    function: str
    what: str

    def __str__(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.function}: {self.what}"


class _Syncs(ast.NodeTransformer):
    """Finds the syncs of a module; takes out those that are `gone`."""

    def __init__(self, module: str, gone: Collection[Sync] = ()) -> None:
        self.module, self.gone, self.within, self.found = module, gone, list[ast.AST](), list[Sync]()

    def _seen(self, what: str) -> bool:
        outer = [getattr(node, "name", "") for node in self.within[: 1 + isinstance(self.within[0], ast.ClassDef)]]
        self.found.append(Sync(self.module, ".".join(outer), what))
        return self.found[-1] in self.gone

    def _enter(self, node: ast.AST) -> ast.AST:
        self.within.append(node)
        self.generic_visit(node)
        self.within.pop()
        return node

    visit_FunctionDef = visit_ClassDef = _enter  # noqa: N815  # their names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for keyword in node.keywords:
            if keyword.arg == "durable" and self._seen("durable"):
                keyword.value = ast.Constant(value=False)
        return ast.Constant(value=None) if called in SYNCS and self._seen(called) else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        for commits, loses in COMMITS.items():
            if isinstance(node.value, str) and commits in node.value and self._seen(commits.partition(" ")[0]):
                return ast.Constant(value=node.value.replace(commits, loses))
        return node


@cache
def syncs() -> tuple[Sync, ...]:
    """All of the product's."""
    found = list[Sync]()
    for folder in ("artifacts", "tasks", "flows"):
        root = Path(concord.__file__).parent / folder
        for file in sorted(root.resolve().rglob("*.py")):
            module = ".".join(("concord", folder, *file.relative_to(root.resolve()).with_suffix("").parts))
            looking = _Syncs(module)
            text = file.read_text()
            if "sync" in text or "durable" in text:  # one file of thirteen; to look through all takes half a second
                looking.visit(ast.parse(text))
            found += looking.found
    assert len(found) == len({*found})
    return tuple(found)


@contextmanager
def without(*gone: Sync) -> Iterator[None]:
    """The product without these syncs, in the context: each function's code is that of its source without it."""
    with ExitStack() as restored:
        for sync in gone:
            module = import_module(sync.module)
            tree = _Syncs(sync.module, gone).visit(ast.parse(inspect.getsource(module)))
            code = compile(ast.fix_missing_locations(tree), str(module.__file__), "exec")
            owner: Any = module
            for name in sync.function.split("."):
                owner = vars(owner)[name]
                code = next(
                    part for part in code.co_consts if isinstance(part, types.CodeType) and part.co_name == name
                )
            function = inspect.unwrap(owner)
            restored.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        yield
