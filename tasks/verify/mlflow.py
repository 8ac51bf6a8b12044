"""Verify what MLflow shows of a session: every file, number, word and address that its guarantee or lineage rests on.

A check is a function of a `Subject`: it says what it found, or raises NotVerified naming what is not as it was logged.

Assumes      the certificate was compared with the ledger; MLflow gives back what it holds
Guarantees   found and named, where it was changed or is missing: of the run and of those nested in it every parameter,
             metric with its history, dataset and made model, and every tag that was given to it; files; of the model,
             as it was logged and as it is registered, tags, descriptions, addresses and files; what experiment and
             registered model say of the domain, in the words of any of its certified runs
Not covered  moments, for which there is no other witness; MLflow's own columns of who, where and by what a run was
             started; which version an alias names, which is for people to say; tags that were added; the digest of
             public rows, if it is changed alike in each place; an older introduction of ours in the place of the
             latest. Checked by tests/tasks/verify/test_verify_mlflow.py
"""

from collections.abc import Mapping
from itertools import chain

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import NotVerified
from concord.artifacts.mlflow.describe import (
    PUBLIC_ROWS,
    RELEASED_LABELS,
    SERIES,
    Stage,
    about_domain,
    about_students,
    dataset,
    digest_of_labels,
    figures,
    listing,
    published_stages,
    registered,
    series,
    tags,
    whole,
    words,
)
from concord.artifacts.mlflow.read import MODEL, MODEL_FILE, NOTE, PARENT, RUN_NAME, Recorded, RunRecord
from concord.tasks.verify.checks import Subject, equal, parsed

RecordedPoints = list[tuple[int, float]]


def files(subject: Subject) -> str:
    """Certificate, report and figures: MLflow's copies, and the released files, are as they were logged."""
    run = _run(subject)
    logged = {name.removeprefix("digest."): tag for name, tag in run.tags.items() if name.startswith("digest.")}
    logged.pop("student", None)  # a tag like those of the guarantee: see `rows`
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
    details = {"name": registered(certificate.domain.name), "description": words(certificate)}
    logged = {"logged as": MODEL, "logged by": run.run_id, "logged files": run.model.get("files")}
    for name, value in {**details, **logged, "source": run.model.get("files")}.items():
        equal(f"the registered model's {name}", run.model.get(name), value)
    for kind, found in (("model tag", run.model_tags), ("logged model's tag", run.logged_tags)):
        _all_equal(kind, found, tags(certificate))
    if run.model_files.get(MODEL_FILE) != certificate.student.file.digest:
        raise NotVerified(f"the registered model's {MODEL_FILE} is not the student that was certified")
    if listing(run.model_files) != run.model_tags.get("digest.model"):
        raise NotVerified("the registered model's folder is not what was registered")
    return f"{len(run.model_files)} files are as registered, and the student is the certified one"


def rows(subject: Subject) -> str:
    """What MLflow's runs tell is what the certificate does, and its guarantee is the ledger's."""
    run = _run(subject)
    certificate = _certificate(run)
    equal("MLflow's guarantee", certificate.guarantee.epsilon, subject.session.epsilon)
    read = {
        PUBLIC_ROWS: run.datasets.get(PUBLIC_ROWS, {}).get("sha256", ""),
        RELEASED_LABELS: digest_of_labels(certificate),
    }
    lines = {name: run.history[name] for name in SERIES if run.history.get(name)}
    for name in SERIES:
        points = lines.get(name, [])
        equal(f"MLflow's series {name}", series(points), run.tags.get(f"series.{name}"))
        if name.startswith("epsilon") and not 0 <= max(epsilon for _, epsilon in points) <= subject.session.epsilon:
            raise NotVerified(f"MLflow's series {name} passes the guarantee")
    _tells(run, whole(certificate), tags(certificate) | {RUN_NAME: certificate.session}, read, lines)
    published = published_stages(certificate)
    equal("MLflow's list of stages", sorted(run.stages), sorted(published))
    for name, stage in published.items():
        given = {"stage": name, PARENT: run.run_id, RUN_NAME: name}
        _tells(run.stages[name], stage, given, read, {}, of=f" of stage {name}")
    equal("MLflow's model of stage study", run.stages["study"].models, run.models)
    for result, of in ((run, ""), *((result, f" of stage {name}") for name, result in run.stages.items())):
        equal(f"MLflow's experiment{of}", result.experiment, certificate.domain.name)
        equal(f"MLflow's status{of}", result.status, "FINISHED")
    _introduced(subject, run, certificate)
    return f"{len(figures(certificate))} metrics, the parameters and the tags are as certified"


def _tells(
    found: RunRecord,
    stage: Stage,
    given: Mapping[str, str],
    read: Mapping[str, str],
    lines: Mapping[str, RecordedPoints],
    of: str = "",
) -> None:
    """Raise NotVerified where a run tells other than a stage published; `lines` are metrics of many points."""
    last = {name: points[-1][1] for name, points in lines.items()}
    once = {name: [(0, value)] for name, value in stage.metrics.items()}
    _all_equal("tag", found.tags, {**given, NOTE: stage.note}, of)
    for kind, had, details in (
        ("parameter", found.params, stage.params),
        ("history of metric", found.history, once | dict(lines)),
        ("metric", found.metrics, stage.metrics | last),
        ("dataset", found.datasets, {name: dataset(read[name]) for name in stage.read}),
    ):
        _all_equal(kind, had, details, of)
        equal(f"MLflow's list of {kind}s{of}", sorted(had), sorted(details))


def _all_equal(kind: str, found: Mapping[str, object], result: Mapping[str, object], of: str = "") -> None:
    for name, value in result.items():
        equal(f"MLflow's {kind} {name}{of}", found.get(name), value)


def _introduced(subject: Subject, run: Recorded, certificate: Certificate) -> None:
    """Raise NotVerified where experiment or registered model speak of the domain as no certified run of it does."""
    domain, say = certificate.domain.name, {"experiment": about_domain, "registered model": about_students}
    for what, result in run.introductions.items():
        others = (parsed(text, "MLflow's certificate.json") for text in subject.records.certificates(domain))
        if all(result != say[what](item) for item in chain([certificate], others)):
            raise NotVerified(f"MLflow's description of the {what} is in the words of no certificate of {domain}")


def _run(subject: Subject) -> Recorded:
    if subject.run is None:
        raise NotVerified(f"MLflow has no finished run of session {subject.session.id}")
    return subject.run


def _certificate(run: Recorded) -> Certificate:
    return parsed(run.certificate, "MLflow's certificate.json")
