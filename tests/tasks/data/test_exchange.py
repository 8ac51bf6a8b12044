"""The exchange: what a stranger may put into it, and what of that is read."""

import os
from pathlib import Path

import pytest

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import sha256
from concord.tasks.data import exchange
from concord.tasks.data.exchange import Exchange


def test_files_are_listed_by_number_and_home_and_read_back(tmp_path: Path) -> None:
    post = Exchange(str(tmp_path / "new"))
    assert post.files() == []
    names = [
        post.write(start, start.encode()) for start in ("share-10-south", "question-10", "share-2-a-b", "question-2")
    ]
    found = post.files()
    assert [(file.number, file.home) for file in found] == [(2, ""), (2, "a-b"), (10, ""), (10, "south")]
    assert {file.name for file in found} == {*names}
    assert post.read(names[0]) == b"share-10-south"
    assert post.write("question-2", b"question-2") == names[3]
    assert sorted(os.listdir(post.address)) == sorted(names)  # nothing unfinished is left


def test_other_users_read_a_file_whatever_the_umask_of_its_writer(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        name = Exchange(str(tmp_path)).write("question-1", b"one")
    finally:
        os.umask(before)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o644


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    for name in ("README", "question-1-x.json", ".question-1-000000000000.json.00", "share-1--000000000000.json"):
        (tmp_path / name).write_bytes(b"")
    assert Exchange(str(tmp_path)).files() == []


def test_what_is_no_file_of_its_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    post, name = Exchange(str(tmp_path)), f"question-1-{sha256(b'one')[:12]}.json"
    (tmp_path / name).write_bytes(b"two")
    with pytest.raises(NotVerified, match="does not hold the bytes that its name says"):
        post.read(name)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(NotVerified, match="is no file"):
        post.read(name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/etc/hostname")
    with pytest.raises(NotVerified, match="is no file"):
        post.read(name)
    monkeypatch.setattr(exchange, "LARGEST", 1000)
    bomb = post.write("share-1-north", bytes(1001))
    with pytest.raises(NotVerified, match="more than 1,000 bytes"):
        post.read(bomb)


def test_a_sparse_bomb_is_not_read_whole(tmp_path: Path) -> None:
    name = f"share-1-north-{'0' * 12}.json"
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 36)
    with pytest.raises(NotVerified, match="holds more than"):
        Exchange(str(tmp_path)).read(name)
