"""The vault: what others may read, what is read back, what a failing disk leaves behind."""

import errno
import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.sentences import facts
from tests.world import UNFINISHED, EnvironmentFailed, NotVerified, Ref, Vault, derive, keyed_digest


@pytest.fixture(params=[0o022, 0o000], ids=["usual umask", "no umask"])
def vault(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Vault]:
    before = os.umask(request.param)
    yield Vault(tmp_path / "home" / "vault")
    os.umask(before)


def write(vault: Vault, path: str, data: bytes) -> Ref:
    with vault.create(path) as sink:
        sink.write(data)
    return sink.ref


def write_half(vault: Vault, path: str) -> None:
    with vault.create(path) as sink:
        sink.write(b"half")
        raise ZeroDivisionError


def everything(vault: Vault) -> list[Path]:
    return [vault.root, *vault.root.rglob("*")]


def test_what_is_written_is_read_back(vault: Vault) -> None:
    for content in (b"", b"x", bytes(range(256)) * 10_000):
        ref = write(vault, "votes/a/batch-0.arrow", content)
        assert vault.read(ref) == content
        assert vault.find(ref.path) == ref
        assert vault.has(ref)


def test_only_the_owner_may_read_folders_and_files(vault: Vault) -> None:
    write(vault, "deep/er/still/file", b"private")
    vault.make_secret("sessions/one")
    with vault.create("file") as sink:
        sink.write(b"private from birth")
        sink.flush()
        assert len([*(vault.root / UNFINISHED).glob("file.*")]) == 1
        for path in everything(vault):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o701, 0o777])
def test_a_vault_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    Vault(tmp_path / "vault").root.chmod(mode)
    with pytest.raises(EnvironmentFailed, match=f"0700.*{mode:04o}"):
        Vault(tmp_path / "vault")


def test_a_flip_of_any_byte_is_found_by_reading_and_by_finding(tmp_path: Path) -> None:
    """And so is a file cut short anywhere."""
    vault = Vault(tmp_path / "vault")
    ref = write(vault, "file", b"some content")
    file = vault.root / ref.path
    written = file.read_bytes()
    for at in range(len(written)):
        for content in (written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :], written[:at]):
            file.write_bytes(content)
            for read in (lambda: vault.read(ref), lambda: vault.find(ref.path)):
                with pytest.raises(NotVerified, match="not what was written"):
                    read()


def test_a_sealed_file_passes_for_no_other_no_later_one_and_in_no_other_vault(tmp_path: Path) -> None:
    ours, theirs = Vault(tmp_path / "ours"), Vault(tmp_path / "theirs")
    refs = [write(ours, name, name.encode()) for name in ("noise-0", "noise-1")]
    old = write(ours, "file", b"old")
    sealed, foreign = (ours.root / old.path).read_bytes(), write(theirs, "theirs", b"content")
    new = write(ours, "file", b"new")
    (ours.root / "file").write_bytes(sealed)
    (ours.root / "theirs").write_bytes((theirs.root / "theirs").read_bytes())
    os.replace(ours.root / "noise-0", ours.root / "noise-1")
    for read in (
        lambda: ours.find("noise-1"),
        lambda: ours.read(Ref(path="noise-1", digest=refs[0].digest)),
        lambda: ours.read(new),  # an older version is found by its reference
        lambda: ours.find("theirs"),
        lambda: ours.read(foreign),
    ):
        with pytest.raises(NotVerified):
            read()


def test_a_missing_file_is_not_found_and_not_read(vault: Vault) -> None:
    ref = Ref(path="gone", digest="0" * 64)
    assert vault.find("gone") is None
    assert not vault.has(ref)
    with pytest.raises(NotVerified, match="missing"):
        vault.read(ref)


def test_a_writer_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    ref = write(vault, "file", b"old")
    before = everything(vault)
    with pytest.raises(ZeroDivisionError):
        write_half(vault, "file")
    assert vault.read(ref) == b"old"
    assert everything(vault) == before


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    vault = Vault(tmp_path / "vault")
    before = everything(vault)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as failing:
        failing.setattr(os, call, full)
        with pytest.raises(EnvironmentFailed, match="No space left on device"):
            write(vault, "file", b"content")
    assert everything(vault) == before
    assert vault.find("file") is None


def test_what_killed_writers_left_goes_with_the_file(vault: Vault) -> None:
    vault.make_secret("sessions/a-1")
    vault.make_secret("sessions/a-12")
    keys = vault.root / "secrets/sessions"
    unfinished = vault.root / UNFINISHED / "secrets/sessions"
    os.link(keys / "a-1", unfinished / f"a-1.{16 * 'f'}")  # named, and not yet let go of
    (unfinished / f"a-12.{16 * '0'}").write_bytes(b"half of another's")
    vault.destroy("secrets/sessions/a-1")
    assert [path.name for path in keys.iterdir()] == ["a-12"]
    assert [path.name for path in unfinished.iterdir()] == [f"a-12.{16 * '0'}"]
    vault.destroy("secrets/sessions")
    assert not unfinished.exists() or [*unfinished.iterdir()] == []


def test_a_vault_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(EnvironmentFailed, match="cannot be opened"):
        Vault(tmp_path / "file" / "vault")


def test_secrets_differ_and_stay(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    keys = {name: vault.make_secret(name) for name in ("installation", "sessions/a", "sessions/b")}
    assert len(set(keys.values())) == 3
    assert {name: Vault(vault.root).secret(name) for name in keys} == keys
    assert vault.has_secret("sessions/a")
    assert not vault.has_secret("sessions/c")


DAMAGES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "zeros, as a disk leaves a file whose content was lost": lambda key, _: bytes(len(key)),
    "flipped": lambda key, _: bytes([key[0] ^ 1]) + key[1:],
    "another": lambda _, other: other,
    "a key alone, without its check value": lambda key, _: key[:32],
    "cut short": lambda key, _: key[:31],
    "nothing": lambda *_: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_key_is_told_as_that_and_not_as_changed_data(tmp_path: Path, damage: str) -> None:
    vault = Vault(tmp_path / "vault")
    for name in ("a", "b"):
        vault.make_secret(f"sessions/{name}")
    keys, own = vault.root / "secrets" / "sessions", vault.root / "secrets" / "installation"
    for file in (keys / "a", own):
        file.write_bytes(DAMAGES[damage](file.read_bytes(), (keys / "b").read_bytes()))
    for read in (vault.secret, vault.make_secret):
        with pytest.raises(NotVerified, match=facts("secrets/sessions/a", "damaged", "restore")):
            read("sessions/a")
    with pytest.raises(NotVerified, match="secrets/installation is damaged"):
        Vault(vault.root)


def test_a_missing_secret_is_never_made_by_reading_it(vault: Vault) -> None:
    with pytest.raises(NotVerified, match=facts("key", "secrets/sessions/a", "restore")):
        vault.secret("sessions/a")
    assert not vault.has_secret("sessions/a")


def _secret_of(root: Path) -> bytes:
    return Vault(root).make_secret("sessions/raced")


def test_racing_processes_agree_on_a_secret(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(_secret_of, [tmp_path / "vault"] * 16, chunksize=1))) == 1


def test_digests_are_keyed_and_separate_their_parts(tmp_path: Path) -> None:
    item, other = Vault(tmp_path / "one"), Vault(tmp_path / "other")
    assert item.digest("a", b"b") == Vault(item.root).digest(b"a", "b")
    assert item.digest("a") != other.digest("a")
    assert len({keyed_digest(b"k", *parts) for parts in (("ab",), ("a", "b"), ("", "ab"), ("ab", ""))}) == 4
    assert len({derive(b"k" * 32, purpose) for purpose in ("draws", "digests", "split")}) == 3


def test_a_files_digest_follows_its_content(tmp_path: Path) -> None:
    vault, file = Vault(tmp_path / "vault"), tmp_path / "table.csv"
    file.write_bytes(b"a,b\n" * 300_000)
    before = vault.digest_file(file)
    assert vault.digest_file(file) == before
    file.write_bytes(b"a,b\n" * 299_999 + b"a,c\n")
    assert vault.digest_file(file) != before
