"""The flows for deployments: started by a worker or a schedule, with nobody at the console.

Each run ends in a state whose name says how it went:
    Completed       rows were answered, or the student was trained again
    Partly          (Completed) the session ended before the last public row; the message says how many were not asked
    NothingNew      (Completed) everything was there already; nothing was spent
    BudgetRefused   (Failed) the session's refusals or the domain's budget are used up, or a further session was not
                    asked for; WrongInput, NotVerified and EnvironmentFailed likewise (artifacts.errors)
Everything that a run does is on its own page: it is named for its session, and has the tasks and the artifacts.
After a crash, the next run goes on where this one was. A server checks parameters before anything runs, and names the
key that it refuses. Checked by tests/deployments/test_scheduled.py and tests/flows/test_extend.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from concord.artifacts.errors import ConcordError
from concord.artifacts.plan import Plan, load_plan
from concord.artifacts.process import our_settings
from concord.artifacts.sections import StudentPlan
from concord.artifacts.settings import Settings
from concord.flows.environment import prepare
from concord.flows.learn import study_again
from concord.flows.outcome import SCHEDULED, Summary, check_all_asked, in_words
from concord.flows.refresh import refresh
from concord.flows.serving import as_one_run
from concord.flows.start import start, start_again, start_asking, start_extension


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


def _of_plan() -> str:
    """The name of a run until its session is known."""
    plan = flow_run.parameters["plan"]
    return f"{flow_run.flow_name.removeprefix(SCHEDULED)} {plan.privacy.domain if isinstance(plan, Plan) else plan}"


@flow(name="scheduled-learn", flow_run_name=_of_plan)
def scheduled_learn(
    plan: Annotated[Plan | Path, ByKey()], home: Path | None = None, new_session: bool = False
) -> State[Any]:
    """Publish a classifier learned from the plan's private table.

    plan          the plan itself, or its TOML file
    home          the home folder; else CONCORD_HOME, or .concord in the working directory
    new_session   open a further session, which costs again; a retry of the same run never opens one more, and one that
                  a killed run left unpublished is finished first
    """
    further = new_session and flow_run.run_count == 1
    return _in_home(home, lambda found: _state_of(start(_loaded(plan), found, new_session=further)))


@flow(name="scheduled-refresh", flow_run_name=_of_plan)
def scheduled_refresh(plan: Annotated[Plan | Path, ByKey()], home: Path | None = None) -> State[Any]:
    """Publish one more release of the plan's stream, whatever arrived since the last.

    plan, home   as for `scheduled_learn`
    """
    return _in_home(home, lambda found: _state_of(start_asking(refresh, _loaded(plan), found), asks=False))


@flow(name="scheduled-extend", flow_run_name="extend {session}")
def scheduled_extend(session: str, public: str, home: Path | None = None) -> State[Any]:
    """Answer the public rows that a session was not given before, and train its student on all of them.

    session   its id, or the domain whose latest session is meant
    public    a file, a folder or a glob; only what arrived since is answered
    """

    def work(home: Path) -> State[Any]:
        summary = start_extension(session, Path(public), home)
        if not summary.asked_now:
            check_all_asked(summary)
        return _state_of(summary)

    return _in_home(home, work)


@flow(name="scheduled-study", flow_run_name="study {session}")
def scheduled_study(
    session: str, student: Annotated[StudentPlan | None, ByKey()] = None, home: Path | None = None
) -> State[Any]:
    """Train a session's student again from the labels it released; nothing is asked and nothing is spent.

    student   how it learns from now on; without it, as the session's plan says
    """
    return _in_home(home, lambda found: _state_of(start_again(study_again, session, found, student), asks=False))


def _loaded(plan: Plan | Path) -> Plan:
    return plan if isinstance(plan, Plan) else load_plan(plan)


def _in_home(home: Path | None, work: Callable[[Path], State[Any]]) -> State[Any]:
    """Do `work` in a home folder. Returns the state of its run. MLflow is imported inside, within our settings."""
    try:
        with our_settings(), as_one_run():
            return work(prepare(home or Settings.now().home))
    except ConcordError as error:
        return refused(error)


def refused(error: ConcordError) -> State[Any]:
    """The state of a run that the error ended. It is named for the kind of error that the guide and alerts name, since
    BudgetRefused, say, has kinds of its own."""
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__base__ is ConcordError)
    return Failed(name=name, message=str(error))


def _state_of(summary: Summary, *, asks: bool = True) -> State[Any]:
    nothing_new = not summary.asked_now and all(stage.cached for stage in summary.stages)
    name = "Partly" if asks and summary.not_asked else "NothingNew" if nothing_new else "Completed"
    return Completed(name=name, message=in_words(summary))
