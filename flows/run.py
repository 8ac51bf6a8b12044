"""The context of a run, and the values that its steps exchange. All of them are immutable."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

from concord.artifacts.domains import Domain
from concord.artifacts.guarantee import change
from concord.artifacts.home.signing import SIGNING_SECRET, SigningKey
from concord.artifacts.ledger.events import belongs_to
from concord.artifacts.parts import NOTHING
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Encoding, PublicBatch, PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.sources import TableSource
from concord.artifacts.stores import Stores
from concord.flows.cache import PrivateInput
from concord.flows.cluster import at_work
from concord.flows.console import err
from concord.flows.outcome import StageName
from concord.flows.stage import Stages, Steps, no_steps
from concord.tasks.data.grid import stand_ins
from concord.tasks.data.places import check_not_private, files_of, is_shared
from concord.tasks.data.sources import not_local, with_rows, with_snapshots
from concord.tasks.data.tables import Table, open_public
from concord.tasks.door.ask import Ask
from concord.tasks.door.checkpoint import Checkpoint, PublicSource, check_staged, read_checkpoint, stream
from concord.tasks.door.erase import erased_units
from concord.tasks.door.keys import ready_secret
from concord.tasks.door.locks import RUN, a_run_in, alone, opening
from concord.tasks.units.split import public_by_name, with_public
from concord.tasks.units.units import names_held, private_table

Asking = TypeVar("Asking", bound=Ask[Any])
TableField = Literal["private", "public", "test"]


@dataclass(frozen=True)
class RunContext:
    """The context that every run has, whatever its steps.

    new_session  whether a further session may be opened, which costs again
    erased       keyed digests of the domain's erased units, which are left out; none are erased while the run lasts
    locks        the locks it holds until it ends
    used         ids of the sessions that it has locked, which no other command changes meanwhile
    signer       fingerprint of the key that signs its publications
    named        by field, the tables that the plan names by something other than a local file; in `plan`, a snapshot
                 replaces each
    """

    plan: Plan
    home: Path
    new_session: bool
    stores: Stores
    stages: Stages
    erased: tuple[str, ...]
    locks: ExitStack
    signer: str
    named: Mapping[str, str | TableSource | None]
    used: set[str] = field(default_factory=set)

    @property
    def kept(self) -> Plan:
        """The plan as kept in a checkpoint: with its tables as they were named."""
        return self.plan.model_copy(update={"data": self.plan.data.model_copy(update=dict(self.named))})

    def table(self, field: TableField) -> Table:
        """A table of the plan, with its digests. Raises WrongInput."""
        return self.digested(table_in(self.plan, field))

    def digested(self, table: Table) -> Table:
        """The table with its digests, by which it is known in this home. Raises WrongInput if it is unreadable."""
        return table.digested(self.stores.vault.digest_file)

    @property
    def test(self) -> Table | None:
        """The public test table, if there is one."""
        return None if self.plan.data.test is None else self.table("test")

    def own(self, batches: Iterable[PublicBatch]) -> PublicSource:
        """The plan's own public rows."""
        table = self.table("public")
        return PublicSource(path=table.path, digests=table.digests, batches=tuple(batches))

    def with_public(self, rows: Any) -> Self:
        """The context with the rows of a polars frame in place of the public ones."""
        return replace(self, plan=with_rows(self.plan, self.stores.vault, rows))

    def wait_for(self, identity: str) -> None:
        """Wait until no other command is opening a session of that identity; this run then uses that session."""
        words = f"{'waiting':>8} for another command that runs the same plan; this one goes on with its session"
        self.locks.enter_context(opening(self.stores.vault, identity, lambda: err.print(words)))

    def lock_session(self, session: str) -> Session:
        """Wait until no other command uses the session. Returns the session as that command left it."""
        self.locks.enter_context(alone(self.stores.vault, session, RUN))
        self.used.add(session)
        return self.stores.ledger.session(session)


@contextmanager
def running(
    plan: Plan,
    home: Path,
    *,
    workers: bool = True,
    new_session: bool = False,
    start_from: StageName | None = None,
) -> Iterator[RunContext]:
    """The context of a run of `plan`. Within the context no other command uses its sessions or erases in its domain.

    workers   whether private rows are read, which the workers of the plan do
    """
    stores, stages, domain = Stores.of(home), Stages(home, start_from), plan.privacy.domain
    signer = _signer(stores, home)  # refuses here, if the key cannot be read
    ready_mlflow(home)
    with at_work(home, plan.teachers if workers else None), ExitStack() as locks:
        locks.enter_context(a_run_in(stores.vault, domain))
        ready_secret(stores, domain)
        erased = erased_units(stores, domain)
        vault, named = stores.vault, dict[str, str | TableSource | None](not_local(plan))
        plan = with_snapshots(plan, vault, again=start_from == "encode")
        if plan.data.declared is not None:
            rows, named["public"] = stand_ins(plan.data.declared), plan.data.public
            plan = with_rows(plan, vault, rows)
        elif plan.data.public is None:
            private = table_in(plan, "private").digested(vault.digest_file)
            plan = with_public(plan, vault, private.digests, erased, lambda what: err.print(f"{'encode':>8} {what}"))
            named["public"] = public_by_name(plan)
        yield RunContext(plan, home, new_session, stores, stages, erased, locks, signer, named)


@dataclass(frozen=True)
class PublicStream:
    """The public rows of a session in order: the plan's own, then those given later."""

    encoding: Encoding
    sources: tuple[PublicSource, ...]

    @classmethod
    def of(cls, run: RunContext, session: Session | None, encoding: Encoding, sources: Iterable[PublicSource]) -> Self:
        """The sources as one stream. Raises NotVerified if rows that the session was given are gone."""
        made = cls(encoding, tuple(sources))
        if session is not None:
            check_staged(run.stores, session.id, made.sources)
        return made

    @cached_property
    def batches(self) -> list[PublicBatch]:
        """The batches of the stream; batches with the content of an earlier one are left out."""
        return stream(self.sources)

    @property
    def public(self) -> PublicRows:
        """Its rows with their encoding, as stages take them."""
        return PublicRows(encoding=self.encoding, batches=tuple(self.batches))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(batch.rows for batch in self.batches)


def charges(run: RunContext, domain: Domain) -> dict[str, Charge]:
    """The present charges of a domain's sessions, by id."""
    return {session.id: session.charge for session in run.stores.ledger.sessions(domain.name)}


@dataclass(frozen=True)
class Admitted(Generic[Asking]):
    """An admitted session, before anything private is read.

    before   the charges of the domain's sessions before this run asked for anything
    ask      what it is for
    session  the open session to use; None if a new one is to be opened
    """

    domain: Domain
    before: Mapping[str, Charge]
    ask: Asking
    stream: PublicStream
    session: Session | None

    def charged(self, run: RunContext) -> dict[str, Any]:
        """The charge added by this run's own sessions, the one-off conversion in it, and its share of the lifetime."""
        rule, before_run = self.domain.filter, {session: self.before.get(session, NOTHING) for session in run.used}
        earlier, later, total = run.stores.ledger.at_once(lambda now: change(now, self.domain.name, before_run))
        before, after, added = rule.spent(earlier), rule.spent(later), later - earlier
        return {
            "spent_now": {"epsilon": after[0] - before[0], "delta": after[1] - before[1]},
            "conversion": rule.conversion if any(after) and not any(before) else 0.0,
            "lifetime": {
                "now": rule.share(added),
                "used": rule.share(total),
                "more": rule.more(total, added) if added.renyi > 0 else None,
            },
        }


@dataclass(frozen=True)
class ExactNumbers:
    """The exact private numbers of a session, in the vault before it is opened.

    private_digests  digests of everything private that its answers depend on
    kept             files that it answers from, such as teachers
    relabelled       files that relabelling wrote, to be forgotten with it
    steps            its steps at the door
    """

    private_digests: Sequence[str]
    kept: Sequence[Ref]
    relabelled: tuple[Ref, ...] = ()
    steps: Steps = no_steps


@dataclass(frozen=True)
class PrivateFiles:
    """The private table, and its files by public facts: the real path or address of each, with its inode.

    erased  as a run's context has them
    """

    table: Table
    files: Mapping[str, str]
    erased: tuple[str, ...] = ()

    def read_by(self, encoding: Encoding) -> PrivateInput:
        """Its rows, cast by that encoding, as a stage reads them."""
        return PrivateInput(self.table, encoding, self.erased)

    @classmethod
    def of(cls, run: RunContext, sources: Iterable[PublicSource]) -> Self:
        """The plan's private table. Raises WrongInput if one of its files is named public, or is of another domain.

        Files are told apart by public facts alone. If equal content were refused, someone who supplies a public file
        with a guess of a private one would learn whether it is right; so it is only noted, on the operator's console.
        """
        if run.erased:
            err.print(f"{'erased':>8} units of domain {run.plan.privacy.domain} are left out")
        rows, test, others = [*sources], run.test, _checkpoints_of_others(run)
        table = table_in(run.plan, "private")
        files = files_of(file.path for file in table.files)
        run.stores.ledger.check_holding(run.plan.privacy.domain, names_held(run.stores.vault, files))
        for name, checkpoints in others.items():
            if any(is_shared(files, checkpoint.files) for checkpoint in checkpoints):
                raise belongs_to(name)
        public = [file.path for file in table_in(run.plan, "public").files]
        later = [Path(source.path) for source in rows[1:]]
        check_not_private("data.public", [*public, *later], files)
        if test is not None:
            check_not_private("data.test", [file.path for file in test.files], files)
        table = run.digested(table)
        note_copies(table.digests, "data.public", [digest for source in rows for digest in source.digests])
        note_copies(table.digests, "data.test", test.digests if test else ())
        for name, checkpoints in others.items():
            digests = [digest for checkpoint in checkpoints for digest in checkpoint.private]
            note_copies(table.digests, f"domain {name}", digests)
        return cls(table, files, run.erased)


def note_copies(private: Iterable[str], field: str, contents: Iterable[str]) -> None:
    """Tell the operator if a file of `field` holds the same bytes as a private one: nothing else depends on it."""
    if not set(private).isdisjoint(contents):
        err.print(f"{'copy':>8} a file of {field} holds the same bytes as one of data.private: used as the plan says")


def _checkpoints_of_others(run: RunContext) -> dict[str, list[Checkpoint]]:
    """Checkpoints of other domains than the plan's."""
    ledger, others = run.stores.ledger, dict[str, list[Checkpoint]]()
    for domain in ledger.domains():
        if domain.name != run.plan.privacy.domain:
            checkpoints = (read_checkpoint(run.stores, session.id) for session in ledger.sessions(domain.name))
            others[domain.name] = [checkpoint for checkpoint in checkpoints if checkpoint]
    return others


def table_in(plan: Plan, field: TableField) -> Table:
    """A table of the plan. Raises WrongInput if it is not there; a stream's private one may have no file yet."""
    if field == "private":
        return private_table(plan, arriving=plan.stream is not None)
    return open_public(plan.path(field), f"data.{field}", plan.data.format)


def _signer(stores: Stores, home: Path) -> str:
    """The fingerprint of the signing key; for a home without a key one is made now, and a note printed."""
    new = bool(stores.ledger.domains()) and not stores.vault.has_secret(SIGNING_SECRET)
    key = SigningKey.of(home).public.fingerprint
    if new and stores.vault.has_secret(SIGNING_SECRET):
        err.print(f"{'signing':>8} this home had no key and has one now: `concord key` prints it; tell your readers")
    return key


def ready_mlflow(home: Path) -> None:
    """Check that MLflow's store can be used; make it if missing. Raises EnvironmentFailed."""
    from concord.artifacts.mlflow.store import ready_store  # heavy; a cached run does without it

    if aside := ready_store(home):
        err.print(f"{'MLflow':>8} the store could not be read, so it is made anew: the old one is {aside}")
