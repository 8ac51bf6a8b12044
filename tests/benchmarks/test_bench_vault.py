"""Benchmark of the vault: what encryption at rest costs, beside the same vault without it. Run by `make bench`."""

import base64
import secrets
from pathlib import Path

import pytest

from concord.artifacts.home.vault import Vault
from concord.artifacts.settings import KEY
from tests.benchmarks.test_bench_mechanisms import seconds

pytestmark = pytest.mark.bench

CONTENT = secrets.token_bytes(64 << 20)
MIB = 1 << 20
LEAST_SHARE = 0.25
"""Of a plain vault's speed; SHA-256 over every file, AES and the disk share the time."""


def speeds(vault: Vault) -> tuple[float, float]:
    """MiB a second, written and synced, and read and checked."""

    def write() -> None:
        with vault.create("file") as sink:
            sink.write(CONTENT)

    written = seconds(write)
    ref = vault.find("file")
    assert ref is not None
    assert vault.read(ref) == CONTENT
    return len(CONTENT) / MIB / written, len(CONTENT) / MIB / seconds(lambda: vault.read(ref))


def test_encryption_keeps_a_fair_share_of_the_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = speeds(Vault(tmp_path / "plain"))
    monkeypatch.setenv(KEY, base64.b64encode(bytes(32)).decode())
    encrypted = speeds(Vault(tmp_path / "encrypted"))
    for what, before, after in zip(("written", "read"), plain, encrypted, strict=True):
        print(f"\n  {what}: plain {before:.0f} MiB/s, encrypted {after:.0f} MiB/s, ratio {after / before:.2f}", end="")
        assert after > LEAST_SHARE * before
