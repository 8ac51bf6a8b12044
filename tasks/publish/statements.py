"""A published certificate in other formats: for a registry, an inventory, a model card.

    registry   a record of OpenDP's registry of deployments, YAML
    cyclonedx  an inventory with a model card, CycloneDX 1.6, JSON
    markdown   the model card of `concord export`

Facts that only the publisher knows (who, what for, where, why) come from `[about]` of the plan. If one is absent, the
statement says so, and `lacking` names its key. Nothing is invented, and no clock is read.

Assumes      the published student was checked (tasks.verify.checked_student)
Guarantees   nothing but what was published is read, and nothing is spent. Whatever words stand in it, they end no line
             and no cell, make no link and no tag, and do nothing to a terminal
Not covered  whether the certificate is right: tasks.verify.published. Checked by tests/tasks/publish/test_statements.py
             and tests/flows/cli/test_strangers_words.py
"""

from collections.abc import Callable
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from concord import __version__
from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import WrongInput, in_json
from concord.artifacts.measures import AnyPublicTest, Estimate, NumberTest
from concord.artifacts.published import Published
from concord.tasks.publish.disclosures import ABOUT, NOT_STATED, description, lacking, model_card, registry
from concord.tasks.student.model import load

DATED = ("registry",)
"""Statements that require a date."""
GONE = {
    "nist": "`concord dossier` answers what reviewers ask",
    "dataset": "MLflow's run of the session lists the released labels among its datasets",
    "openlineage": "MLflow's run of the session says what was read and what was made of it",
}
"""Statements that earlier versions made, and what takes their place."""


def statement(published: Published, kind: str) -> tuple[str, list[str]]:
    """The certificate of a published student as a text of that kind, and the keys it lacks.

    Raises WrongInput if the kind is unknown, or requires a date and there is none; NotVerified as `load` does.
    """
    if kind in GONE:
        raise WrongInput(f"--as {kind} is no longer written: {GONE[kind]}")
    if kind not in ABOUT:
        raise WrongInput(f"--as must be one of {', '.join(ABOUT)}, got {kind!r}")
    certificate = published.certificate
    if kind in DATED and not certificate.about.date:
        raise WrongInput(
            f"--as {kind} needs the date of publication, and no clock is read: add [about] date = "
            '"YYYY-MM-DD" to the plan and run it again, which spends nothing'
        )
    if kind in STATEMENTS:
        return STATEMENTS[kind](certificate), lacking(certificate, kind)
    return "\n".join(model_card(certificate, load(published.student))), lacking(certificate, kind)


def cyclonedx(certificate: Certificate) -> str:
    """The student as a component with a model card, and the released labels as data."""
    promise, about, record = certificate.guarantee, certificate.about, certificate.student
    properties = {
        "concord:session": certificate.session,
        "concord:epsilon": repr(promise.epsilon),
        "concord:delta": repr(promise.delta),
        "concord:unit": promise.unit,
        "concord:neighbours": promise.neighbours,
        "concord:mechanism": certificate.mechanism.name,
    }
    labels = [
        {
            "type": "data",
            "bom-ref": file.digest,
            "name": file.path,
            "hashes": [{"alg": "SHA-256", "content": file.digest}],
            "data": [
                {"type": "dataset", "name": file.path, "description": "What passed the door: labels, sums or a choice."}
            ],
        }
        for file in certificate.leading.files
    ]
    measured = _metrics(record.public_test)
    model = {
        "type": "machine-learning-model",
        "bom-ref": record.file.digest,
        "name": f"{certificate.domain.name}-student",
        "version": certificate.session,
        "description": description(certificate),
        "hashes": [{"alg": "SHA-256", "content": record.file.digest}],
        "modelCard": {
            "modelParameters": {
                "approach": {"type": "semi-supervised"},
                "task": "classification" if certificate.what == "classifier" else "regression",
                "modelArchitecture": record.estimator,
                "datasets": [{"ref": file.digest} for file in certificate.leading.files],
                "inputs": [{"format": name} for name in certificate.features],
                "outputs": [{"format": "class" if certificate.what == "classifier" else "number"}],
            },
            **({"quantitativeAnalysis": {"performanceMetrics": measured}} if measured else {}),
            "considerations": {
                "useCases": [about.use or NOT_STATED],
                "technicalLimitations": [*certificate.warnings, *certificate.caveats],
            },
        },
        "properties": [{"name": name, "value": value} for name, value in properties.items()],
    }
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid5(NAMESPACE_URL, f"urn:concord:{certificate.session}:{record.file.digest}").urn,
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "concord", "version": __version__}]},
            "component": {"type": "application", "name": certificate.session},
            **({"manufacturer": {"name": about.issuer}} if about.issuer else {}),
        },
        "components": [model, *labels],
    }
    return in_json(bom, indent=2) + "\n"


def _metrics(test: AnyPublicTest | None) -> list[dict[str, Any]]:
    """The performance metrics of a model card, with intervals where they are stated."""
    if isinstance(test, NumberTest):
        figures: dict[str, Estimate | None] = {"RMSE": test.rmse, "R²": test.r2}
    else:
        named = {"accuracy": "accuracy", "balanced accuracy": "balanced_accuracy", "AUC": "auc"}
        figures = {} if test is None else {name: getattr(test, field) for name, field in named.items()}
    measured: list[dict[str, Any]] = []
    for name, figure in figures.items():
        if figure is not None:
            interval = {"lowerBound": f"{figure.low:.6g}", "upperBound": f"{figure.high:.6g}"}
            measured.append({"type": name, "value": f"{figure.value:.6g}", "confidenceInterval": interval})
    return measured


STATEMENTS: dict[str, Callable[[Certificate], str]] = {
    "registry": registry,
    "cyclonedx": cyclonedx,
}
