"""The home folder of a command: made, checked, and known by the runs that ended in it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from concord.artifacts.errors import ConcordError, EnvironmentFailed
from concord.artifacts.home.atomic import check_format, is_home, make_folder, tidy
from concord.artifacts.home.users import check_own
from concord.artifacts.home.vault import Vault
from concord.artifacts.settings import Settings
from concord.flows.server import ADDRESS_VARIABLE, serving

if TYPE_CHECKING:
    from concord.artifacts.plan import Plan
    from concord.artifacts.published import Published


def prepare(home: Path) -> Path:
    """Make the home folder if missing. Returns its absolute path.

    Raises EnvironmentFailed, such as for a home that another user made; NotVerified for a home of another
    format.
    """
    from concord.artifacts.home.released import settle  # with NumPy and Arrow, while the server starts

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
        raise EnvironmentFailed(
            f"the home folder {home} cannot be written ({failed.strerror}): name another with --home"
        ) from None
    check_format(home)
    return home


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


@contextmanager
def foreseen(home: Path, *, anew: bool) -> Iterator[None]:
    """Within the context, run the home's own server if a run is sure to need it: it starts while the plan is read.

    anew   whether the run may not be answered from cache

    A missing home is not made for a plan that may be wrong.
    """
    try:
        known = is_home(home)
        if known:
            check_format(home, reading=True)
    except (OSError, ConcordError):
        known = False  # `prepare` gives the reason later
    with serving(prepare(home)) if known and (anew or not has_ended(home)) else nullcontext():
        yield


def is_known(plan: "Plan", home: Path) -> bool:
    """Whether a run of exactly that plan has ended in this home, and no server is named that should record each run.

    It decides only what is tried first: such a run is likely to be cached.
    """
    return not os.environ.get(ADDRESS_VARIABLE) and has_ended(home) and _mark(plan, home).exists()


def has_ended(home: Path) -> bool:
    """Whether a run of any plan has ended in this home."""
    return any((home / "results").glob(f"{ENDED}*"))


def remember(plan: "Plan", home: Path) -> None:
    """Record that a run of that plan has ended in this home."""
    mark = _mark(plan, home)
    with suppress(OSError):  # the run itself succeeded; the next one is only slower
        make_folder(mark.parent)
        mark.touch(mode=0o600)


ENDED = "ended-"


def _mark(plan: "Plan", home: Path) -> Path:
    return home / "results" / f"{ENDED}{Vault(home / 'vault').digest('ended', plan.folder, plan.model_dump_json())}"


REGISTRY = "models:/"


def published_by(subject: str, home: Path) -> "Published":
    """The published student that a command is given, as `handed_on` checks it.

    A home must exist for a model in MLflow's registry; for any other student, a publication that was killed is
    finished.
    """
    from concord.artifacts.home.released import settle

    if subject.startswith(REGISTRY):
        reopen(home)
    with suppress(OSError):  # it cannot be written, and is read as it is
        settle(home)
    from concord.tasks.verify.checked_student import handed_on  # as heavy as scikit-learn

    return handed_on(subject, home)
