"""Spill: regroup a stream of rows that is larger than memory, through sealed files of the vault."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import polars as pl
import pyarrow as pa

from artifacts.vault import Sink, Vault


class Spill:
    """Rows set aside by part, each part in a file of its own; read back part by part, in the order they came.

    `schema` is that of every frame added. Memory holds one frame while adding, one part while reading.
    """

    def __init__(self, vault: Vault, folder: str, schema: pl.Schema) -> None:
        self._vault, self._folder, self._schema = vault, folder, schema
        self._open = ExitStack()
        self._files: dict[int, tuple[Sink, pa.RecordBatchStreamWriter]] = {}

    def add(self, frame: pl.DataFrame, parts: pl.Series) -> None:
        """Set rows aside; `parts` (rows,) says for each which part it belongs to."""
        for (part,), rows in frame.group_by(parts.alias("concord.part"), maintain_order=True):
            table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
            self._writer(int(str(part)), table.schema).write_table(table)

    def read(self, parts: int) -> Iterator[pl.DataFrame]:
        """Parts 0 … parts − 1 in turn, each deleted once it is read; a part without rows is an empty frame."""
        self._open.close()
        for part in range(parts):
            if part not in self._files:
                yield self._schema.to_frame()
                continue
            ref = self._files.pop(part)[0].ref
            table = pa.ipc.open_stream(pa.BufferReader(self._vault.read(ref))).read_all()
            (self._vault.root / ref.path).unlink()
            yield pl.DataFrame(pl.from_arrow(table))

    def _writer(self, part: int, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
        if part not in self._files:
            sink = self._open.enter_context(self._vault.create(f"{self._folder}/{part:03d}.arrow"))
            self._files[part] = sink, self._open.enter_context(pa.ipc.new_stream(sink, schema))
        return self._files[part][1]

    def close(self) -> None:
        """Close the files that are still being written."""
        self._open.close()


@contextmanager
def spilling(vault: Vault, folder: str, schema: pl.Schema) -> Iterator[Spill]:
    """A spill in `folder` of the vault, which is empty before and gone after, whatever happens."""
    shutil.rmtree(vault.root / folder, ignore_errors=True)
    spill = Spill(vault, folder, schema)
    try:
        yield spill
    finally:
        spill.close()
        shutil.rmtree(vault.root / folder, ignore_errors=True)
