"""What an ended session was charged is said without the part that all sessions of its domain share."""

from pathlib import Path

from tests.support.console import concord
from tests.support.published import SESSION, session, world
from tests.world import Ledger, StableVoting

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


def test_a_session_of_one_epsilon_was_said_to_be_charged_more(tmp_path: Path) -> None:
    small = world(tmp_path / "home")
    session(small, STABLE, small.truth)
    status, printed, error = concord("close", SESSION, "--home", str(small.home))
    shared = Ledger.of(small.home).domains()[0].filter.conversion
    assert (status, shared > 1) == (0, True), error
    assert f"(including {shared:.3g} that all sessions of its domain share)" in printed
