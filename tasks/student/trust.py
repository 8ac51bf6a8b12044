"""Trust: what a student's file may hold, types and values, checked as it is loaded.

Types, by full name, are checked before any object in the file is created. Loading a file imports the types that it
names and calls some of them. A file that may name any function of NumPy can run any code, since NumPy has one that
executes text. So the list is closed, and nothing in a folder extends it: neither the file nor the certificate, which
came from the same source.

    skops' own list      scikit-learn's estimators, losses and links, universal functions, types of numbers
    OURS                 types that `published_student` writes
    INNER                types inside fitted estimators of scikit-learn, found by fitting all of them
    a foreign package    if one's own plan names an estimator of it, or CONCORD_TRUST names the package

Values are checked in the loaded student: those by which texts are written and rows are read. A stranger's file may give
them any values: a text for the size of a list, say, which became a part of the program that `concord export` writes.

Guarantees   nothing is imported to decide on types; of scikit-learn only classes are trusted, and one measure of
             quality. The classes (if any), columns, words, numbers and sizes of a loaded student are plain values of
             their type, numbers finite and sizes bounded
Not covered  a crafted tree may crash the process: skops checks types, but scikit-learn does not check a tree's indices.
             Nor whether values make sense: a stranger's student may answer anything, or take long
             Checked by tests/tasks/student/test_trust.py
"""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.gaussian_process import kernels
from sklearn.impute import SimpleImputer
from sklearn.metrics import _dist_metrics
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from concord.artifacts.errors import NotVerified
from concord.artifacts.sections import LONGEST_CLASS
from concord.artifacts.settings import Settings
from concord.tasks.data import concord_pictures, concord_student
from concord.tasks.data.concord_student import DATE_PARTS, READ, Cells, Chosen, ScoreClassifier, Spelled
from concord.tasks.student import concord_published, concord_tallied
from concord.tasks.student.concord_tallied import POINTS, Code, Joined, Pairs, Tallied, TalliedNumber

OURS = frozenset(
    {
        "numpy.clip",
        "numpy.dtype",
        "numpy.ravel",
        "numpy.require",
        *(f"{concord_student.NAME}.{name}" for name in ("Cells", "Spelled", "Chosen", "ScoreClassifier", "signed_log")),
        *(f"{concord_tallied.NAME}.{name}" for name in ("Code", "Joined", "Pairs", "Tallied", "TalliedNumber")),
        f"{concord_pictures.NAME}.Pictures",
        f"{concord_published.NAME}.Published",
    }
)


def _classes(module: object, base: type) -> Iterator[str]:
    """The names of a module's classes of that kind."""
    kinds = (thing for thing in vars(module).values() if isinstance(thing, type) and issubclass(thing, base))
    return (f"{item.__module__}.{item.__name__}" for item in kinds)


INNER = frozenset(
    {
        "sklearn._loss.loss.HalfTweedieLoss",
        "sklearn._loss.loss.HalfTweedieLossIdentity",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
        "sklearn.metrics._classification.balanced_accuracy_score",
        "sklearn.metrics._scorer._CurveScorer",
        "sklearn.metrics._scorer._Scorer",
        "sklearn.multiclass._ConstantPredictor",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._ball_tree.BallTree32",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neighbors._kd_tree.KDTree32",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
        *_classes(kernels, kernels.Kernel),
        *_classes(_dist_metrics, _dist_metrics.DistanceMetric64),
        *_classes(_dist_metrics, _dist_metrics.DistanceMetric32),
    }
)
CLOSED = sys.stdlib_module_names | {"concord", "numpy", "scipy", "sklearn"}
"""Packages that cannot be trusted as a whole."""


def trusted_types(file: bytes, planned: str | None = None) -> list[str]:
    """The types in a student's file beyond skops' own list, sorted.

    planned   the dotted name of the estimator in one's own plan, whose package is trusted; never a certificate's
    Raises NotVerified if another one is not of OURS or INNER.
    """
    opened = {name.split(".")[0] for name in (planned, Settings.now().trust) if name} - CLOSED
    types: list[str] = sorted(skops.io.get_untrusted_types(data=file))
    for name in types:
        package = name.split(".")[0]
        if name not in OURS | INNER and package not in opened:
            trusting = f": if you trust its author with all of {package}, set CONCORD_TRUST={package}"
            rule = f"the student's file holds {name}, which is not a type that students consist of"
            raise NotVerified(rule + trusting * (package not in CLOSED))
    return types


# Values -------------------------------------------------------------------------------------------------------------

ValueRule = Callable[[Any], bool]

LARGEST_SIZE = 2**24
"""Most numbers in a list of a row, and most columns that words of free text are hashed to."""
LARGEST_START = 2**31
"""More codes than there are."""


def check_values(student: Any) -> None:
    """Raise NotVerified, naming part and value, unless the values that texts are written by are what they must be."""
    for part in parts_of(student):
        rules = WHOLE if part is student and isinstance(part, Pipeline) else RULES.get(type(part), {})
        for name, holds in rules.items():
            if not holds(getattr(part, name, None)):
                raise NotVerified(f"the student's {type(part).__name__} has a {name} that Concord never writes")


def parts_of(student: Any) -> Iterator[Any]:
    """The student, its steps, and those of the pipelines by which it reads columns."""
    yield student
    for step in student if isinstance(student, Pipeline) else ():
        yield step
        for _, columns, _ in step.transformers_ if isinstance(step, ColumnTransformer) else ():
            yield from columns if isinstance(columns, Pipeline) else ()


def _text(value: Any) -> bool:
    return type(value) is str


def _listed(value: Any) -> list[Any] | None:
    """The items of a list, a tuple or an array; None of anything else."""
    if isinstance(value, np.ndarray):
        return list(value.tolist()) if value.ndim else None
    return list(value) if type(value) in (list, tuple) else None


def _texts(value: Any) -> bool:
    items = _listed(value)
    return items is not None and all(map(_text, items))


def _names(value: Any) -> bool:
    items = _listed(value)
    return items is not None and _texts(items) and len({name[:LONGEST_CLASS] for name in items}) == len(items) > 0


def _numbers(value: Any) -> bool:
    """Finite numbers, or lists of them, however deep."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return bool(np.isfinite(value).all())
    items = _listed(value)
    return type(value) in (int, float) and math.isfinite(value) if items is None else all(map(_numbers, items))


def _between(least: int, most: int) -> ValueRule:
    return lambda value: type(value) is int and least <= value <= most


def _one_of(allowed: Iterable[str]) -> ValueRule:
    return lambda value: _text(value) and value in allowed


def _by_name(value: Any) -> bool:
    """Parts that read columns by their names, each beginning with clean cells."""
    parts = [(part, names) for _, part, names in value if isinstance(part, Pipeline)]
    return all(type(names) is list and _texts(names) and type(part[0]) in (Cells, Spelled) for part, names in parts)


def _categories(value: Any) -> bool:
    return len(value) == 1 and (_texts(value[0]) or _numbers(value[0]))


WHOLE: dict[str, ValueRule] = {"classes_": lambda value: value is None or _names(value), "feature_names_in_": _names}
OF_CELLS: dict[str, ValueRule] = {
    "kind": _one_of((*READ, "hashed", "uint8", "float32")),
    "size": _between(1, LARGEST_SIZE),
}
RULES: dict[type, dict[str, ValueRule]] = {
    ColumnTransformer: {"transformers_": _by_name},
    Cells: OF_CELLS,
    Spelled: {
        **OF_CELLS,
        "absent": lambda value: all(_text(part) or _numbers(part) for part in value),
        **dict.fromkeys(("true", "false"), _texts),
        "dates": lambda value: _text(value) and {*re.findall("%(.)", value)} <= DATE_PARTS.keys(),
    },
    SimpleImputer: {"statistics_": lambda value: _texts(value) or _numbers(value)},
    OneHotEncoder: {"categories_": _categories},
    OrdinalEncoder: {"categories_": _categories},
    HashingVectorizer: {"n_features": _between(1, LARGEST_SIZE)},
    Code: {
        "start": _between(0, LARGEST_START),
        "cuts": lambda value: value is None or _numbers(value),
        "words": _texts,
        "others": _texts,
    },
    Joined: {**dict.fromkeys(("columns", "levels", "centres"), _numbers), "start": _between(0, LARGEST_START)},
    Pairs: dict.fromkeys(("both", "added"), _numbers),
    Tallied: {
        **dict.fromkeys(("weights", "intercept", "prior"), _numbers),
        "classes": _names,
        "point": _one_of(POINTS),
    },
    TalliedNumber: dict.fromkeys(("weights", "intercept", "low", "high"), _numbers),
    Chosen: {"hypothesis": _text, "classes": _names},
    ScoreClassifier: {"classes": _names},
}
"""What the values of a whole student, and of each part, must be."""
