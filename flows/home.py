"""The home folder of a command: made and checked; and the memo of a run that ended in it, which is its summary, given
back to the same run for as long as nothing has changed that it depends on.

    results/ended-KEY = seal ‖ summary      KEY is of the plan, its folder and this version; the seal, of all below too

A run that is repeated computes nothing, and so needs neither Prefect nor MLflow, which take seconds to load.

Assumes      a commit to a SQLite database changes the counter in its header (its file format, §1.3.7), or the file's
             time
Guarantees   a summary that is given back was sealed by this vault for this very plan. Since then these are the same:
             the tables, by their content; the ledger, whose chain is checked again; what the domain's sessions
             released, and who signs; which keys of the domain and its sessions the vault has; MLflow's database, the
             names of its artifact files, its version; the place of the home. Nothing is kept of a run during which its
             tables changed, or whose certificate another command has replaced. Nothing is drawn or charged
Not covered  the content of MLflow's files, which verification reads; rows, teachers and cached results in the vault,
             which a run that needs them makes again. Where the environment names a server, Prefect's or MLflow's, every
             run is made in full, and is on its record. Checked by tests/flows/test_memo.py
"""

import errno
import hmac
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from concord import __version__
from concord.artifacts.errors import OF_ANOTHER, ConcordError, EnvironmentFailed, NotVerified
from concord.artifacts.home.atomic import is_home, make_folder, sweep, write_whole
from concord.artifacts.home.released import settle, sha256
from concord.artifacts.home.signing import SigningKey
from concord.artifacts.home.users import check_own
from concord.artifacts.home.vault import SEAL_BYTES, Vault, derive, keyed_digest
from concord.artifacts.plan import Plan, load_plan
from concord.artifacts.schemas import canonical_json
from concord.artifacts.settings import JOURNALS, Settings, own_store, own_store_file
from concord.flows.server import is_named

if TYPE_CHECKING:
    from concord.artifacts.published import PublishedStudent
    from concord.flows.outcome import Summary

FORMAT = 2
"""Format of homes."""


def prepare(home: Path) -> Path:
    """Make the home folder if missing. Returns its absolute path.

    Raises EnvironmentFailed, such as for a home that another user made; NotVerified for a home of another
    format.
    """
    home = home.absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_own("the home folder", home, 0o022)
        for folder in (home / "prefect", home / "results"):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not os.access(home, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        tidy(home)
        settle(home)
    except OSError as failed:
        advice = "name another with --home"
        if is_home(home):
            advice = "make it writable, since another home would not know what this one's ledger has charged"
        raise EnvironmentFailed(f"the home folder {home} cannot be written ({failed.strerror}): {advice}") from None
    check_format(home)
    return home


def plan_and_home(plan: Plan | Path, home: Path | None) -> tuple[Plan, Path]:
    """The plan, whose tables are there, and the home folder, which is made if missing; by default, the settings' own.

    Raises as `prepare`, WrongInput if the plan or a table is wrong.
    """
    from concord.tasks.data.sources import check_tables  # with scikit-learn, which most commands on a home do without

    loaded = plan if isinstance(plan, Plan) else load_plan(plan)
    check_tables(loaded)
    return loaded, prepare(home or Settings.now().home)


def reopen(home: Path, *, reading: bool = False) -> Path:
    """As `prepare`, for a home folder that must exist: a misspelt name would make a new, empty home.

    reading   nothing will be written, so another user's home, or one that cannot be written, is read as it is
    Raises EnvironmentFailed if the home does not exist, unless the ledger is kept elsewhere.
    """
    if not is_home(home) and Settings.now().ledger is None:
        raise EnvironmentFailed(
            f"there is no home folder of concord at {home.absolute()}: name it with --home or CONCORD_HOME"
        )
    if reading and home.is_dir() and not (os.access(home, os.W_OK) and home.stat().st_uid == os.geteuid()):
        check_format(home, reading=True)
        return home.absolute()
    return prepare(home)


REGISTRY = "models:/"


def published_by(subject: str, home: Path) -> "PublishedStudent":
    """The published student that a command is given, as `handed_on` checks it.

    A home must exist for a model in MLflow's registry; for any other student, a publication that was killed is
    finished.
    """
    if subject.startswith(REGISTRY):
        reopen(home)
    with suppress(OSError):  # it cannot be written, and is read as it is
        settle(home)
    from concord.tasks.verify.certificate import handed_on  # as heavy as scikit-learn

    return handed_on(subject, home)


def check_format(home: Path, *, reading: bool = False) -> None:
    """Check that a home is of this version's format; a home without a format gets this one, durably, unless it is
    opened for `reading`.

    Raises NotVerified if it is of another format; EnvironmentFailed if it cannot be read or written.
    """
    file = home / "format"
    try:
        if not file.exists():
            if reading:
                return
            with write_whole(file, home, mode=0o666, durable=True) as made:
                made.write(f"{FORMAT}\n".encode())
        text = file.read_text()
    except OSError as failed:
        raise EnvironmentFailed(f"the home folder {home} cannot be used: {failed.strerror}") from None
    if not text.strip().isdecimal():
        raise NotVerified(f"the file {file} must hold the number of a format, and does not")
    if int(text) != FORMAT:
        raise NotVerified(f"the home folder {home} {OF_ANOTHER}")


def tidy(home: Path) -> None:
    """Remove the unfinished files that killed processes left in the home."""
    for root in (home, home / "vault"):
        sweep(root)


def keep_frames(plan: Plan, home: Path, frames: Mapping[str, Any], columns: Collection[str | None] | None) -> Plan:
    """The plan with these frames, by field, kept in the vault as its tables: of each those columns, or all.

    Raises NotVerified if the home's ledger denies what it holds.
    """
    from concord.artifacts.stores import Stores
    from concord.tasks.data.sources import keep_frame
    from concord.tasks.door.locks import a_run_in

    vault, domain = Stores.of(home).vault, plan.privacy.domain
    with a_run_in(vault, domain):  # nothing of the domain is erased meanwhile
        kept = {field: keep_frame(frame, vault, field, domain, columns) for field, frame in frames.items()}
    return plan.model_copy(update={"data": plan.data.model_copy(update=kept)})


Tables = dict[str, list[str]]
FIELDS: tuple[Literal["private", "public", "test"], ...] = ("private", "public", "test")
HEADER = 100
"""Bytes of a SQLite database's header, in which commits are counted."""


class Memo:
    """The memo of one plan in one home."""

    def __init__(self, plan: Plan, home: Path) -> None:
        self.plan, self.home, self.vault = plan, home, Vault(home / "vault")
        named = self.vault.digest("memo", __version__, plan.folder, plan.model_dump_json())
        self.file = home / "results" / f"ended-{named}"

    def read(self) -> "Summary | None":
        """The summary of the same run, as of one that asked and spent nothing; None if anything has changed since."""
        from concord.artifacts.ledger.ledger import Ledger
        from concord.flows.outcome import Summary

        try:
            kept = self.file.read_bytes()
        except OSError:
            return None
        seal, text = kept[:SEAL_BYTES], kept[SEAL_BYTES:]
        if (expected := self._seal(text, self.tables())) is None or not hmac.compare_digest(seal, expected):
            return None
        ledger, name = Ledger.of(self.home), self.plan.privacy.domain
        domain, charged = ledger.domain(name), ledger.total(name)
        used = 0.0 if domain is None else domain.filter.share(charged)
        return Summary.model_validate_json(text).repeated(used)

    def write(self, summary: "Summary", before: Tables | None) -> None:
        """Keep the summary of the run, which has just ended, if its tables are still as they were `before` it.

        Keeps none if the tables have changed, if another certificate has been released, or if the home cannot be
        written.
        """
        text = summary.repeated(0.0).model_dump_json().encode()  # without durations of private stages
        with suppress(OSError):
            current = sha256(Path(summary.certificate).read_bytes()) == summary.certificate_digest
            seal = self._seal(text, before)
            if seal is not None and current and self.tables() == before:
                make_folder(self.file.parent)
                with write_whole(self.file, self.home) as file:
                    file.write(seal + text)

    def tables(self) -> Tables | None:
        """Keyed digests of the plan's tables by field, but of those of which the home keeps a snapshot; None if one
        cannot be read."""
        from concord.tasks.data.files import find_files
        from concord.tasks.data.sources import not_local

        data, elsewhere, digests = self.plan.data, not_local(self.plan), Tables()
        try:
            for field in FIELDS:
                if getattr(data, field) is not None and field not in elsewhere:
                    files = find_files(self.plan.path(field), f"data.{field}")
                    digests[field] = [self.vault.digest_file(file.path) for file in files]
        except (OSError, ConcordError):
            return None
        return digests

    def _seal(self, text: bytes, tables: Tables | None) -> bytes | None:
        """The seal of a summary in the present state; None if some of that is not the home's own or may be changing."""
        database = own_store_file(self.home)
        journals = [database.with_name(f"{database.name}{suffix}") for suffix in JOURNALS]
        if tables is None or is_named() or not own_store(self.home) or any(journal.exists() for journal in journals):
            return None
        try:
            state = [tables, self._record(), self._store(database)]
        except (OSError, ConcordError):  # the run itself says what is wrong
            return None
        key = derive(self.vault.secret("installation"), "memo")
        return bytes.fromhex(keyed_digest(key, self.file.name, text, canonical_json(state)))

    def _record(self) -> list[Any]:
        """The ledger's last entry, the digests of what the domain's sessions released, who signs, and which keys of
        the domain and its sessions are there."""
        from concord.artifacts.ledger.home_contents import checked_ledger

        ledger, name = checked_ledger(self.home), self.plan.privacy.domain
        sessions = [session.id for session in ledger.sessions(name)]
        files = [file for session in sessions for file in _files(self.home / "released" / session)]
        released = {str(file): sha256(file.read_bytes()) for file in files}
        secrets = [f"domains/{name}", *(f"sessions/{session}" for session in sessions)]
        present = [secret for secret in secrets if self.vault.has_secret(secret)]
        head = [record.digest for record in ledger.records()[-1:]]
        return [head, released, SigningKey.of(self.vault.root.parent).public.fingerprint, present]

    def _store(self, database: Path) -> list[Any]:
        """Facts of MLflow's store, of which one changes with every commit."""
        with database.open("rb") as file:
            about, header = os.fstat(file.fileno()), file.read(HEADER)
        artifacts = [str(file) for file in _files(database.parent / "mlartifacts")]
        return [str(database), about.st_size, about.st_mtime_ns, header.hex(), artifacts, version("mlflow")]


def _files(folder: Path) -> list[Path]:
    """Everything below a folder but its folders."""
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
