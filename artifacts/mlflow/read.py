"""Reading MLflow's records of sessions, for verification and erasure.

MLflow stores absolute addresses of its files, so a home's own store is used only where it was made.

Guarantees   digests are computed from the bytes of the files, not taken from MLflow
Not covered  writing: artifacts.mlflow.write. Checked by tests/artifacts/mlflow/test_tracking.py and
             tests/tasks/verify/test_verify.py

Only MLflow's explicit client is used: the fluent API has one active run per thread and one store per process.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.parse import quote

import mlflow.artifacts
from mlflow.entities import LoggedModel, Run, RunData, ViewType
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.released import sha256
from concord.artifacts.mlflow.describe import Recorded, runs_page
from concord.artifacts.mlflow.store import check_place, client_of, in_one_sentence, make_if_missing
from concord.artifacts.sections import ALIAS
from concord.artifacts.settings import (
    STORE,
    Settings,
    check_answers,
    own_store,
    own_store_file,
    sqlite_address,
    sqlite_file,
)

COPIES: list[TemporaryDirectory[str]] = []
"""Copies of stores that cannot be written, for as long as this process lasts."""
NOBODYS = "0"
"""The id of the experiment Default, which MLflow makes and nobody uses."""
FINISHED = "attributes.status = 'FINISHED'"
NO_RUN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""How MLflow says that there is no run of an id, or can be none."""
KINDS = ("session", "estimate", "answers")
"""The tags that name a run's session, by what it is for."""
NOT_OURS = {"registered_model_meta", "__pycache__"}
"""What MLflow and Python add to a model's folder when it is used."""
MODEL = "student"
"""What a logged model is called."""


class Records:
    """The tracking store of one home folder, or the one that MLFLOW_TRACKING_URI names, for reading."""

    def __init__(self, uri: str, folder: Path) -> None:
        """`uri` of the store; if that is a database, its files go below `folder`. Raises EnvironmentFailed."""
        self._uri, self._folder = uri, folder
        with in_one_sentence():
            if (file := sqlite_file(uri)) and file.is_file():
                with closing(sqlite3.connect(file)) as database:  # MLflow does not notice another kind of file
                    database.execute("SELECT count(*) FROM sqlite_master")
            self._client = client_of(uri)

    @classmethod
    def of(cls, home: Path) -> Self:
        """The store of a home folder. Raises EnvironmentFailed, as if it was made in another place."""
        check_answers(STORE)
        folder, database = home.absolute() / "mlartifacts", own_store_file(home)
        if not own_store(home):
            return cls(Settings.now().store_of(home), folder)
        with in_one_sentence():
            make_if_missing(home)
            if not os.access(database, os.W_OK):  # MLflow opens a copy
                COPIES.append(TemporaryDirectory())
                copy = Path(COPIES[-1].name) / database.name
                address = f"file:{quote(str(database))}?mode=ro"
                with closing(sqlite3.connect(address, uri=True)) as store, closing(sqlite3.connect(copy)) as made:
                    store.backup(made)
                database = copy
        records = cls(sqlite_address(database), folder)
        with in_one_sentence():
            check_place(database, folder)
        return records

    def runs(self, session: str) -> list[str]:
        """Ids of the finished runs of a session, the latest first."""
        return [str(run.info.run_id) for run in self._runs(session)]

    def _runs(self, session: str, most: int = 1000) -> list[Run]:
        """A session's finished runs, the latest first, `most` at most."""
        with in_one_sentence():
            mine = f"tags.session = '{session}' and {FINISHED}"
            latest_first = ["attributes.end_time DESC"]
            return list(self._client.search_runs(self._experiments(), mine, max_results=most, order_by=latest_first))

    def sessions(self) -> set[str]:
        """Every session with a finished run: of labels, an estimate or answers."""
        with in_one_sentence():
            runs = self._search(self._experiments(), FINISHED)
            return {run.data.tags[tag] for run in runs for tag in KINDS if tag in run.data.tags}

    def strangers(self) -> list[str]:
        """Ids of the runs, deleted ones too, that no session has made."""
        with in_one_sentence():
            runs = self._search(self._experiments(ViewType.ALL), "", ViewType.ALL)
            return [run.info.run_id for run in runs if run.data.tags.keys().isdisjoint(KINDS)]

    def _experiments(self, view: int = ViewType.ACTIVE_ONLY) -> list[str]:
        """The ids of all experiments."""
        return [experiment.experiment_id for experiment in self._client.search_experiments(view)]

    def _search(self, experiments: list[str], wanted: str, view: int = ViewType.ACTIVE_ONLY) -> Iterator[Run]:
        """All runs of those experiments, however many."""
        page = None
        while experiments and page != "":
            runs = self._client.search_runs(experiments, wanted, view, page_token=page)
            yield from runs
            page = runs.token or ""

    def page(self, domain: str | None) -> str:
        """The address, within MLflow's pages, of the runs of a domain; default: the domain with the latest publication.

        Raises WrongInput if nothing was published of it.
        """
        with in_one_sentence():
            experiments = [
                experiment for experiment in self._client.search_experiments() if experiment.experiment_id != NOBODYS
            ]
        named = [experiment for experiment in experiments if experiment.name == domain] if domain else experiments
        if not named and domain:
            raise WrongInput(f"MLflow has no domain {domain!r}, only {', '.join(e.name for e in experiments)}")
        last = max(named, key=lambda experiment: experiment.last_update_time or 0, default=None)
        return "#/experiments" if last is None else runs_page(str(last.experiment_id))

    def models(self, session: str) -> list[str]:
        """The addresses of a session's registered models, the latest run's first."""
        with in_one_sentence():
            made = [self._client.search_model_versions(f"run_id = '{run_id}'") for run_id in self.runs(session)]
        return [f"models:/{model.name}/{model.version}" for models in made for model in models]

    def session_of(self, model: str) -> str:
        """The session of a registered model, models:/NAME@ALIAS or models:/NAME/VERSION. Raises WrongInput."""
        name, sign, which = [*re.split("([@/])", model.removeprefix("models:/"), maxsplit=1), "", ""][:3]
        read = self._client.get_model_version_by_alias if sign == "@" else self._client.get_model_version
        try:
            return str(read(name, which).tags["session"])
        except (MlflowException, KeyError):
            raise WrongInput(f"{model} must name a registered model of ours, as models:/NAME@ALIAS does") from None

    def recorded(self, run_id: str) -> Recorded | None:
        """MLflow's record of a run; None if there is no such run."""
        with in_one_sentence():
            try:
                run = self._client.get_run(run_id)
            except MlflowException as failed:
                if failed.error_code in NO_RUN:
                    return None
                raise
            files = self._files(run.info.artifact_uri)
            version = self._version(run_id)
            place = version and self._client.get_model_version_download_uri(version.name, version.version)
            return Recorded(
                run_id=run_id,
                tags=run.data.tags,
                params=run.data.params,
                metrics=run.data.metrics,
                certificate=files.get("certificate.json", b""),
                files={name: sha256(data) for name, data in files.items()},
                model_description=str(version.description) if version else "",
                model_tags=version.tags if version else {},
                model_files={name: sha256(data) for name, data in self._files(place).items()} if place else {},
            )

    def _version(self, run_id: str) -> ModelVersion | None:
        """The student that a run registered, or None."""
        return next(iter(self._client.search_model_versions(f"run_id = '{run_id}'")), None)

    def _champion(self, name: str) -> RunData | None:
        """The run of the champion among students registered as `name`; None without one, or if its run is gone."""
        version = self._client.get_registered_model(name).aliases.get(ALIAS)
        if version is None:
            return None
        try:
            return self._client.get_run(str(self._client.get_model_version(name, version).run_id)).data
        except MlflowException:
            return None

    def _is_champion(self, model_uri: str) -> bool:
        """Whether that version of a domain's students has the alias."""
        name, _, version = model_uri.removeprefix("models:/").rpartition("/")
        return str(self._client.get_registered_model(name).aliases.get(ALIAS)) == version

    def _models(self, run: Run) -> list[LoggedModel]:
        """The models that a run logged."""
        logged = f"source_run_id = '{run.info.run_id}'"
        return list(self._client.search_logged_models([run.info.experiment_id], logged))

    def _names(self, location: str) -> set[str]:
        """The files at an artifact location."""
        files = mlflow.artifacts.list_artifacts(artifact_uri=location, tracking_uri=self._uri)
        return {Path(file.path).name for file in files}

    def _files(self, location: str) -> dict[str, bytes]:
        """The contents of the files at an artifact location, by path."""
        with TemporaryDirectory() as folder:
            root = Path(
                mlflow.artifacts.download_artifacts(artifact_uri=location, dst_path=folder, tracking_uri=self._uri)
            )
            paths = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
            return {str(path): (root / path).read_bytes() for path in paths if not NOT_OURS & set(path.parts)}
