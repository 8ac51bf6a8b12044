"""Tables as a plan names them: a path, the address of an object store, a database query, a frame.

A plan is public and holds no credentials: those come from the environment. An address that may hold one is refused, and
never shown. Checked by tests/tasks/data/test_sources.py.
"""

import re
from os import PathLike, fspath
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

STORES = ("s3", "gs", "az")
"""Schemes of object stores' addresses, such as s3://bucket/path."""
A_PATH, A_SOURCE = "a path", "a source"


class TableSource(BaseModel):
    """A table that is no file.

    query       what a database is asked; `connection` names the environment variable that holds its address
    frame       a frame that `concord.run` was given, by its name in the vault
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: Annotated[str, Field(min_length=1), AfterValidator(lambda text: text.rstrip().removesuffix(";"))] | None = (
        None
    )
    connection: str | None = None
    frame: str | None = None

    @model_validator(mode="after")
    def is_one_table(self) -> Self:
        if (self.query is None) == (self.frame is None):
            raise ValueError("must be a path in quotes, or { query, connection }")
        if (self.query is None) != (self.connection is None):
            raise ValueError("query and connection must be given together")
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", "_" if self.connection is None else self.connection):
            raise ValueError(
                "connection must be the name of an environment variable that holds the database's address, and no "
                "address, since a plan is public"
            )
        if self.frame is not None and not re.fullmatch("[0-9a-f]{32}", self.frame):
            raise ValueError("a frame is given to concord.run, and no plan names it")  # the key is the name of a folder
        return self

    @property
    def ordered(self) -> bool:
        """Whether its rows come in the same order every time they are read."""
        return self.frame is not None


def check_address(place: str) -> str:
    """Return `place`. Raises ValueError if it is an address other than an object store's; the message hides it, since
    it may hold a password."""
    scheme, address, rest = place.partition("://")
    if address and scheme not in STORES:
        raise ValueError(
            f"must be a path, or begin with {', '.join(f'{store}://' for store in STORES)}; a database is named by "
            '{ query = "select …", connection = "ENVIRONMENT_VARIABLE" }'
        )
    if address and (not rest.partition("/")[0] or any(sign in rest for sign in "@?#")):
        raise ValueError("must name a bucket and a path in it, and nothing else: credentials belong in the environment")
    return place


KEYS = {
    "query": ("string", "The query to a database. It is public, as the plan is"),
    "connection": ("string", "The environment variable that holds the database's address"),
}
"""Keys of a table that is not a file, for TOML editors."""
SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: {"type": kind, "description": words} for name, (kind, words) in KEYS.items()},
        },
    ]
}


PlanTable = Annotated[
    Annotated[str, BeforeValidator(fspath), AfterValidator(check_address), Tag(A_PATH)]
    | Annotated[TableSource, Tag(A_SOURCE)],
    Discriminator(lambda table: A_PATH if isinstance(table, str | PathLike) else A_SOURCE),
    WithJsonSchema(SCHEMA),
]
