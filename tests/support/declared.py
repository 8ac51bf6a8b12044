"""Schemas of tables without a public row, and people of one of them."""

import numpy as np
import polars as pl

from tests.world import DeclaredCategories, DeclaredRange, Ints, TableSchema

WAGES = TableSchema(
    columns=(
        DeclaredRange(kind="numeric", name="wage", low=0, high=1e6, whole=False),
        DeclaredRange(kind="numeric", name="age", low=17, high=90, whole=True),
        DeclaredCategories(kind="categorical", name="sex", words=("Female", "Male")),
    ),
    undeclared=(),
)


def people(rows: int, classes: int = 2) -> tuple[pl.DataFrame, Ints]:
    """Wages that rise with age, and a class that follows from both and from sex."""
    source = np.random.default_rng(1)
    age = source.integers(17, 91, rows)
    wage = np.exp(source.normal(8, 1, rows)) * age / 40
    sex = source.choice(["Female", "Male"], rows)
    points = (np.log(wage) - 8) + (age - 50) / 20 + (sex == "Male") + source.logistic(0, 0.5, rows)
    frame = pl.DataFrame({"wage": wage, "age": age, "sex": sex})
    return frame, np.digitize(points, np.quantile(points, np.arange(1, classes) / classes)).astype(np.int64)
