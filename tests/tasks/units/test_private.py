"""Private work: nothing of the data leaves it by an error, a warning, a log or a print; others are heard."""

import logging
import os
import sys
import threading
import traceback
import warnings

import pytest
from threadpoolctl import threadpool_info

from tests.world import EnvironmentFailed, NotVerified, private_stage, silenced


@private_stage
def work(error: BaseException | None) -> str:
    """What a stage is."""
    secret = "a private value"
    if error is not None:
        raise error
    return secret


@pytest.mark.parametrize(
    "error",
    [ValueError("a private value"), KeyError("a private value"), MemoryError(), SystemExit("a private value")],
)
def test_a_failure_names_the_stage_and_its_kind_alone(error: Exception) -> None:
    with pytest.raises(EnvironmentFailed) as failed:
        work(error)
    assert str(failed.value) == f"stage work failed ({type(error).__name__}); nothing of the data is shown"
    text = "".join(traceback.TracebackException.from_exception(failed.value, capture_locals=True).format())
    assert "a private value" not in text.replace(repr(error), "")
    assert failed.value.__context__ is None


def test_our_own_errors_and_the_user_s_stop_pass() -> None:
    for error in (NotVerified("the file x is not what was written"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as passed:
            work(error)
        assert passed.value is error


def test_calm_hushes_its_own_thread_alone(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """What it prints, warns of and logs; and it computes on one core."""

    def others() -> None:
        print("progress")
        logging.critical("progress")

    with silenced():
        print("a private value")
        print("a private value", file=sys.stderr)
        warnings.warn("a private value", stacklevel=1)
        logging.getLogger("an estimator").critical("a private value")
        assert all(pool["num_threads"] == 1 for pool in threadpool_info())
        other = threading.Thread(target=others)
        other.start()
        other.join()
    print("after")
    logging.critical("after")
    assert capsys.readouterr() == ("progress\nafter\n", "")
    assert [record.message for record in caplog.records] == ["progress", "after"]


def test_calm_needs_no_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    kept = os.dup(1)
    os.close(1)
    try:
        with silenced():
            assert capfd is not None
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def test_calm_is_undone_by_the_last_who_leaves() -> None:
    streams, filters = (sys.stdout, sys.stderr), list(warnings.filters)
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with silenced():
            entered.set()
            leave.wait()

    other = threading.Thread(target=stay)
    with silenced():
        other.start()
        entered.wait()
    assert sys.stdout is not streams[0]  # one is still inside
    assert all(pool["num_threads"] == 1 for pool in threadpool_info() if pool["user_api"] == "blas")
    leave.set()
    other.join()
    assert (sys.stdout, sys.stderr) == streams
    assert list(warnings.filters) == filters
