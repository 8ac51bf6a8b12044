"""Small references between stages, and the Arrow schemas of what they write."""

import pyarrow as pa
from pydantic import BaseModel, ConfigDict


class Ref(BaseModel):
    """A file under the home folder: where it lies and what it must digest to. Safe to cache: it holds no content.

    The digest is keyed (HMAC) for files of the vault and plain SHA-256 for released ones.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    digest: str


def votes_schema(classes: int) -> pa.Schema:
    """Poll's output: one row a public row, how many teachers vote for each class; columns class_0 …"""
    return pa.schema([pa.field(f"class_{index}", pa.uint32(), nullable=False) for index in range(classes)])


def labels_schema(classes: int, guarantee: dict[str, str]) -> pa.Schema:
    """Released labels: one row a public row, with the guarantee in the metadata.

    row      session-wide index of the public row
    label    the released class; null where refused or not asked
    outcome  answered, refused, or not asked (after the cutoff)
    scores   noisy votes by class, where the mechanism releases them
    session  the session's id
    """
    fields = [
        pa.field("row", pa.uint64(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("scores", pa.list_(pa.int64(), classes)),
        pa.field("session", pa.string(), nullable=False),
    ]
    return pa.schema(fields, metadata=guarantee)
