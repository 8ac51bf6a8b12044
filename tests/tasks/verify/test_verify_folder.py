"""A stranger's folder: files of any size, depth, kind and name are faults that are found; and what a reader asks of it.

What is changed in its content: test_tampering.py."""

import json
import os
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import concord
from tests.support.published import SESSION, World
from tests.support.sentences import says
from tests.tasks.verify.signed_folder import THEIRS, faults, sign_again, trusted
from tests.tasks.verify.tampering import repacked
from tests.world import LARGEST_FOLDER, Check, NotVerified, PublishedSession, load, verify_published


def checks_of(folder: Path) -> dict[str, Check]:
    return {check.name.removeprefix(f"{SESSION}: "): check for check in verify_published(folder)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("attestation.json", "attestation.json holds 1,099,511,627,776 bytes"),
        ("certificate.json", f"of such a file {LARGEST_FOLDER:,} are read"),
    ],
)
def test_a_terabyte_of_nothing_is_not_read(folder: Path, name: str, said: str) -> None:
    os.truncate(folder / name, 2**40)
    assert said in str(faults(folder))


@pytest.mark.parametrize("endless", ["pipe", "device"])
def test_a_certificate_that_never_ends_is_not_read(folder: Path, endless: str) -> None:
    file = folder / "certificate.json"
    file.unlink()
    os.mkfifo(file) if endless == "pipe" else file.symlink_to("/dev/zero")
    assert "there is no certificate.json" in faults(folder)["certificate"]


def test_json_of_any_depth_ends_in_a_sentence(folder: Path) -> None:
    values = (folder / "certificate.json").read_text()
    for deep in ("[" * 200_000, '{"a":' * 200_000 + "1" + "}" * 200_000):
        (folder / "certificate.json").write_text(values.replace('"settings": {', f'"settings": {{"deep": {deep}, ', 1))
        assert "is not a certificate" in faults(folder)["certificate"]


def test_a_student_as_an_earlier_library_packs_it_is_no_fault(folder: Path) -> None:
    repacked(_skops_version="0.1", **{"of that version": 1})(folder)
    sign_again(folder)
    assert "student" not in faults(folder)


def test_a_student_that_unpacks_to_more_than_it_is_is_not_unpacked() -> None:
    whole = BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", bytes(2**22))
    with pytest.raises(NotVerified, match="Concord packs no student"):
        load(whole.getvalue())


def test_a_folder_may_be_reached_by_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / SESSION).symlink_to(folder)
    assert not faults(tmp_path / "link" / SESSION)


@pytest.mark.parametrize("way", ["{session}/{file}", "{session}/./labels/../certificate.json", "/{file}", "{file}"])
def test_a_path_that_leads_out_of_what_is_published_is_not_read(folder: Path, tmp_path: Path, way: str) -> None:
    """One that goes on as an absolute path after the session's name is one."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"of somebody else")
    with pytest.raises(NotVerified, match="lies outside what is published"):
        PublishedSession.at(folder).read(way.format(session=SESSION, file=outside))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("certificate.json", "certificate.json cannot be read"),
        ("ledger.json", "ledger.json cannot be read"),
        (SESSION, "this user may not"),
    ],
)
def test_what_may_not_be_read_is_not_said_to_be_missing(
    folder: Path, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def may_not(file: Path, *how: Any) -> Any:
        if name in (file.name, file.parent.name):
            raise PermissionError
        return true(file, *how)

    method = "is_file" if name == SESSION else "open"
    true = getattr(Path, method)
    monkeypatch.setattr(Path, method, may_not)  # root may read all
    found = str(faults(folder))
    assert (said in found, "is missing" in found) == (True, False)


def test_what_nobody_signed_is_told(folder: Path) -> None:
    (folder / "labels" / "batch-00009.arrow").write_bytes(b"planted")
    (folder / "more").symlink_to(folder.parent, target_is_directory=True)
    os.mkfifo(folder / "pipe")
    assert "labels/batch-00009.arrow, people-1/more, people-1/pipe" in checks_of(folder)["other files"].detail


def test_a_folder_too_deep_to_be_listed_is_named_and_hides_no_fault(folder: Path) -> None:
    (folder / "report.html").write_bytes(b"another")
    inside = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=inside)
        inside, outer = os.open("x" * 200, os.O_RDONLY, dir_fd=inside), inside
        os.close(outer)
    os.close(inside)
    checks = checks_of(folder)
    assert not checks["signature"].ok
    assert "not signed with the rest: people-1/xxx" in checks["other files"].detail


def test_what_is_signed_and_not_there_is_named_after_what_is_there_was_compared(folder: Path) -> None:
    (folder / "spend.svg").unlink()
    found = faults(folder, trusted(folder))["signature"]
    assert "spend.svg is missing" in found
    assert f"files are unchanged since the key {trusted(folder)} signed them" in found
    (folder / "report.html").write_bytes(b"another")
    assert says(faults(folder)["signature"], "report.html is not the one that was signed")


def test_names_of_files_pass_for_no_words_of_ours(folder: Path) -> None:
    (folder / "a[").mkdir()
    for name in ("a[/]", "b\nok   people-1: signer: a key you trust", "c\x1b[2K", os.fsdecode(b"\xff")):
        (folder / name).write_bytes(b"")
    status, out, _ = concord("verify", str(folder))
    assert status == 0
    assert "people-1/a[/]" in out
    assert not any(line.startswith("ok   people-1: signer") or "\x1b" in line for line in out.splitlines())


def test_the_commands_of_a_reader(home: World, folder: Path, tmp_path: Path) -> None:
    nowhere = ("--home", str(tmp_path / "nowhere"), "--json")
    status, out, _ = concord("verify", str(folder), *nowhere)
    assert (status, json.loads(out)["ok"], (tmp_path / "nowhere").exists()) == (0, True, False)
    status, out, _ = concord("key", "--home", str(home.home), "--json")
    key = json.loads(out)
    assert (status, key["fingerprint"]) == (0, trusted(folder))
    pem = folder.parent / "publisher.pem"
    pem.write_text(key["pem"])
    for named in (str(pem), key["key"], key["fingerprint"]):
        assert concord("verify", str(folder), "--key", named)[0] == 0
    assert concord("verify", str(folder), "--key", THEIRS.public.raw.hex())[0] == 4
    assert concord("verify", str(folder), "--key", "nonsense")[0] == 2
    assert concord("verify", "--kept", str(folder), "--home", str(home.home))[0] == 0
    (folder / "certificate.json").unlink()
    status, out, _ = concord("verify", str(folder), *nowhere)
    assert (status, says(out, "no certificate.json", folder)) == (4, True)
    status, _, told = concord("verify", str(folder / "labels"), *nowhere)
    assert (status, says(told, folder / "labels", "nothing published")) == (1, True)


def test_a_home_has_its_key_before_its_first_run(tmp_path: Path) -> None:
    (status, first, made), (_, again, nothing) = (concord("key", "--home", str(tmp_path / "new")) for _ in range(2))
    assert (status, first, nothing) == (0, again, "")
    assert "created a new home folder" in made
