"""What a stranger's folder may ask of who verifies it: small files fill no memory, and endless ones are not read."""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from struct import pack, unpack_from
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import Released, labels_schema, table_bytes
from concord.artifacts.sections import LONGEST_CLASS, DataPlan, LabelingPlan
from concord.tasks.student.model import load
from concord.tasks.verify import folder as folder_module
from concord.tasks.verify.folder import LARGEST_BATCH, LARGEST_PARSED, FlatTable, PublishedSession, unpacked
from concord.tasks.verify.published import verify_published
from tests.support.published import SESSION, leading, rewrite
from tests.tasks.verify.signed_folder import faults, sign_again

MANY = 3_000_000
"""Rows, of which labels of nothing unpack to 60 MB."""


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """What Arrow takes from now on."""
    usual = pa.default_memory_pool()
    pa.set_memory_pool(fresh := pa.proxy_memory_pool(usual))
    yield fresh
    pa.set_memory_pool(usual)


def of_nothing(rows: int, compression: str) -> bytes:
    """So many rows of labels, all of them empty."""
    zeros, nothing = pa.py_buffer(bytes(8 * (rows + 1))), pa.array([], pa.int64())
    row = pa.UInt64Array.from_buffers(pa.uint64(), rows, [None, zeros])
    words = pa.StringArray.from_buffers(rows, zeros, pa.py_buffer(b""))
    scores = pa.FixedSizeListArray.from_buffers(pa.list_(pa.int64(), 0), rows, [None], children=[nothing])
    return table_bytes([row, words, words, scores, words], labels_schema(0, {}), compression)


def put(folder: Path, data: bytes) -> None:
    """Publish those bytes as the first labels, by another key."""
    (folder / "labels" / "batch-00000.arrow").write_bytes(data)
    rewrite(folder, lambda values: leading(values)["files"][0].update(digest=hashlib.sha256(data).hexdigest()))
    sign_again(folder)


@pytest.mark.parametrize("packed", ["zstd", "lz4"])
def test_labels_that_unpack_to_more_than_their_rows_are_refused_unread(
    folder: Path, pool: pa.MemoryPool, packed: str
) -> None:
    data = of_nothing(MANY, packed)
    assert len(data) < 400_000
    before = pool.max_memory()
    put(folder, data)
    assert "holds 3,000,000 rows, where the certificate leaves 300" in faults(folder)["released labels"]
    assert pool.max_memory() < before + 2**20


def test_labels_that_no_lz4_holds_in_so_few_bytes_are_refused_however_many_rows_are_counted(
    pool: pa.MemoryPool,
) -> None:
    data = of_nothing(MANY, "zstd")
    before = pool.max_memory()
    with pytest.raises(NotVerified, match="nothing of it was unpacked"):
        list(unpacked(data, "labels", MANY))
    assert pool.max_memory() < before + 2**20


def test_no_file_holds_more_rows_than_pass_the_door_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LabelingPlan(batch=LARGEST_BATCH).batch == LARGEST_BATCH
    with pytest.raises(ValueError, match=f"less than or equal to {LARGEST_BATCH}"):
        LabelingPlan(batch=LARGEST_BATCH + 1)
    monkeypatch.setattr(folder_module, "LARGEST_BATCH", 100)
    assert len(list(unpacked(of_nothing(100, "lz4"), "labels", 10**12))) == 1
    with pytest.raises(NotVerified, match="holds 101 rows, where the certificate leaves 100"):
        list(unpacked(of_nothing(101, "lz4"), "labels", 10**12))


@pytest.mark.parametrize("size", [2**40, -2, -(2**40)])
def test_of_a_buffer_that_says_to_hold_a_terabyte_nothing_is_unpacked(size: int) -> None:
    data, said = of_nothing(1000, "lz4"), (8000).to_bytes(8, "little")
    assert data.count(said) == 1  # before the bytes of the rows' numbers
    with pytest.raises((NotVerified, ValueError)):
        list(unpacked(data.replace(said, size.to_bytes(8, "little", signed=True)), "labels", 1000))


def test_what_arrow_would_read_in_an_older_form_is_not_read_at_all() -> None:
    """Of the fourth version Arrow finds elsewhere how buffers are packed; of a longer head, where they lie."""
    data = of_nothing(10, "lz4")
    view = memoryview(data)
    footer = FlatTable.behind(view, len(data) - 10 - unpack_from("<i", data, len(data) - 10)[0])
    ((start, head, body),) = footer.records(3, "<qi4xq")
    blocks = pack("<qi4xq", start, head, body)
    version = FlatTable.behind(view, start + 8).place(0)
    assert (data.count(blocks), data[version : version + 2]) == (1, b"\4\0")
    older = data[:version] + b"\3\0" + data[version + 2 :]
    longer = data.replace(blocks, pack("<qi4xq", start, head + 8, body))
    assert len(list(unpacked(data, "labels", 10))) == 1
    for changed in (older, longer):
        with pytest.raises(ValueError, match="of today's form"):
            list(unpacked(changed, "labels", 10))


def honest(tmp_path: Path, rows: int, classes: int, counts: bool, name: str = "class") -> bytes:
    released, names = Released(tmp_path), [f"{name} {at}" for at in range(classes)]
    labels = np.zeros(rows, dtype=np.int64)
    votes = np.zeros((rows, classes), dtype=np.int64) if counts else None
    terms = {"epsilon": "1"}
    ref = released.write_labels("s-1", 0, 0, labels, votes, rows=rows, classes=names, guarantee=terms)
    return released.read(ref)


@pytest.mark.parametrize(("rows", "classes"), [(1, 2), (1_000_000, 2), (3000, 1000)])
@pytest.mark.parametrize("counts", [False, True])
def test_labels_as_concord_packs_them_are_read_though_all_are_alike(
    tmp_path: Path, rows: int, classes: int, counts: bool
) -> None:
    """Nothing packs better than one class of the longest table."""
    data = honest(tmp_path, rows, classes, counts)
    assert sum(batch.num_rows for batch in unpacked(data, "labels", rows)) == rows


def test_labels_of_the_longest_names_that_a_plan_may_give_are_read(tmp_path: Path) -> None:
    """Of characters that take four bytes."""
    name = (LONGEST_CLASS - 2) * "\U0001f98a"
    data: dict[str, Any] = {"private": "a.csv", "public": "b.csv", "label": "y"}
    assert DataPlan(**data, classes=(f"{name} 0", f"{name} 1")).classes
    with pytest.raises(ValueError, match="classes must have at most 4,096 characters each, got one of 4,097"):
        DataPlan(**data, classes=(f"{name} 10", "1"))
    assert sum(batch.num_rows for batch in unpacked(honest(tmp_path, 100, 2, True, name), "labels", 100)) == 100


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


@pytest.mark.parametrize("name", ["labels/batch-00000.arrow", "ledger.json", "key.pem", "attestation.json"])
def test_a_file_of_a_terabyte_of_nothing_is_not_read(folder: Path, name: str) -> None:
    os.truncate(folder / name, 2**40)
    assert f"{name} holds 1,099,511,627,776 bytes" in str(faults(folder))


def test_a_certificate_of_a_terabyte_of_nothing_is_not_read(folder: Path) -> None:
    os.truncate(folder / "certificate.json", 2**40)
    assert f"of such a file {LARGEST_PARSED:,} are read" in str(faults(folder))


def test_a_student_is_digested_in_pieces_and_one_without_end_is_not(folder: Path) -> None:
    student = folder / "student.skops"
    os.truncate(student, student.stat().st_size + 2**25)
    assert "student.skops is not the one" in faults(folder)["files"]
    os.truncate(student, 2**42)
    assert "student.skops holds 4,398,046,511,104 bytes" in faults(folder)["files"]


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


def test_json_of_any_depth_ends_in_a_sentence(folder: Path) -> None:
    values = (folder / "certificate.json").read_text()
    for deep in ("[" * 200_000, '{"a":' * 200_000 + "1" + "}" * 200_000):
        (folder / "certificate.json").write_text(values.replace('"settings": {', f'"settings": {{"deep": {deep}, ', 1))
        assert "is not a certificate" in str(faults(folder))
    assert leading(json.loads(values))["session"] == SESSION
