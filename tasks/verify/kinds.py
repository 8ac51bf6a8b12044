"""The settings of sessions as the referee reads them: a type for each kind, apart from the mechanisms that write them.

    the ledger's or a certificate's JSON ─ KindSettings.of ─ StableSettings, TalliesSettings …, or Unknown

Assumes      nothing: settings are JSON that anyone may have written
Guarantees   a key, or a value, that a kind does not have makes the settings Unknown, and nothing is recomputed of them
Not covered  whether the settings prove their claim (tasks.verify.recompute)
             Checked by tests/tasks/mechanisms/test_catalogue.py
"""

from collections.abc import Mapping
from inspect import get_annotations
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from concord.artifacts.errors import NotVerified
from concord.artifacts.schemas import Bounds, Frozen

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
"""What is below 0 would cost less than nothing."""
Secret = Literal["rows", "labels"]
"""What is secret of a unit."""


class RoundSettings(Frozen):
    """A round of sums."""

    what: Literal["labels", "codes"]
    fields: Count
    cells: Count
    least: Count
    count: Count
    share: Amount
    scale: Amount


class RelabellingSettings(Frozen):
    """How rows were relabelled, and the claim (epsilon, delta) of the whole."""

    hypotheses: str
    features: tuple[str, ...]
    grid: str
    share: Amount
    choice_epsilon: Amount
    epsilon: Amount
    delta: Amount


SomeKind = TypeVar("SomeKind", bound="KindSettings")


class KindSettings(Frozen):
    """The settings of a session. These fields are of several kinds, and each kind states which of them it has.

    epsilon, delta  the claim, of relabelled rows before amplification; delta None if the mechanism is pure
    classes         number of classes; 0 if the label is a number within `bounds`
    secret          what is secret of a unit, a key of artifacts.domains.NEIGHBOURS
    """

    name: str
    epsilon: Amount | None = None
    delta: Amount | None = None
    classes: Count | None = None
    bounds: Bounds | None = None
    cutoff: Count | None = None
    queries: Count | None = None
    secret: Secret | None = None
    relabel: RelabellingSettings | None = None
    rounds: tuple[RoundSettings, ...] = ()
    season: Count | None = None
    session: str | None = None
    student: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "KindSettings":
        """The settings on record as an object of their kind; `Unknown` if no kind fits."""
        name = settings.get("name")
        kind = KINDS.get(name, Unknown) if isinstance(name, str) else Unknown
        why = "this version has no such kind"
        try:
            if foreign := sorted(settings.keys() & KindSettings.model_fields.keys() - _own(kind) - {"name"}):
                why = f"this version's has no {foreign[0]}"
            elif kind is not Unknown:
                return kind.model_validate(settings)
        except ValidationError as wrong:
            first = wrong.errors()[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return Unknown(name=str(name), relabel=True if settings.get("relabel") is not None else None, why=why)

    def only(self, kind: type[SomeKind]) -> SomeKind:
        """These settings, which must be of that kind. Raises NotVerified if they are of another."""
        if not isinstance(self, kind):
            why = f": {self.why}" if isinstance(self, Unknown) else ""
            raise NotVerified(f"the settings of {self.name!r} are not those of a session of that kind{why}")
        return self

    @property
    def claim(self) -> tuple[float | None, float | None]:
        """ε and δ that the settings state for the whole session; None for what they do not state."""
        whole = self.relabel if isinstance(self.relabel, RelabellingSettings) else self
        return whole.epsilon, whole.delta

    def stated_bounds(self) -> tuple[float, float]:
        """The bounds of a number that the settings state. Raises NotVerified if there are none."""
        match self.bounds:
            case [low, high] if low < high:
                return low, high
        raise NotVerified("the label is a number, and the settings do not state what it lies between")


class Unknown(KindSettings):
    """Settings of another version, or none of Concord's: `why`, in words. `relabel` is True if they have any."""

    relabel: Any = None
    why: str


class VotesSettings(KindSettings):
    """Labels of public rows by votes, or answers to questions that shards share; `question` is a session's only one."""

    epsilon: Amount
    delta: Amount
    relabel: RelabellingSettings | None = None
    question: str | None = None


class StableSettings(VotesSettings):
    """Stable voting; `refusal` is the table in base64, and `order` the Rényi order that it was made for."""

    cutoff: Count
    order: Amount
    refusal: str


class NoisyThresholdSettings(VotesSettings):
    """The sparse vector technique."""

    cutoff: Count
    threshold: Count
    threshold_scale: Amount
    query_scale: Amount


class PublishedSettings(NoisyThresholdSettings):
    """The papers' Algorithm 3."""

    queries: Count
    beta: Amount
    teachers: Count


class NoisyCountsSettings(VotesSettings):
    """Noisy counts of votes, Gaussian or Laplace."""

    queries: Count
    classes: Count
    scale: Amount


class ConfidentSettings(NoisyCountsSettings):
    """Noisy counts of votes where a noisy test finds them far apart."""

    answers: Count
    threshold: Count
    test_scale: Amount


class OptimalReleaseSettings(VotesSettings):
    """A single question, by a table of refusals."""

    refusal: str


class LaplaceReleaseSettings(VotesSettings):
    """A single question, by a noisy threshold."""

    scale: Amount
    threshold: Amount


class TalliesSettings(KindSettings):
    """Rounds of noisy sums about the codes of that digest; `many` says whether a unit may have several rows."""

    epsilon: Amount
    delta: Amount
    classes: Count
    bounds: Bounds | None = None
    steps: Count
    secret: Secret
    many: bool
    rounds: tuple[RoundSettings, ...]
    codes: str = ""


class SketchSettings(TalliesSettings):
    """Rounds of tables and of labels, about the cells of a declared schema."""


class StreamSettings(TalliesSettings):
    """A season of running sums, by coefficients of so many `bits`."""

    season: Count
    bits: Count
    matrix: Literal["square root"]


class UniversalSettings(KindSettings):
    """The choice of a hypothesis among `candidates`, of the class of that name and digest."""

    epsilon: Amount
    secret: Secret
    hypotheses: str = ""
    features: tuple[str, ...] = ()
    digest: str = Field(default="", alias="class")
    candidates: Count = 0


class PrivateTestSettings(KindSettings):
    """A private test: noise of `scale` and `pair_scale`; of a number, beside the errors of a constant."""

    epsilon: Amount
    delta: Amount
    classes: Count
    bounds: Bounds | None = None
    secret: Secret
    scale: Amount
    pair_scale: Amount
    session: str | None = None
    student: str | None = None
    share: Amount | None = None
    clean: bool = False
    constant: float = 0.0


class ErrorEstimateSettings(KindSettings):
    """An estimate of how much teachers err, from so many shards; a `share` of the units is set aside."""

    epsilon: Amount
    shards: Count
    steps: Count
    scale: Amount
    share: Amount = 0.0


KINDS: dict[str, type[KindSettings]] = {
    "stable": StableSettings,
    "noisy_votes": NoisyCountsSettings,
    "confident": ConfidentSettings,
    "laplace_votes": NoisyCountsSettings,
    "sparse_vector": NoisyThresholdSettings,
    "published": PublishedSettings,
    "optimal_release": OptimalReleaseSettings,
    "laplace_release": LaplaceReleaseSettings,
    "tallies": TalliesSettings,
    "sketch": SketchSettings,
    "stream": StreamSettings,
    "universal": UniversalSettings,
    "private_test": PrivateTestSettings,
    "error_estimate": ErrorEstimateSettings,
}
"""The kinds by the names of their mechanisms."""


def _own(kind: type[KindSettings]) -> set[str]:
    """The fields of a kind, without those of `KindSettings` that it does not state to have."""
    stated = (base for base in kind.__mro__ if issubclass(base, KindSettings) and base is not KindSettings)
    return {name for base in stated for name in get_annotations(base)}
