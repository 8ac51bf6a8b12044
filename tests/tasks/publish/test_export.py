"""An exported student: a folder that needs nothing of Concord, and a graph that says what scikit-learn says."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.console import concord
from tests.support.encodings import EVERY
from tests.support.processes import own_environment
from tests.support.published import SESSION, World
from tests.support.refusing import REFUSE
from tests.support.sentences import says


@pytest.fixture(scope="module")
def exported(small: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "classifier"
    status, printed, _ = concord("export", SESSION, "--to", str(folder), "--home", str(small.home), "--json")
    assert status == 0
    answer = json.loads(printed)
    assert set(answer["files"]) == {path.name for path in folder.iterdir()}
    return folder


def student_of(small: World) -> Any:
    return world.load((small.released.root / SESSION / "student.skops").read_bytes(), "sklearn")


def python(folder: Path, program: str) -> str:
    """What a program prints in that folder, where Concord and what only it needs cannot be imported."""
    command = [sys.executable, "-W", "ignore", "-c", REFUSE + program]
    environment = {**own_environment(), "PYTHONPATH": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_form_is_written_for_every_student_that_it_suits_and_for_no_other(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        world.EXPORT_FORMS,
        "suiting",
        world.ExportForm("open `it`", lambda *_: True, lambda *_: {"suiting": b"as it is"}),
    )
    monkeypatch.setitem(
        world.EXPORT_FORMS, "other", world.ExportForm("open `it`", lambda *_: False, lambda *_: {"other": b"as it is"})
    )
    folder = tmp_path / "to"
    status, printed, _ = concord("export", SESSION, "--to", str(folder), "--home", str(small.home), "--json")
    answer = json.loads(printed)
    assert (status, answer["forms"]["suiting"], "other" in answer["forms"]) == (0, ["suiting"], False)
    assert (folder / "suiting").read_bytes() == b"as it is"
    assert "- suiting: open `it`\n" in (folder / "MODEL_CARD.md").read_text()
    assert set(world.flows_api.export(SESSION, tmp_path / "api", home=small.home)) == {
        path.name for path in folder.iterdir()
    }


def test_it_verifies_and_says_what_is_not_included(exported: Path, tmp_path: Path) -> None:
    checks = world.verify_published(exported)
    assert [check for check in checks if not check.ok] == []
    absent = {
        check.name.split(": ")[1]: check.detail for check in checks if "is not included in an export" in check.detail
    }
    assert absent.keys() == {"files", "released labels", "signature"}
    assert all(check.warning for check in checks if check.detail in absent.values())
    assert "the other 7 files are unchanged since the key" in absent["signature"]
    for name, change in {"student.skops": b"another", "report.html": b"another", "ledger.json": None}.items():
        copy = Path(shutil.copytree(exported, tmp_path / name))
        (copy / name).unlink() if change is None else (copy / name).write_bytes(change)
        assert [check for check in world.verify_published(copy) if not check.ok and name in check.detail]


def test_its_example_of_six_lines_predicts_with_scikit_learn_alone_what_is_predicted_here(
    small: World, exported: Path
) -> None:
    assert len([line for line in (exported / "example.py").read_text().splitlines() if line]) == 6
    program = f"import runpy, pandas; model = runpy.run_path('example.py')['student']; path = {str(small.home)!r}"
    ask = "; print(*model.predict(pandas.read_parquet(path + '/public.parquet')))"
    example, answer = python(exported, program + ask).splitlines()
    row = {name: eval(value) for name, value in world.example_row(student_of(small)).items()}
    (expected,) = student_of(small).predict(pl.DataFrame([row]))
    assert example == f"['{expected}']"
    assert answer.split() == student_of(small).predict(small.rows).tolist()
    assert len(set(answer.split())) == 2


def test_a_threshold_of_a_class_that_is_never_named_goes_with_it(small: World, tmp_path: Path) -> None:
    """Whoever had only the export was told of a command that it does not have, and of no threshold."""
    folder = small.released.root / SESSION
    certificate = world.Certificate.read((folder / "certificate.json").read_bytes(), "certificate.json")
    half = world.Estimate(value=0.5, low=0.25, high=0.75)
    thresholds = tuple(
        world.Threshold(name=name, least=0.125, recall=half, precision=half) for name in ("yes", "a\nprint(1)")
    )
    test = certificate.student.public_test
    assert test is not None
    learned = certificate.student.model_copy(update={"public_test": test.model_copy(update={"thresholds": thresholds})})
    published = world.PublishedSet(
        certificate.model_copy(update={"learned": learned}), (folder / "student.skops").read_bytes(), {}
    )
    world.export(published, tmp_path / "to")
    program = (tmp_path / "to" / "example.py").read_text()
    assert "print(1)" not in program  # the student knows no such class
    card = (tmp_path / "to" / "MODEL_CARD.md").read_text()
    assert says(card, "yes from 0.125 on", "`example.py`")
    printed = python(tmp_path / "to", "import runpy; runpy.run_path('example.py')").splitlines()
    row = pl.DataFrame([{name: eval(value) for name, value in world.example_row(student_of(small)).items()}])
    assert printed[1] == f"[{student_of(small).predict_proba(row)[0, 1] >= 0.125!s: >5}]"


def test_the_card_says_what_is_promised_and_what_it_takes(exported: Path) -> None:
    card = (exported / "MODEL_CARD.md").read_text()
    assert "ε = 1, δ = 1e-05 for one row" in card
    assert "| size | a number |" in card
    assert "| shade | a category |" in card
    assert world.sha256((exported / "student.skops").read_bytes()) in card
    assert "majority-class baseline" in card


def test_columns_are_told_and_shown_by_their_own_types_in_the_order_of_the_table() -> None:
    """They stood in reverse on the card and in the example."""
    student = world.published_student(EVERY, None)
    columns, row = world.columns_of(student), {name: eval(value) for name, value in world.example_row(student).items()}
    assert [*columns] == [column.name for column in EVERY.columns if column.kind != "null"]
    due = {"word": "a category", "text": "free text", "bytes": "a list of 2 whole numbers from 0 to 255"}
    assert {name: world.holds(columns[name][0]).split(",")[0] for name in due} == due
    assert {len(row[name]) for name in ("bytes", "wave")} == {2}


def test_a_folder_in_use_is_left_alone(small: World, exported: Path) -> None:
    before = files_of(exported)
    status, _, answer = concord("export", SESSION, "--to", str(exported), "--home", str(small.home))
    assert (status, "empty or not there yet" in answer) == (2, True)
    assert files_of(exported) == before


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, but for what Python keeps beside a module that it has imported."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_what_is_not_there_or_not_what_was_published_is_told(small: World, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("certificate.json", "student.skops", "attestation.json", "key.pem"):
        (copy / name).write_bytes((small.released.root / SESSION / name).read_bytes())
    status, printed, _ = concord("export", str(copy), "--to", str(tmp_path / "out"))
    assert (status, "student.skops" in printed) == (0, True)
    (copy / "student.skops").write_bytes(b"another")
    assert concord("export", str(copy), "--to", str(tmp_path / "other"))[0] == 4
    assert concord("export", "nothing-1", "--to", str(tmp_path / "other"), "--home", str(small.home))[0] == 2
    assert not (tmp_path / "other").exists()


def test_what_of_ours_travels_with_a_student_is_no_package_to_install() -> None:
    """Of that name, there may be another's. What a stranger's certificate calls the estimator names none either."""
    types = [
        f"{part.NAME}.{name}"
        for part, name in ((world.data_concord_student, "Cells"), (world.data_concord_pictures, "Pictures"))
    ]
    needed = world._needed(["numpy.dtype", "sklearn.tree._tree.Tree", *types], world.modules_needed(types))
    assert needed == ["numpy", "pandas", "scikit-learn", "scipy", "skops"]
