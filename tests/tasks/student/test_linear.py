"""The linear student reads raw cells as private ones are read, and needs nothing of Concord but two files."""

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.world import (
    FINER,
    Codes,
    Decoded,
    Encoding,
    at_point,
    cast_rows,
    data_concord_student,
    dump,
    example_row,
    explained_scorecard,
    learn_codes,
    learn_columns,
    linear_student,
    load,
    modules_needed,
    odds_scores,
    open_public,
    scores,
    student_concord_published,
    student_concord_tallied,
    trusted_types,
    with_pairs,
)

ODD = pl.DataFrame(
    {
        "size": [0.5, float("nan"), float("inf"), -0.0, None, 1e300, -7.25],
        "shade": ["grey", " light ", "zqx", "", None, "dark", "light"],
        "day": ["2020-02-29", "1969-12-31T23:59:59", "never", None, "0001-01-01", "9999-12-31", "2021-05-06"],
        "member": ["true", "0", "maybe", None, "1", "FALSE", "True"],
    }
)


@pytest.fixture(params=[(2, False), (3, False), (3, True)], ids=["two classes", "three classes", "pairs of columns"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Encoding, Codes, Decoded]:
    rng = np.random.default_rng(5)
    public = pl.DataFrame(
        {
            "size": rng.normal(size=500),
            "shade": rng.choice(["dark", "light", "grey"], 500, p=[0.6, 0.398, 0.002]),
            "day": [f"20{year:02d}-03-04" for year in rng.integers(10, 30, 500)],
            "member": rng.choice(["true", "false"], 500),
        }
    )
    public = public.with_columns(pl.col("day").str.to_date(), pl.col("member") == "true")
    public.write_parquet(tmp_path / "public.parquet")
    table = open_public(str(tmp_path / "public.parquet"))
    many, paired = request.param
    classes = ("no", "yes", "unsure")[:many]
    encoding = Encoding(columns=learn_columns(table, table.names), label="label", classes=classes)
    codes = learn_codes([cast_rows(public, encoding)], encoding.columns, coarse=8)
    if paired:
        codes = with_pairs(codes, codes.of(cast_rows(public, encoding)), FINER)
    columns = 1 if len(classes) == 2 else len(classes)
    decoded = Decoded(
        weights=rng.normal(size=(codes.size, columns)),
        intercept=rng.normal(size=columns),
        units=500.0,
        prior=np.full(columns, 0.1),
        importance=np.zeros(len(codes.fields)),
        spread=np.zeros((len(codes.weighed) + 1, columns)),
        kappa=np.ones(columns),
        moved=0.0,
    )
    for at in set(codes.coarse) - set(codes.fine):
        decoded.weights[codes.fields[at].start : codes.fields[at].start + codes.fields[at].size] = 0
    return encoding, codes, decoded


def test_an_exported_example_has_a_cell_of_each_column_s_own_type(world: tuple[Encoding, Codes, Decoded]) -> None:
    """Before, a day was the number 20051.0, which the example's reader had to know to be days since 1970."""
    encoding, codes, decoded = world
    row = {name: eval(value) for name, value in example_row(linear_student(decoded, encoding, codes)).items()}
    assert date.fromisoformat(row.pop("day")).year in range(2010, 2030)
    assert {name: type(cell) for name, cell in row.items()} == {"size": float, "shade": str, "member": bool}


def test_odd_cells_have_the_codes_of_private_ones(world: tuple[Encoding, Codes, Decoded]) -> None:
    encoding, codes, decoded = world
    student = linear_student(decoded, encoding, codes)
    expected = codes.of(cast_rows(ODD, encoding))
    for frame in (ODD, ODD.to_pandas()):
        assert student[:-1].transform(frame).tolist() == expected[:, list(codes.weighed)].tolist()
        assert np.allclose(student.predict_proba(frame), scores(decoded, expected))
        at_odds = at_point(student, "prior-odds").predict(frame)
        assert at_odds.tolist() == np.array(encoding.classes)[odds_scores(decoded, expected).argmax(axis=1)].tolist()
        student.set_params(student__point="default")
    with pytest.raises(ValueError, match="point must be one of"):
        student.set_params(student__point="odd").predict(ODD)


@pytest.mark.parametrize("world", [(2, False)], indirect=True)
def test_a_number_is_its_place_between_its_bounds(world: tuple[Encoding, Codes, Decoded]) -> None:
    encoding, codes, decoded = world
    number = encoding.model_copy(update={"classes": (), "bounds": (-3.0, 7.0)})
    student = load(dump(linear_student(decoded, number, codes)))
    place = scores(decoded, codes.of(cast_rows(ODD, encoding)))[:, 1]
    assert student.predict(ODD) == pytest.approx(-3 + 10 * place)
    assert not hasattr(student, "classes_")


def test_a_column_may_have_any_name(world: tuple[Encoding, Codes, Decoded]) -> None:
    """Two underscores, or the name of a parameter of scikit-learn's, ended a run after all was spent."""
    encoding, codes, decoded = world
    other = dict(zip(encoding.features, ("a__b", "a_b", "remainder", "transformers"), strict=True))
    columns = tuple(column.model_copy(update={"name": other[column.name]}) for column in encoding.columns)
    fields = tuple(
        field.model_copy(update={"name": other[field.name]}) if field.name in other else field for field in codes.fields
    )
    renamed = linear_student(
        decoded, encoding.model_copy(update={"columns": columns}), codes.model_copy(update={"fields": fields})
    )
    expected = linear_student(decoded, encoding, codes).predict_proba(ODD)
    assert renamed.predict_proba(ODD.rename(other)).tobytes() == expected.tobytes()


@pytest.mark.slow
def test_its_file_is_loaded_where_concord_is_not(world: tuple[Encoding, Codes, Decoded], tmp_path: Path) -> None:
    encoding, codes, decoded = world
    student = linear_student(decoded, encoding, codes)
    file = dump(student)
    assert dump(load(file)) == file
    assert (explained_scorecard(student) is None) == bool(codes.pairs)
    assert modules_needed(trusted_types(file)) == [
        data_concord_student,
        student_concord_published,
        student_concord_tallied,
    ]
    (tmp_path / "student.skops").write_bytes(file)
    for module in (data_concord_student, student_concord_published, student_concord_tallied):
        (tmp_path / Path(str(module.__file__)).name).write_bytes(Path(str(module.__file__)).read_bytes())
    ODD.to_pandas().to_json(tmp_path / "rows.json")
    alone = (
        "import sys, skops.io, pandas\n"
        "trusted = skops.io.get_untrusted_types(file='student.skops')\n"
        "student = skops.io.load('student.skops', trusted=trusted)\n"
        "assert 'concord' not in sys.modules\n"
        "rows = pandas.DataFrame({'size': [1.0], 'shade': ['dark'], 'day': ['2020-01-01'], 'member': ['true']})\n"
        "print(student.predict(rows)[0])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", alone], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    rows: Any = pd.DataFrame({"size": [1.0], "shade": ["dark"], "day": ["2020-01-01"], "member": ["true"]})
    assert ended.stdout.strip() == student.predict(rows)[0]
