"""Students of every kind, each fitted on a few public rows or with a model that is drawn, and rows of odd cells."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVR

from tests import world
from tests.support.published import rewrite
from tests.tasks.verify.signed_folder import sign_again

ODD = pl.DataFrame(
    {
        "size": [0.5, float("nan"), float("inf"), -0.0, None, 1e300, -7.25],
        "shade": ["grey", " light ", "zqx", "", None, "dark", "light"],
        "day": ["2020-02-29", "1969-12-31T23:59:59", "never", None, "0001-01-01", "9999-12-31", "2021-05-06"],
        "member": ["true", "0", "maybe", None, "1", "FALSE", "True"],
    }
)
"""Rows whose cells are missing, unknown, odd or out of range."""


def public_rows(rows: int = 500) -> pl.DataFrame:
    """A number, a word, a date and a truth value."""
    rng = np.random.default_rng(5)
    cells = {
        "size": rng.normal(size=rows),
        "shade": rng.choice(["dark", "light", "grey"], rows, p=[0.6, 0.398, 0.002]),
        "day": [f"20{year:02d}-03-04" for year in rng.integers(10, 30, rows)],
        "member": rng.choice([True, False], rows),
    }
    return pl.DataFrame(cells).with_columns(pl.col("day").str.to_date())


def encoding_of(
    rows: pl.DataFrame, classes: tuple[str, ...] = ("no", "yes"), bounds: tuple[float, float] | None = None
) -> world.Encoding:
    """What is learned from public rows; of a number if there are bounds."""
    with TemporaryDirectory() as folder:
        rows.write_parquet(Path(folder) / "public.parquet")
        table = world.open_public(f"{folder}/public.parquet")
        columns = world.learn_columns(table, table.names)
    return world.Encoding(columns=columns, label="label", classes=() if bounds else classes, bounds=bounds)


def drawn_model(codes: world.Codes, columns: int, seed: int = 7) -> world.Decoded:
    """A linear model of those codes whose weights are drawn. Views that others refine have none, as in every model."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(codes.size, columns))
    for at in set(codes.coarse) - set(codes.fine):
        weights[codes.span(at)] = 0
    return world.Decoded(
        weights=weights,
        intercept=rng.normal(size=columns) / 4,
        units=500.0,
        prior=np.linspace(0.2, 0.6, columns),
        importance=np.zeros(len(codes.fields)),
        spread=np.zeros((len(codes.weighed) + 1, columns)),
        kappa=np.ones(columns),
        moved=0.0,
    )


def codes_of(
    rows: pl.DataFrame, encoding: world.Encoding, *, paired: bool = False, together: bool = False
) -> world.Codes:
    """The codes that are learned from public rows, and those of pairs of columns if `paired`, of all numbers, dates and
    truth values if `together`."""
    cells = world.cast_rows(rows, encoding)
    codes = world.learn_codes([cells], encoding.columns, coarse=8)
    if together:
        numbers = [column for column in encoding.columns if isinstance(column, world.Scaled)]
        scores = world.public_scores(cells, numbers)
        codes = codes.with_joined(scores, codes.of(cells), [column.name for column in numbers], 20)
    return world.with_pairs(codes, codes.of(cells), world.FINER) if paired else codes


def linear(rows: pl.DataFrame, encoding: world.Encoding, *, paired: bool = False, together: bool = False) -> Pipeline:
    """The student of tallies or of a sketch, with a model that is drawn."""
    codes = codes_of(rows, encoding, paired=paired, together=together)
    return world.linear_student(
        drawn_model(codes, max(1, len(encoding.classes) * (len(encoding.classes) > 2))), encoding, codes
    )


def fitted(rows: pl.DataFrame, learner: Any) -> Pipeline:
    """The student of votes: a learner of the encoded rows, whose labels follow from two columns."""
    encoding = encoding_of(rows)
    X = world.encode(world.cast_rows(rows, encoding), encoding)
    labels = (X[:, 0] + X[:, -1] > X[:, 0].mean()).astype(np.int64)
    targets = np.eye(2)[labels] if isinstance(learner, world.ScoreClassifier) else np.array(encoding.classes)[labels]
    return world.published_student(encoding, learner.fit(X, targets))


def chosen(rows: pl.DataFrame) -> Pipeline:
    """The student of a hypothesis that was chosen: a stump."""
    encoding = encoding_of(rows)
    X = world.encode(world.cast_rows(rows, encoding), encoding).astype(np.float64)
    candidates = world.hypothesis_class("stumps", columns=[0]).dichotomies(X)
    hypothesis = json.dumps(candidates[len(candidates) // 2].describe())
    return world.published_student(encoding, world.Chosen(hypothesis, list(encoding.classes)).fit())


def hashed(rows: pl.DataFrame) -> Pipeline:
    """A linear student that hashes its words."""
    encoding = encoding_of(rows)
    columns = tuple(
        column.model_copy(update={"hashed": True, "vocabulary": tuple(f"bucket {at} of 4" for at in range(1, 5))})
        if column.kind == "categorical"
        else column
        for column in encoding.columns
    )
    return linear(rows, encoding.model_copy(update={"columns": columns}))


STUDENTS: Mapping[str, Callable[[pl.DataFrame], Any]] = {
    "logistic regression": lambda rows: fitted(rows, LogisticRegression()),
    "scores": lambda rows: fitted(rows, world.ScoreClassifier(Ridge(), ["no", "yes"])),
    "scores of one output each": lambda rows: fitted(
        rows, world.ScoreClassifier(LinearSVR(random_state=0), ["no", "yes"])
    ),
    "boosted trees": lambda rows: fitted(rows, HistGradientBoostingClassifier(max_iter=3, random_state=0)),
    "forest": lambda rows: fitted(rows, RandomForestClassifier(n_estimators=3, random_state=0)),
    "constant": lambda rows: fitted(rows, DummyClassifier()),
    "hypothesis": chosen,
    "two classes": lambda rows: linear(rows, encoding_of(rows)),
    "three classes": lambda rows: linear(rows, encoding_of(rows, ("no", "yes", "unsure"))),
    "pairs of columns": lambda rows: linear(rows, encoding_of(rows, ("no", "yes", "unsure")), paired=True),
    "numbers together": lambda rows: linear(rows, encoding_of(rows, ("no", "yes", "unsure")), together=True),
    "hashed words": hashed,
    "a number": lambda rows: linear(rows, encoding_of(rows, bounds=(-3.0, 7.0))),
}
"""A student of each kind, made of public rows."""


def of_pictures() -> tuple[Pipeline, pl.DataFrame]:
    """A student of small pictures, and rows of them."""
    levels = np.random.default_rng(3).integers(0, 256, (12, 196))
    rows = pl.DataFrame({"image": pl.Series(levels, dtype=pl.Array(pl.UInt8, 196))})
    image = world.Passed(name="image", element="uint8", size=196)
    encoding = world.Encoding(columns=(image,), label="label", classes=("no", "yes"))
    learner = world.ScoreClassifier(world.Pictures(hidden=4, steps=2, random_state=0), ["no", "yes"])
    learner.fit(world.encode(world.cast_rows(rows, encoding), encoding), np.eye(2)[np.arange(12) % 2])
    return world.published_student(encoding, learner), rows


def republish(folder: Path, student: Any) -> Path:
    """Put a student into a published folder, and sign it as its stranger would."""
    (folder / "student.skops").write_bytes(file := world.dump(student))
    rewrite(folder, lambda values: values["student"]["file"].update(digest=world.sha256(file)))
    sign_again(folder)
    return folder
