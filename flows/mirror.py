"""The mirror in MLflow: it shows every session that a command has used, also after its store was lost.

The ledger and the released files are the record; MLflow repeats them. So if a store was deleted, or failed when a
session was to be recorded, the next command that uses the session records it again: nothing is drawn, asked or spent.

Assumes      the process that records a session holds its lock RUN, so that it is recorded once
Guarantees   every run asks MLflow, except a replay whose last answer is still valid (artifacts.mlflow.last_answer). A
             run that shows the same files is not made twice
Not covered  sessions that no command uses; estimates and audits, which have no released file
             Checked by tests/flows/test_mlflow_lost.py
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from concord.artifacts.certificate import Certified
from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.mlflow.describe import Tracked
from concord.artifacts.mlflow.last_answer import LastAnswer
from concord.tasks.door.stores import Stores
from concord.tasks.publish.track import digests_of, session_of

if TYPE_CHECKING:
    from concord.artifacts.mlflow.write import Tracking


def mirrored(
    door: Stores,
    domain: str,
    certified: Certified,
    record: Callable[["Tracking"], Tracked],
    *,
    again: bool,
    ready: Callable[[Path], None] | None,
) -> tuple[Tracked, bool]:
    """The session's place in MLflow, recorded now if it is missing; and whether it was there.

    again   record it even if it is there
    ready   in a replay, makes MLflow ready; it is not called, nor MLflow asked, if its last answer is still valid. None
            if MLflow is ready
    Raises EnvironmentFailed if MLflow fails.
    """
    home, session, digests = door.released.root.parent, session_of(certified), digests_of(certified)
    last = LastAnswer(home, door.vault, session, {"domain": domain, "files": digests})
    if ready and (known := last.still_true()) is not None:
        return known, True
    from concord.artifacts.mlflow.write import Tracking  # takes a second, which a replay mostly saves

    if ready:
        ready(home)
    try:
        tracking = Tracking.of(home)
        known, there = tracking.find(domain, session, digests), not again
        if known is None or again:
            known, there = record(tracking), False
    except EnvironmentFailed as failed:
        raise EnvironmentFailed(
            f"session {session} is certified, its files are in {door.released.root}, and it is not recorded: "
            f"{failed}; once that is mended, the same command records it and spends nothing"
        ) from None
    last.keep(lambda: tracking.find(domain, session, digests))
    return known, there
