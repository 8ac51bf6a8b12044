"""The published files: whole, durable, byte-deterministic, refused if they are not what was written."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import world
from tests.support.processes import FRESH
from tests.support.published import write_labels

CLASSES = ("no", "yes")
GUARANTEE = {"session": "s-1", "epsilon": "1", "delta": "1e-05"}


def write(
    released: world.Released, labels: list[int], counts: list[list[int]] | None = None, rows: int = 4
) -> world.Ref:
    array = None if counts is None else np.array(counts, dtype=np.int64).reshape(-1, 2)
    given = np.array(labels, dtype=np.int64)
    table = world.labels_table(range(7, 7 + rows), given, array, CLASSES, GUARANTEE)
    return write_labels(released, world.labels_path("s-1", 0), table)


def test_labels_hold_every_row_and_say_what_became_of_it(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    frame = pl.DataFrame(released.labels([write(released, [1, -1, 0])]))
    assert frame["row"].to_list() == [7, 8, 9, 10]
    assert frame["label"].to_list() == ["yes", None, "no", None]
    assert frame["outcome"].to_list() == ["answered", "refused", "answered", "not asked"]
    assert frame["scores"].to_list() == [None] * 4
    assert set(frame["session"]) == {"s-1"}


def test_counts_stand_beside_the_answered_labels_alone(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    ref = write(released, [1, -1, 0], [[-3, 103], [50, 50], [90, 10]])
    assert released.labels([ref])["scores"].to_pylist() == [[-3, 103], None, [90, 10], None]


def test_the_schema_is_the_published_one_and_holds_the_guarantee(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    schema = released.labels([write(released, [1, 0, 1, 1])]).schema
    assert schema.equals(world.labels_schema(2, GUARANTEE), check_metadata=True)
    assert not any(pa.types.is_dictionary(field.type) for field in schema)


def test_a_batch_that_was_not_asked_at_all(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    for ref in (write(released, []), write(released, [], [])):
        table = released.labels([ref])
        assert table["label"].to_pylist() == [None] * 4
        assert set(table["outcome"].to_pylist()) == {"not asked"}


@given(st.lists(st.integers(-1, 1), max_size=6), st.integers(0, 3), st.booleans())
def test_the_same_answers_give_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, labels: list[int], unasked: int, counted: bool
) -> None:
    counts = [[label, 9] for label in labels] if counted else None
    homes = (world.Released(tmp_path_factory.mktemp("home")) for _ in range(2))
    first, second = (write(released, labels, counts, len(labels) + unasked) for released in homes)
    assert first == second


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    ref = released.write("s-1/certificate.json", b"{}")
    assert ref == world.Ref(path="s-1/certificate.json", digest=world.sha256(b"{}"))
    assert released.read(ref) == b"{}"
    assert released.write(ref.path, iter([b"{", b"", b"}"])) == ref == released.find(ref.path)
    assert released.find("s-1/other") is None


def test_writing_again_replaces_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    released.write("s-1/report.html", b"old")
    released.write("s-1/report.html", b"new")
    assert [file.name for file in (released.root / "s-1").iterdir()] == ["report.html"]


def test_neither_a_file_nor_a_folder_above_it_keeps_the_time_at_which_it_was_first_written(tmp_path: Path) -> None:
    """A session of labels beside another one has no file but theirs: its folder would keep the time of the first."""
    released = world.Released(tmp_path)
    refs = [write(released, [1, -1, 0]), released.write("s-2/answers/answer-00000.json", b"{}")]
    places = [released.root, *released.root.rglob("*")]
    for place in places:
        os.utime(place, (1e9, 1e9))
    released.restamp(refs)
    assert len(places) == 7
    assert min(place.stat().st_mtime for place in places) > 1e9


def test_a_folder_that_cannot_be_made_is_the_environments_fault(tmp_path: Path) -> None:
    (tmp_path / "released").write_text("a file in the way")
    with pytest.raises(world.EnvironmentFailed, match="cannot be written"):
        world.Released(tmp_path).write("s-1/x", b"")


def test_what_is_held_back_lies_beside_what_is_published(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    ref = released.write(f"{world.HELD}/d-1/1/student.skops", b"a candidate")
    assert (released.read(ref), released.find(ref.path)) == (b"a candidate", ref)
    assert not released.root.exists()
    file = tmp_path / ref.path
    assert (file.stat().st_mode & 0o077, file.parent.stat().st_mode & 0o077) == (0, 0)
    released.discard(f"{world.HELD}/d-1")
    assert (released.find(ref.path), file.exists()) == (None, False)


NAMES = ("student.skops", "report.html", "attestation.json", "certificate.json")
OLD, NEW = ({name: f"{age} {name}".encode() for name in NAMES} for age in ("old", "new"))


def in_parts(files: Mapping[str, bytes]) -> dict[str, list[bytes]]:
    return {name: [data[:3], data[3:]] for name, data in files.items()}


def found(home: Path) -> dict[str, bytes]:
    """The files of the session, as a command on the home finds them."""
    world.sweep(home)
    world.settle(home)
    return {file.name: file.read_bytes() for file in (home / "released" / "s-1").iterdir()}


def test_a_reader_and_the_publisher_may_finish_it_at_once(tmp_path: Path) -> None:
    world.publish_together(tmp_path, "s-1", in_parts(OLD))
    ready = tmp_path / "held" / "s-1" / "ready"
    ready.mkdir()
    for number, (name, data) in enumerate(NEW.items()):
        (ready / f"{number:03d}-{name}").write_bytes(data)
    readers = [FRESH.Process(target=world.settle, args=(tmp_path,)) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [reader.exitcode for reader in readers] == [0, 0, 0]
    assert found(tmp_path) == NEW


def test_a_publication_that_another_process_finishes_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish_together(tmp_path, "s-1", in_parts(OLD))
    ready = tmp_path / "held" / "s-1" / "ready"
    monkeypatch.setattr(Path, "glob", lambda *_: [ready])  # it was there a moment ago
    world.settle(tmp_path)
    monkeypatch.undo()
    assert found(tmp_path) == OLD


def test_what_is_held_is_published_with_the_rest_or_not_at_all(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    old = released.publish("s-1", OLD)["student.skops"]
    new = released.hold_back("s-1/student.skops", NEW["student.skops"])
    assert (released.read(old), released.read_any(new)) == (OLD["student.skops"], NEW["student.skops"])
    assert (released.has(old), released.has(new)) == (True, True)
    held = released.held_back(new)
    assert held == world.Ref(path=f"{world.HELD}/{new.path}", digest=new.digest)
    assert released.publish("s-1", {**NEW, "student.skops": held})["student.skops"] == new
    assert (released.read(new), released.held_back(new), released.has(old)) == (NEW["student.skops"], None, False)


def test_a_held_file_that_was_changed_is_not_published(tmp_path: Path) -> None:
    released = world.Released(tmp_path)
    released.publish("s-1", OLD)
    held = released.held_back(released.hold_back("s-1/student.skops", NEW["student.skops"]))
    assert held is not None
    (tmp_path / held.path).write_bytes(b"changed since")
    with pytest.raises(world.NotVerified, match="not what was written"):
        released.publish("s-1", {**NEW, "student.skops": held})
    assert found(tmp_path) == OLD


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "held").write_text("in the way")
    with pytest.raises(world.EnvironmentFailed, match="session s-1 cannot be published: "):
        world.Released(tmp_path).publish("s-1", OLD)
