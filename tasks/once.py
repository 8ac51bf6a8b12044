"""Once: a session whose one answer ends it, such as the choice of a student or an estimate of errors.

Assumes      what draws the answer is ε-DP, pure; the question and what it depends on are public
Guarantees   the session claims (ε, 0); asked again, it is found by all that its answer depends on
Ends         with its answer
Not covered  what the answer is drawn from: tasks.choose and tasks.estimate, and the tests they name
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from artifacts.encoding import Encoding
from artifacts.plan import Plan
from artifacts.privacy import Cost
from artifacts.schemas import Ref
from artifacts.sessions import Session
from artifacts.vault import Vault
from tasks.admit import Asked, known_by
from tasks.release import Door


class Pure(Protocol):
    """A mechanism with one answer: public settings, and ε."""

    @property
    def epsilon(self) -> float: ...

    @property
    def cost(self) -> Cost: ...

    def settings(self) -> dict[str, Any]: ...


Answering = TypeVar("Answering", bound=Pure)


@dataclass(frozen=True)
class Once(Generic[Answering]):
    """A mechanism with one answer, as a session is opened for it.

    mechanism   what draws the answer
    about       what else is public of the question, as JSON
    """

    mechanism: Answering
    about: dict[str, Any]

    cutoff: ClassVar[None] = None
    queries: ClassVar[int] = 1
    per_refusal: ClassVar[None] = None

    @property
    def cost(self) -> Cost:
        """ε, pure."""
        return self.mechanism.cost

    def settings(self) -> dict[str, Any]:
        """As JSON."""
        return {**self.mechanism.settings(), **self.about}

    def asked(
        self, plan: Plan, encoding: Encoding, vault: Vault, depends: Mapping[str, Any], *, teachers: int
    ) -> Asked:
        """The session it is asked for in; `depends` is what its answer depends on beside data and encoding, as JSON."""
        who = known_by(vault, plan, encoding, depends)
        epsilon = self.mechanism.epsilon
        return Asked(plan=plan, mechanism=self, identity=who, epsilon=epsilon, delta=0.0, teachers=teachers)


def publish(door: Door, session: Session, name: str, **told: Any) -> Ref:
    """Write the answer of a session, `told` as JSON, to the released file of that name."""
    claim = {"session": session.id, "epsilon": session.epsilon, "delta": session.delta}
    text = json.dumps({**claim, **told}, indent=2, sort_keys=True)
    return door.released.write(f"{session.id}/{name}", text.encode())
