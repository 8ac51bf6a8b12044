"""A reviewer's commands: what to know before a model leaves."""

from pathlib import Path
from typing import Annotated

import typer

from concord.artifacts.errors import WrongInput
from concord.flows.cli.app import HOME, HomeOption, JsonOption, app, print_json
from concord.flows.console import say


def published_folder(subject: str, home: Path) -> Path:
    """The published folder that a session, or a path, names. Raises WrongInput if there is none."""
    from concord.tasks.verify.published import is_published

    for folder in (Path(subject), home / "released" / subject):
        if is_published(folder):
            return folder
    raise WrongInput(f"nothing is published in {subject}, and there is no session of that name in {home}")


@app.command("dossier")
def dossier_command(
    session: Annotated[str, typer.Argument(help="A session, or a copy of its published folder.")],
    out_folder: Annotated[Path, typer.Option("--out", help="The folder to write, empty or not there yet.")],
    test: Annotated[str | None, typer.Option(help="The public test table, to count on it again.")] = None,
    key: Annotated[str | None, typer.Option(help="The public key that must have signed, as for `verify`.")] = None,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Write what reviewers ask before a model leaves, with answers from what was published, as HTML and JSON.

    The published folder is verified first, by itself: no vault is read, and nothing is spent. If a check fails, the
    first page says which, no other answer is given, and the exit status is 4.
    """
    from concord.artifacts.home.signing import PublicKey
    from concord.tasks.publish.dossier import dossier, write
    from concord.tasks.verify.folder import PublishedSession
    from concord.tasks.verify.published import verify_published

    folder = published_folder(session, home)
    certificate = PublishedSession.at(folder).certificate
    checks = verify_published(folder, test, None if key is None else PublicKey.named(key))
    content = dossier(certificate, [check.model_dump() for check in checks])
    files = [str(out_folder / name) for name in write(content, out_folder)]
    if as_json:
        print_json({"files": files, **{name: content[name] for name in ("verified", "failed", "warnings")}})
    else:
        found = "all checks hold" if content["verified"] else "do not rely on it: " + content["failed"][0]["detail"]
        say(f"{files[0]}: {found}")
        for warning in content["warnings"]:
            say(f"warning: {warning}")
    if not content["verified"]:
        raise typer.Exit(4)
