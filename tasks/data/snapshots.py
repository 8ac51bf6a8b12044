"""Snapshots: copies of tables that are not local files, read once so that no two reads can differ.

    VAULT/tables/DOMAIN/KEY/READING/00000 …      the bytes of each file, sealed
    VAULT/tables/DOMAIN/KEY/READING/files.json   the sealed list of its files, which is written last

Public tables lie at VAULT/public/tables/KEY, and are not erased. A second reading replaces the first: a run that was
reading that one is refused, and never gets rows of both.

Guarantees   no byte leaves the vault unsealed; each file is checked whole as it is opened, and is mapped, so memory
             need not hold it. A snapshot is complete or absent. Checked by tests/tasks/data/test_sources.py
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
from pydantic import TypeAdapter

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.atomic import locked
from concord.artifacts.home.vault import Sink, Vault
from concord.artifacts.schemas import Frozen, Ref
from concord.tasks.data.places import Format, StoredFile, StoredTable

SCHEME = "snapshot://"


class Listed(Frozen):
    """One file of a snapshot: its name, format and content, and what it was read from."""

    name: str
    format: Format
    content: Ref
    origins: tuple[str, ...] = ()


FILES = TypeAdapter(list[Listed])


@dataclass(frozen=True)
class Sealed(StoredFile):
    """A file of a snapshot. Opening it raises NotVerified if it is not what was written."""

    vault: Vault
    content: Ref

    def raw(self) -> pa.NativeFile:
        return pa.BufferReader(self.vault.mapped(self.content))


class SnapshotTable(StoredTable):
    """The name of a snapshot: snapshot://VAULT#FOLDER."""

    @property
    def files(self) -> list[tuple[Sealed, Format]]:
        """Its files. Raises NotVerified if it is gone, or is not what was written."""
        root, _, folder = self.removeprefix(SCHEME).rpartition("#")
        vault = Vault(Path(root))
        if (stored := vault.take(f"{folder}/files.json")) is None:
            raise NotVerified(f"the vault {root} lacks the table {folder}, which was read into it")
        listed = FILES.validate_json(stored[1])
        return [(Sealed(file.name, file.origins, vault, file.content), file.format) for file in listed]


@dataclass
class Reading:
    """A snapshot that is being written, file by file."""

    vault: Vault
    folder: str
    files: list[Listed] = field(default_factory=list)

    @contextmanager
    def file(self, name: str, form: Format, *origins: str) -> Iterator[Sink]:
        """Context with a sink for the bytes of a further file."""
        with self.vault.create(f"{self.folder}/{len(self.files):05d}") as sink:
            yield sink
        self.files.append(Listed(name=name, format=form, content=sink.ref, origins=origins))

    def arrow_file(self, name: str, form: Format, schema: pa.Schema, tables: Iterable[pa.Table], *origins: str) -> None:
        """Write a further file in Arrow's format."""
        with self.file(name, form, *origins) as sink, pa.ipc.new_file(sink, schema) as writer:
            for table in tables:
                writer.write_table(table.cast(schema), max_chunksize=1 << 16)


def kept(vault: Vault, place: str, write: Callable[[Reading], None], *, again: bool = False) -> SnapshotTable:
    """The table at a place of the vault; written by `write` if it is not there whole, or `again`.

    What was there before is removed once all is written, so that a table that cannot be read again stays as it was. Of
    two readings, which a killed run may leave, the later one counts.
    """
    name = f"{SCHEME}{vault.root.absolute()}#"
    with locked(vault.root / "locks" / f"table-{place.rpartition('/')[2]}"):
        earlier = sorted(vault.paths(place, "*"))
        for folder in () if again else reversed(earlier):
            with suppress(NotVerified, ValueError):  # the latter for a list of another version
                for file, _ in (table := SnapshotTable(name + folder)).files:
                    file.raw()
                return table
        number = 1 + max((int(folder.rpartition("/")[2].partition("-")[0]) for folder in earlier), default=0)
        reading = Reading(vault, f"{place}/{number:08d}-{token_hex(8)}")
        write(reading)
        with vault.create(f"{reading.folder}/files.json") as sink:
            sink.write(FILES.dump_json(reading.files))
        for folder in earlier:
            vault.destroy(folder)
        return SnapshotTable(name + reading.folder)


def place_of(field: str, domain: str, key: str) -> str:
    """The place of a plan's table, or of its `unlabelled` rows; private ones are where erasing a unit removes them."""
    places = {"private": f"tables/{domain}/{key}", "unlabelled": f"unlabelled/{domain}/{key}"}
    return places.get(field, f"public/tables/{key}")
