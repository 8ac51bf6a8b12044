"""Every field of every published record, of every kind of release, is checked without the home: each is edited or
removed, lists are cut, and keys added. What may be changed is listed with the reason (every_record.py, DRAWN).

The folder is written as its publisher would write it, with the digest of the edited file in the certificate, as anyone
can who signs it by a key of their own.
"""

import io
import json
import random
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests import world
from tests.promises.kinds import KINDS, TESTING, Kind
from tests.support.at_door import files_of, opened
from tests.support.edited import LAST_MODEL, MODEL, missed
from tests.support.made import keep, made
from tests.support.published import World
from tests.support.recorded import RECORDED
from tests.support.sums import SCHEMA
from tests.tasks.verify.every_record import every_edit, kept

SUMS = {"sums.*", "sums.*.*"}
DRAWN: dict[str, set[str]] = {
    "tallies": SUMS | MODEL | LAST_MODEL,
    "sketch": SUMS | MODEL | LAST_MODEL | {"schema.columns shortened"},  # the last has one value, and so no cell
    "stream": SUMS | MODEL | LAST_MODEL,
    "hypothesis": {"classes.*", *(f"hypothesis.{name}" for name in ("columns.*", "low.*", "high.*", "inside"))},
}
"""What was drawn, or decoded from it and public or synthetic rows, so that nobody can tell another value of it: of a
student, these are compared with it (test_student_as_released)."""


def folder_of(kind: Kind, home: Path) -> Path:
    """What a session of that kind publishes."""
    kind.prepare(home)
    kind.ask(home)
    stores = world.Stores.of(home)
    world.certify_answers("d-1", stores)
    return stores.released.root / "d-1"


def faults(folder: Path) -> str:
    """What is wrong with the released files of the folder's session."""
    (check,) = (each for each in world.verify_published(folder) if each.name == "d-1: released labels")
    return "" if check.ok else check.detail


TEST = world.calibrated_test(epsilon=2.0, delta=1e-5, classes=0, secret="rows")
ABOUT_NUMBER = {**TESTING, "bounds": [10.0, 60.0], "constant": 23.4}
OF_A_NUMBER = world.StudentTestAsk(TEST, ABOUT_NUMBER, ())


def prepare_number(home: Path, ask: world.StudentTestAsk = OF_A_NUMBER) -> None:
    """Open a test of a student that predicts a number, in a new home."""
    opened(world.Stores.of(home), ask)


def ask_number(
    home: Path,
    other: bool = False,  # noqa: ARG001, as every kind
    ask: world.StudentTestAsk = OF_A_NUMBER,
) -> None:
    door = world.Stores.of(home)
    counted = keep(
        door.vault,
        "counts/d/counted",
        np.arange(800, 0, -50).tobytes(),
        made(part="test", form="counts", question="number_errors"),
    )
    files_of(door, opened(door, ask), ask, [counted])


def test_a_test_of_units_that_nobody_set_aside_is_not_clean(tmp_path: Path) -> None:
    ask = world.StudentTestAsk(TEST, {**ABOUT_NUMBER, "clean": True}, ())
    clean = Kind("clean", partial(prepare_number, ask=ask), partial(ask_number, ask=ask))
    checks = world.verify_published(folder_of(clean, tmp_path / "home"))
    assert [check.name for check in checks if not check.ok] == ["d-1: ledger excerpt"]
    assert "what the clean test d-1" in str(checks)


CERTIFIED = [
    *(kind for kind in KINDS if kind.name != "estimate"),
    Kind("test of a number", prepare_number, ask_number),
]


def test_an_estimate_alone_is_never_certified(tmp_path: Path) -> None:
    with pytest.raises(world.NotVerified, match="session d-1 is an estimate, which no certificate states"):
        folder_of(next(kind for kind in KINDS if kind.name == "estimate"), tmp_path / "home")


@pytest.fixture(scope="module", params=CERTIFIED, ids=lambda kind: str(kind.name))
def certified(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Kind, Path]:
    """A kind, and what a session of it publishes. Each test puts back what it changes."""
    return request.param, folder_of(request.param, tmp_path_factory.mktemp("certified") / "home")


def test_an_edit_of_any_field_is_found(certified: tuple[Kind, Path]) -> None:
    kind, folder = certified
    assert faults(folder) == ""
    record, places = world.PublishedSession.at(folder).certificate.leading, set[str]()
    assert record.files
    for file in record.files:
        places |= {*missed(folder, file.path)}
    assert (places - DRAWN.get(kind.name, set()), faults(folder)) == (set(), "")


SAMPLE = 13
"""Edits of the records of each kind that are taken, if not every one is."""


def unrefused(folder: Path, name: str, every: bool, test: str | None = None) -> dict[str, list[str]]:
    """The edits of records beside released files that are found by none of the checks that should, with those that
    fail."""
    assert [check for check in world.verify_published(folder, test) if not check.ok] == []
    edits, wrong = [*every_edit(folder)], dict[str, list[str]]()
    for edit in edits if every else random.Random(name).sample(edits, SAMPLE):
        with kept(folder):
            edit.write(folder)
            failed = {check.name.rpartition(": ")[2] for check in world.verify_published(folder, test) if not check.ok}
        if not (edit.checks & failed or (edit.may_pass and not failed)):
            wrong[f"{edit.record}: {edit.place}"] = sorted(failed)
    return wrong


def test_an_edit_of_any_field_of_certificate_excerpt_or_statement_is_found(
    certified: tuple[Kind, Path], exhaustive: bool
) -> None:
    assert unrefused(certified[1], certified[0].name, exhaustive) == {}


def test_so_it_is_where_a_student_was_learned_and_measured(home: World, folder: Path, exhaustive: bool) -> None:
    assert unrefused(folder, "student", exhaustive, home.plan.path("test")) == {}


def name_also(folder: Path, name: str, data: bytes) -> None:
    """Publish a file with the session's own, or in place of one, and name it in the certificate."""
    (folder / name).write_bytes(data)
    file = folder / "certificate.json"
    values: dict[str, Any] = json.loads(file.read_text())
    named = {each["path"]: each["digest"] for each in values["sessions"][0]["files"]} | {
        f"d-1/{name}": world.sha256(data)
    }
    values["sessions"][0]["files"] = [{"path": path, "digest": digest} for path, digest in named.items()]
    file.write_text(world.Certificate.model_validate(values).model_dump_json(indent=2))


def test_a_file_that_no_such_session_releases_is_found(certified: tuple[Kind, Path]) -> None:
    folder, certificate = certified[1], (certified[1] / "certificate.json").read_bytes()
    for name in ("synthetic.parquet", "labels.arrow", "more.json"):
        assert not (folder / name).exists()
        name_also(folder, name, b"whatever a home holds")
        assert faults(folder) != "", name
        (folder / name).unlink()
        (folder / "certificate.json").write_bytes(certificate)
    assert faults(folder) == ""


CLASSES = ("no", "yes")


@pytest.fixture(scope="module")
def sketched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """The folder of a sketch with its synthetic rows, and these. Each test writes its own in their place."""
    home = tmp_path_factory.mktemp("sketched") / "home"
    folder = folder_of(next(kind for kind in CERTIFIED if kind.name == "sketch"), home)
    steps = [json.loads(file.read_text()) for file in sorted((folder / "rounds").iterdir())]
    whole, record = (at := world.PublishedSession.at(folder).certificate).guarantee, at.leading
    claim = {name: repr(getattr(record.guarantee, name)) for name in ("epsilon", "delta")}
    claim |= {"session": record.session, "unit": whole.unit, "neighbours": whole.neighbours, "mechanism": "sketch"}
    data = world.synthetic_file(SCHEMA, steps, world.Encoding(columns=(), label="class", classes=CLASSES), claim)
    name_also(folder, "synthetic.parquet", data)
    assert faults(folder) == ""
    return folder, pq.read_table(io.BytesIO(data))


def with_column(rows: pa.Table, name: str, cells: pa.Array) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, cells)


def with_metadata(rows: pa.Table, name: bytes, value: bytes) -> pa.Table:
    return rows.replace_schema_metadata({**rows.schema.metadata, name: value})


def flipped(rows: pa.Table, flips: pa.Array) -> pa.Table:
    """With the other class in these rows."""
    other = pc.if_else(pc.equal(rows["class"], CLASSES[0]), *CLASSES[::-1])
    return with_column(rows, "class", pc.if_else(flips, other, rows["class"]))


STUDENTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "none": (lambda _: None, ""),
    "other names": (lambda made: made["student"].set_params(classes=CLASSES[::-1]).fit(), "class . of the student"),
    "names after a fit": (lambda made: made["student"].set_params(classes=CLASSES[::-1]), "classes of the student"),
    "the point for rare classes": (lambda made: made["student"].set_params(point="prior odds"), "the operating point"),
    "other cuts": (
        lambda made: made["encode"].named_transformers_["visits"]["code"].set_params(cuts=[4.5]),
        "how the student codes 'visits'",
    ),
}


@pytest.mark.parametrize("edit", STUDENTS)
def test_student_as_released(sketched: tuple[Path, pa.Table], tmp_path: Path, edit: str) -> None:
    """The names of its classes, its codes and its operating point are those that were released, as its weights are."""
    folder, (change, fault) = Path(shutil.copytree(sketched[0], tmp_path / "d-1")), STUDENTS[edit]
    steps = [json.loads(file.read_text()) for file in sorted((folder / "rounds").iterdir())]
    codes = next(step["next"]["codes"] for step in steps if step["next"] and "codes" in step["next"])
    columns = world.as_declared(world.reading_columns(SCHEMA), SCHEMA)
    encoding = world.Encoding(columns=columns, label="class", classes=CLASSES)
    decoded = world.Decoded.from_record(steps[-1]["decoded"])
    student = world.linear_student(decoded, encoding, codes := world.Codes.model_validate(codes))
    change(student)
    claim = {key.decode(): value.decode() for key, value in sketched[1].schema.metadata.items() if key != b"what"}
    rows = np.column_stack([field.start + np.arange(40, dtype=np.int32) % field.size for field in codes.fields])
    name_also(folder, "labels.arrow", b"".join(world.inferred(decoded, [rows], encoding, claim)))
    (folder / "student.skops").write_bytes(file := world.dump(student))
    record: dict[str, Any] = {"estimator": "concord_tallied.Tallied", "params": {}, "refused": None, "accuracy": None}
    values = json.loads((folder / "certificate.json").read_text())
    values["student"] = {**record, "file": {"path": "d-1/student.skops", "digest": world.sha256(file)}}
    (folder / "certificate.json").write_text(world.Certificate.model_validate(values).model_dump_json(indent=2))
    with pytest.raises(world.NotVerified, match=fault) if fault else nullcontext():
        world.student_as_released(world.PublishedSession.at(folder))


EDITED: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "another column": (lambda rows: rows.add_column(0, "name", [["x"] * len(rows)]), "columns of synthetic rows"),
    "other values": (lambda rows: with_column(rows, "shade", rows["shade"][::-1]), "values of synthetic rows"),
    "blanks around words": (
        lambda rows: with_column(rows, "shade", pa.array([word and f"{word} " for word in rows["shade"].to_pylist()])),
        "values of synthetic rows",
    ),
    "as text": (lambda rows: with_column(rows, "visits", rows["visits"].cast(pa.string())), "types of synthetic rows"),
    "some other labels": (lambda rows: flipped(rows, pa.array(np.arange(len(rows)) % 2 == 1)), "largest score"),
    "one class": (lambda rows: with_column(rows, "class", pa.array(["no"] * len(rows))), "number of classes"),
    "other probabilities": (
        lambda rows: with_column(rows, "probability of this class", pa.array(np.linspace(0, 1, len(rows)).round(4))),
        "probabilities in",
    ),
    "digits that say more": (
        lambda rows: with_column(
            rows, "probability of this class", pa.array(rows["probability of this class"].to_numpy() + 1e-6)
        ),
        "probabilities in",
    ),
    "no probabilities": (lambda rows: rows.drop_columns("probability of this class"), "columns of synthetic rows"),
    "the claim of another session": (lambda rows: with_metadata(rows, b"session", b"d-2"), "the claim in"),
    "no word that they are synthetic": (lambda rows: with_metadata(rows, b"what", b"rows"), "the claim in"),
}


@pytest.mark.parametrize("edit", EDITED)
def test_edited_synthetic_rows_are_found(sketched: tuple[Path, pa.Table], edit: str) -> None:
    (folder, rows), (change, fault) = sketched, EDITED[edit]
    sink = io.BytesIO()
    pq.write_table(change(rows), sink, compression="none")
    name_also(folder, "synthetic.parquet", sink.getvalue())
    assert fault in faults(folder)


@pytest.mark.parametrize(
    "how", [{"compression": "gzip"}, {"row_group_size": 7}, {"version": "1.0"}, {"store_schema": False}]
)
def test_synthetic_rows_in_another_file_are_found(sketched: tuple[Path, pa.Table], how: dict[str, Any]) -> None:
    """The same rows: what a writer chooses can hold anything else."""
    (folder, rows), sink = sketched, io.BytesIO()
    pq.write_table(rows, sink, **how)
    name_also(folder, "synthetic.parquet", sink.getvalue())
    assert "holds its rows alone" in faults(folder)


def test_a_sketch_without_synthetic_rows_is_found(sketched: tuple[Path, pa.Table], tmp_path: Path) -> None:
    """No row has other shares than the released tables, and none has another label than is inferred."""
    folder, rows = shutil.copytree(sketched[0], tmp_path / "d-1"), sketched[1]
    for file in (folder / "rounds").iterdir():
        step = json.loads(file.read_text())
        if "synthetic" in step:
            name_also(
                folder, f"rounds/{file.name}", world.canonical_json({**step, "synthetic": {"cells": ""}}).encode()
            )
    sink = io.BytesIO()
    pq.write_table(rows.slice(0, 0), sink, compression="none")
    name_also(folder, "synthetic.parquet", sink.getvalue())
    assert "has no synthetic rows" in faults(folder)


SURE = [[-2.0], [2.0]]
PLACES = (1 / (1 + np.exp([2.0, -2.0]))).tolist()
CELLS, TIED = b"cells", [[-30.0], [30.0], [0.0]]
TOLD = ["no", "yes", CLASSES[int(world.label_points(3, CELLS)[2] >= 0.5)]]
LABELLED: dict[str, tuple[list[list[float]], tuple[float, float] | None, list[Any], str]] = {
    "classes": (TIED, None, TOLD, ""),
    "a name where classes are equally likely": (TIED, None, [*TOLD[:2], "somebody"], "largest score"),
    "the class that was not drawn": (TIED, None, [*TOLD[:2], *({*CLASSES} - {TOLD[2]})], "largest score"),
    "none where classes are equally likely": (TIED, None, [*TOLD[:2], None], "largest score"),
    "classes by number": (TIED, None, [0, 1, 1], "type of labels"),
    "numbers": (SURE, (0.0, 100.0), [100 * place for place in PLACES], ""),
    "numbers far from 0": (SURE, (1e15, 1e15 + 1), [1e15 + place for place in PLACES], ""),
    "numbers whose last digits say more": (SURE, (0.0, 100.0), [100 * place + 5e-4 for place in PLACES], "not those"),
    "numbers as text": (SURE, (0.0, 100.0), ["1", "2"], "type of labels"),
    "numbers at the bounds": ([[-800.0], [800.0]], (0.0, 100.0), [0.0, 100.0], ""),
}


@pytest.mark.parametrize("edit", LABELLED)
def test_labels_of_synthetic_rows_are_those_of_the_model_and_nothing_else(edit: str) -> None:
    weights, bounds, labels, fault = LABELLED[edit]
    rows = pa.table({"class": labels} | ({} if bounds else {"probability of this class": [1.0, 1.0, 0.5]}))
    pq.write_table(rows.replace_schema_metadata({"what": world.SYNTHETIC}), sink := io.BytesIO(), compression="none")
    settings = {**RECORDED["tallies"], "classes": 0 if bounds else 2, "bounds": bounds}
    given: Any = SimpleNamespace(
        model=SimpleNamespace(weights=weights, intercept=[0.0]),
        folder=SimpleNamespace(named=lambda _: sink.getvalue(), certificate=SimpleNamespace(guarantee=Mock())),
        record=Mock(session="d-1", mechanism=Mock(settings=settings)),
    )
    table = world.LabelTable(given.record, given.folder)
    table.claim, ref = {}, world.Ref(path="d-1/synthetic.parquet", digest="0" * 64)
    codes = np.arange(len(labels), dtype=np.int32)[:, None]
    with nullcontext() if fault == "" else pytest.raises(world.NotVerified, match=fault):
        table.check_synthetic(ref, codes, given.model, CELLS)
