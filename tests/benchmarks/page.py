"""The page and the figure of the benchmark of the field, made of what was measured and of nothing else.

    python -m tests.benchmarks.page        (make bench-accuracy runs it last)

Writes the tables of tests/benchmarks/README.md between its marks, the short one of README.md, and accuracy.svg.
A figure that was not measured has no way into them. Checked by tests/benchmarks/test_pages_of_figures.py.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from tests.benchmarks.accuracy import EPSILONS, METHODS, OF_VIEWS, RESULTS, read
from tests.benchmarks.advised import ADVISED, record
from tests.benchmarks.ours import OURS
from tests.benchmarks.tables import DECLARED
from tests.benchmarks.views import by_view
from tests.benchmarks.without_privacy import OPEN
from tests.support.markdown import between, table

PAGE, README = RESULTS.parent / "README.md", RESULTS.parents[2] / "README.md"
FIGURE, SMALL = RESULTS.parent / "accuracy.svg", RESULTS.parent / "small.svg"
SIZES = {"adult-500": 500, "adult-2000": 2_000, "adult-8000": 8_000, "adult": 32_561}
"""Private rows by case, of Adult."""
OF_FIGURES = "<!-- measured by make bench-accuracy -->", "<!-- end of what was measured -->"
OF_ADVICE = "<!-- stated by tests.benchmarks.advised -->", "<!-- end of what was stated -->"
NAMES = {
    "dp_ebm": "DP-EBM (interpret)",
    "dp_logistic": "DP logistic regression (diffprivlib)",
    "dp_sgd": "DP-SGD, logistic regression (Opacus)",
    "dp_sgd_best": "DP-SGD, its best learning rate in hindsight",
    "mst": "synthetic rows by MST (dpmm)",
    "aim": "synthetic rows by AIM (dpmm)",
    "largest": "no model: the largest class",
    "public_labels": "no private row: public rows with labels",
    "linear": "no privacy: logistic regression",
    "boosted": "no privacy: boosted trees",
}
SHORT = ("tallies", "dp_sgd", "dp_ebm")
"""The rows of the README's table, of Adult."""
HEADING = "Adult, accuracy in percent"
MEASURES = {
    "accuracy": "Accuracy",
    "balanced": "Balanced accuracy",
    "odds_balanced": "Balanced accuracy at the prior odds",
    "auc": "AUC",
    "calibration": "Expected calibration error",
    "log_loss": "Log loss",
}
IN_NATS = ("log_loss",)
"""Measures that are no percentages."""
OTHERS = [measure for measure in MEASURES if measure != "accuracy"]
"""What is folded."""
Lines = Sequence[dict[str, Any]]
AIMS: Mapping[tuple[str, str], Mapping[float, float]] = {
    ("adult", "accuracy"): {0.1: 85.5, 0.5: 86.2, 1.0: 86.7, 2.0: 86.9},
    ("adult-women", "accuracy"): {1.0: 82.0},
    ("mnist", "accuracy"): {0.1: 97.7, 0.5: 98.1, 1.0: 98.2},
    ("kdd99", "accuracy"): {0.1: 99.3, 0.5: 99.5, 1.0: 99.6},
    ("penbased-vector", "accuracy"): {1.0: 91.8},
    ("satimage-vector", "accuracy"): {1.0: 84.0},
    ("optdigits-vector", "accuracy"): {1.0: 92.1},
    ("rare", "odds_balanced"): {0.1: -14.0, 0.5: -5.0, 1.0: -2.0, 2.0: -1.0},
    ("adult-schema", "accuracy"): {0.1: 84.0, 0.5: 85.5, 1.0: 85.7, 2.0: 86.1},
    ("adult-hashed-schema", "accuracy"): {1.0: 85.3},
    ("adult-2000-schema", "accuracy"): {1.0: 82.5},
    ("adult-500-schema", "accuracy"): {1.0: 80.0},
    ("magic-schema", "accuracy"): {1.0: 84.0},
    ("kdd99-unique-schema", "accuracy"): {1.0: 99.2},
    ("nursery-schema", "accuracy"): {1.0: 90.5},
    ("penbased-schema", "accuracy"): {1.0: 88.0},
}
"""What was aimed at with tallies or a sketch, in percent; below 0: points below logistic regression without privacy."""


def cell(found: Lines, measure: str) -> str:
    """Mean and standard deviation over runs; why there is none; or nothing, if it was not measured."""
    values = _values(found, measure)
    if not values:
        return found[0].get("why", "") if found else ""
    digits = 3 if measure in IN_NATS else 1
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def of(lines: Lines, case: str, method: str, epsilon: float) -> Lines:
    """Those of a case, a method and an ε: what has no guarantee is the same at every ε."""
    mine = [line for line in lines if line["case"] == case and line["method"] == method]
    return [line for line in mine if line["epsilon"] in (epsilon, None)]


Rows = Iterator[tuple[str, ...]]
BY_EPSILON = tuple(f"ε = {epsilon:g}" for epsilon in EPSILONS)


def named(method: str) -> str:
    """As pages call it."""
    return f"`{method}`" if method in OURS else NAMES[method]


def by_method(lines: Lines, case: str, measure: str, methods: Iterable[str] = METHODS, heading: str = "") -> Rows:
    """A row a method, a column an ε, below the first cell of the heading."""
    yield heading, *BY_EPSILON
    for method in methods:
        cells = [cell(of(lines, case, method, epsilon), measure) for epsilon in EPSILONS]
        if any(cells):
            yield f"**{named(method)}**" if method in OURS else named(method), *cells


def at_one(lines: Lines, cases: Iterable[str], measure: str) -> Rows:
    """A row a case, a column a method, at ε = 1."""
    rows = {case: [cell(of(lines, case, method, 1.0), measure) for method in METHODS] for case in cases}
    asked = [at for at in range(len(METHODS)) if any(cells[at] for cells in rows.values())]
    yield "", *(named(METHODS[at]) for at in asked)
    yield from ((case, *(cells[at] for at in asked)) for case, cells in rows.items())


def by_epsilon(lines: Lines, cases: Iterable[str], method: str) -> Rows:
    """A row a case, a column an ε: the accuracy of a method."""
    asked = sorted({line["epsilon"] for line in lines if line["method"] == method})
    yield "", *(f"ε = {epsilon:g}" for epsilon in asked)
    for case in cases:
        yield case, *(cell(of(lines, case, method, epsilon), "accuracy") for epsilon in asked)


def page(lines: Lines) -> Iterator[str]:
    """Aims, and all cases and measures: those of which tallies or a sketch alone were measured beyond ε = 1 together,
    the others one by one."""
    yield from ("### Aims\n", *table(aims(lines)), "")
    yield "### Columns, all numbers together, and both\n"
    yield "R is what the rule sees of public rows. `both` is what `tallies` count by the rule, or would count:\n"
    yield from (*table(by_view(lines, cell)), "")
    lines = [line for line in lines if line["method"] not in OF_VIEWS]
    cases = dict.fromkeys(line["case"] for line in lines)
    peers = [line for line in lines if line["method"] not in ("tallies", "sketch")]
    once = [case for case in cases if {line["epsilon"] for line in peers if line["case"] == case} <= {1.0, None}]
    declared = [case for case in once if case.endswith(DECLARED)]
    other = [case for case in once if case not in declared]
    for title, several, method in (
        ("Without a public row", declared, "sketch"),
        ("Other tables, and fewer private rows", other, "tallies"),
    ):
        yield f"### {title}, at ε = 1\n\nAccuracy, in percent:\n"
        yield from (*table(at_one(lines, several, "accuracy")), "", f"`{method}` at every ε:\n")
        yield from table(by_epsilon(lines, several, method))
        yield from folded({measure: at_one(lines, several, measure) for measure in OTHERS})
    for case in (case for case in cases if case not in once):
        mine = [line for line in lines if line["case"] == case]
        runs = max(line["seed"] for line in mine) + 1
        yield f"### {case}\n\nδ = {mine[0]['delta']:g}; at most {runs} runs. Accuracy, in percent:\n"
        yield from table(by_method(lines, case, "accuracy"))
        there = [measure for measure in OTHERS if any(measure in line for line in mine)]
        yield from folded({measure: by_method(lines, case, measure) for measure in there})


def folded(tables: Mapping[str, Rows]) -> Iterator[str]:
    """Tables of other measures, which a reader unfolds."""
    yield "\n<details><summary>Other measures</summary>\n"
    for measure, rows in tables.items():
        yield from (f"{MEASURES[measure]}, in {'nats' if measure in IN_NATS else 'percent'}:\n", *table(rows), "")
    yield "</details>\n"


def _values(found: Lines, measure: str) -> list[float]:
    return [line[measure] for line in found if measure in line]


def aims(lines: Lines) -> Rows:
    """What was reached of what was aimed at, and in how many runs."""
    yield "mean ± standard deviation (runs; aim)", *BY_EPSILON
    for (case, measure), aimed in AIMS.items():
        cells = [_reached(lines, case, measure, epsilon, aimed.get(epsilon)) for epsilon in EPSILONS]
        yield f"{case}, {MEASURES[measure].lower()}", *cells


def _reached(lines: Lines, case: str, measure: str, epsilon: float, aim: float | None) -> str:
    found = of(lines, case, "sketch" if case.endswith(DECLARED) else "tallies", epsilon)
    runs = len(_values(found, measure))
    if aim is None or not runs:
        return ""
    if aim < 0:
        aim += float(np.mean(_values(of(lines, case, "linear", epsilon), measure)))
    return f"{cell(found, measure)} ({runs}; {aim:.1f})"


def renewed(text: str, rows: Sequence[str]) -> str:
    """A page with its short table made anew: the lines from the heading to the first that is no row."""
    before, _, after = text.partition(f"| {HEADING} |")
    rest = after.splitlines(keepends=True)
    end = next(at for at, line in enumerate(rest) if at and not line.startswith("|"))
    return before + "\n".join(rows) + "\n" + "".join(rest[end:])


def pages(lines: Lines) -> dict[Path, str]:
    """The pages as they should read."""
    short = table(by_method(lines, "adult", "accuracy", SHORT, HEADING))
    stated = read(ADVISED)
    declared = [line for line in stated if line["case"].endswith(DECLARED)]
    sketch = ["", "A sketch, rehearsed on plausible rows of the schema:\n", *record(declared, lines)]
    public = record([line for line in stated if line not in declared], lines)
    advice = between(PAGE.read_text(encoding="utf-8"), "\n".join([*public, *sketch]), OF_ADVICE)
    return {
        PAGE: between(advice, "\n" + "\n".join(page(lines)), OF_FIGURES),
        README: renewed(README.read_text(encoding="utf-8"), short),
    }


def plotted(points: Callable[[str], Mapping[float, Sequence[float]]], x: Sequence[float]) -> Figure:
    """Accuracy of every method that has more than a point, against what its points are at; ours stand out."""
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    axes = figure.subplots()
    for method in METHODS:
        found = {at: values for at, values in points(method).items() if values}
        if not found:
            continue
        mean = [float(np.mean(values)) for values in found.values()]
        spread = [float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 for values in found.values()]
        name = f"Concord: {method}" if method in OURS else NAMES[method]
        width, dashes = (2.2, "-") if method in OURS else (1.0, ":" if method in OPEN else "--")
        axes.errorbar(
            [*found], mean, yerr=spread, marker="o", markersize=3, capsize=2, label=name, linewidth=width, ls=dashes
        )
    axes.set(xscale="log", ylabel="accuracy on test rows, %")
    axes.set_xticks(x, [f"{at:,g}" for at in x])
    axes.minorticks_off()
    figure.legend(fontsize="x-small", loc="outside right center")
    return figure


def draw(lines: Lines) -> Figure:
    """Accuracy on Adult against ε."""

    def points(method: str) -> dict[float, list[float]]:
        return {epsilon: _values(of(lines, "adult", method, epsilon), "accuracy") for epsilon in EPSILONS}

    figure = plotted(points, EPSILONS)
    figure.axes[0].set_xlabel("ε")
    return figure


def draw_small(lines: Lines) -> Figure:
    """Accuracy on Adult at ε = 1 against the number of private rows."""

    def points(method: str) -> dict[float, list[float]]:
        found = {rows: _values(of(lines, case, method, 1.0), "accuracy") for case, rows in SIZES.items()}
        return {rows: values for rows, values in found.items() if sum(map(bool, found.values())) > 1}

    figure = plotted(points, [*SIZES.values()])
    figure.axes[0].set_xlabel("private rows")
    return figure


def main() -> None:
    """Write pages and figures."""
    lines = read()
    for path, text in pages(lines).items():
        path.write_text(text, encoding="utf-8")
    for path, figure in ((FIGURE, draw(lines)), (SMALL, draw_small(lines))):
        with rc_context({"svg.hashsalt": "concord"}):  # the same file each time
            figure.savefig(path, metadata={"Date": None})
        path.write_text(re.sub(r"[ \t]+$", "", path.read_text(), flags=re.MULTILINE))


if __name__ == "__main__":
    main()
