"""Writing publications to MLflow: the student as a model folder (`save`), and runs for an auditor (`Tracking`).

The model folder
Assumes      the code handed in is all that the student needs besides NEEDED
Guarantees   the folder holds the very file that the certificate digests; it loads in another process, without this
             project, and takes raw public rows

Tracking
Assumes      all that is handed in is released or public: `Publication` has no other fields
Guarantees   a run begins at the door or later and spans no private work; one that is finished outlives a power loss;
             times given to MLflow are full seconds, each the first that is not before the moment; nothing is logged
             automatically; no tag describes this machine; the logged model holds the very file that the certificate
             digests
Not covered  who may open the tracking store; with a public schedule, the times of runs, and those that MLflow itself
             records for experiments and models, tell how long private work took. Both are checked by
             tests/artifacts/mlflow/test_tracking.py
"""

import importlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LifecycleStage,
    LoggedModelOutput,
    LoggedModelStatus,
    Metric,
    Param,
    Run,
)
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from concord.artifacts.certificate import Certificate
from concord.artifacts.home.atomic import sync_tree
from concord.artifacts.home.released import sha256
from concord.artifacts.mlflow.describe import (
    DIGESTS,
    MODEL_FILE,
    NEEDED,
    NOTE,
    SHOWN_AS,
    TEST_ROWS,
    Champion,
    Publication,
    RunContent,
    Tracked,
    about_domain,
    about_students,
    content_of,
    guarantee_text,
    listing,
    logged_digests,
    mlflow_signature,
    registered,
    run_name,
    tags,
    takes_alias,
)
from concord.artifacts.mlflow.read import MODEL, Records
from concord.artifacts.mlflow.store import in_one_sentence
from concord.artifacts.process import ProcessChange
from concord.artifacts.sections import ALIAS

if TYPE_CHECKING:
    from mlflow.models import Model


@ProcessChange
@contextmanager
def saving() -> Iterator[None]:
    """Keep MLflow from warning of its own type hints, once per process, and from listing the modules of all packages to
    compare with these versions what is installed, a tenth of a run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        importlib.import_module("mlflow.pyfunc")
    from mlflow.utils import environment

    with patch.object(environment, "warn_dependency_requirement_mismatches", create=True):
        yield


def save(folder: Path, described: "Model", publication: Publication) -> None:
    """Write the student of a publication to `folder`, with its released file in place of the one MLflow would write."""
    output: Literal["string", "double"] = "string" if hasattr(publication.student, "classes_") else "double"
    with saving():
        import mlflow.sklearn
        from mlflow.models import ModelSignature

        mlflow.sklearn.save_model(
            publication.student,
            str(folder),
            mlflow_model=described,
            signature=ModelSignature.from_dict(mlflow_signature(publication.columns, output)),
            input_example=publication.example,
            code_paths=[str(code) for code in publication.code],
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", *NEEDED)],
            serialization_format="skops",
            skops_trusted_types=list(publication.trusted_types),
        )
    (folder / MODEL_FILE).write_bytes(publication.student_file)


MOST_AT_ONCE = 1000
"""The most metrics that MLflow takes in one request."""
DIGEST_SHOWN = 36
"""The number of characters of a dataset's digest that MLflow shows."""


class Tracking(Records):
    """The tracking store, for writing."""

    def publish(self, publication: Publication, started: datetime) -> Tracked:
        """Record a publication as a run of its domain's experiment, and register its student.

        The door was passed at `started`.
        """
        certificate = publication.certificate
        with in_one_sentence():
            self._clear(certificate.session)
            experiment = self._experiment(certificate.domain.name)
            for name, shown in {NOTE: about_domain(certificate, experiment), **SHOWN_AS}.items():
                self._client.set_experiment_tag(experiment, name, shown)
            described = {**tags(certificate), NOTE: guarantee_text(certificate)}
            # After the session's runs, so that a clock set back does not reorder them.
            ends: list[int] = [run.info.end_time + 1 for run in self._runs(certificate.session, 1)]
            start = max([_milliseconds(started), *ends])
            with self._run(experiment, run_name(certificate), start, described) as run:
                self._log(run, publication)
                model_id = self._log_model(run, publication)
                model_uri = self._register(run, model_id, certificate)
                return Tracked(run.info.run_id, model_uri, self._is_champion(model_uri))

    def find(self, domain: str, session: str, digests: Mapping[str, str]) -> Tracked | None:
        """The session's latest run, if it is complete and was made from files with those digests, by name."""
        with in_one_sentence():
            self._experiment(domain)  # restores a deleted experiment with its runs
            for run in self._runs(session, 1):
                version = self._version(run.info.run_id)
                logged = logged_digests(run.data.tags)
                if (
                    {name: logged.get(name) for name in digests} == digests
                    and version is not None
                    and self._is_whole(run, version)
                ):
                    uri = f"models:/{version.name}/{version.version}"
                    return Tracked(run.info.run_id, uri, self._is_champion(uri))
        return None

    def keep_estimate(
        self, domain: str, session: str, fields: Mapping[str, Any], started: datetime, *, answer: str = ""
    ) -> str:
        """Record an estimate, or the answer of file `answer`, once in its domain's experiment. Returns the run's id."""
        named = {"answers": session, "file": answer} if answer else {"estimate": session}
        with in_one_sentence():
            experiment = self._experiment(domain)
            mine = " and ".join(f"tags.{tag} = '{value}'" for tag, value in named.items())
            for run in self._client.search_runs([experiment], mine):
                if run.info.status == "FINISHED":
                    return str(run.info.run_id)
                self._client.delete_run(run.info.run_id)  # of a command that was killed or failed
            tagged = {**named, "domain": domain, "mechanism": str(fields["name"])}
            with self._run(experiment, session, _milliseconds(started), tagged) as run:
                self._log_settings(run, _settings_and_numbers(fields))
        return str(run.info.run_id)

    def _experiment(self, domain: str) -> str:
        """The experiment of a domain, made if it is missing."""
        experiment = self._client.get_experiment_by_name(domain)
        if experiment is not None:
            if experiment.lifecycle_stage == LifecycleStage.DELETED:
                self._client.restore_experiment(experiment.experiment_id)
            return str(experiment.experiment_id)
        served = self._uri.startswith(("http://", "https://"))  # a server decides where files go
        location = None if served else (self._folder / domain).as_uri()
        return str(self._client.create_experiment(domain, artifact_location=location, tags=SHOWN_AS))

    @contextmanager
    def _run(self, experiment: str, name: str, start: int, tagged: Mapping[str, str]) -> Iterator[Run]:
        """A run begun at `start`: finished when the context ends, failed if it raises; it never ends before `start`."""
        run = self._client.create_run(experiment, start, dict(tagged), name)
        try:
            yield run
        except BaseException:
            with suppress(MlflowException, OSError):  # the store may be what failed
                self._client.set_terminated(run.info.run_id, "FAILED", end_time=max(start, _now()))
            raise
        self._sync(run)
        self._client.set_terminated(run.info.run_id, end_time=max(start, _now()))

    def _sync(self, run: Run) -> None:
        """Make the files of a run and of its models durable before it counts as finished: MLflow syncs its database
        alone. Those on a server are the server's."""
        for place in (run.info.artifact_uri, *(model.artifact_location for model in self._models(run))):
            if place.startswith("file:") and (folder := Path(url2pathname(urlsplit(place).path))).is_dir():
                sync_tree(folder, self._folder.parent)

    def _is_whole(self, run: Run, version: ModelVersion | None) -> bool:
        """Whether the files that a run names, and its model's, are there; verification checks their content."""
        logged = self._models(run)
        if version is None or not logged:
            return False
        files, model = self._names(run.info.artifact_uri), self._names(logged[0].artifact_location)
        return logged_digests(run.data.tags).keys() <= files and MODEL_FILE in model

    def _clear(self, session: str) -> None:
        """Delete the session's unfinished runs, and its latest run if that is not complete."""
        unfinished = f"tags.session = '{session}' and attributes.status != 'FINISHED'"
        for run in [*self._client.search_runs(self._experiments(), unfinished), *self._runs(session, 1)]:
            version = self._version(run.info.run_id)
            if run.info.status == "FINISHED" and self._is_whole(run, version):
                continue
            if version is not None:
                self._client.delete_model_version(version.name, version.version)
            for model in self._models(run):
                self._client.delete_logged_model(model.model_id)
            self._client.delete_run(run.info.run_id)

    def _log(self, run: Run, publication: Publication) -> None:
        run_id, start = run.info.run_id, run.info.start_time
        self._log_settings(run, content_of(publication.certificate))
        points = [Metric(name, value, start, at) for name, line in publication.series.items() for at, value in line]
        digests = json.dumps({file.name: sha256(file.read_bytes()) for file in publication.files}, sort_keys=True)
        for first in range(0, len(points), MOST_AT_ONCE):
            self._client.log_batch(run_id, metrics=points[first : first + MOST_AT_ONCE])
        self._client.set_tag(run_id, DIGESTS, digests)
        self._client.log_inputs(run_id, [_dataset(name, digest) for name, digest in publication.datasets.items()])
        for file in publication.files:
            self._client.log_artifact(run_id, str(file))

    def _log_settings(self, run: Run, content: RunContent) -> None:
        # At the run's time, which follows the door: a clock that was set back since would give an earlier one.
        metrics = [Metric(name, value, run.info.start_time, 0) for name, value in content.metrics.items()]
        self._client.log_batch(run.info.run_id, metrics, [Param(name, value) for name, value in content.params.items()])

    def _log_model(self, run: Run, publication: Publication) -> str:
        """Log the student as a model of the run. Returns the model's id."""
        from mlflow.models import Model

        filters = tags(publication.certificate)
        made = self._client.create_logged_model(run.info.experiment_id, MODEL, run.info.run_id, tags=filters)
        with TemporaryDirectory() as folder:
            described = Model(artifact_path=made.artifact_location, run_id=run.info.run_id, model_id=made.model_id)
            save(Path(folder, MODEL), described, publication)
            self._client.log_model_artifacts(made.model_id, str(Path(folder, MODEL)))
        self._client.finalize_logged_model(made.model_id, LoggedModelStatus.READY)
        self._client.log_outputs(run.info.run_id, [LoggedModelOutput(made.model_id, step=0)])
        return str(made.model_id)

    def _register(self, run: Run, model_id: str, certificate: Certificate) -> str:
        """Register the logged model among its domain's students, as champion if it qualifies. Returns its URI."""
        name = registered(certificate.domain.name)
        if not self._client.search_registered_models(f"name = '{name}'"):
            self._client.create_registered_model(name)
        place = self._client.get_logged_model(model_id).artifact_location
        digests = {name: sha256(data) for name, data in self._files(place).items()}
        made = self._client.create_model_version(
            name,
            place,
            run.info.run_id,
            tags={**tags(certificate), "digest.model": listing(digests)},
            description=guarantee_text(certificate),
            model_id=model_id,
        )
        now = self._champion(name)
        if takes_alias(certificate, None if now is None else Champion(now.tags, now.params, now.metrics)):
            self._client.set_registered_model_alias(name, ALIAS, made.version)
        led = ALIAS in self._client.get_registered_model(name).aliases
        self._client.update_registered_model(name, about_students(certificate, None if led else made.version))
        return f"models:/{name}/{made.version}"


def _dataset(name: str, digest: str) -> DatasetInput:
    """A dataset by its SHA-256, and what it was used for."""
    shown = Dataset(name, digest[:DIGEST_SHOWN], source_type="sha256", source=json.dumps({"sha256": digest}))
    context = "evaluation" if name == TEST_ROWS else "training"
    return DatasetInput(shown, [InputTag("mlflow.data.context", context), InputTag("sha256", digest)])


def _settings_and_numbers(fields: Mapping[str, Any]) -> RunContent:
    numbers = {name: float(value) for name, value in fields.items() if isinstance(value, int | float)}
    return RunContent({name: str(value) for name, value in fields.items() if name not in numbers}, numbers)


def _now() -> int:
    return _milliseconds(datetime.now(UTC))


def _milliseconds(moment: datetime) -> int:
    """The first full second at or after that moment, in MLflow's milliseconds. It is past once a run is written."""
    return math.ceil(moment.timestamp()) * 1000
