"""Kinds of sessions: the settings that the ledger records of each, as types, distinguished by the mechanism's name.

    the ledger's or a certificate's JSON ─ Kind.of ─ one frozen value: Stable, Tallies, PrivateTest …, or Unknown

Nothing else reads a session's settings by key. Whether a kind has classes, bounds or a season is a field of its
type; where a kind lacks such a field, it has the default that stands in `Kind`. What an ask adds to its mechanism's own
settings may be absent: the settings of a mechanism by itself are a kind as well.
Settings of another version, with a name, a field or a value that this one does not know, are `Unknown`. A session of
that kind concerns its own domain alone: whatever needs more of it than its name stops there (exit 4).
Checked by tests/tasks/mechanisms/test_catalogue.py
"""

from collections.abc import Mapping
from inspect import get_annotations
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from concord.artifacts.errors import NotVerified
from concord.artifacts.schemas import Bounds, Frozen


class Round(Frozen):
    """The settings of a round of sums (tasks.mechanisms.tallies)."""

    what: str
    fields: int
    cells: int
    least: int
    count: int
    share: float
    scale: float


class Relabelling(Frozen):
    """How the rows of a session were relabelled, and the claim (epsilon, delta) of the whole
    (tasks.mechanisms.relabelled)."""

    hypotheses: str
    features: tuple[str, ...]
    grid: str
    share: float
    choice_epsilon: float
    epsilon: float
    delta: float


class Noise(NamedTuple):
    """Noise of a scale, in units, in each of `numbers` numbers; None if the question decides how many."""

    what: str
    numbers: int | None
    noise: float


Some = TypeVar("Some", bound="Kind")
End = Literal["cutoff", "queries"]
"""What ends a session: its refusals (cutoff), or the rows it was asked (queries)."""


class Kind(Frozen):
    """The settings of a session: these fields are of several kinds, and each kind states which of them it has.

    epsilon, delta  the claim, of relabelled rows before amplification; delta None if the mechanism is pure
    classes         number of classes; 0 if the label is a number within `bounds`
    cutoff          refusals until it ends
    queries         rows or rounds until it ends
    secret          what is secret of a unit, a key of artifacts.domains.NEIGHBOURS
    relabel         how its rows were relabelled, if they were
    rounds          of sums
    season          releases of a season of a stream
    session         whose student it tests
    student         digest of the student that it tests
    of_rows         what gets labels, and what a student learns from besides
    given           what a plan gives besides itself that is public
    command         finishes a killed session, with placeholders for names
    """

    of_rows: ClassVar[str] = "public rows"
    given: ClassVar[str] = "public rows"
    command: ClassVar[str] = "concord run PLAN"

    name: str
    epsilon: float | None = None
    delta: float | None = None
    classes: int | None = None
    bounds: Bounds | None = None
    cutoff: int | None = None
    queries: int | None = None
    secret: str | None = None
    relabel: Relabelling | None = None
    rounds: tuple[Round, ...] = ()
    season: int | None = None
    session: str | None = None
    student: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Kind":
        """The settings on record as an object of their kind; `Unknown` if no kind fits."""
        name = settings.get("name")
        kind = KINDS.get(name, Unknown) if isinstance(name, str) else Unknown
        why = "this version has no such kind"
        try:
            if foreign := sorted(settings.keys() & Kind.model_fields.keys() - _own(kind) - {"name"}):
                why = f"this version's has no {foreign[0]}"
            elif kind is not Unknown:
                return kind.model_validate(settings)
        except ValidationError as wrong:  # fields or values of another version, or no settings of Concord's at all
            first = wrong.errors()[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return Unknown(name=str(name), relabel=settings.get("relabel"), why=why)

    def only(self, kind: type[Some]) -> Some:
        """These settings, which must be of that kind. Raises NotVerified if they are of another."""
        if not isinstance(self, kind):
            why = f": {self.why}" if isinstance(self, Unknown) else ""
            raise NotVerified(f"the settings of {self.name!r} are not those of a session of that kind{why}")
        return self

    @property
    def claim(self) -> tuple[float | None, float | None]:
        """ε and δ that the settings state for the whole session; None for what they do not state."""
        whole = self.relabel if isinstance(self.relabel, Relabelling) else self
        return whole.epsilon, whole.delta

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise in what it releases of records, part by part; nothing if it releases no count and no sum."""
        return ()


class Unknown(Kind):
    """A kind of another version. Only its name is known, and what no other session may repeat.

    relabel  whatever it says of relabelled rows: a domain's secret subset answers once, whichever version asked it
    why      what is unknown of it, in words
    """

    relabel: Any = None
    why: str


class Votes(Kind):
    """Labels of public rows by votes, or answers to questions that shards share; `question` is a session's only one."""

    epsilon: float
    delta: float
    relabel: Relabelling | None = None
    question: str | None = None

    @classmethod
    def ends(cls) -> tuple[End, ...]:
        """What ends a session of labels; nothing if the mechanism answers a single question."""
        ends: tuple[End, ...] = ("cutoff", "queries")
        return tuple(end for end in ends if end in _own(cls))


class Stable(Votes):
    """Stable voting; `refusal` is the table that runs, in base64, and `order` the Rényi order that it was made for."""

    cutoff: int
    order: float
    refusal: str


class NoisyThreshold(Votes):
    """The sparse vector technique."""

    cutoff: int
    threshold: int
    threshold_scale: float
    query_scale: float


class Published(NoisyThreshold):
    """The papers' Algorithm 3, with the thresholds that they give for so many teachers."""

    queries: int
    beta: float
    teachers: int


class NoisyCounts(Votes):
    """Noisy counts of votes, Gaussian or Laplace."""

    queries: int
    classes: int
    scale: float

    @property
    def noise(self) -> tuple[Noise, ...]:
        """In the counts of each row."""
        return (Noise("counts", None, self.scale),)


class Confident(NoisyCounts):
    """Noisy counts of votes where a noisy test finds them far apart."""

    answers: int
    threshold: int
    test_scale: float


class OptimalRelease(Votes):
    """A single question, by a table of refusals."""

    refusal: str


class LaplaceRelease(Votes):
    """A single question, by a noisy threshold."""

    scale: float
    threshold: float

    @property
    def noise(self) -> tuple[Noise, ...]:
        """In the counts of shards by their answer."""
        return (Noise("counts", None, self.scale),)


class Tallies(Kind):
    """Rounds of noisy sums about the codes of that digest; `many` says whether a unit may have several rows."""

    epsilon: float
    delta: float
    classes: int
    bounds: Bounds | None = None
    steps: int
    secret: str
    many: bool
    rounds: tuple[Round, ...]
    codes: str = ""

    @property
    def unit(self) -> int:
        """What a unit's vote adds to a released sum at most."""
        return self.steps

    @property
    def noise(self) -> tuple[Noise, ...]:
        """In the sums of each round."""
        return tuple(
            Noise(f"round {at}: sums about {each.what}", each.cells, each.scale / self.unit)
            for at, each in enumerate(self.rounds, start=1)
        )


class Sketch(Tallies):
    """Rounds of tables and of labels, about the cells of a declared schema."""

    of_rows: ClassVar[str] = "synthetic rows"
    given: ClassVar[str] = "declared schema"


class Stream(Tallies):
    """A season of running sums, by coefficients of so many `bits`."""

    command: ClassVar[str] = "concord refresh PLAN"

    season: int
    bits: int
    matrix: str

    @property
    def unit(self) -> int:
        """As for tallies, in the coefficients' own steps."""
        return self.steps << self.bits


class Universal(Kind):
    """The choice of a hypothesis by errors on private units, of the class of that name and digest, among so many."""

    epsilon: float
    secret: str
    hypotheses: str = ""
    features: tuple[str, ...] = ()
    digest: str = Field(default="", alias="class")
    candidates: int = 0


class PrivateTest(Kind):
    """A private test: noise of `scale` and `pair_scale`; of a number, beside the errors of a constant."""

    epsilon: float
    delta: float
    classes: int
    bounds: Bounds | None = None
    secret: str
    scale: float
    pair_scale: float
    session: str | None = None
    student: str | None = None
    share: float | None = None
    clean: bool = False
    constant: float = 0.0

    @property
    def noise(self) -> tuple[Noise, ...]:
        """In the counts, and in the numbers of right and wrong."""
        return Noise("counts", None, self.scale), Noise("numbers of right and wrong", None, self.pair_scale)


class ErrorEstimate(Kind):
    """An estimate of how much teachers err, from so many shards; a `share` of the units is set aside."""

    command: ClassVar[str] = "concord estimate PLAN"

    epsilon: float
    shards: int
    steps: int
    scale: float
    share: float = 0.0


KINDS: dict[str, type[Kind]] = {
    "stable": Stable,
    "noisy_votes": NoisyCounts,
    "confident": Confident,
    "laplace_votes": NoisyCounts,
    "sparse_vector": NoisyThreshold,
    "published": Published,
    "optimal_release": OptimalRelease,
    "laplace_release": LaplaceRelease,
    "tallies": Tallies,
    "sketch": Sketch,
    "stream": Stream,
    "universal": Universal,
    "private_test": PrivateTest,
    "error_estimate": ErrorEstimate,
}
"""The kinds by the names of their mechanisms; those of votes in order of preference, as a plan may name them."""


def _own(kind: type[Kind]) -> set[str]:
    """The fields of a kind, without those of `Kind` that it does not state to have."""
    stated = (each for each in kind.__mro__ if issubclass(each, Kind) and each is not Kind)
    return {name for each in stated for name in get_annotations(each)}
