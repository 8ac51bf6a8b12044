"""Two further tables of README.md: Adult as a stream of weeks, and the synthetic rows of a sketch.

    python -m tests.benchmarks.further FOLDER [--tables weeks synthetic] [--runs 3]

FOLDER holds the data sets, as for `make data`. Each table is written between its marks. Noise is the exact one that a
session draws.
"""

import argparse
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from tests import world
from tests.benchmarks.ours import (
    Coded,
    Drawn,
    Floats,
    Ints,
    coded,
    columns_of,
    decoded_student,
    on_cells,
    plan_of,
    sketched,
)
from tests.benchmarks.tables import cases
from tests.support.markdown import between, table

PAGE = Path(__file__).with_name("README.md")

# Adult as a stream ----------------------------------------------------------------------------------------------------

WEEKS, AT = 52, (1, 4, 13, 26, 52)
AIMS = {(0.5, 52): {}, (1.0, 52): {4: 83.5, 13: 84.6, 26: 85.3, 52: 85.7}, (1.0, 26): {52: 85.3}}
"""Accuracies aimed at, in percent, by week; by ε of the year, or of each unit, and releases of a season."""


def year(data: Coded, epsilon: float, season: int, seed: int) -> Iterator[float]:
    """Accuracy of the student on the test rows, in percent, after each week."""
    codes, places = data.at(epsilon)
    plan = plan_of(data, epsilon).model_copy(update={"stream": world.StreamPlan(season=season)})
    mechanism, source = world.planned_tallies(plan, codes, len(places.public)), Drawn()
    assert isinstance(mechanism, world.Stream)
    spans = [(each.start, each.start + each.size) for each in codes.fields]
    asked = [
        mechanism.question(at, codes.coarse, [spans[field] for field in codes.coarse])
        for at in range(len(mechanism.rounds))
    ]
    order = np.random.default_rng(seed).permutation(len(data.labels.private))
    ended, arrived, noisy = list[world.RoundFile](), [list[Ints]() for _ in asked], [list[Ints]() for _ in asked]
    for week, rows in enumerate(np.array_split(order, WEEKS), start=1):
        release = len(arrived[0])
        for at, question in enumerate(asked):
            arrived[at].append(world.tally(question, places.private[rows], data.labels.private[rows]))
            number = release * len(asked) + at
            noisy[at].append(mechanism.release(number, mechanism.mixed(arrived[at]), source))
        now = {
            "questions": [question.record() for question in asked],
            "scales": [each.scale for each in mechanism.rounds],
            "totals": [world.totals(mechanism, released) for released in noisy],
            "spread": world.spread(mechanism, release + 1),
        }
        if week in AT:
            decoded = world.SeasonReader(codes, places.public, ended).follow(now)["decoded"]
            said = world.scores(world.Decoded.from_record(decoded), places.test)
            yield 100 * float(np.mean(said.argmax(axis=1) == data.labels.test))
        if release + 1 == season:
            ended, arrived, noisy = [*ended, now], [[] for _ in asked], [[] for _ in asked]


def weeks(folder: Path, runs: int) -> str:
    """The page's table, of that many runs."""
    data = coded(cases(folder)["adult"]())
    rows = [("ε of each unit", "season", *(f"week {week}" for week in AT))]
    for (epsilon, season), aims in AIMS.items():
        found = np.array([list(year(data, epsilon, season, seed)) for seed in range(runs)])
        cells = [_cell(of, aims.get(week)) for week, of in zip(AT, found.T, strict=True)]
        rows.append((f"{epsilon:g}", f"{season} releases", *cells))
        print(*rows[-1], flush=True)
    return "\n".join(table(rows))


def _cell(found: Sequence[float], aim: float | None) -> str:
    return f"{np.mean(found):.1f} ± {np.std(found, ddof=1):.1f}" + ("" if aim is None else f" (aim {aim})")


# The synthetic rows of a sketch ---------------------------------------------------------------------------------------

CASES, EPSILON = ("adult-schema", "nursery-schema"), 1.0
COUNTED = ("columns", "pairs of columns")
DISTANCES = ("released", "by noise alone", "private")
STUDENTS = ("decoded model", "logistic regression", "boosted trees")


def distances(data: Coded, released: Sequence[Mapping[str, Any]], step: int) -> Floats:
    """Mean total variation, in percent, over the tables of a step: between synthetic rows and what was released, what
    the noise alone makes of that, and between synthetic and private rows. Of numbers, the wide tables count."""
    (grid, places), file, units = data.at(EPSILON), released[step], released[0]["units"]
    question, codes = file["question"], file["codes"]
    sums = np.array(file["sums"], np.float64) / question["steps"] / units
    noise = file["scale"] / question["steps"] / units
    synthetic, private = (
        on_cells(rows, grid, codes) for rows in (world.published_cells(grid, released), places.private)
    )
    found, first = [], 0
    for field, (start, stop) in zip(question["fields"], question["spans"], strict=True):
        own, truth = (
            np.bincount(rows[:, field] - start, minlength=stop - start) / len(rows) for rows in (synthetic, private)
        )
        noisy = sums[first : (first := first + stop - start)]
        if field in (*grid.coarse, *codes.pairs):
            alone = noise * math.sqrt(2 / math.pi) * len(own)
            found.append((np.abs(own - noisy).sum(), alone, np.abs(own - truth).sum()))
    return np.asarray(50 * np.mean(found, axis=0))


def accuracies(data: Coded, released: Sequence[Mapping[str, Any]]) -> list[float]:
    """Of the decoded model, and of estimators that learned synthetic rows with their inferred labels, in percent."""
    case, truth = data.case, data.labels.test
    assert data.schema is not None
    file = pl.read_parquet(io.BytesIO(world.synthetic_file(data.schema, released, data.encoding, {})))
    encoding = world.Encoding(
        columns=columns_of(file.drop(case.label), data.schema), label=case.label, classes=case.classes
    )
    rows, test = (world.cast_rows(part, encoding) for part in (file, case.test))
    X, y, T = world.encode(rows, encoding), rows[world.LABEL].to_numpy(), world.encode(test, encoding)
    learners = (LogisticRegression(max_iter=1000), HistGradientBoostingClassifier(random_state=0))
    said = [decoded_student(data, EPSILON, released[-1]).probabilities.argmax(axis=1)]
    said += [learner.fit(X, y).predict(T) for learner in learners]
    return [100 * float(np.mean(each == truth)) for each in said]


def row(data: Coded) -> list[float]:
    """Figures of one run."""
    released = sketched(data, EPSILON)
    return [*distances(data, released, 0), *distances(data, released, 1), *accuracies(data, released)]


def synthetic(folder: Path, runs: int) -> str:
    """The page's table, of that many runs."""
    rows = [("", *(f"{what}: {each}" for what in COUNTED for each in DISTANCES), *STUDENTS)]
    for name in CASES:
        data = coded(cases(folder)[name]())
        found = np.array([row(data) for _ in range(runs)])
        cells = [f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(found.mean(0), found.std(0, ddof=1), strict=True)]
        rows.append((name, *cells))
        print(*rows[-1], flush=True)
    return "\n".join(table(rows))


TABLES: Mapping[str, tuple[Callable[[Path, int], str], tuple[str, str]]] = {
    "weeks": (weeks, ("<!-- measured by tests.benchmarks.weeks -->", "<!-- end of the weeks -->")),
    "synthetic": (synthetic, ("<!-- measured by tests.benchmarks.synthetic -->", "<!-- end of synthetic rows -->")),
}


def main() -> None:
    """Measure, and write the tables that are asked for."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("folder", type=Path)
    given.add_argument("--tables", nargs="+", choices=TABLES, default=[*TABLES])
    given.add_argument("--runs", type=int, default=3)
    asked = given.parse_args()
    for name in asked.tables:
        measure, marks = TABLES[name]
        PAGE.write_text(between(PAGE.read_text(), measure(asked.folder, asked.runs), marks))


if __name__ == "__main__":
    main()
