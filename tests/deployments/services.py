"""The services of deployments/compose.yaml as processes of this machine: the same commands, environments and health
checks, with hosts, ports and folders of a test in their places. Nothing is left running at the end."""

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

from tests.support import postgresql
from tests.support.ports import own_port

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deployments" / "compose.yaml").read_text())
MARK = "CONCORD_TEST_SERVICE"
"""Which service of which test a process belongs to; whatever a service starts has it as well."""


class Services:
    """The services on one machine, each with its log in `folder`. Use as a context."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, secrets.token_hex(8)
        self.api = f"http://127.0.0.1:{own_port()}/api"
        self.mlflow = f"http://127.0.0.1:{own_port()}"
        self.home = folder / "home"
        self._held = ExitStack()
        passwords = {f"/run/secrets/{name}": folder / name for name in COMPOSE["secrets"]}
        for file in passwords.values():
            file.write_text(f"{secrets.token_hex(12)}\n")
        self.settings: dict[Any, str] = {
            PREFECT_API_URL: self.api,
            PREFECT_API_AUTH_STRING: f"concord:{(folder / 'prefect_password').read_text().strip()}",
        }
        self.here = {
            **{place: str(file) for place, file in passwords.items()},
            "http://prefect:4200/api": self.api,
            "http://mlflow:5000": self.mlflow,
            "0.0.0.0": "127.0.0.1",
            "4200": self.api.split(":")[2].removesuffix("/api"),
            "5000": self.mlflow.split(":")[2],
            "8080": str(own_port()),
            "/srv/mlflow": str(folder / "artifacts"),
            "/srv/prefect": str(folder / "prefect"),
            "/srv/home": str(self.home),
        }

    def __enter__(self) -> Self:
        self.here |= self._held.enter_context(database(self.folder))
        return self

    def __exit__(self, *error: Any) -> None:
        for service in ("worker", "prefect", "mlflow"):
            self.end(service, signal.SIGTERM)
        self.end("", signal.SIGKILL)
        self._held.close()

    def start(self, service: str) -> None:
        """Start a service as its container would."""
        described = COMPOSE["services"][service]
        with (self.folder / f"{service}.log").open("ab") as log:
            started = subprocess.Popen(
                [ROOT / "deployments" / "entrypoint.sh", *map(self._of_here, described["command"])],
                env={**self.environment(service), MARK: f"{self.name}-{service}"},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._held.callback(started.wait)

    def wait(self, service: str) -> None:
        """Until the service's own health check passes."""
        check = [self._of_here(word) for word in COMPOSE["services"][service]["healthcheck"]["test"][1:]]
        environment = self.environment(service)

        def healthy() -> bool:
            done = subprocess.run(check, env=environment, cwd=ROOT, capture_output=True, check=False)
            return done.returncode == 0

        until(healthy, 120, lambda: f"{service} is not healthy: {self.log(service)}")

    def run(self, *command: str) -> str:
        """A command in the worker's environment, as `docker compose exec worker` would run it; its output."""
        typed = [str(ROOT / "deployments/entrypoint.sh"), *command]
        done = subprocess.run(
            typed, env=self.environment("worker"), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def end(self, service: str, by: signal.Signals) -> None:
        """Send a signal to all processes of a service, or of all services, and wait until they are gone."""
        for process in self.processes(service):
            with suppress(ProcessLookupError):  # a flow run's process may end between the listing and the signal
                os.kill(process, by)
        deadline = time.monotonic() + 60
        while self.processes(service) and time.monotonic() < deadline:
            time.sleep(0.1)

    def processes(self, service: str) -> list[int]:
        """Ids of a service's processes: those that bear its mark and have not ended."""
        mark = f"{MARK}={self.name}-{service}".encode()
        return [int(place.name) for place in Path("/proc").glob("[0-9]*") if bears(place, mark)]

    def log(self, service: str) -> str:
        """The end of a service's log."""
        return (self.folder / f"{service}.log").read_text(errors="replace")[-3000:]

    def environment(self, service: str) -> dict[str, str]:
        """What a service finds in its environment, and what any command here needs to run."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "OMP_NUM_THREADS") if name in os.environ}
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        own = {name: self._of_here(value) for name, value in COMPOSE["services"][service]["environment"].items()}
        ours = {"PATH": path, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(self.folder / service)}
        return {**kept, **ours, "PREFECT_WORKER_QUERY_SECONDS": "2", **own}  # instead of 10: a test is in a hurry

    def _of_here(self, words: str) -> str:
        longest_first = sorted(map(re.escape, self.here), key=len, reverse=True)
        return re.sub("|".join(longest_first), lambda found: self.here[found[0]], words)


@contextmanager
def database(folder: Path) -> Iterator[dict[str, str]]:
    """The service `database`, or SQLite's files where it cannot be had: what stands for the addresses of its tables."""
    addresses = (
        "postgresql+asyncpg://concord@database:5432/prefect",
        "postgresql+psycopg2://concord@database:5432/mlflow",
    )
    password = (folder / "database_password").read_text().strip()
    with ExitStack() as held:
        try:
            place = held.enter_context(postgresql.server(password))
        except pytest.skip.Exception as reason:
            print(f"SQLite stands in for PostgreSQL: {reason}")
            files = (f"sqlite+aiosqlite:///{folder / 'prefect.db'}", f"sqlite:///{folder / 'mlflow.db'}")
            yield dict(zip(addresses, files, strict=True))
            return
        for words in ("CREATE DATABASE prefect;", COMPOSE["configs"]["databases"]["content"]):
            ask = ["psql", f"postgresql://{place}/postgres", "--no-psqlrc", "--quiet", "--command", words]
            subprocess.run(ask, env={"PATH": str(postgresql.binaries()), "PGPASSWORD": password}, check=True)
        yield {address: address.replace("concord@database:5432", place) for address in addresses}


def until(true: Callable[[], Any], seconds: float, otherwise: Callable[[], str], pause: float = 0.5) -> Any:
    """What `true` gives once that is anything; fails with the words of `otherwise` after that many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, otherwise()
        time.sleep(pause)
    return found


def bears(process: Path, mark: bytes) -> bool:
    """Whether a process has not ended and was given these words in its environment."""
    try:
        return mark in (process / "environ").read_bytes() and b") Z " not in (process / "stat").read_bytes()
    except OSError:
        return False
