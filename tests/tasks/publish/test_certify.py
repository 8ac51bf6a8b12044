"""The certificate, its evidence and its warnings say what ledger and released files say, and nothing private."""

import json
import math
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.published import (
    CLASSES,
    SESSION,
    TEACHERS,
    World,
    certified,
    learned,
    opening,
    recertified,
    session,
    world,
)
from tests.support.sentences import facts, says
from tests.tasks.verify.signed_folder import faults
from tests.world import (
    CATALOGUE,
    SIGNING_KEY,
    UNTESTED,
    Certificate,
    Counts,
    DomainCharge,
    Ledger,
    NotVerified,
    Outcomes,
    PublicKey,
    Ref,
    StableVoting,
    Stores,
    artifacts_certificate,
    certificate_of,
    content_of,
    counted,
    digested,
    excerpt_of,
    home_released,
    library_versions,
    named_by,
    publish_student,
    publish_together,
    render,
    student_warnings,
    verify_published,
)

pytestmark = pytest.mark.usefixtures("blank_figures")

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


@pytest.fixture
def small(tmp_path: Path) -> World:
    return world(tmp_path / "home")


def read(small: World) -> Certificate:
    return Certificate.model_validate_json((small.released.root / SESSION / "certificate.json").read_bytes())


def labels_with_refusals(small: World, every: int, asked: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    labels = small.truth.copy()[:asked]
    labels[::every] = -1
    return labels


def test_the_units_that_the_plan_states_stand_beside_delta(small: World) -> None:
    """Without them nobody could judge δ."""
    labeling = small.plan.labeling.model_copy(update={"rows": 20_000})
    certified(replace(small, plan=small.plan.model_copy(update={"labeling": labeling})), STABLE, small.truth)
    stating = read(small)
    silent = stating.model_copy(update={"units": None})
    assert stating.units == 20_000
    assert "number of private units, which the plan does not state" in silent.delta_in_words
    assert "about 20,000 private units" in stating.delta_in_words
    assert stating.delta_in_words.endswith("is 0.2.")
    for certificate in (silent, stating):
        page = " ".join(render(certificate, {}).split())
        assert page.index("δ = 1e-05") < page.index(certificate.delta_in_words) < page.index("What the guarantee means")
    assert content_of(stating).params["units"] == "20000"
    assert "units" not in content_of(silent).params


def test_it_says_what_the_ledger_and_the_files_say(small: World) -> None:
    student, written = certified(small, STABLE, labels_with_refusals(small, 15, 286))
    certificate = read(small)
    assert certificate.counts.model_dump() == {"asked": 286, "answered": 266, "refused": 20, "not_asked": 14}
    assert (certificate.session, certificate.teachers) == (SESSION, TEACHERS)
    assert certificate.mechanism.settings == json.loads(json.dumps(STABLE.model_dump(mode="json")))
    assert (certificate.domain.cap.epsilon, certificate.domain.cap.delta) == (4.0, 4e-5)
    replaced = certificate.guarantee.replace_one  # which is two steps
    assert replaced is not None
    assert replaced.epsilon == 2.0
    assert replaced.delta == pytest.approx((1 + math.e) * 1e-5)
    assert certificate.student.file == student.ref
    assert certificate.student.accuracy == student.accuracy
    assert [small.released.find(ref.path) for ref in certificate.leading.files] == list(certificate.leading.files)
    for ref in (written.certificate, written.schema_file, written.report, *written.figures.values()):
        assert small.released.find(ref.path) == ref
    others = small.write(labels_with_refusals(small, 20, 300))
    with pytest.raises(NotVerified, match=facts("285 answers", "15 refusals", "266 and 20")):
        recertified(small, others, student)


def test_the_domains_charge_is_the_filters(small: World) -> None:
    certified(small, STABLE, small.truth)
    ledger, domain = Ledger.of(small.home), read(small).domain
    assert (domain.spent.epsilon, domain.spent.delta) == ledger.domains()[0].filter.spent(ledger.total("people"))
    assert domain.remaining.epsilon == pytest.approx(4 - domain.spent.epsilon)
    assert domain.sessions == 1
    assert [charge.session for charge in domain.charges] == [SESSION]
    share = ledger.session(SESSION).charge.renyi / ledger.domains()[0].filter.budget
    assert domain.charges[0].share == float(share)


def test_a_certificate_is_known_before_it_is_written_by_all_but_the_versions_that_write_it(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of the stage digests it: other libraries must not certify anew, and all else must."""
    student, _ = certified(small, STABLE, small.truth)
    written, stores = read(small), Stores(small.vault, Ledger.of(small.home), small.released)

    def due() -> Certificate:
        files, features = {SESSION: list(written.leading.files)}, small.encoding.features
        return certificate_of(small.plan, files, student, features, stores)

    before = due()
    assert before.versions == {}
    assert before.model_dump(exclude={"versions"}) == written.model_dump(exclude={"versions"})
    assert written.versions == library_versions()
    monkeypatch.setattr(artifacts_certificate, "library_versions", lambda: {"numpy": "9.0"})
    assert due() == before
    stores.ledger.open_session(opening(STABLE, "later"), further=True)
    assert digested(due()) != digested(before)


def test_every_mechanism_names_its_proof() -> None:
    for mechanism in CATALOGUE.values():
        assert (Path(__file__).parents[3] / mechanism.proof.partition(":")[0]).is_file()


def contents(world: World) -> dict[str, bytes]:
    folder = world.released.root / SESSION
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


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
    assert excerpt_of(certificate, ledger, small.home).text == before
    charged: DomainCharge = certificate.domain.model_copy(update={"sessions": 5})
    with pytest.raises(NotVerified, match="never stood as the certificate"):
        excerpt_of(certificate.model_copy(update={"domain": charged}), ledger, small.home)


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


ENDS_AT = 95
"""Rows until the twentieth refusal, of every fifth row."""


def test_they_are_those_that_were_released(tmp_path: Path) -> None:
    small = world(tmp_path, batch=40)
    labels = small.truth[: ENDS_AT + 1].copy()
    labels[::5] = -1
    refs, now = session(small, STABLE, labels), Ledger.of(tmp_path).session(SESSION)
    found, table = Outcomes.of(refs, small.released), small.released.labels(refs)
    asked = [outcome for outcome in table["outcome"].to_pylist() if outcome != "not asked"]
    assert found.refused.tolist() == [outcome == "refused" for outcome in asked]
    assert dict(found.by_class) == {name: table["label"].to_pylist().count(name) for name in CLASSES}
    counts = counted(now, tuple(refs), small.released)
    assert (counts.asked, counts.refused, counts.not_asked) == (ENDS_AT + 1, 20, 300 - ENDS_AT - 1)
    with pytest.raises(NotVerified, match="but the ledger has"):
        counted(now, tuple(refs[1:]), small.released)


def test_a_session_that_ended_after_few_of_its_rows_is_warned_of(tmp_path: Path) -> None:
    small = world(tmp_path, rows=4000, batch=1000)
    _, made = certified(small, STABLE, np.full(20, -1))
    certificate = read(small)
    assert certificate.counts.model_dump() == {"asked": 20, "answered": 0, "refused": 20, "not_asked": 3980}
    assert certificate.warnings[0].startswith("the session ended after 20 of 4,000 public rows")
    assert says(small.released.read(made.report).decode(), "20 of 4,000 public rows")
    for asked, rows, warned in ((40, 4000, False), (39, 4000, True), (0, 0, False)):
        counts = Counts(asked=asked, answered=asked, refused=0, not_asked=rows - asked)
        ended = certificate.leading.model_copy(update={"counts": counts})
        found = student_warnings(certificate.model_copy(update={"sessions": (ended,)}))
        assert any(text.startswith("the session ended after") for text in found) is warned


@pytest.mark.parametrize(
    ("others", "warning"),
    [
        (0, "every released label is 'no'"),
        (3, f"the student predicts the class 'no' for every public row, and {UNTESTED}"),  # it is that smooth
        (None, ""),
    ],
    ids=["labels of one class", "a student that names one class alone", "one that names several"],
)
def test_without_a_test_one_class_is_warned_of(tmp_path: Path, others: int | None, warning: str) -> None:
    small = world(tmp_path / "home")
    labels = small.truth if others is None else np.zeros_like(small.truth)
    labels[: others or 0] = 1
    refs = session(small, STABLE, labels)
    fitted = learned(small, refs)
    named = named_by(fitted, small.public, small.vault)
    assert set(named) == ({"no", "yes"} if others is None else {"no"})
    made = recertified(small, refs, publish_student(fitted, SESSION, None, small.released, named if others else None))
    certificate = read(small)
    assert [text.startswith(warning) for text in certificate.warnings] == [True] * (others is not None)
    folder = small.released.root / SESSION
    assert faults(folder) == {}
    if others:
        assert says(small.released.read(made.report).decode(), "&#39;no&#39; for every public row")
        forged = certificate.model_copy(update={"warnings": ()})
        (folder / "certificate.json").write_text(forged.model_dump_json(indent=2))
        assert "leaves out what must stand in it" in faults(folder)["what it says"]


def test_the_first_rows_may_show_what_a_student_names(tmp_path: Path) -> None:
    small = world(tmp_path / "home")
    fitted, (first, *_) = learned(small, session(small, STABLE, small.truth)), small.public.batches
    gone = first.model_copy(update={"ref": Ref(path="public/gone", digest="0")})
    once = small.public.model_copy(update={"batches": (first, *[gone] * 9)})
    assert set(named_by(fitted, once, small.vault)) == {"no", "yes"}
