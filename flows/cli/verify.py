"""An auditor's commands: verify files and ledger, attack a mechanism, and open MLflow."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.flows.cli.app import HOME, Call, HomeOption, PublishedArgument, app, subcommand
from concord.flows.console import err, out, say

if TYPE_CHECKING:
    from concord.artifacts.certificate import AuditReport

AUDITED_FIELDS, AUDITED_CODES = 2, 10
"""The columns of a row, and the total number of their codes or cells, in an attack on tallies or a sketch."""
AUDITED_SEASON = 12
"""Releases, in an attack on a stream."""


@dataclass(frozen=True)
class AuditTerms:
    """What a mechanism is calibrated to, and the attack on it."""

    epsilon: Annotated[float, typer.Option(help="The claimed ε.")]
    delta: Annotated[float, typer.Option(help="The claimed δ.")]
    cutoff: Annotated[int, typer.Option(help="Refusals until it ends, if refusals are charged.")] = 1
    queries: Annotated[int, typer.Option(help="Rows until it ends, if rows are charged.")] = 10
    classes: Annotated[int, typer.Option(help="Classes.")] = 2
    teachers: Annotated[int, typer.Option(help="Votes for each row, if it matters.")] = 250
    trials: Annotated[int, typer.Option(help="Sessions run on each of two neighbours.")] = 100_000
    confidence: Annotated[float, typer.Option(help="Confidence level of the lower bound.")] = 0.99


def audit_calibrated(name: str, terms: AuditTerms) -> "AuditReport":
    """Audit the mechanism `name`, calibrated to these terms. Raises WrongInput if they cannot be met."""
    from concord.tasks.mechanisms.mechanism import calibrate
    from concord.tasks.mechanisms.odds import Attacked
    from concord.tasks.mechanisms.queries import FORMS
    from concord.tasks.mechanisms.sketch import Sketch, sketch_rounds
    from concord.tasks.mechanisms.stable import LEAST_ORDER
    from concord.tasks.mechanisms.stream import Stream
    from concord.tasks.mechanisms.tallies import Tallies, planned_rounds
    from concord.tasks.verify.audit import audit_mechanism

    budget: dict[str, Any] = {"epsilon": terms.epsilon, "delta": terms.delta}
    classes, teachers = terms.classes, terms.teachers
    limits = {"cutoff": terms.cutoff, "queries": terms.queries, "classes": classes, "teachers": teachers}
    rounds = planned_rounds(classes=classes, fields=AUDITED_FIELDS, codes=AUDITED_CODES)
    others: dict[str, Callable[[], Attacked]] = {form.name: partial(form, **budget) for form in FORMS.values()}
    once = planned_rounds(classes=classes, fields=AUDITED_FIELDS, codes=AUDITED_CODES, rounds=1)
    others[Stream.name] = partial(Stream.calibrate, **budget, classes=classes, rounds=once, season=AUDITED_SEASON)
    others[Tallies.name] = partial(Tallies.calibrate, **budget, classes=classes, rounds=rounds)
    steps = sketch_rounds(classes=classes, narrow=[AUDITED_CODES // AUDITED_FIELDS] * AUDITED_FIELDS)
    others[Sketch.name] = partial(Sketch.calibrate, **budget, classes=classes, rounds=steps)
    voting = partial(calibrate, name, **budget, order=LEAST_ORDER, **limits)  # no domain is charged
    mechanism = others.get(name, voting)()
    attack: dict[str, Any] = {"trials": terms.trials, "confidence": terms.confidence}
    with err.status(f"{terms.trials:,} sessions of {name} on each of two neighbours …"):
        return audit_mechanism(mechanism, **budget, **attack, classes=classes, teachers=teachers)


def show_audit(report: "AuditReport") -> None:
    """Print the mechanism attacked, the attack, and the bound it proved."""
    table = Table.grid(padding=(0, 2))
    table.add_row("mechanism", report.mechanism)
    table.add_row("claim", f"ε = {report.epsilon_claimed:g}, δ = {report.delta:g}")
    proved = f"ε ≥ {report.epsilon_lower_bound:.3f} with confidence {report.confidence:g}, {report.trials:,} trials"
    table.add_row("proved", proved if report.epsilon_lower_bound else f"nothing, in {report.trials:,} trials")
    table.add_row("attack", report.attack)
    table.add_row("event", report.event)
    verdict = ("the claim stands", "green") if report.holds else ("the claim is broken", "red")
    table.add_row("verdict", Text(*verdict))
    out.print(table)


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


@subcommand("certify")
def certify_command(
    call: Call,
    session: PublishedArgument,
    kind: Annotated[str, typer.Option("--as", help="registry, cyclonedx or markdown.", metavar="KIND")],
    out_file: Annotated[Path | None, typer.Option("--out", help="The file to write; default: the terminal.")] = None,
) -> None:
    """Write a certificate in another format: registry, inventory or model card.

    The published files are verified first. No vault is needed, and nothing is spent. Missing entries of the plan's
    [about] are listed.
    """
    from concord.flows.environment import published_by
    from concord.tasks.publish.statements import statement

    text, lacking = statement(published_by(session, call.home), kind)
    if out_file:
        if out_file.exists():
            raise WrongInput(f"--out must be a new file, but {out_file} already exists")
        out_file.write_text(text, encoding="utf-8")
    details = {"as": kind, "text": text, "lacking": lacking, "file": str(out_file) if out_file else None}
    call.end(details, *([] if out_file else [lambda _: out.print(text, soft_wrap=True)]))
    if lacking:
        say(f"missing in the plan: {', '.join(lacking)}", to=err)


@subcommand("key")
def key_command(call: Call) -> None:
    """Print the public key that verifies the home's signatures, for readers to keep."""
    from concord.artifacts.home.atomic import is_home
    from concord.artifacts.home.signing import SigningKey
    from concord.artifacts.home.vault import Vault
    from concord.flows.environment import prepare

    if not is_home(call.home):
        say(f"created a new home folder with its own key: {call.home.absolute()}", to=err)
    key = SigningKey.of(Vault(prepare(call.home) / "vault")).public
    details = {"key": key.raw.hex(), "fingerprint": key.fingerprint, "pem": key.pem.decode()}
    shown = "{pem}key          {key}\nfingerprint  {fingerprint}".format(**details)
    call.end(details, lambda _: out.print(shown, soft_wrap=True))


@subcommand("audit")
def audit_command(
    call: Call,
    mechanism: Annotated[str, typer.Argument(help="stable, noisy_votes, tallies, sketch, stream, optimal_release, …")],
    terms: AuditTerms,
) -> None:
    """Attack a mechanism as it runs, and report a lower bound on its ε.

    MLflow keeps the report. The exit status is 4 if the bound exceeds the claimed ε.
    """
    from concord.flows.environment import prepare

    home = prepare(call.home)
    from concord.artifacts.mlflow.write import Tracking

    report = audit_calibrated(mechanism, terms)
    run_id = Tracking.of(home).keep_audit(report)
    call.end({**report.model_dump(), "run_id": run_id}, lambda _: show_audit(report), holds=report.holds)


@app.command("ui")
def ui_command(
    domain: Annotated[str | None, typer.Argument(help="Default: the domain published last.")] = None,
    home: HomeOption = HOME,
    port: Annotated[int, typer.Option(help="Port on loopback.")] = 5000,
) -> None:
    """Open the audit view: MLflow's list of a domain's runs, on this machine only.

    The list shows ε, δ, the lifetime budget used, and accuracy or RMSE with its interval. The command prints the link;
    with a tracking server of your own, that server's link. MLflow's gateway and assistant, which would send text
    elsewhere, are switched off: the page of prompts is empty, and the assistant's button does nothing.
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
