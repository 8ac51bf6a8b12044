"""The benchmark of the field: how good is what may be published at an ε, by Concord and by what users take instead?

    python -m tests.benchmarks.accuracy FOLDER [--cases …] [--methods …] [--epsilon 0.1 0.5 1 2 4] [--seeds 3] [--again]

FOLDER holds the data sets, as for `make data`. Each figure is written to RESULTS as it comes, and one that is there is
not measured again, so a run that was ended goes on. Then `tests/benchmarks/page.py` draws table and figure. With
`--again`, our figures on record are measured again and replaced, and those that fell are named.

Every method has the same private, public and test rows, and what the public rows teach: bins, vocabularies, ranges.
Labels of test rows are looked at to evaluate alone. A peer that takes longer than LONGEST is recorded as too slow.
"""

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from tests.benchmarks.ours import OURS, Coded, Floats, Ints, Said, coded, inputs, said
from tests.benchmarks.tables import DECLARED, cases
from tests.benchmarks.views import FURTHER, PEER, TABLES, VIEWS
from tests.benchmarks.without_privacy import OPEN

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
PEERS_PYTHON = HERE.parents[1] / ".venv-bench" / "bin" / "python"
PEERS = ("dp_ebm", "dp_logistic", "dp_sgd", "dp_sgd_best", "mst", "aim")
METHODS = (*OURS, *PEERS, *OPEN)
OF_VIEWS = (*VIEWS, PEER)
"""What compares views of a row."""
TWO_CLASSES = ("dp_ebm",)
SLOW = ("mst", "aim")
"""Minutes a model: measured once, at ε = 1."""
CASES = (
    *("adult", "adult-women", "rare", "agnostic-2k", "classes-10", "mnist", "kdd99", "adult-schema", "health"),
    *(*TABLES, *FURTHER),
)
FEWER: dict[str, tuple[str, ...]] = {
    "kdd99": ("auto", "tallies"),
    "mnist": ("tallies", "public_labels"),
    "health": ("tallies",),  # wide: decoded along directions
    **dict.fromkeys((*TABLES, *FURTHER), OF_VIEWS),
}
"""Large cases: what is measured of them if no method is asked for by name."""
OF_SCHEMA = ("sketch", "dp_ebm", "dp_logistic", "dp_sgd", "dp_sgd_best", "mst", "boosted", "largest")
OF_SCHEMA_ALONE = ("sketch", "dp_sgd_best")
"""What needs no public row; and of it, what is measured of no other case unless it is asked for by name."""
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
LONGEST = 300
"""Seconds of processor that a peer may take for one model."""


def figures(what: Said, truth: Ints) -> dict[str, float]:
    """In percent: accuracy and balanced accuracy at the default point, both at the prior odds, and AUC."""
    found = {}
    for name, each in (("", what.probabilities), ("odds_", what.odds)):
        predicted = np.argmax(each, axis=1)
        found[f"{name}accuracy"] = 100 * float(np.mean(predicted == truth))
        found[f"{name}balanced"] = balanced(predicted, truth)
    safe = np.clip(what.probabilities, 1e-9, 1)
    safe /= safe.sum(axis=1, keepdims=True)
    return {
        **found,
        "auc": 100 * area(what.probabilities, truth),
        "log_loss": float(-np.log(safe[np.arange(len(truth)), truth]).mean()),
        "calibration": 100 * miscalibrated(safe, truth),
    }


def miscalibrated(probabilities: Floats, truth: Ints) -> float:
    """Expected calibration error: by how much the predicted class is right more or less often than its probability
    says, in the mean over 15 equal intervals of it (Guo et al. 2017)."""
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    bins = np.minimum((15 * sure).astype(int), 14)
    gaps = [abs(float((right[bins == each] - sure[bins == each]).sum())) for each in np.unique(bins)]
    return sum(gaps) / len(truth)


def area(probabilities: Floats, truth: Ints) -> float:
    """AUC; of more than two classes, the mean of each against the rest."""
    if probabilities.shape[1] == 2:
        return float(roc_auc_score(truth, probabilities[:, 1]))
    return float(np.mean([roc_auc_score(truth == each, probabilities[:, each]) for each in np.unique(truth)]))


def balanced(predicted: Ints, truth: Ints) -> float:
    """Mean recall of the classes, in percent."""
    return float(100 * np.mean([np.mean(predicted[truth == each] == each) for each in np.unique(truth)]))


def peer(data: Coded, name: str, epsilon: float, seed: int) -> Said | str:
    """What a peer says, or why it says nothing."""
    if data.classes > 2 and name in TWO_CLASSES:
        return "two classes alone"
    with tempfile.TemporaryDirectory() as folder:
        given, answered = f"{folder}/inputs.npz", f"{folder}/probabilities.npy"
        np.savez(given, allow_pickle=False, **inputs(data, epsilon))
        command = [str(PEERS_PYTHON), str(HERE / "peers.py"), given, name, f"{epsilon:g}", str(seed), answered]
        alone = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=alone, preexec_fn=_within)
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"more than {LONGEST} s"
        if done.returncode:
            return f"failed: {done.stderr.strip().splitlines()[-1]}"
        probabilities = np.load(answered)
        return said(probabilities) if np.isfinite(probabilities).all() else "probabilities that are no numbers"


def _within() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST + 5))


def measured(data: Coded, name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """One method, once."""
    began = _processor()
    here = {**OURS, **OPEN, **VIEWS}
    what = here[name](data, epsilon, seed) if name in here else peer(data, name, epsilon, seed)
    found: dict[str, Any] = {"why": what} if isinstance(what, str) else dict(figures(what, data.labels.test))
    if not isinstance(what, str):
        stated = {"chosen": what.chosen, "ratio": what.ratio}
        found |= {key: value for key, value in stated.items() if value is not None}
    return {**found, "seconds": round(_processor() - began, 1)}


def _processor() -> float:
    """Seconds of processor so far, of this process and those it waited for."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def read(path: Path = RESULTS) -> list[dict[str, Any]]:
    """All that was measured."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def wanted(methods: Sequence[str], epsilons: Sequence[float], seeds: int) -> Iterator[tuple[str, float | None, int]]:
    """Method, ε and seed: what has no guarantee, or is slow, is measured once."""
    for name in methods:
        for epsilon in (None,) if name in OPEN else (1.0,) if name in SLOW else epsilons:
            for seed in range(1 if name in OPEN or name in SLOW else seeds):
                yield name, epsilon, seed


def run(
    folder: Path, names: Sequence[str], methods: Sequence[str] | None, epsilons: Sequence[float], seeds: int
) -> None:
    """Measure what is wanted and not there yet, and write each figure as it comes. No methods: those of the case."""
    there = {(line["case"], line["method"], line["epsilon"], line["seed"]) for line in read()}
    for case in names:
        usual = OF_SCHEMA if case.endswith(DECLARED) else tuple(each for each in METHODS if each not in OF_SCHEMA_ALONE)
        asked = FEWER.get(case, usual) if methods is None else methods
        rest = [each for each in wanted(asked, epsilons, seeds) if (case, *each) not in there]
        if not rest:
            continue
        data = coded(cases(folder)[case]())
        for name, epsilon, seed in rest:
            found = measured(data, name, epsilon or 1.0, seed)
            line = {"case": case, "method": name, "epsilon": epsilon, "delta": data.case.delta, "seed": seed, **found}
            with RESULTS.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(*(round(each, 2) if isinstance(each, float) else each for each in line.values()), flush=True)


def again(folder: Path, names: Sequence[str], methods: Sequence[str]) -> None:
    """Measure the figures on record of these cases and methods again, replace them, and name those that fell."""
    record = read()
    old = [line for line in record if line["case"] in names and line["method"] in methods and "accuracy" in line]
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in record if line not in old))
    on_record = [(line["case"], line["method"], line["epsilon"]) for line in old]
    for figure in dict.fromkeys(on_record):
        case, method, epsilon = figure
        run(folder, [case], [method], [epsilon], on_record.count(figure))
    print(*fallen(old, read()), sep="\n")


def fallen(before: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A sentence on each accuracy that is now more than two standard errors of the difference below that on record; of
    single runs nobody knows."""

    def by_figure(lines: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], list[float]]:
        found = dict[tuple[Any, ...], list[float]]()
        for line in lines:
            if "accuracy" in line:
                found.setdefault((line["case"], line["method"], line["epsilon"]), []).append(line["accuracy"])
        return found

    measured_now = by_figure(now)
    for figure, old in by_figure(before).items():
        new = measured_now.get(figure, [])
        if min(len(old), len(new)) > 1:
            error = math.hypot(*(np.std(each, ddof=1) / math.sqrt(len(each)) for each in (old, new)))
            if (lost := np.mean(old) - np.mean(new)) > 2 * error:
                case, method, epsilon = figure
                yield f"{case}, {method}, ε = {epsilon}: {lost:.1f} points below the record, {lost / error:.1f} errors"


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--methods", nargs="+", choices=(*METHODS, *OF_VIEWS))
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    if asked.again:
        again(asked.folder, asked.cases, asked.methods or tuple(OURS))
    run(asked.folder, asked.cases, asked.methods, asked.epsilon, asked.seeds)


if __name__ == "__main__":
    main()
