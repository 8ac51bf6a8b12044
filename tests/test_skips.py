"""CI tells the truth: it fails on a skip that has no reason on the list, and where its programs cannot be installed;
and every test can fail."""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.skips import MAY_BE_SKIPPED, failed_unless_listed

ROOT = Path(__file__).parents[1]
PROGRAMS = ("postgres", "gcc", "chromium")
INSTALLS = f'for each in {" ".join(PROGRAMS)}; do printf "#!/bin/sh\\n" > "$HERE/$each"; chmod +x "$HERE/$each"; done'


@pytest.mark.parametrize("reason", ["no server could be started", *MAY_BE_SKIPPED])
def test_a_skip_fails_unless_its_reason_is_listed(reason: str) -> None:
    report = pytest.CollectReport("tests", "skipped", ("file", 1, f"Skipped: {reason}"), [])
    failed_unless_listed(report)
    assert report.outcome == ("skipped" if reason in MAY_BE_SKIPPED else "failed")
    assert reason in str(report.longrepr)


def test_a_skip_of_a_test_and_of_a_whole_file_fails_by_that_option_alone(tmp_path: Path) -> None:
    """The option reaches both, through the hooks that all tests here are run with."""
    (tmp_path / "one_test.py").write_text("import pytest\ndef test_one(): pytest.skip('no reason')\n")
    (tmp_path / "file_test.py").write_text("import pytest\npytest.skip('no reason', allow_module_level=True)\n")
    options = ["-q", "--noconftest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "/dev/null"]

    def ended(*more: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", *options, *more, str(tmp_path)]
        here = {**os.environ, "PYTEST_ADDOPTS": ""}  # CI gives the option there
        done = subprocess.run(command, cwd=ROOT, env=here, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    status, said = ended()
    assert (status, "2 skipped" in said) == (0, True)
    status, said = ended("--no-skips", "--continue-on-collection-errors")
    assert status != 0
    assert "1 failed" in said
    assert "1 error" in said


@pytest.mark.parametrize("reason", MAY_BE_SKIPPED)
def test_no_reason_is_listed_that_no_test_gives(reason: str) -> None:
    said = (file for file in Path(__file__).parent.rglob("*.py") if file.name != "skips.py")
    assert any(f'"{reason}' in file.read_text() for file in said)


@pytest.mark.parametrize(
    ("user", "apt", "status"), [(0, INSTALLS, 127), (0, "exit 100", 100), (0, "exit 0", 1), (1000, INSTALLS, 1)]
)
def test_ci_ends_before_its_tests_if_a_program_cannot_be_installed(
    user: int, apt: str, status: int, tmp_path: Path
) -> None:
    """It stops at its last step, of which nothing is installed here, if it comes so far."""
    programs = {
        "id": f"echo {user}",
        "apt-get": apt,
        "make": 'echo "$* $PYTEST_ADDOPTS"',
        "dirname": f"echo {tmp_path}",
    }
    for name, script in programs.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\n[ "$1" = update ] || {{\n{script}\n}}\n')
        program.chmod(0o755)
    (tmp_path / "bin/chmod").symlink_to("/bin/chmod")
    done = subprocess.run(
        ["/bin/bash", ROOT / ".ci/run"],
        env={"PATH": str(tmp_path / "bin"), "HERE": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert ("test-all --no-skips" in done.stdout) == (status == 127)
    assert ("chromium" in done.stderr) == (status == 1)


ASSERTIONS = {"assert_allclose", "does_not_raise", "raises", "warns", "fail", "run_state_machine_as_test"}


def test_every_test_asserts_something() -> None:
    """Itself, or in a function that it calls, or that one; a command whose status is checked is an assertion, too."""
    functions = defaultdict(list)
    for file in Path(__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                functions[node.name].append((file, node))

    @cache
    def asserts(part: ast.AST, depth: int = 0) -> bool:
        for node in ast.walk(part):
            if isinstance(node, ast.Assert | ast.Raise):
                return True
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                called = functions[name] if depth < 3 else []
                checked = any(word.arg == "check" and ast.unparse(word.value) == "True" for word in node.keywords)
                if name in ASSERTIONS or checked or any(asserts(each, depth + 1) for _, each in called):
                    return True
        return False

    tests = [each for name, found in list(functions.items()) if name.startswith("test_") for each in found]
    assert [f"{file}: {test.name}" for file, test in tests if not asserts(test)] == []
