"""Merged files: what was read before is read after, by the same references, and nothing is lost on the way."""

import base64
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.home import merged
from concord.artifacts.home.vault import Vault
from concord.artifacts.home.whole import locked
from concord.artifacts.schemas import Ref
from concord.artifacts.settings import KEY

FOLDER = "sessions/one/online"


@pytest.fixture(params=["plain", "encrypted"], autouse=True)
def at_rest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "encrypted":
        monkeypatch.setenv(KEY, base64.b64encode(bytes(range(32))).decode())
    monkeypatch.setattr(merged, "MANY", 5)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "vault")


@pytest.fixture
def refs(vault: Vault) -> list[Ref]:
    """Seven small files, of which five are enough to be merged, and one that is large."""
    contents = [bytes([at]) * 30 * at for at in range(7)]
    return [write(vault, at, content) for at, content in enumerate([*contents, bytes(merged.SMALL)])]


def write(vault: Vault, at: int, content: bytes) -> Ref:
    return vault.keep(f"{FOLDER}/{at:09d}-{at}.arrow", lambda: content)


def merge(vault: Vault, folder: str, pattern: str) -> None:
    deque(vault.merge(folder, pattern), maxlen=0)


def alone(vault: Vault) -> list[str]:
    """Names of files that stand by themselves."""
    return sorted(path.name for path in (vault.root / FOLDER).glob("*.arrow"))


def packs(vault: Vault) -> list[Path]:
    return sorted((vault.root / FOLDER / merged.MERGED).iterdir())


def processes(vault: Vault) -> Iterator[Vault]:
    """One that knew the files before, and one that meets them now."""
    yield vault
    yield Vault(vault.root)


def test_files_are_read_as_before(vault: Vault, refs: list[Ref]) -> None:
    before = {ref: vault.read(ref) for ref in refs}
    other = Vault(vault.root)
    assert all(other.has(ref) for ref in refs)
    merge(vault, FOLDER, "*.arrow")
    assert len(packs(vault)) == 1
    assert len(alone(vault)) == 3
    for seen in (other, *processes(vault)):
        assert {ref: seen.read(ref) for ref in refs} == before
        assert [seen.find(ref.path) for ref in refs] == refs
        assert all(seen.has(ref) for ref in refs)
        assert seen.paths(FOLDER, "*.arrow") == [ref.path for ref in refs]
        assert seen.paths(FOLDER, "000000003-*.arrow") == [refs[3].path]
        assert seen.find(f"{FOLDER}/000000099-9.arrow") is None
        assert not seen.has(Ref(path=f"{FOLDER}/nobody.arrow", digest=""))


def test_what_was_drawn_once_is_not_drawn_again(vault: Vault, refs: list[Ref]) -> None:
    """A file that was merged is there: nobody makes another in its place."""
    merge(vault, FOLDER, "*.arrow")
    for seen in processes(vault):
        assert [seen.keep(ref.path, lambda: pytest.fail("made anew")) for ref in refs] == refs


def test_more_are_merged_later_and_fewer_stay(vault: Vault, refs: list[Ref]) -> None:
    for at in range(10, 23):
        write(vault, at, bytes(at))
    merge(vault, FOLDER, "*.arrow")
    merge(vault, FOLDER, "*.arrow")
    assert (len(packs(vault)), len(alone(vault))) == (4, 1)  # the large one
    assert len(Vault(vault.root).paths(FOLDER, "*.arrow")) == len(refs) + 13
    assert vault.read(refs[4]) == bytes([4]) * 120
    merge(vault, "sessions/nobody", "*")
    merge(vault, FOLDER, "*.npz")
    assert len(packs(vault)) == 4


def test_a_file_that_stands_twice_is_removed_by_the_next_merge(vault: Vault, refs: list[Ref]) -> None:
    small = {ref: (vault.root / ref.path).read_bytes() for ref in refs[:7]}
    merge(vault, FOLDER, "*.arrow")
    for ref, content in small.items():
        (vault.root / ref.path).write_bytes(content)  # as if the merge had been killed before it removed one
    assert Vault(vault.root).paths(FOLDER, "*.arrow") == [ref.path for ref in refs]
    merge(vault, FOLDER, "*.arrow")
    assert len(packs(vault)) == 1
    assert len(alone(vault)) == 3
    assert [vault.find(ref.path) for ref in refs] == refs


def test_a_twin_of_other_content_is_not_removed(vault: Vault, refs: list[Ref]) -> None:
    merge(vault, FOLDER, "*.arrow")
    gone = next(ref for ref in refs if not (vault.root / ref.path).exists())
    with vault.create(gone.path) as sink:
        sink.write(b"other")
    write(vault, 10, b"one more")
    write(vault, 11, b"and one")
    merge(vault, FOLDER, "*.arrow")
    assert (vault.root / gone.path).exists()
    assert vault.find(gone.path) == sink.ref


@pytest.mark.parametrize("change", ["a byte", "cut", "of another folder", "emptied"])
def test_a_changed_merged_file_is_refused(vault: Vault, refs: list[Ref], change: str) -> None:
    merge(vault, FOLDER, "*.arrow")
    (pack,) = packs(vault)
    content = pack.read_bytes()
    if change == "of another folder":
        for ref in refs:
            vault.keep(ref.path.replace("one", "two"), lambda: b"other")
        merge(vault, FOLDER.replace("one", "two"), "*.arrow")
        (other,) = (vault.root / FOLDER.replace("one", "two") / merged.MERGED).iterdir()
        shutil.copy(other, pack)
    elif change == "a byte":
        pack.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    else:
        pack.write_bytes(content[:-9] if change == "cut" else b"")
    gone = next(ref for ref in refs if not (vault.root / ref.path).exists())
    fresh = Vault(vault.root)
    for ask in (lambda: fresh.read(gone), lambda: fresh.find(gone.path), lambda: fresh.paths(FOLDER, "*.arrow")):
        with pytest.raises(NotVerified, match=f"{merged.MERGED}/.* is not what was written"):
            ask()


def test_what_is_destroyed_with_its_folder_is_gone_for_whoever_knew_it(vault: Vault, refs: list[Ref]) -> None:
    merge(vault, FOLDER, "*.arrow")
    known = vault.read(refs[1])
    assert known
    Vault(vault.root).destroy("sessions/one")
    for seen in processes(vault):
        assert not any(seen.has(ref) for ref in refs)
        assert seen.find(refs[1].path) is None
        with pytest.raises(NotVerified, match="missing"):
            seen.read(refs[1])


def test_a_damaged_small_file_stays_and_is_told(vault: Vault, refs: list[Ref]) -> None:
    """It is merged as it is, or not at all: whoever reads it is told."""
    damaged = vault.root / refs[1].path
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # of a seal, which ends with any byte
    merge(vault, FOLDER, "*.arrow")
    with pytest.raises(NotVerified, match="is not what was written"):
        Vault(vault.root).read(refs[1])
    assert vault.read(refs[2]) == bytes([2]) * 60


def test_another_who_merges_is_left_alone(vault: Vault, refs: list[Ref]) -> None:
    with locked(vault.root / "locks" / f".{merged.MERGED}"):
        merge(vault, FOLDER, "*.arrow")
    assert len(alone(vault)) == len(refs)


def test_a_full_disk_loses_nothing(vault: Vault, refs: list[Ref], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentFailed, match="No space left"):
        merge(vault, FOLDER, "*.arrow")
    assert len(alone(vault)) == len(refs)
    assert [vault.find(ref.path) for ref in refs] == refs


def test_a_merged_file_is_its_owner_s_alone_and_tells_sizes_alone(vault: Vault, refs: list[Ref]) -> None:
    """What files hold decides nothing of how large the merged one is: nothing is compressed."""
    merge(vault, FOLDER, "*.arrow")
    (pack,) = packs(vault)
    assert pack.stat().st_mode & 0o777 == 0o600
    for at, ref in enumerate(refs):
        with vault.create(f"sessions/two/online/{at:09d}-{at}.arrow") as sink:
            sink.write(os.urandom(len(vault.read(ref))))
    merge(vault, "sessions/two/online", "*.arrow")
    (other,) = (vault.root / "sessions/two/online" / merged.MERGED).iterdir()
    assert other.stat().st_size == pack.stat().st_size


def test_a_folder_is_listed_once_however_many_files_are_in_it(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of before may hold a million, and listing them anew for each merged file would be quadratic."""
    listings = list[str]()

    def noted(true: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def look(folder: Path) -> Any:
            listings.append(str(folder))
            return true(folder)

        return look

    for at in range(60):
        write(vault, at, b"")
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", noted(os.scandir))
        patch.setattr(os, "listdir", noted(os.listdir))
        merge(vault, FOLDER, "*.arrow")
    assert listings.count(str(vault.root / FOLDER)) == 1
    assert len(listings) <= 1 + 4 * len(packs(vault))
    assert len(packs(vault)) == 12
    assert alone(vault) == []


def test_what_is_put_back_and_merged_anew_is_found_by_whoever_knew_where_it_was(vault: Vault, refs: list[Ref]) -> None:
    """Else that process would take it for missing, and draw it again."""
    before = {ref: (vault.root / ref.path).read_bytes() for ref in refs}
    merge(vault, FOLDER, "*.arrow")
    assert all(vault.has(ref) for ref in refs)
    shutil.rmtree(vault.root / FOLDER / merged.MERGED)
    for ref, content in before.items():
        (vault.root / ref.path).write_bytes(content)
    merge(Vault(vault.root), FOLDER, "*.arrow")
    assert [vault.find(ref.path) for ref in refs] == refs


def test_a_merged_file_that_goes_while_a_folder_is_looked_at_is_no_failure(vault: Vault, refs: list[Ref]) -> None:
    """Its name was listed, and whoever forgets the session has removed it since."""
    merge(vault, FOLDER, "*.arrow")
    (vault.root / FOLDER / merged.MERGED / "gone").symlink_to("nowhere")
    for seen in processes(vault):
        assert [seen.find(ref.path) for ref in refs] == refs
        assert not seen.has(Ref(path=f"{FOLDER}/nobody.arrow", digest=""))
