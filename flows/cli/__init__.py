"""The command line's console script, which a signal ends in one sentence from its first moment.

Offers       `main`
Its own      `commands` (the command line; to plan, run and extend); the other commands: `record`;
             `advice` (questions and output of `init` and `plan`), `show` (other output), `app` (what commands
             share: options, start and end; their order in --help)
"""

import gc
import importlib

from concord.flows.ending import watch

YOUNG = 100_000
"""Objects that are made before garbage is looked for. Imports make half a million, none of them garbage: Python's own
700 cost a tenth of a cached run."""


def main() -> None:
    """Run `concord.flows.cli.commands.command` in a process that a signal ends at once."""
    gc.set_threshold(YOUNG)
    watch()
    try:
        importlib.import_module("concord.flows.cli.commands").command()  # a quarter of a second, when Ctrl-C may come
    finally:
        gc.freeze()  # the process ends anyway: a last collection would take up to two seconds
