"""Whatever is changed in a published folder is found and named: unsigned, signed anew by another key, in its home."""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.support.published import SESSION
from tests.tasks.verify.every_record import every_edit, kept
from tests.tasks.verify.signed_folder import THEIRS, failing, faults, sign_again, trusted
from tests.tasks.verify.tampering import LIES, TAMPERING, told
from tests.world import NotVerified, handed_on, verify, verify_published

EVIDENCE = ("attestation.json", "attestation.schema.json", "key.pem", "ledger.json")


def publish(folder: Path, own: Path) -> None:
    """Have the home's session be that folder."""
    shutil.rmtree(own / "released" / SESSION)
    shutil.copytree(folder, own / "released" / SESSION, symlinks=True)


def test_an_honest_folder_holds_and_says_what_it_leaves(folder: Path) -> None:
    checks = {check.name.removeprefix(f"{SESSION}: "): check for check in verify_published(folder)}
    assert all(check.ok for check in checks.values())
    assert [name for name, check in checks.items() if check.warning] == ["signer", "not checked here"]
    assert verify_published(folder / "certificate.json") == [*checks.values()]
    key = trusted(folder)
    named = {check.name.removeprefix(f"{SESSION}: "): check for check in verify_published(folder, key=key)}
    assert all(check.ok for check in named.values())
    assert key in named["signature"].detail
    assert "signer" not in named
    assert {file.name for file in folder.iterdir()} >= {*EVIDENCE}


def test_another_signer_fails_if_a_key_is_named_and_is_told_apart_if_not(folder: Path) -> None:
    ours = trusted(folder)
    sign_again(folder)
    assert "not the one that you named" in faults(folder, ours)["signature"]
    checks = {check.name.removeprefix(f"{SESSION}: "): check for check in verify_published(folder)}
    assert all(check.ok for check in checks.values())
    assert checks["signer"].warning
    assert THEIRS.public.fingerprint in checks["signer"].detail
    assert ours not in str(checks)


@pytest.mark.parametrize("name", TAMPERING)
def test_what_somebody_changes_and_signs_is_found_and_named(folder: Path, name: str) -> None:
    tampering = TAMPERING[name]
    tampering.edit(folder)
    sign_again(folder)
    found, (first, *others) = faults(folder), tampering.checks.split(", ")
    assert tampering.says in found[first]
    assert found.keys() >= {*others}


@pytest.mark.slow
@pytest.mark.parametrize("name", TAMPERING)
def test_so_it_is_in_its_home(folder: Path, own: Path, name: str) -> None:
    """And the ledger there denies a lie of the certificate by itself."""
    TAMPERING[name].edit(folder)
    sign_again(folder)
    publish(folder, own)
    found = {check.name.rpartition(": ")[2] for check in verify(own) if not check.ok}
    assert {*TAMPERING[name].checks.split(", "), "certificate on record"} & found


def test_what_another_key_signed_is_no_publication_that_mlflow_missed(folder: Path, own: Path) -> None:
    """It passed as one, with whatever the ledger does not know."""
    told({"student.params": {"C": 1.0}})(folder)
    sign_again(folder)
    publish(folder, own)
    assert failing(verify(own)).keys() == {"report and figures"}


UNRECORDED = {"another accuracy", "another latest accuracy", "a later version"}
"""Lies of which the ledger knows nothing: the certificate denies them by itself."""


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie not in UNRECORDED])
def test_a_home_hands_on_no_certificate_that_its_ledger_denies_whoever_signed(
    folder: Path, own: Path, lie: str
) -> None:
    told(LIES[lie][0])(folder)
    sign_again(folder)
    publish(folder, own)
    with pytest.raises(NotVerified):
        handed_on(SESSION, own)


def test_a_home_hands_on_no_certificate_of_which_its_ledger_denies_a_field(
    folder: Path, own: Path, exhaustive: bool
) -> None:
    """It knows every field but those that come from the plan, from the student or from a file."""
    publish(folder, own)
    edits, released, missed = [*every_edit(folder)], own / "released" / SESSION, list[str]()
    known = [edit for edit in edits if edit.of_the_ledger and not edit.place.endswith((" removed", " with more"))]
    for edit in known if exhaustive else random.Random(1).sample(known, 12):
        with kept(released), suppress(NotVerified):
            edit.write(released)
            handed_on(SESSION, own)
            missed.append(edit.place)
    assert missed == []


@pytest.mark.parametrize("names", [*((name,) for name in EVIDENCE), EVIDENCE])
def test_evidence_that_is_gone_is_missed(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (folder / name).unlink()
    assert any(name in faults(folder)["signature"] for name in names)


def test_a_flipped_bit_of_any_file_is_found_and_the_file_named(folder: Path, exhaustive: bool) -> None:
    """Under the old signature: of the first byte and the last, and of some between."""
    rng, missed = np.random.default_rng(15), list[Path]()
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        whole = file.read_bytes()
        for place in {0, len(whole) - 1, *map(int, rng.integers(len(whole), size=20))} if exhaustive else {0, -1}:
            flipped = bytearray(whole)
            flipped[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(flipped)
            missed += [] if file.name in str(faults(folder)) else [file]
        file.write_bytes(whole)
    assert missed == []
