"""What is asked at the door: all that its session, and the door, need to know of it.

An ask is public and frozen: a mechanism, and other public facts. There is one file a kind in tasks.asks; admission
(`tasks.door.admit`) and the door (`tasks.door.door`) know none of them by name.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, cast

from concord.artifacts.parts import LEARNING
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Ref, canonical_json
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.tasks.door.door import Drawn, Step, publish_json
from concord.tasks.door.exact import Exact, FormName
from concord.tasks.mechanisms.catalogue import recorded

ROUNDING = 1e-9
"""Relative difference up to which two floats are one setting: processors differ in the last bits."""


class Priced(Protocol):
    """A mechanism's settings, what they cost, and when its session ends; see `tasks.mechanisms.mechanism`."""

    @property
    def name(self) -> str: ...
    @property
    def calibrated(self) -> Collection[str]: ...
    @property
    def model_dump(self) -> Callable[..., dict[str, Any]]: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def per_refusal(self) -> Cost | None: ...
    @property
    def cutoff(self) -> int | None: ...
    @property
    def queries(self) -> int | None: ...


Answering = TypeVar("Answering", bound=Priced)


@dataclass(frozen=True)
class Ask(ABC, Generic[Answering]):
    """What a session is opened for.

    mechanism   draws the answers

    purpose     what its session is opened for, in words
    part        part of the domain's units that it reads, if the plan divides them
    stage       the stage of a run that passes the door with it
    """

    mechanism: Answering

    purpose: ClassVar[str]
    stage: ClassVar[Literal["release", "choose", "test"]] = "release"
    part: ClassVar[str] = LEARNING

    @property
    def stream(self) -> str:
        """The stream of which its session is a season, or none."""
        return ""

    @property
    def teachers(self) -> int:
        """Number of shards that answer; 0 if the rows themselves are asked."""
        return 0

    def settings(self) -> dict[str, Any]:
        """Public settings as JSON: they are on record, and certified."""
        return self.mechanism.model_dump(mode="json")

    def as_recorded(self, settings: Mapping[str, Any]) -> Self:
        """The ask with the calibrated numbers of a session's settings on record; itself if the settings differ by more
        than calibration on another processor would explain."""
        present = json.loads(canonical_json(self.settings()))
        if present == settings or not _agree(present, settings, self.mechanism.calibrated):
            return self
        return replace(self, mechanism=cast("Any", recorded(settings)))

    @abstractmethod
    def depends(self, plan: Plan) -> dict[str, Any]:
        """Settings that identify its session besides data and encoding, as JSON."""


def _agree(ours: Any, recorded: Any, calibrated: Collection[str]) -> bool:
    """Whether settings are equal, except for `calibrated` ones and the rounding of floats."""
    match ours, recorded:
        case dict(), dict():
            same = ours.keys() == recorded.keys()
            return same and all(_agree(ours[k], recorded[k], calibrated) for k in ours.keys() - calibrated)
        case list(), list():
            return len(ours) == len(recorded) and all(map(lambda a, b: _agree(a, b, calibrated), ours, recorded))
        case float(), float() | int():
            return math.isclose(ours, recorded, rel_tol=ROUNDING)
    return bool(ours == recorded)


@dataclass(frozen=True)
class SingleAsk(Ask[Answering]):
    """A question with one answer, which ends its session.

    about   other public facts of the question, as JSON

    form    of its exact numbers
    file    name of the released file, JSON
    """

    about: dict[str, Any]

    form: ClassVar[FormName]
    file: ClassVar[str]

    def settings(self) -> dict[str, Any]:
        """The settings of the mechanism, and the other facts."""
        return {**self.mechanism.model_dump(mode="json"), **self.about}

    @property
    def question(self) -> Mapping[str, Any]:
        """The question as JSON, of which the ledger keeps a keyed digest."""
        return self.settings()

    def steps(self, stores: Stores, session: Session, exact: Sequence[Ref]) -> Iterator[Step]:  # noqa: ARG002
        """Its one step; `exact` are the files of the private numbers that it draws from."""
        yield Step(
            question=canonical_json(self.question),
            exact=Exact(self.form, (tuple(exact),)),
            publish=publish_json,
            about=self,
            draw="answer",
            path=self.file,
            number=0,
        )

    @abstractmethod
    def result(self, drawn: Drawn) -> dict[str, Any]:
        """The released answer as JSON: a function of what was drawn and of public things alone."""
