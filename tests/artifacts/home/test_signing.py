"""Keys and envelopes: one key a home, one spelling of an envelope, and nothing that another key signed is opened."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from securesystemslib.dsse import Envelope as TheirEnvelope
from securesystemslib.signer._key import SSlibKey

from tests import world
from tests.support.sentences import facts

KIND, STATEMENT = "application/vnd.in-toto+json", b'{"said": "so"}'


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> world.SigningKey:
    monkeypatch.delenv(world.SIGNING_KEY, raising=False)
    return world.SigningKey.of(tmp_path)


def pem(key: Ed25519PrivateKey | X25519PrivateKey, lock: KeySerializationEncryption | None = None) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock or NoEncryption())


def test_the_format_s_own_example_is_what_is_signed(key: world.SigningKey) -> None:
    """The protocol's published example of what is signed, literally."""
    envelope = world.Envelope.model_validate_json(key.envelope("http://example.com/HelloWorld", b"hello world"))
    assert envelope.payload == "aGVsbG8gd29ybGQ="
    signature = base64.b64decode(envelope.signatures[0].sig)
    Ed25519PublicKey.from_public_bytes(key.public.raw).verify(
        signature, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_another_reader_verifies_it(key: world.SigningKey) -> None:
    theirs = TheirEnvelope.from_dict(json.loads(key.envelope(KIND, STATEMENT)))
    public = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(key.public.raw), keyid=key.public.fingerprint)
    assert theirs.verify([public], 1)
    assert theirs.payload == STATEMENT


def test_a_home_has_one_key_and_signs_the_same_bytes(tmp_path: Path, key: world.SigningKey) -> None:
    again = world.SigningKey.of(tmp_path)
    assert again.envelope(KIND, STATEMENT) == key.envelope(KIND, STATEMENT)
    assert world.payload_of(key.envelope(KIND, STATEMENT), KIND, key.public) == STATEMENT
    assert world.SigningKey.of(tmp_path / "other").public != key.public


def test_any_changed_bit_of_an_envelope_is_refused(key: world.SigningKey) -> None:
    envelope = key.envelope(KIND, STATEMENT)
    for at in range(8 * len(envelope)):
        changed = bytearray(envelope)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(world.NotVerified):
            world.payload_of(bytes(changed), KIND, key.public)


def test_another_key_another_type_and_another_spelling_are_refused(tmp_path: Path, key: world.SigningKey) -> None:
    envelope, other = key.envelope(KIND, STATEMENT), world.SigningKey.of(tmp_path / "other")
    for text, kind, public in (
        (envelope, KIND, other.public),
        (envelope.replace(key.public.fingerprint.encode(), other.public.fingerprint.encode()), KIND, other.public),
        (envelope, "text/plain", key.public),
        (envelope + b"\n", KIND, key.public),
        (b"{}", KIND, key.public),
        (b"\xff", KIND, key.public),
    ):
        with pytest.raises(world.NotVerified):
            world.payload_of(text, kind, public)


def test_a_key_is_named_by_file_digits_or_fingerprint(tmp_path: Path, key: world.SigningKey) -> None:
    public = key.public
    (tmp_path / "key.pem").write_bytes(public.pem)
    (tmp_path / "key.hex").write_text(f"{public.fingerprint}\n")
    for named in (str(tmp_path / "key.pem"), str(tmp_path / "key.hex"), public.raw.hex(), public.fingerprint.upper()):
        assert public.is_named(world.PublicKey.named(named))
    assert public.fingerprint == hashlib.sha256(bytes.fromhex("302a300506032b6570032100") + public.raw).hexdigest()
    (tmp_path / "none").write_bytes(b"\xff\x00")
    for nonsense in ("", "abc", "zz" * 32, str(tmp_path / "none"), str(tmp_path), "no\x00file"):
        with pytest.raises(world.WrongInput, match="--key must be"):
            world.PublicKey.named(nonsense)


def test_the_operator_may_name_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: world.SigningKey) -> None:
    file, own = tmp_path / "mine.pem", Ed25519PrivateKey.generate()
    file.write_bytes(pem(own))
    file.chmod(0o600)
    monkeypatch.setenv(world.SIGNING_KEY, str(file))
    named = world.SigningKey.of(tmp_path)
    assert named.public.raw == own.public_key().public_bytes_raw() != key.public.raw


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        (pem(Ed25519PrivateKey.generate()), 0o644),
        (pem(X25519PrivateKey.generate()), 0o600),
        (pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"word")), 0o600),
        (b"nonsense", 0o600),
        (None, 0o600),
    ],
    ids=["readable by others", "another kind", "locked", "nonsense", "missing"],
)
def test_a_key_that_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, mode: int
) -> None:
    file = tmp_path / "mine.pem"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    monkeypatch.setenv(world.SIGNING_KEY, str(file))
    with pytest.raises(world.EnvironmentFailed, match=r"mine\.pem"):
        world.SigningKey.of(tmp_path)
    assert not (tmp_path / "vault" / "secrets" / "signing").exists()


@pytest.mark.parametrize("address", ["pkcs11:token=ward;object=key?module-path=/lib.so&pin-source=file:pin", "PKCS11:"])
def test_a_key_in_a_token_is_told_to_be_a_file_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv(world.SIGNING_KEY, address)
    with pytest.raises(world.WrongInput, match=facts("file", "token")) as told:
        world.SigningKey.of(tmp_path)
    assert (told.value.exit_status, "pin" in str(told.value)) == (2, False)
