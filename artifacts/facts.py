"""Facts of a session: the few of its mechanism's settings by which ledger, certificate and tracking decide.

    JSON of the ledger or of a certificate ─ Facts.of ─▶ facts      (all of it: tasks.mechanisms.catalogue.recorded)

What a kind does not have is None here, or nothing. Settings of another version have the facts that they state in the
form of this one: such a session concerns its own domain alone, and whatever needs more of it than these facts reads the
mechanism, which stops there (exit 4).
Checked by tests/artifacts/test_records.py
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from concord.artifacts.schemas import Bounds

SKETCH = "sketch"
"""The mechanism that needs no public rows: a student learns from synthetic ones (tasks/mechanisms/sketch.py)."""


class Facts(BaseModel):
    """What settings on record say of a session.

    epsilon, delta  the claim, of relabelled rows before amplification; delta None if the mechanism is pure
    classes         number of classes; 0 if the label is a number within `bounds`
    relabel         how its rows were relabelled, if they were
    rounds          of sums
    season          releases of a season of a stream
    session         whose student it tests
    student         digest of the student that it tests
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    name: str
    epsilon: float | None = None
    delta: float | None = None
    classes: int | None = None
    bounds: Bounds | None = None
    relabel: Any = None
    rounds: tuple[Any, ...] = ()
    season: int | None = None
    session: str | None = None
    student: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The facts that settings on record state; of those that state one in no form of this version, the name and
        what they say of relabelled rows: a domain's secret subset answers once, whichever version asked it."""
        try:
            return cls.model_validate(settings)
        except ValidationError:
            return cls(name=str(settings.get("name")), relabel=settings.get("relabel"))

    @property
    def of_rows(self) -> str:
        """What gets labels, and what a student learns from besides."""
        return "synthetic rows" if self.name == SKETCH else "public rows"

    @property
    def given(self) -> str:
        """What a plan gives besides itself that is public."""
        return "declared schema" if self.name == SKETCH else "public rows"
