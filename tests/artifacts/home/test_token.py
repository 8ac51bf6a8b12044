"""Keys in a token: the key signs as one in a file does, never leaves it, and what cannot be used is one sentence.

The token is SoftHSM's (the Debian package softhsm2); without it, or without python-pkcs11, these tests are skipped.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from typer.testing import CliRunner

from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.home.signing import SigningKey, payload_of
from concord.artifacts.home.token import TokenKey
from concord.artifacts.home.vault import Vault
from concord.artifacts.settings import SIGNING_KEY
from concord.flows.cli.commands import app
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.verify.published import verify_published
from tests.support.published import SESSION, certified, world

pkcs11 = pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed (the extra pkcs11)")
PLACES = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so")
MODULE = next((place for place in PLACES if Path(place).is_file()), "")
INSTALLED = MODULE and shutil.which("softhsm2-util")
pytestmark = pytest.mark.skipif(not INSTALLED, reason="SoftHSM is not installed (Debian package softhsm2)")
ED25519 = bytes.fromhex("06032b6570")
"""The curve's name, in DER."""
PIN, KIND = "a secret pin", "application/vnd.in-toto+json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A token `concord` with the keys `signing` and `rsa`, and its PIN in a file."""
    folder = tmp_path_factory.mktemp("token")
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder / 'tokens'}\n")
    (folder / "pin").write_text(f"{PIN}\n")
    (folder / "pin").chmod(0o600)
    before = os.environ.get("SOFTHSM2_CONF")
    os.environ["SOFTHSM2_CONF"] = str(folder / "softhsm2.conf")
    made = ["softhsm2-util", "--init-token", "--free", "--label", "concord", "--pin", PIN, "--so-pin", "another pin"]
    subprocess.run(made, check=True, capture_output=True)
    library: Any = pkcs11.lib(MODULE)
    library.reinitialize()
    with library.get_token(token_label="concord").open(user_pin=PIN, rw=True) as session:
        edwards = session.create_domain_parameters(
            pkcs11.KeyType.EC_EDWARDS, {pkcs11.Attribute.EC_PARAMS: ED25519}, local=True
        )
        edwards.generate_keypair(mechanism=pkcs11.Mechanism.EC_EDWARDS_KEY_PAIR_GEN, store=True, label="signing")
        session.generate_keypair(pkcs11.KeyType.RSA, 2048, store=True, label="rsa")
    yield folder
    os.environ.pop("SOFTHSM2_CONF") if before is None else os.environ.update(SOFTHSM2_CONF=before)


def address(folder: Path, **changes: str) -> str:
    terms = {"token": "concord", "object": "signing", "module-path": MODULE, "pin-source": f"file:{folder / 'pin'}"}
    terms |= {name.replace("_", "-"): value for name, value in changes.items()}
    at = "&".join(f"{name}={terms[name]}" for name in ("module-path", "pin-source"))
    return f"pkcs11:token={terms['token']};object={terms['object']}?{at}"


def test_a_key_in_a_token_signs_as_one_in_a_file_does(folder: Path) -> None:
    key = TokenKey.of(address(folder))
    signed = SigningKey(key).envelope(KIND, b"statement")
    assert signed == SigningKey(TokenKey.of(address(folder))).envelope(KIND, b"statement")
    assert payload_of(signed, KIND, SigningKey(key).public) == b"statement"
    assert isinstance(key.public_key(), Ed25519PublicKey)
    assert len(key.sign(b"")) == 64


def test_what_is_published_is_signed_by_the_token_and_the_vault_holds_nothing_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SIGNING_KEY, address(folder))
    made = world(tmp_path / "home", rows=60)
    certified(made, StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20), made.truth)
    fingerprint = SigningKey.of(made.vault).public.fingerprint
    checks = verify_published(made.released.root / SESSION, key=fingerprint)
    assert all(check.ok for check in checks), checks
    printed = CliRunner().invoke(app, ["key", "--home", str(made.home)])
    assert fingerprint in printed.stdout
    monkeypatch.delenv(SIGNING_KEY)
    assert SigningKey.of(made.vault).public.fingerprint != fingerprint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"token": "none"}, "the token 'none'"),
        ({"object": "none"}, "the key 'none'"),
        ({"object": "rsa"}, "the key 'rsa'"),
        ({"module_path": "/nowhere.so"}, "/nowhere.so, which is not there"),
        ({"module_path": __file__}, "gave no use of the key"),
        ({"pin_source": "/nowhere"}, "CONCORD_SIGNING_KEY names the file of the PIN, which cannot be read"),
        ({"pin_source": PIN}, "cannot be read"),
        ({"pin_source": "file:%00"}, "its name is none"),
        ({"pin_source": ""}, "lacks pin-source"),
        ({"pin_source": f"/x&pin-value={PIN}"}, "it has another part"),
    ],
)
def test_a_token_that_cannot_be_used_is_refused_in_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], words: str
) -> None:
    monkeypatch.setenv(SIGNING_KEY, address(folder, **changes))
    with pytest.raises(EnvironmentFailed, match=words) as refused:
        SigningKey.of(Vault(tmp_path / "vault"))
    assert PIN not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_token_is_known_however_its_scheme_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file's name it would be shown in an error, with the PIN that somebody wrote into it."""
    monkeypatch.setenv(SIGNING_KEY, address(folder).replace("pkcs11:", "PKCS11:"))
    assert SigningKey.of(Vault(tmp_path / "vault")).public == SigningKey(TokenKey.of(address(folder))).public
    monkeypatch.setenv(SIGNING_KEY, f"PKCS11:token=concord;object=signing?pin-value={PIN}")
    with pytest.raises(EnvironmentFailed, match="lacks module-path") as refused:
        SigningKey.of(Vault(tmp_path / "vault"))
    assert PIN not in str(refused.value)


def test_a_token_and_a_key_may_be_named_by_number_as_well(folder: Path) -> None:
    plain = TokenKey.of(address(folder))
    with pkcs11.lib(MODULE).get_token(token_label="concord").open(user_pin=PIN) as session:
        key = session.get_key(object_class=pkcs11.ObjectClass.PUBLIC_KEY, label="signing")
        number, serial = bytes(key[pkcs11.Attribute.ID]).hex(), session.token.serial.decode()
    exact = address(folder).replace(";object", f";serial={serial};object")
    exact = exact.replace("?", f";id={''.join(f'%{number[at : at + 2]}' for at in range(0, len(number), 2))}?")
    assert TokenKey.of(exact).public_key() == plain.public_key()


def test_a_wrong_pin_and_one_that_others_may_read_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pin").write_text("another pin")
    (tmp_path / "pin").chmod(0o644)
    with pytest.raises(EnvironmentFailed, match="must be readable by its owner alone"):
        TokenKey.of(address(folder, pin_source=str(tmp_path / "pin")))
    (tmp_path / "pin").chmod(0o600)
    with pytest.raises(EnvironmentFailed, match="PinIncorrect") as refused:
        TokenKey.of(address(folder, pin_source=str(tmp_path / "pin")))
    assert "another pin" not in str(refused.value)


def test_a_signature_of_another_key_than_the_public_one_is_not_used(folder: Path) -> None:
    """The planted bug: public and private halves that do not belong together."""
    key = TokenKey.of(address(folder))
    key._public = Ed25519PrivateKey.generate().public_key()
    with pytest.raises(EnvironmentFailed, match="by another key"):
        key.sign(b"statement")
