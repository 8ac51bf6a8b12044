"""Synthetic rows of a sketch: how close they are to the released tables, and what can be learned from them.

    python -m tests.benchmarks.synthetic FOLDER [--cases adult-schema …] [--runs 3]

FOLDER holds the data sets, as for `make data`. Writes its table into tests/benchmarks/README.md.
"""

import argparse
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from tests.benchmarks.ours import Coded, Floats, coded, columns_of, decoded_student, on_cells, sketched
from tests.benchmarks.tables import cases
from tests.support.markdown import between, table
from tests.world import LABEL, Encoding, cast_rows, encode, published_cells, synthetic_file

PAGE = Path(__file__).with_name("README.md")
MARKS = "<!-- measured by tests.benchmarks.synthetic -->", "<!-- end of synthetic rows -->"
CASES, EPSILON = ("adult-schema", "nursery-schema"), 1.0
TABLES = ("columns", "pairs of columns")
DISTANCES = ("released", "by noise alone", "private")
STUDENTS = ("decoded model", "logistic regression", "boosted trees")


def distances(data: Coded, released: Sequence[Mapping[str, Any]], step: int) -> Floats:
    """Mean total variation, in percent, over the tables of a step: between synthetic rows and what was released, what
    the noise alone makes of that, and between synthetic and private rows. Of numbers, the wide tables count."""
    (grid, places), file, units = data.at(EPSILON), released[step], released[0]["units"]
    question, codes = file["question"], file["codes"]
    sums = np.array(file["sums"], np.float64) / question["steps"] / units
    noise = file["scale"] / question["steps"] / units
    synthetic, private = (on_cells(rows, grid, codes) for rows in (published_cells(grid, released), places.private))
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
    file = pl.read_parquet(io.BytesIO(synthetic_file(data.schema, released, data.encoding, {})))
    encoding = Encoding(columns=columns_of(file.drop(case.label), data.schema), label=case.label, classes=case.classes)
    rows, test = (cast_rows(part, encoding) for part in (file, case.test))
    X, y, T = encode(rows, encoding), rows[LABEL].to_numpy(), encode(test, encoding)
    learners = (LogisticRegression(max_iter=1000), HistGradientBoostingClassifier(random_state=0))
    said = [decoded_student(data, EPSILON, released[-1]).probabilities.argmax(axis=1)]
    said += [learner.fit(X, y).predict(T) for learner in learners]
    return [100 * float(np.mean(each == truth)) for each in said]


def row(data: Coded) -> list[float]:
    """Figures of one run."""
    released = sketched(data, EPSILON)
    return [*distances(data, released, 0), *distances(data, released, 1), *accuracies(data, released)]


def runs(folder: Path, names: Sequence[str], several: int) -> str:
    """The page's table, of that many runs."""
    rows = [("", *(f"{what}: {each}" for what in TABLES for each in DISTANCES), *STUDENTS)]
    for name in names:
        data = coded(cases(folder)[name]())
        found = np.array([row(data) for _ in range(several)])
        cells = [f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(found.mean(0), found.std(0, ddof=1), strict=True)]
        rows.append((name, *cells))
        print(*rows[-1], flush=True)
    return "\n".join(table(rows))


def main() -> None:
    """Measure, and write the page's table."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("folder", type=Path)
    given.add_argument("--cases", nargs="+", default=CASES)
    given.add_argument("--runs", type=int, default=3)
    asked = given.parse_args()
    made = runs(asked.folder, asked.cases, asked.runs)
    PAGE.write_text(between(PAGE.read_text(), made, MARKS))


if __name__ == "__main__":
    main()
