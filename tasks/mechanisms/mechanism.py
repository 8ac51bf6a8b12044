"""Mechanisms: their protocol, the catalogue by name, and what to expect of one on a stream.

A mechanism is one value with everything about a way to answer votes: calibration, cost, answers, odds and proof. To
add one, write its file, add its settings to `artifacts.kinds` and its independent recomputation to
`tasks.verify.recompute`: tests/privacy/test_new_mechanism.py adds one.

Offers       `Mechanism` (the protocol), `calibrate` and `from_settings` (a mechanism by its name in
             `artifacts.sections.MECHANISMS`: `MECHANISM` of the module of that name), `expectation` (rows answered, and
             the share of their labels that noise changes), `FieldSettings` (a mechanism whose fields are its settings)

Statement of `expectation`
    Assumes      the votes are public: a guess of them, or a simulation
    Guarantees   nothing about privacy: arithmetic on the mechanism's own odds (odds.py)
    Ends         not applicable: nothing is drawn
    Not covered  whether the plurality of the teachers is the right label

A noisy threshold is kept for a whole epoch, while its odds draw it afresh for each row. This may count too few answers,
never too many: with r(X) the rate of refusal under noise X, an epoch outlasts t rows with probability E (1 − r(X))^t,
at least (1 − E r(X))^t by Jensen's inequality, so epochs are at least as long. Checked by
tests/tasks/mechanisms/test_outcome.py.
"""

import inspect
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self, TypedDict, Unpack, cast

from concord.artifacts.errors import WrongInput
from concord.artifacts.kinds import KINDS, Kind
from concord.artifacts.privacy import Cost
from concord.artifacts.sections import MECHANISMS
from concord.tasks.mechanisms.distance import Answers, Floats, Ints, RandomSource
from concord.tasks.mechanisms.odds import Odds


class Mechanism(Protocol):
    """A way to answer votes. Fields are public settings, independent of private rows."""

    # What it is -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in plans and in the ledger."""

    @property
    def proof(self) -> str:
        """Where its guarantee is proved, as printed in the certificate: a file of this project, and the literature."""

    @property
    def calibrated(self) -> Collection[str]:
        """Names of its settings that calibration computes in floating point and rounds to whole numbers: another
        processor may compute another table."""

    def settings(self) -> dict[str, Any]:
        """Its public settings as JSON, enough to rebuild and certify it: calibration inputs and their results."""

    def from_settings(self, kind: Kind, /) -> Self:
        """The mechanism that a session ran, from its settings on record. Raises NotVerified if they are not its own."""

    # How it runs ------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Whether its answers follow from the session key alone, so that a retry needs no stored noise."""

    @property
    def counts(self) -> bool:
        """Whether it releases noisy counts, from which a regressor learns more than from their labels."""

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:
        """Answer a batch: votes (rows, classes), its first row number in the session, and the refusals before it."""

    # How it pays and ends ---------------------------------------------------------------------------------------------

    @property
    def cost(self) -> Cost:
        """Cost at its end, computed from the settings that run."""

    @property
    def per_refusal(self) -> Cost | None:
        """Cost of one refusal, if a session is charged for the refusals that happened; None if it is charged whole."""

    @property
    def cutoff(self) -> int | None:
        """Number of refusals at which it halts; None if it does not pay by refusal."""

    @property
    def queries(self) -> int | None:
        """Largest number of rows it may answer; None if the stream may be endless."""

    def epsilon_if_ended(self, asked: int, refused: int) -> float:
        """ε at its δ, had it been planned to end after `asked` rows of which `refused` were refused."""

    # What to expect of it ---------------------------------------------------------------------------------------------

    @property
    def answers(self) -> int | None:
        """Largest number of rows it may release; None if released rows are not limited."""

    def odds(self, votes: Floats) -> Odds:
        """Odds for each row of votes (rows, classes), whose counts are in falling order."""


class MechanismClass(Protocol):
    """A mechanism before it is calibrated: its shared attributes and its constructors."""

    @property
    def proof(self) -> str:
        """As `Mechanism.proof`."""

    @property
    def pays_for(self) -> str:
        """What it is charged for, in a few words for the README."""

    @property
    def take_if(self) -> str:
        """When to take it, in words for the README."""

    @property
    def counts(self) -> bool:
        """As `Mechanism.counts`."""

    @property
    def calibrate(self) -> Callable[..., Mechanism]:
        """Makes the mechanism that spends at most (epsilon, delta), from the other settings of `calibrate` it needs."""

    @property
    def from_settings(self) -> Callable[[Kind], Mechanism]:
        """As `Mechanism.from_settings`."""


@dataclass(frozen=True, kw_only=True)
class FieldSettings:
    """Base of a mechanism whose fields are its settings: how to record them, and how to rebuild it from them."""

    name: ClassVar[str]
    calibrated: ClassVar[Collection[str]] = ()

    @classmethod
    def from_settings(cls, kind: Kind) -> Self:
        """As `Mechanism.from_settings`."""
        own = kind.only(KINDS[cls.name])
        return cls(**{each.name: getattr(own, each.name) for each in fields(cls)})

    def settings(self) -> dict[str, Any]:
        """Its public settings as JSON: the keywords it is built from, and its name."""
        return {"name": self.name, **asdict(self)}


def mechanism_class(name: str) -> MechanismClass:
    """The mechanism of that name. Raises WrongInput if there is none."""
    if name not in MECHANISMS:
        raise WrongInput(f"labeling.mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}")
    return cast("MechanismClass", import_module(f"concord.tasks.mechanisms.{name}").MECHANISM)


class VoteTerms(TypedDict):
    """What a mechanism may be calibrated to besides its budget; each takes the terms that it needs.

    cutoff      refusals until it halts, for mechanisms that pay by refusal
    queries     largest number of rows it may answer, for mechanisms that pay by row
    classes     number of classes
    teachers    number of votes on a row
    order       Rényi order at which its domain is charged, if its cost must be finite there
    """

    cutoff: int | None
    queries: int
    classes: int
    teachers: int
    order: float


def calibrate(name: str, *, epsilon: float, delta: float, **terms: Unpack[VoteTerms]) -> Mechanism:
    """The mechanism `name` that spends at most (epsilon, delta) by its end. Raises WrongInput if that cannot be met."""
    make = mechanism_class(name).calibrate
    known = {**terms, "cutoff": terms["cutoff"] or 0}
    taken = inspect.signature(make).parameters
    try:
        return make(epsilon=epsilon, delta=delta, **{key: value for key, value in known.items() if key in taken})
    except ValueError as wrong:
        raise WrongInput(f"labeling: {wrong}") from None


def from_settings(kind: Kind) -> Mechanism:
    """The mechanism that answered, from its recorded settings: for relabelled rows, the inner one.

    Raises WrongInput if its name is not in the catalogue, NotVerified if the settings are not of that kind.
    """
    return mechanism_class(kind.name).from_settings(kind)


@dataclass(frozen=True)
class Expectation:
    """Expected result of a stream: rows answered, and the share of their labels that noise has changed."""

    answered: float
    changed: float


def expectation(mechanism: Mechanism, votes: Floats, queries: int) -> Expectation:
    """Expectation for `queries` rows drawn from those of `votes` (rows, classes) and asked in turn."""
    by_row = mechanism.odds(votes)
    answered_odds = 1 - by_row.refused
    rate = float(by_row.refused.mean())
    if mechanism.answers is not None:
        answered = _expected_up_to(mechanism.answers, queries, 1 - rate)
    elif mechanism.cutoff is None or rate == 0:
        answered = float(queries)
    else:
        # Wald: rows asked until the T-th refusal or the last row are the expected refusals over their rate.
        answered = _expected_up_to(mechanism.cutoff, queries, rate) * (1 - rate) / rate
    weights = answered_odds / max(answered_odds.sum(), 1e-300)
    return Expectation(answered=answered, changed=float((weights * by_row.changed).sum()))


def _expected_up_to(most: int, trials: int, chance: float) -> float:
    """E min(most, N) for N ~ Binomial(trials, chance)."""
    from scipy.stats import binom  # heavy, and rarely asked for

    below = trials * chance * float(binom.cdf(most - 2, trials - 1, chance))
    return below + most * float(binom.sf(most - 1, trials, chance))
