"""The plan: the whole configuration, public and frozen.

A TOML file becomes pydantic models, checked before anything is read. Nothing in a plan may come from private rows:
classes, features, k, cutoff and hyper-parameters are declared or derived from public tables. Its JSON schema serves
as the parameters of the Prefect flows.
"""

import math
import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from concord.artifacts.errors import WrongInput
from concord.artifacts.learners import RelabelPlan, StudentPlan, TeachersPlan
from concord.artifacts.sections import (
    AUTO,
    MECHANISMS,
    TALLIES,
    AboutPlan,
    DataPlan,
    HomesPlan,
    LabelingPlan,
    PrivacyPlan,
    PrivateTestPlan,
    Section,
    StreamPlan,
)
from concord.artifacts.sources import TableSource
from concord.artifacts.table_schema import read_schema
from concord.artifacts.wrong_plan import in_one_sentence

Way = Literal["votes", "tallies", "sketch", "hypothesis"]
LINEAR = {"learner": "linear"}
"""The student of a plan for tallies that names none."""


class Plan(Section):
    """The whole plan.

    Without [teachers] and [labeling] nobody votes: the student must be universal then. Nor does anybody for tallies,
    whose own model is the student if no other is named.
    """

    data: DataPlan
    """Where the tables lie and what their columns mean."""
    privacy: PrivacyPlan
    """What this session may spend, the domain it is spent in, and what is secret."""
    teachers: TeachersPlan = Field(default_factory=TeachersPlan)  # only if needed: it imports learners
    """How many shards the private rows are split into, and what learns on each."""
    labeling: LabelingPlan = LabelingPlan(mechanism="none")
    """How private rows are asked for labels of public ones, and when a session ends."""
    stream: StreamPlan | None = None
    """Private rows that arrive period by period, with a release for each period."""
    homes: HomesPlan | None = None
    """Several holders of private rows, who add up noisy sums and show no row."""
    relabel: RelabelPlan | None = None
    """Relabelling of a secret subset of the private rows before teachers learn."""
    student: StudentPlan = Field(default_factory=StudentPlan)
    """The published classifier."""
    test: PrivateTestPlan | None = None
    """Private units that are set aside to try students out on."""
    about: AboutPlan = AboutPlan()
    """What is said about the publication."""
    folder: str = "."
    """Where its relative paths start: the plan's own folder."""

    @model_validator(mode="before")
    @classmethod
    def schema_is_read(cls, given: Any) -> Any:
        data = given.get("data") if isinstance(given, dict) else None
        if not isinstance(data, dict) or not isinstance(data.get("schema"), str):
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
        named = {"learner", "estimator", "candidates"} & student.keys()
        return given if named else {**given, "student": {**student, **LINEAR}}

    @model_validator(mode="after")
    def keys_are_of_how_rows_are_asked(self) -> Self:
        for askings, broken, sentence in BY_ASKING:
            if self.labeling.asking in askings and broken(self):
                raise ValueError(
                    sentence.format(
                        asked=self.labeling.mechanism,
                        classes=len(self.data.classes),
                        whole=self.privacy.epsilon,
                        epsilon=self.student.epsilon,
                    )
                )
        return self

    @model_validator(mode="after")
    def numbers_are_not_chosen_by(self) -> Self:
        if self.data.bounds is not None and self.student.candidates is not None:
            rule = (
                "student.candidates are compared by their wrong classes, which a number within data.bounds has none of"
            )
            raise ValueError(f"{rule}: name one in student.estimator, and compare others on data.test")
        return self

    @model_validator(mode="after")
    def streams_are_of_tallies(self) -> Self:
        if self.stream is None:
            return self
        if self.homes is not None:
            raise ValueError(
                "a plan has [homes] or [stream], not both: leave out [stream], and lead the homes; or give each home a "
                "plan of its own with a [stream], for `concord refresh`"
            )
        if self.privacy.secret != "rows":
            raise ValueError("stream is for privacy.secret = 'rows': which units arrive when is secret")
        if self.test is not None and self.data.unit is None:
            raise ValueError("stream has a private [test] only if data.unit names the units, each tested in one period")
        if self.student.candidates is not None:
            raise ValueError("stream has no student.candidates: units set aside test one student, as they arrive")
        if self.data.bounds is not None:
            raise ValueError("stream has no number as label: leave data.bounds out, and write ranges as classes")
        if not isinstance(self.data.private, str) or "://" in self.data.private:
            rule = "data.private must be local files if there is a [stream]"
            raise ValueError(f"{rule}: what has arrived is known by their names; write each delivery to one of its own")
        if (self.data.unit is None) == (self.stream.delivery is None):
            rule = (
                "stream.delivery must be 'each row once', since data.unit is not given"
                if self.data.unit is None
                else f"stream.delivery has no meaning, since data.unit = {self.data.unit!r} names the units"
            )
            raise ValueError(f"{rule}: a unit is asked in the first period in which it has a row, and in no other")
        return self

    @model_validator(mode="after")
    def homes_add_tallies(self) -> Self:
        if self.homes is None:
            return self
        if self.privacy.secret != "rows":
            raise ValueError("homes are for privacy.secret = 'rows'")
        if self.test is not None:
            raise ValueError("homes have no private [test] yet: name a public table in data.test")
        if not isinstance(self.data.public, str):
            raise ValueError("data.public must be a file if there are [homes], whose SHA-256 homes.public gives")
        return self

    @model_validator(mode="after")
    def candidates_are_tried_on_units_set_aside(self) -> Self:
        student, whole = self.student, self.privacy.epsilon
        if student.candidates is None or student.epsilon is None:
            return self
        if self.test is None:
            raise ValueError("student.candidates are compared on private units that [test] share sets aside: give it")
        if student.epsilon >= whole:
            rule = f"student.epsilon must be below privacy.epsilon = {whole:g}"
            raise ValueError(f"{rule}, since the test of the chosen student has the rest, got {student.epsilon:g}")
        softer = [candidate.model_copy(update={"refused": "soft"}) for candidate in student.candidates]
        if (self.tallied or self.undecided) and any(candidate in softer[:at] for at, candidate in enumerate(softer)):
            rule = "student.candidates must differ in more than refused"
            raise ValueError(f"{rule}, since labels inferred from tallies are soft and none is refused")
        return self

    @model_validator(mode="after")
    def rows_are_relabelled_or_public(self) -> Self:
        if self.data.declared is not None:
            self._check_sketched()
        elif self.data.public is None and self.data.public_share is None:
            raise ValueError(
                "data.public must be given, or data.schema if there are no public rows, or else data.public_share if "
                "privacy.secret = 'labels'"
            )
        if self.data.public_share is not None and self.privacy.secret != "labels":
            rule = "data.public_share makes features of private rows public"
            raise ValueError(f"{rule}: it needs privacy.secret = 'labels'")
        if (
            self.privacy.secret == "labels"
            and isinstance(self.data.private, TableSource)
            and not self.data.private.ordered
        ):
            rule = "data.private must be files or a frame if privacy.secret = 'labels'"
            raise ValueError(f"{rule}: a query or a Delta table has no order, so a label could move other rows")
        if self.relabel is None:
            return self
        if self.privacy.secret == "labels":
            raise ValueError("relabel is proved if rows are secret, not for privacy.secret = 'labels'")
        if len(self.data.classes) > 2:
            raise ValueError(f"relabel is proved for two classes alone, got {len(self.data.classes)} in data.classes")
        if not self.votes:
            raise ValueError("relabel has no meaning without [labeling], which asks for the teachers' votes")
        return self

    def _check_sketched(self) -> None:
        """Raise ValueError if a schema has no place in the plan."""
        if self.privacy.secret == "labels":
            rule = "data.schema has no meaning for privacy.secret = 'labels', since the rows themselves are public then"
            raise ValueError(f"{rule}: name them in data.public, or give data.public_share")
        if not self.tallied:
            rule = "data.schema needs labeling.mechanism = 'tallies', since no teacher votes on synthetic rows"
            raise ValueError(f"{rule}, got {self.labeling.mechanism!r}")
        for section, given in (("homes", self.homes), ("stream", self.stream)):
            if given is not None:
                raise ValueError(f"data.schema has no place beside [{section}]: name a public table in data.public")

    @model_validator(mode="after")
    def tested_units_have_names(self) -> Self:
        if self.test is None:
            return self
        if (self.data.unit is None) == (self.test.columns is None):
            rule = (
                "test.columns must be given, since data.unit is not"
                if self.data.unit is None
                else (f"test.columns has no meaning, since data.unit = {self.data.unit!r} names the units")
            )
            raise ValueError(f"{rule}: a unit is in the test part by its name, for the domain's whole life")
        if self.test.columns and self.data.label in self.test.columns:
            raise ValueError(f"test.columns must not hold the label {self.data.label!r}, which may be corrected")
        return self

    @property
    def ways(self) -> tuple[Way, ...]:
        """How its student learns from private rows, in a session each; the last one has the student."""
        unsaid: tuple[Way, ...] = ("votes",) if self.teachers.count else ("tallies",)
        by_sums: tuple[Way, ...] = ("tallies",) if self.data.declared is None else ("sketch",)
        asked: dict[str, tuple[Way, ...]] = {"tallies": by_sums, "none": ()}
        chosen: tuple[Way, ...] = ("hypothesis",) if self.student.learner == "universal" else ()
        return (*asked.get(self.labeling.asking, unsaid), *chosen)

    @property
    def votes(self) -> bool:
        """Whether teachers vote and labels are released; also true while that is undecided."""
        return self.labeling.mechanism not in ("none", TALLIES) and bool(self.teachers.count or not self.undecided)

    def naming(self, mechanism: str, cutoff: int | None = None) -> "Plan":
        """The plan with that mechanism, without keys that it has no use for. Raises WrongInput if that is no plan."""
        tables: dict[str, Any] = self.model_dump(exclude_unset=True)
        tallied, labeling = mechanism == TALLIES, {**tables["labeling"], "mechanism": mechanism}
        for key in {"cutoff", "queries"} - {*MECHANISMS.get(mechanism, ())}:
            labeling.pop(key, None)
        student = tables.get("student", {})
        if tallied:
            tables.pop("teachers", None)
            if not {"learner", "estimator", "candidates"} & student.keys():
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
    def learners(self) -> frozenset[str]:
        """How the students learn that may be published."""
        return frozenset(student.learner for student in self.student.each)

    @property
    def epsilon_of_labels(self) -> float:
        """The ε that released labels may spend: all, or what the choice of a universal student leaves."""
        return self.privacy.epsilon - self.epsilon_beside_labels

    @property
    def epsilon_beside_labels(self) -> float:
        """The ε that the choice of a universal student takes from labels; 0 without one, or without labels."""
        return (self.student.epsilon or 0.0) if self.student.learner == "universal" else 0.0

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


VOTED, INFERRED, MAYBE_VOTED, NOT_INFERRED = ("votes",), (TALLIES,), ("votes", AUTO), ("votes", AUTO, "none")
ONLY_TALLIES = "it needs labeling.mechanism = 'tallies'"
BY_ASKING: tuple[tuple[tuple[str, ...], Callable[[Plan], Any], str], ...] = (
    (
        (TALLIES, AUTO),
        lambda plan: plan.data.text,
        "data.text has no meaning for labeling.mechanism = {asked!r}: tallies have a code for each value. Name a "
        "mechanism by which teachers vote",
    ),
    (
        NOT_INFERRED,
        lambda plan: plan.data.bounds,
        f"data.bounds declares a number as label, on which teachers cannot vote: {ONLY_TALLIES}",
    ),
    (NOT_INFERRED, lambda plan: plan.homes, f"homes add up noisy sums: {ONLY_TALLIES}, got {{asked!r}}"),
    (NOT_INFERRED, lambda plan: plan.stream, f"stream is of running sums: {ONLY_TALLIES}, got {{asked!r}}"),
    (
        ("votes", "none"),
        lambda plan: plan.learners & {"linear"},
        f"student.learner = 'linear' is the model that tallies are decoded to: {ONLY_TALLIES}, got {{asked!r}}",
    ),
    (
        INFERRED,
        lambda plan: plan.learners & {"universal"},
        "student.learner = 'universal' is chosen beside votes or alone, not beside tallies",
    ),
    (
        INFERRED,
        lambda plan: plan.teachers.count,
        "teachers have no meaning for labeling.mechanism = 'tallies', which asks the rows directly",
    ),
    (
        INFERRED,
        lambda plan: plan.relabel,
        "relabel has no meaning for labeling.mechanism = 'tallies': no teacher learns from rows",
    ),
    (
        (AUTO,),
        lambda plan: not plan.teachers.count and (not plan.labeling.rows or plan.learners & {"universal"}),
        "teachers.count must be given for labeling.mechanism = 'auto', or else labeling.rows, by which tallies are "
        "weighed",
    ),
    (
        ("none",),
        lambda plan: plan.learners & {"fitted"},
        "labeling must be given, since the student is fitted to released labels",
    ),
    (
        VOTED,
        lambda plan: not plan.teachers.count,
        "teachers.count must be given and at least 1, since [labeling] asks for votes",
    ),
    (
        ("none",),
        lambda plan: plan.teachers.count,
        "teachers have no meaning without [labeling], which asks for their votes",
    ),
    (
        NOT_INFERRED,
        lambda plan: plan.learners & {"universal"} and len(plan.data.classes) != 2,
        "student.learner = 'universal' is for two classes, got {classes} in data.classes",
    ),
    (
        MAYBE_VOTED,
        lambda plan: plan.learners & {"universal"} and (plan.student.epsilon or math.inf) >= plan.privacy.epsilon,
        "student.epsilon must be given and below privacy.epsilon = {whole:g}, because labels cost ε as well, got "
        "{epsilon}",
    ),
    (
        ("none",),
        lambda plan: plan.learners & {"universal"} and plan.student.epsilon,
        "student.epsilon has no meaning without [labeling]: the choice has all of privacy.epsilon",
    ),
)
"""By how private rows are asked: what makes a plan wrong, and the sentence about it. The first that applies is told."""


def load_plan(path: Path) -> Plan:
    """The plan in a TOML file. Raises WrongInput with one sentence on the first thing wrong with it."""
    return parse_plan(read_tables(path))


def load_homes_plan(path: Path, private: str = "") -> Plan:
    """The plan of several homes in a TOML file, which names no private table; `private` is that of one home.

    Raises WrongInput as `load_plan`.
    """
    tables = read_tables(path)
    data = tables.get("data")
    if "homes" not in tables:
        raise WrongInput(f"the plan {path} must have [homes] to be led or contributed to: without it, `concord run` it")
    if isinstance(data, dict):
        if "private" in data:
            raise WrongInput("data.private has no place in a plan of [homes]: each names its own table by --private")
        local = private and "://" not in private
        tables["data"] = {**data, "private": str(Path(private).absolute()) if local else private}
    return parse_plan(tables)


def read_tables(path: Path) -> dict[str, Any]:
    """The nested tables of a TOML file, with its folder. Raises WrongInput if it cannot be read."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WrongInput(f"the plan {path} does not exist{_meant(path)}") from None
    except (OSError, UnicodeDecodeError):
        raise WrongInput(f"the plan {path} cannot be read as a text file") from None
    except tomllib.TOMLDecodeError as wrong:
        raise WrongInput(f"the plan {path} is not TOML: {wrong}") from None
    return {**tables, "folder": str(path.absolute().parent)}


def _meant(path: Path) -> str:
    """The end of a sentence about a plan that does not exist: the one beside it that was meant, or how to write one."""
    close = get_close_matches(path.stem, sorted(each.stem for each in path.parent.glob("*.toml")), n=1)
    return f"; did you mean {path.with_name(close[0])}.toml?" if close else ": `concord init` writes one"


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
        raise WrongInput(in_one_sentence(first, kind)) from None
