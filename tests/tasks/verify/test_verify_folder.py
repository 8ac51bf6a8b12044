"""What a stranger's folder may hold: files of any size, depth and form are faults that are found."""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.published import SESSION, leading, rewrite
from tests.tasks.verify.signed_folder import faults, sign_again
from tests.world import (
    LARGEST_FOLDER,
    NotVerified,
    PublishedSession,
    labels_schema,
    load,
    table_bytes,
    verify_published,
)


def put(folder: Path, data: bytes) -> None:
    """Publish those bytes as the first labels, by another key."""
    (folder / "labels" / "batch-00000.arrow").write_bytes(data)
    rewrite(folder, lambda values: leading(values)["files"][0].update(digest=hashlib.sha256(data).hexdigest()))
    sign_again(folder)


def of_nothing(rows: int) -> bytes:
    """So many rows of labels, all of them empty."""
    zeros, nothing = pa.py_buffer(bytes(8 * (rows + 1))), pa.array([], pa.int64())
    row = pa.UInt64Array.from_buffers(pa.uint64(), rows, [None, zeros])
    words = pa.StringArray.from_buffers(rows, zeros, pa.py_buffer(b""))
    scores = pa.FixedSizeListArray.from_buffers(pa.list_(pa.int64(), 0), rows, [None], children=[nothing])
    return table_bytes([row, words, words, scores, words], labels_schema(0, {}))


def test_labels_of_more_rows_than_are_counted_are_found(folder: Path) -> None:
    put(folder, of_nothing(1000))
    assert "released labels" in faults(folder)


def with_a_dictionary(table: pa.Table) -> pa.Table:
    return table.set_column(2, "outcome", table["outcome"].dictionary_encode())


def with_another_column(table: pa.Table) -> pa.Table:
    return table.append_column("more", pa.nulls(table.num_rows, pa.null()))


def without_scores(table: pa.Table) -> pa.Table:
    return table.drop_columns(["scores"])


@pytest.mark.parametrize("other", [with_a_dictionary, with_another_column, without_scores])
def test_labels_of_another_form_are_refused(folder: Path, other: Callable[[pa.Table], pa.Table]) -> None:
    table = other(pa.ipc.open_file(folder / "labels" / "batch-00000.arrow").read_all())
    put(folder, table_bytes(table.columns, table.schema))
    assert "released labels" in faults(folder)


def test_a_statement_of_a_terabyte_of_nothing_is_not_read(folder: Path) -> None:
    os.truncate(folder / "attestation.json", 2**40)
    assert "attestation.json holds 1,099,511,627,776 bytes" in str(faults(folder))


def test_a_certificate_of_a_terabyte_of_nothing_is_not_read(folder: Path) -> None:
    os.truncate(folder / "certificate.json", 2**40)
    assert f"of such a file {LARGEST_FOLDER:,} are read" in str(faults(folder))


def test_a_student_is_digested_in_pieces(folder: Path) -> None:
    student = folder / "student.skops"
    os.truncate(student, student.stat().st_size + 2**25)
    assert "student.skops is not the one" in faults(folder)["files"]


@pytest.mark.parametrize(
    ("change", "found"),
    [({"more": "names of patients"}, True), ({"_skops_version": "0.1", "of that version": 1}, False)],
    ids=["more", "an earlier library's"],
)
def test_a_student_with_more_in_its_file_is_found(folder: Path, change: dict[str, Any], found: bool) -> None:
    """Loading passes over keys that it does not know; libraries of another version than the student was written by may
    write it otherwise."""
    file = folder / "student.skops"
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["schema.json"] = json.dumps(json.loads(parts["schema.json"]) | change).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    rewrite(folder, lambda values: values["student"]["file"].update(digest=digest))
    rewrite(folder, lambda values: [each.update(digest=digest) for each in leading(values)["files"][-1:]])
    sign_again(folder)
    assert ("holds more than the student" in faults(folder).get("student", "")) == found


@pytest.mark.parametrize("name", ["labels", "student.skops"])
def test_what_lies_behind_a_link_is_missing(folder: Path, tmp_path: Path, name: str) -> None:
    """A folder that is a link led out of the published set."""
    elsewhere = tmp_path / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    assert "is missing" in str(faults(folder))


def test_a_folder_may_be_reached_by_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / SESSION).symlink_to(folder)
    assert not faults(tmp_path / "link" / SESSION)


def test_a_folder_too_deep_to_be_listed_is_named_and_hides_no_fault(folder: Path) -> None:
    (folder / "report.html").write_bytes(b"another")
    inside = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=inside)
        inside, outer = os.open("x" * 200, os.O_RDONLY, dir_fd=inside), inside
        os.close(outer)
    os.close(inside)
    checks = {check.name.removeprefix(f"{SESSION}: "): check for check in verify_published(folder)}
    assert not checks["signature"].ok
    assert "not signed with the rest: people-1/xxx" in checks["other files"].detail


def test_a_student_that_unpacks_to_more_than_it_is_is_not_unpacked(folder: Path) -> None:
    whole = BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", bytes(2**22))
    with pytest.raises(NotVerified, match="Concord packs no student"):
        load(whole.getvalue())
    assert load((folder / "student.skops").read_bytes()) is not None


def test_a_file_that_is_named_many_times_is_digested_once_and_refused(folder: Path) -> None:
    rewrite(folder, lambda values: leading(values).update(files=leading(values)["files"] * 100))
    at = PublishedSession.at(folder)
    (folder / "student.skops").unlink()
    assert "batch-00000.arrow is named 100 times" in faults(folder)["released labels"]
    at.check(at.certificate.files[-1])
    (folder / "labels" / "batch-00002.arrow").unlink()
    at.check(at.certificate.files[-1])


@pytest.mark.parametrize("name", ["certificate.json", "ledger.json"])
def test_a_file_that_may_not_be_read_is_not_said_to_be_missing(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def may_not(file: Path, *how: Any) -> Any:
        if file.name == name:
            raise PermissionError
        return opened(file, *how)

    monkeypatch.setattr(Path, "open", may_not)  # root may read all
    assert f"{name} cannot be read" in str(faults(folder))
    assert "is missing" not in str(faults(folder))


def test_a_folder_that_may_not_be_read_is_said_to_be_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def may_not(_: Path) -> bool:
        raise PermissionError

    monkeypatch.setattr(Path, "is_file", may_not)  # root may read all
    (check,) = verify_published(folder)
    assert (check.ok, "this user may not" in check.detail) == (False, True)


def test_json_of_any_depth_ends_in_a_sentence(folder: Path) -> None:
    values = (folder / "certificate.json").read_text()
    for deep in ("[" * 200_000, '{"a":' * 200_000 + "1" + "}" * 200_000):
        (folder / "certificate.json").write_text(values.replace('"settings": {', f'"settings": {{"deep": {deep}, ', 1))
        assert "is not a certificate" in str(faults(folder))
    assert leading(json.loads(values))["session"] == SESSION
