"""Checks of files from strangers, in a process of its own with limited memory, time, files and environment.

A stranger's files may ask for any amount of both: tables that unpack to a thousand times their bytes, JSON within JSON,
settings whose cost takes years to recompute. So they are checked apart, with one thread, and a check that asks for more
than Concord's own files do ends in a sentence.

Assumes      the system limits what a process may write to (RLIMIT_DATA), as Linux does, and its processor time
Guarantees   a job that ends its process, in whatever way, or does not end, is one failing check. Of the environment it
             is given the variables NEEDED alone: no password, unless it is to read a table of an object store
Not covered  systems that do not count mapped memory, such as macOS: only time is limited there
             Checked by tests/tasks/verify/test_limited.py
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pkgutil import resolve_name

from pydantic import BaseModel, ConfigDict

MEMORY = 4 << 30
"""Most memory of a check, in bytes."""
SECONDS = 20 * 60
"""Most processor time of a check, in seconds; it may take twice as long by the clock."""
FILE = 64 << 20
"""Most bytes of a file that a check writes: it needs none."""
NEEDED = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables of the environment that Python and its packages may need to begin."""
STORES = ("AWS_", "AZURE_", "GOOGLE_")
"""How the variables begin by which a test table at an address is read."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"), "1"
)
"""Environment of the process: each thread would reserve memory, and machines have any number of them."""


class Check(BaseModel):
    """The result of one check: whether it holds, and what was found.

    warning   it holds, but a reader must know what was found
    """

    model_config = ConfigDict(frozen=True)

    name: str
    ok: bool
    detail: str
    warning: bool = False


VERIFY_FOLDER = "concord.tasks.verify.published:verify_published"
"""The check of a published folder, as a job."""
Job = tuple[str, Sequence[object]]
"""A function that returns checks, as "module:name", and its arguments, which JSON can hold."""


def limited(job: Job, *, memory: int = MEMORY, seconds: int = SECONDS) -> list[Check]:
    """The checks of a job; one that ends its process has one check, which fails."""
    stores = STORES if any("://" in str(argument) for argument in job[1]) else ()
    needed = {name: value for name, value in os.environ.items() if name in NEEDED or name.startswith(stores)}
    try:
        answer = subprocess.run(
            [sys.executable, "-P", "-m", __name__, str(memory), str(seconds)],
            input=json.dumps(job).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**needed, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)},
            check=False,
            timeout=2 * seconds,
        ).stdout
    except subprocess.TimeoutExpired:
        answer = b""
    if not answer.endswith(b"\n"):
        most = f"{memory / 2**30:.3g} GiB of memory or {seconds / 60:.3g} minutes of processor time"
        ended = f"its check broke off, as it does beyond {most}: Concord publishes nothing that takes so much"
        return [Check(name="limits", ok=False, detail=ended)]
    return [Check(**check) for check in json.loads(answer)]


def _main(memory: int, seconds: int) -> None:
    limits = {resource.RLIMIT_DATA: memory, resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: FILE}
    for limit, most in {**limits, resource.RLIMIT_CORE: 0}.items():
        allowed = resource.getrlimit(limit)[1]
        own = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(limit, (own, own))
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)  # whatever a library prints
        name, arguments = json.load(sys.stdin)
        checks = [check.model_dump() for check in resolve_name(name)(*arguments)]
        answer.write(json.dumps(checks).encode() + b"\n")  # pydantic writes no names of files that are no UTF-8


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
