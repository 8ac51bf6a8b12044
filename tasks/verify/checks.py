"""Run checks and give their results; those of files from strangers in a process of their own, within limits.

A check is a function of typed records: it returns a sentence about what it found, or raises NotVerified naming the
first difference. A stranger's files may ask for any amount of memory and time: tables that unpack to a thousand times
their bytes, JSON within JSON, settings whose cost takes years to recompute. So they are checked apart, with one thread,
and a check that asks for more than Concord's own files do ends in a sentence.

Assumes      the system limits what a process may write to (RLIMIT_DATA), as Linux does, and its processor time
Guarantees   a check that fails in any way is one failing result. A job that ends its process, in whatever way, or does
             not end, is one as well. Of the environment it is given the variables NEEDED alone: no password, unless it
             is to read a table of an object store
Not covered  systems that do not count mapped memory, such as macOS: only time is limited there
             Checked by tests/tasks/verify/test_limited.py
"""

import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name

from pydantic import BaseModel, ConfigDict

from concord.artifacts.errors import ConcordError, EnvironmentFailed, NotVerified
from concord.artifacts.measures import Estimate
from concord.artifacts.schemas import CertificatePart

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
VERIFY_FOLDER = "concord.tasks.verify.published:verify_published"
"""The check of a published folder, as a job."""
Job = tuple[str, Sequence[object]]
"""A function that returns checks, as "module:name", and its arguments, which JSON can hold."""
ROUNDED = 1e-6
"""Relative tolerance for a figure that follows from the same counts: libraries of another version round otherwise."""


class Check(BaseModel):
    """The result of one check: whether it holds, and what was found.

    warning   it holds, but a reader must know what was found
    made      whether it could be made. One that could not, as where a server fails, does not hold either, but is no
              evidence of a change
    """

    model_config = ConfigDict(frozen=True)

    name: str
    ok: bool
    detail: str
    warning: bool = False
    made: bool = True


class NotIncluded(NotVerified):
    """A published file that an export leaves out."""


def checked(name: str, check: Callable[[], str]) -> Check:
    """Run a check and return its result, whatever exception it raises."""
    try:
        return Check(name=name, ok=True, detail=check())
    except NotIncluded as absent:
        return Check(name=name, ok=True, warning=True, detail=str(absent))
    except ConcordError as wrong:
        return Check(name=name, ok=False, detail=str(wrong), made=not isinstance(wrong, EnvironmentFailed))
    except MemoryError:
        return Check(name=name, ok=False, detail="it takes more memory than there is for its check")
    except Exception as failed:  # whoever made the folder may have made it so
        return Check(name=name, ok=False, detail=f"it holds what Concord never writes ({type(failed).__name__})")


def equal(what: str, actual: object, recorded: object) -> None:
    """Raise NotVerified, naming `what`, if `actual` differs from `recorded`."""
    if actual != recorded:
        raise NotVerified(difference(what, actual, recorded))


def alike(what: str, actual: object, certified: object, apart: float = 0.0) -> None:
    """Raise NotVerified, naming the first that differs, unless figures are the certified ones up to rounding, or up to
    a difference of `apart`."""
    match actual, certified:
        case (Estimate(), Estimate()) | (float(), float()):
            pairs = zip(_numbers(actual), _numbers(certified), strict=True)  # type: ignore[arg-type]  # mypy keeps object
            if not all(math.isclose(*pair, rel_tol=ROUNDED, abs_tol=apart or ROUNDED**2) for pair in pairs):
                raise NotVerified(f"{what} is {actual:.6g}, but it was certified as {certified:.6g}")
        case (CertificatePart(), CertificatePart()) if type(actual) is type(certified):
            for name, value in actual:
                alike(f"{what}, {name}", value, getattr(certified, name), apart)
        case (tuple(), tuple()):
            equal(f"how many there are of {what}", len(actual), len(certified))
            for at, (ours, theirs) in enumerate(zip(actual, certified, strict=True)):
                alike(f"{what}, {at}", ours, theirs, apart)
        case _:
            equal(what, actual, certified)


def _numbers(figure: Estimate | float) -> tuple[float, ...]:
    return (figure.value, figure.low, figure.high) if isinstance(figure, Estimate) else (figure,)


def difference(what: str, actual: object, recorded: object) -> str:
    """A sentence on what differs: within objects the first field, since whole objects would be cut short."""
    ours, theirs = _fields(actual), _fields(recorded)
    if ours is not None and theirs is not None:
        names = {**ours, **theirs}
        first = next(name for name in names if name not in ours or name not in theirs or ours[name] != theirs[name])
        return difference(f"{what}, {first}", ours.get(first), theirs.get(first))
    if isinstance(actual, tuple) and isinstance(recorded, tuple):
        others = tuple(part for part in recorded if part not in actual)
        actual, recorded = tuple(part for part in actual if part not in recorded), others
        if not actual and not recorded:
            return f"{what} is in another order than it was recorded"
        if len(actual) == len(recorded) == 1:
            return difference(what, *actual, *recorded)
    return f"{what} is {_short(actual)}, but it was recorded as {_short(recorded)}"


def _fields(value: object) -> Mapping[str, object] | None:
    """The fields of an object by name; None for any other value."""
    match value:
        case BaseModel():
            return dict(value)
        case Mapping():
            return value
    return None


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


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
            env={**needed, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path)},
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
        lowered = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(limit, (lowered, lowered))
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)  # whatever a library prints
        name, arguments = json.load(sys.stdin)
        checks = [check.model_dump() for check in resolve_name(name)(*arguments)]
        answer.write(json.dumps(checks).encode() + b"\n")  # pydantic writes no names of files that are no UTF-8


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
