"""Files of version 0.1.0 name types by where they were then; they load as they did."""

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.home.whole import MOVED
from concord.artifacts.plan import load_plan
from concord.artifacts.schemas import Encoding
from concord.tasks.asking.teachers import Teacher, load_teachers
from concord.tasks.data.encode import Encode, Matrix, learn_encoding
from concord.tasks.student.model import dump, load
from tests.support.people import people, write_plan, write_tables

LOGISTIC = "sklearn.linear_model.LogisticRegression"


def older(file: bytes) -> bytes:
    """A student's file as version 0.1.0 named its types."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for before, now in MOVED.items():
        parts["schema.json"] = parts["schema.json"].replace(f'"{now}"'.encode(), f'"{before}"'.encode())
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return whole.getvalue()


def test_a_student_of_0_1_0_predicts_as_it_did(tmp_path: Path) -> None:
    write_tables(tmp_path)
    encoding = learn_encoding(load_plan(write_plan(tmp_path)))
    rows = people(60, 3)
    truth = (rows["outcome"] == "yes").to_numpy()
    learned = LogisticRegression().fit(encode_of(rows, encoding), truth)
    file = dump(Pipeline([("encode", Encode(encoding.model_dump_json())), ("student", learned)]))
    old = older(file)
    assert b"tasks.encode" in zipfile.ZipFile(io.BytesIO(old)).read("schema.json")
    public = rows.drop("outcome")
    assert (load(old, LOGISTIC).predict(public) == load(file, LOGISTIC).predict(public)).all()


def encode_of(rows: pl.DataFrame, encoding: Encoding) -> Matrix:
    return Encode(encoding.model_dump_json()).transform(rows)


def test_a_type_that_was_never_ours_is_refused_by_its_old_name_too() -> None:
    file = dump(Pipeline([("encode", Encode("{}"))]))
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        schema = archive.read("schema.json").replace(b'"concord.tasks.data.encode"', b'"tasks.other"')
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("schema.json", schema)
    with pytest.raises(NotVerified, match=r"tasks\.other"):
        load(whole.getvalue(), LOGISTIC)


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
    votes = [load_teachers(ref, vault)[0].votes(np.array([[0.0], [1.0]]), 2).tolist() for ref in refs]
    assert votes == [[0, 1], [0, 1]]
