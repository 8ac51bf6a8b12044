"""A student's file is read by a closed rule: types by full name before anything is made, then each value that texts are
written by. A folder that is made to run code is refused, and every learner still loads.
"""

import ast
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
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from tests import world
from tests.support.console import concord
from tests.support.encodings import THREE
from tests.support.published import SESSION, World, rewrite
from tests.support.sentences import says
from tests.support.students import republish

X, Y = np.random.default_rng(3).random((60, 3)), np.array(["no", "yes"] * 30)
LEARNERS: list[Any] = [
    BernoulliNB(),
    CalibratedClassifierCV(),
    GaussianNB(),
    GaussianProcessClassifier(),
    GradientBoostingClassifier(n_estimators=2),
    KNeighborsClassifier(algorithm="ball_tree", metric="manhattan"),
    KNeighborsClassifier(p=3),
    LinearDiscriminantAnalysis(),
    MLPClassifier(max_iter=2),
    MLPClassifier(solver="sgd", max_iter=2),
    SGDClassifier(loss="log_loss"),
    SVC(),
]
"""Those that have types of their own inside; others: tests/support/students.py."""

# What a file may hold -------------------------------------------------------------------------------------------------


def calling(marker: Path) -> list[Any]:
    """Steps that write `marker` by the shell."""
    command = FunctionTransformer(np.full, kw_args={"fill_value": f"touch {marker}"})
    call = FunctionTransformer(subprocess.call, kw_args={"shell": True})
    return [FunctionTransformer(np.count_nonzero), command, call]


def executing(marker: Path) -> list[Any]:
    """Steps that write `marker` by a function of NumPy's that runs text."""
    text = FunctionTransformer(np.full_like, kw_args={"fill_value": f"open({str(marker)!r}, 'w')", "dtype": "U300"})
    run = FunctionTransformer(numpy.testing.runstring, kw_args={"dict": {}})
    return [FunctionTransformer(np.count_nonzero), text, FunctionTransformer(np.array_str), run]


@pytest.mark.parametrize("steps", [calling, executing])
@pytest.mark.parametrize(
    "estimator", ["subprocess.Student", "numpy.Student", "sklearn.linear_model.LogisticRegression"]
)
def test_a_folder_runs_no_code(
    small: World, folder: Path, tmp_path: Path, steps: Callable[[Path], list[Any]], estimator: str
) -> None:
    """Trust followed the certificate, and all of NumPy was trusted: whoever predicted ran the file's code."""
    marker = tmp_path / "marker"
    end = DummyClassifier(strategy="constant", constant="yes").fit(np.zeros((2, 1)), ["no", "yes"])
    student = Pipeline([*((str(at), step) for at, step in enumerate(steps(marker))), ("end", end)])
    student[0].feature_names_in_, student[0].n_features_in_ = np.array(["size", "shade", "note"], dtype=object), 3
    rewrite(folder, lambda values: values["student"].update(estimator=estimator))
    republish(folder, student)
    with pytest.raises(world.NotVerified, match="is not a type that students consist of"):
        world.student_of(world.handed_on(str(folder), tmp_path)).predict(small.rows)
    with pytest.raises(world.NotVerified):
        world.export(world.handed_on(str(folder), tmp_path), tmp_path / "to")
    checks = {check.name: check for check in world.verify_published(folder, small.plan.path("test"))}
    assert "is not a type that students consist of" in checks[f"{SESSION}: public test"].detail
    assert not marker.exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_every_learner_is_read_back(learner: Any) -> None:
    learner.fit(X, Y)
    assert (world.load(world.dump(learner)).predict(X) == learner.predict(X)).all()


class Foreign(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """An estimator of another package."""


def test_a_foreign_package_is_trusted_by_ones_own_word_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    file, package = world.dump(Foreign()), __name__.partition(".")[0]
    with pytest.raises(world.NotVerified, match=f"CONCORD_TRUST={package}$"):
        world.trusted_types(file)
    assert world.trusted_types(file, f"{__name__}.Foreign") == [f"{__name__}.Foreign"]
    monkeypatch.setenv("CONCORD_TRUST", package)
    assert isinstance(world.load(file), Foreign)


@pytest.mark.parametrize("function", [subprocess.call, numpy.testing.runstring])
def test_no_word_opens_a_package_that_holds_everything(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]
) -> None:
    package = function.__module__.partition(".")[0]
    monkeypatch.setenv("CONCORD_TRUST", package)
    with pytest.raises(world.NotVerified, match=r"students consist of$"):
        world.trusted_types(world.dump(FunctionTransformer(function)), f"{package}.Student")


# Its values -----------------------------------------------------------------------------------------------------------

CODE = "1}}]); open({marker!r}, 'w') #"
"""What a size, a word or a name may be, to become a part of a program of `[0] * SIZE`."""


def student() -> Any:
    rows = np.random.default_rng(2).random((20, THREE.width))
    return world.published_student(THREE, LogisticRegression().fit(rows, np.array(["no", "yes"] * 10)))


def part(made: Any, column: str) -> Any:
    return next(part for _, part, names in made["encode"].transformers_ if column in names)


def hidden(code: str) -> np.ndarray[Any, Any]:
    """A list whose first word is an object that holds the code."""
    return np.array([LogisticRegression(solver=code), "yes"], dtype=object)


CHANGES: dict[str, Callable[[Any, str], object]] = {
    "size": lambda made, code: setattr(part(made, "image")[0], "size", code),
    "kind": lambda made, code: setattr(part(made, "size")[0], "kind", code),
    "fill": lambda made, code: setattr(part(made, "size")["fill"], "statistics_", np.array([code], dtype=object)),
    "words": lambda made, code: setattr(part(made, "shade")[1], "categories_", [hidden(code)]),
    "codes": lambda made, code: part(made, "shade").steps.__setitem__(
        1, ("code", world.Code(0, words=[*hidden(code)]))
    ),
    "cuts": lambda made, code: part(made, "size").steps.__setitem__(1, ("code", world.Code(0, cuts=[code]))),  # type: ignore[list-item]
    "classes": lambda made, code: setattr(made["student"], "classes_", hidden(code)),
    "names": lambda made, code: setattr(
        made["encode"],
        "transformers_",
        [(name, step, [hidden(code)[0]]) for name, step, _ in made["encode"].transformers_],
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_strangers_value_becomes_no_part_of_a_program(folder: Path, tmp_path: Path, what: str) -> None:
    """The size of a list, a text, was written into example.py, which the card tells its reader to run."""
    marker, made = tmp_path / "marker", student()
    CHANGES[what](made, CODE.format(marker=str(marker)))
    status, _, answer = concord("export", str(republish(folder, made)), "--to", str(tmp_path / "out"))
    named = says(answer, "the student's", "Concord")
    assert (status, (tmp_path / "out").exists(), named) == (4, False, True), answer
    assert not marker.exists()


def test_words_of_a_stranger_stay_words_in_a_program(folder: Path, tmp_path: Path) -> None:
    code = CODE.format(marker=str(tmp_path / "marker"))
    columns = [column.model_copy(update={"name": f"{column.name}'{code}"}) for column in THREE.columns]
    odd = columns[1].model_copy(update={"vocabulary": (f"'{code}", f'"""{code}')})
    encoding = THREE.model_copy(update={"columns": (columns[0], odd, columns[2])})
    made = world.published_student(encoding, student()["student"])
    assert concord("export", str(republish(folder, made)), "--to", str(tmp_path / "out"))[0] == 0
    program = ast.parse((tmp_path / "out" / "example.py").read_text())
    called = [node.func for node in ast.walk(program) if isinstance(node, ast.Call)]
    assert {ast.unparse(each) for each in called} == {"skops.io.load", "pd.DataFrame", "print", "student.predict"}


ANY: Any = (world.Code, world.Chosen)
code, chosen = ANY
OTHERS: dict[str, Any] = {
    "no number": code("0"),
    "a truth value": code(True),
    "below zero": code(-1),
    "infinite": code(0, cuts=[float("inf")]),
    "no words": code(0, words=[1]),
    "no hypothesis": chosen(["box"], ["no", "yes"]),
    "the same class": world.ScoreClassifier(LogisticRegression(), ["no", "no"]),
    "no class": world.ScoreClassifier(LogisticRegression(), []),
    "no point": world.Tallied(np.ones((2, 1)), np.ones(1), np.ones(1), ["no", "yes"], "elsewhere"),
    "no weights": world.Tallied(np.array([["a"]]), np.ones(1), np.ones(1), ["no", "yes"]),
    "weights of nothing": world.Tallied(np.array([[np.nan]]), np.ones(1), np.ones(1), ["no", "yes"]),
}


def test_a_part_with_another_value_and_a_file_that_is_none_are_one_sentence() -> None:
    for other in OTHERS.values():
        with pytest.raises(world.NotVerified, match=r"^the student's \w+ has a \w+ that Concord never writes$"):
            world.load(world.dump(other))
    for file in (b"", b"PK", b"no archive"):
        with pytest.raises(world.NotVerified, match=r"^the student's file is not one that Concord writes \(\w+\)$"):
            world.load(file)


def test_a_student_that_fails_on_purpose_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    made = student()
    made["student"].coef_ = np.ones((1, 1))
    (rows := tmp_path / "rows.csv").write_text("size,shade,image\n1,dark,\n")
    status, _, answer = concord("predict", str(republish(folder, made)), str(rows), "--out", str(tmp_path / "c.csv"))
    assert (status, "not one that Concord writes (ValueError)" in answer) == (4, True), answer
    assert not (tmp_path / "c.csv").exists()
