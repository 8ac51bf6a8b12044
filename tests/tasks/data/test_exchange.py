"""The exchange: what a stranger may put into it, and what of that is read."""

import errno
import os
from pathlib import Path

import pytest

from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.home.released import sha256
from concord.tasks.data import exchange
from concord.tasks.data.exchange import Exchange
from tests.support.sentences import facts
from tests.support.several import stored


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
    digest = "0" * 12
    for name in (
        "README",
        "question-1-x.json",
        f".question-1-{digest}.json.00",
        *(
            f"share-1-{home}-{digest}.json"
            for home in ("", ".", "..", "-", ".north", "n\u00f6rth", "no\nrth", "a" * 65)
        ),
        *(f"question-{number}-{digest}.json" for number in ("01", "1000", "-1", "\u0661", "1 ")),
        f"QUESTION-1-{digest}.json",
        f"question-1-{digest}.JSON",
        f"question-1-{digest}.json\n",
        f"question-1-{'A' * 12}.json",
    ):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / os.fsdecode(b"share-1-\xff-000000000000.json")).write_bytes(b"")
    assert Exchange(str(tmp_path)).files() == []


def test_what_is_no_file_of_its_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    post, name = Exchange(str(tmp_path)), f"question-1-{sha256(b'one')[:12]}.json"
    (tmp_path / name).write_bytes(b"two")
    with pytest.raises(NotVerified, match=facts("not hold the bytes", "name")):
        post.read(name)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(NotVerified, match="is no file"):
        post.read(name)
    (tmp_path / name).unlink()
    (tmp_path / "one").write_bytes(b"one")
    (tmp_path / name).symlink_to("one")
    with pytest.raises(NotVerified, match=facts("symbolic links")):
        post.read(name)
    (tmp_path / name).unlink()
    with pytest.raises(NotVerified, match="cannot be read as a file: No such file"):
        post.read(name)
    (tmp_path / name).mkdir()
    with pytest.raises(NotVerified, match="cannot be read as a file: Is a directory"):
        post.read(name)
    with pytest.raises(EnvironmentFailed, match="cannot be written"):
        post.write("question-1", b"one")
    monkeypatch.setattr(exchange, "LARGEST", 1000)
    bomb = post.write("share-1-north", bytes(1001))
    with pytest.raises(NotVerified, match="more than 1,000 bytes"):
        post.read(bomb)


@pytest.mark.parametrize("failed", [OSError(errno.EIO, ""), OSError(errno.ESTALE, ""), OSError("AWS Error SLOW_DOWN")])
def test_a_read_that_fails_by_itself_is_no_word_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: OSError
) -> None:
    def read(*_: object) -> bytes:
        raise failed

    post = Exchange(str(tmp_path))
    name = post.write("share-0-north", b"one")
    monkeypatch.setattr(Exchange, "_read", read)
    with pytest.raises(EnvironmentFailed, match="cannot be read now"):
        post.read(name)
    failed = OSError("AWS Error ACCESS_DENIED")  # which whoever wrote the object can make
    with pytest.raises(NotVerified, match="the store failed"):
        post.read(name)


def test_a_sparse_bomb_is_not_read_whole(tmp_path: Path) -> None:
    name = f"share-1-north-{'0' * 12}.json"
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 36)
    with pytest.raises(NotVerified, match="holds more than"):
        Exchange(str(tmp_path)).read(name)


def test_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    """It would take a second and no room, and be read at each call; what is beside it is read."""
    post = Exchange(str(tmp_path))
    name = post.write("share-1-north", b"{" + b" " * 10**6)
    for at in (0, 1, 1 << 25):
        sparse = f"share-1-north-{sha256(bytes(at) + b'}')[:12]}.json"
        with (tmp_path / sparse).open("wb") as file:
            file.seek(1 << 25)
            file.write(b"}")
            file.truncate(at + (1 << 25))
        with pytest.raises(NotVerified, match="holds nothing in places"):
            post.read(sparse)
    assert post.read(name) == b"{" + b" " * 10**6


def test_a_file_that_is_exchanged_for_another_while_it_is_read_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was opened, its name leads to a pipe; and it grows."""
    post, true = Exchange(str(tmp_path)), exchange._opened
    name = post.write("question-1", b"one")

    def exchanged(path: str, flags: int) -> int:
        opened = true(path, flags)
        os.unlink(path)
        os.mkfifo(path)
        return opened

    with monkeypatch.context() as patch:
        patch.setattr(exchange, "_opened", exchanged)
        assert post.read(name) == b"one"
    with pytest.raises(NotVerified, match="is no file"):
        post.read(name)
    assert post.write("question-1", b"one") == name  # in its place
    monkeypatch.setattr(exchange, "LARGEST", 10)
    monkeypatch.setattr(exchange, "_check_size", lambda _: (tmp_path / name).write_bytes(bytes(100)))
    with pytest.raises(NotVerified, match="does not hold the bytes"):
        post.read(name)


def test_what_was_exchanged_for_junk_is_written_again(tmp_path: Path) -> None:
    post = Exchange(str(tmp_path))
    name = post.write("share-1-north", b"one")
    (tmp_path / name).write_bytes(b"two")
    assert post.write("share-1-north", b"one") == name
    assert post.read(name) == b"one"


def test_an_address_of_a_store_holds_what_a_folder_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = stored(tmp_path, monkeypatch)
    post = Exchange("s3://bucket/run/")
    assert post.files() == []
    (bucket / "run" / "below").mkdir(parents=True)
    name = post.write("question-1", b"one")
    (bucket / "run" / "below" / name).write_bytes(b"one")
    (bucket / "run" / "other.json").write_bytes(b"one")
    assert [file.name for file in post.files()] == [name]
    assert post.read(name) == b"one"
    written = (bucket / "run" / name).stat().st_mtime_ns
    assert (post.write("question-1", b"one"), (bucket / "run" / name).stat().st_mtime_ns) == (name, written)
    (bucket / "run" / name).write_bytes(b"two")
    with pytest.raises(NotVerified, match="does not hold the bytes"):
        post.read(name)
    (bucket / "run" / name).unlink()
    with pytest.raises(NotVerified, match="cannot be read as a file"):
        post.read(name)
    monkeypatch.setattr(exchange, "LARGEST", 10)
    with pytest.raises(NotVerified, match="holds more than"):
        post.read(post.write("share-1-north", bytes(11)))
