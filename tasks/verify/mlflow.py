"""Verify what MLflow shows of a session and an auditor relies on: files, model, guarantee and figures.

MLflow is a mirror of the ledger and of released files, and is rebuilt from them. A check is a function of a `Subject`:
it says what it found, or raises NotVerified naming what is not as it was certified.

Assumes      the certificate was compared with the ledger; MLflow gives back what it holds
Guarantees   found and named, if it was changed or is missing: any file of the run, its certificate among them; any file
             of the registered model, what it says of itself, and its tags; the run's tags of the guarantee, its note,
             parameters and figures
Not covered  what only illustrates these: runs nested in it, curves but for their last point, datasets, introductions of
             experiments and registered models, moments; which version an alias names, which is for people to say.
             Checked by tests/tasks/verify/test_verify_mlflow.py
"""

from collections.abc import Mapping

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import NotVerified
from concord.artifacts.mlflow.describe import SERIES, listing, tags, whole, words
from concord.artifacts.mlflow.read import MODEL_FILE, NOTE, Recorded
from concord.tasks.verify.checks import Subject, equal, parsed


def files(subject: Subject) -> str:
    """Certificate, report and figures: MLflow's copies, and the released files, are as they were logged."""
    run = _run(subject)
    logged = {name.removeprefix("digest."): tag for name, tag in run.tags.items() if name.startswith("digest.")}
    logged.pop("student", None)  # a tag like those of the guarantee: see `shown`
    for name, digest in logged.items():
        if run.files.get(name) != digest:
            raise NotVerified(f"MLflow's file {name} is not what was logged")
        released = subject.released.find(f"{subject.session.id}/{name}")
        if subject.latest and (released is None or released.digest != digest):
            raise NotVerified(f"the released file {subject.session.id}/{name} is not what was logged")
    for name in run.files.keys() - logged.keys():
        raise NotVerified(f"MLflow's file {name} was never logged")
    return f"{len(logged)} files are as logged"


def model(subject: Subject) -> str:
    """The student is registered as it was logged, under the certificate's words and tags, and is the one it digests."""
    run = _run(subject)
    certificate = _certificate(run)
    equal("the registered model's description", run.model_description, words(certificate))
    _all_equal("model tag", run.model_tags, tags(certificate))
    if run.model_files.get(MODEL_FILE) != certificate.student.file.digest:
        raise NotVerified(f"the registered model's {MODEL_FILE} is not the student that was certified")
    if listing(run.model_files) != run.model_tags.get("digest.model"):
        raise NotVerified("the registered model's folder is not what was registered")
    return f"{len(run.model_files)} files are as registered, and the student is the certified one"


def shown(subject: Subject) -> str:
    """The guarantee and the figures that MLflow shows are the certificate's, and its guarantee is the ledger's."""
    run = _run(subject)
    certificate = _certificate(run)
    stage, epsilon = whole(certificate), subject.session.epsilon
    equal("MLflow's guarantee", certificate.guarantee.epsilon, epsilon)
    _all_equal("tag", run.tags, {**tags(certificate), NOTE: stage.note})
    equal("MLflow's list of parameters", sorted(run.params), sorted(stage.params))
    _all_equal("parameter", run.params, stage.params)
    equal("MLflow's list of metrics", sorted(run.metrics.keys() - set(SERIES)), sorted(stage.metrics))
    _all_equal("metric", run.metrics, stage.metrics)
    for name in SERIES:
        if name.startswith("epsilon") and not 0 <= run.metrics.get(name, 0) <= epsilon:
            raise NotVerified(f"MLflow's series {name} passes the guarantee")
    return f"{len(stage.metrics)} metrics, the parameters and the tags are as certified"


def _all_equal(kind: str, found: Mapping[str, object], certified: Mapping[str, object]) -> None:
    for name, value in certified.items():
        equal(f"MLflow's {kind} {name}", found.get(name), value)


def _run(subject: Subject) -> Recorded:
    if subject.run is None:
        raise NotVerified(f"MLflow has no finished run of session {subject.session.id}")
    return subject.run


def _certificate(run: Recorded) -> Certificate:
    return parsed(run.certificate, "MLflow's certificate.json")
