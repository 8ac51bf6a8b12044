"""A model folder in MLflow's format that holds the very file that the certificate digests.

Assumes      the code handed in is all that the student needs besides NEEDED
Guarantees   the folder loads in another process, without this project, and takes raw public rows
Not covered  where it is kept: artifacts.tracking. Checked by tests/artifacts/test_tracking.py
"""

import importlib
import warnings
from importlib.metadata import version
from pathlib import Path

import mlflow.sklearn
from mlflow.models import Model, ModelSignature

from artifacts.publication import Publication, signature
from artifacts.recorded import MODEL_FILE

with warnings.catch_warnings():  # what MLflow says of its own type hints, once a process
    warnings.simplefilter("ignore", UserWarning)
    importlib.import_module("mlflow.pyfunc")

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


def save(folder: Path, described: Model, publication: Publication) -> None:
    """Write the student of a publication there; its released file takes the place of the one MLflow would write."""
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
