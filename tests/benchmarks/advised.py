"""Is the advice right? What `concord plan` says that tallies or a sketch teach, beside what was measured on the same
tables.

    python -m tests.benchmarks.advised FOLDER [--cases …]

FOLDER holds the data sets, as for `make data`; results.jsonl has what was measured. For each table and ε, once with the
class shares of the test table and once with none, ADVISED gets the range from a weak to a strong signal. Then
`tests/benchmarks/page.py` counts what is right.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.accuracy import read
from tests.benchmarks.ours import ORDER, Coded, coded, plan_of
from tests.benchmarks.tables import DECLARED, cases
from tests.support.markdown import table
from tests.world import REHEARSED, PublicFacts, SketchAhead, TalliesAhead, expect_sketch, expect_tallies, unclustered

ADVISED = Path(__file__).parent / "advised.jsonl"
NEAR = 3.0
"""Points beyond the stated range that count as within it."""
BEATEN = 5.0
"""Points above the largest class at which "nothing can work" would be wrong."""
FARTHEST = 8
"""Cells that the page names: those farthest from what was measured."""
SIZES = ("500", "2000", "8000")
"""Private rows that end a case's name; the others have all of their table's."""

Lines = Sequence[Mapping[str, Any]]


def measured(lines: Lines) -> dict[str, dict[float, float]]:
    """The mean accuracy of tallies or a sketch in percent, by case and ε."""
    found = defaultdict[str, dict[float, list[float]]](lambda: defaultdict(list))
    for each in lines:
        if each["method"] in ("tallies", "sketch") and "accuracy" in each:
            found[each["case"]][each["epsilon"]].append(each["accuracy"])
    return {
        case: {epsilon: float(np.mean(runs)) for epsilon, runs in by_epsilon.items()}
        for case, by_epsilon in found.items()
    }


def advised(data: Coded, epsilon: float, shares: tuple[float, ...] | None) -> TalliesAhead | SketchAhead:
    """What the plan of this case would say."""
    if data.schema is not None:
        plan = plan_of(data, epsilon)
        shared = {"shares": shares and dict(zip(plan.data.classes, shares, strict=True))}
        return expect_sketch(plan.model_copy(update={"data": plan.data.model_copy(update=shared)}))
    facts = PublicFacts(
        rows=len(data.labels.public),
        encoding=data.encoding,
        codes=lambda _: data.at(epsilon)[0],
        order=ORDER,
        ratio=lambda: unclustered(data.public, data.encoding.columns),
        sample=data.public.head(REHEARSED),
        shares=shares,
    )
    return expect_tallies(plan_of(data, epsilon), facts)


def stated(case: str, data: Coded, epsilons: Iterable[float]) -> Iterator[dict[str, Any]]:
    """What the plans of this case would say: a line for each ε, with the shares of the classes and without."""
    of_test = np.bincount(data.labels.test, minlength=data.classes) / len(data.labels.test)
    for epsilon in epsilons:
        for shares in (tuple(of_test.tolist()), None)[: 1 if data.schema else 2]:  # a schema foresees none without
            began = time.process_time()
            found = advised(data, epsilon, shares)
            low, *_, high = sorted(round(100 * each.right, 2) for each in found.rehearsed)
            largest, seconds = round(100 * float(of_test.max()), 2), round(time.process_time() - began, 1)
            cell = {"case": case, "epsilon": epsilon, "shares": shares is not None, "low": low, "high": high}
            yield {**cell, "feasible": found.feasible, "largest": largest, "seconds": seconds}


def off(line: Mapping[str, Any], accuracy: float) -> float:
    """Points between the stated range and what was measured: 0 within it, above 0 if more was."""
    return float(max(accuracy - line["high"], 0.0) + min(accuracy - line["low"], 0.0))


def right(line: Mapping[str, Any], accuracy: float) -> bool:
    """Whether the range holds what was measured, nearly, and nobody who would have learned was sent away."""
    return abs(off(line, accuracy)) <= NEAR and (line["feasible"] or accuracy <= line["largest"] + BEATEN)


def record(lines: Lines, results: Lines) -> Iterator[str]:
    """A section of the page: how many cells are right, by ε and number of private rows, and the farthest ones."""
    truth = measured(results)
    cells = [(line, truth[line["case"]][line["epsilon"]]) for line in lines]
    rights = [right(*cell) for cell in cells]
    away = [
        f"{line['case']} at ε = {line['epsilon']:g}"
        for line, accuracy in cells
        if not line["feasible"] and accuracy > line["largest"] + BEATEN
    ]
    learned = ", ".join(away) or "none"
    yield f"Right in {sum(rights)} of {len(rights)} cells. Learned, though said to learn nothing: {learned}.\n"
    epsilons = sorted({line["epsilon"] for line in lines})
    by_size = [("private rows", *(f"ε = {epsilon:g}" for epsilon in epsilons))]
    for size in (*SIZES, "all"):
        mine = [(line["epsilon"], each) for (line, _), each in zip(cells, rights, strict=True) if _size(line) == size]
        of_epsilon = [[each for at, each in mine if at == epsilon] for epsilon in epsilons]
        by_size.append((size, *(f"{sum(each)} of {len(each)}" if each else "" for each in of_epsilon)))
    yield from (*table(by_size), f"\nThe {FARTHEST} farthest from what was measured:\n")
    farthest = [("", "ε", "shares of the classes", "stated", "measured")]
    for line, accuracy in sorted(cells, key=lambda each: -abs(off(*each)))[:FARTHEST]:
        spread = f"{line['low']:.1f} to {line['high']:.1f}"
        known = "known" if line["shares"] else "unknown"
        farthest.append((line["case"], f"{line['epsilon']:g}", known, spread, f"{accuracy:.1f}"))
    yield from table(farthest)


def _size(line: Mapping[str, Any]) -> str:
    end = line["case"].removesuffix(DECLARED).rpartition("-")[2]
    return end if end in SIZES else "all"


def main() -> None:
    """State what the command line asks for, all cases by default but pictures and a million rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    truth = measured(read())
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="+", default=sorted(set(truth) - {"mnist", "agnostic-1m"}))
    asked = parser.parse_args()
    for case in asked.cases:
        made = [line for line in read(ADVISED) if line["case"] != case]
        for line in stated(case, coded(cases(asked.folder)[case]()), sorted(truth[case])):
            accuracy = truth[case][line["epsilon"]]
            print(*line.values(), round(accuracy, 1), "" if right(line, accuracy) else "WRONG", flush=True)
            made.append(line)
        made.sort(key=lambda each: (each["case"], each["epsilon"], each["shares"]))
        ADVISED.write_text("".join(f"{json.dumps(line)}\n" for line in made))


if __name__ == "__main__":
    main()
