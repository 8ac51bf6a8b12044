"""The linear student: the very model that tallies were decoded to, as scikit-learn's own parts and two small files.

    raw cells ─ Cells ─ Code, a column each ─ Tallied

Assumes      codes are public, the model was decoded from what was released
Guarantees   a row has the codes that a private one with the same cells has
Not covered  moments with a time zone as words. Checked by tests/tasks/student/test_linear.py
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import Pipeline, make_pipeline

from concord.artifacts.schemas import Encoding, OneHot
from concord.tasks.data.codes import Codes, NumberField, WordField
from concord.tasks.data.encode import labelled_rows
from concord.tasks.student.concord_student import Cells
from concord.tasks.student.concord_tallied import POINTS, Code, Tallied
from concord.tasks.student.decode import Decoded


def linear_student(decoded: Decoded, encoding: Encoding, codes: Codes) -> Pipeline:
    """The student that a decoded model is, from raw public columns to class names."""
    known = {column.name: column.vocabulary for column in encoding.columns if isinstance(column, OneHot)}
    fields = [codes.fields[at] for at in codes.fine]
    parts = [(field.name, make_pipeline(Cells(field.kind), _code(field, known)), [field.name]) for field in fields]
    nothing = pd.DataFrame({name: pd.Series([None], dtype=object) for name in encoding.features})
    coded = ColumnTransformer(parts, sparse_threshold=0, verbose_feature_names_out=False).fit(nothing)
    model = Tallied(decoded.weights, decoded.intercept, decoded.prior, list(encoding.classes)).fit()
    return Pipeline([("encode", coded), ("student", model)])


def _code(field: NumberField | WordField, known: Mapping[str, Sequence[str]]) -> Code:
    if isinstance(field, NumberField):
        return Code(field.start, cuts=list(field.cuts))
    others = [word for word in known[field.name] if word not in field.words]
    return Code(field.start, words=list(field.words), others=others)


def tried(student: Pipeline, codes: Codes, path: str, encoding: Encoding) -> dict[str, float]:
    """Accuracy and balanced accuracy at both operating points, on the public labelled rows at `path`.

    Raises WrongInput where the table does not fit.
    """
    rows, truth = labelled_rows(path, encoding)
    X, names = codes.of(rows)[:, list(codes.fine)], np.array(encoding.classes)[truth]
    found: dict[str, float] = {}
    for point in POINTS:
        given: dict[str, Any] = student["student"].get_params() | {"point": point}
        predicted = Tallied(**given).fit().predict(X)
        prefix = "" if point == "default" else "prior_odds_"
        found[f"{prefix}accuracy"] = float(np.mean(predicted == names))
        found[f"{prefix}balanced_accuracy"] = float(balanced_accuracy_score(names, predicted))
    return found
