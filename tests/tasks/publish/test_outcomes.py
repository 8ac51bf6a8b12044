"""What became of public rows: the same whichever files they lie in, and a warning if few were asked."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.published import CLASSES, SESSION, certified, session, world
from tests.support.sentences import says
from tests.world import Certificate, Counts, Ledger, NotVerified, Outcomes, StableVoting, counted, student_warnings

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
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
    certificate = Certificate.model_validate_json(small.released.read(made.certificate))
    assert certificate.warnings[0].startswith("the session ended after 20 of 4,000 public rows")
    assert says(small.released.read(made.report).decode(), "20 of 4,000 public rows")
    for asked, rows, warned in ((40, 4000, False), (39, 4000, True), (0, 0, False)):
        counts = Counts(asked=asked, answered=asked, refused=0, not_asked=rows - asked)
        ended = certificate.leading.model_copy(update={"counts": counts})
        found = student_warnings(certificate.model_copy(update={"sessions": (ended,)}))
        assert any(text.startswith("the session ended after") for text in found) is warned
