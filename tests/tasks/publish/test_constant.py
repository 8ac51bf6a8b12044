"""Without a test, a certificate warns of labels of one class, and of a student that names one class alone."""

from pathlib import Path

import numpy as np
from sklearn.pipeline import Pipeline

from tests.support.published import SESSION, World, learned, recertified, session, world
from tests.support.sentences import says
from tests.world import UNTESTED, Certificate, Ref, StableVoting, named_by, publish_student, verify_published

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


def test_a_student_of_one_class_is_warned_of(tmp_path: Path) -> None:
    small = world(tmp_path / "home")
    refs = session(small, STABLE, np.zeros_like(small.truth))
    student = publish_student(learned(small, refs), SESSION, None, small.released)
    made = recertified(small, refs, student)
    certificate = Certificate.model_validate_json(small.released.read(made.certificate))
    (warning,) = certificate.warnings
    assert "every released label is 'no'" in warning


def test_so_is_one_that_names_one_class_though_its_labels_hold_several(tmp_path: Path) -> None:
    """Nearly all labels are of one class, and the student is so smooth that it never names the other."""
    small = world(tmp_path / "home")
    labels = np.zeros_like(small.truth)
    labels[:3] = 1
    refs = session(small, STABLE, labels)
    fitted = learned(small, refs)
    named = named_of(small, fitted)
    assert named == ("no",)
    student = publish_student(fitted, SESSION, None, small.released, named)
    made = recertified(small, refs, student)
    certificate = Certificate.model_validate_json(small.released.read(made.certificate))
    (warning,) = certificate.warnings
    assert warning == f"the student predicts the class 'no' for every public row, and {UNTESTED}"
    assert certificate.student.named == ("no",)
    assert says(small.released.read(made.report).decode(), "&#39;no&#39; for every public row")
    assert wrongs(small) == []
    forged = certificate.model_copy(update={"warnings": ()})
    small.released.root.joinpath(made.certificate.path).write_text(forged.model_dump_json())
    assert any("leaves out what must stand in it" in wrong for wrong in wrongs(small))


def test_one_that_names_several_is_not(tmp_path: Path) -> None:
    small = world(tmp_path / "home")
    refs = session(small, STABLE, small.truth)
    fitted = learned(small, refs)
    named = named_of(small, fitted)
    assert set(named) == {"no", "yes"}
    first = small.public.batches[0]
    once = small.public.model_copy(
        update={"batches": (first, *[first.model_copy(update={"ref": Ref(path="public/gone", digest="0")})] * 9)}
    )
    assert named_by(fitted, once, small.vault) == named  # which the first rows show
    made = recertified(small, refs, publish_student(fitted, SESSION, None, small.released, named))
    assert Certificate.model_validate_json(small.released.read(made.certificate)).warnings == ()


def named_of(small: World, fitted: Pipeline) -> tuple[str, ...]:
    """The classes that a student names on the public rows."""
    return named_by(fitted, small.public, small.vault)


def wrongs(small: World) -> list[str]:
    """What the checks of a published folder find wrong."""
    checks = verify_published(small.released.root / SESSION)
    return [check.detail for check in checks if not check.ok]
