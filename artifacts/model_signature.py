"""The model's signature in the OpenSSF's format (model-signing 1.0), which tools for models look for next to a file.

A Sigstore bundle with an in-toto statement in a DSSE envelope: the model's one file, by digest. The format takes no
Ed25519 key, so a home has a second key for it, ECDSA on P-256, derived in its vault. Its public half is published and
covered by the attestation, whose key thus vouches for it. Nonces are derived too (RFC 6979): the same model and key
give the same bytes, and no repeated nonce can leak the key.

Assumes      the secret of the vault that the key is derived from is kept secret
Guarantees   `check` passes a signature of exactly that file, by exactly that key, in the bytes that `ModelKey` writes
Not covered  whose key it is: the attestation says that. The format names neither guarantee nor ledger. Checked by
             tests/artifacts/test_model_signature.py, with the OpenSSF's own library
"""

import base64
import hashlib
import json
from typing import Any, Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.signing import PAYLOAD_TYPE, STATEMENT_TYPE, pre_authentication
from concord.artifacts.home.vault import Vault, derive

MODEL_SECRET: Final = "model-signing"
"""The secret of the vault that the key is derived from: not that of the home's own key, which a home may never need."""
MODEL_SIGNATURE_FILE: Final = "model.sig"
MODEL_KEY_FILE: Final = "model-key.pem"
"""Where the bundle and the public half of its key lie, beside the certificate."""
BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE: Final = "https://model_signing/signature/v1.0"
ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve's group (FIPS 186-4, D.1.2.3)."""
NONCE: Final = ec.ECDSA(SHA256(), deterministic_signing=True)


class ModelKey:
    """The key with which a home signs models."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private

    @classmethod
    def of(cls, vault: Vault) -> Self:
        """The key of a home. Raises NotVerified if the secret that it is derived from is damaged."""
        secret = vault.secret(MODEL_SECRET)
        halves = [derive(secret, f"model signing key {half}") for half in (1, 2)]  # 512 bits: no residue is likelier
        return cls(ec.derive_private_key(int.from_bytes(b"".join(halves)) % (ORDER - 1) + 1, ec.SECP256R1()))

    @property
    def pem(self) -> bytes:
        """The public half of the key as a PEM file."""
        return self._private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def bundle(self, name: str, digest: str) -> bytes:
        """The published signature of a model of one file, given its name and SHA-256 in hex."""
        payload = _statement(name, digest)
        return _bundle(payload, self._private.sign(pre_authentication(PAYLOAD_TYPE, payload), NONCE), self.pem)


def check(bundle: bytes, key: bytes, name: str, digest: str) -> None:
    """Raise NotVerified unless `bundle` is the signature of that file by the public key of a PEM file."""
    try:
        public = load_pem_public_key(key)
        signature = base64.b64decode(json.loads(bundle)["dsseEnvelope"]["signatures"][0]["sig"], validate=True)
    except Exception as wrong:  # the files are a stranger's, and may fail in any way
        raise NotVerified(f"it is no signature of a model, or its key is none ({type(wrong).__name__})") from None
    payload = _statement(name, digest)
    if not isinstance(public, ec.EllipticCurvePublicKey) or bundle != _bundle(payload, signature, key):
        raise NotVerified("it is not how Concord signs that file by that key")
    try:
        public.verify(signature, pre_authentication(PAYLOAD_TYPE, payload), ec.ECDSA(SHA256()))
    except InvalidSignature:
        raise NotVerified("its signature is not one of that key") from None


def _statement(name: str, digest: str) -> bytes:
    """The in-toto statement about the model; its digest is over the digests of all files, here one, called `.`."""
    whole = hashlib.sha256(bytes.fromhex(digest)).hexdigest()
    serialization = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": list[str]()}
    resources = [{"name": ".", "algorithm": "sha256", "digest": digest}]
    return _json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": whole}}],
            "predicateType": PREDICATE,
            "predicate": {"serialization": serialization, "resources": resources},
        }
    )


def _bundle(payload: bytes, signature: bytes, key: bytes) -> bytes:
    signed, sig = base64.b64encode(payload).decode(), base64.b64encode(signature).decode()
    envelope = {"payload": signed, "payloadType": PAYLOAD_TYPE, "signatures": [{"sig": sig, "keyid": ""}]}
    material = {"publicKey": {"hint": hashlib.sha256(key).hexdigest()}, "tlogEntries": list[str]()}
    return _json({"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope})


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2).encode()
