"""Known faults: a session of an earlier version is told of those that can concern it, and of no others."""

import json
import re
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from concord import __version__
from concord.artifacts.domains import Domain
from concord.artifacts.sessions import Session
from concord.artifacts.vulnerabilities import VULNERABILITIES, concerning, faults_of, is_version, older, oldest
from tests.artifacts.ledger.openings import DOMAIN, session

ROOT = Path(__file__).parents[2]
BELIEVED = {"believed-cache", "believed-certificate", "believed-server"}
OPEN = {"open-pages", "open-cluster", "shared-ledger", "moment-of-the-door"}
ALWAYS = {"negative-zero", "cell-ends-run", "row-names-columns", "empty-file"} | BELIEVED | OPEN
NAMED = {"one-id-two-units", "erased-returns"}
OF_LABELS = {"row-published", "label-breaks-line", "label-names-file"}
PEOPLE = replace(DOMAIN, unit="all rows of one person")
LABELS = replace(DOMAIN, unit="the labels of all rows of one person", neighbours="change the labels of one unit")
PUBLISHED = {"name": "stable", "relabel": {"form": "published"}}


@pytest.mark.parametrize(
    ("domain", "mechanism", "more"),
    [
        (DOMAIN, {"name": "stable"}, set()),
        (DOMAIN, {"name": "stable", "relabel": {"form": "tight"}}, set()),
        (DOMAIN, PUBLISHED, {"renumbered-rows"}),
        (DOMAIN, {"name": "error_estimate"}, {"renumbered-rows"}),
        (PEOPLE, PUBLISHED, {"renumbered-rows"} | NAMED),
        (LABELS, {"name": "universal"}, NAMED | OF_LABELS),
    ],
)
@pytest.mark.parametrize("version", ["", "0.1.0", "0.2.0", "0.10.0"])
def test_a_session_is_concerned_by_what_its_version_had_and_its_settings_allow(
    domain: Domain, mechanism: dict[str, Any], more: set[str], version: str
) -> None:
    found = {item.name for item in concerning(session(mechanism=mechanism, version=version), domain)}
    assert found == (ALWAYS | more if version in ("", "0.1.0") else set())


def test_versions_are_ordered_by_their_numbers() -> None:
    assert older("0.9.9", "0.10.0")
    assert not older("0.2.0", "0.2.0")
    assert not any(map(is_version, ("", "0.2", "0.2.0rc1", "0.2.0 ", "one")))
    sessions: list[Session] = [session(version=version) for version in ("0.10.0", "0.2.0")]
    assert oldest(sessions) == "0.2.0"
    assert oldest([*sessions, session()]) == "0.1.0"


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
    assert (
        json.loads(json.dumps([vulnerability.model_dump() for vulnerability in VULNERABILITIES]))[0]["fixed"] == "0.2.0"
    )


def test_the_package_is_of_the_version_that_it_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module, _, name = project["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    assert "version" in project["project"]["dynamic"]
    assert getattr(import_module(module), name) == __version__
    assert f"concord:{__version__}" in (ROOT / "deployments/compose.yaml").read_text()


@pytest.mark.parametrize("relabel", [5, "published", ["published"], None, {"form": ["published"]}])
def test_settings_that_a_stranger_wrote_are_looked_at_like_any(relabel: object) -> None:
    assert {item.name for item in faults_of("0.1.0", {"relabel": relabel}, DOMAIN)} == ALWAYS
    assert not is_version(f"{'9' * 5000}.0.0")  # more digits than Python reads
