"""Files of earlier versions name types by their former modules, and still load."""

import io
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import load_plan
from concord.tasks.asking.teachers import Teacher, add_votes, load_teachers
from concord.tasks.data.cells import cast_rows
from concord.tasks.data.encode import encode, learn_encoding
from concord.tasks.student.concord_student import ScoreClassifier
from concord.tasks.student.model import Encode, dump, is_older, load, published_student
from concord.tasks.student.trust import trusted_types
from tests.support.people import people, write_plan, write_tables

LOGISTIC, RIDGE = "sklearn.linear_model.LogisticRegression", "sklearn.linear_model.Ridge"
ENCODE, SCORES = "concord.tasks.student.model", "concord_student"
THEN = {
    "0.1.0": {ENCODE: "tasks.encode", SCORES: "tasks.student"},
    "0.2.0": {ENCODE: "concord.tasks.data.encode", SCORES: "concord.tasks.student.model"},
}
"""Where `Encode` and `ScoreClassifier` are, and were."""


def older(file: bytes, moved: dict[str, str]) -> bytes:
    """A student's file with its types under other modules."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    names = "|".join(moved).encode()
    renamed = re.sub(rb'"(%b)"' % names, lambda found: f'"{moved[found[1].decode()]}"'.encode(), parts["schema.json"])
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, part in (parts | {"schema.json": renamed}).items():
            archive.writestr(name, part)
    return whole.getvalue()


def fitted(estimator: str, X: Any, y: Any) -> Any:
    if estimator == RIDGE:
        return ScoreClassifier(Ridge(), ["no", "yes"]).fit(X, np.eye(2)[y])
    return LogisticRegression().fit(X, np.array(["no", "yes"])[y])


@pytest.mark.parametrize("version", THEN)
@pytest.mark.parametrize("estimator", [LOGISTIC, RIDGE])
def test_an_older_student_predicts_as_it_did(tmp_path: Path, version: str, estimator: str) -> None:
    write_tables(tmp_path)
    encoding = learn_encoding(load_plan(write_plan(tmp_path)))
    rows = people(60, 3)
    X = encode(cast_rows(rows, encoding), encoding)
    learned = fitted(estimator, X, (rows["outcome"] == "yes").to_numpy().astype(int))
    began = Pipeline([("encode", Encode(encoding.model_dump_json())), ("student", learned)])
    old = older(dump(began), THEN[version])
    assert THEN[version][ENCODE].encode() in zipfile.ZipFile(io.BytesIO(old)).read("schema.json")
    assert is_older(old)
    again, public = load(old), rows.drop("outcome")
    assert (again.predict(public) == learned.predict(X)).all()
    assert dump(again) == dump(published_student(encoding, learned))


def test_todays_student_is_no_older_one(tmp_path: Path) -> None:
    write_tables(tmp_path)
    file = dump(published_student(learn_encoding(load_plan(write_plan(tmp_path))), LogisticRegression()))
    assert not is_older(file)
    assert {name.split(".")[0] for name in trusted_types(file)} <= {"concord_student", "numpy", "sklearn"}


def test_a_type_that_was_never_ours_is_refused_by_its_old_name_too() -> None:
    file = dump(Pipeline([("encode", Encode("{}"))]))
    with pytest.raises(NotVerified, match=r"tasks\.other"):
        load(older(file, {ENCODE: "tasks.other"}))


def test_teachers_of_0_1_0_vote_as_they_did(tmp_path: Path) -> None:
    teacher = Teacher(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), 0)
    text = pickle.dumps([teacher], protocol=0)
    vault = Vault(tmp_path / "vault")
    refs = []
    for name, content in {"new": text, "old": text.replace(b"concord.tasks.asking.teachers", b"tasks.teach")}.items():
        with vault.create(name) as sink:
            sink.write(content)
        refs.append(sink.ref)
    assert refs[0].digest != refs[1].digest
    for ref in refs:
        add_votes(counts := np.zeros((2, 2), dtype=np.uint32), load_teachers(ref, vault), np.array([[0.0], [1.0]]))
        assert counts.tolist() == [[1, 0], [0, 1]]
