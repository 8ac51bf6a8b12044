"""Start a flow with the task runner its plan names, on one Prefect server, with its cache in the home folder.

Offers       `start`, `start_extension`, `start_asking`, `start_again` and `start_question`

Checked by tests/flows/test_cluster.py.
"""

from pathlib import Path
from typing import Any, Concatenate

from prefect.flows import Flow, flow

from concord.artifacts.errors import WrongInput
from concord.artifacts.ledger.ledger import opened_once
from concord.artifacts.plan import Plan
from concord.artifacts.sessions import LABELS, Session
from concord.artifacts.stores import Stores
from concord.flows.ask import ask
from concord.flows.learn import extend, learn
from concord.flows.memo import Memo
from concord.flows.outcome import STAGES, StageName, Summary
from concord.flows.serving import FlowResult, P, run_once
from concord.tasks.advice.report import naming_the_largest
from concord.tasks.asking.questions import Question
from concord.tasks.asks.labelled import checkpoint_to_extend
from concord.tasks.asks.questions import QuestionTerms
from concord.tasks.data.sources import check_tables


@opened_once()
def start(plan: Plan, home: Path, *, new_session: bool = False, start_from: str | None = None) -> Summary:
    """Run the flow `learn` over a plan.

    Raises a ConcordError for everything that is not a fault of this program.
    """
    if start_from is not None and start_from not in STAGES:
        raise WrongInput(f"--from must name one of {', '.join(STAGES)}, got {start_from!r}")
    plan.labeling.check_end()
    stage: StageName | None = next((stage for stage in STAGES if stage == start_from), None)
    memo = Memo(plan, home)
    if not new_session and stage is None and (known := memo.read()):
        return known
    check_tables(plan)
    before = memo.tables()
    with naming_the_largest(plan, home):
        summary = run_once(learn, home, plan.teachers)(plan, home, new_session, stage)
    memo.write(summary, before)
    return summary


@opened_once()
def start_extension(session: str, public: Path, home: Path) -> Summary:
    """Run the flow `extend` over more public rows. Raises as `start`.

    session   its id, or the domain whose latest session is meant
    What the session does not pay for is not asked: the summary has the number of those rows (see `check_all_asked`).
    """
    check_here(public)
    stores = Stores.of(home)
    known = latest(stores, session)
    teachers = checkpoint_to_extend(stores.vault, known).plan.teachers
    return run_once(extend, home, teachers)(known.id, str(public.absolute()), home)


def check_here(public: Path) -> None:
    """Raise WrongInput if a path is an address: later rows are recognised by the files they come in. The message hides
    it, since it may hold a password."""
    scheme = public.parts[0] if public.parts else ""
    if len(scheme) > 2 and scheme.endswith(":"):  # a drive of Windows has one letter
        raise WrongInput(
            f"--public must be a file, a folder or a glob of this machine, got an address of {scheme}//: copy what "
            "arrived into a folder, and name that one again and again"
        )


@opened_once()
def start_asking(
    asking: Flow[Concatenate[Plan, Path, P], FlowResult], plan: Plan, home: Path, *values: P.args, **asked: P.kwargs
) -> FlowResult:
    """Run a flow that asks the private rows of a plan: `refresh` or `estimate`. Raises as `start`."""
    check_tables(plan)
    return run_once(asking, home, plan.teachers)(plan, home, *values, **asked)


@opened_once()
def start_again(
    reopening: Flow[Concatenate[str, Path, P], FlowResult], session: str, home: Path, *values: P.args, **asked: P.kwargs
) -> FlowResult:
    """Run a flow over a session, named as in `start_extension`: `study_again`. Raises as `start`."""
    return run_once(reopening, home)(latest(Stores.of(home), session).id, home, *values, **asked)


@opened_once()
def start_question(plan: Plan, question: Question, home: Path, terms: QuestionTerms) -> dict[str, Any]:
    """Run the flow `ask` over a plan. Raises as `start`."""

    @flow(name="ask")
    def asking() -> dict[str, Any]:  # without parameters: Prefect keeps those, and a question is code
        return ask(plan, question, home, terms)

    return run_once(asking, home)()


def latest(stores: Stores, name: str) -> Session:
    """The session of that id, or the domain's latest session that answers rows. Raises WrongInput."""
    answering = [session for session in stores.ledger.sessions(name) if session.purpose == LABELS]
    return answering[-1] if answering else stores.ledger.session(name)
