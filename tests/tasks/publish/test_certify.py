"""The certificate, its evidence and its warnings say what ledger and released files say, and nothing private."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from tests import world
from tests.support.published import (
    SESSION,
    World,
    certified,
    learned,
    opening,
    recertified,
    session,
    world_in,
)
from tests.support.sentences import says
from tests.tasks.verify.signed_folder import faults

pytestmark = pytest.mark.usefixtures("blank_figures")

STABLE = world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20)


@pytest.fixture
def small(tmp_path: Path) -> World:
    return world_in(tmp_path / "home")


def read(small: World) -> world.Certificate:
    return world.Certificate.model_validate_json((small.released.root / SESSION / "certificate.json").read_bytes())


def test_a_certificate_is_known_before_it_is_written_by_all_but_the_versions_that_write_it(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of the stage digests it: other libraries must not certify anew, and all else must."""
    student, _ = certified(small, STABLE, small.truth)
    written, stores = read(small), world.Stores(small.vault, world.Ledger.of(small.home), small.released)

    def due() -> world.Certificate:
        files, features = {SESSION: list(written.leading.files)}, small.encoding.features
        return world.certificate_of(small.plan, files, student, features, stores)

    before = due()
    assert before.versions == {}
    assert before.model_dump(exclude={"versions"}) == written.model_dump(exclude={"versions"})
    assert written.versions == world.library_versions()
    monkeypatch.setattr(world.artifacts_certificate, "library_versions", lambda: {"numpy": "9.0"})
    assert due() == before
    stores.ledger.open_session(opening(STABLE, "later"), further=True)
    assert world.digested(due()) != world.digested(before)


def test_every_mechanism_names_its_proof() -> None:
    for mechanism in world.CATALOGUE.values():
        assert (Path(__file__).parents[3] / mechanism.proof.partition(":")[0]).is_file()


def contents(small: World) -> dict[str, bytes]:
    folder = small.released.root / SESSION
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


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


@pytest.mark.slow
def test_it_is_of_the_moment_that_the_certificate_tells_of(small: World) -> None:
    """Between a certificate and its evidence another command may charge the domain: the two still agree."""
    certified(small, STABLE, small.truth)
    certificate, before = read(small), contents(small)["ledger.json"]
    ledger = world.Ledger.of(small.home)
    ledger.open_session(opening(STABLE, "people-2"), further=True)
    ledger.settle("people-2", give_back=False)
    assert world.excerpt_of(certificate, ledger, small.home).text == before
    charged: world.DomainCharge = certificate.domain.model_copy(update={"sessions": 5})
    with pytest.raises(world.NotVerified, match="never stood as the certificate"):
        world.excerpt_of(certificate.model_copy(update={"domain": charged}), ledger, small.home)


def test_a_session_that_ended_after_few_of_its_rows_is_warned_of(tmp_path: Path) -> None:
    small = world_in(tmp_path, rows=4000, batch=1000)
    _, made = certified(small, STABLE, np.full(20, -1))
    certificate = read(small)
    assert certificate.counts.model_dump() == {"asked": 20, "answered": 0, "refused": 20, "not_asked": 3980}
    assert certificate.warnings[0].startswith("the session ended after 20 of 4,000 public rows")
    assert says(small.released.read(made.report).decode(), "20 of 4,000 public rows")
    for asked, rows, warned in ((40, 4000, False), (39, 4000, True), (0, 0, False)):
        counts = world.Counts(asked=asked, answered=asked, refused=0, not_asked=rows - asked)
        ended = certificate.leading.model_copy(update={"counts": counts})
        found = world.student_warnings(certificate.model_copy(update={"sessions": (ended,)}))
        assert any(text.startswith("the session ended after") for text in found) is warned


@pytest.mark.parametrize(
    ("others", "warning"),
    [
        (0, "every released label is 'no'"),
        (3, f"the student predicts the class 'no' for every public row, and {world.UNTESTED}"),  # it is that smooth
        (None, ""),
    ],
    ids=["labels of one class", "a student that names one class alone", "one that names several"],
)
def test_without_a_test_one_class_is_warned_of(tmp_path: Path, others: int | None, warning: str) -> None:
    small = world_in(tmp_path / "home")
    labels = small.truth if others is None else np.zeros_like(small.truth)
    labels[: others or 0] = 1
    refs = session(small, STABLE, labels)
    fitted = learned(small, refs)
    named = world.named_by(fitted, small.public, small.vault)
    assert set(named) == ({"no", "yes"} if others is None else {"no"})
    ref = world.hold_student(fitted, SESSION, small.released)
    made = recertified(small, refs, world.Student(ref=ref, test=None, named=named if others else None))
    certificate = read(small)
    assert [text.startswith(warning) for text in certificate.warnings] == [True] * (others is not None)
    folder = small.released.root / SESSION
    assert faults(folder) == {}
    if others:
        assert says(small.released.read(made.report).decode(), "&#39;no&#39; for every public row")
    if others is not None:
        forged = certificate.model_copy(update={"warnings": ()})
        (folder / "certificate.json").write_text(forged.model_dump_json(indent=2))
        assert "leaves out what must stand in it" in faults(folder)["what it says"]
