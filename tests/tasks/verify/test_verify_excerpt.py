"""The excerpt of the ledger beside a certificate, held against another session, ledger or folder.

Edits of it: test_tampering.py."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.console import concord
from tests.support.published import SESSION, World, opening
from tests.support.sentences import facts, says
from tests.tasks.verify.signed_folder import STABLE, sign_again, trusted
from tests.tasks.verify.tampering import excerpted
from tests.world import (
    Certificate,
    Ledger,
    NotVerified,
    StableVoting,
    describe,
    excerpt_as_certified,
    excerpt_of,
    guarantee_as_proved,
    verify_kept,
)


@pytest.mark.parametrize("epsilon", [0.5, 0.01])
def test_what_a_session_of_the_same_run_claims_is_what_its_settings_prove(
    home: World, tmp_path: Path, epsilon: float
) -> None:
    """It is a part of what is promised of all that was published, though what it is charged follows from settings."""
    copy = Path(shutil.copytree(home.home, tmp_path / "copy"))
    ledger, asked = Ledger.of(copy), opening(StableVoting.calibrate(epsilon=0.5, delta=1e-6, cutoff=2), "people-2")
    ledger.open_session(
        replace(asked, epsilon=epsilon, mechanism={**asked.mechanism, "epsilon": epsilon}), further=True
    )
    written = Certificate.model_validate_json((copy / "released" / SESSION / "certificate.json").read_bytes())
    files = {SESSION: written.leading.files, "people-2": ()}
    made = describe(files, written.stated, ledger, home.released)
    excerpt = excerpt_of(made, ledger, copy)
    if epsilon == 0.5:
        assert "agree with the certified charges and claim" in excerpt_as_certified(made, excerpt)
        again = made.model_copy(update={"sessions": (*made.sessions, *made.other_sessions)})
        with pytest.raises(NotVerified, match="names a session twice"):  # before each is priced
            excerpt_as_certified(again, excerpt)
    else:
        with pytest.raises(NotVerified, match=facts("session people-2", "prove δ")):
            guarantee_as_proved(made)


def test_a_kept_certificate_is_held_by_its_home_and_denied_by_another(
    home: World, folder: Path, tmp_path: Path
) -> None:
    (kept,) = verify_kept(home.home, folder, trusted(folder))
    assert kept.ok, kept.detail
    ours = trusted(folder)
    ledger = Ledger.of(home.home)
    ledger.remark("people", "erased", "digest of a unit")
    assert verify_kept(home.home, folder)[0].ok  # the ledger went on
    later = Path(shutil.copytree(home.home, tmp_path / "later"))
    (later / "ledger.db").unlink()
    denying = Ledger.of(later)
    denying.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=4.0, delta=4e-5)
    denying.open_session(opening(STABLE))
    (denied,) = verify_kept(later, folder)
    assert not denied.ok
    assert "denies entry 1 (domain people)" in denied.detail
    shutil.rmtree(later / "vault" / "secrets")
    assert "lacks the secret" in verify_kept(later, folder)[0].detail
    sign_again(folder)
    assert "not the one that you named" in verify_kept(home.home, folder, ours)[0].detail


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
