"""How good tallies are at an ε: accuracy, balanced accuracy and AUC, on tables, mean and spread over noise.

    python tests/benchmarks/accuracy.py FOLDER [CASE …] [--epsilon 0.1 0.5 1 2] [--seeds 5] [--rounds 1|3] [--plain]

Cases are adult, adult-women, adult-over-40, adult-no-college, adult-part-time (public rows shifted so), kdd99,
kdd99-kinds (five classes) and rare (synthetic, 2 % positive). Noise is the exact discrete Gaussian a session draws.
Public labels are looked at to evaluate alone. `--plain` fits a logistic regression on the same codes without privacy.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from concord.artifacts.schemas import Encoding
from concord.tasks.data.cells import LABEL, cast_rows
from concord.tasks.data.codes import CodeMatrix, Codes, coarse_bins, learn_codes
from concord.tasks.data.encode import learn_columns
from concord.tasks.data.tables import open_public
from concord.tasks.mechanisms import noise
from concord.tasks.mechanisms.contributions import tally
from concord.tasks.mechanisms.tallies import Tallies, planned_rounds
from concord.tasks.student.decode import (
    Decoded,
    Heard,
    decode,
    model_places,
    next_fields,
    next_model,
    odds_scores,
    rounds_of,
    scores,
)
from tests.benchmarks.prepare import adult, kdd99

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
KINDS = {
    "dos": ("back", "land", "neptune", "pod", "smurf", "teardrop"),
    "probe": ("ipsweep", "nmap", "portsweep", "satan"),
    "u2r": ("buffer_overflow", "loadmodule", "perl", "rootkit"),
    "normal": ("normal",),
}
SHIFTS = {
    "women": pl.col("sex") == "Female",
    "over-40": pl.col("age") > 40,
    "no-college": pl.col("education-num") <= 9,
    "part-time": pl.col("hours-per-week") < 40,
}


@dataclass(frozen=True)
class Case:
    """Private rows with labels, public rows without, rows to evaluate on, and what is promised."""

    private: pl.DataFrame
    public: pl.DataFrame
    test: pl.DataFrame
    label: str
    classes: tuple[str, ...]
    delta: float = 1e-5


@dataclass(frozen=True)
class Coded:
    """A case as codes: of private, public and evaluation rows; and the labels of the first and the last."""

    codes: Codes
    private: CodeMatrix
    public: CodeMatrix
    test: CodeMatrix
    labels: Ints
    truth: Ints
    classes: int
    delta: float


def cases(folder: Path) -> dict[str, Callable[[], Case]]:
    """Every case by name, made when it is asked for."""
    shifted = {f"adult-{name}": lambda kept=kept: _adult(folder, kept) for name, kept in SHIFTS.items()}
    return {
        "adult": lambda: _adult(folder, pl.lit(True)),
        **shifted,
        "kdd99": lambda: _kdd99(folder),
        "kdd99-kinds": lambda: _kinds(folder),
        "rare": rare,
    }


def _adult(folder: Path, kept: pl.Expr) -> Case:
    tables = adult(folder)
    return Case(tables["private"], tables["public"].filter(kept), tables["test"], "income", ("<=50K", ">50K"))


def _kdd99(folder: Path) -> Case:
    tables = kdd99(folder)
    return Case(tables["private"], tables["public"], tables["test"], "labels", ("normal", "attack"), 1e-6)


def _kinds(folder: Path) -> Case:
    """Attacks by kind: half the rows private, few public ones; r2l and u2r are rare."""
    kind = {f"{word}.": name for name, words in KINDS.items() for word in words}
    rows = pl.read_parquet(folder / "kddcup99_10pct.parquet").unique(maintain_order=True)
    rows = rows.with_columns(pl.col("labels").replace_strict(kind, default="r2l"))
    rows = rows[np.random.default_rng(0).permutation(rows.height)]
    public = rows[:15_000].drop("labels")
    return Case(rows[45_000:], public, rows[15_000:45_000], "labels", ("normal", "dos", "probe", "r2l", "u2r"), 1e-6)


def rare(rows: int = 50_000) -> Case:
    """Ten normal columns and five of words; about 2 % positive by a logit that is linear but for one product."""
    draw = np.random.default_rng(7)
    total = rows + 30_000
    numbers, words = draw.normal(size=(total, 10)), draw.integers(0, 4, (total, 5))
    slopes, levels = draw.normal(size=10) * 0.5, draw.normal(size=(5, 4)) * 0.5
    logit = numbers @ slopes + levels[np.arange(5), words].sum(axis=1) + 0.5 * numbers[:, 0] * numbers[:, 1]
    positive = draw.random(total) < 1 / (1 + np.exp(5.3 - logit))
    table = pl.DataFrame(
        {f"n{at}": numbers[:, at] for at in range(10)}
        | {f"w{at}": words[:, at].astype(str) for at in range(5)}
        | {"y": np.where(positive, "yes", "no")}
    )
    return Case(table[:rows], table[rows : rows + 10_000].drop("y"), table[rows + 10_000 :], "y", ("no", "yes"))


def coded(case: Case, epsilon: float) -> Coded:
    """The case as codes learned from its public rows."""
    with tempfile.TemporaryDirectory() as folder:
        case.public.write_parquet(f"{folder}/public.parquet")
        table = open_public(f"{folder}/public.parquet")
        encoding = Encoding(columns=learn_columns(table, table.names), label=case.label, classes=case.classes)
    private, public, test = (cast_rows(rows, encoding) for rows in (case.private, case.public, case.test))
    codes = learn_codes([public], encoding.columns, coarse=coarse_bins(epsilon))
    labels, truth = (rows[LABEL].to_numpy().astype(np.int64) for rows in (private, test))
    of = codes.of
    return Coded(codes, of(private), of(public), of(test), labels, truth, len(case.classes), case.delta)


def planned(data: Coded, epsilon: float, rounds: int | None) -> Tallies:
    """The mechanism, with as many rounds as the public rule says if `rounds` is None; the guess of rows is right."""

    def calibrated(count: int) -> Tallies:
        fields = len(data.codes.coarse)
        asked = planned_rounds(classes=data.classes, fields=fields, codes=data.codes.size, rounds=count)
        return Tallies.calibrate(epsilon=epsilon, delta=data.delta, classes=data.classes, rounds=asked)

    if rounds is not None:
        return calibrated(rounds)
    three = calibrated(3)
    count = rounds_of(len(data.codes.coarse), three.rho, len(data.public), len(data.private))
    return three if count == 3 else calibrated(1)


def learn(data: Coded, mechanism: Tallies) -> Decoded:
    """All rounds, each under fresh exact noise, and what they decode to."""
    source: Any = SimpleNamespace(gaussian=noise.gaussian)
    heard: list[Heard] = []
    decoded: Decoded | None = None
    for number, each in enumerate(mechanism.rounds):
        asked = data.codes.coarse if decoded is None else next_fields(decoded, data.codes, each.fields)
        spans = [(data.codes.span(field).start, data.codes.span(field).stop) for field in asked]
        question = mechanism.question(number, asked, spans, None if decoded is None else next_model(decoded))
        sums = mechanism.release(number, tally(question, data.private, data.labels), source)
        heard.append(Heard(question, each.scale, sums))
        if each.what == "labels":
            decoded = decode(heard, data.public, data.codes)
    assert decoded is not None
    return decoded


def figures(probabilities: Floats, odds: Floats, truth: Ints) -> list[float]:
    """Accuracy and balanced accuracy at the default point, both at the prior odds, and AUC; in percent."""
    right = [100 * np.mean(np.argmax(each, axis=1) == truth) for each in (probabilities, odds)]
    even = [balanced(np.argmax(each, axis=1), truth) for each in (probabilities, odds)]
    if probabilities.shape[1] == 2:
        auc = roc_auc_score(truth, probabilities[:, 1])
    else:
        auc = np.mean([roc_auc_score(truth == each, probabilities[:, each]) for each in np.unique(truth)])
    return [float(right[0]), even[0], float(right[1]), even[1], 100 * float(auc)]


def balanced(predicted: Ints, truth: Ints) -> float:
    """Mean recall of the classes, in percent."""
    return float(100 * np.mean([np.mean(predicted[truth == each] == each) for each in np.unique(truth)]))


def without_privacy(data: Coded) -> list[float]:
    """The figures of a logistic regression on the same codes, from the private rows' true labels."""
    private, test = (_one_hot(model_places(rows, data.codes)) for rows in (data.private, data.test))
    fitted = LogisticRegression(max_iter=300).fit(private, data.labels)
    probabilities = fitted.predict_proba(test)
    prior = np.bincount(data.labels, minlength=data.classes) / len(data.labels)
    odds = np.log(np.clip(probabilities, 1e-12, 1)) - np.log(prior)
    return figures(probabilities, odds, data.truth)


def _one_hot(places: Ints) -> Any:
    starts = np.arange(0, places.size + 1, places.shape[1])
    return csr_matrix((np.ones(places.size), places.ravel(), starts), shape=(len(places), int(places[0, -1]) + 1))


def lines(folder: Path, names: list[str], epsilons: list[float], seeds: int, rounds: int | None) -> Iterator[str]:
    """A line for each case and ε."""
    yield f"{'case':18} {'ε':>4} rounds  accuracy       balanced       at prior odds: accuracy, balanced    AUC"
    for name in names:
        case = cases(folder)[name]()
        for epsilon in epsilons:
            data = coded(case, epsilon)
            mechanism = planned(data, epsilon, rounds)
            found = np.array(
                [
                    figures(scores(decoded, data.test), odds_scores(decoded, data.test), data.truth)
                    for decoded in (learn(data, mechanism) for _ in range(seeds))
                ]
            )
            asked = sum(each.what == "labels" for each in mechanism.rounds)
            spread = found.std(axis=0, ddof=1) if seeds > 1 else np.zeros(5)
            parts = (f"{mean:5.2f} ± {sd:4.2f}" for mean, sd in zip(found.mean(axis=0), spread, strict=True))
            yield f"{name:18} {epsilon:4} {asked:6}  " + "   ".join(parts)


def main() -> None:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", default=["adult"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.5, 1.0, 2.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, choices=(1, 3))
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_args()
    if asked.plain:
        for name in asked.cases:
            found = without_privacy(coded(cases(asked.folder)[name](), 1.0))
            print(name, "without privacy", *(f"{each:.2f}" for each in found), flush=True)
        return
    for line in lines(asked.folder, asked.cases, asked.epsilon, asked.seeds, asked.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
