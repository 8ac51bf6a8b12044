"""Track: what MLflow shows of a certified session, from released files and public rows alone.

Assumes      public rows are public
Guarantees   the record follows from the certificate, the released files and the public rows
Not covered  see artifacts.mlflow.write. Checked by tests/artifacts/mlflow/test_tracking.py
"""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.certificate import Certificate, Certified
from concord.artifacts.home.released import sha256_of_all
from concord.artifacts.home.vault import Staged
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.mlflow.describe import (
    ColumnType,
    Publication,
    datasets_of,
)
from concord.artifacts.parts import running_totals
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import WORDS, Encoding, PublicBatch, PublicRows
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Public
from concord.tasks.data.encode import read_frame
from concord.tasks.data.tables import open_public
from concord.tasks.publish.describe import refusals
from concord.tasks.publish.figures import spending
from concord.tasks.student.model import load, modules_needed

EXAMPLE_ROWS = 5
MetricPoints = list[tuple[int, float]]


def publication_of(plan: Plan, certified: Certified, public: PublicRows, stores: Public) -> Publication:
    """What MLflow is given about a session and its student, of a plan and its staged public rows.

    Raises NotVerified if a released file is not what was written.
    """
    from concord.tasks.student.trust import trusted_types

    staged, ledger, released = stores.staged, stores.ledger, stores.released
    certificate = Certificate.model_validate_json(released.read(certified.certificate))
    session = ledger.session(certificate.session)
    refused = refusals(session, certificate.leading.files, released)
    file = released.read(certificate.student.file)
    types = trusted_types(file, plan.student.estimator)
    by_release = [(number, accuracy.value) for number, accuracy in enumerate(certificate.student.history, start=1)]
    return Publication(
        certificate=certificate,
        files=[released.root / ref.path for ref in certified.files],
        series=_series(session, refused, ledger) | {"accuracy_by_release": by_release},
        datasets={
            **datasets_of(certificate),
            certificate.mechanism.kind.of_rows: sha256_of_all(staged.read(batch.ref) for batch in public.batches),
        },
        student=load(file, plan.student.estimator),
        student_file=file,
        trusted_types=types,
        example=_example(public.batches[0], public.encoding, staged),
        columns=column_types(plan.path("public"), public.encoding),
        code=[Path(str(part.__file__)) for part in modules_needed(types)],
    )


def _series(session: Session, refused: NDArray[np.bool_], ledger: Ledger) -> dict[str, MetricPoints]:
    """The metrics named by SERIES: ε charged over rows and over batches, and to the domain over its sessions."""
    committed = [batch.outcome.asked for batch in ledger.batches(session.id) if batch.outcome]
    by_row = spending(session, refused)
    by_batch = spending(session, refused, np.cumsum(committed, dtype=np.int64))
    domain = ledger.domain_of(session)
    totals = running_totals(ledger.counted(domain.name))
    by_session = [domain.filter.spent(total)[0] for total in totals]
    return {
        "epsilon_charged": list(zip(by_row.rows.tolist(), by_row.epsilon.tolist(), strict=True)),
        "epsilon_charged_by_batch": list(enumerate(by_batch.epsilon.tolist(), start=1)),
        "domain_epsilon_by_session": list(enumerate(by_session)),
    }


def column_types(path: str, encoding: Encoding) -> dict[str, ColumnType]:
    """The type of each feature column in MLflow's signature, by the public table at `path`.

    Integers, lists of them and columns of text files are "any": the same column may arrive as int64, float64 (with a
    null) or text, which MLflow does not convert.
    """
    table = open_public(path, form=encoding.format)
    text = table.files[0].is_text
    return {
        column.name: _column_type(table.type_of(column.name), column.kind, text=text) for column in encoding.columns
    }


def _column_type(dtype: pl.DataType, kind: str, *, text: bool) -> ColumnType:
    if dtype == pl.String and kind in WORDS:
        return "string"
    if text or dtype.is_integer() or kind in WORDS:
        return "any"
    if dtype.is_float():
        return "double"
    if kind == "boolean":
        return "boolean"
    return "datetime" if kind == "date" else "any"


def _example(batch: PublicBatch, encoding: Encoding, staged: Staged) -> object:
    """A few public rows as a pandas frame, with every feature column in order."""
    rows = read_frame(batch.ref, staged).head(EXAMPLE_ROWS)
    absent = [pl.lit(None).alias(name) for name in encoding.features if name not in rows.columns]
    frame = rows.with_columns(absent).select(encoding.features).to_pandas()
    frame.columns = frame.columns.astype(object)  # MLflow's comparison of names fails on pandas' own text type
    for column in encoding.columns:
        if column.kind == "list":
            frame[column.name] = [None if cell is None else cell.tolist() for cell in frame[column.name]]
    return frame
