"""What a page says to type is typed, in the order of the page: each line ends well.

Lines of the README, and what they show, are in tests/test_readme.py, and plans that are shown are read there. Python
that is shown is run by the tests named in PYTHON.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT, blocks, python_on, tracked_pages

NOT_TYPED = {
    "make run": "it installs from a package registry; tests/tasks/advice/test_demo.py has what it runs then",
    "make test": "it runs these tests",
    "make bench-accuracy DATA=FOLDER": "it measures for hours, on tables that are downloaded",
    "concord ui": "it serves until it is ended: tests/promises/test_own_page.py asks one for its pages",
}
"""Lines that are not typed here, each with the reason."""
PYTHON = {
    "README.md": "tests/flows/test_api.py",
    "deployments/guides/questions.md": "tests/flows/test_ask.py",
    "deployments/guides/stream.md": "tests/flows/test_refresh.py",
    "deployments/guides/tables.md": "tests/flows/test_sources_run.py",
    "deployments/guides/schedule.md": "tests/deployments/test_schedule_guide.py",
}
"""Pages that show Python, and the tests that run it."""
POOLS = ("concord", "concord-docker", "concord-kubernetes")


def typed_on(page: str) -> list[str]:
    """Every line of a page that is to be typed, in order."""
    found: list[str] = []
    for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        text = block.replace("\\\n", " ") if kind == "console" else re.sub(r"(?m)^(?=\S)", "$ ", block)
        lines = (part.partition("\n")[0] for part in re.split(r"(?m)^\$ ", text)[1:])
        found.extend(shlex.join(shlex.split(line, comments=True)) for line in lines)
    return found


TYPED = {
    "README.md": "tests/test_readme.py",
    "deployments/guides/schedule.md": "tests/deployments/test_schedule_guide.py",
    "deployments/guides/backup.md": "tests/flows/cli/test_cli.py",
}
"""Pages whose lines another test types."""
PAGES = {str(path.relative_to(ROOT)): typed_on(path.read_text(encoding="utf-8")) for path in tracked_pages()}
LEFT = {page: lines for page, lines in PAGES.items() if {*lines} - {*NOT_TYPED} and page not in TYPED}
"""Pages whose lines are typed here."""


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with files of the repository where the pages name them."""
    monkeypatch.setenv("CONCORD_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    for folder in ("deployments", "flows", "tasks", "artifacts"):
        (tmp_path / folder).symlink_to(ROOT / folder)


OF_PREFECT = """
import json, sys
from prefect.testing.cli import invoke_and_assert
done = [invoke_and_assert(words) for words in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.output] for each in done]))
"""


def of_prefect(lines: list[list[str]]) -> list[tuple[int, str]]:
    """Exit status and output of lines for Prefect's own command line, in one process: it leaves connections open."""
    command = [sys.executable, "-W", "ignore", "-c", OF_PREFECT, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [(status, output) for status, output in json.loads(done.stdout.splitlines()[-1])]


def without_pools() -> None:
    """Remove pools of another test's."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        for pool in {pool.name for pool in client.read_work_pools()} & {*POOLS}:
            client.delete_work_pool(pool)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("page", LEFT)
def test_every_line_to_type_ends_well(page: str) -> None:
    without_pools()
    lines = [shlex.split(line) for line in LEFT[page] if line not in NOT_TYPED]
    assert {tool for tool, *_ in lines} == {"prefect"}
    for line, (status, output) in zip(lines, of_prefect([words for _, *words in lines]), strict=True):
        assert (status, "Traceback" in output) == (0, False), f"{shlex.join(line)}: {output}"
    without_pools()


def test_lines_that_are_not_typed_stand_on_a_page() -> None:
    assert {*NOT_TYPED} <= {line for lines in PAGES.values() for line in lines}


def test_every_block_is_run_read_or_shown() -> None:
    """Another language, or Python that no test runs, would go by unseen."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in tracked_pages())
    assert {*re.findall(r"^```(\w+)$", text, re.MULTILINE)} == {"sh", "console", "python", "toml"}
    assert {*blocks("python")} == {block for page in PYTHON for block in python_on(page)}
    for page, test in PYTHON.items():
        assert f'"{page}"' in (ROOT / test).read_text(encoding="utf-8")
