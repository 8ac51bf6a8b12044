"""Known faults: a session of a faulty version is told of those that can concern it, and of no others."""

import re
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from concord import __version__
from concord.artifacts.domains import Domain
from concord.artifacts.sessions import Session
from concord.artifacts.vulnerabilities import VULNERABILITIES, Scope, concerning, is_version, older, oldest
from tests.artifacts.ledger.openings import DOMAIN, session
from tests.support import invented

ROOT = Path(__file__).parents[2]
ENTRY = """
[[vulnerability]]
name = "{scope}"
fixed = "1.1.0"
scope = "{scope}"
what = "one unit counted twice"
unless = "there was one unit"
"""
PEOPLE = replace(DOMAIN, unit="all rows of one person")
LABELS = replace(DOMAIN, unit="the labels of all rows of one person", neighbours="change the labels of one unit")
ALWAYS, NAMED, OF_LABELS = get_args(Scope)


@pytest.fixture(autouse=True)
def one_of_each_scope(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    invented.known(monkeypatch, tmp_path, "".join(ENTRY.format(scope=scope) for scope in get_args(Scope)))


@pytest.mark.parametrize(
    ("domain", "found"), [(DOMAIN, [ALWAYS]), (PEOPLE, [ALWAYS, NAMED]), (LABELS, [ALWAYS, NAMED, OF_LABELS])]
)
@pytest.mark.parametrize("version", ["", "1.0.0", "1.0.10", "1.1.0", "1.10.0"])
def test_a_session_is_concerned_by_what_its_version_had_and_its_domain_allows(
    domain: Domain, found: list[str], version: str
) -> None:
    concerned = [item.name for item in concerning(session(version=version), domain)]
    assert concerned == (found if version in ("", "1.0.0", "1.0.10") else [])


def test_versions_are_ordered_by_their_numbers() -> None:
    assert older("0.9.9", "0.10.0")
    assert older("", "0.0.0")
    assert not older("1.0.0", "1.0.0")
    assert not any(map(is_version, ("", "1.0", "1.0.0rc1", "1.0.0 ", "one", f"{'9' * 5000}.0.0")))
    sessions: list[Session] = [session(version=version) for version in ("1.10.0", "1.2.0")]
    assert oldest(sessions) == "1.2.0"
    assert oldest([*sessions, session(version="")]) == ""


def test_each_fault_has_a_name_of_its_own_and_a_row_in_the_table() -> None:
    """The README leads there: certificates send their readers to it."""
    (page,) = re.findall(
        r"\((\S+)#known-vulnerabilities\)", (ROOT / "README.md").read_text().split("## Changes to the guarantee")[1]
    )
    table = (ROOT / page).read_text().split("## Known vulnerabilities")[1]
    rows = re.findall(r"^\| `([a-z-]+)` \|", table, re.M)
    names = [vulnerability.name for vulnerability in VULNERABILITIES]
    assert sorted(names) == sorted(set(names)) == sorted(rows)
    assert all(not older(__version__, vulnerability.fixed) for vulnerability in VULNERABILITIES)


def test_the_package_is_of_the_version_that_it_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module, _, name = project["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    assert "version" in project["project"]["dynamic"]
    assert getattr(import_module(module), name) == __version__
    assert f"concord:{__version__}" in (ROOT / "deployments/compose.yaml").read_text()
