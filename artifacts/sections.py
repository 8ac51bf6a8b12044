"""The sections of the plan, each checked by itself; what they must be to one another is checked by `artifacts.plan`."""

import difflib
import importlib
import inspect
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import COMMAS, TextFormat

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Epsilon = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
Delta = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Text = BeforeValidator(lambda day: str(day) if type(day) is date else day)
Day = Annotated[str, Text, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Line = Annotated[str, Field(max_length=200)]
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
"""MLflow's alias of a domain's student that is to be used: see `About.champion`."""
AUTO = "auto"  # whichever of these is expected to teach the student most: tasks/advice/choose.py
GAME_CUTOFF = 10
"""Refusals up to which a table may be calibrated to the adaptive game: it is played twice, here and by `verify`."""
if TYPE_CHECKING:
    MechanismName = str
else:
    MechanismName = Literal[(*MECHANISMS, TALLIES, AUTO, "none")]


class Part(BaseModel):
    """A section of the plan: frozen, and no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataPlan(Part):
    """Where the tables lie and what their columns mean. Paths may be a file, a folder or a glob."""

    private: str
    public: str | None = None
    label: str
    classes: Annotated[tuple[str, ...], Field(min_length=2, max_length=1000)]
    test: str | None = None
    version: str = "1"
    features: Names | None = None
    categories: Names | None = None
    """Features whose numbers name things, such as wards or codes: they are read as words."""
    unit: str | None = None
    format: TextFormat = COMMAS
    public_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """If only labels are secret: the part of the private units that no teacher learns from. Their features are the
    public rows, if `public` is not given."""

    @model_validator(mode="after")
    def public_rows_are_somewhere(self) -> Self:
        if self.public is None and self.public_share is None:
            raise ValueError("public must be given, or else public_share, where privacy.secret = 'labels'")
        return self

    @model_validator(mode="after")
    def columns_differ(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must differ from one another")
        for name in self.classes:
            if (plain := self.format.plain(name)) != name:
                rule = "classes must be written as data.format reads numbers, with a decimal point and no groups"
                raise ValueError(f"{rule}: {plain!r}, not {name!r}")
        if self.unit == self.label:
            raise ValueError(f"unit and label must be two columns, got {self.label!r} for both")
        for role, column in (("label", self.label), ("unit", self.unit)):
            if self.features and column in self.features:
                raise ValueError(f"features must not hold the {role} column {column!r}")
        for name in self.categories or ():
            if name not in (self.features or (name,)) or name in (self.label, self.unit):
                raise ValueError(f"categories must be features, got {name!r}")
        return self


class PrivateTestPlan(Part):
    """A share of the private units that takes no part in learning, for the domain's whole life: a student is tried out
    on them, and noisy counts are released.

    columns   of the private table, whose cells name a row if `data.unit` does not; fixed for the domain's life
    """

    share: Annotated[float, Field(gt=0, lt=1)]
    columns: Names | None = None


class AboutPlan(Part):
    """What is said about the publication. Nothing of it changes what is asked, learned or spent.

    issuer     who publishes it; `contact` is where to ask
    use        what the classifier is meant for, and what not
    date       of the publication, as the certificate states it: no clock is read
    champion   whether MLflow calls the student its domain's champion: if it beats the last and nothing warns of it, …
    """

    issuer: Line | None = None
    contact: Line | None = None
    use: Annotated[str, Field(max_length=2000)] | None = None
    date: Day | None = None
    champion: Literal["better", "always", "never"] = "better"


class Lifetime(Part):
    """The cap of a privacy domain over all its sessions."""

    epsilon: Epsilon
    delta: Delta


class PrivacyPlan(Part):
    """What this session may spend, and the domain it is spent in; and what is secret of a unit: its rows, or only the
    labels of its rows."""

    domain: Name
    epsilon: Epsilon
    delta: Delta
    lifetime: Lifetime
    secret: Literal["rows", "labels"] = "rows"

    @model_validator(mode="after")
    def session_within_lifetime(self) -> Self:
        for field in ("epsilon", "delta"):
            own, cap = getattr(self, field), getattr(self.lifetime, field)
            if own > cap:
                raise ValueError(f"{field} must be at most lifetime.{field} = {cap:g}, got {own:g}")
        return self


class Learner(Part):
    """Any estimator with fit and predict, by its dotted name, and its parameters."""

    estimator: str = "sklearn.linear_model.LogisticRegression"
    params: dict[str, Any] = {}

    @model_validator(mode="after")
    def can_be_built(self) -> Self:
        try:
            self.build()
        except WrongInput as wrong:
            raise ValueError(str(wrong)) from None
        return self

    def build(self, **more: Any) -> Any:
        """A fresh, unfitted estimator. Raises WrongInput when the name or a parameter is wrong."""
        module, _, name = self.estimator.rpartition(".")
        try:
            made = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError):
            rule = "estimator must be a class by its whole name, such as sklearn.linear_model.LogisticRegression"
            raise WrongInput(f"{rule}, got {self.estimator!r}, which cannot be imported") from None
        if not all(callable(getattr(made, method, None)) for method in ("fit", "predict")):
            raise WrongInput(f"estimator must have fit and predict, got {self.estimator!r}")
        known = list(inspect.signature(made).parameters)
        for key in self.params:
            if key not in known:
                raise WrongInput(f"params holds {key!r}, which {self.estimator} does not take{near(key, known)}")
        try:
            return made(**{key: value for key, value in more.items() if key in known} | self.params)
        except (TypeError, ValueError) as wrong:
            raise WrongInput(f"params cannot build {self.estimator}: {wrong}") from None


class TeachersPlan(Learner):
    """How many shards, and what learns on each."""

    count: Annotated[int, Field(ge=0, le=100_000)]
    runner: Literal["threads", "processes", "dask"] = "threads"
    address: str | None = None
    block: Annotated[int, Field(ge=1)] = 50

    @model_validator(mode="after")
    def address_is_of_dask(self) -> Self:
        if self.address is not None and self.runner != "dask":
            raise ValueError(f"address belongs to runner = 'dask', got runner = {self.runner!r}")
        return self


TALLIED_KEYS = ("rounds", "bins", "repair")
"""Keys of [labeling] that only tallies have."""


class LabelingPlan(Part):
    """The mechanism at the door and when it ends: by refusals (cutoff) or by rows asked (queries).

    A plan may be without a cutoff until it is run: `concord plan` and `concord estimate` are there to find one.
    """

    mechanism: MechanismName = "stable"
    cutoff: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    queries: Annotated[int, Field(ge=1, le=10**12)] | None = None
    batch: Annotated[int, Field(ge=1, le=10_000_000)] = 65_536
    accountant: Literal["renyi", "game"] = "renyi"
    """What proves the (ε, δ) of `stable`: its Rényi curve; or the best adaptive attack, which takes less ε."""
    agreement: Annotated[float, Field(gt=0, le=1)] | str | None = None
    """A public guess for mechanism = "auto" and `concord plan`: the mean share of the winning class, or a table of
    votes that public teachers cast on public rows."""
    rows: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """How many private units there are, roughly, as you would say it in public; never counted."""
    rounds: Literal[1, 3] | None = None
    """For tallies: how often the private rows are asked; by default what a public rule says of `rows`."""
    bins: Literal[2, 4, 8, 16, 32] | None = None
    """For tallies: bins of a number in the first round; by default 8, or 16 from ε = 1 on."""
    repair: bool | None = None
    """For tallies: whether a tenth of the budget buys totals of the codes, by which public rows that are unlike the
    private ones are repaired; by default it does."""

    @model_validator(mode="after")
    def keys_are_of_its_way_to_ask(self) -> Self:
        tallied, auto = self.mechanism == TALLIES, self.mechanism == AUTO
        foreign = ("cutoff", "queries", "agreement") if tallied else () if auto and self.rows else TALLIED_KEYS
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
    def ends_by_its_own_rule(self) -> Self:
        ends = MECHANISMS.get(self.mechanism, ("cutoff", "queries"))
        if "cutoff" not in ends and self.cutoff is not None:
            raise ValueError(f"cutoff has no meaning for mechanism = {self.mechanism!r}, which ends by rows asked")
        if "queries" not in ends and self.queries is not None:
            raise ValueError(f"queries has no meaning for mechanism = {self.mechanism!r}, which ends by refusals")
        return self

    @model_validator(mode="after")
    def game_is_played_where_it_can_be(self) -> Self:
        if self.accountant == "game" and self.mechanism != "stable":
            raise ValueError(f"accountant = 'game' is for mechanism = 'stable', got mechanism = {self.mechanism!r}")
        if self.accountant == "game" and (self.cutoff or 1) > GAME_CUTOFF:
            rule = f"accountant = 'game' is for a cutoff of at most {GAME_CUTOFF}, got {self.cutoff}"
            raise ValueError(f"{rule}: with more refusals it takes long and saves little; take accountant = 'renyi'")
        return self

    def check_end(self) -> None:
        """Raise WrongInput if a session could not begin yet, since nothing says when it ends."""
        if "cutoff" in MECHANISMS.get(self.mechanism, ()) and self.cutoff is None:
            raise WrongInput(
                f"labeling.cutoff must be given for mechanism = {self.mechanism!r}, which ends by refusals: "
                "`concord plan` compares some, `concord estimate` suggests one from the private rows, at a price"
            )


class HypothesesPlan(Part):
    """A class of hypotheses by its name, the encoded columns it looks at (default: all), and how many public cut points
    each of them has, if the class needs them."""

    hypotheses: str
    features: Names | None = None
    grid: Annotated[int, Field(ge=1, le=10_000)] = 16


class RelabelPlan(HypothesesPlan):
    """Relabelling before teaching (Nandi & Bassily 2020): a secret subset of the units gets its labels from one
    hypothesis, which is chosen privately among all that the class has on it.

    share    how likely a unit is in the subset; by default what leaves the mechanism at the door an ε of about 1
    epsilon  of the choice
    form     how rows are resampled: `tight` within a shard, `published` over all shards (Algorithm 5), or `none`
    """

    hypotheses: str = "stumps"
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    epsilon: Epsilon = 1.0
    form: Literal["tight", "published", "none"] = "tight"


def near(word: str, known: Sequence[str]) -> str:
    """The rest of a sentence about a word that is not known: the nearest that is, or all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; it knows {', '.join(map(repr, known))}"
