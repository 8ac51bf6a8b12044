"""Evidence is written with its certificate: the same bytes again, as of its own moment, and never after it."""

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.published import SESSION, World, certified, opening, recertified, world
from tests.world import (
    SIGNING_KEY,
    Certificate,
    DomainCharge,
    Ledger,
    NotVerified,
    PublicKey,
    StableVoting,
    excerpt_of,
    home_released,
    publish_together,
    verify_published,
)

pytestmark = pytest.mark.usefixtures("blank_figures")

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


@pytest.fixture
def small(tmp_path: Path) -> World:
    return world(tmp_path / "home", rows=60)


def contents(world: World) -> dict[str, bytes]:
    folder = world.released.root / SESSION
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def read(world: World) -> Certificate:
    return Certificate.model_validate_json((world.released.root / SESSION / "certificate.json").read_bytes())


@pytest.mark.slow
def test_written_again_it_is_the_same_bytes_whatever_was_done_without_a_charge(small: World) -> None:
    student, _ = certified(small, STABLE, small.truth)
    before, ledger = contents(small), Ledger.of(small.home)
    ledger.remark("people", "holds", "hmac of a file")
    ledger.name_domain("elsewhere", unit="one row", neighbours="add or remove one unit", epsilon=4.0, delta=4e-5)
    recertified(small, list(read(small).leading.files), student)
    assert contents(small) == before


def age(files: list[Path]) -> None:
    """Have files be as if they were written long ago."""
    for file in files:
        os.utime(file, (1e9, 1e9))


def test_files_get_new_times_when_a_certificate_names_them(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own would show how long private work went on after them."""
    student, _ = certified(small, STABLE, small.truth)
    labels = list(read(small).leading.files)
    files = [small.released.root / file.path for file in labels]
    age(files)
    before = time.time()
    recertified(small, labels, student)
    assert min(file.stat().st_mtime for file in files) > before - 0.01  # a file system's clock is coarse
    assert read(small).leading.files == tuple(labels)
    age(files)
    with monkeypatch.context() as planted:  # the bug
        planted.setattr(type(small.released), "restamp", lambda *_: None)
        recertified(small, labels, student)
    assert {file.stat().st_mtime for file in files} == {1e9}


def test_after_another_key_is_named_what_the_old_one_signed_verifies_and_the_new_one_does_not_deny_it(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student, _ = certified(small, STABLE, small.truth)
    later = small.released.root / SESSION
    kept = Path(shutil.copytree(later, tmp_path / "kept"))
    fresh = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "fresh.pem").write_bytes(fresh)
    (tmp_path / "fresh.pem").chmod(0o600)
    monkeypatch.setenv(SIGNING_KEY, str(tmp_path / "fresh.pem"))
    recertified(small, list(read(small).leading.files), student)
    old, new = (PublicKey.of_pem((folder / "key.pem").read_bytes()).fingerprint for folder in (kept, later))
    assert old != new
    assert all(check.ok for check in (*verify_published(kept, key=old), *verify_published(later, key=new, kept=kept)))
    assert not all(check.ok for check in verify_published(later, key=old))
    shutil.rmtree(small.home / "vault")  # and both keys with it
    assert all(check.ok for check in verify_published(kept, key=old))


@pytest.mark.slow
def test_it_is_of_the_moment_that_the_certificate_tells_of(small: World) -> None:
    """Between a certificate and its evidence another command may charge the domain: the two still agree."""
    certified(small, STABLE, small.truth)
    certificate, before = read(small), contents(small)["ledger.json"]
    ledger = Ledger.of(small.home)
    ledger.open_session(opening(STABLE, "people-2"), further=True)
    ledger.settle("people-2", give_back=False)
    assert excerpt_of(certificate, ledger, small.vault).text == before
    charged: DomainCharge = certificate.domain.model_copy(update={"sessions": 5})
    with pytest.raises(NotVerified, match="never stood as the certificate"):
        excerpt_of(certificate.model_copy(update={"domain": charged}), ledger, small.vault)


def test_a_certificate_is_published_with_its_student_and_never_before_its_signature(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = list[str]()

    def noted(home: Path, session: str, files: dict[str, Iterable[bytes]]) -> None:
        written.extend(files)
        publish_together(home, session, files)

    monkeypatch.setattr(home_released, "publish_together", noted)
    certified(small, STABLE, small.truth)
    assert written[-2:] == ["attestation.json", "certificate.json"]
    assert {"student.skops", "ledger.json", "key.pem", "report.html"} <= set(written[:-2])
