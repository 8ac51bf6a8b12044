"""The figure of a plan: what each mechanism is expected to do, and what more or fewer teachers would change.

Checked by tests/test_plan_command.py.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from artifacts.errors import EnvironmentFailed, WrongInput
from tasks.figures import BLUE, GREY, ORANGE, STYLE
from tasks.mechanisms.planning import Option, plan_mechanisms

RATIOS = (0.25, 0.5, 1, 2, 4)
"""Ensembles that are compared, as multiples of the one that is planned."""


def write_plan_figure(path: Path, options: Sequence[Option], asked: dict[str, Any]) -> None:
    """Draw the options and write them to `path`, in the format of its suffix; `asked` is what they were planned for.

    Raises WrongInput where no such format is known, EnvironmentFailed where the file cannot be written.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_rows(left, options, asked["queries"])
        _draw_teachers(right, options, asked)
        known = figure.canvas.get_supported_filetypes()
        if path.suffix.removeprefix(".") not in known:
            raise WrongInput(f"figure must end in one of .{', .'.join(sorted(known))}, got {path.name!r}")
        try:
            figure.savefig(path)
        except OSError as failed:
            raise EnvironmentFailed(f"the figure {path} cannot be written: {failed.strerror}") from None


def _draw_rows(axes: Axes, options: Sequence[Option], queries: int) -> None:
    """Of the public rows: those with the teachers' label, those with another, and those without."""
    places = range(len(options))
    right = [option.expected_right / queries for option in options]
    answered = [option.expected_answered / queries for option in options]
    axes.barh(places, [1.0] * len(options), color=GREY, alpha=0.3, label="no label")
    axes.barh(places, answered, color=ORANGE, label="label changed by noise")
    axes.barh(places, right, color=BLUE, label="label most teachers gave")
    names = [option.name if option.cutoff is None else f"{option.name}, T = {option.cutoff:,}" for option in options]
    axes.set_yticks(places, names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=0))
    axes.set_xlabel(f"of {queries:,} public rows")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=3, fontsize=8)


def _draw_teachers(axes: Axes, options: Sequence[Option], asked: dict[str, Any]) -> None:
    """Labels without noise that would teach as much, by the number of teachers."""
    teachers = sorted({max(1, round(asked["teachers"] * ratio)) for ratio in RATIOS})
    plans = [plan_mechanisms(**{**asked, "teachers": count}) for count in teachers]
    worth = [{option.name: option.worth for option in plan} for plan in plans]
    for option in options:
        axes.plot(teachers, [one[option.name] for one in worth], marker="o", markersize=3, label=option.name)
    axes.axvline(asked["teachers"], color=GREY, linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(1, asked["queries"] * 1.3)
    axes.set_xticks(teachers, [f"{count:,}" for count in teachers])
    axes.minorticks_off()
    axes.set_xlabel("teachers")
    axes.set_ylabel("worth, in labels without noise")
    axes.legend(fontsize=8)
