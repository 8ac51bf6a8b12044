"""The settings of sessions as the referee reads them, apart from the mechanisms that write them: what all kinds share.

    the ledger's or a certificate's JSON ─ recompute.read_settings ─ settings of a kind with its `Proof`, or Unknown

Assumes      nothing: settings are JSON that anyone may have written
Guarantees   a key, or a value, that a kind does not have makes the settings Unknown, and nothing is recomputed of them
Not covered  whether the settings prove their claim (tasks.verify.recompute)
             Checked by tests/tasks/mechanisms/test_catalogue.py
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, ValidationError

from concord.artifacts.errors import NotVerified
from concord.artifacts.schemas import Bounds, Frozen

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
"""What is below 0 would cost less than nothing."""
Secret = Literal["rows", "labels"]
"""What is secret of a unit."""
Releases = Literal["labels", "rounds", "hypothesis", "answers"]
"""Labels of rows that teachers vote on; sums, round by round; a student; or answers, which the certificate repeats."""


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
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """The settings on record as those of this kind. Raises NotVerified, with a reason, if they are of none."""
        if foreign := sorted(settings.keys() & KindSettings.model_fields.keys() - cls._stated()):
            raise NotVerified(f"this version's has no {foreign[0]}")
        try:
            return cls.model_validate(settings)
        except ValidationError as wrong:
            first = wrong.errors()[0]
            raise NotVerified(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    @classmethod
    def _stated(cls) -> set[str]:
        """The name, and those of the shared fields that the kind states to have."""
        stated = (base for base in cls.__mro__ if issubclass(base, KindSettings) and base is not KindSettings)
        return {"name"}.union(*map(get_annotations, stated))

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


class Proof(ABC):
    """What settings of a kind cost, by another path than its mechanism's.

    releases    what a session from which a student learns releases
    by_refusal  whether a session that ends early is charged by its refusals
    """

    releases: ClassVar[Releases] = "labels"
    by_refusal: ClassVar[bool] = False

    @abstractmethod
    def least_delta(self, epsilon: float) -> float:
        """A δ at which the settings are proved (epsilon, δ)-DP. Raises NotVerified if it cannot be recomputed."""

    @abstractmethod
    def charge(self, order: float) -> tuple[float, float]:
        """Rényi nats at `order`, and additive δ. Raises NotVerified if they cannot be recomputed."""
