"""Files of the vault as they are made of private rows of the domain "d", whose privacy unit is one row."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from tests import world


def made(pieces: int = 1, **other: Any) -> world.Provenance:
    """The provenance of numbers of all shards, or blocks."""
    return world.Provenance(
        **{"domain": "d", "unit": "one row", "part": "learning", "span": (0, pieces)} | other, pieces=pieces
    )


def keep(vault: world.Vault, path: str, content: bytes, provenance: world.Provenance) -> world.Ref:
    with provenance.file(vault, path) as sink:
        sink.write(content)
    return sink.ref


def answered(vault: world.Vault, question: str, answers: Sequence[Any], code: str = "") -> world.Ref:
    """What so many shards answered to a question of the session d-1."""
    kept = {"question": question, "code": code, "answers": [world.canonical(answer) for answer in answers]}
    content = world.canonical_json(kept).encode()
    return keep(vault, world.answers_path(vault, "d-1", question), content, made(len(answers), form="answers"))


def content_of(ref: world.Ref, vault: world.Vault) -> bytes:
    """What a file holds besides its provenance."""
    return bytes(world.read_made(ref, vault)[1])


def frame_of(ref: world.Ref, vault: world.Vault) -> pl.DataFrame:
    """The rows of a file."""
    return world.read_shards(ref, vault)[1]


def sums_of(blocks: Sequence[world.Ref], vault: world.Vault) -> world.Ints:
    """The sums of all blocks."""
    return world.summed(blocks, vault)[1]
