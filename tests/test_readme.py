"""README and pages are true: their commands, options, files, mechanisms, statuses and tree are those of the code."""

import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.reference import pages
from tests.support.pages import README, ROOT, TOPS, blocks
from tests.world import STAGES, app, artifacts_errors, parse_plan, read_tables

TOP = [page.name for page in sorted(ROOT.glob("*.md"))]
GUIDES = [str(page.relative_to(ROOT)) for page in sorted((ROOT / "deployments/guides").glob("*.md"))]
PAGES = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in (*TOP, "deployments/README.md", *GUIDES, "tests/privacy/README.md", "artifacts/README.md")
}
COMMAND_PAGE = PAGES["deployments/guides/commands.md"]
EVERYTHING = "\n".join(PAGES.values())
FIRST_SCREEN = 23
"""Lines of the README that say what it is, with figures, and what to type."""
SHIPPED = {"artifacts/code/concord_student.py"}
"""Of a published model's folder, in which a path begins as one of the repository does."""
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]  # the app is a group


def invocations() -> list[tuple[str, str]]:
    """Every `concord …` that is shown, as (command, the rest)."""
    shown = re.findall(r"`(?:\.venv/bin/)?concord (\w+)([^`]*)`", EVERYTHING)
    return shown + re.findall(r"^\$ concord (\w+)((?:[^\n]*\\\n)*[^\n]*)", README, re.MULTILINE)


@pytest.mark.parametrize(("command", "rest"), invocations())
def test_every_command_it_shows_exists_with_its_options(command: str, rest: str) -> None:
    options = {option for parameter in COMMANDS[command].params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", rest)) <= options


def typed() -> list[str]:
    """Every line of a block that calls the command line, whole and without its prompt."""
    lines = "\n".join(blocks("sh", "console")).replace("\\\n", " ").splitlines()
    return [found[1] for line in lines if (found := re.match(r"(?:\$ )?(?:\.venv/bin/)?(concord .*)", line))]


@pytest.mark.parametrize("line", typed())
def test_every_line_to_type_is_one_that_the_command_line_takes(line: str) -> None:
    _, command, *rest = shlex.split(line, comments=True)
    assert COMMANDS[command].make_context(command, rest).params


def merged(plan: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """A plan with a part of another in its place, section by section."""
    return plan | {name: plan.get(name, {}) | section for name, section in part.items()}


@pytest.mark.parametrize("block", blocks("toml"))
def test_every_plan_or_part_of_one_that_is_shown_is_read(block: str) -> None:
    shown = tomllib.loads(block)
    plan = merged(read_tables(ROOT / "deployments/plans/demo.toml"), {"test": {"share": 0.1}})
    if "stream" in shown:  # nobody votes, and no units are set aside
        plan = {name: plan[name] for name in plan.keys() - {"teachers", "labeling", "student", "test"}}
    read = parse_plan(merged(plan, shown)).model_dump(mode="json", exclude_unset=True)
    assert all(set(section) <= set(read[name]) for name, section in shown.items())


def test_there_are_such_blocks() -> None:
    assert len(typed()) >= 4
    assert len(blocks("toml")) >= 3


def test_every_command_there_is_is_shown() -> None:
    assert {command for command, _ in invocations()} == set(COMMANDS)


def test_the_index_for_operators_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\((guides/[^)]+)\)", PAGES["deployments/README.md"]))
    assert {f"deployments/{target}" for target in linked} == {*GUIDES}


def masked(text: str) -> str:
    """What is shown, without figures and names that differ from run to run, and without line breaks."""
    return " ".join(re.sub(r"(?<=demo-hospital-)[\da-f]+|[\d.,]+", "…", text).split())


@pytest.mark.slow
def test_the_first_example_runs_as_written_in_the_folder_of_make_run(tmp_path: Path) -> None:
    """Typed into one shell, after what `make run` does; only the last line, which serves until it is ended, is not."""
    (example,) = blocks("console", page=README)
    (python,) = blocks("python", page=README)
    lines = re.findall(r"^\$ (?:[^\n]*\\\n)*[^\n]*\n", example, re.MULTILINE)
    assert lines[-1].startswith("$ concord ui")
    typed = "".join(line.removeprefix("$ ") for line in lines[:-1])
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    apart = {name: value for name, value in os.environ.items() if not name.startswith(("CONCORD_", "PREFECT_"))}
    script = f"set -e\n.venv/bin/concord demo\n{typed}python - <<'END'\n{python}END\n"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=apart, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    shown = re.sub(r"^\$ (?:[^\n]*\\\n)*[^\n]*\n", "", example, flags=re.MULTILINE).splitlines()
    assert [line for line in shown if masked(line) not in masked(done.stdout)] == [], done.stdout
    assert len(shown) >= 5
    without_chance = re.compile(r"from \d+ rounds|about \d+ units")
    assert {*without_chance.findall(example)} <= {*without_chance.findall(done.stdout)}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:`|^|\bor )make ([a-z-]+)", EVERYTHING, re.MULTILINE))))
def test_make_knows_what_it_is_told(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_two_commands_are_the_first_thing_to_run() -> None:
    first = README.split("```sh\n")[1].split("```")[0].splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make run", "make test"]
    assert README.splitlines()[:FIRST_SCREEN][-2:] == [first[-1], "```"]
    assert [line[:2] for line in README.splitlines()[:FIRST_SCREEN]].count("![") == 1


def test_the_figures_of_its_first_paragraph_are_those_of_its_table() -> None:
    figures = r"At ε = 1\s+its accuracy on UCI Adult is {0}%, compared with {0}% for DP-SGD and {0}% for DP-EBM"
    (sentence,) = re.findall(figures.format(r"([\d.]+)"), README)
    header, _, *rows = [line.split("|")[1:-1] for line in README.splitlines()[10:] if line.startswith("|")][:5]
    at = [cell.strip() for cell in header].index("ε = 1")
    assert [row[at].split("±")[0].strip() for row in rows] == [*sentence]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_follows_from_the_code_is_as_the_code_has_it(page: Path) -> None:
    """Keys, mechanisms, sources and forms of an export: no row of theirs is typed."""
    assert page.read_text(encoding="utf-8") == pages()[page], "make reference writes it anew"


@pytest.mark.parametrize("path", re.findall(r"`((?:flows|tasks|artifacts|tests|deployments)/[\w/.]+)`", EVERYTHING))
def test_files_it_names_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_file_that_a_text_names_is_there() -> None:
    """A docstring or a page names no file by its path, and no test by its name, that is not there."""
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for file in (path for top in TOPS for kind in ("*.py", "*.md") for path in (ROOT / top).rglob(kind)):
        text = file.read_text(encoding="utf-8")
        named = set(re.findall(rf"(?<![./\w])((?:{'|'.join(TOPS)})/[a-z0-9_/]+\.py)\b", text))
        assert {path for path in named if not (ROOT / path).exists()} <= SHIPPED, file
        assert set(re.findall(r"(?<![./\w])(test_[a-z0-9_]+\.py)\b", text)) <= tests, file


@pytest.mark.parametrize("test", re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGES["tests/privacy/README.md"]))
def test_every_test_that_holds_a_promise_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_promise_has_a_test() -> None:
    table = PAGES["tests/privacy/README.md"].split("| promise | held by |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(table) > 10
    assert all(re.search(r"`tests/[\w/]+\.py::test_\w+`", row) for row in table)


def test_its_tree_is_the_repository_s() -> None:
    tree = README.split("## How it is laid out\n\n```\n")[1].split("```")[0]
    shown = {line.split("/")[0] for line in tree.splitlines() if not line.startswith(" ")}
    hidden = {".venv", "build", "concord.egg-info"}
    there = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name not in hidden}
    assert shown == there - {"__pycache__"}


def test_exit_statuses_are_those_of_the_errors() -> None:
    details = dict(re.findall(r"(\d) ([a-z][^·.]*)", COMMAND_PAGE.split("Exit status:")[1].split("\n\n")[0]))
    classes = (
        artifacts_errors.EnvironmentFailed,
        artifacts_errors.WrongInput,
        artifacts_errors.BudgetRefused,
        artifacts_errors.NotVerified,
    )
    assert set(details) == {"0", *(str(error.exit_status) for error in classes)}
    assert "budget" in details[str(artifacts_errors.BudgetRefused.exit_status)]
    assert "verify" in details[str(artifacts_errors.NotVerified.exit_status)]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target, _, heading in (link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", PAGES[page])):
        file = (ROOT / page).parent / target
        assert file.exists(), target
        assert not heading or f"## {heading.replace('-', ' ')}" in file.read_text(encoding="utf-8").lower()


def test_the_first_stage_and_the_last_are_as_it_says() -> None:
    assert "each stage, from encode to certify" in README
    assert (STAGES[0], STAGES[-1]) == ("encode", "certify")
