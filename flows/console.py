"""What all commands share: the application, its options, and how it speaks."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flows.examples import WithExamples

app = typer.Typer(
    cls=WithExamples,
    help="Publish a classifier learned from sensitive labelled data, with a guarantee an auditor can check.",
    epilog="Example: concord run deployments/plans/demo.toml, then concord verify and concord ui.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
HomeOption = Annotated[Path, typer.Option("--home", envvar="CONCORD_HOME", help="Where everything is kept.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the certificate's path and nothing else.")]
HOME = Path(".concord")
out = Console(highlight=False)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output, which holds nothing else."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
