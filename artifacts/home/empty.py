"""Empty databases that an installation made once, of which a fresh home begins with copies.

    PREFIX/share/concord/PACKAGE-VERSION-SHA256.db      PREFIX: of the environment that the packages are installed in

Prefect and MLflow make a new database by hundreds of migrations, which take seconds; `make install` has them do it once
for all homes (`python -m concord.flows.database`).

Assumes      whoever may write to PREFIX may replace the packages there as well
Guarantees   a home begins with a file that its maker named by version and digest, which this user or root owns, and
             which nobody else may write. Anything else is passed over, and the database is made by its migrations
Not covered  that a file with the right name has the right tables: who installs sees to that. Checked by
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
    """Write the empty database of the installed version of a package to `place`, where no file is.

    Returns whether there is one; if not, or if the copy is not what the package can use, it makes one by itself.
    """
    for content in filter(None, map(_content, FOLDER.glob(f"{package}-{version(package)}-*.db"))):
        place.touch(mode=0o600)
        place.write_bytes(content)
        return True
    return False


def keep_as_empty(package: str, made: Path) -> None:
    """Keep a database that the installed version of a package has made, for homes to begin with; the only one of it."""
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


def _content(file: Path) -> bytes | None:
    """What the file holds, if it is what its name says and nobody else could have written it."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            if not (stat.S_ISREG(status.st_mode) and _is_ours(status) and _is_ours(file.parent.stat())):
                return None
            content = opened.read()
    except OSError:
        return None
    return content if file.stem.rpartition("-")[2] == sha256(content).hexdigest() else None


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
