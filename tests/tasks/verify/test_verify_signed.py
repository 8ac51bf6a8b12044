"""What was published is verified far from its home: who signed it, and every change that somebody planted in it."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from concord.artifacts.attestation import LedgerHead, PrivacyClaim, Statement, Subject
from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import NotVerified
from concord.artifacts.guarantee import WITNESSED
from concord.artifacts.home.released import sha256
from concord.artifacts.home.signing import PAYLOAD_TYPE, PublicKey, SigningKey
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.excerpt import Excerpt
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Ref
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.publish.attest import excerpt_of
from concord.tasks.publish.describe import describe
from concord.tasks.verify import published, signed
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.recompute import least_delta
from concord.tasks.verify.signed import PublishedSession
from concord.tasks.verify.verify import verify_kept
from tests.support.console import concord
from tests.support.published import SESSION, World, certified, opening, rewrite, world
from tests.tasks.verify.planted_changes import planted

STABLE = StableVoting.calibrate(epsilon=2.5, delta=1e-5, cutoff=20)
THEIRS = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
"""The key of somebody else."""
EVIDENCE = ("attestation.json", "attestation.schema.json", "key.pem", "ledger.json", "model.sig", "model-key.pem")


@cache
def recomputed(settings: str, epsilon: float) -> float:
    return least_delta(json.loads(settings), epsilon)


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the same settings prove is recomputed once for all of these tests."""
    monkeypatch.setattr(
        published, "least_delta", lambda settings, epsilon: recomputed(json.dumps(settings, sort_keys=True), epsilon)
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = world(tmp_path_factory.mktemp("home") / "made")
    labels = made.truth.copy()
    labels[::15] = -1
    certified(made, STABLE, labels[:286])
    return made


@pytest.fixture(scope="module")
def original(home: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it published, copied to another place."""
    return Path(shutil.copytree(home.released.root / SESSION, tmp_path_factory.mktemp("alone") / SESSION))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / SESSION))


def trusted(folder: Path) -> str:
    """The fingerprint of the key that a reader trusts: the home's."""
    return PublicKey.of_pem((folder / "key.pem").read_bytes()).fingerprint


def faults(folder: Path, key: str | None = None) -> dict[str, str]:
    """What fails."""
    checks = verify_published(folder, key=key)
    return {check.name.removeprefix(f"{SESSION}: "): check.detail for check in checks if not check.ok}


def sign_again(folder: Path, change: Callable[[dict[str, Any]], object] = dict.copy) -> None:
    """Sign the folder as it lies there by another key, as Concord would; `change` is done to its excerpt."""
    file = folder / "ledger.json"
    values = json.loads(file.read_text())
    change(values)
    excerpt = Excerpt.model_validate(values)
    file.write_bytes(excerpt.text)
    (folder / "key.pem").write_bytes(THEIRS.public.pem)
    files = sorted(each for each in folder.rglob("*") if each.is_file() and each.name != "attestation.json")
    refs = [Ref(path=f"{SESSION}/{each.relative_to(folder)}", digest=sha256(each.read_bytes())) for each in files]
    certificate = Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    head = LedgerHead(entries=len(excerpt.entries), head=excerpt.head)
    statement = Statement(subject=tuple(map(Subject.of, refs)), predicate=PrivacyClaim.of(certificate, head))
    (folder / "attestation.json").write_bytes(THEIRS.envelope(PAYLOAD_TYPE, statement.text))


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


def claim(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    """The claim, where the certificate says it."""

    def change(values: dict[str, Any]) -> None:
        values["guarantee"][key] = value
        for charge in values["domain"]["charges"]:
            charge.update({key: value} if key in charge else {})

    return change


def above_the_cap(values: dict[str, Any]) -> None:
    """A dear session, well proved: its settings prove it and what they say is said everywhere in the certificate."""
    dear = StableVoting.calibrate(epsilon=50.0, delta=1e-5, cutoff=20).settings()
    values["mechanism"]["settings"] = dear
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
    "lost": lambda values: values["domain"].update(lost=0.1),
    "another domain": lambda values: values["domain"].update(name="elsewhere"),
    "refusals": lambda values: values["counts"].update(refused=19, answered=267),
    "teachers": lambda values: values.update(teachers=1000),
    "the proof": lambda values: values["mechanism"].update(proof="a page of theirs"),
    "that nobody sees an older copy": lambda values: values["caveats"].pop(),
    "that a pre-check was shown": lambda values: values["caveats"].pop(-2),
    "that a witness sees it": lambda values: values["caveats"].__setitem__(-1, WITNESSED),
    "the version": lambda values: values["versions"].update({"concord when opened": "0.1.0"}),
}


@pytest.mark.parametrize("lie", UNTOLD)
def test_a_lie_that_the_ledger_s_excerpt_denies_is_found_whoever_signs(folder: Path, lie: str) -> None:
    rewrite(folder, UNTOLD[lie])
    sign_again(folder)
    assert "signature" not in faults(folder)
    assert "ledger excerpt" in faults(folder)


def entry(kind: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda values: next(line["body"] for line in values["entries"] if line["kind"] == kind)


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


@pytest.mark.parametrize("endless", ["pipe", "device"])
def test_a_certificate_that_never_ends_is_not_read(folder: Path, endless: str) -> None:
    (folder / "certificate.json").unlink()
    os.mkfifo(folder / "certificate.json") if endless == "pipe" else (folder / "certificate.json").symlink_to(
        "/dev/zero"
    )
    (found,) = verify_published(folder)
    assert (found.ok, "there is no certificate.json" in found.detail) == (False, True)


def test_more_rounds_than_a_session_has_are_refused(folder: Path) -> None:
    """Each would be priced with all other settings, however large."""
    asked = {"name": "tallies", "rounds": [{}] * 300}
    sign_again(folder, lambda values: entry("open")(values).update(mechanism=asked))
    assert "has 300 rounds" in faults(folder)["ledger excerpt"]


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


def test_an_earlier_version_s_certificate_is_not_signed_which_is_told_and_fails_if_a_key_is_named(folder: Path) -> None:
    for name in EVIDENCE:
        (folder / name).unlink()
    assert "key.pem" in faults(folder)["signature"]  # of this version, it must be there
    rewrite(folder, lambda values: values.update(format="concord certificate 2"))  # which no version published
    assert "key.pem" in faults(folder)["signature"]
    rewrite(folder, lambda values: values.update(format="concord certificate 1"))
    assert "writes no certificate of the format" in faults(folder)["certificate"]
    rewrite(folder, lambda values: values["versions"].update({"concord": "0.1.0", "concord when opened": "0.1.0"}))
    assert faults(folder) == {}
    warned = {check.name.split(": ")[1]: check for check in verify_published(folder) if check.warning}
    assert warned["signature"].detail.startswith("NOBODY SIGNED THIS")
    assert {"negative-zero", "believed-cache"} <= {*warned["known faults"].faults}
    assert "signature" in faults(folder, THEIRS.public.fingerprint)


@pytest.mark.parametrize("left", ["key.pem", "ledger.json"])
def test_the_words_of_an_earlier_format_do_not_hide_that_a_signature_was_taken_away(folder: Path, left: str) -> None:
    for name in set(EVIDENCE) - {left}:
        (folder / name).unlink()
    rewrite(folder, lambda values: values.update(format="concord certificate 1"))
    assert "signature" in faults(folder)


def test_what_is_signed_and_not_there_is_named_after_what_is_there_was_compared(folder: Path) -> None:
    (folder / "spend.svg").unlink()
    found = faults(folder, trusted(folder))["signature"]
    assert "spend.svg is missing" in found
    assert f"files are as the key {trusted(folder)} signed them" in found
    (folder / "report.html").write_bytes(b"another")
    assert "report.html is not the one that was signed" in faults(folder)["signature"]


ENDLESS: dict[str, dict[str, Any]] = {
    "query_scale": {"name": "sparse_vector", "threshold_scale": 9.0, "query_scale": "1e9", "threshold": 1},
    "copies": {"name": "stable", "relabel": {"copies": 2**22}},
    "queries": {"name": "laplace_votes", "queries": 2**40, "scale": 1e6, "classes": 3},
    "least": {"name": "tallies", "steps": 4, "rounds": [{"least": -(10**9)}]},
    "steps": {"name": "tallies", "steps": 2**22, "rounds": []},
    "threshold": {"name": "laplace_release", "threshold": 1e5, "scale": 1.0},
    "threshold_scale": {"name": "sparse_vector", "threshold_scale": 1e6, "query_scale": 9.0, "threshold": 1},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_settings_in_an_excerpt_that_would_take_minutes_or_gigabytes_are_refused(folder: Path, name: str) -> None:
    asked = {**ENDLESS[name], "epsilon": 1.0, "delta": 1e-5}
    sign_again(folder, lambda values: entry("open")(values).update(mechanism=asked))
    assert f"{name} is beyond" in faults(folder)["ledger excerpt"]


@pytest.mark.parametrize("part", ["renyi", "delta"])
def test_a_number_of_a_billion_digits_is_not_read(folder: Path, part: str) -> None:
    sign_again(folder, lambda values: entry("open")(values)["reserved"].update({part: "1e1000000000"}))
    assert "cannot be followed" in faults(folder)["ledger excerpt"]


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
    known = written.labels, written.counts, written.stated
    made = describe(SESSION, *known, beside={"people-2": ()}, ledger=ledger, released=home.released)
    text = excerpt_of(made, ledger, Vault(copy / "vault")).text
    if epsilon == 0.5:
        assert "carry the domain's charges" in signed.excerpt(made, lambda _: text)
    else:
        with pytest.raises(NotVerified, match="the settings of session people-2 prove δ = "):
            signed.excerpt(made, lambda _: text)


@pytest.mark.parametrize("way", ["{session}/{file}", "{session}/./labels/../certificate.json", "/{file}", "{file}"])
def test_a_path_that_leads_out_of_what_is_published_is_not_read(folder: Path, tmp_path: Path, way: str) -> None:
    """One that goes on as an absolute path after the session's name is one."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"of somebody else")
    path = way.format(session=SESSION, file=outside)
    with pytest.raises(NotVerified, match="lies outside what is published"):
        PublishedSession.at(folder).read(path)


def test_a_home_s_excerpt_that_nobody_wrote_so_is_a_fault_and_no_traceback(home: World, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(home.home, tmp_path / "copy"))
    file = copy / "released" / SESSION / "ledger.json"
    values = json.loads(file.read_text())
    entry("open")(values)["mechanism"] = []
    file.write_bytes(Excerpt.model_validate(values).text)
    status, out, _ = concord("verify", SESSION, "--home", str(copy), "--json")
    failing = {check["name"] for check in json.loads(out)["checks"] if not check["ok"]}
    assert (status, f"{SESSION}: signature" in failing) == (4, True)


def test_names_of_files_pass_for_no_words_of_ours(folder: Path) -> None:
    (folder / "a[").mkdir()
    for name in ("a[/]", "b\nok   people-1: signer: a key you trust", "c\x1b[2K", os.fsdecode(b"\xff")):
        (folder / name).write_bytes(b"")
    status, out, _ = concord("verify", str(folder))
    assert status == 0
    assert "people-1/a[/]" in out
    assert not any(line.startswith("ok   people-1: signer") or "\x1b" in line for line in out.splitlines())


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
    assert (status, "kept certificate: the later excerpt denies what was signed before (domain people)" in out) == (
        4,
        True,
    )
    status, out, _ = concord("verify", str(kept), "--kept", str(tmp_path / "lost"), "--key", ours, *nowhere)
    assert (status, "there is no certificate.json" in out) == (4, True)
    (kept / "ledger.json").write_bytes((later / "ledger.json").read_bytes())
    assert "ledger.json is not the one that was signed" in concord("verify", str(later), "--kept", str(kept))[1]


def entry_renamed(values: dict[str, Any]) -> None:
    """Another ledger that says the same: only what binds it to all before it differs."""
    values["entries"][0]["commitment"] = "0" * 64


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
