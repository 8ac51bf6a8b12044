"""The plan: the whole configuration, public and frozen.

A TOML file becomes pydantic models, checked before anything is read. Nothing in a plan may come from private rows:
classes, features, k, cutoff and hyper-parameters are declared or derived from public tables. Its JSON schema serves
as the parameters of the Prefect flows. What is wrong with a plan is one sentence: the field, the value and
the rule. Checked by tests/artifacts/test_plan.py
"""

import json
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError, model_validator

from concord.artifacts.errors import GONE, WrongInput
from concord.artifacts.learners import RelabelPlan, StudentPlan, TeachersPlan
from concord.artifacts.sections import (
    AUTO,
    DAY_PATTERN,
    MECHANISMS,
    NAME_PATTERN,
    TALLIES,
    AboutPlan,
    DataPlan,
    LabelingPlan,
    PrivacyPlan,
    PrivateTestPlan,
    Section,
    StreamPlan,
    near,
)
from concord.artifacts.sources import A_PATH, A_SOURCE, TableSource
from concord.artifacts.table_schema import read_schema

Way = Literal["votes", "tallies", "sketch", "hypothesis"]
LINEAR = {"learner": "linear"}
"""The student of a plan for tallies that names none."""


class Plan(Section):
    """The whole plan.

    Without [teachers] and [labeling] there is no ensemble, and the student must be universal. Tallies have no ensemble
    either: their own model is the student if no other is named.
    """

    data: DataPlan
    """Where the tables lie and what their columns mean."""
    privacy: PrivacyPlan
    """What this session may spend, the domain it is spent in, and what is secret."""
    teachers: TeachersPlan = Field(default_factory=TeachersPlan)  # only if needed: it imports learners
    """The number of shards of the private rows, and the estimator that learns on each."""
    labeling: LabelingPlan = LabelingPlan(mechanism="none")
    """How private rows are asked for labels of public ones, and when a session ends."""
    stream: StreamPlan | None = None
    """Private rows that arrive period by period, with a release for each period."""
    relabel: RelabelPlan | None = None
    """Relabelling of a secret subset of the private rows before teachers learn."""
    student: StudentPlan = Field(default_factory=StudentPlan)
    """The published classifier."""
    test: PrivateTestPlan | None = None
    """Private units that are set aside to evaluate students on."""
    about: AboutPlan = AboutPlan()
    """Facts about the publication."""
    folder: str = "."
    """Where its relative paths start: the plan's own folder."""

    @model_validator(mode="before")
    @classmethod
    def schema_is_read(cls, given: Any) -> Any:
        data = given.get("data") if isinstance(given, dict) else None
        if not isinstance(data, dict) or not isinstance(data.get("schema"), str | Path):
            return given
        return {**given, "data": {**data, "schema": read_schema(Path(given.get("folder", "."), data["schema"]))}}

    @model_validator(mode="before")
    @classmethod
    def linear_unless_it_says_otherwise(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        labeling, student = given.get("labeling"), given.get("student", {})
        if not (isinstance(labeling, dict) and labeling.get("mechanism") == TALLIES and isinstance(student, dict)):
            return given
        named = {"learner", "estimator"} & student.keys()
        return given if named else {**given, "student": {**student, **LINEAR}}

    @model_validator(mode="after")
    def sections_fit_together(self) -> Self:
        rules = (_meaningful, _asked, _chosen, _streamed, _sketched, _secret, _tested)
        for sentence in chain.from_iterable(rule(self) for rule in rules):
            raise ValueError(sentence)
        return self

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways in which its student learns from private rows, one session each; the last one has the student."""
        unsaid: tuple[Way, ...] = ("votes",) if self.teachers.count else ("tallies",)
        by_sums: tuple[Way, ...] = ("tallies",) if self.data.declared is None else ("sketch",)
        by_question: dict[str, tuple[Way, ...]] = {"tallies": by_sums, "none": ()}
        chosen: tuple[Way, ...] = ("hypothesis",) if self.student.learner == "universal" else ()
        return (*by_question.get(self.labeling.asking, unsaid), *chosen)

    def naming(self, mechanism: str, cutoff: int | None = None) -> "Plan":
        """The plan with that mechanism, without keys that it has no use for. Raises WrongInput if that is no plan."""
        tables: dict[str, Any] = self.model_dump(exclude_unset=True)
        tallied, labeling = mechanism == TALLIES, {**tables["labeling"], "mechanism": mechanism}
        for key in {"cutoff", "queries"} - {*MECHANISMS.get(mechanism, ())}:
            labeling.pop(key, None)
        student = tables.get("student", {})
        if tallied:
            tables.pop("teachers", None)
            if not {"learner", "estimator"} & student.keys():
                tables["student"] = LINEAR
        elif cutoff is not None:
            labeling["cutoff"] = cutoff
        data = {key: "" if key in ("private", "public", "test") else value for key, value in tables["data"].items()}
        named = parse_plan({**tables, "data": data, "labeling": labeling})
        return named.model_copy(update={"data": self.data})  # its tables may be snapshots, which no plan can name

    @property
    def undecided(self) -> bool:
        """Whether `auto` is still to choose between votes of teachers and tallies of the rows."""
        return self.labeling.asking == AUTO

    @property
    def tallied(self) -> bool:
        """Whether private rows are asked for tallies, and labels are inferred."""
        return self.labeling.asking == TALLIES

    @property
    def epsilon_of_labels(self) -> float:
        """The ε that released labels may spend: all, or what the choice of a universal student leaves."""
        return self.privacy.epsilon - self.epsilon_beside_labels

    @property
    def epsilon_beside_labels(self) -> float:
        """The ε that the choice of a universal student takes from labels; 0 without one, or without labels."""
        return (self.student.epsilon or 0.0) if "hypothesis" in self.ways else 0.0

    @property
    def epsilon_of_choice(self) -> float:
        """The ε that the choice of a universal student may spend."""
        return self.student.epsilon or self.privacy.epsilon

    def path(self, field: Literal["private", "public", "test"]) -> str:
        """A data path of the plan, made absolute; a folder, glob or address stays one. Raises WrongInput if there is
        no path, as for a table that is not a file and was not read yet."""
        given = getattr(self.data, field)
        if given is None:
            raise WrongInput(f"data.{field} must be given in the plan")
        if not isinstance(given, str):
            raise WrongInput(f"data.{field} names no file: a run reads it, and this reads files alone")
        return given if "://" in given else str(Path(self.folder, given).absolute())


Wrong = Iterator[str]
"""The rules of a plan: each gives a sentence if a plan breaks it. The first sentence is shown."""


def _meaningful(plan: Plan) -> Wrong:
    """A δ at which the guarantee says little about some unit."""
    whole = plan.privacy.delta * (plan.labeling.rows or 0)
    if whole >= 1:
        rule = f"privacy.delta times labeling.rows must be below 1, got {whole:.3g}"
        yield f"{rule}: so large a δ lets units be published whole. Write a smaller δ"


def _asked(plan: Plan) -> Wrong:
    """Sections that the plan's way of asking private rows does not use, and those that it needs."""
    mechanism, teachers, learner = plan.labeling.mechanism, plan.teachers.count, plan.student.learner
    needed = "it needs labeling.mechanism = 'tallies'"
    match plan.labeling.asking:
        case "tallies" | "auto" if plan.data.text:
            rule = f"data.text does not apply to labeling.mechanism = {mechanism!r}: tallies have a code for each value"
            yield f"{rule}. Name a mechanism by which teachers vote"
        case "tallies" if learner == "universal":
            yield "student.learner = 'universal' is chosen beside votes or alone, not beside tallies"
        case "tallies" if teachers:
            yield "teachers do not apply to labeling.mechanism = 'tallies', which asks the rows directly"
        case "tallies" if plan.relabel:
            yield "relabel does not apply to labeling.mechanism = 'tallies': no teacher learns from rows"
        case "tallies":
            return
        case _ if plan.data.bounds:
            yield f"data.bounds declares a number as label, on which teachers cannot vote: {needed}"
        case _ if plan.stream:
            yield f"stream is of running sums: {needed}, got {mechanism!r}"
        case "auto" if not teachers and (not plan.labeling.rows or learner == "universal"):
            rule = "teachers.count must be given for labeling.mechanism = 'auto'"
            yield f"{rule}, or else labeling.rows, by which tallies are weighed"
        case "auto":
            return
        case _ if learner == "linear":
            yield f"student.learner = 'linear' is the model that tallies are decoded to: {needed}, got {mechanism!r}"
        case "none" if learner == "fitted":
            yield "labeling must be given, since the student is fitted to released labels"
        case "none" if teachers:
            yield "teachers are only valid with [labeling], which asks for their votes"
        case "votes" if not teachers:
            yield "teachers.count must be given and at least 1, since [labeling] asks for votes"


def _chosen(plan: Plan) -> Wrong:
    """A universal student needs two classes, and ε beside labels."""
    of_choice, whole = plan.student.epsilon, plan.privacy.epsilon
    if plan.student.learner != "universal":
        return
    if len(plan.data.classes) != 2:
        yield f"student.learner = 'universal' is for two classes, got {len(plan.data.classes)} in data.classes"
    if plan.labeling.asking == "none":
        if of_choice is not None:
            yield "student.epsilon is only valid with [labeling]: without it the choice has all of privacy.epsilon"
    elif of_choice is None or of_choice >= whole:
        rule = f"student.epsilon must be given and below privacy.epsilon = {whole:g}"
        yield f"{rule}, because labels cost ε as well, got {of_choice}"


def _streamed(plan: Plan) -> Wrong:
    """A stream is of tallies of rows in local files, whose units or rows come once."""
    if plan.stream is None:
        return
    if plan.privacy.secret != "rows":
        yield "stream is for privacy.secret = 'rows': which units arrive when is secret"
    if plan.test is not None:
        yield "a plan has [stream] or a private [test], not both: name a public table in data.test"
    if plan.data.bounds is not None:
        yield "stream has no number as label: leave data.bounds out, and write ranges as classes"
    if not isinstance(plan.data.private, str) or "://" in plan.data.private:
        rule = "data.private must be local files if there is a [stream]"
        yield f"{rule}: what has arrived is known by their names; write each delivery to one of its own"
    why = "a unit is asked in the first period in which it has a row, and in no other"
    yield from _unless_named(
        plan, "stream.delivery", plan.stream.delivery, "be 'each row once', since data.unit is not given", why
    )


def _sketched(plan: Plan) -> Wrong:
    """A schema takes the place of public rows: for tallies of secret rows, at one time."""
    if plan.data.declared is None:
        return
    if plan.privacy.secret == "labels":
        rule = "data.schema does not apply to privacy.secret = 'labels', since the rows themselves are public then"
        yield f"{rule}: name them in data.public, or give data.public_share"
    if plan.labeling.asking != TALLIES:
        rule = "data.schema needs labeling.mechanism = 'tallies', since no teacher votes on synthetic rows"
        yield f"{rule}, got {plan.labeling.mechanism!r}"
    if plan.stream is not None:
        yield "data.schema cannot be used with [stream]: name a public table in data.public"


def _secret(plan: Plan) -> Wrong:
    """Where public rows come from, and who may relabel: by what is secret of a unit."""
    data, labels_alone = plan.data, plan.privacy.secret == "labels"
    if data.declared is None and data.public is None and data.public_share is None:
        rule = "data.public must be given, or data.schema if there are no public rows"
        yield f"{rule}, or else data.public_share if privacy.secret = 'labels'"
    if data.public_share is not None and not labels_alone:
        yield "data.public_share makes features of private rows public: it needs privacy.secret = 'labels'"
    if labels_alone and isinstance(data.private, TableSource) and not data.private.ordered:
        rule = "data.private must be files or a frame if privacy.secret = 'labels'"
        yield f"{rule}: a query has no order, so a label could move other rows"
    if plan.relabel is None:
        return
    if labels_alone:
        yield "relabel is proved if rows are secret, not for privacy.secret = 'labels'"
    if len(data.classes) > 2:
        yield f"relabel is proved for two classes alone, got {len(data.classes)} in data.classes"
    if "votes" not in plan.ways:
        yield "relabel is only valid with [labeling], which asks for the teachers' votes"


def _tested(plan: Plan) -> Wrong:
    """Units that are set aside have names that stay."""
    if plan.test is None:
        return
    why = "a unit is in the test part by its name, for the domain's whole life"
    yield from _unless_named(plan, "test.columns", plan.test.columns, "be given, since data.unit is not", why)
    if plan.data.label in (plan.test.columns or ()):
        yield f"test.columns must not hold the label {plan.data.label!r}, which may be corrected"


def _unless_named(plan: Plan, key: str, given: Any, must: str, why: str) -> Wrong:
    """A key that takes the place of `data.unit`: it must be given without it, and only then."""
    if plan.data.unit is None and given is None:
        yield f"{key} must {must}: {why}"
    if plan.data.unit is not None and given is not None:
        yield f"{key} does not apply, since data.unit = {plan.data.unit!r} names the units: {why}"


def load_plan(path: Path) -> Plan:
    """The plan in a TOML file. Raises WrongInput with one sentence on the first thing wrong with it."""
    return parse_plan(read_tables(path))


def read_tables(path: Path) -> dict[str, Any]:
    """The nested tables of a TOML file, with its folder. Raises WrongInput if it cannot be read."""
    try:
        content = path.read_bytes()
        tables = tomllib.loads(content.decode(json.detect_encoding(content)))  # Notepad and PowerShell write marks
    except FileNotFoundError:
        close = get_close_matches(path.stem, sorted(file.stem for file in path.parent.glob("*.toml")), n=1)
        meant = f"; did you mean {path.with_name(close[0])}.toml?" if close else ": `concord init` writes one"
        raise WrongInput(f"the plan {path} does not exist{meant}") from None
    except (OSError, UnicodeDecodeError):
        raise WrongInput(f"the plan {path} cannot be read as a text file") from None
    except tomllib.TOMLDecodeError as wrong:
        raise WrongInput(f"the plan {path} is not TOML: {wrong}") from None
    return {**tables, "folder": str(path.absolute().parent)}


Parsed = TypeVar("Parsed", bound=BaseModel)


def parse_plan(tables: dict[str, Any]) -> Plan:
    """The plan in nested tables. Raises WrongInput naming the first wrong field, its value and the rule.

    An unknown key is named first: if it is a typing error, the key that was meant is missing.
    """
    return parsed(Plan, tables)


def parsed(kind: type[Parsed], tables: dict[str, Any]) -> Parsed:
    """A plan, or one section of it, in nested tables. Raises WrongInput as `parse_plan`."""
    try:
        return kind.model_validate(tables)
    except ValidationError as wrong:
        first = min(wrong.errors(), key=lambda error: error["type"] != "extra_forbidden")
        raise WrongInput(error_in_words(first, kind)) from None


RULES = {
    "dict_type": "must be a table of keys",
    "model_type": "must be a section with keys of its own",
    "tuple_type": "must be a list, in square brackets",
    "too_short": "must hold at least {min_length} of them",
    "too_long": "must hold at most {max_length} of them",
    "string_type": "must be text, in quotes",
    "string_unicode": "must be Unicode text, without half a pair of surrogates",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
}
"""Rules in TOML's terms, for pydantic's in Python's."""
PATTERNS = {
    NAME_PATTERN: "must be 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first",
    DAY_PATTERN: "must be a date such as 2026-12-31",
}
"""The rule of each pattern of a text."""
BRANCHES = ("constrained-float", A_PATH, A_SOURCE)
"""Pydantic's names for the types of a field, which are not keys of the plan."""


def error_in_words(error: Any, kind: type[BaseModel]) -> str:
    """What an error of pydantic's says of a plan, or of a section of that kind: the field, its value and the rule."""
    steps = [step for step in error["loc"] if step not in BRANCHES]
    field = ".".join(map(str, steps)) or "plan"
    if error["type"] == "extra_forbidden" and field in GONE:
        return f"{field} is no longer a key of the plan: {GONE[field]}"
    if error["type"] == "extra_forbidden":
        return f"{field} is not a key of the plan{near(str(steps[-1]), _known(kind, tuple(steps[:-1])))}"
    if error["type"] == "missing":
        return f"{field} must be given in the plan"
    if error["type"] == "value_error":
        return f"{field}: {error['ctx']['error']}" if error["loc"] else str(error["ctx"]["error"])
    rule = PATTERNS.get(error.get("ctx", {}).get("pattern")) or RULES.get(
        error["type"], error["msg"].replace("Input should", "must")
    )
    shown = "" if A_SOURCE in error["loc"] else f", got {error['input']!r}"  # an address may hold a password
    return f"{field} {rule.format_map(error.get('ctx', {}))}{shown}"


def _known(kind: type[BaseModel], place: tuple[Any, ...]) -> list[str]:
    """The keys of the section at that place."""
    model: Any = kind
    for step in place:
        model = _model_in(model.model_fields[step].annotation)
    return [*model.model_fields]


def _model_in(annotation: Any) -> Any:
    """The model of the section that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
