"""Texts of MLflow's pages about a domain and its students, from a certificate alone.

Nothing here imports MLflow. Checked by tests/artifacts/mlflow/test_tracking.py.
"""

from concord.artifacts.certificate import Certificate
from concord.artifacts.sections import ALIAS

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
    guarantee, own = certificate.guarantee, certificate.leading.guarantee
    wanted = f"tags.mechanism = '{certificate.mechanism.name}' and tags.epsilon = '{own.epsilon!r}'"
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
