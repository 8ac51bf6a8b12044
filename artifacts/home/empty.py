"""Empty databases, made once per installation and copied when a new one is needed.

    PREFIX/share/concord/PACKAGE-VERSION-SHA256.db      PREFIX: the environment that the packages are installed in

Prefect and MLflow make a new database by hundreds of migrations, which take seconds; `make install` has them do it once
(`python -m concord.flows.install`).

Assumes      a user who may write to PREFIX may replace the packages there as well
Guarantees   only a file is copied whose name matches its version and digest, that this user or root owns and nobody
             else may write. Any other file is ignored, and the database is made by its migrations
Not covered  whether a file with the right name has the right tables: that is up to the installer. Checked by
             tests/artifacts/home/test_empty.py
"""

import os
import sqlite3
import stat
import sys
from contextlib import closing
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(sys.prefix) / "share" / "concord"


def copy_empty(package: str, place: Path) -> bool:
    """Copy the empty database for the installed version of a package to `place`, where no file is yet.

    Returns whether there was one. If not, or if the package cannot use the copy, the package makes its own database.
    """
    for file in FOLDER.glob(f"{package}-{version(package)}-*.db"):
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as opened:
                status = os.fstat(descriptor)
                ours = stat.S_ISREG(status.st_mode) and _is_ours(status) and _is_ours(file.parent.stat())
                content = opened.read() if ours else b""
        except OSError:
            continue
        if ours and file.stem.rpartition("-")[2] == sha256(content).hexdigest():
            place.touch(mode=0o600)
            place.write_bytes(content)
            return True
    return False


def keep_as_empty(package: str, made: Path) -> None:
    """Keep a database made by the installed version of a package, to copy into new homes; it replaces earlier ones."""
    FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
    with TemporaryDirectory(dir=FOLDER) as folder, closing(sqlite3.connect(made)) as opened:
        packed = Path(folder) / "packed"
        opened.execute("VACUUM INTO ?", (str(packed),))
        packed.chmod(0o644)
        kept = FOLDER / f"{package}-{version(package)}-{sha256(packed.read_bytes()).hexdigest()}.db"
        packed.replace(kept)
    for other in FOLDER.glob(f"{package}-*.db"):
        if other != kept:
            other.unlink()


def _is_ours(status: os.stat_result) -> bool:
    """Whether this user or root owns a file or folder, and nobody else may write it."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
