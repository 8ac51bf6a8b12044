"""The home folder of a command: made, checked, and known by the runs that ended in it."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.home.atomic import check_format, is_home, tidy
from concord.artifacts.home.users import check_own
from concord.artifacts.settings import Settings

if TYPE_CHECKING:
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
    from concord.tasks.verify.certificate import handed_on  # as heavy as scikit-learn

    return handed_on(subject, home)
