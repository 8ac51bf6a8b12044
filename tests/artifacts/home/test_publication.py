"""Files that are published together: whoever finishes it, and what is held until then.

A process killed at each point: tests/promises/test_crash.py, the walk of a publication."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.processes import FRESH
from tests.world import HELD, EnvironmentFailed, NotVerified, Ref, Released, publish_together, settle, sweep

NAMES = ("student.skops", "report.html", "attestation.json", "certificate.json")
OLD, NEW = ({name: f"{age} {name}".encode() for name in NAMES} for age in ("old", "new"))


def in_parts(files: Mapping[str, bytes]) -> dict[str, list[bytes]]:
    return {name: [data[:3], data[3:]] for name, data in files.items()}


def found(home: Path) -> dict[str, bytes]:
    """The files of the session, as a command on the home finds them."""
    sweep(home)
    settle(home)
    return {file.name: file.read_bytes() for file in (home / "released" / "s-1").iterdir()}


def test_a_reader_and_the_publisher_may_finish_it_at_once(tmp_path: Path) -> None:
    publish_together(tmp_path, "s-1", in_parts(OLD))
    ready = tmp_path / "held" / "s-1" / "ready"
    ready.mkdir()
    for number, (name, data) in enumerate(NEW.items()):
        (ready / f"{number:03d}-{name}").write_bytes(data)
    readers = [FRESH.Process(target=settle, args=(tmp_path,)) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [reader.exitcode for reader in readers] == [0, 0, 0]
    assert found(tmp_path) == NEW


def test_a_publication_that_another_process_finishes_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_together(tmp_path, "s-1", in_parts(OLD))
    ready = tmp_path / "held" / "s-1" / "ready"
    monkeypatch.setattr(Path, "glob", lambda *_: [ready])  # it was there a moment ago
    settle(tmp_path)
    monkeypatch.undo()
    assert found(tmp_path) == OLD


def test_what_is_held_is_published_with_the_rest_or_not_at_all(tmp_path: Path) -> None:
    released = Released(tmp_path)
    old = released.publish("s-1", OLD)["student.skops"]
    new = released.hold_back("s-1/student.skops", NEW["student.skops"])
    assert (released.read(old), released.read_any(new)) == (OLD["student.skops"], NEW["student.skops"])
    assert (released.has(old), released.has(new)) == (True, True)
    held = released.held_back(new)
    assert held == Ref(path=f"{HELD}/{new.path}", digest=new.digest)
    assert released.publish("s-1", {**NEW, "student.skops": held})["student.skops"] == new
    assert (released.read(new), released.held_back(new), released.has(old)) == (NEW["student.skops"], None, False)


def test_a_held_file_that_was_changed_is_not_published(tmp_path: Path) -> None:
    released = Released(tmp_path)
    released.publish("s-1", OLD)
    held = released.held_back(released.hold_back("s-1/student.skops", NEW["student.skops"]))
    assert held is not None
    (tmp_path / held.path).write_bytes(b"changed since")
    with pytest.raises(NotVerified, match="not what was written"):
        released.publish("s-1", {**NEW, "student.skops": held})
    assert found(tmp_path) == OLD


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "held").write_text("in the way")
    with pytest.raises(EnvironmentFailed, match="session s-1 cannot be published: "):
        Released(tmp_path).publish("s-1", OLD)
