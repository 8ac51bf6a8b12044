"""Is the advice right? What `concord plan` says that tallies teach, beside what was measured on the same tables.

    python -m tests.benchmarks.advised FOLDER [--cases …]

FOLDER holds the data sets, as for `make data`; results.jsonl has what was measured. For each table and ε, once with the
class shares of the test table and once with none: the range from a weak to a strong signal, and tallies' accuracy.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from concord.tasks.advice.choose import REHEARSED, PublicFacts
from concord.tasks.advice.rehearse import TalliesAhead, expect_tallies
from tests.benchmarks.accuracy import read
from tests.benchmarks.ours import ORDER, Coded, coded, plan_of
from tests.benchmarks.tables import cases

NEAR = 3.0
"""Points beyond the stated range that count as within it."""
BEATEN = 5.0
"""Points above the largest class at which "nothing can work" would be wrong."""


def measured() -> dict[str, dict[float, float]]:
    """The mean accuracy of tallies in percent, by case and ε."""
    found = defaultdict[tuple[str, float], list[float]](list)
    for each in read():
        if each["method"] == "tallies" and "accuracy" in each:
            found[each["case"], each["epsilon"]].append(each["accuracy"])
    by_case = defaultdict[str, dict[float, float]](dict)
    for (case, epsilon), runs in found.items():
        by_case[case][epsilon] = float(np.mean(runs))
    return by_case


def advised(data: Coded, epsilon: float, shares: tuple[float, ...] | None) -> TalliesAhead:
    """What the plan of this case would say."""
    facts = PublicFacts(
        rows=len(data.labels.public),
        encoding=data.encoding,
        codes=lambda _: data.at(epsilon)[0],
        order=ORDER,
        sample=data.public.head(REHEARSED),
        shares=shares,
    )
    return expect_tallies(plan_of(data, epsilon), facts)


def compared(data: Coded, truth: dict[float, float]) -> Iterator[tuple[str, bool]]:
    """A line for each ε and kind of shares, and whether the advice was right."""
    of_test = np.bincount(data.labels.test, minlength=data.classes) / len(data.labels.test)
    largest = 100 * of_test.max()
    for epsilon, accuracy in sorted(truth.items()):
        for said, shares in (("shares known", tuple(of_test.tolist())), ("shares unknown", None)):
            found = advised(data, epsilon, shares)
            low, *_, high = sorted(100 * each.right for each in found.rehearsed)
            within = low - NEAR <= accuracy <= high + NEAR
            right = within and (found.feasible or accuracy <= largest + BEATEN)
            words = f"ε = {epsilon:g}, {said}: {low:.1f} to {high:.1f}, measured {accuracy:.1f}, largest {largest:.1f}"
            yield f"{words}{'' if right else ' WRONG'}", right


def main() -> None:
    """Compare the cases that the command line asks for, all by default but pictures and a million rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    truth = measured()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="+", default=sorted(set(truth) - {"mnist", "agnostic-1m"}))
    asked = parser.parse_args()
    rights = list[bool]()
    for case in asked.cases:
        for line, right in compared(coded(cases(asked.folder)[case]()), truth[case]):
            print(f"{case}, {line}", flush=True)
            rights.append(right)
    print(f"right in {sum(rights)} of {len(rights)} cells")


if __name__ == "__main__":
    main()
