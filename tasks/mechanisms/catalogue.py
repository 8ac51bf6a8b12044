"""The catalogue of mechanisms by name, to read one back from its record.

Assumes      settings on record are JSON that anyone may have written
Guarantees   what is read back is recorded alike: no key is dropped, none is read as another value
Ends         not applicable: nothing is drawn
Not covered  whether the settings prove their claim (tasks.verify.recompute)
             Checked by tests/tasks/mechanisms/test_catalogue.py
"""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.sections import MECHANISMS
from concord.tasks.mechanisms.confident import ConfidentGNMax
from concord.tasks.mechanisms.error_estimate import ErrorEstimate
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.laplace_votes import LaplaceVotes
from concord.tasks.mechanisms.mechanism import Mechanism, PublicSettings
from concord.tasks.mechanisms.noisy_votes import NoisyVotes
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.mechanisms.published import PublishedAlgorithm
from concord.tasks.mechanisms.queries import LaplaceRelease, OptimalRelease
from concord.tasks.mechanisms.relabelled import Relabelled, Relabelling
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.mechanisms.sparse_vector import SparseVector
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.mechanisms.tallies import Tallies

OF_VOTES = (StableVoting, NoisyVotes, ConfidentGNMax, LaplaceVotes, SparseVector, PublishedAlgorithm)
OTHERS = (OptimalRelease, LaplaceRelease, Tallies, Sketch, Stream, Universal, PrivateTest, ErrorEstimate)
CATALOGUE: dict[str, type[PublicSettings]] = {each.name: each for each in (*OF_VOTES, *OTHERS)}
"""The mechanisms by name."""
Some = TypeVar("Some", bound=PublicSettings | Relabelled)


def recorded(settings: Mapping[str, Any]) -> PublicSettings | Relabelled:
    """The mechanism of a session, from its settings on record. Raises NotVerified if they are of another version."""
    name, why = settings.get("name"), "this version has no such kind, or records it otherwise"
    kind = CATALOGUE.get(str(name))
    made: PublicSettings | Relabelled | None = None
    try:
        if kind is not None and name in MECHANISMS and "relabel" in settings:
            inner = kind.model_validate({key: value for key, value in settings.items() if key != "relabel"})
            relabelling = Relabelling.model_validate(settings["relabel"])
            made = Relabelled(inner=cast("Mechanism", inner), relabelling=relabelling)
        elif kind is not None:
            made = kind.model_validate(settings)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except WrongInput as wrong:
        why = str(wrong)
    if made is not None and made.model_dump(mode="json") == settings:
        return made
    raise NotVerified(f"the settings of {name!r} are not those of a session of that kind: {why}")


def recorded_as(kind: type[Some], settings: Mapping[str, Any]) -> Some:
    """The mechanism of a session, which must be of that type. Raises NotVerified if it is of another."""
    mechanism = recorded(settings)
    if not isinstance(mechanism, kind):
        raise NotVerified(f"the settings of {mechanism.name!r} are not those of a session of that kind")
    return mechanism


def of_votes(settings: Mapping[str, Any]) -> Mechanism:
    """The mechanism that answered votes, likewise."""
    return cast("Mechanism", recorded(settings))
