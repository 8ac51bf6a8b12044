"""Provenance: at its end, a file of the vault says how it was made of private rows, and the door compares it.

    split ─ shards ─ relabel ─ teach ─ poll ─ votes ─┐
    split ─ shards ─ answer, measure ────────────────┼─┃ the door
    gather ─ blocks ─ count ─ sums ──────────────────┘

Assumes      a sealed file is what was written (`artifacts.home.vault`), and this folder alone writes provenance
Guarantees   whichever files a flow hands on, numbers of another domain, privacy unit, part of the units or secret
             subset than a session is charged for are refused, and so is a shard or a block in the place of another
Not covered  content, which the room that writes it answers for. Checked by tests/privacy/test_provenance.py
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import polars as pl
import pyarrow as pa
from pydantic import ValidationError

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Sink, Vault
from concord.artifacts.schemas import Frozen, Ref

LENGTH = 4
"""Bytes of the length at a file's end, before its seal."""


class Provenance(Frozen):
    """How a file was made of private rows.

    unit      the privacy unit, in the ledger's words
    part      of the units, and the commitment of the division by which they are in it, if there is one
    pieces    number of shards, or of blocks, that units are spread over
    span      those that are here: the index of the first, and the index after the last
    reading   what, besides its rows, decides in which shard or block a unit is: of shards a digest of key and encoding,
              of relabelled ones the place of the choice, of blocks also their folder, of a period also its files
    subset    share of the secret subset, ε of the choice of its labels, and digest of the class; empty if all units are
              there
    form      in which the door draws from it; empty of what it does not draw from
    question  that the numbers answer: the digest of that of sums, the name of what was counted
    stream    in which the units arrived
    period    in which they did, by its number in the stream
    follows   the reading of the period before
    """

    domain: str
    unit: str
    part: str
    division: str = ""
    pieces: int = 1
    span: tuple[int, int] = (0, 1)
    reading: str = ""
    subset: tuple[float | str, ...] = ()
    form: str = ""
    question: str = ""
    stream: str = ""
    period: int = 0
    follows: str = ""

    @contextmanager
    def file(self, vault: Vault, path: str) -> Iterator[Sink]:
        """A file of the vault, as `Vault.create`, that ends in this provenance."""
        with vault.create(path) as sink:
            yield sink
            record = self.model_dump_json(exclude_defaults=True).encode()
            sink.write(record + len(record).to_bytes(LENGTH, "little"))

    def rows(self, frame: pl.DataFrame, vault: Vault, path: str) -> Ref:
        """Write rows as an Arrow IPC file of the vault."""
        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        with self.file(vault, path) as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.ref


def read_made(file: Ref, vault: Vault) -> tuple[Provenance, memoryview]:
    """The provenance and the content of a file. Raises NotVerified if it is not what was written, or has none."""
    data = memoryview(vault.read(file))
    end = len(data) - LENGTH
    begin = end - int.from_bytes(data[end:], "little")
    try:
        return Provenance.model_validate_json(bytes(data[max(0, begin) : end])), data[:begin]
    except ValidationError:
        other = f"the vault file {file.path} is of another version of concord"
        raise NotVerified(f"{other}: go on with that one, or end the session by `concord close`") from None


def read_shards(file: Ref, vault: Vault) -> tuple[Provenance, pl.DataFrame]:
    """The provenance and the rows of a file that `Provenance.rows` wrote."""
    made, content = read_made(file, vault)
    return made, pl.DataFrame(pl.from_arrow(pa.ipc.open_file(pa.BufferReader(content)).read_all()))


def whole(parts: Sequence[Provenance]) -> Provenance:
    """The provenance of what is made of all of these. Raises NotVerified unless they are alike and, in their order, of
    each shard or block once: a unit would count twice, or vote twice."""
    ends = [0, *(part.span[1] for part in parts)]
    alike = {part.with_(span=(0, part.pieces)) for part in parts}
    if [part.span[0] for part in parts] != ends[:-1] or [made.pieces for made in alike] != ends[-1:]:
        raise NotVerified("files are not those of each shard, or block, of one table once: a unit would be in two")
    return alike.pop()
