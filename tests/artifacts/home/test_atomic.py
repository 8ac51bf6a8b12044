"""Files appear whole or not at all; what killed writers left is swept, and nothing of those who live."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.world import UNFINISHED, Released, Vault, sweep, tidy, write_whole


@contextmanager
def child_at_work(child: int, begun: int, *, then_killed: bool) -> Iterator[None]:
    """Wait until a child process has begun; it is killed first, or while the block ends."""
    os.read(begun, 1)
    if then_killed:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    yield
    if not then_killed:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@contextmanager
def writer(root: Path, path: str, *, then_killed: bool) -> Iterator[None]:
    """Another process in the middle of writing a file; killed first, or while the block ends."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        with write_whole(root / path, root) as file:
            file.write(b"half")
            file.flush()
            os.write(begins, b"x")
            signal.pause()
    with child_at_work(child, begun, then_killed=then_killed):
        yield


@contextmanager
def spiller(vault: Vault, *, then_killed: bool) -> Iterator[None]:
    """Another process that has spilled rows, and goes on; killed first, or while the block ends."""
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        with vault.passing("shards/people/key/spill") as place:
            for name in ("whole", "half"):
                with vault.create(f"{place}/{name}") as sink:
                    sink.write(b"private rows")
                    if name == "half":
                        os.write(begins, b"x")
                        signal.pause()
    with child_at_work(child, begun, then_killed=then_killed):
        yield


def left(root: Path) -> list[Path]:
    return [path for path in (root / UNFINISHED).rglob("*") if path.is_file()]


def test_what_is_being_written_is_not_swept(tmp_path: Path) -> None:
    with writer(tmp_path, "a/one", then_killed=False), writer(tmp_path, "a/two", then_killed=True):
        sweep(tmp_path)
        (kept,) = left(tmp_path)
        assert kept.name.startswith("one.")
    with write_whole(tmp_path / "a/one", tmp_path) as file:
        file.write(b"whole")
        sweep(tmp_path)
    assert (tmp_path / "a/one").read_bytes() == b"whole"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_nothing_unfinished_is_ever_among_the_released_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whoever copies the folder while a file is written copies nothing that is half a file."""
    released, true, seen = Released(tmp_path), getattr(os, call), []

    def noted(*given: object) -> None:
        seen.append([path.name for path in released.root.rglob("*") if path.is_file()])
        true(*given)

    released.write("s-1/certificate.json", b"old")
    monkeypatch.setattr(os, call, noted)
    released.write("s-1/certificate.json", b"new")
    assert seen
    assert all(names == ["certificate.json"] for names in seen)


def test_a_home_is_tidied_of_what_every_kind_of_writer_left(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    with (
        writer(vault.root, "shards/people/000", then_killed=True),
        writer(tmp_path, "released/s-1/report.html", then_killed=True),
        writer(tmp_path, "results/teach-0", then_killed=True),
        writer(tmp_path, "format", then_killed=True),
    ):
        assert len(left(tmp_path) + left(vault.root)) == 4
        tidy(tmp_path)
        assert left(tmp_path) + left(vault.root) == []
    assert vault.secret("installation") == Vault(vault.root).secret("installation")


def test_folders_that_a_killed_stage_left_are_swept_and_those_of_one_that_lives_are_not(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    with spiller(vault, then_killed=False):
        with spiller(vault, then_killed=True):
            assert len(left(vault.root)) == 4
        tidy(tmp_path)
        kept = left(vault.root)
        assert len(kept) == 2
        assert len({file.parent for file in kept}) == 1
    tidy(tmp_path)
    assert list((vault.root / UNFINISHED).iterdir()) == []
    assert {path.name for path in vault.root.iterdir()} == {UNFINISHED, "secrets"}


def test_what_is_erased_takes_what_its_killed_stages_left_with_it(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    for path in ("shards/people", "shards/people/key/spill"):
        with spiller(vault, then_killed=True):
            vault.destroy(path)
            assert left(vault.root) == []


def test_a_file_that_is_finished_while_a_sweep_looks_at_it_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = os.open

    def late(path: Path, *given: int) -> int:
        if str(path).endswith(("a", "b")):
            os.replace(path, tmp_path / Path(path).name)
        return true(path, *given)

    (tmp_path / UNFINISHED / "a").mkdir(parents=True)
    (tmp_path / UNFINISHED / "b").touch()
    monkeypatch.setattr(os, "open", late)
    sweep(tmp_path)
    assert (tmp_path / "b").exists()


def test_of_exclusive_writers_the_first_wins_and_nothing_is_left(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        try:
            with write_whole(tmp_path / "file", tmp_path, exclusive=True) as file:
                file.write(content)
        except FileExistsError:
            assert content == b"second"
    assert (tmp_path / "file").read_bytes() == b"first"
    assert left(tmp_path) == []
