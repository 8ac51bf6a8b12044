"""What each command looks like in use: the examples that `--help` ends with. Checked by tests/flows/test_help.py."""

from typing import Any

from typer.core import TyperGroup

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": ("concord run plan.toml", "concord run plan.toml --from study", "concord run plan.toml --json > run.json"),
    "extend": ("concord extend census-1751dd7e --public arriving/",),
    "demo": ("concord demo --home /tmp/try",),
    "init": (
        "concord init",
        "concord init --private stays.csv --public open.csv --label outcome --classes no,yes --domain ward --rows 9000",
    ),
    "plan": (
        "concord plan plan.toml --figure plan.svg",
        "concord plan --epsilon 1 --delta 1e-6 --teachers 1000 --queries 18000 --classes 2 --agreement 0.998",
    ),
    "budget": ("concord budget", "concord budget --json"),
    "domain": ('concord domain census --epsilon 8 --delta 8e-5 --reason "the board, 3 May"',),
    "link": ('concord link census survey --reason "the survey drew from the census"',),
    "restore": ('concord restore --reason "disk failed, copy of Sunday"',),
    "close": ("concord close census-1751dd7e", "concord close census-1751dd7e --whole"),
    "forget": ("concord forget census-1751dd7e",),
    "verify": ("concord verify", "concord verify census-1751dd7e --json"),
    "audit": ("concord audit stable --epsilon 1 --delta 1e-6 --cutoff 10 --trials 1000000",),
    "ui": ("concord ui --port 8080",),
    "estimate": ("concord estimate plan.toml --epsilon 0.2",),
    "erase": ("concord erase --domain census --unit P000123",),
    "serve": ('concord serve census --public arriving/ --cron "0 3 * * *" --timezone Europe/Berlin',),
}


class WithExamples(TyperGroup):
    """The commands, each ending its help with its examples."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, if there is one."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and cmd_name in EXAMPLES:
            command.epilog = "\n\n".join(("Examples:", *EXAMPLES[cmd_name]))
        return command
