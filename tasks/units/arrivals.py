"""Arrivals: private rows that come period by period, in files of their own. A unit counts in its first period alone.

Files are taken by their place, each once, and never told apart by content: if one file held the rows of another and u's
besides, leaving u out would make both equal, and the second would be skipped. A content's keyed digest only shows that
a file changed after it was taken, which stops. Names of units are read as they were when the stream began: a later file
with another type of the column is refused, since its numbers might be names that an earlier one did not have.

Units that came before are known by 16 keyed bytes of their names, in NAMES files of the vault that hold all names up to
a period, sorted: one file at a time is in memory.

Assumes      which files arrived in which period is public
Guarantees   a unit's rows pass in the first period in which the unit has a row, and in no other, whatever other rows
             there are. Counting a period again gives the same rows and names, to the bit
Not covered  two units with the same 16 bytes: the later one is left out; without a column of units, rows that are
             delivered twice. Checked by tests/tasks/units/test_arrivals.py
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.vault import Vault, derive, hashed, keyed_digest
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref
from concord.tasks.data.files import PRIVATE, TableFile
from concord.tasks.data.places import files_of
from concord.tasks.data.tables import UNIT_FIELD, Table, plain_type
from concord.tasks.units.parts import provenance_of
from concord.tasks.units.provenance import Provenance, read_made
from concord.tasks.units.spill import PARTS
from concord.tasks.units.units import UNIT, PrivateRows, names_held, private_table

NAMES = 8
"""Files of names."""
NAME = np.dtype("S16")
"""Bytes of a name; NumPy compares them as bytes, zeros at the end included, since all have this length."""


class Period(BaseModel):
    """What a period of a stream took.

    files    keyed digests of their places, each with that of its content
    types    in which the files store the column of units, without those of a dictionary's numbers
    until    the end of the period, by the plan's clock; empty without one
    """

    model_config = ConfigDict(frozen=True)

    files: Mapping[str, str]
    types: tuple[str, ...] = ()
    until: str = ""


@dataclass(frozen=True)
class Arriving:
    """Rows of one period, while they are read.

    period  its number in its stream
    before  files of names up to the period before; none in the first
    folder  for files of names up to this period, which are added to `names`
    """

    table: Table
    stream: str
    period: int
    before: Sequence[Ref]
    folder: str
    names: list[Ref] = field(default_factory=list)

    def key(self, vault: Vault) -> bytes:
        """The key by which the stream knows the units that its seasons have asked."""
        return derive(vault.secret(f"streams/{self.stream}"), "arrivals")

    def made(self, private: PrivateRows) -> Provenance:
        """The provenance of a file that is made of this period's units; its reading goes on from the period before."""
        made, key = provenance_of(private), self.key(private.vault)
        follows = read_made(self.before[0], private.vault)[0].reading if self.before else ""
        reading = keyed_digest(key, "reading", made.reading, follows, *self.table.digests)
        return made.with_(stream=self.stream, period=self.period, follows=follows, reading=reading)

    def new_units(self, parts: Iterator[pl.DataFrame], private: PrivateRows) -> Iterator[pl.DataFrame]:
        """The rows of units that are new, part by part of PARTS, each with all rows of its units. Raises NotVerified if
        names are not those up to the period before."""
        if len(self.before) not in (0, NAMES):
            raise NotVerified(f"period {self.period} would ask units again: some files of names are lacking")
        vault, key, all_names = private.vault, self.key(private.vault), self.made(private).with_(pieces=NAMES)
        for number in range(NAMES):
            made = all_names.with_(span=(number, number + 1))
            none = made.with_(period=-1, reading=""), memoryview(b"")
            last, before = read_made(self.before[number], vault) if self.before else none
            if last != made.with_(period=self.period - 1, reading=made.follows, follows=last.follows):
                raise NotVerified(f"period {self.period} would ask units again: names are not those up to the last one")
            by_part = [_names(before)]
            for part in islice(parts, PARTS // NAMES):
                units = part[UNIT].unique()
                names = _names(b"".join(hashed(units.to_list(), key, b"arrived", NAME.itemsize)))
                new = ~np.isin(names, by_part[0])
                by_part.append(names[new])
                yield part.filter(part[UNIT].is_in(units.filter(pl.Series(new)).implode()))
            with made.file(vault, f"{self.folder}/names-{number}") as sink:
                sink.write(np.unique(np.concatenate(by_part)).tobytes())
            self.names.append(sink.ref)


def _names(joined: bytes | memoryview) -> NDArray[np.bytes_]:
    return np.ndarray(len(joined) // NAME.itemsize, NAME, joined)


def files_by_place(plan: Plan, vault: Vault) -> dict[str, TableFile]:
    """The private files, each by a keyed digest of its real path or address."""
    return {place_of(file, vault): file for file in private_table(plan, arriving=True).files}


def place_of(file: TableFile, vault: Vault) -> str:
    """A keyed digest of a file's real path or address: the one that the ledger records of a domain's files."""
    return names_held(vault, files_of([file.path]))[0]


def contents_by_place(plan: Plan, vault: Vault, places: Collection[str]) -> dict[str, str]:
    """Keyed digests of the content of the private files at these places, by place. Raises WrongInput."""
    contents = dict[str, str]()
    for place, file in files_by_place(plan, vault).items():
        if place in places:
            with file.readable():
                contents[place] = vault.digest_file(file.path)
    return contents


def take(
    plan: Plan, vault: Vault, contents: Mapping[str, str], earlier: Sequence[Period], columns: Mapping[str, str]
) -> Period:
    """The period that takes all files which no earlier one took; there may be none.

    contents  of the private files, by place
    columns   that are read of them, each with the plan's field that asks for it
    Raises WrongInput if a new one lacks a column, or stores units otherwise than the first files of the stream.
    """
    taken = {place for period in earlier for place in period.files}
    new = {place: content for place, content in contents.items() if place not in taken}
    table = table_of(plan, vault, Period(files=new))
    unit = plan.data.unit
    table.check_columns({**columns, **({unit: UNIT_FIELD} if unit else {})})
    stored = {str(plain_type(file.stored_as(unit))) for file in table.files if unit in file.names} if unit else ()
    types = tuple(sorted({kind.removeprefix("large_").removesuffix("_view") for kind in stored} - {"null"}))
    typed = next((period for period in earlier if period.types), None)
    if typed is None:
        return Period(files=new, types=types)
    if other := sorted({*types} - {*typed.types}):
        raise WrongInput(
            f"{PRIVATE} must store the column {unit!r} that data.unit names as in the stream's first files "
            f"({', '.join(typed.types)}), but a new file stores it as {other[0]}: the same unit might have another name"
        )
    return Period(files=new, types=typed.types)


def check_unchanged(plan: Plan, contents: Mapping[str, str], earlier: Sequence[Period]) -> None:
    """Raise NotVerified if a file is not what these periods took, or if one is gone and rows have no names of units: at
    another place they would be asked again. See `take`."""
    taken = {place: content for period in earlier for place, content in period.files.items()}
    if plan.data.unit is None and not taken.keys() <= contents.keys():
        raise NotVerified(
            f"a file of {PRIVATE} that a period of the stream took is gone: put it back at its path, since its rows "
            "have no names by which they could be recognised elsewhere"
        )
    if any(contents.get(place, content) != content for place, content in taken.items()):
        raise NotVerified(
            f"a file of {PRIVATE} changed after a period of the stream took it: put it back as it was, and give new "
            "rows a file of their own"
        )


def table_of(plan: Plan, vault: Vault, period: Period) -> Table:
    """The private table of a period's files. Raises NotVerified if one is gone."""
    there = files_by_place(plan, vault)
    if not period.files.keys() <= there.keys():
        raise NotVerified(f"a file of {PRIVATE} that the stream's period took is gone before it was read: put it back")
    files = tuple(there[place] for place in period.files)
    return Table(plan.path("private"), files, PRIVATE, plan.data.unit, tuple(period.files.values()))
