"""What a run came to: its stages, and the summary that `concord run --json` prints."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel

StageName = Literal[
    "encode", "split", "relabel", "teach", "poll", "measure", "count", "release", "choose", "study", "certify"
]
STAGES: tuple[StageName, ...] = get_args(StageName)
"""All there are, in their order; a plan has those it needs."""


class StageReport(BaseModel):
    """How a stage went."""

    name: StageName
    cached: bool
    seconds: float


class Summary(BaseModel):
    """What a run came to, as `concord run --json` prints it.

    certificate_digest   SHA-256 of the certificate's file
    spent_now    what the domain was charged while it ran
    conversion   of that ε, what a domain is charged once, with its first session: turning its Rényi charges into ε
    """

    run_id: str
    session: str
    certificate: str
    certificate_digest: str
    report: str
    guarantee: dict[str, Any]
    mechanism: dict[str, Any]
    teachers: int
    asked: int
    answered: int
    refused: int
    asked_now: int
    student: dict[str, Any]
    spent_now: dict[str, float]
    conversion: float
    stages: list[StageReport]


def in_words(summary: Summary) -> str:
    """A run in one line."""
    rows = f"{summary.asked_now} rows asked now, {summary.answered} of {summary.asked} answered in all"
    return f"session {summary.session}: {rows}; spent now {spent_in_words(summary.spent_now, summary.conversion)}"


def spent_in_words(spent: Mapping[str, float], conversion: float) -> str:
    """What was spent of a domain's budget; and why a first session is charged more than it claims."""
    whole = f"ε = {spent['epsilon']:.3g} of the domain's budget"
    rest = spent["epsilon"] - conversion
    return f"{whole}: {conversion:.3g} for its one-off conversion, {rest:.3g} for this run" if conversion else whole


def briefly(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A mechanism's settings without its table of refusals, which the certificate holds."""
    return {name: value for name, value in settings.items() if name != "refusal"}
