"""State of a session in the vault: the folders of what it was asked, and its checkpoint.

Checkpoint: a command that continues a session, `run` or `extend`, goes through all of its public rows in their order.
So labels, student and certificate always cover the whole session, whichever command made them.

    run      writes it at the door, and again if its plan changed in something the session does not depend on
    extend   adds new rows, before the door

Assumes      one command at a time writes the checkpoint of a session (`tasks.door.locks.alone`)
Guarantees   rows of a session are kept, in their order; batches with the same content count once
Not covered  a checkpoint replaced by an older one: certify then finds fewer labels than the ledger has, and stops.
             Checked by tests/flows/test_extend.py
"""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from concord.artifacts.errors import BudgetRefused, NotVerified
from concord.artifacts.guarantee import unasked_in_words
from concord.artifacts.home.vault import Vault, owner
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicBatch, PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores


def votes_folder(vault: Vault, teachers: Sequence[Ref]) -> str:
    """The folder of an ensemble's votes in the vault."""
    return f"votes/{owner(teachers[0])}/{vault.digest('votes of', *(block.path for block in teachers))[:16]}"


def sums_folder(block: Ref) -> str:
    """The folder of a block's sums in every round, shared with the blocks gathered with it."""
    _, domain, gathered, *_ = block.path.split("/")
    return f"sums/{domain}/{gathered}"


class PublicSource(BaseModel):
    """Public rows that were added to a session together: their path, keyed digests of the files there, and their
    batches."""

    model_config = ConfigDict(frozen=True)

    path: str
    digests: tuple[str, ...]
    batches: tuple[PublicBatch, ...]

    @property
    def files(self) -> list[Ref]:
        """The files of its rows in the vault."""
        return [batch.ref for batch in self.batches]


class Checkpoint(BaseModel):
    """State that a session needs to answer further rows.

    sources     public rows, those of the plan first
    files       the private files, by real path or address, each with its inode: they must never be added as public ones
    private     keyed digests of their content, by which the operator is warned of copies
    relabelled  files of relabelling (the choice, the subset, the relabelled rows), to be forgotten with the session
    former      teachers and files of relabelling made in other blocks, to be forgotten too
    """

    model_config = ConfigDict(frozen=True)

    plan: Plan
    encoding: Encoding
    teachers: tuple[Ref, ...]
    sources: tuple[PublicSource, ...]
    files: Mapping[str, str] = {}
    private: tuple[str, ...] = ()
    relabelled: tuple[Ref, ...] = ()
    former: tuple[tuple[Ref, ...], ...] = ()

    @property
    def public(self) -> PublicRows:
        """The encoding, and the plan's own public rows."""
        return PublicRows(encoding=self.encoding, batches=self.sources[0].batches)

    @property
    def made(self) -> list[tuple[Ref, ...]]:
        """All groups of files that were made for the session, present and former ones, each once."""
        return list(dict.fromkeys(files for files in (self.teachers, self.relabelled, *self.former) if files))

    def after(self, last: "Checkpoint") -> "Checkpoint":
        """This checkpoint as the successor of `last`: files that only `last` names become former ones."""
        former = (files for files in last.made if files not in (self.teachers, self.relabelled))
        return self.model_copy(update={"former": tuple(former)})


def stream(sources: Sequence[PublicSource]) -> list[PublicBatch]:
    """The batches of all sources as one stream of rows; batches with the content of an earlier one are left out."""
    batches: dict[str, PublicBatch] = {}
    first = 0
    for batch in (batch for source in sources for batch in source.batches):
        if batch.ref.digest not in batches:
            batches[batch.ref.digest] = batch.model_copy(update={"first": first})
            first += batch.rows
    return list(batches.values())


def read_checkpoint(stores: Stores, session: str) -> Checkpoint | None:
    """The checkpoint of a session, or None. Raises NotVerified if its file is not what was written."""
    taken = stores.vault.take(_path(session))
    if taken is None:
        return None
    try:
        return Checkpoint.model_validate_json(taken[1])
    except ValidationError:
        raise NotVerified(f"the recipe of session {session} is not one that this version of concord reads") from None


def write_checkpoint(stores: Stores, session: str, recipe: Checkpoint) -> None:
    """Replace the checkpoint of a session, atomically and durably."""
    last = read_checkpoint(stores, session)
    recipe = recipe if last is None else recipe.after(last)
    if last != recipe:
        with stores.vault.create(_path(session)) as sink:
            sink.write(recipe.model_dump_json().encode())


def check_open(session: Session, waiting: int = 0) -> None:
    """Raise BudgetRefused if a session answers no further rows, with the number of those that wait, if it is known."""
    if session.ended and waiting:
        raise BudgetRefused(unasked_in_words(session.id, waiting))
    if session.ended:
        raise BudgetRefused(
            f"session {session.id} has ended ({session.status}): more rows need a further session, which costs "
            "again: `concord run PLAN --new-session`"
        )


def are_there(stores: Stores, files: Iterable[Ref]) -> bool:
    """Whether files that a checkpoint names are still in the vault; contents are checked when they are read."""
    return all(map(stores.vault.has, files))


def check_staged(stores: Stores, session: str, sources: Sequence[PublicSource]) -> None:
    """Raise NotVerified if rows of the session are gone; the first of `sources` is the plan's own."""
    for at, source in enumerate(sources):
        if not are_there(stores, source.files):
            again = "`concord run PLAN`" if at == 0 else f"`concord extend {session} --public {source.path}`"
            raise NotVerified(
                f"rows of session {session} are no longer in the vault: {again} puts them back and spends nothing"
            )


def _path(session: str) -> str:
    return f"sessions/{session}/recipe.json"
