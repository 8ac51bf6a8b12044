"""What tests do to a published folder: sign it again by another key, and ask what fails."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests import world

STABLE = world.calibrated_stable(epsilon=2.5, delta=1e-5, cutoff=20)
DOOR = datetime(2026, 1, 2, tzinfo=UTC)
"""When the session of the home ended."""
THEIRS = world.SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
"""The key of somebody else."""


def trusted(folder: Path) -> str:
    """The fingerprint of the key that a reader trusts: the home's."""
    return world.PublicKey.of_pem((folder / "key.pem").read_bytes()).fingerprint


def failing(checks: list[world.Check]) -> dict[str, str]:
    """What the checks that fail say, by their names without the session."""
    return {check.name.rpartition(": ")[2]: check.detail for check in checks if not check.ok}


def faults(folder: Path, key: str | None = None) -> dict[str, str]:
    """What fails in a published folder."""
    return failing(world.verify_published(folder, key=key))


def sign_again(folder: Path, edit: Callable[[Any], Any] | None = None) -> None:
    """Sign the folder as it lies there by another key, as Concord would; or an edited statement about it."""
    excerpt = world.Excerpt.model_validate_json((folder / "ledger.json").read_bytes())
    (folder / "key.pem").write_bytes(THEIRS.public.pem)
    files = sorted(each for each in folder.rglob("*") if each.is_file() and each.name != "attestation.json")
    refs = [
        world.Ref(path=f"{folder.name}/{each.relative_to(folder)}", digest=world.sha256(each.read_bytes()))
        for each in files
    ]
    certificate = world.Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    head = world.LedgerHead(entries=len(excerpt.entries), head=excerpt.head)
    text = world.Statement(
        subject=tuple(map(world.Subject.of, refs)), predicate=world.PrivacyClaim.of(certificate, head)
    ).text
    if edit is not None:
        text = json.dumps(edit(json.loads(text)), separators=(",", ":"), ensure_ascii=False).encode()
    (folder / "attestation.json").write_bytes(THEIRS.envelope(world.PAYLOAD_TYPE, text))
