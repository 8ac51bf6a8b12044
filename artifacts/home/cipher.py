"""Encryption at rest: every file of a vault in chunks of AES-256-GCM, under a key of its own.

    file = MAGIC ‖ salt ‖ chunk 0 ‖ … ‖ chunk n      a chunk is its ciphertext and a tag of 16 bytes

A file's key is drawn from the vault's key by HKDF under a random salt, so no nonce is ever used twice; nonces count the
chunks and mark the last one, so that none can be cut off, moved or repeated (the STREAM construction of Hoang,
Reyhanitabar, Rogaway and Vizár, CRYPTO 2015); the file's name is authenticated with every chunk.

Assumes      the key is uniform and kept away from the disk that the vault lies on
Guarantees   a reader of the files without the key learns only their names, sizes and times; any change is refused
Not covered  readers of this process's memory or environment; an older whole file put back under its own name, which
             the digest in its reference shows. Checked by tests/artifacts/home/test_cipher.py
"""

import base64
import binascii
import os
import secrets
from pathlib import Path
from typing import BinaryIO, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.home.users import read_own
from concord.artifacts.settings import KEY, KEY_FILE, Settings

KEY_BYTES, SALT_BYTES, TAG_BYTES = 32, 32, 16
CHUNK_BYTES = 1 << 18
MAGIC = b"concord vault 1\n"


class Cipher:
    """Encrypts and decrypts the files of one vault."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def given(cls) -> Self | None:
        """The cipher of the key named in the environment, if any. Raises EnvironmentFailed if it is not a valid key."""
        settings = Settings.now()
        stated, path = settings.vault_key, settings.vault_key_file
        if stated and path:
            raise EnvironmentFailed(f"the vault's key must be given once, got both {KEY} and {KEY_FILE}")
        if stated:
            where, text = KEY, stated.get_secret_value()
        elif path is not None:
            where, text = KEY_FILE, read_own(path, KEY_FILE).decode("ascii", errors="replace")
        else:
            return None
        try:
            key = base64.b64decode(text.strip(), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise EnvironmentFailed(
                f"{where} must give {KEY_BYTES} random bytes in base64, as `openssl rand -base64 32` does"
            )
        return cls(key)

    def writer(self, file: BinaryIO, name: str) -> "Writer":
        """A writer that encrypts into `file` under that name; the file is complete once the writer is finished."""
        salt = secrets.token_bytes(SALT_BYTES)
        file.write(MAGIC + salt)
        return Writer(file, self._of_file(salt), name.encode())

    def read(self, file: BinaryIO, name: str) -> bytes:
        """Decrypt a file that was encrypted under that name. Raises NotVerified if it is anything else."""
        changed = NotVerified(f"the vault file {name} is not what was written")
        left = os.fstat(file.fileno()).st_size - len(MAGIC) - SALT_BYTES
        if file.read(len(MAGIC)) != MAGIC or left < TAG_BYTES:
            raise changed
        aead, chunks = self._of_file(file.read(SALT_BYTES)), list[bytes]()
        while not chunks or left:
            chunk = file.read(min(left, CHUNK_BYTES + TAG_BYTES))
            left -= len(chunk)
            try:
                chunks.append(aead.decrypt(_nonce(len(chunks), last=not left), chunk, name.encode()))
            except InvalidTag:  # as of a chunk shorter than its tag
                raise changed from None
        return b"".join(chunks)

    def _of_file(self, salt: bytes) -> AESGCM:
        hkdf = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=b"concord/file of the vault")
        return AESGCM(hkdf.derive(self._key))


class Writer:
    """A file being encrypted. Nothing but ciphertext reaches the disk; `finish` writes the last chunk."""

    def __init__(self, file: BinaryIO, aead: AESGCM, name: bytes) -> None:
        self._file, self._aead, self._name = file, aead, name
        self._held = bytearray()
        self._count = 0

    def write(self, data: bytes) -> int:
        """Write more of the content. Returns the number of bytes taken."""
        view = memoryview(data).cast("B")
        for first in range(0, len(view), CHUNK_BYTES):
            self._held += view[first : first + CHUNK_BYTES]
            if len(self._held) > CHUNK_BYTES:  # the chunk held back may be the last one, which is marked
                self._write_chunk(self._held[:CHUNK_BYTES], last=False)
                del self._held[:CHUNK_BYTES]
        return len(view)

    def flush(self) -> None:
        """Flush the chunks written so far; the one held back stays in memory."""
        self._file.flush()

    def finish(self) -> None:
        """Write the chunk held back as the last one."""
        self._write_chunk(self._held, last=True)

    def _write_chunk(self, chunk: bytearray, *, last: bool) -> None:
        self._file.write(self._aead.encrypt(_nonce(self._count, last=last), bytes(chunk), self._name))
        self._count += 1


def encrypted(path: Path) -> bool:
    """Whether a file of the vault is encrypted."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _nonce(count: int, *, last: bool) -> bytes:
    return count.to_bytes(11, "big") + bytes([last])
