"""What became of public rows: the same whichever files they lie in, and a warning of few rows or of one class."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.published import CLASSES, SESSION, World, certified, learned, recertified, session, world
from tests.support.sentences import says
from tests.tasks.verify.signed_folder import faults
from tests.world import (
    UNTESTED,
    Certificate,
    Certified,
    Counts,
    Ledger,
    NotVerified,
    Outcomes,
    Ref,
    StableVoting,
    counted,
    named_by,
    publish_student,
    student_warnings,
)

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
ENDS_AT = 95
"""Rows until the twentieth refusal, of every fifth row."""


def read(small: World, made: Certified) -> Certificate:
    return Certificate.model_validate_json(small.released.read(made.certificate))


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
    certificate = read(small, made)
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
    certificate = read(small, made)
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
