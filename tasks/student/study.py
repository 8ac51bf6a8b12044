"""Study: the student, fitted to what was released and to public rows alone, so that it is safe to publish.

    labels of teachers ─ lessons ────────────────────┬─ an estimator of the plan
    rounds of sums ─ decoded model ─┬─ inferred labels ┘
                                    └─ the linear student: Cells ─ Code, a column each ─ (Joined, Pairs) ─ Tallied
    a choice ─ the hypothesis itself

Assumes      labels, sums and choices were released at the door; rows, encoding and codes are public
Guarantees   nothing here reads a private row: post-processing, which costs nothing however often it is repeated. To the
             linear student, a row has the same codes as a private row with the same cells
Not covered  what a student may infer about people from public knowledge; moments with a time zone as words. Checked by
             tests/tasks/student/test_study.py and tests/tasks/student/test_published_students.py
"""

import io
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from sklearn.base import is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import Released, inferred_schema
from concord.artifacts.home.vault import Staged
from concord.artifacts.learners import StudentPlan
from concord.artifacts.measures import AnyPublicTest, Estimate
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, OneHot, PublicBatch, PublicRows, Ref
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, NumberField, WordField
from concord.tasks.data.concord_student import Chosen, ScoreClassifier
from concord.tasks.data.encode import read_frame
from concord.tasks.data.joined import JoinedField
from concord.tasks.data.matrix import Matrix, clean, column_transformer, encode
from concord.tasks.student.concord_published import Published
from concord.tasks.student.concord_tallied import Code, Joined, Pairs, Tallied, TalliedNumber
from concord.tasks.student.decode import Decoded, odds_scores, scores
from concord.tasks.student.model import dump, published_student

Targets = NDArray[np.float64]
Used = NDArray[np.bool_]
Refused = Literal["random", "drop", "soft", "published"]
SEED = 0
"""Seed of the estimator and of random classes. The student is learned from public things, so the seed is no secret."""
MOST_CELLS = 1 << 26
"""Cells of float32 that rows and their targets may take while a student learns: 256 MiB. An estimator copies them."""


class Student(BaseModel):
    """A published student: its file, and its measures on public test rows, if there are any.

    named     the classes that it predicts on the public rows; None if that is not known
    history   its accuracy on them after each release of a season
    """

    model_config = ConfigDict(frozen=True)

    ref: Ref
    test: AnyPublicTest | None
    named: tuple[str, ...] | None = None
    history: tuple[Estimate, ...] = ()

    @property
    def accuracy(self) -> Estimate | None:
        """The share of public test rows that it is right on."""
        return getattr(self.test, "accuracy", None)


def fit_student(
    plan: Plan, public: PublicRows, files: Sequence[Ref], codes: Codes | None, staged: Staged, released: Released
) -> Pipeline:
    """The student by what was released, from raw public columns to class names, or to a number.

    files  of votes, those of the labels, one for each batch of public rows; of sums, those of the rounds and last the
           inferred labels; of a choice, that of the hypothesis
    codes  those that the last sums were asked about; None if no labels were inferred
    Raises WrongInput if the plan's estimator cannot learn from such labels.
    """
    encoding, refused = public.encoding, plan.student.refused
    if plan.student.learner == "universal":
        hypothesis = json.dumps(json.loads(released.read(files[0]))["hypothesis"], sort_keys=True)
        return published_student(encoding, Chosen(hypothesis, list(encoding.classes)).fit())
    if codes is not None and plan.student.learner == "linear":
        last = next(file for file in reversed(files) if file.path.endswith(".json"))
        return linear_student(Decoded.from_record(json.loads(released.read(last))["decoded"]), encoding, codes)
    if codes is not None:
        inferred = soft_labels(released.labels(files[-1:]), len(encoding.classes))
        parts = np.split(inferred, [batch.first for batch in public.batches[1:]])
        lessons_of = ((np.ones(len(part), dtype=bool), part) for part in parts)
        return _fitted_to(zip(public.batches, lessons_of, strict=True), len(inferred), plan.student, encoding, staged)
    rows = sum(teaching(released.labels([file]), refused) for file in files)
    lessons_of = (
        lessons(
            released.labels([file]),
            encoding.classes,
            refused,
            teachers=plan.teachers.count,
            seed=(SEED, batch.first),
        )
        for batch, file in zip(public.batches, files, strict=True)
    )
    return _fitted_to(zip(public.batches, lessons_of, strict=True), rows, plan.student, encoding, staged)


def _fitted_to(
    lessons_by_batch: Iterable[tuple[PublicBatch, tuple[Used, Targets]]],
    rows: int,
    plan: StudentPlan,
    encoding: Encoding,
    staged: Staged,
) -> Pipeline:
    """The student fitted to the rows of each batch that are used, and their targets: so many `rows` in all.

    One batch is in memory at a time. If MOST_CELLS has no room for all rows, an even sample of them is used.
    """
    most = min(rows, MOST_CELLS // (encoding.width + 2 * len(encoding.classes)))
    X, kept_targets, first, done = np.empty((most, encoding.width), dtype=np.float32), list[Targets](), 0, 0
    for batch, (used, targets) in lessons_by_batch:
        kept = even_sample(first, len(targets), rows, most)
        kept_targets.append(targets[kept])
        if kept.any():
            places = np.flatnonzero(used)[kept]
            X[done : done + len(places)] = encode(read_frame(batch.ref, staged)[places], encoding)
            done += len(places)
        first += len(targets)
    return published_student(encoding, fitted(plan, X, np.concatenate(kept_targets), encoding.classes))


def even_sample(first: int, size: int, total: int, most: int) -> Used:
    """Which of rows first … first + size − 1 (size,) are in the even sample of `most` of `total` rows."""
    places = np.arange(first, first + size + 1) * most // max(1, total)
    return places[1:] > places[:-1]


def rehearse_student(plan: StudentPlan, encoding: Encoding) -> None:
    """Fit the student, unless it is not fitted to labels, to simulated rows of every class, with equal and with mixed
    scores as the plan would give.

    Raises WrongInput if that fails: otherwise it would fail after the labels have been paid for.
    """
    from concord.tasks.student.trust import trusted_types

    if plan.learner != "fitted":
        return
    classes = len(encoding.classes) or 2
    X = np.sin(np.arange(4 * classes * encoding.width, dtype=np.float32)).reshape(4 * classes, -1)
    targets = X[:, 0].astype(np.float64) if encoding.bounds else np.eye(classes)[np.arange(4 * classes) % classes]
    if encoding.classes and plan.refused == "soft":
        targets[:classes] = 1 / classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of too few iterations, on rows that mean nothing
        learned = fitted(plan, X, targets, encoding.classes)
        if encoding.bounds is not None and not np.isfinite(learned.predict(X)).all():
            rule = "student.estimator must give a finite number for every row, such as sklearn.linear_model.Ridge"
            raise WrongInput(f"{rule}, which {plan.estimator} does not")
    try:
        trusted_types(dump(learned), plan.estimator)
    except NotVerified as refused:
        raise WrongInput(f"student: {plan.estimator} could not be read back once published: {refused}") from None


def hold_student(student: Pipeline, session: str, released: Released) -> Ref:
    """Keep the student's file for the session's folder, in which it is published with its certificate."""
    return released.hold_back(f"{session}/student.skops", dump(student))


def named_by(student: Pipeline, public: PublicRows, staged: Staged) -> tuple[str, ...]:
    """The classes that a student predicts on the staged public rows, in the order of the plan. No more rows are read
    than show each class."""
    classes, named = public.encoding.classes, set[str]()
    for batch in public.batches:
        named |= {*student.predict(read_frame(batch.ref, staged))}
        if named >= {*classes}:
            break
    return tuple(name for name in classes if name in named)


def teaching(labels: pa.Table, refused: Refused) -> int:
    """The number of rows that the student can learn from."""
    if refused == "published":
        return int(labels.num_rows)
    usable = pc.sum(_is_lesson(labels, refused)).as_py()
    return int(usable or 0)


def lessons(
    labels: pa.Table, classes: Sequence[str], refused: Refused, *, teachers: int, seed: int | tuple[int, int]
) -> tuple[Used, Targets]:
    """Training targets: which rows are used (rows,), and the score of each class for those (used, classes).

    random     a refused row gets a class at random
    drop       a refused row is left out
    soft       noisy votes, if released, divided by k: unbiased; a refused row has equal scores for all classes
    published  a row without an answer gets a class at random, whether it was refused or not asked, as in the paper
               (BTT18, PrivateAgnostic); in all other modes, a row that was not asked is not used
    """
    places = pc.index_in(labels["label"], pa.array(classes, pa.string())).fill_null(-1)  # −1 if there is none
    answers = np.asarray(places.to_numpy(), dtype=np.int64)
    used = np.ones(len(answers), dtype=bool) if refused == "published" else _is_lesson(labels, refused).to_numpy()
    if refused in ("random", "published"):
        drawn = np.random.default_rng(seed).integers(len(classes), size=len(answers))  # public: privacy rests elsewhere
        answers = np.where(answers < 0, drawn, answers)
    targets = np.eye(len(classes))[answers]
    targets[answers < 0] = 1 / len(classes)
    if refused == "soft":
        scored = labels["scores"].is_valid().to_numpy()
        votes = pc.list_flatten(labels["scores"].drop_null().combine_chunks()).to_numpy()
        targets[scored] = np.asarray(votes, dtype=np.int64).reshape(-1, len(classes)) / teachers
    return used, targets[used]


def _is_lesson(labels: pa.Table, refused: Refused) -> pa.ChunkedArray:
    return labels["label"].is_valid() if refused == "drop" else pc.not_equal(labels["outcome"], "not asked")


def fitted(plan: StudentPlan, X: Matrix, targets: Targets, classes: Sequence[str]) -> Any:
    """An estimator of class names, fitted to X (rows, width) and class scores (rows, classes); if there are no classes,
    to numbers (rows,)."""
    estimator = plan.build(random_state=SEED)
    if not classes and not is_regressor(estimator):
        rule = "student.estimator must be a regressor, such as sklearn.linear_model.Ridge"
        raise WrongInput(f"{rule}, since data.bounds says that the label is a number, got {plan.estimator}")
    try:
        if not classes:
            return estimator.fit(X, targets)
        if is_regressor(estimator) and X.size:
            return ScoreClassifier(estimator, list(classes)).fit(X, targets)
        return _fit_classifier(estimator, X, targets, classes)
    except (TypeError, ValueError) as wrong:
        raise WrongInput(f"student: {plan.estimator} cannot learn from the released labels: {wrong}") from None


def _fit_classifier(estimator: Any, X: Matrix, targets: Targets, classes: Sequence[str]) -> Any:
    """A classifier fitted to rows repeated by class and weighted by their scores.

    Scores are clipped to [0, ∞) and scaled to sum to one, which biases them if noise is large; a regressor needs no
    clipping.
    """
    clipped = np.clip(targets, 0, None)
    clipped[~clipped.any(axis=1)] = 1
    weights = clipped / clipped.sum(axis=1, keepdims=True)
    rows, indices = np.nonzero(weights)
    names = np.array(classes)[indices]
    if not X.size or len(set(indices)) < 2:  # labels that allow no other student
        constant = names if len(names) else np.array(classes[:1])
        return DummyClassifier(strategy="most_frequent").fit(np.zeros((len(constant), 1)), constant)
    weight = weights[rows, indices]
    if len(rows) > len(X):
        X = X[rows]
    if np.all(weight == 1):
        return estimator.fit(X, names)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise WrongInput(
            "student.refused = 'soft' needs an estimator that takes sample_weight, or a regressor, "
            f"got {type(estimator).__name__}"
        )
    return estimator.fit(X, names, sample_weight=weight)


# Decoded models -------------------------------------------------------------------------------------------------------


def inferred(
    decoded: Decoded, batches: Iterable[CodeMatrix], encoding: Encoding, claim: Mapping[str, str]
) -> Iterator[bytes]:
    """Labels inferred for public rows, with the probability of each class: the parts of an Arrow file of
    `inferred_schema`, one for each batch and its end. `claim` names the session, and its guarantee."""
    schema, sink, first = inferred_schema(len(encoding.classes), dict(claim)), io.BytesIO(), 0
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        for rows in batches:
            columns = _inferred(decoded, rows, first, encoding, claim["session"])
            file.write_batch(pa.record_batch(columns, schema=schema))
            first += len(rows)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


def _inferred(decoded: Decoded, rows: CodeMatrix, first: int, encoding: Encoding, session: str) -> list[Any]:
    """The columns of labels of rows that are numbered from `first` on."""
    number = pa.array(np.arange(first, first + len(rows), dtype=np.uint64))
    outcome, where = (pa.repeat(pa.scalar(text, pa.string()), len(rows)) for text in ("inferred", session))
    if encoding.bounds is not None:
        model = TalliedNumber(decoded.weights, decoded.intercept, *encoding.bounds)
        return [number, pa.array(model.predict(rows)), outcome, where]
    probability, balanced = scores(decoded, rows), odds_scores(decoded, rows)
    names = pa.array(encoding.classes, pa.string())
    return [
        number,
        names.take(pa.array(probability.argmax(axis=1))),
        outcome,
        pa.FixedSizeListArray.from_arrays(pa.array(probability.ravel(), pa.float32()), len(encoding.classes)),
        names.take(pa.array(balanced.argmax(axis=1))),
        where,
    ]


def soft_labels(labels: pa.Table, classes: int) -> NDArray[np.float64]:
    """The probabilities of a table of inferred labels (rows, classes); its numbers (rows,) if there are no classes."""
    if not classes:
        return np.asarray(labels["label"].to_numpy(), dtype=np.float64)
    flat = labels["scores"].combine_chunks().flatten().to_numpy()
    return np.asarray(flat, dtype=np.float64).reshape(-1, classes)


def linear_student(decoded: Decoded, encoding: Encoding, codes: Codes) -> Pipeline:
    """The student of a decoded model, from raw public columns to class names, or to a number."""
    columns = {column.name: column for column in encoding.columns}
    words = {name: column.vocabulary for name, column in columns.items() if isinstance(column, OneHot)}
    fields = {field.name: field for field in (codes.fields[at] for at in codes.fine)}
    parts = [(name, make_pipeline(clean(columns[name]), _code(field, words)), [name]) for name, field in fields.items()]
    steps: list[tuple[str, Any]] = [("encode", column_transformer(parts, encoding.features))]
    if encoding.bounds is not None:
        number = TalliedNumber(decoded.weights, decoded.intercept, *encoding.bounds)
        return Published([*steps, ("student", number)])
    if codes.joined is not None:
        steps.append(("joined", _joined(codes, codes.fields[codes.joined])))
    if codes.pairs:
        steps.append(("pairs", _pairs(codes)))
    model = Tallied(decoded.weights, decoded.intercept, decoded.prior, list(encoding.classes)).fit()
    return Published([*steps, ("student", model)])


def _joined(codes: Codes, field: CodedField) -> Joined:
    assert isinstance(field, JoinedField)
    levels = np.zeros(codes.size, np.int64)
    for at, of_column in zip(field.columns, field.levels, strict=True):
        levels[codes.span(at)] = of_column
    columns = np.array([codes.fine.index(at) for at in field.columns])
    return Joined(columns, levels, field.points, field.start)


def _pairs(codes: Codes) -> Pairs:
    both = [[codes.fine.index(at) for at in field.both] for field in codes.pairs.values()]
    added = np.zeros((len(both), 2, codes.size), np.int64)
    for tables, field in zip(added, codes.pairs.values(), strict=True):
        for table, at, part in zip(tables, field.both, field.parts, strict=True):
            table[codes.span(at)] = part
        tables[0] += field.start
    return Pairs(np.array(both), added)


def _code(field: CodedField, words: Mapping[str, Sequence[str]]) -> Code:
    if isinstance(field, NumberField):
        return Code(field.start, cuts=list(field.cuts))
    if not isinstance(field, WordField):
        raise TypeError(f"a linear student reads no vectors, such as {field.name!r}: see check_columns")
    others = [word for word in words[field.name] if word not in field.words]
    return Code(field.start, words=list(field.words), others=others)
