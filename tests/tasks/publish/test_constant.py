"""Labels of one class, and no test: the certificate warns."""

from pathlib import Path

import numpy as np

from concord.artifacts.certificate import Certificate
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.student.study import publish_student, study
from tests.support.published import SESSION, TEACHERS, recertified, session, world

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


def test_a_student_of_one_class_is_warned_of(tmp_path: Path) -> None:
    small = world(tmp_path / "home")
    refs = session(small, STABLE, np.zeros_like(small.truth))
    table = small.released.labels(refs)
    fitted = study(small.plan.student, small.encoding, small.batches, table, teachers=TEACHERS, vault=small.vault)
    student = publish_student(fitted, SESSION, None, small.released)
    made = recertified(small, STABLE, refs, student)
    certificate = Certificate.model_validate_json(small.released.read(made.certificate))
    (warning,) = certificate.warnings
    assert "every released label names the class 'no'" in warning
