"""Spill: regroup a stream of rows that may be larger than memory, through files of the vault.

Checked by tests/tasks/units/test_split.py.
"""

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import polars as pl
import pyarrow as pa

from concord.artifacts.home.vault import Sink, Vault
from concord.artifacts.schemas import Ref

HELD_BYTES = 1 << 26
"""Rows held in memory before they go to files."""
SPILLS = 512
"""Files that a private table is spread over at most; all are open while it is read, and then one is in memory."""

OPEN_FILES = 4 * SPILLS
"""Files that a process may have open from a spill on: some systems allow 256 unless they are asked."""

PARTS = 64
"""Parts of the units of a table whose shares are read separately: each share has files of its own."""

PART = "concord.part"


class Spill:
    """Rows grouped by part, and read back part by part in the order they came.

    Memory holds HELD_BYTES while adding, and one more part while reading. `schema` is that of every frame added.
    """

    def __init__(self, vault: Vault, folder: str, schema: pl.Schema) -> None:
        self._vault, self._folder, self._schema = vault, folder, schema
        self._held = [self._schema.to_frame().with_columns(pl.lit(0, pl.UInt32).alias(PART)).clear()]
        self._open = ExitStack()
        self._files: dict[int, tuple[Sink, pa.RecordBatchStreamWriter]] = {}

    def add(self, frame: pl.DataFrame, parts: pl.Series) -> None:
        """Add rows; `parts` (rows,) is the part of each."""
        self._held.append(frame.with_columns(parts.cast(pl.UInt32).alias(PART)))
        if sum(held.estimated_size() for held in self._held) > HELD_BYTES:
            self._write()

    def read(self, parts: int) -> Iterator[pl.DataFrame]:
        """Parts 0 … parts − 1 in turn; files are deleted as they are read. A part without rows is an empty frame."""
        held, empty = self._grouped(), self._schema.to_frame()
        self.close()
        for part in range(parts):
            rows = held.pop(part, empty)
            if part not in self._files:
                yield rows
                continue
            ref = self._files.pop(part)[0].ref
            yield pl.concat([rows_in(self._vault, ref, self._schema), rows])
            (self._vault.root / ref.path).unlink()

    def files(self) -> dict[int, Ref]:
        """Write what is held. Returns the file of each part that has rows, for `rows_in`."""
        self._write()
        self.close()
        return {part: sink.ref for part, (sink, _) in self._files.items()}

    def close(self) -> None:
        """Close the files that are still being written."""
        self._open.close()

    def _write(self) -> None:
        for part, rows in self._grouped().items():
            table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
            if part not in self._files:
                sink = self._open.enter_context(self._vault.create(f"{self._folder}/{part:03d}.arrow"))
                self._files[part] = sink, self._open.enter_context(pa.ipc.new_stream(sink, table.schema))
            self._files[part][1].write_table(table)
        del self._held[1:]

    def _grouped(self) -> dict[int, pl.DataFrame]:
        parts = pl.concat(self._held).partition_by(PART, maintain_order=True, include_key=False, as_dict=True)
        return {int(part): rows for (part,), rows in parts.items()}


def rows_in(vault: Vault, file: Ref, schema: pl.Schema) -> pl.DataFrame:
    """The rows of one part, from the file of a spill with that schema."""
    table = pa.ipc.open_stream(pa.BufferReader(vault.read(file))).read_all()
    return pl.DataFrame(pl.from_arrow(table), schema=schema)


@contextmanager
def spilling(vault: Vault, folder: str, schema: pl.Schema) -> Iterator[Spill]:
    """Context with a spill in a temporary folder of the vault for `folder`, which is removed at the end in any case."""
    allow_open_files()
    with vault.passing(folder) as place:
        spill = Spill(vault, place, schema)
        try:
            yield spill
        finally:
            spill.close()


def allow_open_files() -> None:
    """Let this process open OPEN_FILES files, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
