"""One law of every published student, over a table of kinds: its file has one form; it says the same wherever it is
loaded, also without Concord, under any names of columns; and the files that travel with it import nothing of ours.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io

from tests import world
from tests.support.refusing import REFUSE
from tests.support.students import ODD, STUDENTS, codes_of, drawn_model, encoding_of, of_pictures, public_rows

pytestmark = pytest.mark.filterwarnings("ignore:column")  # odd cells count as missing
NAMES = {"size": "a__b", "shade": "a_b", "day": "remainder", "member": "transformers"}
"""Two underscores, or the name of a parameter of scikit-learn's, once ended a run after all was spent."""
TRAVELLING = (
    world.data_concord_student,
    world.student_concord_published,
    world.student_concord_tallied,
    world.data_concord_pictures,
)


@pytest.fixture(scope="module", params=STUDENTS)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a kind of student."""
    return str(request.param)


@pytest.fixture(scope="module")
def student(kind: str) -> Any:
    """One of that kind."""
    return STUDENTS[kind](public_rows())


def answers(student: Any, rows: Any) -> list[bytes]:
    """What it says of rows, to the bit."""
    said = [student.predict(rows)]
    if hasattr(student, "predict_proba"):
        said.append(student.predict_proba(rows))
    return [each.tobytes() if each.dtype != object else json.dumps(each.tolist()).encode() for each in said]


def test_its_file_has_one_form_and_what_is_loaded_says_the_same(kind: str, student: Any) -> None:
    """Also after it has predicted: scikit-learn keeps addresses, by which no two runs published the same bytes."""
    file, said = world.dump(student), answers(student, ODD)
    loaded = world.load(file)
    assert said == answers(student, ODD.to_pandas()) == answers(loaded, ODD) == answers(loaded, ODD.to_pandas())
    assert file == world.dump(loaded) == world.dump(student) == world.dump(STUDENTS[kind](public_rows()))
    assert world.canonical_file(skops.io.dumps(loaded)) == file


def test_a_column_may_have_any_name(kind: str, student: Any) -> None:
    renamed = STUDENTS[kind](public_rows().rename(NAMES))
    assert answers(renamed, ODD.rename(NAMES)) == answers(student, ODD)
    with pytest.raises(ValueError, match="remainder"):
        renamed.predict(ODD.rename(NAMES).drop("remainder"))


ALONE = (
    REFUSE
    + """
import json, pathlib, warnings, pandas, skops.io
warnings.simplefilter("ignore")
said = {}
for file in sorted(pathlib.Path().glob("*.skops")):
    student = skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file))
    rows = pandas.read_json(file.with_suffix(".json"), dtype=False, convert_dates=False)
    said[file.stem] = student.predict(rows).tolist()
print(json.dumps(said))
"""
)


def test_every_kind_is_loaded_where_concord_is_not(tmp_path: Path) -> None:
    """By the files that are published with it, beside scikit-learn and skops."""
    rows = ODD[[0, 3, 4, 5, 6]]  # JSON has neither numbers that are none nor endless ones
    students = {kind: (make(public_rows()), rows) for kind, make in STUDENTS.items()} | {"pictures": of_pictures()}
    for kind, (student, asked) in students.items():
        (tmp_path / f"{kind}.skops").write_bytes(file := world.dump(student))
        asked.to_pandas().to_json(tmp_path / f"{kind}.json")
        for module in world.modules_needed(world.trusted_types(file)):
            (tmp_path / Path(str(module.__file__)).name).write_bytes(Path(str(module.__file__)).read_bytes())
    command = [sys.executable, "-c", ALONE]
    printed = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, timeout=300).stdout
    assert json.loads(printed) == {kind: each.predict(asked).tolist() for kind, (each, asked) in students.items()}


@pytest.mark.parametrize("module", TRAVELLING, ids=lambda module: module.NAME)
def test_a_file_that_travels_imports_nothing_of_ours(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name.split(".")[0] for name in names} - sys.stdlib_module_names
    assert others <= {"numpy", "sklearn", "scipy"}
    assert Path(module.__file__).stem == module.NAME
    own = [part for part in vars(module).values() if isinstance(part, type) and part.__module__ == module.NAME]
    assert own or module is world.data_concord_pictures


@pytest.mark.parametrize(("classes", "paired"), [(2, False), (3, False), (3, True)])
def test_a_linear_student_reads_odd_cells_as_private_ones_are_read(classes: int, paired: bool) -> None:
    """And says what its model says of their codes, at both points; of a number, its place between its bounds."""
    rows = public_rows()
    encoding = encoding_of(rows, ("no", "yes", "unsure")[:classes])
    codes = codes_of(rows, encoding, paired=paired)
    model, expected = drawn_model(codes, classes if classes > 2 else 1), codes.of(world.cast_rows(ODD, encoding))
    student = world.linear_student(model, encoding, codes)
    assert student[:-1].transform(ODD).tolist() == expected[:, list(codes.weighed)].tolist()
    assert np.allclose(student.predict_proba(ODD), world.scores(model, expected))
    at_odds = world.at_point(student, "prior-odds").predict(ODD)
    assert at_odds.tolist() == np.array(encoding.classes)[world.odds_scores(model, expected).argmax(axis=1)].tolist()
    with pytest.raises(ValueError, match="point must be one of"):
        student.set_params(student__point="odd").predict(ODD)
    if classes == 2:
        number = world.linear_student(model, encoding.model_copy(update={"classes": (), "bounds": (-3.0, 7.0)}), codes)
        assert number.predict(ODD) == pytest.approx(-3 + 10 * world.scores(model, expected)[:, 1])
        assert not hasattr(number, "classes_")


def test_memory_between_the_fields_of_records_is_not_published() -> None:
    records = np.frombuffer(b"\xaa" * 48, dtype=np.dtype([("a", "u1"), ("b", "<i8")], align=True))
    assert b"\xaa" * 48 in skops.io.dumps(records)  # elsewhere the byte may be part of a time
    file = world.dump(records)
    assert file.count(b"\xaa" + bytes(7) + b"\xaa" * 8) == 3
    assert (skops.io.loads(file) == records).all()
