"""One Prefect server for the whole session of tests, and a home folder of its own for each that runs the flow."""

import gc
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.skips import failed_unless_listed
from tests.support.people import arrive, changed, tables_of_plan, write_tables
from tests.support.ports import own_port
from tests.world import Plan, hold_what_is_taken, publish_figures, verify_limited

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tests.promises.scene import Scene

pytest.register_assert_rewrite("tests.promises.scene")  # what got out, and where, is in the message

os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "true"
os.environ["MLFLOW_SQLALCHEMYSTORE_POOLCLASS"] = "NullPool"  # as a home has it
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script has what it starts by `&` ignore what tests send

MEMORY, ROOM = "/dev/shm", 8 << 30
if "TMPDIR" not in os.environ and os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > ROOM:
    # Homes are synced hundreds of thousands of times, for which a disk takes more time than all else that is tested.
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY

# The same examples at every run, however slow the machine is.
hypothesis.settings.register_profile(
    "concord", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("nightly", hypothesis.settings.get_profile("concord"), derandomize=False)
hypothesis.settings.load_profile("concord")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="take every case, where tests otherwise take a sample")
    parser.addoption("--no-skips", action="store_true", help="fail tests that are skipped and not in tests/skips.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.getoption("--no-skips"):
        failed_unless_listed(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if collector.config.getoption("--no-skips"):
        failed_unless_listed(report)
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `exhaustive` run only by that option; with it run those and the ones that use the fixture."""
    asked = config.getoption("--exhaustive")
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        samples = asked and "exhaustive" in getattr(item, "fixturenames", ())
        runs = asked == (samples or item.get_closest_marker("exhaustive") is not None)
        (kept if runs else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session")
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Whether a test takes every case, as `make test-nightly` asks, in place of its sample."""
    return bool(request.config.getoption("--exhaustive"))


gc.disable()  # all that is loaded to collect the tests stays: a third of the time was spent on looking through it


def pytest_collection_finish() -> None:
    """What was loaded is no garbage: do not look through it again, and seldom for other."""
    if absl := sys.modules.get("absl.logging"):  # what holds pytest's stream closes it when Prefect sets logging up
        absl.get_absl_handler().python_handler.stream = sys.__stderr__
    hold_what_is_taken()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def checked_here() -> Iterator[None]:
    """What strangers made is checked in this process, but in tests that ask for it `apart`."""
    from tests.support.checked_here import Here
    from tests.world import verify_limited

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_limited, "subprocess", Here)
        yield


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What strangers made is checked in a process of its own, as for users."""
    monkeypatch.setattr(verify_limited, "subprocess", subprocess)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A Prefect server on a database of its own; some seconds, so one for all."""
    import prefect.main  # sets logging up, which closes the stream that absl holds: not one a test put in its place
    from prefect.settings import PREFECT_API_URL
    from prefect.testing import utilities

    from tests.world import UNRECORDED, copy_empty

    def folder_of_database() -> str:
        folder = Path(tempfile.mkdtemp())
        copy_empty("prefect", folder / "prefect-test.db")
        return str(folder)

    assert prefect.main
    with pytest.MonkeyPatch.context() as patch:
        for name, value in UNRECORDED.items():
            if "TASK_RUN" not in name:  # tests look at tasks, and at no other record
                patch.setenv(name, value)
        patch.setattr(utilities, "_find_available_port", own_port)
        patch.setattr(utilities, "mkdtemp", folder_of_database)
        with utilities.prefect_test_harness(server_startup_timeout=300):
            patch.setenv("PREFECT_API_URL", PREFECT_API_URL.value() or "")  # a command believes no other setting
            yield


@pytest.fixture(scope="session")
def mlflow_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty tracking store, migrated once: each further one is a copy."""
    from tests.world import Records

    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
        Records.of(folder).runs("none")
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def svg() -> "Callable[[Figure], str]":
    """What draws a figure."""
    from tests.world import _svg

    return _svg


@pytest.fixture
def plain_home(
    svg: "Callable[[Figure], str]",  # noqa: ARG001  # what it is, before it is replaced
    mlflow_database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A fresh home folder, with an empty tracking store, in which flows run as plain functions: for promises that do
    not depend on Prefect, which would take half of the time. Figures of reports take a quarter of a small run: they are
    left blank."""
    from tests.promises.commands import STAND_INS

    for place, stand_in in STAND_INS.items():
        monkeypatch.setattr(place, stand_in)
    return _home(mlflow_database, tmp_path, monkeypatch)


def _home(mlflow_database: Path, folder: Path, patch: pytest.MonkeyPatch) -> Path:
    home = folder / "home"
    home.mkdir(mode=0o700)
    shutil.copy(mlflow_database, home / "mlflow.db")
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    return home


@pytest.fixture
def home(
    prefect_server: None,  # noqa: ARG001  # it must be up
    svg: "Callable[[Figure], str]",  # noqa: ARG001  # what it is, before it is replaced
    mlflow_database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A fresh home folder, with an empty tracking store, in which flows run by Prefect. Figures of reports are left
    blank, but in a `scene`, in which they are searched as well."""
    from prefect import settings

    from tests.support.homes import undrawn

    monkeypatch.setattr(publish_figures, "_svg", undrawn)
    changes = {
        settings.PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,  # its thread outlives the flow by a second
        settings.PREFECT_LOGGING_TO_API_ENABLED: False,
        settings.PREFECT_API_TLS_INSECURE_SKIP_VERIFY: True,  # every client would load all authorities that there are
    }
    with settings.temporary_settings(changes):
        yield _home(mlflow_database, tmp_path, monkeypatch)


@pytest.fixture
def concord(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """The command line on a home folder of its own; gives exit status, stdout, and the last line of stderr."""
    from tests.support import console

    monkeypatch.setenv("CONCORD_HOME", str(home))
    return console.concord


@pytest.fixture
def scene(
    home: Path,
    svg: "Callable[[Figure], str]",
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> "Scene":
    """A home folder and a plan over marked tables, nothing of which may get out."""
    from tests.promises.canary import canary_tables
    from tests.promises.scene import Scene

    monkeypatch.setattr(publish_figures, "_svg", svg)
    return Scene(home, canary_tables(tmp_path / "data"), capfd, caplog)


@pytest.fixture
def simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only words are looked at, votes are simulated by ten teachers, tallies by one draw of a typical signal."""
    from tests.world import advice_rehearse_tallies, advice_rehearse_votes

    monkeypatch.setattr(advice_rehearse_votes, "MOST_TRAINED", 10)
    monkeypatch.setattr(advice_rehearse_tallies, "SIGNALS", ("typical",))
    monkeypatch.setattr(advice_rehearse_tallies, "DRAWS", 1)


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables are kept, and the home folder of one run of each plan, of which a test begins with a copy."""
    folder = tmp_path_factory.mktemp("kept")
    write_tables(folder / "data")
    return folder


@pytest.fixture
def plan(kept: Path) -> Iterator[Plan]:
    """A plan with room for more rows than its own 300. Its tables are those of all such tests: none may change them."""
    before = _content(kept / "data")
    yield changed(tables_of_plan(kept / "data"), privacy__epsilon=8.0, labeling__cutoff=60)
    assert _content(kept / "data") == before, "a test that changes its tables must write its own"


def _content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture
def session(request: pytest.FixtureRequest, plan: Plan, home: Path, kept: Path) -> str:
    """The session of a finished run of the plan; of the plan above, one that is still open."""
    from tests.support.copies import copied
    from tests.world import Ledger, start

    by = "prefect" if "prefect_server" in request.fixturenames else "plainly"  # which leaves nothing that is cached
    run = kept / by / hashlib.sha256(plan.model_dump_json(exclude={"folder"}).encode()).hexdigest()
    if run.is_dir():
        copied(run, home)
    else:
        start(plan, home)
        shutil.copytree(home, run)
    return Ledger.of(home).sessions("people")[-1].id


@pytest.fixture
def arriving(tmp_path: Path) -> Path:
    """A folder in which public files arrive; the first is there."""
    return arrive(tmp_path / "arriving", 11)
