"""Dask by the plan alone: who is let in, what is sent, and what a worker that dies costs."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from prefect.settings import (
    PREFECT_SERVER_API_AUTH_STRING,
    PREFECT_SERVER_DATABASE_CONNECTION_URL,
    PREFECT_SERVER_DATABASE_PASSWORD,
    PREFECT_SERVER_DOCKET_URL,
    get_current_settings,
    temporary_settings,
)

from tests import world
from tests.support.people import changed
from tests.support.sentences import facts

TLS = ("ca_file", "client_cert", "client_key")


def test_nobody_is_asked_without_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example/api")  # which the workers can reach
    named = world.TeachersPlan(count=2, runner="dask", address="tls://scheduler.example:8786")
    with pytest.raises(world.EnvironmentFailed, match=facts("DASK_DISTRIBUTED__COMM__TLS__CA_FILE", "file")):
        world.task_runner(named, tmp_path)


def test_a_worker_elsewhere_cannot_use_a_server_of_this_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)  # it is there once another test had a server
    with pytest.raises(world.EnvironmentFailed, match="PREFECT_API_URL"):
        world.task_runner(world.TeachersPlan(count=2, runner="dask", address="tls://scheduler.example:8786"), tmp_path)


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert world.flows_cluster.worker_identity(str(tmp_path / "home"))[1] == ""
    assert list(tmp_path.iterdir()) == []


def test_no_secret_of_a_prefect_server_is_among_the_settings_that_tasks_are_sent() -> None:
    planted = {
        PREFECT_SERVER_API_AUTH_STRING: "planted",
        PREFECT_SERVER_DATABASE_CONNECTION_URL: "postgresql+asyncpg://u:planted@h/d",
        PREFECT_SERVER_DATABASE_PASSWORD: "planted",
        PREFECT_SERVER_DOCKET_URL: "redis://u:planted@h/0",
    }
    with temporary_settings(planted), temporary_settings(world.SERVERS_OWN):
        assert "planted" not in str(get_current_settings().model_dump(context={"include_secrets": True}))


def test_a_worker_that_is_killed_as_it_starts_ends_the_run_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    def killed(**_: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", killed)
    with pytest.raises(world.EnvironmentFailed, match=facts("dask", "Nanny failed to start")):
        world.closed_cluster(1, tmp_path)


@pytest.mark.slow
def test_no_worker_prints_what_prefect_logs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each printed a line at the end of each task."""
    from distributed import Client

    with world.closed_cluster(1, tmp_path) as cluster, Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        client.run(log_as_a_task)
    assert "Finished" not in capfd.readouterr().err


def log_as_a_task() -> None:
    """Log what Prefect does at the end of a task."""
    from prefect.logging import get_logger
    from prefect.logging.configuration import ensure_logging_setup

    ensure_logging_setup()
    get_logger("engine").info("Finished in state Completed()")


class Named:
    """A cluster of two processes, and the credentials for it."""

    def __init__(self, folder: Path, made: Any) -> None:
        self.made, self.address = made, made.scheduler_address
        self.files = {name: folder / name for name in TLS}
        for name, file in self.files.items():
            file.write_text(getattr(made.security, f"tls_{name}"))

    @property
    def settings(self) -> dict[str, str]:
        """Those of Dask."""
        keys = ("ca-file", "client.cert", "client.key")
        return {f"distributed.comm.tls.{key}": str(self.files[name]) for key, name in zip(keys, TLS, strict=True)}

    def plan(self, plan: world.Plan) -> world.Plan:
        """The plan, on this cluster."""
        return changed(plan, teachers__runner="dask", teachers__address=self.address)


@pytest.fixture
def named(prefect_server: None, tmp_path: Path) -> Iterator[Named]:  # noqa: ARG001  # its workers ask it
    import dask
    from distributed import LocalCluster
    from distributed.security import Security

    (folder := tmp_path / "certificates").mkdir()
    made = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",  # any port: two tests may run clusters at once
        protocol="tls://",
        security=Security.temporary(),  # type: ignore[no-untyped-call]
        local_directory=str(folder),
    )
    with made:
        here = Named(folder, made)
        with dask.config.set(here.settings):
            yield here


@pytest.mark.slow
def test_a_named_cluster_gives_the_same_labels_though_a_worker_is_killed_and_gets_no_key(
    session: str, plan: world.Plan, home: Path, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect_dask.client import PrefectDaskClient

    plain: Any = PrefectDaskClient.__mro__[1]
    before: Any = PrefectDaskClient.submit
    sent, submit_plain = list[bytes](), plain.submit

    def submitting(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        future = before(self, func, *args, **kwargs)
        if len(sent) == 1:
            os.kill(next(iter(self.run(os.getpid).values())), signal.SIGKILL)
        return future

    def dumped(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        sent.append(cloudpickle.dumps((function, args, kwargs)))
        return submit_plain(self, function, *args, **kwargs)

    monkeypatch.setattr(plain, "submit", dumped)
    monkeypatch.setattr(PrefectDaskClient, "submit", submitting)
    planted = {"AWS_SECRET_ACCESS_KEY": "planted-store", "WARD_DATABASE": "postgresql://u:planted-ward@h/d"}
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    labels = labels_of(home, session)
    servers = {
        PREFECT_SERVER_API_AUTH_STRING: "planted-server",
        PREFECT_SERVER_DATABASE_CONNECTION_URL: "postgresql+asyncpg://u:planted-database@h/d",
        PREFECT_SERVER_DOCKET_URL: "redis://u:planted-queue@h/0",
    }
    with temporary_settings(servers):
        again = world.start(named.plan(plan), home, start_from="teach")
    assert labels_of(home, again.session) == labels
    assert (again.session, again.asked_now, again.spent_now["epsilon"]) == (session, 0, 0.0)
    assert len(sent) >= 4
    keys = [file.read_bytes()[: world.KEY_BYTES] for file in (home / "vault/secrets").rglob("*") if file.is_file()]
    assert len(keys) >= 3
    for payload in sent:
        assert b"planted" not in payload
        assert not any(key in payload or key.hex().encode() in payload for key in keys)
        assert world.SIGNING_KEY.encode() not in payload
    assert any(str(home).encode() in payload for payload in sent)  # paths are


@pytest.mark.slow
def test_a_scheduler_that_is_lost_ends_the_run_in_a_sentence(
    session: str, plan: world.Plan, home: Path, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect_dask.client import PrefectDaskClient

    before: Any = PrefectDaskClient.submit

    def submitting(self: Any, *values: Any, **given: Any) -> Any:
        future = before(self, *values, **given)
        self.loop.add_callback(self.scheduler_comm.comm.abort)
        monkeypatch.setattr(PrefectDaskClient, "submit", before)
        return future

    monkeypatch.setattr(PrefectDaskClient, "submit", submitting)
    with pytest.raises(world.EnvironmentFailed, match=facts("connection", "scheduler", "lost")):
        world.start(named.plan(plan), home, start_from="teach")
    assert world.start(named.plan(plan), home, start_from="teach").session == session


@pytest.mark.slow
def test_a_worker_must_see_the_home_and_a_stranger_is_not_let_in(
    named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask
    from distributed import Client
    from distributed.security import Security

    teachers = world.TeachersPlan(count=2, runner="dask", address=named.address)
    assert world.Vault(tmp_path / "home/vault").digest("cluster")
    world.task_runner(teachers, tmp_path / "home")
    of_a_worker = teachers.model_copy(update={"address": named.made.workers[0].worker_address})
    with pytest.raises(world.EnvironmentFailed, match="accepts the connection"):
        world.task_runner(of_a_worker, tmp_path / "home")
    with Client(named.address, security=named.made.security, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        versions = world.library_versions()
        client.run(setattr, world.flows_cluster, "library_versions", lambda: versions | {"numpy": "1.0.0"})
        with pytest.raises(world.EnvironmentFailed, match=f"has numpy 1.0.0, and must have {versions['numpy']}"):
            world.task_runner(teachers, tmp_path / "home")
        client.run(setattr, world.flows_cluster, "library_versions", lambda: versions)
        client.run(lambda: setattr(world.Vault, "digest", lambda *_: "another"))
        with pytest.raises(world.EnvironmentFailed, match=facts("worker", "home folder", "mount")):
            world.task_runner(teachers, tmp_path / "home")
    other = Security.temporary()  # type: ignore[no-untyped-call]
    for name, file in named.files.items():
        file.write_text(getattr(other, f"tls_{name}"))
    monkeypatch.setattr(world.flows_cluster, "START_SECONDS", 3)
    with (
        dask.config.set(named.settings),
        pytest.raises(world.EnvironmentFailed, match="accepts the connection"),
    ):
        world.task_runner(teachers, tmp_path / "home")


def labels_of(home: Path, session: str) -> Any:
    """What the session released, as Arrow has it."""
    batches = world.Ledger.of(home).batches(session)
    return world.Released(home).labels([batch.outcome.released for batch in batches if batch.outcome]).to_pydict()
