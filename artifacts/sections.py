"""The sections of the plan, each checked by itself; `artifacts.plan` checks them against one another.

The docstring of a key, and its unit, go into its JSON schema, and from there to editors, `concord plan --explain` and
the reference page (tasks/advice/keys.py). A run publishes the values of all keys but those marked OPERATOR.
"""

import difflib
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import COMMAS, TextFormat
from concord.artifacts.sources import PlanTable, check_address


def in_units(unit: str) -> Any:
    """The unit of a key's number, for its JSON schema."""
    return Field(json_schema_extra={"x-unit": unit})


OPERATOR = Field(json_schema_extra={"x-known-to": "the operator"})
"""Marks a key that is never published."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Epsilon = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), in_units("ε")]
Delta = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False), in_units("probability")]
Share = Annotated[float, Field(gt=0, lt=1), in_units("share of units")]
Text = BeforeValidator(lambda day: str(day) if type(day) is date else day)
IN_THE_CALENDAR = AfterValidator(lambda day: date.fromisoformat(day).isoformat())
Day = Annotated[str, Text, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$"), IN_THE_CALENDAR]
ShortText = Annotated[str, Field(max_length=200)]
LONGEST_CLASS = 2**12
"""Most characters of a class, of which each row of labels holds one."""
Names = Annotated[tuple[str, ...], Field(min_length=1)]
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
"""The catalogue: each mechanism, which is `MECHANISM` of tasks/mechanisms/NAME.py, and what may end it.

In order of preference: `stable` is charged for the refusals that happen; `noisy_votes` keeps better soft labels.
"""
TALLIES = "tallies"
"""The other way to ask: nobody votes, noisy sums over public codes are released (tasks/mechanisms/tallies.py)."""
ALIAS = "champion"
"""MLflow's alias of the student that a domain recommends: see `AboutPlan.champion`."""
AUTO = "auto"  # whichever of these is expected to teach the student most: tasks/advice/choose.py
GAME_CUTOFF = 10
"""The largest cutoff for which a table may be calibrated to the adaptive game, which a run and `verify` both play."""
if TYPE_CHECKING:
    MechanismName = str
else:
    MechanismName = Literal[(*MECHANISMS, TALLIES, AUTO, "none")]


class Section(BaseModel):
    """A section of the plan: frozen, and no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class DataPlan(Section):
    """Where the tables lie and what their columns mean. Paths are relative to the plan."""

    private: Annotated[PlanTable, OPERATOR]
    """The labelled table whose rows are protected: Parquet, Arrow IPC or CSV; a file, a folder or a glob; an address in
    an object store; `{ query, connection }` for a database, or `{ delta }`."""
    public: Annotated[PlanTable | None, OPERATOR] = None
    """Rows without labels, which get labels. A label column in them is ignored."""
    label: str
    """The column that the classifier predicts."""
    classes: Annotated[tuple[str, ...], Field(min_length=2, max_length=1000)]
    """The labels there are, as is known in public. A private label that is none of them counts as the first."""
    test: Annotated[PlanTable | None, OPERATOR] = None
    """Public labelled rows, on which the student is measured. Nothing learns from them."""
    version: str = "1"
    """Names the state of the private data: name a new one when the data changes. That it changed is public."""
    features: Names | None = None
    """The columns to learn from; by default those of the public table but for label and unit, with the types they have
    there."""
    categories: Names | None = None
    """Features whose numbers name things, such as wards or codes: they are read as words."""
    text: Names | None = None
    """Features of free text: the words of a cell are hashed to 256 columns, by a public rule. For mechanisms by which
    teachers vote; tallies would need a code for each text."""
    unit: str | None = None
    """The column that says whose a row is: all rows of one value are protected together. By default each row is
    protected by itself."""
    format: Annotated[TextFormat, OPERATOR] = COMMAS
    """How the CSV files of this plan are written, one for all of them."""
    public_share: Share | None = None
    """If labels alone are secret: the part of the private units that no teacher learns from. Their features are the
    public rows if `public` is not given."""

    @model_validator(mode="after")
    def addresses_are_of_stores(self) -> Self:
        for field, place in (("private", self.private), ("public", self.public), ("test", self.test)):
            try:
                check_address(place if isinstance(place, str) else None)
            except ValueError as wrong:
                raise ValueError(f"{field} {wrong}") from None
        return self

    @model_validator(mode="after")
    def public_rows_are_somewhere(self) -> Self:
        if self.public is None and self.public_share is None:
            raise ValueError("public must be given, or else public_share if privacy.secret = 'labels'")
        return self

    @model_validator(mode="after")
    def columns_differ(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must differ from one another")
        if (longest := max(map(len, self.classes))) > LONGEST_CLASS:
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
        if both := {*(self.categories or ())} & {*(self.text or ())}:
            raise ValueError(f"text and categories must be different features, got {min(both)!r} in both")
        return self


class PrivateTestPlan(Section):
    """Private units that take no part in learning, for the domain's whole life: each student is tried out on them, and
    noisy counts are released."""

    share: Share
    """The part of the units that is set aside; fixed for the domain's life."""
    columns: Annotated[Names | None, OPERATOR] = None
    """Columns of the private table whose cells name a row, if `data.unit` does not; fixed for the domain's life."""


class AboutPlan(Section):
    """What is said about the publication. Nothing of it changes what is asked, learned or spent."""

    issuer: ShortText | None = None
    """Who publishes it."""
    contact: ShortText | None = None
    """Where to ask about it."""
    curators: Names | None = None
    """Who holds the private records."""
    region: ShortText | None = None
    """What region the records are of, or whose law they are under."""
    sector: Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | None = None
    """What part of life the records are of, as OpenDP's registry of deployments names them."""
    use: Annotated[str, Field(max_length=2000)] | None = None
    """What the classifier is meant for, and what not."""
    justification: Annotated[str, Field(max_length=2000)] | None = None
    """Why this mechanism, ε, δ and privacy unit were chosen."""
    date: Day | None = None
    """The date of the publication, such as "2026-01-31", as the certificate states it: no clock is read."""
    champion: Literal["better", "always", "never"] = "better"
    """Whether MLflow calls the student its domain's champion: `better` if it beats the last and nothing warns of it."""


class Lifetime(Section):
    """The cap of a privacy domain over all its sessions, fixed when it is first named."""

    epsilon: Epsilon
    """The ε of all sessions together."""
    delta: Delta
    """The δ of all sessions together."""
    filter: Literal["renyi", "gaussian"] = "renyi"
    """How charges add up, fixed like the cap: `renyi`, by which `stable` pays for the refusals that happen; or
    `gaussian`, by which more sessions of noisy sums and counts fit (artifacts/README.md)."""


class PrivacyPlan(Section):
    """What this session may spend, the domain it is spent in, and what is secret."""

    domain: Name
    """The ledger's name for this body of private data."""
    epsilon: Epsilon
    """What this session may spend: smaller protects more and teaches less. At 1, no conclusion about anyone becomes
    more than 2.7 times as likely."""
    delta: Delta
    """The probability that ε is exceeded: well below one in the number of units."""
    lifetime: Lifetime
    """The cap over all sessions on this data; fixed when the domain is first named. `concord domain` changes it, on the
    record."""
    secret: Literal["rows", "labels"] = "rows"
    """What is secret of a unit: its rows; or the labels of its rows alone, and all else is public."""

    @model_validator(mode="after")
    def session_within_lifetime(self) -> Self:
        for field in ("epsilon", "delta"):
            own, cap = getattr(self, field), getattr(self.lifetime, field)
            if own > cap:
                raise ValueError(f"{field} must be at most lifetime.{field} = {cap:g}, got {own:g}")
        return self


Pair = Annotated[tuple[str, ...], Field(min_length=2, max_length=2)]
TALLIED_KEYS = ("rounds", "bins", "repair", "crosses")
"""Keys of [labeling] that only tallies have."""


class LabelingPlan(Section):
    """How private rows are asked for labels of public ones, and when a session ends: by refusals or by rows asked."""

    mechanism: MechanismName = "stable"
    """Which mechanism stands at the door: `tallies` asks the rows by noisy sums, the others the teachers' votes; `auto`
    takes what is expected to teach more. `concord plan` compares them."""
    cutoff: Annotated[int, Field(ge=1, le=1_000_000), in_units("refusals")] | None = None
    """Refusals that are paid for; the session ends with the last. It may be missing until the plan is run: `concord
    plan` and `concord estimate` find one."""
    queries: Annotated[int, Field(ge=1, le=10**12), in_units("public rows")] | None = None
    """Rows that are paid for, if the mechanism ends by rows asked; by default the public rows there are, and `room`."""
    room: Annotated[int, Field(ge=0, le=10**12), in_units("public rows")] | None = None
    """If the mechanism ends by rows asked: rows beyond the public ones there are that are paid for as well, so that
    `concord extend` and single answers can ask so many; by default none, and `concord init` writes a tenth."""
    batch: Annotated[int, Field(ge=1, le=10_000_000), in_units("public rows"), OPERATOR] = 65_536
    """Rows that pass the door at once, each batch durable before the next."""
    accountant: Literal["renyi", "game"] = "renyi"
    """What proves the (ε, δ) of `stable`: its Rényi curve; or the best adaptive attack, which takes less ε."""
    agreement: Annotated[float, Field(gt=0, le=1), in_units("share of votes")] | str | None = None
    """A public guess for mechanism = "auto" and `concord plan`: the mean share of the winning class, or a table of
    votes that public teachers cast on public rows."""
    rows: Annotated[int, Field(ge=1, le=10**12), in_units("private units")] | None = None
    """How many private units there are, roughly, as you would say it in public; never counted."""
    rounds: Literal[1, 2, 3] | None = None
    """For tallies: how often the private rows are asked; by default what a public rule says of `rows`."""
    bins: Literal[2, 4, 8, 16, 32] | None = None
    """For tallies: bins of a number in the first round; by default 8, or 16 from ε = 1 on."""
    repair: bool | None = None
    """For tallies: whether a tenth of the budget buys totals of the codes, by which public rows that are unlike the
    private ones are repaired; by default it does."""
    crosses: Annotated[tuple[Pair, ...], Field(min_length=1, max_length=20)] | None = None
    """For tallies: pairs of features that are asked about together as well, each a field more, which takes its part of
    the budget; by default none, since on the tables tried they did not pay."""

    @model_validator(mode="after")
    def keys_are_of_its_way_to_ask(self) -> Self:
        tallied, auto = self.mechanism == TALLIES, self.mechanism == AUTO
        foreign = ("cutoff", "queries", "room", "agreement") if tallied else () if auto and self.rows else TALLIED_KEYS
        for key in foreign:
            if getattr(self, key) is not None:
                more = ", which asks private rows in rounds" if tallied else " without rows" if auto else ""
                raise ValueError(f"{key} has no meaning for mechanism = {self.mechanism!r}{more}")
        if tallied and self.rows is None and self.rounds is None:
            raise ValueError(
                "rows must be given for mechanism = 'tallies': how many private units there are, roughly, as you would "
                "say it in public; or else rounds"
            )
        return self

    @model_validator(mode="after")
    def crosses_are_of_two_features(self) -> Self:
        pairs = [frozenset(pair) for pair in self.crosses or ()]
        for at, pair in enumerate(pairs):
            if len(pair) < 2 or pair in pairs[:at]:
                rule = "crosses must be pairs of two features, each pair once"
                raise ValueError(f"{rule}, got {list((self.crosses or ())[at])}")
        return self

    @model_validator(mode="after")
    def ends_by_its_own_rule(self) -> Self:
        ends = MECHANISMS.get(self.mechanism, ("cutoff", "queries"))
        if "cutoff" not in ends and self.cutoff is not None:
            raise ValueError(f"cutoff has no meaning for mechanism = {self.mechanism!r}, which ends by rows asked")
        for key in ("queries", "room"):
            if "queries" not in ends and getattr(self, key) is not None:
                raise ValueError(f"{key} has no meaning for mechanism = {self.mechanism!r}, which ends by refusals")
        if self.queries is not None and self.room is not None:
            raise ValueError("room adds to the public rows, and queries says how many rows in all: give one of them")
        return self

    def most_asked(self, rows: int) -> int:
        """The number of rows paid for, if the mechanism ends by rows asked; `rows` is the number of public rows."""
        return self.queries or rows + (self.room or 0)

    @model_validator(mode="after")
    def game_is_played_where_it_can_be(self) -> Self:
        if self.accountant == "game" and self.mechanism != "stable":
            raise ValueError(f"accountant = 'game' is for mechanism = 'stable', got mechanism = {self.mechanism!r}")
        if self.accountant == "game" and (self.cutoff or 1) > GAME_CUTOFF:
            rule = f"accountant = 'game' is for a cutoff of at most {GAME_CUTOFF}, got {self.cutoff}"
            raise ValueError(f"{rule}: with more refusals it takes long and saves little; take accountant = 'renyi'")
        return self

    def check_end(self) -> None:
        """Raise WrongInput if the plan does not say when its session ends."""
        if "cutoff" in MECHANISMS.get(self.mechanism, ()) and self.cutoff is None:
            raise WrongInput(
                f"labeling.cutoff must be given for mechanism = {self.mechanism!r}, which ends by refusals: "
                "`concord plan` compares some, `concord estimate` suggests one from the private rows, at a price"
            )


def near(word: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown word: the nearest known one, or all known ones."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; it knows {', '.join(map(repr, known))}"
