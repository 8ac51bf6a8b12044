"""Replay: answer a repeated run from its cached results, without a flow engine.

A run whose stages are all cached, and whose session has nothing left to draw, computes nothing. Prefect's server, which
keeps the states of tasks, takes longer to start than such an answer. So the same flow function is called with two
stand-ins: stages return the sealed results for their keys, and the ledger takes no new entry. If a result is missing,
or an entry would be made, `NotKept` is raised: nothing was done, and the run is made in full.

Assumes      besides its stages and the ledger, a flow only does what may be done twice: it holds locks, writes a
             checkpoint that exists, and records in MLflow what is not recorded
Guarantees   everything a full run checks is checked by the same code: the identity of the session, its mechanism and
             its ensemble, seals of cached results, digests of released files, the chain of the ledger.
             Nothing is drawn and nothing is charged. Refusals and errors are those of the full run
Not covered  Prefect's record: a replayed run is not one of its flow runs. If the environment names a server, every run
             is made in full, and is on its record
             Checked by tests/flows/test_replay.py
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prefect.tasks import Task

from concord.artifacts.errors import NotKept
from concord.artifacts.ledger.ledger import AsItStands
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.flows.outcome import StageName, Summary
from concord.flows.run import stores_of_run
from concord.flows.stage import Begun, Call, Disclosure, Stages, Steps, disclose, stage_of


def replayed(flow: Callable[[], Summary]) -> Summary | None:
    """The result of a flow's function without computing anything; None if a result is missing."""
    token = stores_of_run.set(_as_it_stands)
    try:
        return flow()
    except NotKept:
        return None
    finally:
        stores_of_run.reset(token)


def _as_it_stands(home: Path, _: StageName | None) -> tuple[Stores, Stages]:
    """Stores and stages of a home for a replay: no stage runs, and the ledger takes no entry."""
    stores = Stores.of(home, AsItStands)
    return stores, KeptStages(stores, home)


class KeptStages(Stages):
    """Stages that return their cached results and run nothing."""

    in_replay = True

    def __init__(self, stores: Stores, home: Path) -> None:
        super().__init__(home, None)
        self._stores = stores

    def result(self, work: Task[..., Any], arguments: Call) -> tuple[Any, bool]:
        """The sealed result of one task. Raises NotKept."""
        result = self._kept.kept(self.call(work, arguments)["place"].key)
        if not self._there(result):
            raise NotKept(f"a file of stage {work.name} is not there")
        return result, True

    def each(self, work: Task[..., Any], parts: Iterable[Call]) -> list[Any]:
        """The sealed results of a task, one for each call. Raises NotKept."""
        calls, results = list(parts), []
        with self._shown(stage_of(work), len(calls)) as progress:
            for call in calls:
                results.append(self.result(work, call)[0])
                progress.advance(cached=True)
            self._leave_out(progress.seconds, progress)
        return results

    def begin(self, work: Task[..., Any], arguments: Call) -> Begun:
        """A function that returns the sealed result of one task. Raises NotKept."""
        return lambda: self.result(work, arguments)

    def pass_door(self, name: StageName, steps: Steps, session: Session) -> Disclosure:  # noqa: ARG002
        """The disclosure, read again. Raises NotKept if something is left to draw."""
        return disclose(steps, self._stores, session)
