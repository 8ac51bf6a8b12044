"""The command line, run in the tests' own process."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from tests.world import command


class Terminal(io.StringIO):
    """Answers as somebody types them."""

    def isatty(self) -> bool:
        return True


def concord(*arguments: str, stdin: io.StringIO | None = None) -> tuple[int, str, str]:
    """Exit status, standard output, and the last line of standard error."""
    status, shown, errors = heard(*arguments, stdin=stdin)
    return status, shown, (errors.strip().splitlines() or [""])[-1]


def heard(*arguments: str, stdin: io.StringIO | None = None) -> tuple[int, str, str]:
    """Exit status, standard output and standard error.

    Strings, not pytest's capture: Prefect's logging keeps the stream it first saw, which must not be closed.
    """
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["concord", *arguments])
        patch.setattr(sys, "stdin", stdin or io.StringIO())
        with pytest.raises(SystemExit) as end:
            command()
    status = end.value.code if isinstance(end.value.code, int) else 0
    return status, out.getvalue(), err.getvalue()
