"""The command line. Heavy packages are imported inside the commands, so that --help is instant.

Offers       `main`, and `app` with every command: a file adds its own as it is imported, in the order in which --help
             shows them
Its own      `learn`, `record` and `verify` (the commands), `plan` and `init` (what two of them do), `show`
             (what is printed), `app` (what all share)
"""

import gc
import sys

from concord.artifacts.errors import ConcordError, EnvironmentFailed
from concord.flows.cli import learn, record, verify
from concord.flows.cli.app import app, speak_plainly
from concord.flows.console import NOTHING_LOST, watch

__all__ = ["app", "learn", "main", "record", "verify"]
"""`app` with every command: a module adds its own as it is imported, in the order in which --help shows them."""

INTERRUPTED = 130
"""The exit status of what Ctrl-C ended, by the shell's rule: 128 and the signal's number."""

YOUNG = 100_000
"""Objects that are made before garbage is looked for. Imports make half a million, none of them garbage: Python's own
700 cost a tenth of a cached run."""


def main() -> None:
    """The console script: `command`, in a process of its own, which a signal ends at once."""
    gc.set_threshold(YOUNG)
    watch()
    command()


def command() -> None:
    """The command line: a ConcordError becomes one sentence on stderr and its exit status, as a full disk does."""
    speak_plainly()
    try:
        app()
    except ConcordError as error:
        sys.stderr.write(f"concord: {error}\n")
        sys.exit(error.exit_status)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            sys.stderr.write(f"concord: interrupted; {NOTHING_LOST}\n")
        raise
    except OSError as failed:
        sys.stderr.write(f"concord: the machine refused: {failed}\n")
        sys.exit(EnvironmentFailed.exit_status)
