"""What is handed on was checked: by the ledger of its home, or by its signature."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.console import concord
from tests.support.published import SESSION, World
from tests.tasks.verify.signed_folder import sign_again
from tests.tasks.verify.tampering import LIES, told, written
from tests.world import HELD, READY, EnvironmentFailed, NotVerified, load_student, published_by, sha256

SMALLER = told(LIES["a smaller ε"][0])
EVIDENCE = ("attestation.json", "key.pem", "ledger.json")


def handings(subject: Path | str, home: Path, out: Path) -> dict[str, Callable[[], int]]:
    """Every command that hands on, with its exit status; what it writes, it writes to `out`."""
    table = str(home / "public.parquet")

    def asked(*words: str) -> Callable[[], int]:
        return lambda: concord(words[0], str(subject), *words[1:], "--home", str(home))[0]

    def loaded() -> int:
        try:
            load_student(subject, home=home)
        except NotVerified as wrong:
            return wrong.exit_status
        return 0

    return {
        "export": asked("export", "--to", str(out / "export")),
        "predict": asked("predict", table, "--out", str(out / "c.parquet")),
        "load_student": loaded,
    }


def refused(subject: Path | str, home: Path, out: Path) -> bool:
    """Whether every command ends with status 4, and none wrote a file."""
    out.mkdir()
    found = {name: hand() for name, hand in handings(subject, home, out).items()}
    assert set(found.values()) == {4}, found
    return list(out.iterdir()) == []


@pytest.mark.parametrize("place", ["a session of the home", "its folder there", "a copy elsewhere"])
def test_what_was_published_is_handed_on(own: Path, folder: Path, tmp_path: Path, place: str) -> None:
    shutil.copy(own / "public.parquet", tmp_path)
    places: dict[str, tuple[Path | str, Path]] = {
        "a session of the home": (SESSION, own),
        "its folder there": (own / "released" / SESSION, own),
        "a copy elsewhere": (folder, tmp_path),
    }
    out = tmp_path / "out"
    out.mkdir()
    found = handings(*places[place], out)
    assert {name for name, hand in found.items() if hand() == 0} == found.keys()


def test_a_publication_that_was_killed_is_finished_first(own: Path, tmp_path: Path) -> None:
    released, ready, out = own / "released" / SESSION, own / HELD / SESSION / READY, tmp_path / "out"
    out.mkdir()
    for name, hand in handings(SESSION, own, out).items():
        ready.mkdir(parents=True)
        for number, file in enumerate(sorted(released.iterdir())):
            file.replace(ready / f"{number}-{file.name}")
        assert hand() == 0, name


def test_an_edited_certificate_is_not_handed_on_by_its_home(own: Path, tmp_path: Path) -> None:
    SMALLER(own / "released" / SESSION)
    assert refused(SESSION, own, tmp_path / "out")


def test_a_session_that_the_ledger_does_not_know_is_not_handed_on(own: Path, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, own / "released" / "people-9")
    assert refused("people-9", own, tmp_path / "out")
    (own / "ledger.db").unlink()
    assert refused(SESSION, own, tmp_path / "without a ledger")


def other_student(folder: Path) -> None:
    """With a digest to match."""
    (folder / "student.skops").write_bytes(b"another")
    told({"student.file.digest": sha256(b"another")})(folder)


def unsigned(folder: Path) -> None:
    for name in EVIDENCE:
        (folder / name).unlink()


def signed_student(folder: Path) -> None:
    other_student(folder)
    sign_again(folder)


CHANGES: dict[str, Callable[[Path], object]] = {
    "the signature is gone": unsigned,
    "the certificate is another": SMALLER,
    **{f"{name} is another": written(name) for name in ("report.html", "ledger.json", "key.pem")},
    "the student is another": other_student,
    "the student is another, and signed": signed_student,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_copy_of_which_anything_is_not_as_it_was_signed_is_not_handed_on(
    home: World, folder: Path, tmp_path: Path, change: str
) -> None:
    CHANGES[change](folder)
    shutil.copy(home.home / "public.parquet", tmp_path)
    found = handings(folder, tmp_path, tmp_path / "out")
    assert {name for name, hand in found.items() if hand() != 4} == set()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["report.html", "certificate.json", "student.skops", "attestation.json"])
def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path, name: str) -> None:
    """`report.html` that was a link to a secret was copied, and handed on."""
    (tmp_path / "secret").write_bytes((folder / name).read_bytes())
    (folder / name).unlink()
    (folder / name).symlink_to(tmp_path / "secret")
    assert concord("export", str(folder), "--to", str(tmp_path / "out"), "--home", str(tmp_path))[0] in (2, 4)
    assert not (tmp_path / "out").exists()


def test_the_commands_need_no_vault(own: Path, tmp_path: Path) -> None:
    shutil.rmtree(own / "vault")
    (own / "vault").mkdir(mode=0o000)
    assert concord("export", SESSION, "--to", str(tmp_path / "out"), "--home", str(own))[0] == 0
    os.rmdir(own / "vault")


def test_a_registered_model_makes_no_home_where_none_is(tmp_path: Path) -> None:
    """A misspelt name made a new, empty home, in which there is no such model."""
    with pytest.raises(EnvironmentFailed, match="there is no home folder"):
        published_by("models:/people-student@champion", tmp_path / "hom")
    assert not (tmp_path / "hom").exists()
