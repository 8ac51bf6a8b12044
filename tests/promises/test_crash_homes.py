"""The commands of several homes, killed at some points and given again: nothing is drawn, asked or charged twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.ledger.ledger import Ledger
from concord.tasks.verify.verify import verify
from tests.promises.commands import Commands
from tests.promises.crashes import files
from tests.support.several import NAMES, Several, plainly

KILLS = 3
DOMAIN = "people"


def nothing(_: object) -> None:
    """Stands in for a step that these commands do without."""


def several(home: Path) -> Several:
    return Several(home / "world", rows=120)


def answering(home: Path, _: Path) -> None:
    several(home).contribute("north")


def leading(home: Path, _: Path) -> None:
    several(home).lead()


def left(world: Several) -> tuple[dict[str, bytes], Any]:
    """The draws of all homes, and what they are charged."""
    ledgers = {name: Ledger.of(world.home(name)) for name in ("lead", *NAMES)}
    charged = {name: [ledger.total(each.name) for each in ledger.domains()] for name, ledger in ledgers.items()}
    drawn = {path: data for path, data in files(world.folder).items() if path.endswith(".npz")}
    return drawn, charged


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "round_"), [(answering, 0), (leading, 1), (leading, 2)], ids=["answering", "asking", "publishing"]
)
def test_a_killed_command_goes_on(
    command: Callable[[Path, Path], None],
    round_: int,
    tmp_path: Path,
    mlflow_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Round `round_` is asked; before the lead is killed, all have answered what is asked."""
    commands = Commands(command, tmp_path, mlflow_database, {"concord.flows.run.ready_mlflow": nothing})
    with plainly():
        world = several(commands.base)
        for number in range(round_ + 1):
            if command is leading and number == round_:
                break
            world.lead()
            for name in NAMES:
                if command is leading or number < round_:
                    world.contribute(name)
    points = commands.go(commands.home("undisturbed"))
    for at in range(3, len(points), max(1, len(points) // KILLS)):
        home = commands.home(str(at))
        commands.go(home, at)
        drawn, _ = left(several(home))
        commands.go(home)
        after, charged = left(several(home))
        assert drawn.items() <= after.items(), points[at]
        commands.go(home)
        assert left(several(home)) == (after, charged), points[at]
        names = [name.rpartition("-")[0] for name in several(home).files()]
        assert len({*names}) == len(names), points[at]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
        own = "lead" if command is leading else "north"
        assert [check for check in verify(several(home).home(own)) if not check.ok] == [], points[at]
        assert charged == left(several(tmp_path / "undisturbed"))[1], points[at]
