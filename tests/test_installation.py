"""What make installs: for a run, the packages that a run imports; for tests, the rest as well."""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = ("flows", "tasks", "artifacts", ".package/concord")
BY_EXTRA = {"dask": {"prefect_dask", "dask", "distributed"}}
"""The modules that a plan may need and a run in general does not: a sentence names the extra where one is missing."""


def installed_by(requirements: list[str]) -> set[str]:
    """The names of the packages that requirements bring, with the requirements of those."""
    found, open_ = set[tuple[str, frozenset[str]]](), [Requirement(each) for each in requirements]
    while open_:
        package = open_.pop()
        name, extras = canonicalize_name(package.name), frozenset(package.extras)
        if (name, extras) in found:
            continue
        found.add((name, extras))
        for each in map(Requirement, importlib.metadata.requires(name) or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                open_.append(each)
    return {name for name, _ in found}


def imported() -> set[str]:
    """The modules outside the standard library and ours that the sources import, anywhere in them."""
    found = set()
    for file in (path for top in SOURCES for path in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            found |= {name.partition(".")[0] for name in names}
    return found - {"concord", *sys.stdlib_module_names}


RUN = installed_by(PROJECT["dependencies"])
TESTED = f'".[{",".join(PROJECT["optional-dependencies"])}]" --group test'
INSTALLS = re.compile(
    r".* uv pip install [^|]*-c constraints\.txt -e (?P<uv>[^|]*) 2>/dev/null \|\| "
    r".* -m pip install [^&]*--no-compile -c constraints\.txt -e (?P<pip>[^&]*); }"
)
"""A line by which make installs: by uv, or else by pip."""


def test_a_run_s_packages_are_all_that_the_sources_import() -> None:
    packages = importlib.metadata.packages_distributions()
    beyond = {name for name in imported() if not {canonicalize_name(each) for each in packages[name]} & RUN}
    assert beyond == set().union(*BY_EXTRA.values())
    for extra, modules in BY_EXTRA.items():
        brought = installed_by(PROJECT["optional-dependencies"][extra])
        assert all({canonicalize_name(each) for each in packages[name]} & brought for name in modules)


def test_a_run_s_packages_are_without_those_of_tests() -> None:
    """Before, `make run` installed mypy, pytest, DuckDB and Dask as well."""
    assert not RUN & {"mypy", "ruff", "pytest", "hypothesis", "duckdb", "dask", "psycopg", "scipy-stubs"}


@pytest.mark.parametrize(
    ("target", "installed"),
    [
        ("run", ["."]),
        ("install", ["."]),
        ("data", ["."]),
        *((target, [".", TESTED]) for target in ("quick", "check", "test", "test-all", "test-nightly", "bench")),
        ("install-tests", [".", TESTED]),
    ],
)
def test_make_installs_what_its_target_needs_before_it_begins(
    target: str, installed: list[str], tmp_path: Path
) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    alone = {name: value for name, value in os.environ.items() if "MAKE" not in name}  # as if not run by `make test`
    planned = subprocess.run(
        ["make", "--dry-run", target], cwd=tmp_path, env=alone, capture_output=True, text=True, check=True
    )
    lines = planned.stdout.splitlines()
    found = [(at, match) for at, line in enumerate(lines) if (match := INSTALLS.fullmatch(line))]
    assert [match["uv"] for _, match in found] == [match["pip"] for _, match in found] == installed
    tools = (".venv/bin/pytest", "ruff", "mypy", "-m concord.tasks", "tests/", "concord demo")
    assert all(at > found[-1][0] for at, line in enumerate(lines) if any(tool in line for tool in tools))


@pytest.mark.parametrize("uv", ["absent", "failing", "there"])
def test_pip_installs_where_uv_does_not(uv: str, tmp_path: Path) -> None:
    """There may be no uv for the platform, and a registry may be known to pip alone."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    programs = {"python": 'echo "$0" "$@" >> calls; test "$*" = "${*% uv}"', "uv": 'echo uv "$@" >> calls'}
    programs["uv"] += "; false" if uv == "failing" else ""
    for name in programs.keys() - ({"uv"} if uv == "absent" else set()):
        (tmp_path / ".venv/bin" / name).write_text(f"#!/bin/sh\n{programs[name]}\n")
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    (tmp_path / ".venv/share").mkdir()
    without = os.environ | {"PATH": "/usr/bin:/bin"}
    subprocess.run(["make", "install"], cwd=tmp_path, env=without, capture_output=True, check=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    ours = [line.split()[0] for line in calls if line.endswith("-c constraints.txt -e .")]
    assert ours == {"absent": [PYTHON], "failing": ["uv", PYTHON], "there": ["uv"]}[uv]


PYTHON = ".venv/bin/python"


def test_what_is_installed_stays_until_the_packages_named_change(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt", "Makefile", ".venv/installed", ".venv/installed-tests"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv/share").mkdir()
    (tmp_path / ".venv/share/concord").touch()
    plan = ["make", "--dry-run", "check"]
    assert "pip install" not in subprocess.run(plan, cwd=tmp_path, capture_output=True, text=True, check=True).stdout


def test_what_make_runs_keeps_what_it_compiles(tmp_path: Path) -> None:
    """Nothing is compiled at installation: if the variable held, each process would compile all that it imports."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    for name in ("python", "concord"):
        (tmp_path / ".venv/bin" / name).write_text("#!/bin/sh\nenv >> environments\n")
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    (tmp_path / ".venv/share").mkdir()
    told = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(["make", "run"], cwd=tmp_path, env=told, capture_output=True, check=True)
    assert "PATH=" in (tmp_path / "environments").read_text()
    assert "PYTHONDONTWRITEBYTECODE" not in (tmp_path / "environments").read_text()
