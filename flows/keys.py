"""The key of a stage's cached result: its name, its version and every argument it is given, digested.

Assumes      a stage computes from its arguments and the home's secrets alone, and what it does has a version
Guarantees   a key digests each argument whole. A value of a type that cannot be digested is refused; so is reading a
             field of a plan that is not in the stage's view of it (`only`), since no key holds it
Not covered  where files lie: a table, a home or a file of the vault that moved is the same one. `Files` and `Ref` are
             known by their digests alone. Checked by tests/flows/test_keys.py
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault, derive
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.tasks.data.encode import PublicBatch

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Place:
    """Where a stage works: its home folder, and the key of its result, which names what it writes."""

    home: Path
    key: str

    @property
    def vault(self) -> Vault:
        """The home's vault."""
        return Vault(self.home / "vault")

    @property
    def released(self) -> Released:
        """What the home published."""
        return Released(self.home)

    def secret(self, domain: str, purpose: str) -> bytes:
        """A key of the domain, for one purpose."""
        return derive(self.vault.secret(f"domains/{domain}"), purpose)


@dataclass(frozen=True)
class Files:
    """Files by their keyed digests. The path is only where they lie now, and no part of a key."""

    path: str
    digests: tuple[str, ...]

    def of(self, plan: Plan, field: Literal["private", "public"]) -> Plan:
        """The plan with these files as its table of that name."""
        return plan.model_copy(update={"folder": "", "data": plan.data.model_copy(update={field: self.path})})


class Public(BaseModel):
    """The public side: how rows become numbers, and the staged stream of public rows."""

    encoding: Encoding
    batches: list[PublicBatch]

    @property
    def rows(self) -> int:
        """How many public rows there are."""
        return sum(batch.rows for batch in self.batches)


def only(part: Model, *names: str) -> Model:
    """A view of a plan or section with just the named fields ("data.label"); reading another raises AttributeError."""
    inner: dict[str, list[str]] = {}
    for name in names:
        first, _, rest = name.partition(".")
        inner.setdefault(first, []).extend([rest] if rest else [])
    view = type(part).model_construct()
    seen = {name: only(getattr(part, name), *rest) if rest else getattr(part, name) for name, rest in inner.items()}
    view.__dict__.clear()
    view.__dict__.update(seen)
    return view


def digested(value: Any) -> Any:
    """A value as JSON that differs wherever the value does. Raises TypeError for a type that it does not know."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Files):
        return list(value.digests)
    if isinstance(value, Ref):
        return value.digest
    if isinstance(value, BaseModel):
        return {name: digested(field) for name, field in value}
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {field.name: digested(getattr(value, field.name)) for field in fields(value)}]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: digested(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [digested(item) for item in value]
    raise TypeError(f"a stage's argument must be of a type that its key can digest, got {type(value).__name__}")


def key_of(vault: Vault, name: str, version: str, arguments: Mapping[str, Any]) -> str:
    """The key of a stage's result on those arguments."""
    return f"{name}-{vault.digest(name, version, json.dumps(digested(arguments), sort_keys=True))}"
