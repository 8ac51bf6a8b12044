"""Adult as a stream: its private rows in random order over a year of weeks, by the mechanism and decoder that run.

    python -m tests.benchmarks.weeks FOLDER [--runs 3]

FOLDER holds the data sets, as for `make data`. Writes the table of tests/benchmarks/README.md between its marks. Noise
is the exact one that a session draws. Files, names and the vault are left out: tests/flows has those.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.benchmarks.ours import Coded, Drawn, Ints, coded, plan_of
from tests.benchmarks.tables import cases
from tests.support.markdown import between, table
from tests.world import RoundFile, Stream, StreamPlan, decoded_of, planned_tallies, scores, tally

WEEKS, AT = 52, (1, 4, 13, 26, 52)
AIMS = {(0.5, 52): {}, (1.0, 52): {4: 83.5, 13: 84.6, 26: 85.3, 52: 85.7}, (1.0, 26): {52: 85.3}}
"""Accuracies aimed at, in percent, by week; by ε of the year, or of each unit, and releases of a season."""
PAGE = Path(__file__).with_name("README.md")
MARKS = "<!-- measured by tests.benchmarks.weeks -->", "<!-- end of the weeks -->"


def year(data: Coded, epsilon: float, season: int, seed: int) -> Iterator[float]:
    """Share of the test rows that the student is right on, in percent, after each week."""
    codes, places = data.at(epsilon)
    plan = plan_of(data, epsilon).model_copy(update={"stream": StreamPlan(season=season)})
    mechanism, source = planned_tallies(plan, codes, len(places.public)), Drawn()
    assert isinstance(mechanism, Stream)
    spans = [(each.start, each.start + each.size) for each in codes.fields]
    asked = [
        mechanism.question(at, codes.coarse, [spans[field] for field in codes.coarse])
        for at in range(len(mechanism.rounds))
    ]
    order = np.random.default_rng(seed).permutation(len(data.labels.private))
    ended, arrived, noisy = list[RoundFile](), [list[Ints]() for _ in asked], [list[Ints]() for _ in asked]
    for week, rows in enumerate(np.array_split(order, WEEKS), start=1):
        release = len(arrived[0])
        for at, question in enumerate(asked):
            arrived[at].append(tally(question, places.private[rows], data.labels.private[rows]))
            number = release * len(asked) + at
            noisy[at].append(mechanism.release(number, mechanism.mixed(arrived[at]), source))
        now = {
            "questions": [question.record() for question in asked],
            "scales": [each.scale for each in mechanism.rounds],
            "totals": [mechanism.totals(released) for released in noisy],
            "spread": mechanism.spread(release + 1),
        }
        if week in AT:
            said = scores(decoded_of([*ended, now], places.public, codes), places.test)
            yield 100 * float(np.mean(said.argmax(axis=1) == data.labels.test))
        if release + 1 == season:
            ended, arrived, noisy = [*ended, now], [[] for _ in asked], [[] for _ in asked]


def weeks(data: Coded, runs: int) -> str:
    """The page's table, of that many runs."""
    rows = [("ε of each unit", "season", *(f"week {week}" for week in AT))]
    for (epsilon, season), aims in AIMS.items():
        found = np.array([list(year(data, epsilon, season, seed)) for seed in range(runs)])
        cells = [_cell(of, aims.get(week)) for week, of in zip(AT, found.T, strict=True)]
        rows.append((f"{epsilon:g}", f"{season} releases", *cells))
        print(*rows[-1], flush=True)
    return "\n".join(table(rows))


def _cell(found: Sequence[float], aim: float | None) -> str:
    return f"{np.mean(found):.1f} ± {np.std(found, ddof=1):.1f}" + ("" if aim is None else f" (aim {aim})")


def main() -> None:
    """Measure, and write the page's table."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("folder", type=Path)
    given.add_argument("--runs", type=int, default=3)
    asked = given.parse_args()
    made = weeks(coded(cases(asked.folder)["adult"]()), asked.runs)
    PAGE.write_text(between(PAGE.read_text(), made, MARKS))


if __name__ == "__main__":
    main()
