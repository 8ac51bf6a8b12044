"""Evaluations of a student, as a certificate has them: what the first page and the warnings say of each stands in
tests/texts/verdicts.txt, which `make reference` writes."""

from typing import Any

from tests import world
from tests.support.published import SESSION
from tests.support.recorded import RECORDED


def share(value: float, low: float, high: float) -> world.Estimate:
    return world.Estimate(value=value, low=low, high=high)


SURE, HALF, NONE = share(0.9, 0.85, 0.94), share(0.5, 0.4, 0.6), share(0.0, 0.0, 0.03)
AT_20 = world.Threshold(name="ja", least=0.2, recall=SURE, precision=HALF)
UNITS: dict[str, Any] = {"share": 0.1, "clean": True, "earlier": 0, "level": 0.95, "rows": 900}
NUMBER: dict[str, Any] = {"table": "", "label": "cost", "rows": 300, "r2": HALF, "mean_rmse": 2.0}
NAMES = ("no", "it's rare", "other")
MATRIX = ((3730, 10, 4), (160, -8, 0), (3, 1, 90))
"""Noisy counts by which "it's rare" may never be found: about 152 of 3,990 units."""
FEW = ((3730, 10, 4), (9, 1, 0), (3, 1, 90))


def classes_tested(
    accuracy: world.Estimate,
    majority: float,
    recalls: dict[str, world.Estimate],
    thresholds: tuple[world.Threshold, ...] = (),
) -> world.PublicTest:
    """A test on public rows."""
    found = [
        world.ClassMeasured(name=name, rows=100 - at, predicted=1, recall=recall, precision=None)
        for at, (name, recall) in enumerate(recalls.items())
    ]
    figures: dict[str, Any] = {"accuracy": accuracy, "balanced_accuracy": accuracy, "majority": majority}
    more: dict[str, Any] = {"classes": tuple(found), "matrix": None, "calibration": None, "thresholds": thresholds}
    return world.PublicTest(table="", label="kind", rows=300, **figures, **more)


def units_tested(**changes: Any) -> world.TestRecord:
    """A test on private units."""
    recalls = {"no": SURE, "ja": changes.pop("recall", SURE)}
    found = tuple(world.ClassTested(name=name, recall=recall, precision=SURE) for name, recall in recalls.items())
    figures: dict[str, Any] = {"accuracy": SURE, "balanced_accuracy": SURE, "majority": 0.6, "classes": found}
    return world.TestRecord(**{**UNITS, **figures, **changes})


def counted(matrix: world.ConfusionMatrix, **given: Any) -> world.TestRecord:
    """A test on private units with those noisy counts, whose noise is of scale 5 each."""
    test = world.PrivateTest(epsilon=1.0, delta=1e-6, classes=len(matrix), secret="rows", scale=5.0, pair_scale=5.0)
    right = sum(row[at] for at, row in enumerate(matrix))
    counts = {"right": right, "wrong": sum(map(sum, matrix)) - right, "matrix": matrix}
    about = test.with_(share=UNITS["share"], clean=True)
    found = world.test_figures(about, {**counts, "classes": NAMES[: len(matrix)]}, 0)
    return world.TestRecord(**{**dict(found), **{"majority": 0.938}, **given})


def number_tested(rmse: float) -> world.NumberTested:
    """A test of a number on private units: each error within one of itself, and that of 23.4 for every unit 8 to 10."""
    own = share(rmse, rmse - 1, rmse + 1)
    return world.NumberTested(**UNITS, rmse=own, constant=23.4, constant_rmse=share(9.0, 8.0, 10.0))


EVALUATIONS: dict[str, tuple[Any, Any]] = {
    "both classes are found": (classes_tested(SURE, 0.6, {"no": SURE, "ja": HALF}), None),
    "a class is never found": (classes_tested(SURE, 0.6, {"no": SURE, "ja": NONE}), None),
    "a class is found at another threshold": (classes_tested(SURE, 0.6, {"no": SURE, "ja": NONE}, (AT_20,)), None),
    "nor the baseline beaten": (classes_tested(HALF, 0.6, {"no": SURE, "ja": NONE}), None),
    "the interval holds the baseline": (classes_tested(HALF, 0.45, {"no": SURE}), None),
    "private units": (None, units_tested()),
    "a class is never found among them": (None, units_tested(recall=NONE)),
    "learned from them": (None, units_tested(clean=False)),
    "a rare class of them": (None, counted(MATRIX)),
    "a rare class, with a public test": (classes_tested(SURE, 0.5, {"no": SURE}), counted(MATRIX)),
    "a class of few of them": (None, counted(FEW)),
    "many classes of them": (None, counted(MATRIX).model_copy(update={"matrix": None})),
    "a rare class, learned from": (None, counted(MATRIX, clean=False)),
    "a number": (world.NumberTest(**NUMBER, rmse=share(1.0, 0.9, 1.1)), None),
    "a number that is not predicted": (world.NumberTest(**NUMBER, rmse=share(2.0, 1.9, 2.1)), None),
    **{f"a number of private units, {rmse}": (None, number_tested(rmse)) for rmse in (6.9, 7.0, 10.9, 11.0)},
    "no evaluation": (None, None),
}
"""Public and private tests of a student."""
USEFUL = {
    *("both classes are found", "private units", "a rare class, with a public test", "a class of few of them"),
    *("a number", "a number of private units, 6.9"),
}
"""Those by which it beats the baseline and finds each class."""


def evaluated(certificate: world.Certificate, public: Any = None, private: Any = None) -> world.Certificate:
    """The certificate with those evaluations alone."""
    student = certificate.student.model_copy(update={"public_test": public})
    tests = []
    if private is not None:
        settings = {**RECORDED["private_test"], "session": SESSION, "student": student.file.digest}
        made = certificate.mechanism.model_copy(update={"settings": settings})
        tests = [certificate.leading.model_copy(update={"mechanism": made, "outcomes": (private,)})]
    return certificate.model_copy(update={"learned": student, "sessions": (*certificate.sessions[:1], *tests)})
