"""Files of a session that are published together: whenever a process is killed, a reader finds all the earlier ones or
all the later.

    HOME/held/SESSION/ready/000-student.skops …   the whole publication; from the moment it is there, it is valid
    HOME/released/SESSION/student.skops …         where its files are moved one by one, in their order

Assumes      one process at a time publishes for a session; `settle` has run before a reader looks, as each command on a
             home runs it when it begins
Guarantees   the files of a publication appear all together or not at all, whole and durable; of one that was killed
             while its files were moved, the next `settle` moves the rest
Not covered  a copy of the folder taken while files are moved, which takes milliseconds, or after a process was killed
             just then and before the next command: it does not verify. A home that cannot be written is read as it is
             Checked by tests/artifacts/home/test_publication.py and tests/promises/test_crash_publishing.py
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from concord.artifacts.home.atomic import make_folder, passing_folder, sync_folder, write_whole

HELD = "held"
"""Folder of the home for files computed from released data and not yet published, such as candidate students."""
READY = "ready"


def publish_together(home: Path, session: str, files: Mapping[str, Iterable[bytes]]) -> None:
    """Replace files in a session's published folder, by name, each given in parts; they are moved there in their order.

    Raises OSError.
    """
    settle(home)
    ready = home / HELD / session / READY
    make_folder(ready.parent)
    with passing_folder(ready, home) as passing:
        for number, (name, parts) in enumerate(files.items()):
            with write_whole(passing / f"{number:03d}-{name}", home, mode=0o666, durable=True) as file:
                file.writelines(parts)
        passing.rename(ready)
        sync_folder(ready.parent)
    settle(home)


def settle(home: Path) -> None:
    """Finish publications that are ready, whichever process made them. Raises OSError."""
    for ready in (home / HELD).glob(f"*/{READY}"):
        folder = home / "released" / ready.parent.name
        make_folder(folder, mode=0o777)  # as the umask allows
        with suppress(FileNotFoundError):  # another process was faster
            for file in sorted(ready.iterdir()):
                with suppress(FileNotFoundError):  # another process moved this one
                    file.replace(folder / file.name.partition("-")[2])
            sync_folder(folder)
            with suppress(OSError):  # it is gone, or is another publication by now
                ready.rmdir()
