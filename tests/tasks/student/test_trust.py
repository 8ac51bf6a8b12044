"""A student's file is read by a closed rule: a folder made to run code is refused, and every learner still loads."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.testing
import pytest
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from tests.support.published import SESSION, World, rewrite
from tests.tasks.verify.signed_folder import sign_again
from tests.world import (
    NotVerified,
    ScoreClassifier,
    dump,
    export,
    handed_on,
    load,
    sha256,
    student_of,
    trusted_types,
    verify_published,
)

X, Y = np.random.default_rng(3).random((60, 3)), np.array(["no", "yes"] * 30)
LEARNERS: list[Any] = [
    BernoulliNB(),
    CalibratedClassifierCV(),
    DummyClassifier(),
    GaussianNB(),
    GaussianProcessClassifier(),
    GradientBoostingClassifier(n_estimators=2),
    HistGradientBoostingClassifier(max_iter=2),
    KNeighborsClassifier(algorithm="ball_tree", metric="manhattan"),
    KNeighborsClassifier(p=3),
    LinearDiscriminantAnalysis(),
    LogisticRegression(),
    MLPClassifier(max_iter=2),
    MLPClassifier(solver="sgd", max_iter=2),
    RandomForestClassifier(n_estimators=2),
    SGDClassifier(loss="log_loss"),
    SVC(),
]


def calling(marker: Path) -> list[Any]:
    """Steps that write `marker` by the shell."""
    command = FunctionTransformer(np.full, kw_args={"fill_value": f"touch {marker}"})
    return [
        FunctionTransformer(np.count_nonzero),
        command,
        FunctionTransformer(subprocess.call, kw_args={"shell": True}),
    ]


def executing(marker: Path) -> list[Any]:
    """Steps that write `marker` by a function of NumPy's that runs text."""
    text = FunctionTransformer(np.full_like, kw_args={"fill_value": f"open({str(marker)!r}, 'w')", "dtype": "U300"})
    run = FunctionTransformer(numpy.testing.runstring, kw_args={"dict": {}})
    return [FunctionTransformer(np.count_nonzero), text, FunctionTransformer(np.array_str), run]


def poisoned(small: World, target: Path, steps: list[Any], estimator: str) -> Path:
    """A published folder, with a certificate and a signature to match, whose student takes these steps."""
    end = DummyClassifier(strategy="constant", constant="yes").fit(np.zeros((2, 1)), ["no", "yes"])
    student = Pipeline([*((str(at), step) for at, step in enumerate(steps)), ("end", end)])
    student[0].feature_names_in_, student[0].n_features_in_ = np.array(["size", "shade", "note"], dtype=object), 3
    shutil.copytree(small.released.root / SESSION, target)
    (target / "student.skops").write_bytes(file := dump(student))
    rewrite(target, lambda values: values["student"].update(estimator=estimator))
    rewrite(target, lambda values: values["student"]["file"].update(digest=sha256(file)))
    sign_again(target)
    return target


@pytest.mark.parametrize("steps", [calling, executing])
@pytest.mark.parametrize(
    "estimator", ["subprocess.Student", "numpy.Student", "sklearn.linear_model.LogisticRegression"]
)
def test_a_folder_runs_no_code(
    small: World, tmp_path: Path, steps: Callable[[Path], list[Any]], estimator: str
) -> None:
    """Trust followed the certificate, and all of NumPy was trusted: whoever predicted ran the file's code."""
    marker = tmp_path / "marker"
    folder = poisoned(small, tmp_path / SESSION, steps(marker), estimator)
    with pytest.raises(NotVerified, match="is not a type that students consist of"):
        student_of(handed_on(str(folder), tmp_path)).predict(small.rows)
    with pytest.raises(NotVerified):
        export(handed_on(str(folder), tmp_path), tmp_path / "to")
    checks = {check.name: check for check in verify_published(folder, small.plan.path("test"))}
    assert "is not a type that students consist of" in checks[f"{SESSION}: public test"].detail
    assert not marker.exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_every_learner_is_read_back(learner: Any) -> None:
    learner.fit(X, Y)
    assert (load(dump(learner)).predict(X) == learner.predict(X)).all()


def test_a_regressor_is_read_back() -> None:
    learned = ScoreClassifier(Ridge(), ["no", "yes"]).fit(X, np.eye(2)[(Y == "yes").astype(int)])
    assert (load(dump(learned)).predict(X) == learned.predict(X)).all()


class Foreign(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """An estimator of another package."""


def test_a_foreign_package_is_trusted_by_ones_own_word_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    file, package = dump(Foreign()), __name__.partition(".")[0]
    with pytest.raises(NotVerified, match=f"CONCORD_TRUST={package}$"):
        trusted_types(file)
    assert trusted_types(file, f"{__name__}.Foreign") == [f"{__name__}.Foreign"]
    monkeypatch.setenv("CONCORD_TRUST", package)
    assert isinstance(load(file), Foreign)


@pytest.mark.parametrize("function", [subprocess.call, numpy.testing.runstring])
def test_no_word_opens_a_package_that_holds_everything(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]
) -> None:
    package = function.__module__.partition(".")[0]
    monkeypatch.setenv("CONCORD_TRUST", package)
    with pytest.raises(NotVerified, match=r"students consist of$"):
        trusted_types(dump(FunctionTransformer(function)), f"{package}.Student")
