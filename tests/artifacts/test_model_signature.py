"""The model's signature: the OpenSSF's own library verifies it, and nothing else passes ours."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, signing, verifying

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import sha256
from concord.artifacts.home.signing import SIGNING_SECRET
from concord.artifacts.home.vault import Vault
from concord.artifacts.model_signature import NONCE, ORDER, ModelKey, check
from concord.tasks.mechanisms.stable import StableVoting
from tests.support.published import SESSION, certified, world

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
MODEL = b"a model"


@pytest.fixture
def key(tmp_path: Path) -> ModelKey:
    return ModelKey.of(Vault(tmp_path / "vault"))


def verify_by_theirs(folder: Path) -> None:
    """Raises ValueError, or what their library raises."""
    theirs = verifying.Config().use_elliptic_key_verifier(public_key=folder / "model-key.pem")
    theirs.verify(folder / "student.skops", folder / "model.sig")


def test_their_library_verifies_what_a_run_published_and_no_other_model(tmp_path: Path) -> None:
    made = world(tmp_path / "home", rows=60)
    certified(made, STABLE, made.truth)
    folder = made.released.root / SESSION
    verify_by_theirs(folder)
    page = (Path(__file__).parents[2] / "deployments/guides/sign.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"`model_signing (verify[^`]*)`", page)
    command = [str(Path(sys.executable).parent / "model_signing"), *shown.split()]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    student = bytearray((folder / "student.skops").read_bytes())
    student[-1] ^= 1
    (folder / "student.skops").write_bytes(student)
    with pytest.raises(ValueError, match="mismatch"):
        verify_by_theirs(folder)


def test_theirs_signs_the_same_statement(tmp_path: Path) -> None:
    """What we write by hand is what their library writes of the same file, but for spaces and paths to ignore."""
    key = ec.derive_private_key(7, ec.SECP256R1())
    (tmp_path / "student.skops").write_bytes(MODEL)
    (tmp_path / "key.pem").write_bytes(_private(key))
    theirs = signing.Config().use_elliptic_key_signer(private_key=tmp_path / "key.pem")
    theirs.set_hashing_config(hashing.Config()).sign(tmp_path / "student.skops", tmp_path / "model.sig")
    found = [json.loads(text) for text in ((tmp_path / "model.sig").read_bytes(), _ours(ModelKey(key)))]
    statements = [json.loads(base64.b64decode(each["dsseEnvelope"].pop("payload"))) for each in found]
    for statement, bundle in zip(statements, found, strict=True):
        statement["predicate"]["serialization"].pop("ignore_paths")
        bundle["dsseEnvelope"]["signatures"][0].pop("sig")
    assert statements[0] == statements[1]
    assert found[0] == found[1]


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _ours(key: ModelKey) -> bytes:
    return key.bundle("student.skops", sha256(MODEL))


def test_a_home_has_one_key_and_signs_the_same_bytes(tmp_path: Path, key: ModelKey) -> None:
    assert _ours(key) == _ours(ModelKey.of(Vault(tmp_path / "vault")))
    assert ModelKey.of(Vault(tmp_path / "other")).pem != key.pem


def test_a_home_that_signs_by_another_key_has_none_of_its_own(tmp_path: Path) -> None:
    """Else nobody would be told if it signed by its own one day, because the other was not named."""
    vault = Vault(tmp_path / "vault")
    ModelKey.of(vault)
    assert not vault.has_secret(SIGNING_SECRET)


def test_nonces_are_those_of_the_standard_s_example() -> None:
    """RFC 6979, A.2.5: P-256, SHA-256, message `sample`; and the order of the group."""
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    private = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
    signed = decode_dss_signature(ec.derive_private_key(private, ec.SECP256R1()).sign(b"sample", NONCE))
    assert signed == (
        0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716,
        0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8,
    )
    ec.derive_private_key(ORDER - 1, ec.SECP256R1())
    with pytest.raises(ValueError, match="out of range"):
        ec.derive_private_key(ORDER, ec.SECP256R1())


def test_any_changed_bit_is_refused(key: ModelKey) -> None:
    bundle = _ours(key)
    check(bundle, key.pem, "student.skops", sha256(MODEL))
    for at in range(0, 8 * len(bundle), 3):
        changed = bytearray(bundle)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(NotVerified):
            check(bytes(changed), key.pem, "student.skops", sha256(MODEL))


def test_another_key_name_or_model_is_refused(tmp_path: Path, key: ModelKey) -> None:
    bundle, other = _ours(key), ModelKey.of(Vault(tmp_path / "other"))
    digest = sha256(MODEL)
    for signed, pem, name, of in (
        (bundle, other.pem, "student.skops", digest),
        (other.bundle("student.skops", digest), key.pem, "student.skops", digest),
        (bundle, key.pem, "another.skops", digest),
        (bundle, key.pem, "student.skops", sha256(b"another")),
        (bundle, b"no key", "student.skops", digest),
        (b"{}", key.pem, "student.skops", digest),
    ):
        with pytest.raises(NotVerified):
            check(signed, pem, name, of)
