"""A publication: all that MLflow is given about a session, the words and numbers it is described by, and the texts of
MLflow's pages about a domain and its students.

Nothing here imports MLflow. Every field is released or public: what is not a field cannot be tracked.
Checked by tests/artifacts/mlflow/test_tracking.py and test_champion.py
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import in_one_line
from concord.artifacts.home.released import sha256, sha256_of_all
from concord.artifacts.measures import (
    AnyPublicTest,
    AnyTested,
    ClassMeasured,
    ClassTested,
    Estimate,
    NumberTest,
    NumberTested,
    PublicTest,
    TestRecord,
    figures_of,
)
from concord.artifacts.records import SessionRecord
from concord.artifacts.sections import ALIAS

MOST_CLASS_METRICS = 20
"""The most classes for which recall and precision are tracked per class."""

LONGEST_CLASS_NAME = 200
"""The most characters of a class in the name of a metric, which MLflow limits to 250."""

LONGEST_PARAMETER = 250
"""The most characters of a parameter: longer values, such as a table of refusals, are in the certificate only."""

DIGESTS = "digests"
"""The tag with the digests of a run's files, by name, as JSON: a tag for each of them would hide the description."""

TALLIED = "concord_tallied."
"""Begins the names of our own students of tallies, which have figures in place of settings."""

TEST_TABLE = "public_test"
"""The parameter with the digest of a public test's table."""
WARNED = "warned"
"""The tag of a student that a certificate warns of."""

SERIES = ("epsilon_charged", "epsilon_charged_by_batch", "domain_epsilon_by_session", "accuracy_by_release")
"""Metrics with many points: ε charged, by rows asked and by batches; ε charged to the domain, by sessions; of a stream,
accuracy on public test rows, by releases."""

LISTED_CLASSES = 12
"""The most classes for which a note has a table."""

RELEASED_LABELS, TEST_ROWS = "released labels", "public test rows"
"""Datasets of a publication, besides public or synthetic rows."""

NEEDED = ("numpy", "pandas", "scikit-learn", "scipy", "skops")
"""Packages that a copy of a student needs to run, besides the source files that come with it."""
MODEL_FILE = "model.skops"
"""The student in a logged model's folder."""
NOTE = "mlflow.note.content"
"""The tag that MLflow shows as the description of a run or an experiment, in Markdown."""

ColumnType = Literal["double", "string", "boolean", "datetime", "any"]


@dataclass(frozen=True, kw_only=True)
class Publication:
    """Everything that may be tracked: released and public data.

    certificate  the session's
    files        certificate, report and figures, as they lie in the released folder
    series       points (step, value) of each of SERIES
    datasets     SHA-256 of the public rows and of the released labels, by name
    student      the fitted pipeline; `student_file` its released bytes, `trusted_types` what skops must trust in them
    example      a pandas frame of public rows; `columns` are the types that raw ones have
    code         source files of our types that the student is made of
    """

    certificate: Certificate
    files: Sequence[Path]
    series: Mapping[str, Sequence[tuple[int, float]]]
    datasets: Mapping[str, str]
    student: Any
    student_file: bytes
    trusted_types: Sequence[str]
    example: Any
    columns: Mapping[str, ColumnType]
    code: Sequence[Path]


@dataclass(frozen=True)
class Tracked:
    """The place of a publication in MLflow, and whether its student is its domain's champion."""

    run_id: str
    model_uri: str
    champion: bool = False


@dataclass(frozen=True)
class RunContent:
    """What a run shows: settings as parameters, numbers as metrics."""

    params: dict[str, str]
    metrics: dict[str, float]


def content_of(certificate: Certificate) -> RunContent:
    """What the run of a certificate shows."""
    leading, domain, whole = certificate.leading, certificate.domain, certificate.guarantee
    student, relabelling = certificate.student, certificate.relabelling
    mechanism = {name: value for name, value in leading.mechanism.settings.items() if name != "relabel"}
    rows = {f"rows_{name}": float(count) for name, count in leading.counts.model_dump().items()}
    claim = {"epsilon": leading.guarantee.epsilon, "delta": leading.guarantee.delta}
    settings, measured = ({}, student.params) if student.estimator.startswith(TALLIED) else (student.params, {})
    together = {"epsilon_together": whole.epsilon, "delta_together": whole.delta}
    public, tested = student.public_test, _of_private(certificate.test)
    return RunContent(
        _settings(mechanism, "mechanism.")
        | _settings({} if relabelling is None else relabelling.model_dump(), "relabel.")
        | _settings({"teachers": leading.teachers, "data_version": certificate.data_version})
        | _settings({} if certificate.units is None else {"units": certificate.units})
        | _settings(settings, "student.")
        | _settings({"student": student.estimator})
        | ({} if student.refused is None else _settings({"refused": student.refused}))
        | ({} if public is None else {TEST_TABLE: public.table})
        | tested.params
        | _settings({"certificate": certificate.format}),
        claim
        | (rows if leading.teachers else {})
        | (together if [*claim.values()] != [*together.values()] else {})
        | measured
        | _metrics(public)
        | ({} if public is None else {"rows_tested": float(public.rows)})
        | tested.metrics
        | {
            "domain_epsilon_spent": domain.spent.epsilon,
            "domain_delta_spent": domain.spent.delta,
            "lifetime_used": domain.used,
        },
    )


def _metrics(test: AnyPublicTest | AnyTested | None, prefix: str = "") -> dict[str, float]:
    """The figures of a test as metrics, with the ends of their intervals; per class only if there are few classes."""
    if test is None:
        return {}
    figures: dict[tuple[str, str], Estimate | float] = {(name, ""): part for name, part in figures_of(test).items()}
    if isinstance(test, PublicTest | TestRecord):
        for of, item in _by_class(test.classes).items():
            figures |= {(name, f".{of}"): part for name, part in item if isinstance(part, Estimate)}
    return {
        f"{prefix}{name}{end}{of}": value
        for (name, of), figure in figures.items()
        for end, value in (
            (("", figure.value), ("_low", figure.low), ("_high", figure.high))
            if isinstance(figure, Estimate)
            else (("", figure),)
        )
        if math.isfinite(value)
    }


def _by_class(classes: Sequence[ClassMeasured | ClassTested]) -> dict[str, ClassMeasured | ClassTested]:
    """The classes by their form in the names of metrics; empty if there are many.

    Letters that MLflow refuses there become `_`. If two would have the same form, the number of each stands before it.
    """
    if len(classes) > MOST_CLASS_METRICS:
        return {}
    names = [re.sub(r"[^\w. -]", "_", item.name)[:LONGEST_CLASS_NAME] for item in classes]
    alike = len(set(map(str.casefold, names))) < len(names)
    return {f"{at}.{name}" if alike else name: item for at, (name, item) in enumerate(zip(names, classes, strict=True))}


def _of_private(record: SessionRecord | None) -> RunContent:
    """The content about a test on private units that were set aside, if there was one."""
    if record is None or (test := record.tested) is None:
        return RunContent({}, {})
    bounds = record.mechanism.facts.bounds
    settings = {"share": test.share, "clean": test.clean, "level": test.level}
    return RunContent(
        _settings(settings if bounds is None else {**settings, "bounds": [*bounds]}, "test."),
        {"test_rows": float(test.rows), "test_epsilon": record.guarantee.epsilon, **_metrics(test, "test_")},
    )


def _settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    details = {f"{prefix}{name}": str(value) for name, value in settings.items()}
    return {name: value for name, value in details.items() if len(value) <= LONGEST_PARAMETER}


def digest_of_labels(certificate: Certificate) -> str:
    """One digest of the released labels of a certificate."""
    return sha256_of_all(ref.digest.encode() for ref in certificate.leading.files)


def datasets_of(certificate: Certificate) -> dict[str, str]:
    """The digest of each dataset of a publication, by name; that of the rows, which no certificate has, is
    empty."""
    test = certificate.student.public_test
    tested = {} if test is None else {TEST_ROWS: test.table}
    return {certificate.mechanism.facts.of_rows: "", RELEASED_LABELS: digest_of_labels(certificate), **tested}


def listing(digests: Mapping[str, str]) -> str:
    """One digest over many files' digests, by path."""
    return sha256(json.dumps(dict(digests), sort_keys=True).encode())


def logged_digests(tags: Mapping[str, str]) -> dict[str, str]:
    """The digests of a run's files, by name, from its tags."""
    try:
        return {str(name): str(digest) for name, digest in json.loads(tags.get(DIGESTS, "{}")).items()}
    except (ValueError, AttributeError, RecursionError):  # not what was written: then no file was logged
        return {}


def run_name(certificate: Certificate) -> str:
    """The name of a session's run. The number of a stream's release comes first, since MLflow cuts long names."""
    season = certificate.leading.mechanism.facts.season
    number = f"release {certificate.counts.asked} of {season}, " if season else ""
    return f"{number}{certificate.session}"


def tags(certificate: Certificate) -> dict[str, str]:
    """The tags of a run, for an auditor to filter by."""
    guarantee, claim = certificate.guarantee, certificate.leading.guarantee
    return {
        "domain": certificate.domain.name,
        "session": certificate.session,
        "mechanism": certificate.mechanism.name,
        "unit": guarantee.unit,
        "neighbours": guarantee.neighbours,
        "epsilon": repr(claim.epsilon),
        "delta": repr(claim.delta),
        "digest.student": certificate.student.file.digest,
        **({WARNED: "true"} if certificate.warnings else {}),
    }


def guarantee_text(certificate: Certificate) -> str:
    """The guarantee in a few sentences of Markdown, for a run's note and a model's description.

    MLflow's tables show their first words as they stand: these hold no mark of Markdown.
    """
    measured = _measured_in_words(certificate.student.public_test)
    warned = "".join(f"Warning: {warning}.\n\n" for warning in certificate.warnings)
    return (
        f"{warned}{certificate.claim_in_words}.\n\n"
        f"{certificate.released_in_words} {measured}The certificate and the report are among the run's artifacts.\n\n"
        f"To verify it: `concord verify {certificate.session}`"
    )


def _measured_in_words(test: AnyPublicTest | None) -> str:
    """A public test as a sentence and a table of Markdown."""
    if test is None:
        return ""
    sentence = f"Evaluated: {test.in_words}. "
    if isinstance(test, NumberTest) or test.matrix is None or len(test.classes) > LISTED_CLASSES:
        return sentence
    names = [f"`{in_one_line(item.name).replace('|', '/').replace('`', '´')}`" for item in test.classes]
    head = f"| class | recall | precision | {' | '.join(f'predicted {name}' for name in names)} |"
    lines = [
        f"| {name} | {_share(item.recall)} | {_share(item.precision)} | {' | '.join(f'{count:,}' for count in row)} |"
        for name, item, row in zip(names, test.classes, test.matrix, strict=True)
    ]
    return "\n".join([f"{sentence}\n", head, "|---" * (3 + len(names)) + "|", *lines, "\n"])


def _share(share: Estimate | None) -> str:
    return "–" if share is None else share.in_words


@dataclass(frozen=True)
class Recorded:
    """A run as MLflow shows it now; digests are computed from the files that are there.

    certificate  the bytes of its copy of the certificate, empty if there is none
    model_files  digests of the registered model's files, as loading it would get them; empty if there is none
    """

    run_id: str
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]
    certificate: bytes
    files: dict[str, str]
    model_description: str
    model_tags: dict[str, str]
    model_files: dict[str, str]


@dataclass(frozen=True)
class Champion:
    """The student that has the alias now, by the tags, parameters and metrics of its run."""

    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, float]


def takes_alias(certificate: Certificate, now: Champion | None) -> bool:
    """Whether a student that is being recorded becomes its domain's champion.

    A student with a warning does not, nor does one that does not beat the champion by balanced accuracy, or by the RMSE
    of a number, on the same public test rows or on the private units set aside. A measured student beats one that was
    not measured; among students not measured, the latest is champion. A private test that is not clean does not count
    as a measurement. Of classes and of numbers, or of numbers within other bounds, it measures another thing: such a
    student does not beat the champion.
    """
    if certificate.warnings:
        return False
    if now is None or WARNED in now.tags or now.tags.get("digest.student") == certificate.student.file.digest:
        return True
    public, test, private = certificate.student.public_test, certificate.test, certificate.tested
    same = public is not None and now.params.get(TEST_TABLE) == public.table
    if same and isinstance(public, NumberTest) and "rmse" in now.metrics:
        return public.rmse.value < now.metrics["rmse"]
    if same and isinstance(public, PublicTest) and "balanced_accuracy" in now.metrics:
        return public.balanced_accuracy.value > now.metrics["balanced_accuracy"]
    measured = {"test_rmse", "test_balanced_accuracy"} & now.metrics.keys()
    tried = bool(measured) and now.params.get("test.clean") != str(False)
    if test is not None and private is not None and private.clean and tried:
        if isinstance(private, NumberTested):
            within = now.params.get("test.bounds") == str([*(test.mechanism.facts.bounds or ())])
            return within and private.rmse.value < now.metrics["test_rmse"]
        return private.balanced_accuracy.value > now.metrics.get("test_balanced_accuracy", math.inf)
    return TEST_TABLE not in now.params and not tried


def mlflow_signature(
    columns: Mapping[str, ColumnType], output: Literal["string", "double"] = "string"
) -> dict[str, str]:
    """Raw public columns in, class names or a number out, as MLflow writes a schema. A missing cell is no error."""
    inputs = [{"name": name, "required": False, "type": kind} for name, kind in columns.items()]
    return {"inputs": json.dumps(inputs), "outputs": json.dumps([{"type": output}])}


SHOWN_AS = {"mlflow.experimentKind": "custom_model_development"}
"""The kind of an experiment, without which MLflow's pages guess whether it has trained models or prompts."""


def runs_page(experiment: str) -> str:
    """The address, within MLflow's pages, of an experiment's runs in the view for trained models."""
    return f"#/experiments/{experiment}/runs?workflowType=machine_learning"


def budget_in_words(certificate: Certificate) -> str:
    """The lifetime privacy budget of the domain in a sentence of Markdown, as of that certificate."""
    domain = certificate.domain
    return (
        f"Lifetime privacy budget of `{domain.name}`: ε = {domain.spent.epsilon:.4g} of {domain.cap.epsilon:g} and "
        f"δ = {domain.spent.delta:.4g} of {domain.cap.delta:g} are charged, by {domain.sessions} "
        f"session{'s' * (domain.sessions != 1)}."
    )


def about_domain(certificate: Certificate, experiment: str) -> str:
    """The description of a domain on the page of its experiment with that id, in Markdown.

    MLflow's list of experiments shows it as it stands, so the link comes last.
    """
    guarantee, claim = certificate.guarantee, certificate.leading.guarantee
    wanted = f"tags.mechanism = '{certificate.mechanism.name}' and tags.epsilon = '{claim.epsilon!r}'"
    return (
        f"{budget_in_words(certificate)}\n\n"
        f"Privacy unit: {guarantee.unit}. Neighbours: {guarantee.neighbours}. Each run is a session as it was "
        f"certified.\n\n"
        f"To find runs by mechanism and ε: `{wanted}`\n\n"
        f"[All runs]({runs_page(experiment)})"
    )


def registered(domain: str) -> str:
    """The name under which a domain's students are registered."""
    return f"{domain}-student"


def about_students(certificate: Certificate, version: str | None) -> str:
    """The description of a domain's students in the model registry, in Markdown.

    version   the latest, to be used if there is no champion; None if there is one
    """
    which = f"@{ALIAS}" if version is None else f"/{version}"
    whose = "the champion, which is the best student without a warning"
    if version is not None:
        whose = f"version {version}, the latest (there is no champion; its description has its warnings)"
    return (
        f"Classifiers published from private data, each with the guarantee that its version states.\n\n"
        f"{budget_in_words(certificate)}\n\n"
        f"To use {whose}:\n\n{USE.format(f'models:/{registered(certificate.domain.name)}{which}')}"
    )


USE = """\
```python
import mlflow.pyfunc
import pandas

rows = pandas.read_parquet("rows.parquet")
print(mlflow.pyfunc.load_model("{0}").predict(rows))
```

MLflow takes no polars frames, so a polars one is given as `rows.to_pandas()`. The scikit-learn pipeline itself takes it
as it is, and gives probabilities too:

```python
import mlflow.sklearn
import polars

rows = polars.read_parquet("rows.parquet")
print(mlflow.sklearn.load_model("{0}").predict_proba(rows))
```
"""
"""Usage of a registered student: two complete programs."""
