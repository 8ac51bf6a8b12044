"""The excerpt of the ledger beside a certificate: what it denies is found, whoever signs, and what it asks ends."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import concord
from tests.support.published import SESSION, World, leading, opening, rewrite
from tests.support.sentences import facts, says
from tests.tasks.verify.signed_folder import STABLE, claim, entry, faults, sign_again, trusted
from tests.world import (
    Certificate,
    Excerpt,
    Ledger,
    NotVerified,
    StableVoting,
    Vault,
    describe,
    excerpt_of,
    verify_kept,
    verify_signed,
)


def above_the_cap(values: dict[str, Any]) -> None:
    """A dear session, well proved: its settings prove it and what they say is said everywhere in the certificate."""
    dear = StableVoting.calibrate(epsilon=50.0, delta=1e-5, cutoff=20).settings()
    leading(values)["mechanism"]["settings"] = dear
    claim("epsilon", 50.0)(values)
    values["guarantee"]["replace_one"] = {"epsilon": 100.0, "delta": 1.0}


def dear_entry(values: dict[str, Any]) -> None:
    """The same in the excerpt, charged what the cheap one was."""
    dear = StableVoting.calibrate(epsilon=50.0, delta=1e-5, cutoff=20).settings()
    for line in values["entries"]:
        if line["kind"] == "open":
            line["body"].update(mechanism=dear, epsilon=50.0)


UNTOLD: dict[str, Callable[[dict[str, Any]], object]] = {
    "the unit": claim("unit", "one planet"),
    "above the cap": above_the_cap,
    "the cap": lambda values: values["domain"]["cap"].update(epsilon=40.0),
    "spent": lambda values: values["domain"]["spent"].update(epsilon=0.5),
    "a session more": lambda values: values["domain"].update(sessions=2),
    "a share": lambda values: values["domain"]["charges"][0].update(share=0.01),
    "a status": lambda values: values["domain"]["charges"][0].update(status="closed"),
    "another domain": lambda values: values["domain"].update(name="elsewhere"),
    "refusals": lambda values: leading(values)["counts"].update(refused=19, answered=267),
    "teachers": lambda values: leading(values).update(teachers=1000),
    "a stream": lambda values: leading(values).update(stream="weekly"),
    "the proof": lambda values: leading(values)["mechanism"].update(proof="a page of theirs"),
    "that nobody sees an older copy": lambda values: values["caveats"].pop(-2),
    "that a pre-check was shown": lambda values: values["caveats"].pop(),
}


@pytest.mark.parametrize("lie", UNTOLD)
def test_a_lie_that_the_ledger_s_excerpt_denies_is_found_whoever_signs(folder: Path, lie: str) -> None:
    rewrite(folder, UNTOLD[lie])
    sign_again(folder)
    assert "signature" not in faults(folder)
    assert "ledger excerpt" in faults(folder)


BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "cheaper": lambda values: entry("open")(values)["reserved"].update(renyi="0.000001000000000000"),
    "settled for less": lambda values: entry("settle")(values)["charge"].update(renyi="0.000001000000000000"),
    "another cap": lambda values: entry("domain")(values)["filter"].update(epsilon=40.0),
    "another unit": lambda values: entry("domain")(values).update(unit="one planet"),
    "a dear session at the price of a cheap one": dear_entry,
    "without the session": lambda values: values.update(entries=values["entries"][:1]),
    "opened twice": lambda values: values["entries"].insert(1, values["entries"][1]),
    "out of order": lambda values: values["entries"].reverse(),
    "of another domain": lambda values: values["entries"][1].update(domain="elsewhere"),
    "nothing": lambda values: values.update(entries=values["entries"][:0] or values["entries"][-1:]),
}


@pytest.mark.parametrize("lie", BROKEN)
def test_an_excerpt_that_breaks_the_rule_or_does_not_carry_the_claim_is_found(folder: Path, lie: str) -> None:
    if lie == "a dear session at the price of a cheap one":
        rewrite(folder, above_the_cap)
    sign_again(folder, BROKEN[lie])
    assert "ledger.json" in str(faults(folder)) or "ledger excerpt" in faults(folder)


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
    text = excerpt_of(made, ledger, Vault(copy / "vault")).text
    if epsilon == 0.5:
        assert "agree with the certified charges and claim" in verify_signed.excerpt(made, lambda _: text)
        again = made.model_copy(update={"sessions": (*made.sessions, *made.other_sessions)})
        with pytest.raises(NotVerified, match="names a session twice"):  # before each is priced
            verify_signed.excerpt(again, lambda _: text)
    else:
        with pytest.raises(NotVerified, match=facts("session people-2", "prove δ")):
            verify_signed.excerpt(made, lambda _: text)


def test_a_home_s_excerpt_that_nobody_wrote_so_is_a_fault_and_no_traceback(home: World, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(home.home, tmp_path / "copy"))
    file = copy / "released" / SESSION / "ledger.json"
    values = json.loads(file.read_text())
    entry("open")(values)["mechanism"] = []
    file.write_bytes(Excerpt.model_validate(values).text)
    status, out, _ = concord("verify", SESSION, "--home", str(copy), "--json")
    failing = {check["name"] for check in json.loads(out)["checks"] if not check["ok"]}
    assert (status, f"{SESSION}: signature" in failing) == (4, True)


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
    sign_again(later, entry_renamed)  # by whom does not matter: what a reader kept is what it is held against
    status, out, _ = concord("verify", str(later), "--kept", str(kept), *nowhere)
    assert (status, says(out, "kept certificate", "later excerpt", "denies", "domain people")) == (
        4,
        True,
    )
    status, out, _ = concord("verify", str(kept), "--kept", str(tmp_path / "lost"), "--key", ours, *nowhere)
    assert (status, "there is no certificate.json" in out) == (4, True)
    (kept / "ledger.json").write_bytes((later / "ledger.json").read_bytes())
    assert says(concord("verify", str(later), "--kept", str(kept))[1], "ledger.json is not the one that was signed")


def entry_renamed(values: dict[str, Any]) -> None:
    """Another ledger that says the same: only what binds it to all before it differs."""
    values["entries"][0]["commitment"] = "0" * 64
