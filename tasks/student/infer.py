"""Infer: labels of public rows and the next question, from released rounds of tallies. Nothing here costs anything.

    released rounds ─ decode ─┬─ the next question: fields and an integer model
                              └─ scores and labels of public rows, and the linear model as a student

Assumes      rounds were released at the door, in order; rows and codes are public, as features of private rows are
             if labels alone are secret
Guarantees   post-processing of published files, which may be repeated at will
Not covered  public rows unlike the private ones: they cost accuracy, never privacy, and are repaired if that
             helps (tasks.student.prior). Checked by tests/flows/test_tally_flow.py

Pairs of columns are counted if single columns predict the label poorly, for example if it is whether two of them agree.

    a round of single columns ─ little is decoded ─ all pairs, in coarse cells ─ informative ones, in finer cells

Cells are groups of a column's fine codes: of numbers equally many public rows, of words the most frequent ones.

Assumes      public rows are those that the sums are decoded on
Guarantees   which pairs are asked follows from released sums; a table whose single columns predict well pays nothing
Not covered  interactions of three columns that no two of them show. Checked by tests/tasks/student/test_pairs.py

The linear student is the decoded model itself, as scikit-learn's own parts and two small files of ours.

    raw cells ─ Cells ─ Code, a column each ─ Tallied

Assumes      codes are public, and the model was decoded from released sums
Guarantees   a row has the same codes as a private row with the same cells
Not covered  moments with a time zone as words. Checked by tests/tasks/student/test_published_students.py
"""

import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.pipeline import Pipeline, make_pipeline

from concord.artifacts.home.released import inferred_schema
from concord.artifacts.home.vault import Staged
from concord.artifacts.measures import AnyPublicTest, PublicTest
from concord.artifacts.schemas import Encoding, OneHot, PublicBatch, Ref
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, NumberField, WordField, deepened
from concord.tasks.data.encode import labelled_rows, read_frame
from concord.tasks.data.matrix import clean, column_transformer
from concord.tasks.mechanisms.contributions import IntegerModel, RoundQuestion, expected
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.tallies import FINER, GROUPS, Tallies
from concord.tasks.student.concord_published import Published
from concord.tasks.student.concord_tallied import Code, Pairs, Tallied, TalliedNumber
from concord.tasks.student.crossed import sampled_of
from concord.tasks.student.decode import (
    Decoded,
    NoisyRound,
    decode,
    logits,
    next_fields,
    next_model,
    odds_scores,
    scores,
    unlike_fields,
)
from concord.tasks.student.evaluate import at_prior_odds, tested
from concord.tasks.student.joint import Search

RoundFile = Mapping[str, Any]
"""The content of a released round's file."""
PICTURES = 1 << 16
"""Most public rows that a space is learned from: learning holds several copies of them in memory."""
LITTLE = 0.8
"""Deviation of a row's logit below which columns say little: at most 70 % of labels, if classes are even. If they say
nothing, noise makes it 0.08 (30,000 rows, ε = 1); of the tables of the benchmark it is 1 and more."""
FAR = 8.0
"""Standard deviations by which the χ² of a pair's sums must lie above its mean."""


def codes_after(released: Sequence[RoundFile], first: Codes) -> Codes:
    """The codes that the next round asks about, after the released rounds; `first` are those of the first."""
    learned = (released[-1]["next"] or {}).get("codes") if released else None
    return Codes.model_validate_json(json.dumps(learned)) if learned else first


@dataclass(frozen=True)
class RoundPlanner:
    """Inputs of a session's questions: its mechanism, its codes, and those of its public rows (rows, fields).

    units   number of private units, if only labels are secret: then rows are one of each unit, or of some
    public  returns the public rows, if each round after the first asks about a space learned from the labels so far
            (`deepens`)
    pairs   whether pairs of columns are asked if single ones say little
    """

    mechanism: Tallies
    codes: Codes
    rows: CodeMatrix
    units: int | None = None
    public: Callable[[], pl.DataFrame] | None = None
    pairs: bool = False

    def codes_after(self, released: Sequence[RoundFile]) -> Codes:
        """The codes that the next round asks about, after the released rounds."""
        return codes_after(released, self.codes)

    def question(self, released: Sequence[RoundFile]) -> RoundQuestion:
        """The question of the next round, after the released rounds."""
        number, codes = len(released), self.codes_after(released)
        following = released[-1]["next"] if released else None
        asked = codes.coarse if following is None else following["fields"]
        record = None if following is None else following["model"]
        model = None if record is None else IntegerModel.from_record(record)
        return self.mechanism.question(number, asked, codes.spans(asked), model)

    def first_questions(self) -> tuple[RoundQuestion, ...]:
        """The questions that depend on no released sums: all up to the first that asks for labels."""
        first = [each.what for each in self.mechanism.rounds].index("labels")
        spans = self.codes.spans(self.codes.coarse)
        return tuple(self.mechanism.question(at, self.codes.coarse, spans) for at in range(first + 1))

    def follow(self, released: Sequence[RoundFile], question: RoundQuestion, sums: Ints) -> dict[str, Any]:
        """The part of a round's file that follows from its noisy sums: the model decoded so far, and the next question.
        Totals of codes alone give no model."""
        number = len(released)
        unlike: tuple[int, ...] = ()
        if all(each.what == "codes" for each in self.mechanism.rounds[: number + 1]):
            return {"decoded": None, "next": None}
        now, codes = NoisyRound(question, self.mechanism.rounds[number].scale, sums), self.codes_after(released)
        before = released[-1]["decoded"] if released else None
        begun = None if before is None else Decoded.from_record(before)
        last = number + 1 == len(self.mechanism.rounds)
        single = [heard(each) for each in released if max(each["question"]["fields"]) < self.codes.width]
        if begun is not None and codes.pairs and not last:  # all pairs were asked: what columns say is decoded already
            both = outstanding(now, self.rows, codes, begun, self.mechanism.rounds[number + 1].fields)
            found = with_pairs(self.codes, self.rows, FINER, both)
            unlike = unlike_fields(single, self.rows, self.codes, self.units)
            return {"decoded": before, "next": self._next(number, begun, found, unlike)}
        if self.public is None or codes is self.codes:
            exact = self.units == len(self.rows) and not self.mechanism.many  # then no row stands for others
            search = Search((0.0,)) if exact else Search()
            rounds, begun = [*single, now], None if codes.pairs else begun
            decoded = decode(rounds, self.rows, codes, units=self.units, search=search, begun=begun)
            unlike = unlike_fields(rounds, self.rows, self.codes, self.units)
        else:
            rows, units = codes.of(self.public()), float(released[-1]["decoded"]["units"])
            decoded = decode([now], rows, codes, units=units)
        if last:
            return {"decoded": decoded.record(), "next": None}
        if self.pairs and number + 2 < len(self.mechanism.rounds) and say_little(decoded):
            codes = with_pairs(self.codes, self.rows, GROUPS)
        return {"decoded": decoded.record(), "next": self._next(number, decoded, codes, unlike)}

    def _next(self, number: int, decoded: Decoded, codes: Codes, unlike: Sequence[int]) -> dict[str, Any]:
        """The next round's question: the pairs of columns of `codes`, or the fields of largest importance; or the cells
        of a space learned by now."""
        if codes.pairs:
            model = next_model(decoded, codes.size).record()
            return {"fields": list(codes.pairs), "model": model, "codes": codes.model_dump(mode="json")}
        if self.public is None:
            asked = next_fields(decoded, codes, self.mechanism.rounds[number + 1].fields, unlike)
            return {"fields": list(asked), "model": next_model(decoded).record()}
        rows = self.public().drop_nulls(codes.fields[0].name)
        rows = rows.gather_every(max(1, -(-rows.height // PICTURES)))
        learned = deepened(codes, rows, scores(decoded, codes.of(rows)))
        return {"fields": list(learned.coarse), "model": None, "codes": learned.model_dump(mode="json")}


def heard(published: RoundFile) -> NoisyRound:
    """A released round in the form that the decoder takes."""
    question = RoundQuestion.from_record(published["question"])
    return NoisyRound(question, float(published["scale"]), np.array(published["sums"], dtype=np.int64))


def say_little(decoded: Decoded) -> bool:
    """Whether single columns say little of the label."""
    return math.sqrt(float((decoded.importance**2).sum())) < LITTLE


def with_pairs(codes: Codes, rows: CodeMatrix, groups: int, both: Iterable[tuple[int, int]] | None = None) -> Codes:
    """Codes with further fields for pairs of fine fields: for all pairs, or for those in `both`.

    rows  codes (m, F) of public rows, by which groups are formed
    """
    asked = [*(combinations(codes.fine, 2) if both is None else both)]
    fields = {at for pair in asked for at in pair}
    return codes.with_pairs({at: _groups(codes, rows, at, groups) for at in fields}, asked)


def _groups(codes: Codes, rows: CodeMatrix, field: int, most: int) -> tuple[int, ...]:
    """The group of each code of a field: `most` at most, and one of missing cells."""
    size = codes.fields[field].size - 1
    if isinstance(codes.fields[field], NumberField):
        counts = np.bincount(rows[:, field] - codes.fields[field].start, minlength=size + 1)[:size]
        twice_middle = 2 * np.cumsum(counts) - counts
        places = np.minimum(most - 1, most * twice_middle // max(1, 2 * counts.sum()))
    else:
        places = np.minimum(np.arange(size), most - 1)
    groups = np.unique(places, return_inverse=True)[1].tolist()
    return (*groups, max(groups) + 1)


def outstanding(
    heard: NoisyRound, rows: CodeMatrix, codes: Codes, decoded: Decoded, most: int
) -> tuple[tuple[int, int], ...]:
    """At most `most` pairs whose sums differ clearly from what the model predicts, the largest difference first.

    heard    the round that counted pairs, by `codes`
    decoded  the model decoded from the rounds before it
    """
    paired, share = codes.paired(rows), decoded.units / len(rows)
    p, guess = expit(logits(decoded, rows)), expected(heard.question, paired) / heard.question.steps
    mean, spread = share * (p - guess), share * p * (1 - p)
    far, top = dict[tuple[int, int], float](), 0
    for at in heard.question.fields:
        field, own = codes.pairs[at], paired[:, at] - codes.fields[at].start
        sums = heard.cells[top : top + field.size]
        variance = heard.noise**2 + _by_cell(own, spread, field.size)
        square = ((sums - _by_cell(own, mean, field.size)) ** 2 / variance).sum()
        far[field.both] = (float(square) - sums.size) / math.sqrt(2 * sums.size)
        top += field.size
    ordered = sorted(far, key=lambda both: -far[both])
    return tuple(both for both in ordered[:most] if far[both] > FAR)


def _by_cell(own: CodeMatrix, values: Floats, size: int) -> Floats:
    """Sums of values (rows, columns) by cell, (size, columns)."""
    return np.column_stack([np.bincount(own, column, size) for column in values.T])


def write_sample(batches: Sequence[PublicBatch], codes: Codes, staged: Staged, path: str) -> Ref:
    """Write codes (rows, fields) of the sample of staged public rows that models are decoded on, as a NumPy file."""
    found = sampled_of(lambda: (read_frame(batch.ref, staged) for batch in batches), codes)
    with staged.create(path) as sink:
        np.save(sink, found, allow_pickle=False)
    return sink.ref


def read_sample(sample: Ref, staged: Staged) -> CodeMatrix:
    """The codes that `write_sample` wrote. Raises NotVerified if the file is not what was written."""
    found: CodeMatrix = np.load(io.BytesIO(staged.read(sample)), allow_pickle=False)
    return found


def coded_batches(batches: Sequence[PublicBatch], codes: Codes, staged: Staged) -> Iterator[CodeMatrix]:
    """Codes (rows, fields) of all staged public rows, batch by batch."""
    return (codes.of(read_frame(batch.ref, staged)) for batch in batches)


def public_rows(batches: Sequence[PublicBatch], staged: Staged) -> pl.DataFrame:
    """Staged public rows."""
    return pl.concat(read_frame(batch.ref, staged) for batch in batches)


def inferred(
    decoded: Decoded, batches: Iterable[CodeMatrix], encoding: Encoding, claim: Mapping[str, str]
) -> Iterator[bytes]:
    """Labels inferred for public rows, with the probability of each class: the parts of an Arrow file of
    `inferred_schema`, one for each batch and its end. `claim` names the session, and its guarantee."""
    schema, sink, first = inferred_schema(len(encoding.classes), dict(claim)), io.BytesIO(), 0
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        for rows in batches:
            file.write_batch(
                pa.record_batch(_inferred(decoded, rows, first, encoding, claim["session"]), schema=schema)
            )
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
    known = {name: column.vocabulary for name, column in columns.items() if isinstance(column, OneHot)}
    fields = {field.name: field for field in (codes.fields[at] for at in codes.fine)}
    parts = [(name, make_pipeline(clean(columns[name]), _code(field, known)), [name]) for name, field in fields.items()]
    coded = column_transformer(parts, encoding.features)
    if encoding.bounds is not None:
        number = TalliedNumber(decoded.weights, decoded.intercept, *encoding.bounds)
        return Published([("encode", coded), ("student", number)])
    model = Tallied(decoded.weights, decoded.intercept, decoded.prior, list(encoding.classes)).fit()
    if not codes.pairs:
        return Published([("encode", coded), ("student", model)])
    both = [[codes.fine.index(at) for at in field.both] for field in codes.pairs.values()]
    added = np.zeros((len(both), 2, codes.size), np.int64)
    for tables, field in zip(added, codes.pairs.values(), strict=True):
        for table, at, part in zip(tables, field.both, field.parts, strict=True):
            table[codes.span(at)] = part
        tables[0] += field.start
    return Published([("encode", coded), ("pairs", Pairs(np.array(both), added)), ("student", model)])


def _code(field: CodedField, known: Mapping[str, Sequence[str]]) -> Code:
    if isinstance(field, NumberField):
        return Code(field.start, cuts=list(field.cuts))
    if not isinstance(field, WordField):
        raise TypeError(f"a linear student reads no vectors, such as {field.name!r}: see check_columns")
    others = [word for word in known[field.name] if word not in field.words]
    return Code(field.start, words=list(field.words), others=others)


def measured_at_both(student: Pipeline, codes: Codes, path: str, encoding: Encoding) -> AnyPublicTest:
    """Measures of the student on the public labelled rows at `path`, at both operating points if its label is a class.

    Raises WrongInput if the table does not fit.
    """
    rows, truth = labelled_rows(path, encoding)
    X = codes.of(rows)[:, list(codes.weighed)]
    found = tested(student["student"], X, truth, encoding, path)
    if not isinstance(found, PublicTest):
        return found
    odds = at_prior_odds(student["student"], X, truth, encoding.classes)
    return found.model_copy(update={"prior_odds": odds})
