"""What was tried where tallies miss their aims: one setting changed at a time, under the exact noise of a session.

    python -m tests.benchmarks.curves FOLDER [--case adult] [--epsilon 0.1 0.5 1 2] [--tried …] [--seeds 5]

FOLDER holds the data sets, as for `make data`. Prints mean accuracy and its standard error over runs, in percent; the
page TRIED.md beside this says what follows. No setting is chosen by this: that would be to choose on the test rows.
"""

import argparse
import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tests.benchmarks.ours import Coded, coded, learn, plan_of
from tests.benchmarks.tables import cases
from tests.world import LATER_FIELDS, Decoded, planned_tallies, scores


@dataclass(frozen=True)
class Tried:
    """What differs from the public rule.

    rounds      of labels, and the fields of the later ones
    codes       arguments of `learn_codes`
    constants   by full name, such as tests.world.data_codes.ATOM
    """

    rounds: tuple[int, int] | None = None
    codes: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)


JOINT, PRIOR = "tests.world.student_joint", "tests.world.student_prior"
CODES, SUMS = "tests.world.data_codes", "tests.world.mechanisms_tallies"
TRIED: dict[str, Tried] = {
    "as it is": Tried(),
    **{f"{bins} coarse bins": Tried(codes={"coarse": bins}) for bins in (4, 8, 16, 32)},
    "64 fine bins": Tried(codes={"fine": 64}),
    "numbers of 2 % are codes": Tried(constants={f"{CODES}.ATOM": 0.02}),
    **{f"{rounds} rounds": Tried((rounds, LATER_FIELDS)) for rounds in (1, 2, 3)},
    "totals for a twentieth": Tried(constants={f"{SUMS}.REPAIR_SHARE": 0.05}),
    "three rounds, all fields": Tried((3, 100)),
    "three rounds, five fields": Tried((3, 5)),
    "smoother weights": Tried(constants={f"{PRIOR}.SMOOTH": 0.98}),
    "smooth over half a number": Tried(constants={f"{PRIOR}.LENGTH": 0.5}),
    "first spread 0.2": Tried(constants={f"{PRIOR}.FIRST_SPREAD": 0.2}),
    "spreads found sooner": Tried(constants={f"{JOINT}.MAXIMISATIONS": 10}),
}


def accuracy(data: Coded, epsilon: float, tried: Tried) -> float:
    """Of one run on the test rows, in percent."""
    codes, places = data.at(epsilon)
    last = learn(data, epsilon, planned_tallies(plan_of(data, epsilon), codes, len(places.public), tried.rounds))
    found = scores(Decoded.from_record(last["decoded"]), places.test)
    return 100 * float(np.mean(found.argmax(axis=1) == data.labels.test))


def measured(data: Coded, epsilon: float, tried: Tried, runs: int) -> tuple[float, float]:
    """Mean accuracy of so many runs, and its standard error."""
    with ExitStack() as changed:
        for name, value in tried.constants.items():
            changed.enter_context(mock.patch(name, value))
        now = replace(data, sizes=tried.codes, learned={})
        found = [accuracy(now, epsilon, tried) for _ in range(runs)]
    return float(np.mean(found)), float(np.std(found, ddof=1)) / math.sqrt(runs)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--case", default="adult")
    parser.add_argument("--epsilon", type=float, nargs="+", default=(0.1, 0.5, 1.0, 2.0))
    parser.add_argument("--tried", nargs="+", choices=TRIED, default=tuple(TRIED))
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    data = coded(cases(asked.folder)[asked.case]())
    for name in asked.tried:
        for epsilon in asked.epsilon:
            mean, error = measured(data, epsilon, TRIED[name], asked.seeds)
            print(f"{name}, ε = {epsilon:g}: {mean:.2f} ± {error:.2f}", flush=True)


if __name__ == "__main__":
    main()
