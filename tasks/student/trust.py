"""Trust: the types that a student's file may hold, by full name, checked before any object in it is created.

Loading a file imports the types that it names and calls some of them. A file that may name any function of NumPy can
run any code, since NumPy has one that executes text. So the list is closed, and nothing in a folder extends it: neither
the file nor the certificate, which came from the same source.

    skops' own list      scikit-learn's estimators, losses and links, universal functions, types of numbers
    OURS                 types that `published_student` writes
    INNER                types inside fitted estimators of scikit-learn, found by fitting all of them
    a foreign package    if one's own plan names an estimator of it, or CONCORD_TRUST names the package

Guarantees   nothing is imported to decide; of scikit-learn only classes are trusted, and one measure of quality
Not covered  a crafted tree may crash the process: skops checks types, but scikit-learn does not check a tree's indices
             Checked by tests/tasks/student/test_trust.py
"""

import sys
from collections.abc import Iterator

import skops.io
from sklearn.gaussian_process import kernels
from sklearn.metrics import _dist_metrics

from concord.artifacts.errors import NotVerified
from concord.artifacts.settings import Settings
from concord.tasks.data import concord_pictures, concord_student
from concord.tasks.student import concord_published, concord_tallied

OURS = frozenset(
    {
        "numpy.clip",
        "numpy.dtype",
        "numpy.ravel",
        "numpy.require",
        *(f"{concord_student.NAME}.{name}" for name in ("Cells", "Spelled", "Chosen", "ScoreClassifier", "signed_log")),
        *(f"{concord_tallied.NAME}.{name}" for name in ("Code", "Pairs", "Tallied", "TalliedNumber")),
        f"{concord_pictures.NAME}.Pictures",
        f"{concord_published.NAME}.Published",
    }
)


def _classes(module: object, base: type) -> Iterator[str]:
    """The names of a module's classes of that kind."""
    found = (thing for thing in vars(module).values() if isinstance(thing, type) and issubclass(thing, base))
    return (f"{item.__module__}.{item.__name__}" for item in found)


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
