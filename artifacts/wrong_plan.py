"""What is wrong with a plan, in one sentence that names the field, the value and the rule.

Checked by tests/artifacts/test_plan.py
"""

from typing import Any, get_args

from pydantic import BaseModel

from concord.artifacts.gone import GONE
from concord.artifacts.sections import DAY_PATTERN, NAME_PATTERN, near
from concord.artifacts.sources import A_PATH, A_SOURCE

RULES = {
    "dict_type": "must be a table of keys",
    "model_type": "must be a section with keys of its own",
    "tuple_type": "must be a list, in square brackets",
    "too_short": "must hold at least {min_length} of them",
    "too_long": "must hold at most {max_length} of them",
    "string_type": "must be text, in quotes",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
}
"""Rules in TOML's terms, for pydantic's in Python's."""
PATTERNS = {
    NAME_PATTERN: "must be 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first",
    DAY_PATTERN: "must be a date such as 2026-12-31",
}
"""The rule of each pattern of a text."""
BRANCHES = ("constrained-float", A_PATH, A_SOURCE)
"""Pydantic's names for the types of a field, which are not keys of the plan."""


def in_one_sentence(error: Any, kind: type[BaseModel]) -> str:
    """What an error of pydantic's says of a plan, or of a section of that kind: the field, its value and the rule."""
    steps = [step for step in error["loc"] if step not in BRANCHES]
    field = ".".join(map(str, steps)) or "plan"
    if error["type"] == "extra_forbidden" and field in GONE:
        return f"{field} is no longer a key of the plan: {GONE[field]}"
    if error["type"] == "extra_forbidden":
        return f"{field} is not a key of the plan{near(str(steps[-1]), _known(kind, tuple(steps[:-1])))}"
    if error["type"] == "missing":
        return f"{field} must be given in the plan"
    if error["type"] == "value_error":
        return f"{field}: {error['ctx']['error']}" if error["loc"] else str(error["ctx"]["error"])
    rule = PATTERNS.get(error.get("ctx", {}).get("pattern")) or RULES.get(
        error["type"], error["msg"].replace("Input should", "must")
    )
    shown = "" if A_SOURCE in error["loc"] else f", got {error['input']!r}"  # an address may hold a password
    return f"{field} {rule.format_map(error.get('ctx', {}))}{shown}"


def _known(kind: type[BaseModel], place: tuple[Any, ...]) -> list[str]:
    """The keys of the section at that place."""
    model: Any = kind
    for step in place:
        model = _model_in(model.model_fields[step].annotation)
    return [*model.model_fields]


def _model_in(annotation: Any) -> Any:
    """The model of the section that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
