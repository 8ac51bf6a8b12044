"""The one form of each released JSON file: its known fields and no others, in the bytes that Concord writes.

    bytes ─ parsed by the form of the kind ─ written again ─ the same bytes? ─ fields that the certificate fixes

A form is a frozen model. `fixed` are the values that follow from the certificate's record of the session; they are
compared. What else a form holds was drawn, or follows from what was drawn, and is checked where that is known:
tasks.verify.released and tasks.verify.sums.

Assumes      the record was compared with its own settings and with the ledger's excerpt
Guarantees   found and named: a file that has other bytes, another name, a key more or less than its kind; another
             session, claim, format, mechanism, setting, question or answer than the certificate's
Not covered  what was drawn. Checked by tests/tasks/verify/test_every_field.py, which edits each field of each kind
"""

import json
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, ValidationError

from concord.artifacts.errors import NotVerified
from concord.artifacts.measures import TestRecord
from concord.artifacts.records import AnswerRecord, Outcome, SessionRecord
from concord.artifacts.schemas import Frozen, canonical_json
from concord.artifacts.table_schema import TableSchema
from concord.tasks.data.codes import CodedField, Codes
from concord.tasks.verify.checks import equal
from concord.tasks.verify.kinds import KindSettings, VotesSettings
from concord.tasks.verify.recompute import (
    PrivateTestSettings,
    SketchSettings,
    StreamSettings,
    UniversalSettings,
    read_settings,
)
from concord.tasks.verify.recompute_gaussian import TalliesSettings

Whole = tuple[int, ...]
FloatNumbers = tuple[float, ...]
NumberRows = tuple[FloatNumbers, ...]
Probability = Annotated[float, Field(ge=0, le=1)]
CountsOfErrors = Annotated[Whole, Field(min_length=8, max_length=8)]
"""Noisy counts of units by the places that errors are rounded to."""


class Form(Frozen):
    """A released file.

    name      of the file in the session's folder, by the number of the step that released it
    indented  whether it is written for people to read, or compact
    """

    session: str
    epsilon: float
    delta: float

    name: ClassVar[str]
    indented: ClassVar[bool] = False

    @classmethod
    def read(cls, text: bytes, path: str) -> Self:
        """The content of the file at `path`. Raises NotVerified unless these are the bytes that Concord writes."""
        try:
            content = cls.model_validate_json(text)
        except ValidationError as wrong:
            fault = wrong.errors()[0]
            where = ".".join(map(str, fault["loc"])) or "it"
            raise NotVerified(f"{path} is not what such a session releases: {where}: {fault['msg']}") from None
        if content.text != text:
            raise NotVerified(f"{path} holds other bytes than Concord writes for this content")
        return content

    @property
    def text(self) -> bytes:
        """The bytes that Concord writes."""
        content = self.content
        return (json.dumps(content, indent=2, sort_keys=True) if self.indented else canonical_json(content)).encode()

    @property
    def content(self) -> dict[str, Any]:
        """The fields that the file has, as JSON."""
        return self.model_dump(mode="json", exclude_unset=True)

    def fixed(self, record: SessionRecord, number: int) -> dict[str, object]:  # noqa: ARG002, for the others
        """The values that the record of its session gives to fields of file `number`."""
        return {}

    def check(self, record: SessionRecord, number: int, path: str) -> None:
        """Raise NotVerified unless the file's name and all fixed fields are those of the record."""
        equal("the name of a released file", path, f"{record.session}/{self.name.format(number)}")
        claim = {"session": record.session, **record.guarantee.model_dump(include={"epsilon", "delta"})}
        for field, value in {**claim, **self.fixed(record, number)}.items():
            equal(f"the {field} in {path}", getattr(self, field), value)


class QuestionForm(Frozen):
    """What a round asked: the fields of a `RoundQuestion`."""

    classes: int
    steps: int
    what: Literal["labels", "codes"]
    least: int
    count: int
    fields: Whole
    spans: tuple[tuple[int, int], ...]
    model: "ModelForm | None"


class ModelForm(Frozen):
    """A model of expected labels, in whole steps."""

    columns: int
    weights: str


class DecodedForm(Frozen):
    """A decoded model: see `tasks.student.decode.Decoded`."""

    weights: NumberRows
    intercept: FloatNumbers
    units: Annotated[int | float, Field(ge=0)]
    prior: tuple[Probability, ...]
    importance: FloatNumbers
    spread: NumberRows
    kappa: FloatNumbers
    moved: Probability


class NextForm(Frozen):
    """What the next round asks; `codes` if it asks by others."""

    fields: Whole
    model: ModelForm | None
    codes: Codes | None = None


class RoundForm(Form):
    """A round of tallies, with the model that was decoded from them, if they ask for labels."""

    format: Literal["concord round 2"]
    round: int
    scale: float
    question: QuestionForm
    sums: Whole
    decoded: DecodedForm | None
    next: NextForm | None

    name = "rounds/round-{:05d}.json"

    @property
    def following(self) -> NextForm | None:
        """The next question."""
        return self.next


class TablesForm(Frozen):
    """The groups of cells by which two-way tables are asked, a field for each column."""

    tables: tuple[CodedField, ...]


class SyntheticForm(Frozen):
    """Synthetic rows: the number of each narrow cell, in base64."""

    cells: str


class SketchForm(RoundForm):
    """A step of a sketch: tables or a round of labels.

    schema      the declared columns, in the first step
    units       estimated number of private units, in steps that ask for tables
    synthetic   synthetic rows, in the last of those; with more than two classes in the step of the first labels
    """

    model_config = ConfigDict(serialize_by_alias=True)

    declared: TableSchema | None = Field(default=None, alias="schema")
    units: float | None = None
    synthetic: SyntheticForm | None = None
    next: TablesForm | NextForm | None  # type: ignore[assignment]  # wider than that of other rounds

    @property
    def following(self) -> NextForm | None:
        """The next question, if it is not about two-way tables."""
        return self.next if isinstance(self.next, NextForm) else None


class ReleaseForm(Form):
    """A release of a season of a stream: running totals, how wide their noise is, and the model decoded from them."""

    format: Literal["concord release 2"]
    release: int
    season: int
    scales: FloatNumbers
    questions: tuple[QuestionForm, ...]
    sums: tuple[Whole, ...]
    totals: tuple[Whole, ...]
    spread: float
    decoded: DecodedForm

    name = RoundForm.name


LearnedForm = RoundForm | ReleaseForm
"""A file of sums from which a model is decoded."""


class AnswerForm(Form):
    """The answer to a question."""

    format: Literal["concord answer 2"]
    mechanism: str
    question: str
    code: str
    shards: int
    outcome: Outcome
    answer: Any

    name = "answers/answer-{:05d}.json"
    indented = True

    def fixed(self, record: SessionRecord, number: int) -> dict[str, object]:
        """The mechanism, the shards, the question if the session has one alone, and the certified answer."""
        alone, repeated = (
            read_settings(record.mechanism.settings).only(VotesSettings).question,
            record.outcomes[number],
        )
        assert isinstance(repeated, AnswerRecord)
        equal(f"the question in answer {number}", self.question, self.question if alone is None else alone)
        equal(f"whether answer {number} is none", self.answer is None, self.outcome != "answered")
        return {**dict(repeated), "mechanism": record.mechanism.name, "shards": record.teachers}


class BoxForm(Frozen):
    """A box in some columns, with a label inside; None is an open end."""

    kind: Literal["box"]
    columns: Whole
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    inside: Literal[0, 1]


class HypothesisForm(Form):
    """A chosen hypothesis, and the classes that its labels 0 and 1 stand for."""

    format: Literal["concord hypothesis 2"]
    classes: tuple[str, str]
    hypothesis: BoxForm

    name = "hypothesis.json"
    indented = True

    def fixed(self, record: SessionRecord, number: int) -> dict[str, object]:  # noqa: ARG002, it is alone
        """Nothing; a box has two ends in each of its columns."""
        ends = {len(self.hypothesis.columns), len(self.hypothesis.low), len(self.hypothesis.high)}
        equal("the number of ends in each column of a box", ends, {len({*self.hypothesis.columns}) or 1})
        return {}


class NumberTestForm(Form):
    """A private test of a number: noisy counts by the student's errors, and by those of a constant."""

    format: Literal["concord private test 2"]
    settings: dict[str, Any]
    errors: CountsOfErrors
    constant_errors: CountsOfErrors

    name = "test.json"
    indented = True

    def fixed(self, record: SessionRecord, number: int) -> dict[str, object]:  # noqa: ARG002, it is alone
        """Its settings."""
        return {"settings": record.mechanism.settings}


class ConfusionForm(Form):
    """A private test of a classifier: noisy counts by true and predicted class."""

    format: Literal["concord private test 2"]
    settings: dict[str, Any]
    classes: tuple[str, ...]
    right: int
    wrong: int
    matrix: tuple[Whole, ...]

    name = "test.json"
    indented = True

    def fixed(self, record: SessionRecord, number: int) -> dict[str, object]:
        """Its settings, and the certified classes and counts, if these are listed."""
        outcome = record.outcomes[number]
        assert isinstance(outcome, TestRecord)
        listed = {} if outcome.matrix is None else {"matrix": outcome.matrix}
        classes = tuple(item.name for item in outcome.classes)
        return {"settings": record.mechanism.settings, "classes": classes, **listed}


def form_of(kind: KindSettings) -> type[Form]:
    """The form of the files that a session of that kind releases, besides tables."""
    if isinstance(kind, PrivateTestSettings):
        return ConfusionForm if kind.classes else NumberTestForm
    return FORMS.get(type(kind), AnswerForm)


FORMS: dict[type[KindSettings], type[Form]] = {
    TalliesSettings: RoundForm,
    SketchSettings: SketchForm,
    StreamSettings: ReleaseForm,
    UniversalSettings: HypothesisForm,
}
"""Forms by kind; any other answers questions."""
