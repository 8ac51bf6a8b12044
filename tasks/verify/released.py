"""Verify the released files of a session: each is what its kind releases, and says what the certificate says of it.

    votes    tables of labels                                 counted
    sums     rounds, releases or steps (tasks.verify.sums) ─ inferred labels, synthetic rows
    answers  repeated by the certificate

Assumes      the record of the session was compared with its own settings and with the ledger's excerpt
Guarantees   found and named: a file that no such session releases, in any of its fields (tasks.verify.forms); sums that
             do not fit one another or what was paid for; an answer other than the certified one; figures of a private
             test other than the function that made them gives of its counts; tables of labels with other rows, classes,
             outcomes or claims, or in other numbers; synthetic rows with other labels than the last released model
             infers
Not covered  what else a table holds that says another version of a library wrote it: bytes are compared with those that
             this one writes; that a model was decoded from these sums: it follows from public rows as well, which are
             not published, or from the synthetic rows of a sketch, which are
             Checked by tests/tasks/verify/test_every_field.py and test_tampering.py
"""

import io
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import inferred_schema
from concord.artifacts.measures import UnitsTested
from concord.artifacts.published import PROBABILITY_DIGITS, SYNTHETIC, SYNTHETIC_FILE
from concord.artifacts.records import SessionRecord
from concord.artifacts.schemas import Ref
from concord.tasks.data.codes import CodeMatrix
from concord.tasks.data.grid import label_points, probability_name
from concord.tasks.student.private_figures import test_figures
from concord.tasks.verify.checks import alike, equal
from concord.tasks.verify.forms import DecodedForm, LearnedForm, ReleaseForm, RoundForm, SketchForm
from concord.tasks.verify.recompute import PrivateTestSettings, SketchSettings, StreamSettings, read_settings, releases
from concord.tasks.verify.recompute_gaussian import TalliesSettings
from concord.tasks.verify.records import PublishedSession
from concord.tasks.verify.sums import check_models, check_rounds, check_season, check_sketch

SINGLE_PRECISION = 1e-5
"""Tolerance for the sum of probabilities, which are stored in single precision."""
LEAST = 1e-9
"""Least distance of a class's share from 0 and 1, and tolerance for doubles."""
SURELY = 1e-3
"""Tolerance for log-odds of probabilities in single precision."""
NOT_DECODED = "decoding from the released sums and the {} is not repeated"


def released_as_certified(record: SessionRecord, at: PublishedSession) -> str:
    """Check that a session released as many labels or answers as are counted, no more than its settings pay for, and in
    files that say so. Raises NotVerified."""
    counts, kind = record.counts, read_settings(record.mechanism.settings)
    what = releases(kind, record.purpose)
    alone = 1 if what == "answers" and kind.cutoff is None else None
    for name, most in (("asked", alone if kind.queries is None else kind.queries), ("refused", kind.cutoff)):
        if most is not None and getattr(counts, name) > most:
            raise NotVerified(f"{getattr(counts, name)} were {name}, but the settings pay for {most}")
    for path, times in Counter(file.path for file in record.files).items():
        if times > 1:  # reading them would never end
            raise NotVerified(f"the published file {path} is named {times:,} times")
    equal("the number asked", counts.answered + counts.refused, counts.asked)
    if what != "answers":
        equal("the outcomes of released files", record.outcomes, ())
    if what == "labels":
        return _votes(record, at)
    equal("the number of rows not asked", counts.not_asked, 0)
    if what == "answers":
        return _answers(record, at)
    equal("the number of teachers", record.teachers, 0)
    return _learned(record, at)


def _learned(record: SessionRecord, at: PublishedSession) -> str:
    """Check a chosen hypothesis; or sums, with the models that were decoded from them and the tables that follow from
    the last one."""
    kind = read_settings(record.mechanism.settings)
    tables = {f"{record.session}/labels.arrow"}
    if isinstance(kind, SketchSettings):
        tables |= {f"{record.session}/{SYNTHETIC_FILE}"}
    forms = at.forms(record, (file for file in record.files if file.path not in tables))
    equal("the number of files released", len(forms), record.counts.asked)
    learned = [form for form in forms if isinstance(form, LearnedForm)]
    table, by_name = LabelTable(record, at), {file.path.rpartition("/")[2]: file for file in record.files}
    if (inferred := by_name.get("labels.arrow")) is not None:
        table.check_inferred(inferred, learned[-1].decoded)
    if not learned:
        return "one hypothesis was released"
    tallies = kind.only(TalliesSettings)
    if isinstance(kind, StreamSettings):
        said = check_season(kind, [form for form in learned if isinstance(form, ReleaseForm)])
    else:
        said = check_rounds(tallies, [form for form in learned if isinstance(form, RoundForm)])
    check_models(tallies, learned)
    if isinstance(kind, SketchSettings):
        steps, synthetic = [form for form in learned if isinstance(form, SketchForm)], by_name.get(SYNTHETIC_FILE)
        file = b"" if synthetic is None else at.named(synthetic)
        codes = check_sketch(kind, steps, pl.read_parquet(io.BytesIO(file)) if synthetic else None)
        if synthetic is not None:
            (cells,) = (step.synthetic.cells.encode() for step in steps if step.synthetic is not None)
            table.check_synthetic(synthetic, codes, steps[-1].decoded, cells)
    return f"{said}; {NOT_DECODED.format(record.mechanism.facts.of_rows)}"


def _answers(record: SessionRecord, at: PublishedSession) -> str:
    """Check that the figures of a private test follow from its counts, and that there are as many answers as are
    counted."""
    counts, kind = record.counts, read_settings(record.mechanism.settings)
    equal("the number of answers that are certified", len(record.outcomes), len(record.files))
    for outcome, form in zip(record.outcomes, at.forms(record, record.files), strict=True):
        if isinstance(outcome, UnitsTested):
            of_student = read_settings(at.certificate.mechanism.settings)
            equal("the bounds of a tested number", kind.bounds, of_student.bounds)
            check_tested(outcome, kind.only(PrivateTestSettings), form.content)
    refused = sum(getattr(outcome, "outcome", "") == "refused" for outcome in record.outcomes)
    equal("the number of answers", (counts.asked, counts.refused), (len(record.files), refused))
    return f"{counts.answered} answers and {counts.refused} refusals match the certificate's counts"


def check_tested(test: UnitsTested, kind: PrivateTestSettings, released: Mapping[str, Any]) -> None:
    """Raise NotVerified unless the figures of a private test of these settings are those of its released counts."""
    equal("whether the label is a number", kind.bounds is not None, kind.classes == 0)
    try:
        alike("the private test", test_figures(kind, released, test.earlier), test)
    except (ValueError, IndexError, ArithmeticError):
        raise NotVerified("the file of a private test is not what such a test releases") from None
    if kind.bounds is not None:
        equal("whether the constant is within the bounds", kind.bounds[0] <= kind.constant <= kind.bounds[1], True)


class LabelTable:
    """The tables of labels of a session, row by row: what each must say, and the class of each place in scores."""

    def __init__(self, record: SessionRecord, at: PublishedSession) -> None:
        claim, whole = record.guarantee, at.certificate.guarantee
        said = {
            "session": record.session,
            "epsilon": repr(claim.epsilon),
            "delta": repr(claim.delta),
            "unit": whole.unit,
            "neighbours": whole.neighbours,
            "mechanism": record.mechanism.name,
        }
        self.session, self.kind, self.at = record.session, read_settings(record.mechanism.settings), at
        self.claim = {name.encode(): text.encode() for name, text in said.items()}
        self.rows, self.classes = 0, dict[int, str]()

    def check(self, path: str, batch: pa.RecordBatch) -> None:
        """Raise NotVerified unless the next rows are this session's, with its claim."""
        equal(f"the claim in {path}", batch.schema.metadata or {}, self.claim)
        for session in batch["session"].unique().to_pylist():
            equal(f"the session of the labels in {path}", session, self.session)
        due = pa.array(np.arange(self.rows, self.rows + batch.num_rows, dtype=np.uint64))
        if not batch["row"].equals(due):
            raise NotVerified(f"the rows in {path} are not numbered from {self.rows} on")
        self.rows += batch.num_rows

    def scored(self, path: str, labels: pa.Array, scores: Any, gap: float = 0) -> None:
        """Raise NotVerified unless the label is the class of largest score (rows, classes), where one is larger than
        all others by more than a gap, and a class always has the same place."""
        ranked = np.sort(scores, axis=1)
        surely = np.flatnonzero(ranked[:, -1] - ranked[:, -2] > gap)
        places = scores.argmax(axis=1)[surely].tolist()
        for place, name in {*zip(places, labels.take(pa.array(surely)).to_pylist(), strict=True)}:
            equal(f"the class of largest score in {path}", name, self.classes.setdefault(place, name))
        equal(f"the number of classes in {path}", len({*self.classes.values()}), len(self.classes))

    def check_inferred(self, ref: Ref, model: DecodedForm | None) -> None:
        """Check a table of labels that were inferred by the model of the last round or release."""
        classes = self.kind.classes or 0
        for batch in self.at.batches(ref, inferred_schema):
            self.check(ref.path, batch)
            equal(f"the outcomes in {ref.path}", batch["outcome"].unique().to_pylist(), ["inferred"])
            if not classes:
                (low, high), labels = self.kind.stated_bounds(), np.asarray(batch["label"])
                if not np.all(np.abs(labels - (low + high) / 2) <= (high - low) * (1 / 2 + 1e-9)):
                    raise NotVerified(f"labels in {ref.path} are not between {low:g} and {high:g}")
                continue
            odds = batch["scores"].flatten().to_numpy().astype(np.float64).reshape(batch.num_rows, -1)
            add_up = np.all(np.abs(odds.sum(axis=1) - 1) < SINGLE_PRECISION)
            if odds.shape[1] != classes or not add_up or odds.min() < 0:
                raise NotVerified(f"the scores in {ref.path} are no probabilities of {classes} classes")
            self.scored(ref.path, batch["label"], odds)
            if model is not None:
                self.scored(ref.path, batch["balanced"], _risen(odds, model), gap=SURELY)

    def check_synthetic(self, ref: Ref, codes: CodeMatrix, model: DecodedForm | None, cells: bytes) -> None:
        """Check that synthetic rows, of these codes (rows, F), have the labels that the last released model infers, or
        the classes that are drawn by it and the released cells; where the draw is too near to tell, either one."""
        classes = self.kind.classes or 0
        if model is None:
            raise NotVerified("the last step of a sketch must hold the model that labels its synthetic rows")
        file, again = self.at.named(ref), io.BytesIO()
        rows = pq.read_table(io.BytesIO(file))
        pq.write_table(rows, again, compression="none")  # whose bytes would depend on how it was built
        writer, this_writer = (pq.read_metadata(table).created_by for table in (io.BytesIO(file), again))
        if writer == this_writer:  # another version may write it otherwise
            equal(f"whether {ref.path} holds its rows alone", file == again.getvalue(), True)
        equal(f"the claim in {ref.path}", rows.schema.metadata or {}, {**self.claim, b"what": SYNTHETIC.encode()})
        labels, weights = rows.columns[-2 if classes else -1].combine_chunks(), np.array(model.weights)
        equal(f"the type of labels in {ref.path}", labels.type, pa.string() if classes else pa.float64())
        if codes.max(initial=-1) >= len(weights):
            raise NotVerified("the last released model has no weight for some code of synthetic rows")
        logits = sum((weights[of_field] for of_field in codes.T), np.tile(model.intercept, (len(codes), 1)))
        if classes:
            odds = logits if classes > 2 else np.column_stack([np.zeros(len(logits)), logits])
            self._check_drawn(ref.path, rows, odds, cells)
            return
        (low, high), place = self.kind.stated_bounds(), (1 + np.tanh(logits[:, 0] / 2)) / 2
        tolerance = LEAST * (high - low) + 8 * np.spacing(max(-low, high))
        if not np.allclose(labels, low * (1 - place) + high * place, rtol=0, atol=tolerance):
            raise NotVerified(f"the labels in {ref.path} are not those that the last released model infers")

    def _check_drawn(self, path: str, rows: pa.Table, odds: Any, cells: bytes) -> None:
        """Check the classes of synthetic rows and the probabilities beside them, of a model's log-odds (rows, classes),
        which are drawn by the released cells."""
        *features, label, probability = rows.column_names
        labels, classes = rows.columns[-2].combine_chunks(), odds.shape[1]
        equal(f"the last column of {path}", probability, probability_name(label, features))
        equal(f"the type of probabilities in {path}", rows.columns[-1].type, pa.float64())
        probabilities = np.exp(odds - odds.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        points, ends = label_points(len(odds), cells)[:, None], probabilities.cumsum(axis=1)[:, :-1]
        surely = np.abs(points - ends).min(axis=1) > LEAST
        drawn, stated = (points >= ends).sum(axis=1), rows.columns[-1].to_numpy()
        self.scored(path, labels, np.eye(classes)[drawn] * surely[:, None])
        due = probabilities[np.arange(len(drawn)), drawn]
        near = np.abs(stated - due) < 10.0**-PROBABILITY_DIGITS / 2 + LEAST
        if not (np.all(near | ~surely) and np.array_equal(stated, stated.round(PROBABILITY_DIGITS))):
            raise NotVerified(f"the probabilities in {path} are not those of the labels beside them")
        if len(names := {*self.classes.values(), *labels.unique().to_pylist()}) > classes or None in names:
            raise NotVerified(f"the labels in {path} are more than the {classes} classes of the settings")


def _votes(record: SessionRecord, at: PublishedSession) -> str:
    """Check the labels of rows that teachers voted on, in the order of release."""
    counts, paid = record.counts, read_settings(record.mechanism.settings).classes
    if not record.teachers:
        raise NotVerified(f"{record.mechanism.name} answers by votes, but the certificate states no teachers")
    for number, ref in enumerate(record.files):
        equal("the name of a table of labels", ref.path, f"{record.session}/labels/batch-{number:05d}.arrow")
    rows, labels, table = Counter[str](), set[str](), LabelTable(record, at)
    for ref in record.files:
        for batch in at.batches(ref):
            table.check(ref.path, batch)
            rows.update({kind["values"]: kind["counts"] for kind in batch["outcome"].value_counts().to_pylist()})
            labels.update(batch["label"].drop_null().unique().to_pylist())
            answered, scored = pc.equal(batch["outcome"], "answered"), batch["scores"].is_valid()
            equal(f"which rows of {ref.path} have a label", batch["label"].is_valid().equals(answered), True)
            if pc.any(scored).as_py():
                equal(f"which rows of {ref.path} have scores", scored.equals(answered), True)
                votes = batch["scores"].drop_null()
                table.scored(ref.path, batch["label"].drop_null(), votes.flatten().to_numpy().reshape(len(votes), -1))
    if paid is not None and len(labels) > paid:
        raise NotVerified(f"{len(labels)} classes were released, but the settings pay for votes on {paid}")
    for name, claimed in (("answered", counts.answered), ("refused", counts.refused), ("not asked", counts.not_asked)):
        equal(f"the number of rows {name}", rows[name], claimed)
    return f"{counts.answered} answers and {counts.refused} refusals match the certificate's counts"


def _risen(odds: Any, model: DecodedForm) -> Any:
    """Log-odds of each class less those of its share of the public rows, (rows, classes)."""
    prior, logs = np.array(model.prior).clip(LEAST, 1 - LEAST), np.log(np.maximum(odds, np.finfo(np.float32).tiny))
    if len(prior) > 1:
        return logs - np.log(prior / (1 - prior))
    return np.column_stack([np.zeros(len(odds)), logs[:, 1] - logs[:, 0] - np.log(prior / (1 - prior))])
