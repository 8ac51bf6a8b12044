"""A publication: all that MLflow is given about a session, and the words and numbers it is described by.

Nothing here knows MLflow. Every field is released or public: what is not a field cannot be tracked.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from artifacts.certificate import Certificate
from artifacts.released import sha256

LONGEST = 250
"""Characters of a parameter: what is longer, such as a table of refusals, is left to the certificate."""

ColumnType = Literal["double", "string", "boolean", "datetime", "any"]


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What may be tracked: released and public things, and when the door was reached.

    certificate  the session's
    files        certificate, report and figures, as they lie in the released folder
    charged      ε charged after that many rows asked
    datasets     SHA-256 of the public rows and of the released labels, by name
    student      the fitted pipeline; `student_file` its released bytes, `trusted_types` what skops must trust in them
    example      a pandas frame of public rows; `columns` are the types that raw ones have
    code         folders of the packages the student is made of
    started      when the door was reached
    """

    certificate: Certificate
    files: Sequence[Path]
    charged: Sequence[tuple[int, float]]
    datasets: Mapping[str, str]
    student: Any
    student_file: bytes
    trusted_types: Sequence[str]
    example: Any
    columns: Mapping[str, ColumnType]
    code: Sequence[Path]
    started: datetime


def figures(certificate: Certificate) -> dict[str, float]:
    """The numbers of a certificate, as metrics."""
    counts, domain, accuracy = certificate.counts, certificate.domain, certificate.student.accuracy
    return {
        "epsilon": certificate.guarantee.epsilon,
        "delta": certificate.guarantee.delta,
        "domain_epsilon_spent": domain.spent.epsilon,
        "domain_delta_spent": domain.spent.delta,
        **{f"rows_{name}": float(count) for name, count in counts.model_dump().items()},
        **({} if accuracy is None else {"accuracy": accuracy}),
    }


def listing(digests: Mapping[str, str]) -> str:
    """One digest of many files, by path."""
    return sha256(json.dumps(dict(digests), sort_keys=True).encode())


def series(points: Sequence[tuple[int, float]]) -> str:
    """One digest of the points of a metric, in order."""
    return sha256(json.dumps([list(point) for point in points]).encode())


def tags(certificate: Certificate) -> dict[str, str]:
    """What an auditor filters by."""
    guarantee = certificate.guarantee
    return {
        "domain": certificate.domain.name,
        "session": certificate.session,
        "mechanism": certificate.mechanism.name,
        "unit": guarantee.unit,
        "neighbours": guarantee.neighbours,
        "epsilon": repr(guarantee.epsilon),
        "delta": repr(guarantee.delta),
        "digest.student": certificate.student.file.digest,
    }


def params(certificate: Certificate) -> dict[str, str]:
    """Settings of the mechanism and of the student."""
    settings = {f"mechanism.{name}": value for name, value in certificate.mechanism.settings.items()}
    student = {f"student.{name}": value for name, value in certificate.student.params.items()}
    chosen = {"teachers": certificate.teachers, "data_version": certificate.data_version}
    chosen |= {"student": certificate.student.estimator, "refused": certificate.student.refused}
    told = {name: str(value) for name, value in {**settings, **student, **chosen}.items()}
    return {name: value for name, value in told.items() if len(value) <= LONGEST}


def words(certificate: Certificate) -> str:
    """The guarantee in one sentence, for a run's note and a model's description."""
    guarantee = certificate.guarantee
    return (
        f"Differentially private for {guarantee.unit} ({guarantee.neighbours}): "
        f"ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g}, by {certificate.mechanism.name} "
        f"in session {certificate.session}. The certificate and the report are among the run's artifacts."
    )


def signature(columns: Mapping[str, ColumnType]) -> dict[str, str]:
    """Raw public columns in, class names out, as MLflow writes a schema. A missing cell is no error."""
    inputs = [{"name": name, "required": False, "type": kind} for name, kind in columns.items()]
    return {"inputs": json.dumps(inputs), "outputs": json.dumps([{"type": "string"}])}
