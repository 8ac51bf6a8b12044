"""The mechanisms by name, and how each is calibrated from public settings alone.

`artifacts.sections.MECHANISMS` lists them; each is `MECHANISM` of the module of its name.
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

from artifacts.errors import WrongInput
from artifacts.sections import MECHANISMS
from tasks.mechanisms.mechanism import Mechanism


class MechanismClass(Protocol):
    """A mechanism before it is calibrated: what all of its kind share, and how one is made."""

    @property
    def proof(self) -> str:
        """As `Mechanism.proof`."""

    @property
    def counts(self) -> bool:
        """As `Mechanism.counts`."""

    @property
    def calibrate(self) -> Callable[..., Mechanism]:
        """The mechanism that spends at most (epsilon, delta); takes those of `calibrate`'s other settings it needs."""

    @property
    def from_settings(self) -> Callable[[dict[str, Any]], Mechanism]:
        """The mechanism that `settings` was taken from."""


def mechanism_class(name: str) -> MechanismClass:
    """The mechanism of that name. Raises WrongInput if there is none."""
    if name not in MECHANISMS:
        raise WrongInput(f"labeling.mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}")
    return cast("MechanismClass", import_module(f"tasks.mechanisms.{name}").MECHANISM)


def calibrate(
    name: str,
    *,
    epsilon: float,
    delta: float,
    cutoff: int | None,
    queries: int,
    classes: int,
    teachers: int,
    order: float,
    accountant: str = "renyi",
) -> Mechanism:
    """The mechanism `name` that spends at most (epsilon, delta) by its end.

    cutoff    refusals until it halts, for the mechanisms that pay by refusal
    queries   rows it may answer at most, for those that pay by row
    order     the Rényi order its cost is charged at in its domain, where it must be finite
    accountant  what proves its (ε, δ), for the one that has several
    Raises WrongInput if the settings cannot be met.
    """
    make = mechanism_class(name).calibrate
    settings = {
        "cutoff": cutoff or 0,
        "queries": queries,
        "classes": classes,
        "teachers": teachers,
        "order": order,
        "accountant": accountant,
    }
    taken = inspect.signature(make).parameters
    try:
        return make(epsilon=epsilon, delta=delta, **{key: settings[key] for key in settings if key in taken})
    except ValueError as wrong:
        raise WrongInput(f"labeling: {wrong}") from None


def from_settings(settings: dict[str, Any]) -> Mechanism:
    """The mechanism of recorded settings, as it ran. Raises WrongInput if its name is none of the catalogue."""
    return mechanism_class(str(settings["name"])).from_settings(settings)
