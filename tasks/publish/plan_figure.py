"""The figure of a plan: the expected result of each mechanism, and of other numbers of teachers and other ε; or the
private units that a chosen student takes.

Checked by tests/flows/cli/test_plan_command.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.tasks.advice.compare import Option
from concord.tasks.advice.expect import AtEpsilon, AtTeachers, ChosenStudent, Premises
from concord.tasks.publish.figures import BLUE, GREY, ORANGE, STYLE

if TYPE_CHECKING:  # most plans draw nothing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_plan_figure(
    path: Path, options: Sequence[Option], other: Sequence[AtEpsilon], teachers: Sequence[AtTeachers], asked: Premises
) -> None:
    """Draw the planned options, one of them at `other` ε, and the best voting mechanism by number of teachers, into the
    file `path`.

    The suffix decides the format. Raises WrongInput for an unknown format, EnvironmentFailed if the file cannot be
    written.
    """
    with _drawn(path, width=15) as figure:
        left, middle, right = figure.subplots(1, 3)
        stream = asked.stream
        _draw_rows(left, options, asked.queries)
        _draw_teachers(middle, teachers, asked)
        _draw_epsilon(right, other, asked)
        if asked.subset is not None:
            share = f"rows relabelled, teachers learn from {asked.subset['share']:.1%} of the private rows"
            figure.suptitle(f"{share}; mechanisms at ε = {stream.epsilon:.4g}, δ = {stream.delta:.4g}", fontsize=10)


def write_choice_figure(path: Path, choice: ChosenStudent) -> None:
    """Draw the private units that a chosen student takes, and write the figure to `path`. Raises as above."""
    with _drawn(path, width=7.5) as figure:
        axes = figure.add_subplot()
        for excess, units in sorted(choice.private_units.items()):
            axes.plot([*units], [*units.values()], marker="o", markersize=3, label=f"{excess:.1%} of rows more")
        axes.axvline(choice.epsilon, color=GREY, linestyle="--", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([*units], [f"{epsilon:g}" for epsilon in units])
        axes.minorticks_off()
        axes.set_xlabel(f"ε of the choice among {choice.candidates:,} {choice.hypotheses}")
        axes.set_ylabel("private units it takes")
        axes.legend(title="wrong about at most", fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


@contextmanager
def _drawn(path: Path, width: float) -> Iterator[Figure]:
    """Context with a figure to draw on, which is written to `path` at the end."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(width, 4), layout="constrained")
        yield figure
        known = figure.canvas.get_supported_filetypes()
        if path.suffix.removeprefix(".") not in known:
            raise WrongInput(f"figure must end in one of .{', .'.join(sorted(known))}, got {path.name!r}")
        try:
            figure.savefig(path)
        except OSError as failed:
            raise EnvironmentFailed(f"the figure {path} cannot be written: {failed.strerror}") from None


def _draw_rows(axes: Axes, options: Sequence[Option], queries: int) -> None:
    """Bars of the public rows: those with the teachers' label, with another label, and without one."""
    from matplotlib.ticker import PercentFormatter

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
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel(f"of {queries:,} public rows")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3, fontsize=8)
    axes.set_title("What each is expected to answer", fontsize=10)


def _draw_teachers(axes: Axes, other: Sequence[AtTeachers], asked: Premises) -> None:
    """Number of labels without noise worth as much, by the number of teachers."""
    teachers = [item.teachers for item in other]
    axes.plot(
        teachers, [item.worth for item in other], color=BLUE, marker="o", markersize=3, label="the best that votes"
    )
    for item in other:
        axes.annotate(
            item.name or "none fits", (item.teachers, max(1, item.worth)), fontsize=7, ha="center", va="bottom"
        )
    axes.axvline(asked.teachers, color=GREY, linestyle="--", linewidth=1)
    _scale(axes, asked.queries)
    axes.set_xticks(teachers, [f"{count:,}" for count in teachers])
    axes.set_xlabel("teachers")
    axes.set_ylabel("worth, in labels without noise")
    axes.set_title("Were there other teachers", fontsize=10)


def _draw_epsilon(axes: Axes, other: Sequence[AtEpsilon], asked: Premises) -> None:
    """Rows that one mechanism answers, and the labels they are worth, by the ε of the plan."""
    epsilons = [item.epsilon for item in other]
    answered, worth = ([getattr(item.option, of) for item in other] for of in ("expected_answered", "worth"))
    axes.plot(epsilons, answered, color=BLUE, marker="o", markersize=3, label="rows answered")
    axes.plot(epsilons, worth, "--", color=ORANGE, marker="o", markersize=3, label="worth, in labels without noise")
    axes.axvline(asked.epsilon, color=GREY, linestyle="--", linewidth=1)
    _scale(axes, asked.queries)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xlabel(f"ε of the plan, by {other[0].option.name}")
    axes.set_ylabel("public rows")
    axes.set_title(f"Were ε another: {other[0].option.name}", fontsize=10)


def _scale(axes: Axes, queries: int) -> None:
    """Make both axes logarithmic, up to all rows, and add a legend."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(1, queries * 1.3)
    axes.minorticks_off()
    axes.legend(fontsize=8)
