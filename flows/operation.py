"""Operations: the flows that a command, Python and a deployment's worker run alike. The flow declares the parameters;
the others call it with their own types.

Each run ends in a state whose name says how it went:
    Completed       rows were answered, or the student was trained again
    Partly          (Completed) the session ended before the last public row; the message says how many were not asked
    NothingNew      (Completed) everything was there already; nothing was spent
    BudgetRefused   (Failed) the session's refusals or the domain's budget are used up, or a further session was not
                    asked for; WrongInput, NotVerified and EnvironmentFailed likewise (artifacts.errors)
A caller gets the summary, or the error, that the state holds. Everything that a run does is on its own page: it is
named for its session, and has the tasks and the artifacts. After a crash, the next run goes on where this one was. A
server checks parameters before anything runs, and names the key that it refuses. Checked by
tests/deployments/test_scheduled.py and tests/flows/test_extend.py.
"""

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, cast

from httpx import HTTPError, HTTPStatusError
from prefect.client.schemas.objects import State
from prefect.exceptions import FailedRun, MissingResult
from prefect.flows import Flow
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from concord.artifacts import process
from concord.artifacts.errors import ConcordError, EnvironmentFailed
from concord.artifacts.ledger.ledger import opened_once
from concord.artifacts.plan import Plan
from concord.flows.cache import SealedResults
from concord.flows.ending import NOTHING_LOST
from concord.flows.outcome import Summary, in_words, shown
from concord.flows.server import ADDRESS_VARIABLE, is_named

P = ParamSpec("P")
Result = TypeVar("Result", Summary, dict[str, Any])
NOWHERE = SealedResults(home=Path("nowhere"), address=None)
"""Where a flow's own result would be kept: it is not, and what is not JSON is refused, such as a pickled error."""
REFUSALS = {
    401: "PREFECT_API_AUTH_STRING must hold its user and password",
    422: "for a large plan, set its PREFECT_SERVER_API_MAX_PARAMETER_SIZE higher, or to 0",
}
"""What to do if a server that the environment names answers a request with that status."""

_ENDED = ContextVar[Any]("ended", default=None)
"""What an operation's function returned, or the error that ended it."""


def _note(ended: object) -> None:
    """Set _ENDED. A function of its own, because workers are sent its caller, and no context variable can be sent."""
    _ENDED.set(ended)


class Operation(Flow[P, Any]):
    """A flow whose caller is told how it ended, whatever the server answers. One that was asked again, since its first
    answer came too late, sends back the state that it recorded, which has neither a result nor an error; one that has
    gone sends nothing; and one that the environment names may refuse the run. What becomes of our own, flows/server.py
    says."""

    def __call__(self, *values: Any, **named: Any) -> Any:
        _ENDED.set(None)
        try:
            return super().__call__(*values, **named)
        except (FailedRun, MissingResult, HTTPError) as failed:
            ended = _ENDED.get()
            if isinstance(failed, HTTPStatusError) and not is_named():
                raise
            if ended is None and isinstance(failed, HTTPError):
                raise EnvironmentFailed(_unanswered(failed)) from None
            if ended is None:
                raise
        if isinstance(ended, ConcordError):
            raise ended
        return ended


def _unanswered(failed: HTTPError) -> str:
    """What is said of a request that a server refused or did not answer, and what to do."""
    if not isinstance(failed, HTTPStatusError):
        return f"Prefect's server no longer answers ({type(failed).__name__}): {NOTHING_LOST} once it does"
    answer = failed.response
    refused = f"the Prefect server that {ADDRESS_VARIABLE} names refused a request"
    advice = REFUSALS.get(answer.status_code, "see its log")
    return f"{refused} ({answer.status_code} {answer.reason_phrase}): {advice}"


class ByKey:
    """Marks a parameter that is a section of a plan or something plainer, so that a server refuses it by the very key
    that is wrong. Of a schema with `anyOf`, it would name the whole parameter and print all of it."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        schema: dict[str, Any] = handler(core_schema)
        keys = handler.resolve_ref_schema(schema["anyOf"][0])["properties"]
        keys.update({name: _by_type(key) for name, key in keys.items() if "anyOf" in key})
        return _by_type(schema)


def _by_type(schema: dict[str, Any]) -> dict[str, Any]:
    """`anyOf` a section and a plainer type, distinguished by that type. Any other schema stays as it is."""
    section, plainer = schema["anyOf"][0], schema["anyOf"][-1]
    if "$ref" not in section:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**rest, "if": {"type": plainer["type"]}, "then": plainer, "else": section}


PlanOrFile = Annotated[Plan | Path, ByKey()]
"""A plan, or its TOML file."""


def _of_plan() -> str:
    """The name of a run until its session is known."""
    plan = flow_run.parameters["plan"]
    return f"{flow_run.flow_name} {plan.privacy.domain if isinstance(plan, Plan) else plan}"


def operation(
    name: str, run_name: str | Callable[[], str] = _of_plan, *, asks: bool = True
) -> Callable[[Callable[P, Result]], Flow[P, Result]]:
    """Decorate a function that returns the summary of a run, or details of what was asked, as the flow of that name.

    run_name   the name of a run until its session is known; by default, it is for its plan
    asks       whether it asks for the labels of public rows
    """

    def decorate(function: Callable[P, Result]) -> Flow[P, Result]:
        @wraps(function)
        def run(*values: P.args, **named: P.kwargs) -> State[Result]:
            try:
                with process.our_settings(), opened_once():  # by its module: workers are sent this function
                    result = function(*values, **named)
                    _note(result)
                    return _state_of(result, asks=asks)
            except ConcordError as error:
                _note(error)
                return failed_state(error)

        made = Operation(run, name=name, flow_run_name=run_name, result_storage=NOWHERE, persist_result=False)
        return cast("Flow[P, Result]", made)

    return decorate


def _state_of(result: Result, *, asks: bool) -> State[Result]:
    """The state of a run that has ended with that result, which is shown on its page."""
    if not isinstance(result, Summary):
        return Completed(data=result)
    shown(result)
    nothing_new = not result.asked_now and all(stage.cached for stage in result.stages)
    name = "Partly" if asks and result.not_asked else "NothingNew" if nothing_new else "Completed"
    return Completed(name=name, message=in_words(result), data=result)


def failed_state(error: ConcordError) -> State[Any]:
    """The state of a run that the error ended. It is named for the kind of error that the guide and alerts name, since
    BudgetRefused, say, has kinds of its own."""
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__base__ is ConcordError)
    return Failed(name=name, message=str(error), data=error)
