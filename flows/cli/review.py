"""A reviewer's commands: a dossier before a release, and feature effects."""

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from concord.artifacts.errors import WrongInput, in_one_line
from concord.flows.cli.app import Call, PublishedArgument, StudentArgument, subcommand
from concord.flows.console import out, say

if TYPE_CHECKING:
    from concord.tasks.publish.explain import Importance, Scorecard


def published_folder(subject: str, home: Path) -> Path:
    """The published folder that a session, or a path, names. Raises WrongInput if there is none."""
    from concord.artifacts.home.released import settle
    from concord.artifacts.published import is_published

    with suppress(OSError):  # it cannot be written, and is read as it is
        settle(home)
    for folder in (Path(subject), home / "released" / subject):
        if is_published(folder):
            return folder
    raise WrongInput(f"nothing is published in {subject}, and there is no session of that name in {home}")


@subcommand("dossier")
def dossier_command(
    call: Call,
    session: PublishedArgument,
    out_folder: Annotated[Path, typer.Option("--out", help="The folder to write, empty or not there yet.")],
    test: Annotated[str | None, typer.Option(help="The public test table, to evaluate the student again.")] = None,
    key: Annotated[str | None, typer.Option(help="The public key that must have signed, as for `verify`.")] = None,
) -> None:
    """Write the answers to the questions of a release review, as HTML and JSON.

    The answers follow from the published folder alone, which is verified first. No vault is read, and nothing is
    spent. If a check fails, the dossier names it and answers nothing else, and the exit status is 4.
    """
    from concord.artifacts.home.signing import PublicKey
    from concord.tasks.publish.dossier import dossier, write
    from concord.tasks.verify.folder import PublishedSession
    from concord.tasks.verify.limited import VERIFY_FOLDER, limited

    folder = published_folder(session, call.home)
    certificate = PublishedSession.at(folder).certificate
    checks = limited((VERIFY_FOLDER, (str(folder), test, None if key is None else PublicKey.named(key))))
    content = dossier(certificate, [check.model_dump() for check in checks])
    files = [str(out_folder / name) for name in write(content, out_folder)]
    found = "all checks passed" if content["verified"] else "do not rely on it: " + content["failed"][0]["detail"]
    warnings = (f"warning: {warning}" for warning in content["warnings"])
    details = {"files": files, **{name: content[name] for name in ("verified", "failed", "warnings")}}
    call.end(details, f"{files[0]}: {found}", *warnings, holds=content["verified"])


@subcommand("explain")
def explain_command(
    call: Call,
    session: StudentArgument,
    rows: Annotated[str | None, typer.Option(help="A public table whose columns are shuffled, one by one.")] = None,
) -> None:
    """Show each column's effect on the predictions of a published student.

    A student decoded from tallies is a scorecard. With --rows, permutation importance shuffles each column of public
    rows and, on the labelled test table, reports the loss of accuracy. Nothing is spent.
    """
    from concord.flows.environment import published_by
    from concord.tasks.publish.explain import importance, scorecard
    from concord.tasks.publish.predict import student_of

    published = published_by(session, call.home)
    if rows is not None:
        _check_public(rows, call.home)
    student, spoilt = student_of(published), None
    card = scorecard(student)
    if rows is not None:
        test = published.certificate.student.public_test
        spoilt = importance(student, rows, None if test is None else test.label)
    details = {"scorecard": card and card.record(), "importance": spoilt and asdict(spoilt)}
    call.end(details, lambda _: _show_effects(card, spoilt))


def _show_effects(card: "Scorecard | None", spoilt: "Importance | None") -> None:
    if card is not None:
        begins = ", ".join(map(str, card.base))
        say(f"10 points double the odds of {', '.join(card.classes)}; every row starts with {begins}")
        table = Table("column", "cell", *map(in_one_line, card.classes))
        for name, cells in card.columns.items():
            for at, cell in enumerate(cells):
                words = (in_one_line("" if at else name), in_one_line(cell.cell))
                table.add_row(*map(Text, (*words, *(f"{points:+d}" for points in cell.points))))
        out.print(table)
    if spoilt is not None:
        say(f"permutation importance on {spoilt.rows:,} rows: {spoilt.measure}")
        table = Table("column", "importance", "±")
        for name, (mean, deviation) in spoilt.columns.items():
            table.add_row(Text(in_one_line(name)), f"{mean:.4f}", f"{deviation:.4f}")
        out.print(table)
    if card is None and spoilt is None:
        say("no scorecard: the student is not additive; name public rows with --rows for permutation importance")


def _check_public(rows: str, home: Path) -> None:
    """Raise WrongInput if a session of the home knows one of the files as private."""
    from concord.artifacts.home.atomic import is_home
    from concord.artifacts.home.vault import Vault
    from concord.artifacts.ledger.ledger import Ledger
    from concord.tasks.data.places import check_not_private
    from concord.tasks.data.tables import find_files
    from concord.tasks.door.checkpoint import read_checkpoint

    files = [file.path for file in find_files(rows, "--rows")]
    ledger = Ledger.of(home) if is_home(home) else None
    for session in (each for domain in ledger.domains() for each in ledger.sessions(domain.name)) if ledger else ():
        if checkpoint := read_checkpoint(Vault(home / "vault"), session.id):
            check_not_private("--rows", files, checkpoint.files)
