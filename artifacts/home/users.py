"""Users: whose a file is, and files that their owner alone may read.

What another user made may hold anything: keys that they know, or a ledger that they wrote.

Assumes      folders above it are not another user's to rename
Guarantees   a home, vault, secret or ledger that another user made is not used, and the sentence names both users
Not covered  root, who can make files of any user's. Checked by tests/artifacts/home/test_users.py
"""

import os
import pwd
from pathlib import Path

from concord.artifacts.errors import EnvironmentFailed

MOST_BYTES = 1 << 16
"""More than a file with one secret holds."""


def check_owner(what: str, path: Path) -> None:
    """Raise EnvironmentFailed, naming it as `what`, if a file or folder belongs to another user than the one who runs;
    OSError if it is not there."""
    if (owner := path.stat().st_uid) != os.geteuid():
        theirs, ours = user_name(owner), user_name(os.geteuid())
        raise EnvironmentFailed(
            f"{what} {path} belongs to {theirs}, and this runs as {ours}: run it as {theirs}; or, if nobody else has "
            f"put anything there, let root give it to {ours} by `chown -R {os.geteuid()} {path}`; or name another home"
        )


def user_name(number: int) -> str:
    """The name of the user with that number."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # as in a container, whose list of users is its own
        return f"user {number}"


def read_own(path: Path, setting: str) -> bytes:
    """The content of a key file, which only its owner may read; `setting` names it.

    Raises EnvironmentFailed if others may read it, or if it cannot be read.
    """
    try:
        mode, content = path.stat().st_mode & 0o777, path.read_bytes()[:MOST_BYTES]
    except (OSError, ValueError) as failed:
        why = failed.strerror if isinstance(failed, OSError) else "its name is not valid"
        raise EnvironmentFailed(f"{setting} names the key file {path}, which cannot be read: {why}") from None
    if mode & 0o077:
        raise EnvironmentFailed(f"the key file {path} must be readable by its owner alone (0600), found {mode:04o}")
    return content
