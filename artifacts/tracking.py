"""Tracking: what is published, as MLflow shows it to an auditor. The one place that knows MLflow.

Assumes      all that is handed in is released or public: `Publication` has no other fields
Guarantees   a run begins at the door and spans no private work; nothing is logged automatically; nothing of this
             machine is tagged; the logged model holds the very file that the certificate digests
Not covered  who may open the tracking store. Checked by tests/test_tracking.py

Only MLflow's explicit client is used: its active run and its current store are one a thread or a process.
"""

import importlib
import json
import logging
import os
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow.artifacts
import mlflow.sklearn
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelOutput,
    LoggedModelStatus,
    Metric,
    Param,
    Run,
    RunTag,
)
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.tracking import MlflowClient

from artifacts.audited import AuditReport
from artifacts.certificate import Certificate
from artifacts.errors import EnvironmentFailed
from artifacts.publication import (
    Publication,
    Stage,
    about_domain,
    about_students,
    figures,
    listing,
    params,
    series,
    signature,
    stages,
    tags,
    words,
)
from artifacts.released import sha256
from artifacts.relocation import follow

with warnings.catch_warnings():  # what MLflow says of its own type hints, once a process
    warnings.simplefilter("ignore", UserWarning)
    importlib.import_module("mlflow.pyfunc")

for chatter in ("mlflow", "alembic"):  # migrations are told to nobody: the console is the command line's
    logging.getLogger(chatter).setLevel(logging.WARNING)

ALIAS = "champion"
MODEL = "student"
MODEL_FILE = "model.skops"
NOT_OURS = {"registered_model_meta", "__pycache__"}
"""What MLflow and Python add to a model's folder when it is used."""
NEEDED = (
    "cryptography",
    "mlflow",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pydantic",
    "scikit-learn",
    "scipy",
    "skops",
)
"""What a copy of the model needs to run; the code of this project travels with it."""
DIGEST_SHOWN = 36
"""Characters of a digest that MLflow keeps of a dataset."""


@dataclass(frozen=True)
class Tracked:
    """Where a publication is in MLflow."""

    run_id: str
    model_uri: str


@dataclass(frozen=True)
class Recorded:
    """A run as MLflow has it now; digests of its files and of its model's are computed from what is there.

    history      every point of each metric: (step, value)
    stages       the runs nested in it, by their stage
    certificate  the bytes of its copy, empty where there is none
    """

    run_id: str
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]
    history: dict[str, list[tuple[int, float]]]
    stages: dict[str, Stage]
    certificate: bytes
    files: dict[str, str]
    model_files: dict[str, str]
    model_tags: dict[str, str]


NOTE = "mlflow.note.content"
"""The tag that MLflow shows as the description of a run or an experiment, in Markdown."""
PARENT = "mlflow.parentRunId"
SHOWN_AS = {"mlflow.experimentKind": "custom_model_development"}
"""An experiment of trained models: else MLflow's pages guess, from what they find, between these and prompts."""
NOTES = {
    "release": "The door: public rows were answered or refused, and the domain was charged. Nothing before it is told.",
    "study": "The student, learned from released labels and public rows alone.",
    "certify": "The certificate and the report, written from the ledger and released files.",
}
READ = {"release": ["public rows"], "study": ["public rows", "released labels"], "certify": []}
"""Datasets of a publication that each stage read."""
MOST_AT_ONCE = 1000
"""Metrics that MLflow takes in one request."""
AUDITS = "concord audits"
"""The experiment of audits: no domain can have its name, which holds a space."""


def _numbers_and_words(fields: dict[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    numbers = {name: float(value) for name, value in fields.items() if isinstance(value, int | float)}
    return numbers, {name: str(value) for name, value in fields.items() if name not in numbers}


class Tracking:
    """The tracking store of one home folder, or the server that MLFLOW_TRACKING_URI names."""

    def __init__(self, uri: str, artifact_root: Path) -> None:
        """`uri` of the store; files of experiments made here go below `artifact_root`. Raises EnvironmentFailed."""
        with _told_in_one_sentence():
            _require_database(uri)
            self._client = MlflowClient(uri, registry_uri=uri)
        self._uri = uri
        self._artifact_root = artifact_root

    @classmethod
    def of(cls, home: Path) -> "Tracking":
        """The tracking store of a home folder; what it says of its own files holds wherever the home lies now."""
        database, files = home.absolute() / "mlflow.db", home.absolute() / "mlartifacts"
        uri = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        if uri == f"sqlite:///{database}":
            with _told_in_one_sentence():
                follow(database, files)
        return cls(uri, files)

    def publish(self, publication: Publication) -> Tracked:
        """Record a publication as a run of its domain's experiment, and register its student as the champion.

        What each stage after the door published is a run nested in it.
        """
        certificate = publication.certificate
        with _told_in_one_sentence():
            experiment = self._experiment(certificate.domain.name)
            self._client.set_experiment_tag(experiment, NOTE, about_domain(certificate))
            described = {**tags(certificate), NOTE: words(certificate)}
            begun = self._after_its_runs(certificate.session, publication.started)
            with self._run(experiment, certificate.session, begun, described) as run:
                self._log(run.info.run_id, publication)
                model_id = self._log_model(run, publication)
                self._log_stages(run, model_id, publication)
                model_uri = self._register(run, model_id, certificate)
        return Tracked(run.info.run_id, model_uri)

    def keep_audit(self, report: AuditReport) -> str:
        """Record an audit as a run of the experiment AUDITS. Returns the run's id."""
        numbers, words_of = _numbers_and_words(report.model_dump())
        with _told_in_one_sentence():
            tagged = {"mechanism": report.mechanism, "holds": str(report.holds).lower()}
            with self._run(self._experiment(AUDITS), report.mechanism, _now(), tagged) as run:
                self._log_settings(run.info.run_id, Stage(words_of, numbers))
        return str(run.info.run_id)

    def keep_estimate(self, domain: str, session: str, fields: Mapping[str, Any], started: datetime) -> str:
        """Record an estimate as a run of its domain's experiment, once. Returns the run's id."""
        numbers, words_of = _numbers_and_words(dict(fields))
        with _told_in_one_sentence():
            experiment = self._experiment(domain)
            mine = f"tags.estimate = '{session}' and attributes.status = 'FINISHED'"
            if known := self._client.search_runs([experiment], mine):
                return str(known[0].info.run_id)
            tagged = {"estimate": session, "domain": domain, "mechanism": str(fields["name"])}
            with self._run(experiment, session, _milliseconds(started), tagged) as run:
                self._log_settings(run.info.run_id, Stage(words_of, numbers))
        return str(run.info.run_id)

    def runs(self, session: str) -> list[str]:
        """Ids of the finished runs of a session, the latest first."""
        with _told_in_one_sentence():
            everywhere = [experiment.experiment_id for experiment in self._client.search_experiments()]
            mine = f"tags.session = '{session}' and attributes.status = 'FINISHED'"
            found = self._client.search_runs(everywhere, mine, order_by=["attributes.end_time DESC"])
        return [run.info.run_id for run in found]

    def models(self, session: str) -> list[str]:
        """Where the registered models of a session are, the latest run's first."""
        with _told_in_one_sentence():
            made = [self._client.search_model_versions(f"run_id = '{run_id}'") for run_id in self.runs(session)]
        return [f"models:/{model.name}/{model.version}" for models in made for model in models]

    def recorded(self, run_id: str) -> Recorded | None:
        """What MLflow has of a run; None where it has no such run."""
        try:
            run = self._client.get_run(run_id)
        except MlflowException:
            return None
        with _told_in_one_sentence():
            files = self._files(run.info.artifact_uri)
            models = [one.model_id for one in run.outputs.model_outputs] if run.outputs else []
            made = self._client.search_model_versions(f"run_id = '{run_id}'")
            return Recorded(
                run_id=run_id,
                tags=run.data.tags,
                params=run.data.params,
                metrics=run.data.metrics,
                history={name: self._points(run_id, name) for name in run.data.metrics},
                stages=self._stages(run),
                certificate=files.get("certificate.json", b""),
                files={name: sha256(data) for name, data in files.items()},
                model_files=self._model_digests(models[0]) if models else {},
                model_tags=made[0].tags if made else {},
            )

    def _experiment(self, domain: str) -> str:
        found = self._client.get_experiment_by_name(domain)
        if found is not None:
            return str(found.experiment_id)
        served = self._uri.startswith(("http://", "https://"))  # a server says itself where files go
        location = None if served else (self._artifact_root / domain).as_uri()
        return str(self._client.create_experiment(domain, artifact_location=location, tags=SHOWN_AS))

    @contextmanager
    def _run(self, experiment: str, name: str, begun: int, tagged: Mapping[str, str]) -> Iterator[Run]:
        """A run that is finished when the context ends, or failed where that raises; never before it was begun."""
        run = self._client.create_run(experiment, begun, dict(tagged), name)
        try:
            yield run
        except BaseException:
            self._client.set_terminated(run.info.run_id, "FAILED", end_time=max(begun, _now()))
            raise
        self._client.set_terminated(run.info.run_id, end_time=max(begun, _now()))

    def _after_its_runs(self, session: str, moment: datetime) -> int:
        """That moment, or the first after the session's runs so far: the latest stays so when clocks go backwards."""
        ends: list[int] = [self._client.get_run(run_id).info.end_time for run_id in self.runs(session)[:1]]
        return max([_milliseconds(moment), *(end + 1 for end in ends)])

    def _log(self, run_id: str, publication: Publication) -> None:
        certificate, now = publication.certificate, _now()
        self._log_settings(run_id, Stage(params(certificate), figures(certificate)))
        points = [Metric(name, value, now, at) for name, line in publication.series.items() for at, value in line]
        digests = [RunTag(f"digest.{file.name}", sha256(file.read_bytes())) for file in publication.files]
        digests += [RunTag(f"series.{name}", series(line)) for name, line in publication.series.items()]
        for first in range(0, len(points), MOST_AT_ONCE):
            self._client.log_batch(run_id, metrics=points[first : first + MOST_AT_ONCE])
        self._client.log_batch(run_id, tags=digests)
        self._client.log_inputs(run_id, [_dataset(name, digest) for name, digest in publication.datasets.items()])
        for file in publication.files:
            self._client.log_artifact(run_id, str(file))

    def _log_settings(self, run_id: str, stage: Stage) -> None:
        now = _now()
        metrics = [Metric(name, value, now, 0) for name, value in stage.metrics.items()]
        self._client.log_batch(run_id, metrics, [Param(name, value) for name, value in stage.params.items()])

    def _log_stages(self, parent: Run, model_id: str, publication: Publication) -> None:
        """A nested run for each stage. Only moments after the door are told: the release is one, and takes no time."""
        door = parent.info.start_time
        studied = max(door, _milliseconds(publication.studied))
        lasted = {"release": (door, door), "study": (door, studied), "certify": (studied, max(studied, _now()))}
        for name, stage in stages(publication.certificate).items():
            begun, ended = lasted[name]
            tagged = {"stage": name, PARENT: parent.info.run_id, NOTE: NOTES[name]}
            run_id = self._client.create_run(parent.info.experiment_id, begun, tagged, name).info.run_id
            self._log_settings(run_id, stage)
            self._client.log_inputs(run_id, [_dataset(data, publication.datasets[data]) for data in READ[name]])
            if name == "study":
                self._client.log_outputs(run_id, [LoggedModelOutput(model_id, step=0)])
            self._client.set_terminated(run_id, end_time=ended)

    def _log_model(self, run: Run, publication: Publication) -> str:
        """The student as a logged model of the run; its id."""
        filters = tags(publication.certificate)
        made = self._client.create_logged_model(run.info.experiment_id, MODEL, run.info.run_id, tags=filters)
        with TemporaryDirectory() as folder:
            described = Model(artifact_path=made.artifact_location, run_id=run.info.run_id, model_id=made.model_id)
            _save(Path(folder, MODEL), described, publication)
            self._client.log_model_artifacts(made.model_id, str(Path(folder, MODEL)))
        self._client.finalize_logged_model(made.model_id, LoggedModelStatus.READY)
        self._client.log_outputs(run.info.run_id, [LoggedModelOutput(made.model_id, step=0)])
        return str(made.model_id)

    def _register(self, run: Run, model_id: str, certificate: Certificate) -> str:
        """The logged model as the new champion among its domain's students; its URI."""
        name = f"{certificate.domain.name}-student"
        if not self._client.search_registered_models(f"name = '{name}'"):
            self._client.create_registered_model(name)
        made = self._client.create_model_version(
            name,
            self._client.get_logged_model(model_id).artifact_location,
            run.info.run_id,
            tags={**tags(certificate), "digest.model": listing(self._model_digests(model_id))},
            description=words(certificate),
            model_id=model_id,
        )
        self._client.update_registered_model(name, about_students(certificate, f"models:/{name}@{ALIAS}"))
        self._client.set_registered_model_alias(name, ALIAS, made.version)
        return f"models:/{name}/{made.version}"

    def _stages(self, parent: Run) -> dict[str, Stage]:
        mine = f"tags.`{PARENT}` = '{parent.info.run_id}'"
        found = self._client.search_runs([parent.info.experiment_id], mine)
        return {run.data.tags["stage"]: Stage(run.data.params, run.data.metrics) for run in found}

    def _points(self, run_id: str, metric: str) -> list[tuple[int, float]]:
        return sorted((point.step, point.value) for point in self._client.get_metric_history(run_id, metric))

    def _model_digests(self, model_id: str) -> dict[str, str]:
        files = self._files(self._client.get_logged_model(model_id).artifact_location)
        return {name: sha256(data) for name, data in files.items()}

    def _files(self, location: str) -> dict[str, bytes]:
        """What the files at an artifact location hold now, by path."""
        with TemporaryDirectory() as folder:
            root = Path(
                mlflow.artifacts.download_artifacts(artifact_uri=location, dst_path=folder, tracking_uri=self._uri)
            )
            paths = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
            return {str(path): (root / path).read_bytes() for path in paths if not NOT_OURS & set(path.parts)}


def _require_database(uri: str) -> None:
    """Raise sqlite3.Error where a SQLite store is a file of another kind, which MLflow does not tell apart."""
    file = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and file.is_file():
        with closing(sqlite3.connect(file)) as database:
            database.execute("SELECT count(*) FROM sqlite_master")


def _dataset(name: str, digest: str) -> DatasetInput:
    source = json.dumps({"sha256": digest})
    dataset = Dataset(name, digest[:DIGEST_SHOWN], source_type="sha256", source=source)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training"), InputTag("sha256", digest)])


def _save(folder: Path, described: Model, publication: Publication) -> None:
    """A model folder in MLflow's format, holding the released file in the place of the one MLflow would write."""
    mlflow.sklearn.save_model(
        publication.student,
        str(folder),
        mlflow_model=described,
        signature=ModelSignature.from_dict(signature(publication.columns)),
        input_example=publication.example,
        code_paths=[str(code) for code in publication.code],
        pip_requirements=[f"{name}=={version(name)}" for name in NEEDED],
        serialization_format="skops",
        skops_trusted_types=list(publication.trusted_types),
    )
    (folder / MODEL_FILE).write_bytes(publication.student_file)


def _now() -> int:
    return _milliseconds(datetime.now(UTC))


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@contextmanager
def _told_in_one_sentence() -> Iterator[None]:
    try:
        yield
    except (MlflowException, OSError, sqlite3.Error) as failed:
        reason = str(failed).partition("\n")[0]
        raise EnvironmentFailed(f"the MLflow store cannot be used: {reason}") from None
