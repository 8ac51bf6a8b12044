"""Infer: what released rounds of tallies say of public rows, and what to ask next. Nothing here costs anything.

    released rounds ─ decode ─┬─ the next question: fields and an integer model
                              └─ scores and labels of public rows, and the linear model as a student

Assumes      rounds were released at the door, in order; rows and codes are public
Guarantees   post-processing: what it reads is published, and may be read and decoded again at will
Not covered  public rows unlike the private ones: they cost accuracy, never privacy, and are repaired where that
             helps (tasks.student.prior). Checked by tests/flows/test_tally_flow.py

The linear student is the decoded model itself, as scikit-learn's own parts and two small files of ours.

    raw cells ─ Cells ─ Code, a column each ─ Tallied

Assumes      codes are public, the model was decoded from what was released
Guarantees   a row has the codes that a private one with the same cells has
Not covered  moments with a time zone as words. Checked by tests/tasks/student/test_linear.py
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import Pipeline, make_pipeline

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.released import table_bytes
from concord.artifacts.home.vault import Vault
from concord.artifacts.measures import PublicTest
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, OneHot, inferred_schema
from concord.tasks.data.cells import cast_rows
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, NumberField, coarse_bins, learn_codes
from concord.tasks.data.encode import PublicBatch, labelled_rows, learn_encoding, read_frame
from concord.tasks.data.tables import open_public
from concord.tasks.data.views import VectorField
from concord.tasks.mechanisms.contributions import IntegerModel, Question
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.tallies import Tallies, planned_rounds
from concord.tasks.student.concord_student import Cells
from concord.tasks.student.concord_tallied import POINTS, Code, Tallied
from concord.tasks.student.decode import Decoded, Heard, decode, next_fields, next_model, odds_scores, rounds_of, scores
from concord.tasks.student.evaluate import measured

Published = Mapping[str, Any]
"""What a released round's file says."""


@dataclass(frozen=True)
class Follower:
    """What a session's questions follow from: its mechanism, its codes, and those of its public rows (rows, fields)."""

    mechanism: Tallies
    codes: Codes
    rows: CodeMatrix

    def question(self, released: Sequence[Published]) -> Question:
        """What the next round asks, after those that were released."""
        number = len(released)
        spans = [(field.start, field.start + field.size) for field in self.codes.fields]
        following = released[-1]["next"] if released else None
        asked = self.codes.coarse if following is None else following["fields"]
        model = None if following is None else IntegerModel.from_record(following["model"])
        return self.mechanism.question(number, asked, [spans[field] for field in asked], model)

    def unaided(self) -> tuple[Question, ...]:
        """What the rounds ask that follow from nothing released: all up to the first that asks for labels."""
        first = [each.what for each in self.mechanism.rounds].index("labels")
        spans = [(self.codes.span(field).start, self.codes.span(field).stop) for field in self.codes.coarse]
        return tuple(self.mechanism.question(at, self.codes.coarse, spans) for at in range(first + 1))

    def follow(self, released: Sequence[Published], question: Question, sums: Ints) -> dict[str, Any]:
        """What a round's file says of what follows from its noisy sums: the model decoded so far, and what is asked
        next. Code totals by themselves tell of no class."""
        number = len(released)
        if all(each.what == "codes" for each in self.mechanism.rounds[: number + 1]):
            return {"decoded": None, "next": None}
        now = Heard(question, self.mechanism.rounds[number].scale, sums)
        decoded = decode([*map(heard, released), now], self.rows, self.codes)
        following: dict[str, Any] = {"decoded": decoded.record(), "next": None}
        if number + 1 < len(self.mechanism.rounds):
            most = self.mechanism.rounds[number + 1].fields
            model = next_model(decoded).record()
            following["next"] = {"fields": list(next_fields(decoded, self.codes, most)), "model": model}
        return following


def check_columns(plan: Plan, encoding: Encoding) -> None:
    """Raise WrongInput where rows cannot be turned into codes, or codes cannot be what the student reads."""
    for column in encoding.columns:
        if column.kind == "list" and plan.student.learner == "linear":
            raise WrongInput(
                f"student.estimator must be given, since {column.name!r} holds lists: the model that tallies are "
                "decoded to knows them by cells alone, and a student that is fitted to inferred labels reads them whole"
            )
    if all(column.kind == "null" for column in encoding.columns):
        raise WrongInput("labeling.mechanism = 'tallies' needs a feature of data.public that holds a value")


def planned_tallies(plan: Plan, codes: Codes, rows: int) -> Tallies:
    """The tallies that a plan asks for, over those codes of that many public rows. Raises WrongInput."""
    labeling, classes, fields = plan.labeling, len(plan.data.classes), len(codes.coarse)

    def made(rounds: int) -> Tallies:
        repair = True if labeling.repair is None else labeling.repair
        asked = planned_rounds(classes=classes, fields=fields, codes=codes.size, rounds=rounds, repair=repair)
        return Tallies.calibrate(
            epsilon=plan.privacy.epsilon,
            delta=plan.privacy.delta,
            classes=classes,
            rounds=asked,
            many=plan.data.unit is not None,
        )

    once = made(1)
    if all(isinstance(field, VectorField) for field in codes.fields):
        return made(labeling.rounds or 1)  # what a cell holds is measured at once: a model of cells tells no more
    rounds = labeling.rounds or rounds_of(fields, once.rho, rows, labeling.rows or 1)
    return once if rounds == 1 else made(rounds)


@dataclass(frozen=True, kw_only=True)
class RoundAhead:
    """A round as it is planned: `noise` is the standard deviation in each released sum, in units."""

    what: str
    columns: int
    share: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class TalliesAhead:
    """What tallies cost and what to expect of them, by public figures alone.

    codes      in all, of `columns` columns of the public rows
    rho        what the domain is charged, in zero-concentrated DP
    seen       units that must share a code before its sum stands out of the noise, by twice its standard deviation
    typical    units that share a typical code, if there are as many as the plan states; None where it states none
    feasible   whether a typical code stands out
    """

    epsilon: float
    delta: float
    columns: int
    codes: int
    public_rows: int
    rho: float
    rounds: tuple[RoundAhead, ...]
    seen: float
    typical: float | None
    feasible: bool
    reason: str


def expect_tallies(plan: Plan) -> TalliesAhead:
    """What to expect of a plan for tallies. Raises WrongInput where its public table does not fit it."""
    encoding, table = learn_encoding(plan), open_public(plan.path("public"), form=plan.data.format)
    check_columns(plan, encoding)
    frames = [cast_rows(frame, encoding) for frame in table.frames(encoding.features)]
    bins = plan.labeling.bins or coarse_bins(plan.privacy.epsilon)
    codes, rows = learn_codes(frames, encoding.columns, coarse=bins), sum(frame.height for frame in frames)
    mechanism = planned_tallies(plan, codes, rows)
    rounds = tuple(
        RoundAhead(what=each.what, columns=each.fields, share=each.share, noise=each.scale / mechanism.steps)
        for each in mechanism.rounds
    )
    coarse = sum(codes.fields[field].size for field in codes.coarse)
    labelled = next(each for each in rounds if each.what == "labels")
    seen = 4 * labelled.noise  # a unit moves its code's sum by half a vote
    typical = None if plan.labeling.rows is None else plan.labeling.rows * len(codes.coarse) / coarse
    feasible = typical is None or typical >= seen
    at_most = f"A code stands out of the noise if about {seen:,.0f} units share it"
    if typical is None:
        reason = f"{at_most}."
    elif feasible:
        reason = f"{at_most}; of the {plan.labeling.rows:,} stated, about {typical:,.0f} share a typical one."
    else:
        reason = (
            f"{at_most}, and of the {plan.labeling.rows:,} stated only about {typical:,.0f} share a typical one: "
            "little more than the commonest class can be learned; it takes more units, a larger ε, or fewer columns."
        )
    return TalliesAhead(
        epsilon=plan.privacy.epsilon,
        delta=plan.privacy.delta,
        columns=len(codes.coarse),
        codes=codes.size,
        public_rows=rows,
        rho=mechanism.rho,
        rounds=rounds,
        seen=seen,
        typical=typical,
        feasible=feasible,
        reason=reason,
    )


def heard(published: Published) -> Heard:
    """A released round as the decoder takes it."""
    question = Question.from_record(published["question"])
    return Heard(question, float(published["scale"]), np.array(published["sums"], dtype=np.int64))


def public_codes(batches: Sequence[PublicBatch], codes: Codes, vault: Vault) -> CodeMatrix:
    """Codes of staged public rows (rows, fields)."""
    return np.concatenate([codes.of(read_frame(batch.ref, vault)) for batch in batches])


def inferred(decoded: Decoded, rows: CodeMatrix, encoding: Encoding, session: str, claim: Mapping[str, str]) -> bytes:
    """Labels inferred for public rows, with the probability of each class, as an Arrow file of `inferred_schema`."""
    probability, balanced = scores(decoded, rows), odds_scores(decoded, rows)
    names = pa.array(encoding.classes, pa.string())
    flat = pa.array(probability.ravel())
    columns = [
        pa.array(np.arange(len(rows), dtype=np.uint64)),
        names.take(pa.array(probability.argmax(axis=1))),
        pa.array(["inferred"] * len(rows), pa.string()),
        pa.FixedSizeListArray.from_arrays(flat, len(encoding.classes)),
        names.take(pa.array(balanced.argmax(axis=1))),
        pa.array([session] * len(rows), pa.string()),
    ]
    return table_bytes(columns, inferred_schema(len(encoding.classes), dict(claim)))


def soft_labels(labels: pa.Table, classes: int) -> NDArray[np.float64]:
    """The probabilities of a table of inferred labels (rows, classes)."""
    flat = labels["scores"].combine_chunks().flatten().to_numpy()
    return np.asarray(flat, dtype=np.float64).reshape(-1, classes)


def linear_student(decoded: Decoded, encoding: Encoding, codes: Codes) -> Pipeline:
    """The student that a decoded model is, from raw public columns to class names."""
    known = {column.name: column.vocabulary for column in encoding.columns if isinstance(column, OneHot)}
    fields = [codes.fields[at] for at in codes.fine]
    parts = [(field.name, make_pipeline(Cells(field.kind), _code(field, known)), [field.name]) for field in fields]
    nothing = pd.DataFrame({name: pd.Series([None], dtype=object) for name in encoding.features})
    coded = ColumnTransformer(parts, sparse_threshold=0, verbose_feature_names_out=False).fit(nothing)
    model = Tallied(decoded.weights, decoded.intercept, decoded.prior, list(encoding.classes)).fit()
    return Pipeline([("encode", coded), ("student", model)])


def _code(field: CodedField, known: Mapping[str, Sequence[str]]) -> Code:
    if isinstance(field, NumberField):
        return Code(field.start, cuts=list(field.cuts))
    if isinstance(field, VectorField):
        raise TypeError(f"a linear student reads no vectors, such as {field.name!r}: see check_columns")
    others = [word for word in known[field.name] if word not in field.words]
    return Code(field.start, words=list(field.words), others=others)


def tried(student: Pipeline, codes: Codes, path: str, encoding: Encoding) -> tuple[PublicTest, dict[str, float]]:
    """The student on the public labelled rows at `path`; and accuracy and balanced accuracy at both operating points.

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
    return measured(student["student"], X, truth, encoding, path), found
