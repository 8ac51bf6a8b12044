"""Signing: the Ed25519 key of a home, and the envelope that carries a statement with its signature (DSSE 1.0).

A home signs what it publishes with its own key, kept in its vault, or with the key that CONCORD_SIGNING_KEY names, in a
file. A signature depends on the key and the statement alone (RFC 8032), so signing
again gives the same bytes.

Assumes      the private half is kept secret
Guarantees   an envelope is accepted only if the key signed its payload and its bytes are exactly those that
             `SigningKey.envelope` writes: no other spelling of the same statement passes
Not covered  whose key it is: a reader must know that from elsewhere. Checked by tests/artifacts/home/test_signing.py,
             with the format's published test vector and an independent reader
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import BaseModel, ConfigDict, ValidationError

from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.vault import Vault, derive
from concord.artifacts.settings import SIGNING_KEY, Settings

SIGNING_SECRET = "signing"
"""The secret of the vault that the home's own key is derived from."""
MOST_BYTES = 1 << 16
"""More than a file with one key holds."""
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
"""Types of an in-toto statement, and of the payload of its envelope."""


@dataclass(frozen=True)
class PublicKey:
    """The public half of a key: 32 bytes."""

    raw: bytes

    @classmethod
    def of_pem(cls, text: bytes) -> Self:
        """The key in a PEM file. Raises NotVerified if it holds no Ed25519 public key."""
        try:
            key = load_pem_public_key(text)
        except Exception as wrong:  # the file is a stranger's, and may fail in any way
            raise NotVerified(f"it holds no public key ({type(wrong).__name__})") from None
        if not isinstance(key, Ed25519PublicKey):
            raise NotVerified("it holds a public key of another kind than Ed25519")
        return cls(key.public_bytes_raw())

    @classmethod
    def named(cls, trusted: str) -> str:
        """The key a reader trusts, or its fingerprint, in hex; given as hex or as a PEM file. Raises WrongInput."""
        file, text = Path(trusted), trusted
        try:
            if file.is_file():
                with file.open("rb") as stream:
                    content = stream.read(MOST_BYTES)
                if content.lstrip().startswith(b"-----"):
                    return cls.of_pem(content).raw.hex()
                text = content.decode("ascii", errors="replace")
            key = bytes.fromhex(text.strip())
        except (NotVerified, OSError, ValueError):
            key = b""
        if len(key) != 32:
            raise WrongInput(
                f"--key must be a file with an Ed25519 public key, or 64 hex digits (the key or its fingerprint), got "
                f"{trusted!r}: `concord key` prints that of a home"
            )
        return key.hex()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 in hex of the key in DER form, as `openssl pkey -pubin -outform DER | sha256sum` computes it."""
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()

    @property
    def pem(self) -> bytes:
        """The key as a PEM file."""
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def is_named(self, trusted: str) -> bool:
        """Whether `trusted` is this key in hex, or its fingerprint."""
        return trusted in (self.raw.hex(), self.fingerprint)


class Signature(BaseModel):
    """One signature, and the fingerprint of the key that made it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keyid: str
    sig: str


class Envelope(BaseModel):
    """DSSE: a payload with its type and signature; both in base64."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    payload: str
    payloadType: str  # noqa: N815, the format's spelling
    signatures: tuple[Signature]


class SigningKey:
    """The key with which a home signs."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = PublicKey(private.public_key().public_bytes_raw())

    @classmethod
    def of(cls, home: Path) -> Self:
        """The key that CONCORD_SIGNING_KEY names; otherwise the home's own, made at its first use.

        Raises EnvironmentFailed if the named key cannot be used, NotVerified if the home's own is damaged, WrongInput
        for the address of a key in a token.
        """
        named = Settings.now().signing_key
        if named is None:
            seed = derive(Vault(home / "vault").make_secret(SIGNING_SECRET), "signing key")
            return cls(Ed25519PrivateKey.from_private_bytes(seed))
        if named.lower().startswith("pkcs11:"):
            raise WrongInput(
                f"{SIGNING_KEY} must name a file, got the address of a key in a token, which Concord no longer "
                "signs with: `openssl genpkey -algorithm ed25519 -out KEY` makes a key file"
            )
        text = read_own(Path(named), SIGNING_KEY)
        try:
            key = load_pem_private_key(text, password=None)
        except Exception:  # an encrypted key raises TypeError, an odd one anything; none of it is shown
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise EnvironmentFailed(
                f"the key file {Path(named)} must hold an Ed25519 private key in PEM without a password, as `openssl "
                "genpkey -algorithm ed25519` writes it"
            )
        return cls(key)

    def envelope(self, kind: str, payload: bytes) -> bytes:
        """Sign a payload of type `kind`. Returns the envelope as JSON."""
        signed = self._private.sign(pre_authentication(kind, payload))
        signature = Signature(keyid=self.public.fingerprint, sig=_text(signed))
        envelope = Envelope(payload=_text(payload), payloadType=kind, signatures=(signature,))
        return envelope.model_dump_json(indent=2).encode()


def payload_of(envelope: bytes, kind: str, key: PublicKey) -> bytes:
    """The payload of type `kind` in an envelope signed by `key`. Raises NotVerified if it is anything else."""
    try:
        read = Envelope.model_validate_json(envelope)
        payload, signature = (base64.b64decode(text, validate=True) for text in (read.payload, read.signatures[0].sig))
    except (ValidationError, binascii.Error, ValueError):
        raise NotVerified("it is no envelope with one signature") from None
    spelt = read.model_copy(update={"payload": _text(payload)})
    spelt = spelt.model_copy(update={"signatures": (Signature(keyid=key.fingerprint, sig=_text(signature)),)})
    if spelt.model_dump_json(indent=2).encode() != envelope or read.payloadType != kind:
        raise NotVerified(f"it is not an envelope of {kind} as Concord writes it, by the key {key.fingerprint}")
    try:
        Ed25519PublicKey.from_public_bytes(key.raw).verify(signature, pre_authentication(kind, payload))
    except InvalidSignature:
        raise NotVerified(f"its signature is not one of the key {key.fingerprint}") from None
    return payload


def pre_authentication(kind: str, payload: bytes) -> bytes:
    """The bytes to sign: type and payload, each after its length (DSSE's pre-authentication encoding)."""
    return b"DSSEv1 %d %b %d %b" % (len(kind.encode()), kind.encode(), len(payload), payload)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read_own(path: Path, setting: str) -> bytes:
    """The content of a key file, which only its owner may read; `setting` names it.

    Raises EnvironmentFailed if others may read it, or if it cannot be read.
    """
    try:
        mode, content = path.stat().st_mode & 0o777, path.read_bytes()[:MOST_BYTES]
    except (OSError, ValueError) as failed:
        why = failed.strerror if isinstance(failed, OSError) else "its name is not valid"
        raise EnvironmentFailed(f"{setting} names the key file {path}, which cannot be read: {why}") from None
    if mode & 0o077:
        raise EnvironmentFailed(f"the key file {path} must be readable by its owner alone (0600), found {mode:04o}")
    return content
