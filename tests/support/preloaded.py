"""The library of journal.c, by which a process records what it changes below a folder, and meets a fault there."""

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("journal.c")


@functools.cache
def library() -> Path:
    """The library, compiled once a process."""
    built = Path(tempfile.mkdtemp()) / "journal.so"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", built, SOURCE], check=True)
    return built


def environment(below: Path, journal: Path | None = None, fault: str = "") -> dict[str, str]:
    """What a new process needs to record all of its changes below a folder, and to meet a fault (as journal.c says)."""
    named = {"JOURNAL_BELOW": below, "JOURNAL_FILE": journal or "", "JOURNAL_FAULT": fault, "LD_PRELOAD": library()}
    return os.environ | {name: str(value) for name, value in named.items()}


def begin(below: Path | str, journal: Path | str = "", fault: str = "") -> None:
    """In a process into which the library is loaded: record in another journal, from change number 0."""
    ctypes.CDLL(None).journal_begin(*(str(given).encode() for given in (below, journal, fault)))
