"""The format of a home folder: by one number in one file a version tells whether it may open it.

    1  homes without such a file
    2  the ledger says which private files each domain holds
    3  the ledger says which version opened a session; a key made now is followed by what tells that it is whole, which
       0.1.0 would take for damage

Raised when an older home needs `tasks.upgrade` first, or an older version must not open a newer one.
"""

from pathlib import Path

from artifacts.errors import EnvironmentFailed, NotVerified
from artifacts.whole import UNFINISHED, remove_beside, sweep, write_whole

FORMAT = 3
FIRST_KEPT = ("vault", "ledger.db")
"""What a home holds as soon as anything happened in it."""


def is_home(home: Path) -> bool:
    """Whether concord was at work in that folder before."""
    return any((home / name).exists() for name in ("format", *FIRST_KEPT))


def check_format(home: Path) -> int:
    """The format of a home, where it is this version's or older; one that holds nothing yet is made this version's.

    Raises NotVerified where it is newer.
    """
    file = home / "format"
    try:
        if not is_home(home):
            set_format(home)
        said = file.read_text() if file.exists() else "1"
    except OSError as failed:
        raise EnvironmentFailed(f"the home folder {home} cannot be read: {failed.strerror}") from None
    if not said.strip().isdecimal():
        raise NotVerified(f"the file {file} must hold the number of a format, and does not")
    if int(said) > FORMAT:
        raise NotVerified(
            f"the home folder {home} is of format {int(said)} and this version of concord knows {FORMAT}: go on with "
            "the version that wrote it, or a later one"
        )
    return int(said)


def set_format(home: Path) -> None:
    """Say, durably, that the home is of this version's format. Raises EnvironmentFailed."""
    try:
        with write_whole(home / "format", home, mode=0o666, durable=True) as file:
            file.write(f"{FORMAT}\n".encode())
    except OSError as failed:
        raise EnvironmentFailed(f"the home folder {home} cannot be written: {failed.strerror}") from None


def tidy(home: Path) -> None:
    """Remove what processes that were killed left unfinished."""
    if not (home / UNFINISHED).is_dir():
        for folder in ("vault", "released"):
            remove_beside(home / folder)
    for root in (home, home / "vault"):
        sweep(root)
