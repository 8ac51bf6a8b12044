"""UCI Adult as `make data` writes it, for tests of the figures that the README states."""

from pathlib import Path

import pytest

PLANS = Path(__file__).parents[2] / "deployments/plans"
LABEL, CLASSES = "income", ("<=50K", ">50K")


def adult_tables() -> Path:
    """The folder of adult_private.parquet, adult_public.parquet and adult_test.parquet. Skips the test without them."""
    if not (PLANS / "data/adult_private.parquet").exists():
        pytest.skip("the tables of Adult are not there: make data DATA=FOLDER writes them")
    return PLANS / "data"
