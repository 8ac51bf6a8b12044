"""Study: the student learns from released labels and public rows alone, so that it is safe to publish.

Assumes      labels came through the door; rows are public; the encoding is of public rows
Guarantees   nothing here reads a private row: post-processing, which costs nothing however often it is repeated
Not covered  what a student may infer about people from public knowledge. Checked by tests/tasks/student/test_study.py
"""

import json
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from sklearn.base import is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault
from concord.artifacts.learners import StudentPlan
from concord.artifacts.measures import PublicTest
from concord.artifacts.schemas import Encoding, Ref
from concord.tasks.data.encode import Matrix, PublicBatch, encode, read_frame
from concord.tasks.student.concord_student import Chosen, ScoreClassifier
from concord.tasks.student.model import dump, published_student
from concord.tasks.student.trust import trusted_types

Targets = NDArray[np.float64]
Refused = Literal["random", "drop", "soft"]


class Student(BaseModel):
    """A published student: its file, and how it does on public test rows, if there are any.

    named     the classes that it names on the public rows; None if that is not known
    figures   what else it does on test rows, by name
    """

    model_config = ConfigDict(frozen=True)

    ref: Ref
    test: PublicTest | None
    named: tuple[str, ...] | None = None
    figures: dict[str, float] = {}

    @property
    def accuracy(self) -> float | None:
        """The share of public test rows that it is right on."""
        return None if self.test is None else self.test.accuracy


def study(
    plan: StudentPlan,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    labels: pa.Table,
    *,
    teachers: int,
    vault: Vault,
) -> Pipeline:
    """The fitted student, from raw public columns to class names.

    batches   the staged public rows in order; `labels` has a row for each of them, as `labels_schema` says
    teachers  how many voted: k, which turns noisy votes into shares
    Raises WrongInput if the plan's estimator cannot learn from such labels.
    """
    used, targets = lessons(labels, encoding.classes, plan.refused, teachers=teachers, seed=plan.seed)
    learned = _fit(plan, _encoded(batches, used, encoding, vault), targets, encoding.classes)
    return published_student(encoding, learned)


def study_inferred(
    plan: StudentPlan,
    encoding: Encoding,
    batches: Sequence[PublicBatch],
    probabilities: Targets,
    vault: Vault,
) -> Pipeline:
    """The student fitted to inferred labels: `probabilities` (rows, classes) of the staged public rows in order."""
    every = np.ones(len(probabilities), dtype=bool)
    learned = _fit(plan, _encoded(batches, every, encoding, vault), probabilities, encoding.classes)
    return published_student(encoding, learned)


def rehearse_student(plan: StudentPlan, encoding: Encoding) -> None:
    """Fit the student on made-up rows of every class, of equal and of mixed scores as the plan would have them.

    Raises WrongInput if that fails: it would fail after the door, when the labels have been paid for.
    """
    classes = len(encoding.classes)
    X = np.sin(np.arange(4 * classes * encoding.width, dtype=np.float32)).reshape(4 * classes, -1)
    targets = np.eye(classes)[np.arange(4 * classes) % classes]
    if plan.refused == "soft":
        targets[:classes] = 1 / classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of too few iterations, on rows that mean nothing
        learned = _fit(plan, X, targets, encoding.classes)
    try:
        trusted_types(dump(learned), plan.estimator)
    except NotVerified as refused:
        raise WrongInput(f"student: {plan.estimator} could not be read back once published: {refused}") from None


def publish_student(
    student: Pipeline, session: str, test: PublicTest | None, released: Released, named: tuple[str, ...] | None = None
) -> Student:
    """Write the student's file into the session's folder."""
    return Student(ref=released.write(f"{session}/student.skops", dump(student)), test=test, named=named)


def named_by(student: Pipeline, encoding: Encoding, batches: Sequence[PublicBatch], vault: Vault) -> tuple[str, ...]:
    """The classes that a student names on the staged public rows, in the order of the plan."""
    found = {name for batch in batches for name in student.predict(read_frame(batch.ref, vault))}
    return tuple(name for name in encoding.classes if name in found)


def lessons(
    labels: pa.Table, classes: Sequence[str], refused: Refused, *, teachers: int, seed: int
) -> tuple[NDArray[np.bool_], Targets]:
    """What the rows teach: which are used (rows,), and the score of each class for those (used, classes).

    random  a row without an answer gets a class at random, whether it was refused or not asked (BTT18, PrivateAgnostic)
    drop    it is left out
    soft    noisy votes, if released, count as they are, divided by k: unbiased; a refused row stands for all
            classes alike; one not asked is left out
    """
    answers = _indices(labels["label"], classes)
    used = np.ones(len(answers), dtype=bool)
    if refused == "random":
        drawn = np.random.default_rng(seed).integers(len(classes), size=len(answers))  # public: privacy rests elsewhere
        answers = np.where(answers < 0, drawn, answers)
    elif refused == "drop":
        used = answers >= 0
    else:
        used = labels["outcome"].to_numpy() != "not asked"
    targets = np.eye(len(classes))[answers]
    targets[answers < 0] = 1 / len(classes)
    if refused == "soft":
        scored = labels["scores"].is_valid().to_numpy()
        targets[scored] = _votes(labels, len(classes)) / teachers
    return used, targets[used]


def _indices(names: pa.ChunkedArray, classes: Sequence[str]) -> NDArray[np.int64]:
    """Class indices (rows,) of released names; −1 if there is none."""
    found = pc.index_in(names, pa.array(classes, pa.string()))
    return np.asarray(found.fill_null(-1).to_numpy(), dtype=np.int64)


def _votes(labels: pa.Table, classes: int) -> NDArray[np.int64]:
    """The noisy votes of those rows that have any (scored, classes)."""
    scores = labels["scores"].drop_null().combine_chunks()
    return np.asarray(pc.list_flatten(scores).to_numpy(), dtype=np.int64).reshape(-1, classes)


def _encoded(batches: Sequence[PublicBatch], used: NDArray[np.bool_], encoding: Encoding, vault: Vault) -> Matrix:
    """The used rows of the stream as one matrix (used, width)."""
    matrix = np.empty((int(used.sum()), encoding.width), dtype=np.float32)
    done = 0
    for batch in batches:
        rows = encode(read_frame(batch.ref, vault).filter(used[batch.first : batch.first + batch.rows]), encoding)
        matrix[done : done + len(rows)] = rows
        done += len(rows)
    return matrix


def _fit(plan: StudentPlan, X: Matrix, targets: Targets, classes: Sequence[str]) -> Any:
    """An estimator of class names, fitted on X (rows, width) and class scores (rows, classes)."""
    estimator = plan.build(random_state=plan.seed)
    try:
        if is_regressor(estimator) and X.size:
            return ScoreClassifier(estimator, list(classes)).fit(X, targets)
        return _fit_classifier(estimator, X, targets, classes)
    except (TypeError, ValueError) as wrong:
        raise WrongInput(f"student: {plan.estimator} cannot learn from the released labels: {wrong}") from None


def _fit_classifier(estimator: Any, X: Matrix, targets: Targets, classes: Sequence[str]) -> Any:
    """A classifier on rows repeated by class, weighted by their scores.

    Scores are clipped to [0, ∞) and scaled to sum to one, which biases them if noise is large: a regressor takes
    noisy votes as they are.
    """
    weights = _weights(targets)
    rows, indices = np.nonzero(weights)
    names = np.array(classes)[indices]
    if not X.size or len(set(indices)) < 2:
        return _constant(names if len(names) else np.array(classes[:1]))
    weight = weights[rows, indices]
    if np.all(weight == 1):
        return estimator.fit(X[rows], names)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise WrongInput(
            "student.refused = 'soft' needs an estimator that takes sample_weight, or a regressor, "
            f"got {type(estimator).__name__}"
        )
    return estimator.fit(X[rows], names, sample_weight=weight)


def _weights(targets: Targets) -> Targets:
    clipped = np.clip(targets, 0, None)
    clipped[~clipped.any(axis=1)] = 1
    weights: Targets = clipped / clipped.sum(axis=1, keepdims=True)
    return weights


def _constant(names: NDArray[Any]) -> DummyClassifier:
    """The student of labels that teach nothing but the most frequent class."""
    return DummyClassifier(strategy="most_frequent").fit(np.zeros((len(names), 1)), names)


def student_of(released: bytes, encoding: Encoding) -> Pipeline:
    """The student that a released hypothesis is, from raw public columns to class names."""
    hypothesis = json.dumps(json.loads(released)["hypothesis"], sort_keys=True)
    return published_student(encoding, Chosen(hypothesis, list(encoding.classes)).fit())
