"""Encryption at rest: what lies on the disk, which keys open it, and what is refused."""

import base64
import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.home.cipher import CHUNK_BYTES, MAGIC, SALT_BYTES, TAG_BYTES, Cipher
from concord.artifacts.home.vault import Vault, derive
from concord.artifacts.settings import KEY, KEY_FILE
from concord.tasks.data.spill import spilling
from tests.support.sentences import facts

MARK = b"zqx a private value"
ONE, OTHER = (base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, ONE)


def encrypted(cipher: Cipher, folder: Path, content: bytes, name: str = "name") -> Path:
    path = folder / "file"
    with path.open("wb") as file:
        writer = cipher.writer(file, name)
        writer.write(content)
        writer.finish()
    return path


def decrypted(cipher: Cipher, path: Path, name: str = "name") -> bytes:
    with path.open("rb") as file:
        return cipher.read(file, name)


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES + 5]
)
def test_content_of_any_length_is_read_back(tmp_path: Path, size: int) -> None:
    cipher, content = Cipher(bytes(32)), secrets.token_bytes(size)
    path = encrypted(cipher, tmp_path, content)
    assert decrypted(cipher, path) == content
    chunks = max(1, -(-size // CHUNK_BYTES))
    assert path.stat().st_size == len(MAGIC) + SALT_BYTES + size + chunks * TAG_BYTES


def test_however_it_is_written_the_chunks_are_the_same(tmp_path: Path) -> None:
    content, cipher, file = secrets.token_bytes(2 * CHUNK_BYTES + 7), Cipher(bytes(32)), io.BytesIO()
    writer = cipher.writer(file, "name")
    for first in range(0, len(content), 65_537):
        assert writer.write(memoryview(content)[first : first + 65_537]) > 0  # type: ignore[arg-type]  # as pyarrow does
    writer.finish()
    (tmp_path / "file").write_bytes(file.getvalue())
    assert decrypted(cipher, tmp_path / "file") == content


def test_a_flip_of_any_byte_is_found_and_named(tmp_path: Path) -> None:
    cipher = Cipher(bytes(32))
    path = encrypted(cipher, tmp_path, b"some content")
    written = path.read_bytes()
    for at in range(len(written)):
        path.write_bytes(written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :])
        with pytest.raises(NotVerified, match="vault file name is not what was written"):
            decrypted(cipher, path)


def test_a_file_cut_anywhere_is_found(tmp_path: Path) -> None:
    cipher, head = Cipher(bytes(32)), len(MAGIC) + SALT_BYTES
    written = encrypted(cipher, tmp_path, bytes(2 * CHUNK_BYTES)).read_bytes()
    ends = [0, 1, head, head + 1, head + TAG_BYTES, head + CHUNK_BYTES + TAG_BYTES, len(written) - 1]
    for end in ends:
        (tmp_path / "file").write_bytes(written[:end])
        with pytest.raises(NotVerified):
            decrypted(cipher, tmp_path / "file")


def test_chunks_cannot_be_moved_repeated_or_left_out(tmp_path: Path) -> None:
    cipher, head, size = Cipher(bytes(32)), len(MAGIC) + SALT_BYTES, CHUNK_BYTES + TAG_BYTES
    path = encrypted(cipher, tmp_path, secrets.token_bytes(3 * CHUNK_BYTES))
    written = path.read_bytes()
    chunks = [written[head + at * size : head + (at + 1) * size] for at in range(3)]
    for order in ([1, 0, 2], [0, 2], [0, 1, 1, 2], [0, 1], [2], [0, 1, 2, 2]):
        path.write_bytes(written[:head] + b"".join(chunks[at] for at in order))
        with pytest.raises(NotVerified):
            decrypted(cipher, path)


def test_a_file_opens_under_its_own_name_and_key_alone(tmp_path: Path) -> None:
    path = encrypted(Cipher(bytes(32)), tmp_path, b"content")
    with pytest.raises(NotVerified, match="other name"):
        decrypted(Cipher(bytes(32)), path, "other name")
    with pytest.raises(NotVerified):
        decrypted(Cipher(bytes(31) + b"x"), path)


def test_no_key_serves_a_nonce_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[bytes, bytes]] = []

    class Watched:
        def __init__(self, key: bytes) -> None:
            self.key, self.aead = key, AESGCM(key)

        def encrypt(self, nonce: bytes, data: bytes, name: bytes) -> bytes:
            used.append((self.key, nonce))
            return self.aead.encrypt(nonce, data, name)

    monkeypatch.setattr("concord.artifacts.home.cipher.AESGCM", Watched)
    for _ in range(5):
        encrypted(Cipher(bytes(32)), tmp_path, bytes(2 * CHUNK_BYTES + 1))
    assert len(used) == len(set(used)) == 15
    assert len({key for key, _ in used}) == 5


@pytest.mark.parametrize("at_rest", ["encrypted", "plain"])
def test_nothing_plain_reaches_the_disk_not_even_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_rest: str
) -> None:
    """Looked at while files are being written, the spill's as well; in a plain vault all of it would be seen."""
    if at_rest == "encrypted":
        monkeypatch.setenv(KEY, ONE)
    vault, seen = Vault(tmp_path / "vault"), list[bytes]()
    with vault.create("file") as sink:
        sink.write(MARK * 2 * CHUNK_BYTES)
        sink.flush()
        seen += on_disk(vault)
    with spilling(vault, "spill", pl.Schema({"text": pl.String()})) as spill:
        for _ in range(3):
            spill.add(pl.DataFrame({"text": [MARK.decode() * 10] * 200_000}), pl.Series([0] * 200_000))
            seen += on_disk(vault)
        assert [rows.height for rows in spill.read(1)] == [600_000]
    secret = vault.secret("installation")
    seen += on_disk(vault)
    found = [sum(mark in data for data in seen) for mark in (MARK, secret, derive(secret, "seal"))]
    assert found == ([0, 0, 0] if at_rest == "encrypted" else [5, 5, 0])


def on_disk(vault: Vault) -> list[bytes]:
    """All files of the vault, whatever their names, as one."""
    return [b"".join(path.read_bytes() for path in vault.root.rglob("*") if path.is_file())]


@pytest.fixture
def made(tmp_path: Path, key: None) -> Iterator[Path]:  # noqa: ARG001  # the environment gives it
    """An encrypted vault, which nothing may be written to by one that does not open."""
    vault = Vault(tmp_path / "vault")
    vault.make_secret("sessions/a")
    before = {path: path.read_bytes() for path in vault.root.rglob("*") if path.is_file()}
    yield vault.root
    assert {path: path.read_bytes() for path in vault.root.rglob("*") if path.is_file()} == before


def test_it_does_not_open_without_its_key(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY)
    with pytest.raises(EnvironmentFailed, match=facts("encrypted", KEY_FILE, KEY)):
        Vault(made)


def test_it_does_not_open_with_another_key(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, OTHER)
    with pytest.raises(NotVerified, match="the key given is not the one it was made with"):
        Vault(made)


def test_a_plain_vault_stays_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = Vault(tmp_path / "vault")
    secret = vault.secret("installation")
    monkeypatch.setenv(KEY, ONE)
    with pytest.raises(EnvironmentFailed, match="made without encryption"):
        Vault(vault.root)
    monkeypatch.delenv(KEY)
    assert Vault(vault.root).secret("installation") == secret


def test_the_key_may_come_from_a_file_of_its_owners_alone(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = made.parent / "key"
    file.write_text(f"{ONE}\n")
    file.chmod(0o600)
    monkeypatch.setenv(KEY_FILE, str(file))
    with pytest.raises(EnvironmentFailed, match="given once"):
        Vault(made)
    monkeypatch.delenv(KEY)
    assert Vault(made).has_secret("sessions/a")
    file.chmod(0o640)
    with pytest.raises(EnvironmentFailed, match=r"0600.*0640"):
        Vault(made)
    os.unlink(file)
    with pytest.raises(EnvironmentFailed, match="cannot be read: No such file"):
        Vault(made)


@pytest.mark.parametrize("text", ["short", "é" * 44, base64.b64encode(bytes(31)).decode(), f"{ONE}{ONE}"])
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(KEY, text)
    with pytest.raises(EnvironmentFailed, match="32 random bytes in base64") as raised:
        Vault(tmp_path / "vault")
    assert text not in str(raised.value)
    assert not (tmp_path / "vault").exists()
