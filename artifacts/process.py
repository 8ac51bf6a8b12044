"""Changes of the process that Concord works in: they last as long as it works, and are taken back.

Prefect, MLflow and Dask read some settings from the environment alone. `our_settings` sets those within a context. None
of them names a home: what does is handed on by value, so that a process can work in several homes.

Guarantees   after the last context the environment is as it was, also if a context raised; the user's own settings win.
             Within a context MLflow logs nothing by itself
Not covered  other threads of the process, which see the settings while a context lasts
             Checked by tests/artifacts/test_process.py and tests/promises/test_own_process.py
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from concord.artifacts.errors import EnvironmentFailed

VARIABLES = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # a server that dies in the middle is given up within a minute: each
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # request is tried twice, by what fails and by what says that it failed
    "PGCONNECT_TIMEOUT": "10",
    "DASK_LOGGING__DISTRIBUTED": "critical",  # its workers tell of a run that was killed; what fails, the run says
    "PYTHONWARNINGS": "ignore:resource_tracker",  # of a run that was killed: Python clears up after its workers
}
"""Settings of Prefect, MLflow, PostgreSQL, Dask and Python, for us and for the processes that we start."""
FIRST_YEAR = 1980
"""The first year that a zip archive can hold: a student is one, which is written with the present time at first."""
PROXIES = ("NO_PROXY", "no_proxy")
LOOPBACK = "127.0.0.1"


class ProcessChange:
    """A change of the whole process within contexts, which may be nested and lie in several threads: the first context
    makes it, and the last one takes it back."""

    def __init__(self, change: Callable[[], AbstractContextManager[object]]) -> None:
        self._change, self._made = change, ExitStack()
        self._contexts, self._lock = 0, threading.Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._contexts:
                self._made.enter_context(self._change())
            self._contexts += 1
        try:
            yield
        finally:
            with self._lock:
                self._contexts -= 1
                if not self._contexts:
                    self._made.close()


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment within the context, and put back what they were."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


@ProcessChange
@contextmanager
def our_settings() -> Iterator[None]:
    """The context in which Concord works: to be entered before Prefect or MLflow is imported by us, or called.

    It sets those of VARIABLES that the environment does not have, and no proxy for our own servers if it names one.
    MLflow's autologging, if the user has switched it on, would record what models of private rows score.
    Raises EnvironmentFailed if Python runs without docstrings, or the clock is wrong by decades.
    """
    if sys.flags.optimize > 1:
        raise EnvironmentFailed("published schemas hold Python's docstrings: run it without -OO or PYTHONOPTIMIZE=2")
    if (year := time.localtime().tm_year) < FIRST_YEAR:
        raise EnvironmentFailed(f"the clock stands in {year}: set it, as no student is written before {FIRST_YEAR}")
    from urllib.request import getproxies  # as heavy as the command line's own modules, and --help needs none

    values = {name: value for name, value in VARIABLES.items() if name not in os.environ}
    if getproxies():
        direct = ",".join(filter(None, (next(filter(None, map(os.environ.get, PROXIES)), None), LOOPBACK)))
        values |= dict.fromkeys(PROXIES, direct)
    autologging = sys.modules.get("mlflow.utils.autologging_utils")
    with variables(values), nullcontext() if autologging is None else autologging.disable_autologging():
        yield
