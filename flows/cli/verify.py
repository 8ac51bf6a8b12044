"""An auditor's commands: verify files and ledger, and open MLflow."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from concord.artifacts.errors import EnvironmentFailed
from concord.flows.cli.app import HOME, Call, HomeOption, app, subcommand
from concord.flows.console import err, out, say

if TYPE_CHECKING:
    pass


MARKS = {(True, False): ("ok  ", "green"), (True, True): ("warn", "yellow"), (False, False): ("FAIL", "red")}
"""The mark before a check and its style, by whether it holds and whether it warns."""


@subcommand("verify")
def verify_command(
    call: Call,
    subject: Annotated[
        str | None, typer.Argument(help="A session, an MLflow run, or a published folder; default: everything.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="The public test table, if it was moved.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="The public key that must have signed, or its fingerprint: a file, or hex digits."),
    ] = None,
    kept: Annotated[
        Path | None,
        typer.Option(help="A published folder that you kept, which the ledger or a later folder must not contradict."),
    ] = None,
) -> None:
    """Check the ledger, released files, model, MLflow's figures and the guarantee itself.

    A published folder, or its certificate, can be checked without a home folder.
    """
    from concord.flows.results import checks_of

    checks = [check.model_dump() for check in checks_of(subject, call.home, test, key, kept)]
    ok, warnings = all(check["ok"] for check in checks), [check for check in checks if check["warning"]]
    call.end({"ok": ok, "warnings": warnings, "checks": checks}, show_checks, holds=ok)


def show_checks(details: dict[str, Any]) -> None:
    """Print each check, after a mark of how it ended."""
    for check in details["checks"]:
        mark, style = MARKS[check["ok"], check["warning"]]
        say(f" {check['name']}: {check['detail']}", mark=mark, style=style)


@subcommand("key")
def key_command(call: Call) -> None:
    """Print the public key that verifies the home's signatures, for readers to keep."""
    from concord.artifacts.home.atomic import is_home
    from concord.artifacts.home.signing import SigningKey
    from concord.flows.environment import prepare

    if not is_home(call.home):
        say(f"created a new home folder with its own key: {call.home.absolute()}", to=err)
    key = SigningKey.of(prepare(call.home)).public
    details = {"key": key.raw.hex(), "fingerprint": key.fingerprint, "pem": key.pem.decode()}
    shown = "{pem}key          {key}\nfingerprint  {fingerprint}".format(**details)
    call.end(details, lambda _: out.print(shown, soft_wrap=True))


@app.command("ui")
def ui_command(
    domain: Annotated[str | None, typer.Argument(help="Default: the domain published last.")] = None,
    home: HomeOption = HOME,
    port: Annotated[int, typer.Option(help="Port on loopback.")] = 5000,
) -> None:
    """Open the audit view: MLflow's list of a domain's runs, on this machine only.

    The command prints the link; with a tracking server of your own, that server's link. MLflow's gateway and
    assistant, which would send text elsewhere, are switched off: the page of prompts is empty, and the assistant's
    button does nothing.
    """
    from concord.artifacts.settings import Settings
    from concord.flows.environment import reopen
    from concord.flows.server import Page

    home = reopen(home)
    tracked = Settings.now().store_of(home)
    from concord.artifacts.mlflow.read import Records

    runs = Records.of(home).page(domain)
    if tracked.startswith("http"):
        say(f"audit view: {tracked.rstrip('/')}/{runs} (the MLflow server that MLFLOW_TRACKING_URI names)")
        return
    page = Page(home, port, runs)
    say(f"audit view: {page.address} (this address is for you alone; end with Ctrl-C)")
    page.wait()
    raise EnvironmentFailed(page.ended)
