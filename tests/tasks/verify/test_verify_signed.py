"""What was published is verified far from its home: who signed it, and every change that somebody planted in it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.console import concord
from tests.support.published import SESSION, World
from tests.support.sentences import says
from tests.tasks.verify.planted_changes import planted
from tests.tasks.verify.signed_folder import THEIRS, faults, sign_again, trusted
from tests.world import NotVerified, PublishedSession, verify_published

EVIDENCE = ("attestation.json", "attestation.schema.json", "key.pem", "ledger.json")


def test_a_copied_folder_verifies_by_the_key_a_reader_trusts(folder: Path) -> None:
    key = trusted(folder)
    checks = {check.name.removeprefix(f"{SESSION}: "): check for check in verify_published(folder, key=key)}
    assert all(check.ok for check in checks.values())
    assert key in checks["signature"].detail
    assert [name for name, check in checks.items() if check.warning] == ["not checked here"]
    assert {file.name for file in folder.iterdir()} >= set(EVIDENCE)


def test_any_bit_of_the_key_s_file_is_found_and_the_file_named_though_a_key_is(folder: Path, original: Path) -> None:
    ours, whole = trusted(original), (original / "key.pem").read_bytes()
    for at in range(0, len(whole), 7):
        (folder / "key.pem").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert "key.pem" in faults(folder, ours)["signature"]


def test_another_signer_fails_if_a_key_is_named_and_is_told_apart_if_not(folder: Path) -> None:
    ours = trusted(folder)
    sign_again(folder)
    assert "not the one that you named" in faults(folder, ours)["signature"]
    checks = {check.name.removeprefix(f"{SESSION}: "): check for check in verify_published(folder)}
    assert all(check.ok for check in checks.values())
    assert checks["signer"].warning
    assert THEIRS.public.fingerprint in checks["signer"].detail
    assert ours not in str(checks)


@pytest.mark.parametrize("name", ["certificate.schema.json", "attestation.schema.json"])
def test_a_schema_that_concord_does_not_write_is_found_whoever_signs_it(folder: Path, name: str) -> None:
    (folder / name).write_text("{}")
    sign_again(folder)
    assert faults(folder) == {"signature": f"{name} holds other bytes than Concord writes"}


@pytest.mark.parametrize("endless", ["pipe", "device"])
def test_a_certificate_that_never_ends_is_not_read(folder: Path, endless: str) -> None:
    (folder / "certificate.json").unlink()
    os.mkfifo(folder / "certificate.json") if endless == "pipe" else (folder / "certificate.json").symlink_to(
        "/dev/zero"
    )
    (found,) = verify_published(folder)
    assert (found.ok, "there is no certificate.json" in found.detail) == (False, True)


def test_what_nobody_signed_is_told(folder: Path) -> None:
    (folder / "labels" / "batch-00009.arrow").write_bytes(b"planted")
    (folder / "more").symlink_to(folder.parent, target_is_directory=True)
    os.mkfifo(folder / "pipe")
    checks = {check.name.removeprefix(f"{SESSION}: "): check for check in verify_published(folder)}
    assert "labels/batch-00009.arrow, people-1/more, people-1/pipe" in checks["other files"].detail


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_that_is_gone_is_missed(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert name in faults(folder)["signature"]


def test_a_certificate_that_nobody_signed_fails(folder: Path) -> None:
    for name in EVIDENCE:
        (folder / name).unlink()
    assert "key.pem" in faults(folder)["signature"]


def test_what_is_signed_and_not_there_is_named_after_what_is_there_was_compared(folder: Path) -> None:
    (folder / "spend.svg").unlink()
    found = faults(folder, trusted(folder))["signature"]
    assert "spend.svg is missing" in found
    assert f"files are unchanged since the key {trusted(folder)} signed them" in found
    (folder / "report.html").write_bytes(b"another")
    assert says(faults(folder)["signature"], "report.html is not the one that was signed")


@pytest.mark.parametrize("way", ["{session}/{file}", "{session}/./labels/../certificate.json", "/{file}", "{file}"])
def test_a_path_that_leads_out_of_what_is_published_is_not_read(folder: Path, tmp_path: Path, way: str) -> None:
    """One that goes on as an absolute path after the session's name is one."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"of somebody else")
    path = way.format(session=SESSION, file=outside)
    with pytest.raises(NotVerified, match="lies outside what is published"):
        PublishedSession.at(folder).read(path)


def test_names_of_files_pass_for_no_words_of_ours(folder: Path) -> None:
    (folder / "a[").mkdir()
    for name in ("a[/]", "b\nok   people-1: signer: a key you trust", "c\x1b[2K", os.fsdecode(b"\xff")):
        (folder / name).write_bytes(b"")
    status, out, _ = concord("verify", str(folder))
    assert status == 0
    assert "people-1/a[/]" in out
    assert not any(line.startswith("ok   people-1: signer") or "\x1b" in line for line in out.splitlines())


def test_the_commands_of_a_reader(home: World, folder: Path) -> None:
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


def test_a_home_has_its_key_before_its_first_run(tmp_path: Path) -> None:
    (status, first, made), (_, again, nothing) = (concord("key", "--home", str(tmp_path / "new")) for _ in range(2))
    assert (status, first, nothing) == (0, again, "")
    assert "created a new home folder" in made


@pytest.mark.slow
def test_two_hundred_planted_changes_are_all_found_and_their_file_named(original: Path, tmp_path: Path) -> None:
    changes = list(planted(original))
    assert len(changes) > 200
    missed = []
    for number, (names, change) in enumerate(changes):
        folder = Path(shutil.copytree(original, tmp_path / str(number) / SESSION))
        change(folder)
        found = faults(folder)
        if not any(name in str(found) for name in names):
            missed.append((number, names, found))
        shutil.rmtree(folder.parent)
    assert missed == []
