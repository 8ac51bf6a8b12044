"""A mechanism's settings, which are recorded as they are; and what every mechanism of votes offers.

    model ─ model_dump ─▶ JSON of ledger, certificate and released files ─ catalogue.recorded ─▶ model

A mechanism is one frozen value with everything that its guarantee hangs on: what is drawn, its cost and its proof. To
add one, write its file and its referee (tasks.verify.recompute), and name it in the catalogue (catalogue.py; if plans
may name it, in `artifacts.sections.MECHANISMS` too): tests/privacy/test_new_mechanism.py adds one.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Protocol, Self

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer, model_validator

from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Frozen
from concord.tasks.mechanisms.distance import Answers, Ints, RandomSource

VOTES = "labels of public rows, by votes of teachers, each of which learned from a part of the private rows of its own"


class PublicSettings(Frozen):
    """Public settings of a mechanism, independent of private rows. They are recorded as JSON, under the mechanism's
    name, and validated when they are read back.

    name        in plans and in the ledger
    proof       where its guarantee is proved, as printed in the certificate: a file of this project, and the literature
    releases    what it releases, in words; empty if no certificate states it
    command     the command that asks it, and that finishes a session which was killed
    pays_for    what it is charged for, and `take_if` when to take it, for the README, if plans may name it
    calibrated  names of settings that calibration computes in floating point and rounds to whole numbers: another
                processor may compute another table
    of_ask      names of settings that say what is asked: they are recorded if they are set
    forms       of exact numbers that it draws from (`tasks.door.exact`)
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    name: ClassVar[str]
    proof: ClassVar[str]
    releases: ClassVar[str] = VOTES
    command: ClassVar[str] = "concord run PLAN"
    pays_for: ClassVar[str] = ""
    take_if: ClassVar[str] = ""
    calibrated: ClassVar[Collection[str]] = ()
    of_ask: ClassVar[Collection[str]] = ()
    forms: ClassVar[Collection[str]] = ("votes",)

    @classmethod
    def calibrate(cls, **terms: Any) -> Self:
        """The settings with which it answers most, or adds the least noise, within a budget.

        terms   epsilon, and what else its function in tasks.mechanisms.calibration asks for, such as delta and cutoff
        Raises WrongInput if no settings meet them.
        """
        from concord.tasks.mechanisms.calibration import calibrated  # it imports every mechanism

        return calibrated(cls, terms)

    def __eq__(self, other: object) -> bool:
        """Whether it is recorded alike: tables have no truth of their own."""
        return type(other) is type(self) and other.model_dump() == self.model_dump()

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @model_serializer(mode="wrap")
    def _record(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unset = {type(self).model_fields[name].alias or name for name in {*self.of_ask} - self.model_fields_set}
        return {"name": self.name, **{key: value for key, value in fields(self).items() if key not in unset}}

    @model_validator(mode="before")
    @classmethod
    def _without_name(cls, settings: Any) -> Any:
        if isinstance(settings, Mapping) and settings.get("name", cls.name) == cls.name:
            return {key: value for key, value in settings.items() if key != "name"}
        return settings


class Mechanism(Protocol):
    """A way to answer votes: its settings (see `PublicSettings`), and what follows from them."""

    # What it is -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name in plans and in the ledger."""

    @property
    def calibrated(self) -> Collection[str]:
        """As `PublicSettings.calibrated`."""

    @property
    def model_dump(self) -> Callable[..., dict[str, Any]]:
        """Its public settings, enough to rebuild and certify it: as JSON if `mode` is "json"."""

    # How it runs ------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Whether its answers follow from the session key alone, so that a retry needs no stored noise."""

    @property
    def forms(self) -> Collection[str]:
        """As `PublicSettings.forms`."""

    @property
    def counts(self) -> bool:
        """Whether it releases noisy counts, from which a regressor learns more than from their labels."""

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:
        """Answer a batch: votes (rows, classes), its first row number in the session, and the refusals before it."""

    # How it pays and ends ---------------------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """ε that it claims at its end."""

    @property
    def delta(self) -> float:
        """δ that it claims at its end."""

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
