"""A stranger's folder: files of any size, depth, kind and name are faults that are found; and what a reader asks of it.

What is changed in its content: test_tampering.py. Last, the excerpt of the ledger beside a certificate, held against
another session, ledger or folder."""

import json
import os
import shutil
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.console import concord
from tests.support.published import SESSION, World, opening
from tests.support.sentences import facts, says
from tests.tasks.verify.signed_folder import STABLE, THEIRS, faults, sign_again, trusted
from tests.tasks.verify.tampering import excerpted, repacked


def checks_of(folder: Path) -> dict[str, world.Check]:
    return {check.name.removeprefix(f"{SESSION}: "): check for check in world.verify_published(folder)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("attestation.json", "attestation.json holds 1,099,511,627,776 bytes"),
        ("certificate.json", f"of such a file {world.LARGEST_FOLDER:,} are read"),
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
    with pytest.raises(world.NotVerified, match="Concord packs no student"):
        world.load(whole.getvalue())


def test_a_folder_may_be_reached_by_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / SESSION).symlink_to(folder)
    assert not faults(tmp_path / "link" / SESSION)


@pytest.mark.parametrize("way", ["{session}/{file}", "{session}/./labels/../certificate.json", "/{file}", "{file}"])
def test_a_path_that_leads_out_of_what_is_published_is_not_read(folder: Path, tmp_path: Path, way: str) -> None:
    """One that goes on as an absolute path after the session's name is one."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"of somebody else")
    with pytest.raises(world.NotVerified, match="lies outside what is published"):
        world.PublishedSession.at(folder).read(way.format(session=SESSION, file=outside))


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


# The ledger's excerpt -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 0.01])
def test_what_a_session_of_the_same_run_claims_is_what_its_settings_prove(
    home: World, tmp_path: Path, epsilon: float
) -> None:
    """It is a part of what is promised of all that was published, though what it is charged follows from settings."""
    copy = Path(shutil.copytree(home.home, tmp_path / "copy"))
    ledger = world.Ledger.of(copy)
    asked = opening(world.calibrated_stable(epsilon=0.5, delta=1e-6, cutoff=2), "people-2")
    ledger.open_session(
        replace(asked, epsilon=epsilon, mechanism={**asked.mechanism, "epsilon": epsilon}), further=True
    )
    written = world.Certificate.model_validate_json((copy / "released" / SESSION / "certificate.json").read_bytes())
    files = {SESSION: written.leading.files, "people-2": ()}
    made = world.describe(files, written.stated, ledger, home.released)
    excerpt = world.excerpt_of(made, ledger, copy)
    if epsilon == 0.5:
        assert "agree with the certified charges and claim" in world.excerpt_as_certified(made, excerpt)
        again = made.model_copy(update={"sessions": (*made.sessions, *made.other_sessions)})
        with pytest.raises(world.NotVerified, match="names a session twice"):  # before each is priced
            world.excerpt_as_certified(again, excerpt)
    else:
        with pytest.raises(world.NotVerified, match=facts("session people-2", "prove δ")):
            world.guarantee_as_proved(made)


def test_a_kept_certificate_is_held_by_its_home_and_denied_by_another(
    home: World, folder: Path, tmp_path: Path
) -> None:
    (kept,) = world.verify_kept(home.home, folder, trusted(folder))
    assert kept.ok, kept.detail
    ours = trusted(folder)
    ledger = world.Ledger.of(home.home)
    ledger.remark("people", "erased", "digest of a unit")
    assert world.verify_kept(home.home, folder)[0].ok  # the ledger went on
    later = Path(shutil.copytree(home.home, tmp_path / "later"))
    (later / "ledger.db").unlink()
    denying = world.Ledger.of(later)
    denying.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=4.0, delta=4e-5)
    denying.open_session(opening(STABLE))
    (denied,) = world.verify_kept(later, folder)
    assert not denied.ok
    assert "denies entry 1 (domain people)" in denied.detail
    shutil.rmtree(later / "vault" / "secrets")
    assert "lacks the secret" in world.verify_kept(later, folder)[0].detail
    sign_again(folder)
    assert "not the one that you named" in world.verify_kept(home.home, folder, ours)[0].detail


def test_two_published_folders_are_enough_to_find_a_ledger_that_denies(folder: Path, tmp_path: Path) -> None:
    """Whoever kept one holds it against a later one of the domain, without a home."""
    ours, nowhere = trusted(folder), ("--home", str(tmp_path / "nowhere"))
    later, kept = folder, Path(shutil.copytree(folder, tmp_path / "kept"))
    assert concord("verify", str(later), "--kept", str(kept), *nowhere)[0] == 0
    excerpted({"entries.0.commitment": "0" * 64})(later)  # only what binds it to all before it differs
    sign_again(later)  # by whom does not matter: what a reader kept is what it is held against
    status, out, _ = concord("verify", str(later), "--kept", str(kept), *nowhere)
    assert (status, says(out, "kept certificate", "later excerpt", "denies", "domain people")) == (
        4,
        True,
    )
    status, out, _ = concord("verify", str(kept), "--kept", str(tmp_path / "lost"), "--key", ours, *nowhere)
    assert (status, "there is no certificate.json" in out) == (4, True)
    (kept / "ledger.json").write_bytes((later / "ledger.json").read_bytes())
    assert says(concord("verify", str(later), "--kept", str(kept))[1], "ledger.json is not the one that was signed")
