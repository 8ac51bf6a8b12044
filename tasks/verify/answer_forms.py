"""The forms of answers, hypotheses and private tests, and the form of each kind's released files.

Assumes      as tasks.verify.forms
Guarantees   as there
Not covered  as there. Checked by tests/tasks/verify/test_every_field.py
"""

from typing import Any, Literal

from concord.artifacts.measures import TestRecord
from concord.artifacts.records import AnswerRecord, Outcome, SessionRecord
from concord.artifacts.schemas import Frozen
from concord.tasks.verify.checks import equal
from concord.tasks.verify.forms import Form, ReleaseForm, RoundForm, SketchForm, Whole
from concord.tasks.verify.kinds import (
    Kind,
    PrivateTest,
    Sketch,
    Stream,
    Tallies,
    Universal,
    Votes,
)


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
        alone, repeated = Kind.of(record.mechanism.settings).only(Votes).question, record.outcomes[number]
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
    errors: Whole
    constant_errors: Whole

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


def form_of(kind: Kind) -> type[Form]:
    """The form of the files that a session of that kind releases, besides tables."""
    if isinstance(kind, PrivateTest):
        return ConfusionForm if kind.classes else NumberTestForm
    return FORMS.get(type(kind), AnswerForm)


FORMS: dict[type[Kind], type[Form]] = {
    Tallies: RoundForm,
    Sketch: SketchForm,
    Stream: ReleaseForm,
    Universal: HypothesisForm,
}
"""Forms by kind; any other answers questions."""
