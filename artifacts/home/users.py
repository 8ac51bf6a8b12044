"""Users: whose a folder is, and what others may do with it.

What another user made may hold anything: keys that they know, or a ledger that they wrote.

Assumes      folders above it are not another user's to rename
Guarantees   a home that is another user's, or that others may write, is not used; nor is a vault that is another
             user's, or that others may read
Not covered  root, who can make files of any user's; a ledger kept elsewhere. Checked by
             tests/artifacts/home/test_users.py
"""

import os
import pwd
from pathlib import Path

from concord.artifacts.errors import EnvironmentFailed


def check_own(what: str, path: Path, closed: int) -> None:
    """Raise EnvironmentFailed, naming it as `what`, if a folder is another user's, or if others have one of the rights
    in `closed`, such as 0o077; OSError if it is not there."""
    status, ours = path.stat(), os.geteuid()
    if status.st_uid != ours:
        raise EnvironmentFailed(
            f"{what} {path} belongs to {_user_name(status.st_uid)}, and this runs as {_user_name(ours)}: run it as "
            f"{_user_name(status.st_uid)}; or, if nobody else has put anything there, let root give it to "
            f"{_user_name(ours)} by `chown -R {ours} {path}`; or name another home"
        )
    if (mode := status.st_mode & 0o777) & closed:
        raise EnvironmentFailed(
            f"{what} {path} must be closed to others (0700), found {mode:04o}: `chmod -R go= {path}`"
        )


def _user_name(number: int) -> str:
    """The name of the user with that number."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # as in a container, whose list of users is its own
        return f"user {number}"
