"""The command that hands a student on."""

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.app import HOME, HomeOption, JsonOption, app, print_json
from concord.flows.console import out


@app.command("export")
def export_command(
    session: Annotated[str, typer.Argument(help="A session, or a copy of its published folder.")],
    to: Annotated[Path, typer.Option(help="The folder to write, empty or not there yet.")],
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Write a published student as a folder that scikit-learn alone can use, and as ONNX if its parts are known.

    No vault is needed, and nothing is spent.
    """
    from concord.tasks.publish.export import ONNX, export

    source = Path(session) if Path(session).is_dir() else home / "released" / session
    written = export(source, to)
    if as_json:
        print_json({"folder": str(to), "files": written.files, "without_onnx": written.without_onnx})
        return
    out.print(f"{to}: {', '.join(written.files)}", soft_wrap=True)
    if written.without_onnx:
        out.print(f"no {ONNX}: {written.without_onnx}", soft_wrap=True)
