"""The sections of the plan, each checked by itself; `artifacts.plan` checks them against one another.

The docstring of a key, and its unit, go into its JSON schema, and from there to editors and the reference page
(tests/support/plan_keys.py). A run publishes the values of all keys but those marked OPERATOR.
"""

import difflib
from collections.abc import Sequence, Set
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from concord.artifacts.errors import WrongInput, quoted
from concord.artifacts.schemas import COMMAS, LARGEST_NUMBER, Bounds, Frozen, TextFormat
from concord.artifacts.sources import PlanTable
from concord.artifacts.table_schema import DeclaredSchema, TableSchema, schema_in_plan


def in_units(unit: str) -> Any:
    """The unit of a key's number, for its JSON schema."""
    return Field(json_schema_extra={"x-unit": unit})


OPERATOR = Field(json_schema_extra={"x-known-to": "the operator"})
"""Marks a key that is never published."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Epsilon = Annotated[float, Field(strict=True, gt=0, le=1000, allow_inf_nan=False), in_units("ε")]
Delta = Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False), in_units("probability")]
Share = Annotated[float, Field(gt=0, lt=1), in_units("share of units")]
CellShare = Annotated[float, Field(gt=0, lt=1), in_units("share of cells")]
Text = BeforeValidator(lambda day: str(day) if type(day) is date else day)
IN_THE_CALENDAR = AfterValidator(lambda day: date.fromisoformat(day).isoformat())
DAY_PATTERN = r"^\d{4}-\d{2}-\d{2}$"
Day = Annotated[str, Text, StringConstraints(pattern=DAY_PATTERN), IN_THE_CALENDAR]
SHARES_OFF = 1e-6
"""Tolerance for the sum of shares, which rounding moves."""
LONGEST_CLASS = 2**12
"""Most characters of a class, of which each row of labels holds one."""


def _in_order(names: Any) -> Any:
    """The names. Raises ValueError for a set of Python's, which would be in another order in the next process."""
    if isinstance(names, Set):
        raise ValueError("must be a list, in an order that stays, got a set")
    return names


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("must name each column once")
    return names


InOrder = BeforeValidator(_in_order)
Names = Annotated[tuple[str, ...], Field(min_length=1), InOrder, AfterValidator(_each_once)]
"""Names of columns."""
End = Literal["cutoff", "queries"]
"""What ends a session: its refusals (cutoff), or the rows it was asked (queries)."""
MECHANISMS: dict[str, tuple[End, ...]] = {
    "stable": ("cutoff",),
    "noisy_votes": ("queries",),
    "confident": ("queries",),
    "laplace_votes": ("queries",),
    "sparse_vector": ("cutoff",),
    "published": ("cutoff", "queries"),
}
"""The mechanisms of votes (tasks.mechanisms.catalogue) that a plan may name, and what may end each.

In order of preference: `stable` is charged for the refusals that happen; `noisy_votes` keeps better soft labels.
"""
TALLIES = "tallies"
"""The mechanism without a teacher ensemble: noisy sums over public codes are released (tasks/mechanisms/tallies.py)."""
ALIAS = "champion"
"""MLflow's alias of the student that a domain recommends: see `artifacts.mlflow.describe.takes_alias`."""
AUTO = "auto"  # tallies, unless they cannot be asked: tasks/advice/planned.py
if TYPE_CHECKING:
    MechanismName = str
else:
    MechanismName = Literal[(*MECHANISMS, TALLIES, AUTO, "none")]


class Section(Frozen):
    """A section of the plan: frozen, and no key it does not know."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class DataPlan(Section):
    """Where the tables lie and what their columns mean. Paths are relative to the plan."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    private: Annotated[PlanTable, OPERATOR]
    """The labelled table whose rows are protected: Parquet, Arrow IPC or CSV; a file, a folder or a glob; an address in
    an object store; or `{ query, connection }` for a database."""
    public: Annotated[PlanTable | None, OPERATOR] = None
    """Public rows, which get labels. A label column in them is ignored."""
    declared: DeclaredSchema | None = Field(default=None, alias="schema")
    """In place of public rows: the range or the categories of each feature, as publicly known. Give a Frictionless
    Table Schema, as a file or by its `fields`. Synthetic rows then take the place of public ones, at the cost of a part
    of the budget."""
    label: str
    """The column that the student predicts: classes, or a number."""
    classes: Annotated[
        tuple[str, ...], Field(min_length=2, max_length=1000, exclude_if=lambda names: not names), InOrder
    ] = ()
    """The classes, as publicly known; required unless the label is a number. Any other private label counts as the
    first class."""
    shares: dict[str, Share] | None = None
    """The classes' shares of the private rows, as publicly known, such as { no = 0.95, yes = 0.05 }. Only simulations
    use them: without public rows and a test table, accuracy cannot be foreseen otherwise."""
    bounds: Bounds | None = None
    """In place of classes, if the label is a number: its smallest and largest value, as publicly known. Private labels
    outside the bounds are clipped to the nearer bound; missing ones count as the midpoint."""
    most_unknown: CellShare | None = None
    """An unattended run stops before it is charged if, in any column, a larger share of the private cells is unknown:
    labels that are no declared class or no number within bounds, missing ids, and cells of a feature that are not read.
    By default it goes on. Such a stop depends on private rows, and ε does not cover what it reveals: see
    tests/privacy/README.md, "The pre-check"."""
    test: Annotated[PlanTable | None, OPERATOR] = None
    """Public labelled rows, on which the student is evaluated. Nothing learns from them."""
    groups: Names | None = None
    """Columns of the test table, such as sex or region. Performance is reported for each of their categories. They
    need not be features."""
    version: str = "1"
    """The state of the private data: name a new version when the data changes. The change itself is public."""
    features: Names | None = None
    """The columns to learn from; by default those of the public table, without label and unit. The public table states
    their types."""
    categories: Names | None = None
    """Features whose numbers are codes, such as wards: they are parsed as categories. Dates as text, such as
    31.12.2026, are left out unless they are listed here; then they are categories, too."""
    text: Names | None = None
    """Features of free text: the words of a cell are hashed to 256 columns, by a public rule. For mechanisms with
    teachers; tallies would need a code for each text."""
    unit: str | None = None
    """The column that identifies a person: all rows with the same value are protected together. By default each row is
    protected by itself."""
    format: Annotated[TextFormat, OPERATOR] = COMMAS
    """The format of all CSV files of this plan."""
    public_share: Share | None = None
    """If labels alone are secret: the share of the private units that no teacher learns from. If `public` is not given,
    the features of these units are the public rows."""

    @model_validator(mode="before")
    @classmethod
    def label_and_unit_are_no_features(cls, given: Any) -> Any:
        """Leave the label and the unit out of the schema, which describes them as well if it is a dictionary."""
        key = "declared" if isinstance(given, dict) and given.get("declared") else "schema"
        schema = schema_in_plan(given.get(key)) if isinstance(given, dict) else None
        if not isinstance(schema, TableSchema):
            return given
        return {**given, key: schema.without((given.get("label"), given.get("unit")))}

    @model_validator(mode="after")
    def label_is_a_class_or_a_number(self) -> Self:
        if self.bounds is None:
            if not self.classes:
                raise ValueError("classes must be given, or else bounds = [low, high] if the label is a number")
            return self
        if self.classes:
            raise ValueError("classes and bounds must not both be given: the label is a class, or a number in bounds")
        if not self.bounds[0] < self.bounds[1] < LARGEST_NUMBER or self.bounds[0] < -LARGEST_NUMBER:
            rule = f"bounds must be two numbers, the lower one first, of less than {LARGEST_NUMBER:g}"
            raise ValueError(f"{rule}, got {[*self.bounds]}")
        return self

    @model_validator(mode="after")
    def shares_are_of_the_classes(self) -> Self:
        if self.shares is None:
            return self
        if self.shares.keys() != {*self.classes} or abs(sum(self.shares.values()) - 1) > SHARES_OFF:
            rule = "shares must give each of the classes a share, and these must sum to 1"
            raise ValueError(f"{rule}, got {self.shares} of {quoted(self.classes) or 'a number'}")
        return self

    @model_validator(mode="after")
    def rows_are_public_or_declared(self) -> Self:
        if self.declared is None:
            return self
        if self.public is not None or self.public_share is not None:
            given = "public" if self.public is not None else "public_share"
            raise ValueError(f"schema and {given} must not both be given: synthetic rows take the place of public ones")
        if self.categories or self.text:
            key = "categories" if self.categories else "text"
            raise ValueError(f"{key} cannot be used with schema: declare the categories there, in enum")
        self.sketched.check(self.label)  # refuses features that are not declared
        return self

    @model_validator(mode="after")
    def columns_differ(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must differ from one another")
        if (longest := max(map(len, self.classes), default=0)) > LONGEST_CLASS:
            raise ValueError(f"classes must have at most {LONGEST_CLASS:,} characters each, got one of {longest:,}")
        for name in self.classes:
            if (plain := self.format.plain(name)) != name:
                rule = "classes must be written as data.format reads numbers, with a decimal point and no groups"
                raise ValueError(f"{rule}: {plain!r}, not {name!r}")
        if self.unit == self.label:
            raise ValueError(f"unit and label must be two columns, got {self.label!r} for both")
        for role, column in (("label", self.label), ("unit", self.unit)):
            if self.features and column in self.features:
                raise ValueError(f"features must not hold the {role} column {column!r}")
        for key, names in (("categories", self.categories or ()), ("text", self.text or ())):
            for name in names:
                if name not in (self.features or (name,)) or name in (self.label, self.unit):
                    raise ValueError(f"{key} must be features, got {name!r}")
        if self.groups and self.test is None:
            raise ValueError("groups need data.test, whose rows are grouped by their categories")
        if both := {*(self.categories or ())} & {*(self.text or ())}:
            raise ValueError(f"text and categories must be different features, got {min(both)!r} in both")
        return self

    @property
    def sketched(self) -> TableSchema:
        """The declared columns that are learned from. Raises WrongInput if there are none, or a feature is not one."""
        if self.declared is None:
            raise WrongInput("data.schema must be given in the plan")
        return self.declared if self.features is None else self.declared.only(self.features)


class PrivateTestPlan(Section):
    """Private units that take no part in learning, for the domain's whole life: each student is evaluated on them, and
    noisy counts are released."""

    share: Share
    """The part of the units that is set aside; fixed for the domain's life."""
    columns: Annotated[Names | None, OPERATOR] = None
    """Columns of the private table whose cells identify a row, if `data.unit` does not; fixed for the domain's life."""


class AboutPlan(Section):
    """Facts about the publication. They do not change what is queried, learned or spent."""

    issuer: Annotated[str, Field(max_length=200)] | None = None
    """The publisher, with a contact for questions, such as a mail address."""
    use: Annotated[str, Field(max_length=2000)] | None = None
    """Intended use of the model, and uses to avoid."""
    justification: Annotated[str, Field(max_length=2000)] | None = None
    """Why this mechanism, ε, δ and privacy unit were chosen."""
    date: Day | None = None
    """The date of publication, such as "2026-01-31". The certificate states it; no clock is read."""


class Lifetime(Section):
    """The cap of a privacy domain over all its sessions, fixed when it is first named."""

    epsilon: Epsilon
    """The ε of all sessions together."""
    delta: Delta
    """The δ of all sessions together."""


class PrivacyPlan(Section):
    """The budget of this session, the domain that is charged, and what is secret."""

    domain: Name
    """The ledger's name for this body of private data."""
    epsilon: Epsilon
    """The ε of this session: a smaller ε gives more privacy and less accuracy. At ε = 1, one unit changes the odds of
    any conclusion by a factor of at most 2.7."""
    delta: Delta
    """The δ of this session, the probability that ε is exceeded: choose it well below one over the number of units. At
    one over `labeling.rows` or more, it would allow units to be published whole, and is refused."""
    lifetime: Lifetime
    """The cap over all sessions on this data; fixed when the domain is first named. `concord domain` changes it, on the
    record."""
    secret: Literal["rows", "labels"] = "rows"
    """What is secret about a unit: its rows, or the labels of its rows alone. With `labels`, all else is public."""

    @model_validator(mode="after")
    def session_within_lifetime(self) -> Self:
        for field in ("epsilon", "delta"):
            amount, cap = getattr(self, field), getattr(self.lifetime, field)
            if amount > cap:
                raise ValueError(f"{field} must be at most lifetime.{field} = {cap:g}, got {amount:g}")
        return self


class LabelingPlan(Section):
    """The mechanism that labels public rows from private ones, and the end of a session: by refusals or by rows."""

    mechanism: MechanismName = "stable"
    """The mechanism: `tallies` releases noisy sums of private rows, the others release labels by the teachers' votes.
    `auto` is `tallies` wherever the plan allows it; otherwise `stable` if cutoff is given, or `noisy_votes`."""
    cutoff: Annotated[int, Field(ge=1, le=1_000_000), in_units("refusals")] | None = None
    """Refusals after which the session ends; a refusal is a row on which teachers disagree. It may be missing until the
    plan is run: `concord estimate` suggests one."""
    queries: Annotated[int, Field(ge=1, le=10**12), in_units("public rows")] | None = None
    """If the mechanism ends by rows: the number of rows that are paid for; by default all public rows. A larger number
    leaves room for `concord extend`."""
    batch: Annotated[int, Field(ge=1, le=10_000_000), in_units("public rows")] = 65_536
    """Rows that are released at once. Each batch is durable before the next, and published in a file of its own."""
    rows: Annotated[int, Field(ge=1, le=10**12), in_units("private units")] | None = None
    """The approximate number of private units, as publicly known; they are never counted. Tallies are planned for this
    number."""

    joined: bool = True
    """Whether tallies also count all numbers of a row together, if public rows cluster: by the nearest of a few hundred
    centres. With `false`, numbers are counted column by column alone."""

    @model_validator(mode="after")
    def keys_are_of_its_mechanism(self) -> Self:
        ends = () if self.mechanism == TALLIES else MECHANISMS.get(self.mechanism, ("cutoff", "queries"))
        how = "ends by refusals" if "cutoff" in ends else "ends by rows asked" if ends else "asks in rounds"
        for key in ("cutoff", "queries"):
            if key not in ends and getattr(self, key) is not None:
                raise ValueError(f"{key} does not apply to mechanism = {self.mechanism!r}, which {how}")
        if self.mechanism == TALLIES and self.rows is None:
            raise ValueError(
                "rows must be given for mechanism = 'tallies': about how many private units there are, as publicly "
                "known"
            )
        return self

    @property
    def asking(self) -> str:
        """How private rows are asked: by votes of teachers, by tallies, in neither way (none), or as `auto` chooses."""
        return {TALLIES: TALLIES, AUTO: AUTO, "none": "none"}.get(self.mechanism, "votes")

    def check_end(self) -> None:
        """Raise WrongInput if the plan does not say when its session ends."""
        if "cutoff" in MECHANISMS.get(self.mechanism, ()) and self.cutoff is None:
            raise WrongInput(
                f"labeling.cutoff must be given for mechanism = {self.mechanism!r}, which ends by refusals: "
                "`concord estimate` suggests one from the private rows, at a price"
            )


class StreamPlan(Section):
    """Private rows that arrive in periods, each with a release. All releases of a season together are within (ε, δ).
    Run by `concord refresh`."""

    season: Annotated[int, Field(ge=2, le=1024), in_units("releases")] = 52
    """Releases that are paid for when the season begins. Noise grows slowly, with the logarithm of the season's
    length."""
    clock: str | None = None
    """When a release is due, as a cron expression in UTC, such as "0 3 * * 1": a second `concord refresh` before the
    next time repeats the first answer. By default every refresh is a release."""
    delivery: Literal["each row once"] | None = None
    """Must be "each row once" if `data.unit` is missing: it declares that no row is delivered again, which cannot be
    checked without ids of units."""


def near(word: str, words: Sequence[str]) -> str:
    """The end of a sentence about an unknown word: the nearest known one, or all known ones."""
    close = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; it knows {', '.join(map(repr, words))}"
