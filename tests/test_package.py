"""The package outside: `import concord` alone, quick, and beside a user's own tasks.py, flows and artifacts."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import concord
from tests.support.people import write_plan, write_tables
from tests.support.processes import own_environment
from tests.support.published import SESSION, certified, world_in
from tests.world import calibrated_stable, sha256

ROOT = Path(__file__).parents[1]
OWN = 'raise RuntimeError("this is the user\'s own")\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project, with files of the names of our folders."""
    write_tables(tmp_path)
    write_plan(tmp_path, privacy__epsilon=8.0, labeling__cutoff=60)
    (tmp_path / "tasks.py").write_text(OWN)
    for name in ("flows", "artifacts"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(OWN)
    return tmp_path


def python(folder: Path, program: str, **named: str) -> str:
    """What a program prints that runs in a folder, which is the first place it imports from."""
    environment = {**own_environment(), "PYTHONPATH": "", "CONCORD_HOME": str(folder / "home"), **named}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAVY = {"numpy", "scipy", "polars", "pandas", "sqlalchemy", "prefect", "mlflow", "sklearn", "skops", "opendp"}
LIGHT: dict[str, set[str]] = {
    "concord": {"concord.flows", "concord.tasks", "concord.artifacts"},
    "concord.flows.cli": HEAVY,
    "concord.flows.cli.show": HEAVY - {"sqlalchemy"},
    "concord.tasks.verify.published": {"prefect", "mlflow", "skops"},
    "concord.flows.learn": {"mlflow", "alembic", "matplotlib", "skops"},
}
"""What is loaded by the package, by --help, by `budget`, to verify a published folder and by a cached run; and what
each does without. In this order: what one of them loads, the next has too."""
PREDICTING = (
    *("concord.flows.cli.record", "concord.tasks.publish.predict"),
    *("concord.tasks.verify.certificate", "skops.io"),
)
"""What predicting loads: the student's libraries. SciPy's stats is one of them: scikit-learn imports it whatever is
used."""
UNUSED = {"prefect", "mlflow", "alembic", "matplotlib", "opendp", "dp_accounting", "uvicorn", "fastapi"}


@pytest.mark.parametrize("loading", [LIGHT, dict.fromkeys(PREDICTING, UNUSED)], ids=["commands", "predict"])
def test_nothing_is_loaded_before_it_is_needed(loading: dict[str, set[str]], tmp_path: Path) -> None:
    program = f"""
import importlib, sys
for name, without in {loading!r}.items():
    importlib.import_module(name)
    print(*sorted(without & set(sys.modules)), sep=",")
"""
    assert python(tmp_path, program).split("\n")[:-1] == [""] * len(loading)


def test_a_budget_is_read_without_what_a_student_needs(tmp_path: Path) -> None:
    made = world_in(tmp_path / "home", rows=60)
    certified(made, calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20), made.truth)
    program = f"""
import pathlib, sys
from concord.flows.results import budget_of
assert budget_of(pathlib.Path({str(made.home)!r}))["domains"][0]["sessions"]
print(*sorted({HEAVY - {"sqlalchemy", "polars", "numpy"}!r} & set(sys.modules)), sep=",")
"""
    assert python(tmp_path, program) == "\n"


@pytest.mark.parametrize(("typed", "completed"), [("ver", "verify"), ("budget --js", "--json"), ("sing", "")])
def test_a_shell_completes_commands_and_options(typed: str, completed: str, tmp_path: Path) -> None:
    asked = {
        "_CONCORD_COMPLETE": "complete_bash",
        "COMP_WORDS": f"concord {typed}",
        "COMP_CWORD": str(len(typed.split())),
    }
    program = "import sys; sys.argv = ['concord']; from concord.flows.cli import main; main()"
    assert python(tmp_path, program, **asked).strip() == completed


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    ran = "import runpy, sys; sys.argv[1:] = ['--version']; runpy.run_module('concord', run_name='__main__')"
    assert python(tmp_path, ran) == f"concord {concord.__version__}\n"


def test_what_goes_with_it_is_of_its_version_and_licence() -> None:
    licence = sha256((ROOT / "LICENSE").read_bytes())
    assert licence == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # Apache's own text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert project["license"] == cited["license"] == "Apache-2.0"
    assert project["authors"] == cited["authors"]
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == cited["version"] == concord.__version__
    assert f"concord:{concord.__version__}" in (ROOT / "deployments/compose.yaml").read_text(encoding="utf-8")


def test_it_offers_what_it_says() -> None:
    offered = {"run", "refresh", "ask", "load_student", "ConcordClassifier", "ConcordRegressor"}
    offered |= {"init", "plan", "verify", "budget", "predict", "export"}
    assert set(concord.__all__) == {*offered, "__version__"}
    assert set(dir(concord)) == {*concord.__all__, "artifacts", "flows", "tasks"}
    assert all(callable(getattr(concord, name)) for name in offered)
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        getattr(concord, "walk")  # noqa: B009  # mypy knows that it is not there


@pytest.mark.slow
def test_everything_works_beside_a_users_own_modules(project: Path) -> None:
    program = """
import polars, sys, concord
done = concord.run("plan.toml")
rows = polars.read_parquet("public.parquet")
student = concord.load_student(done.session)
assert (student.predict(rows) == done.student.predict(rows)).all()
assert not {"tasks", "flows", "artifacts"} & set(sys.modules)
print(done.session)
"""
    session = python(project, program).split()[-1]
    assert session.startswith("people-")
    copied = project / "copy"
    (project / "home/released" / session).rename(copied)
    assert "no" in python(
        project,
        "import concord, polars; print(*concord.load_student('copy').predict(polars.read_parquet('public.parquet')))",
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is in the checkout, but for the tests."""
    source = tmp_path_factory.mktemp("source")
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]:
        if not name.startswith("tests/"):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                target.symlink_to((ROOT / name).readlink())
            else:
                target.write_bytes((ROOT / name).read_bytes())
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of that."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(build, check=True, timeout=600, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_what_was_published_verifies_elsewhere_in_a_fresh_environment_without_a_home(
    wheel: Path, tmp_path: Path
) -> None:
    """The wheel in an environment of its own, beside packages from a registry; no variable of ours, another folder."""
    made = world_in(tmp_path / "home", rows=60)
    certified(made, calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20), made.truth)
    folder = tmp_path / "elsewhere" / "copy"
    shutil.copytree(made.released.root / SESSION, folder)
    shutil.rmtree(made.home)
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    python, begin = str(tmp_path / "venv" / "bin" / "python"), "from concord.flows.cli import main; main()"

    def verified() -> tuple[int, str]:
        command = [python, "-I", "-c", begin, "verify", "copy", "--json"]
        told = {"PATH": "/usr/bin:/bin", "HOME": str(folder.parent)}
        done = subprocess.run(
            command, cwd=folder.parent, env=told, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout + done.stderr

    where = subprocess.run(
        [python, "-I", "-c", "import concord; print(concord.__file__)"], capture_output=True, text=True, check=True
    )
    assert str(packages) in where.stdout
    status, said = verified()
    assert (status, json.loads(said)["ok"]) == (0, True), said
    assert not (folder.parent / ".concord").exists()
    student = bytearray((folder / "student.skops").read_bytes())
    student[len(student) // 2] ^= 1
    (folder / "student.skops").write_bytes(student)
    status, said = verified()
    assert status == 4
    assert "student.skops is not the one" in said


@pytest.mark.slow
def test_a_wheel_holds_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"concord", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    ours = {
        f"concord/{path.relative_to(ROOT)}"
        for top in ("flows", "tasks", "artifacts")
        for path in (ROOT / top).rglob("*.py")
    }
    assert ours | {
        "concord/concord-plan.schema.json",
        "concord/demo-one-table.json",
        "concord/demo-one-table.toml",
        "concord/demo.toml",
        "concord/py.typed",
        "concord/tasks/publish/report.html.j2",
        "concord/tasks/publish/first_page.html.j2",
        "concord/tasks/advice/plan.toml.j2",
        f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/licenses/LICENSE",
    } <= set(names)


@pytest.mark.slow
def test_a_source_archive_has_what_goes_with_it(source: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tools), "setuptools>=77"]
    subprocess.run(install, check=True, timeout=600, capture_output=True)
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    told = os.environ | {"PYTHONPATH": str(tools)}
    subprocess.run([sys.executable, "-c", build], cwd=source, env=told, check=True, timeout=300, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as made:
        names = {name.partition("/")[2] for name in made.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"} <= names
    assert ".package/concord/flows/learn.py" in names
