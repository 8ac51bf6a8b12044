"""The command line. Heavy packages are imported inside the commands, so that --help is instant."""

import sys

from artifacts.errors import ConcordError, EnvironmentFailed
from flows import commands_learn, commands_record, commands_verify
from flows.console import app, speak_plainly
from flows.leaving import KEPT, watch

__all__ = ["app", "commands_learn", "commands_record", "commands_verify", "main"]
"""`app` with every command: a module adds its own as it is imported, in the order in which --help shows them."""

INTERRUPTED = 130
"""The exit status of what Ctrl-C ended, by the shell's rule: 128 and the signal's number."""


def main() -> None:
    """The console script: `command`, in a process of its own, which a signal ends at once."""
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
            sys.stderr.write(f"concord: interrupted; {KEPT}\n")
        raise
    except OSError as failed:
        sys.stderr.write(f"concord: the machine refused: {failed}\n")
        sys.exit(EnvironmentFailed.exit_status)
