"""Shared parts of all commands: the application, its options, its examples and its output.

Each command ends its `--help` with the examples below. Checked by tests/flows/cli/test_help.py.
"""

import codecs
import io
import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from concord.artifacts.errors import GONE, WrongInput, in_json, in_lines
from concord.artifacts.process import our_settings, variables
from concord.flows.console import asking, err, hushed, out, say
from concord.flows.ending import may_charge

if TYPE_CHECKING:
    from concord.artifacts.plan import Plan
    from concord.flows.outcome import Summary

Body = TypeVar("Body", bound=Callable[..., None])
PANELS: dict[str, dict[str, tuple[str, ...]]] = {
    "Learn": {
        "run": (
            "concord run plan.toml",
            "concord run plan.toml --from study",
            "concord run plan.toml --json > run.json",
        ),
        "demo": ("concord demo --home /tmp/try",),
        "init": ("concord init --private in.csv --public out.csv --label ill --classes no,yes --domain w --rows 9000",),
        "plan": (
            "concord plan plan.toml",
            "concord plan plan.toml --json",
        ),
        "estimate": ("concord estimate plan.toml --epsilon 0.2",),
        "extend": ("concord extend census-1751dd7e --public arriving/",),
    },
    "Streams": {
        "refresh": ("concord refresh plan.toml",),
    },
    "After release": {
        "predict": (
            "concord predict census-1751dd7e more.csv --out classes.parquet",
            "concord predict models:/census-student@champion more.parquet --out classes.csv",
            "concord predict census-1751dd7e more.csv --id person --threshold ill=0.1 --out found.csv",
        ),
        "export": ("concord export census-1751dd7e --to classifier",),
    },
    "Budget": {
        "budget": ("concord budget", "concord budget --json"),
        "domain": ('concord domain census --epsilon 8 --delta 8e-5 --reason "the board, 3 May"',),
        "close": ("concord close census-1751dd7e", "concord close census-1751dd7e --whole"),
    },
    "Evidence": {
        "verify": (
            "concord verify",
            "concord verify census-1751dd7e --json",
            "concord verify copied/census-1751dd7e --key publisher.pem",
            "concord verify --kept copied/census-1751dd7e",
        ),
        "key": ("concord key > publisher.pem", "concord key --json"),
        "ui": ("concord ui --port 8080",),
    },
    "Upkeep": {
        "restore": ('concord restore --reason "disk failed, copy of Sunday"',),
        "forget": ("concord forget census-1751dd7e",),
        "erase": ("concord erase --domain census --unit P000123",),
    },
}
"""The panels of --help, with the commands of each and their examples, in the order in which they are shown."""


class Commands(TyperGroup):
    """The command group, in the order of PANELS; each command's help ends with its examples."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        for panel, examples in PANELS.items():
            for name in examples:
                command: Any = self.commands[name]
                command.rich_help_panel = panel
                command.epilog = "\n".join(("Examples:", *map(escape, examples[name])))
                for described in (command, *command.params):
                    # For Rich, each paragraph is one line, and words in brackets, such as [stream], are not markup.
                    paragraphs = (described.help or "").split("\n\n")
                    described.help = escape("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name. Raises WrongInput with the alternative if it is gone."""
        if alternative := GONE.get(f"concord {cmd_name}"):
            raise WrongInput(f"`concord {cmd_name}` is no longer a command: {alternative}")
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names of the commands, in the order of PANELS."""
        return [name for examples in PANELS.values() for name in examples]


app = typer.Typer(
    cls=Commands,
    epilog="Example: concord run deployments/plans/demo.toml, then concord verify and concord ui.",
    no_args_is_help=True,
    rich_markup_mode="rich",  # Markdown would put each example, default and variable on lines of their own
    pretty_exceptions_enable=False,
)
HomeOption = Annotated[
    Path,
    typer.Option(
        "--home",
        readable=False,  # a home that is not is the machine's failure, with another exit status
        envvar="CONCORD_HOME",
        help="Home; default: CONCORD_HOME, or .concord.",
        show_envvar=False,
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the certificate's path and nothing else.")]
YesOption = Annotated[
    bool,
    typer.Option(
        "--yes",
        "-y",
        help="Continue without asking, even if many private rows hold values unknown to the plan.",
    ),
]
PublishedArgument = Annotated[str, typer.Argument(help="A session, or a copy of its published folder.")]
StudentArgument = Annotated[
    str, typer.Argument(help="A session, a copy of its published folder, or models:/NAME@ALIAS.")
]
ReasonOption = Annotated[str, typer.Option(help="The reason; kept on the record.")]
HOME = Path(".concord")
PLAIN = {"ε": "epsilon", "δ": "delta", "α": "alpha", "β": "beta", "✓": "ok", "…": "...", "−": "-", "×": "x", "→": "->"}
"""ASCII for letters of our own texts; any other letter loses its accents, or becomes a question mark."""


def _version(wanted: bool) -> None:
    if wanted:
        from concord import __version__

        out.print(f"concord {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    home: Annotated[
        Path | None,
        typer.Option("--home", readable=False, help="The home folder; --home after a command takes precedence."),
    ] = None,
) -> None:
    """Publish a model of sensitive labelled data with a differential privacy guarantee that anyone can verify."""
    context.with_resource(our_settings())
    if home is not None:
        os.environ["CONCORD_HOME"] = str(home)


@dataclass(frozen=True)
class Call:
    """Options that commands share, and the start and end that commands have in common."""

    home: HomeOption = HOME
    as_json: JsonOption = False
    quiet: bool = field(default=False, init=False)

    @contextmanager
    def starting(self) -> Iterator[Callable[[str], None]]:
        """Show at a terminal what the command waits for before it begins, and for how long; yields a setter of the
        text."""
        columns = (SpinnerColumn(), TextColumn("starting: {task.description}"), TimeElapsedColumn())
        with Bars(*columns, console=err, transient=True, disable=self.quiet or not err.is_terminal) as bars:
            bar = bars.add_task("packages are loaded")
            yield lambda what: bars.update(bar, description=what)

    @contextmanager
    def engine(self, home: Path, plan: "Plan | None" = None, *, ask: bool = False) -> Iterator[None]:
        """Flows run within the context, of a `plan` whose tables are there. If `ask`, the operator may be asked
        questions within it."""
        from concord.flows.server import engine

        may_charge.set()
        with ExitStack() as stack:
            with self.starting() as wait_for:
                if "PREFECT_HOME" not in os.environ:  # Prefect is imported as if nobody had configured it
                    stack.enter_context(variables({"PREFECT_HOME": str(home / "prefect")}))
                stack.enter_context(engine(home, plan, wait_for))
            with hushed(self.quiet), asking(ask):
                yield

    @contextmanager
    def with_plan(self, path: Path, *, yes: bool) -> Iterator[tuple["Plan", Path]]:
        """The plan, whose tables are there, and the home, with its server within the context. The operator may be asked
        questions, unless `yes`."""
        with self.starting():
            from concord.artifacts.plan import load_plan
            from concord.flows.home import prepare

            plan, home = load_plan(path), prepare(self.home)
        with self.engine(home, plan, ask=not yes):
            yield plan, home

    def end(self, details: dict[str, Any], *shown: str | Callable[[dict[str, Any]], Any], status: int = 0) -> None:
        """Print the result as JSON, or show it to readers, and end with that exit status.

        shown   sentences, or functions that print the result
        """
        if self.as_json:
            print_json(details)
        else:
            for part in shown:
                say(part) if isinstance(part, str) else part(details)
        if status:
            raise typer.Exit(status)


@dataclass(frozen=True)
class QuietCall(Call):
    """As `Call`, of a command that ends with a run's summary."""

    quiet: QuietOption = False

    def report(self, summary: "Summary", home: Path) -> None:
        """Print the summary, or show it to readers."""
        from concord.flows.cli.show import show

        self.end(summary.model_dump(mode="json"), lambda _: show(summary, home, quiet=self.quiet))


def subcommand(name: str) -> Callable[[Body], Body]:
    """Decorate a function as a command.

    Its first parameter is the Call, whose options come last. Any other that is a dataclass stands for its fields.
    """

    def add(body: Body) -> Body:
        call, *others = signature(body).parameters.values()
        kinds: dict[str, Any] = {
            parameter.name: parameter.annotation for parameter in (call, *others) if is_dataclass(parameter.annotation)
        }
        parts = {name: signature(kind).parameters for name, kind in kinds.items()}
        options = chain(
            *(parts.get(parameter.name, {parameter.name: parameter}).values() for parameter in (*others, call))
        )

        @wraps(body)
        def run(**given: Any) -> None:
            whole = {at: kinds[at](**{name: given.pop(name) for name in names}) for at, names in parts.items()}
            body(**whole, **given)

        vars(run)["__signature__"] = Signature(
            [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in options]
        )
        app.command(name)(run)
        return body

    return add


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output, which holds nothing else."""
    text = in_json(value)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)  # as exact, and all ASCII
    sys.stdout.write(text + "\n")


def speak_plainly() -> None:
    """Replace letters that the terminal or file cannot encode by plain ones, so that the output never fails; and print
    the words of a traceback, which may be a stranger's, as lines of ours are."""

    def plain(failed: UnicodeError) -> tuple[str, int]:
        if not isinstance(failed, UnicodeEncodeError):
            raise failed
        plainly = []
        for letter in failed.object[failed.start : failed.end]:
            without_accents = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
            plainly.append(PLAIN.get(letter) or without_accents or "?")
        return "".join(plainly), failed.end

    sys.excepthook = lambda *raised: print(in_lines("".join(format_exception(*raised))), file=sys.stderr)
    codecs.register_error("concord.plain", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="concord.plain")
