"""What tests do to a published folder: sign it again by another key, and ask what fails."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.published import SESSION, leading
from tests.world import (
    PAYLOAD_TYPE,
    Certificate,
    Excerpt,
    LedgerHead,
    PrivacyClaim,
    PublicKey,
    Ref,
    SigningKey,
    StableVoting,
    Statement,
    Subject,
    sha256,
    verify_published,
)

STABLE = StableVoting.calibrate(epsilon=2.5, delta=1e-5, cutoff=20)


THEIRS = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
"""The key of somebody else."""


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


def entry(kind: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda values: next(line["body"] for line in values["entries"] if line["kind"] == kind)


def claim(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    """The claim, where the certificate says it."""

    def change(values: dict[str, Any]) -> None:
        values["guarantee"][key] = value
        leading(values)["guarantee"].update({key: value} if key in leading(values)["guarantee"] else {})
        for charge in values["domain"]["charges"]:
            charge.update({key: value} if key in charge else {})

    return change
