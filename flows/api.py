"""Concord from Python: what the commands do, and more: run a plan or a frame and read its results, or ask every
shard a question.

    import concord
    import polars

    done = concord.run("plan.toml")
    print(done.certificate.guarantee, done.report_path, done.labels)
    rows = polars.read_parquet("more.parquet")
    print(done.student.predict(rows))

It uses the same door, ledger and home folder as the command line. Everything that is not a fault of this program raises
a ConcordError with one sentence. A student's predictions are free. Checked by tests/flows/test_api.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from concord.artifacts.errors import WrongInput, quoted
from concord.artifacts.plan import Plan, parse_plan, read_tables
from concord.artifacts.process import our_settings
from concord.artifacts.settings import Settings
from concord.flows.home import Memo, keep_frames, prepare, published_by, reopen
from concord.flows.results import Answer, Run, budget_of, checks_of
from concord.flows.server import engine

if TYPE_CHECKING:  # heavy packages are imported within `our_settings`
    import polars

    from concord.tasks.advice.draft import PlanFacts
    from concord.tasks.asking.questions import ShardFunction


@our_settings()
def run(
    plan: Any,
    *,
    private: Any = None,
    public: Any = None,
    test: Any = None,
    home: str | Path | None = None,
    new_session: bool = False,
    **settings: Any,
) -> Run:
    """Learn and publish a classifier, as `concord run` does. A second call answers from cache and spends nothing.

    plan          a TOML file, its tables as a dict, or a Plan; or a private frame, with `settings` in place of a plan
    private, public, test
                  tables in place of those that the plan names, if it names any: frames of polars or pandas, Arrow
                  tables, or any object with Arrow's C stream interface. They are kept in the vault
    home          the home folder; default: CONCORD_HOME, or .concord
    new_session   open a further session, which costs again
    settings      label, classes or bounds, domain, rows and the other keywords of `concord.init`
    Raises WrongInput if the plan or public data are wrong, BudgetRefused if the domain does not cover the session.
    """
    if not isinstance(plan, str | Path | dict | Plan):
        plan, private = _facts(settings, public).frame_plan(_home(home)), plan
    elif settings:
        raise WrongInput(f"{', '.join(settings)} must be given in the plan, and beside a frame alone")
    frames = {"private": private, "public": public, "test": test}
    given = {field: frame for field, frame in frames.items() if frame is not None}
    loaded, folder = _loaded(plan, given), prepare(_home(home))
    from concord.tasks.data.frames import check_index

    data, columns = loaded.data, loaded.test and loaded.test.columns
    features = data.features or (data.declared and data.declared.names)
    named = {data.label, data.unit, *(features or ()), *(data.groups or ()), *(columns or ())}
    for field, frame in given.items():
        if field != "private" and frame is private:
            raise WrongInput(f"data.{field} must not be the frame of data.private, which would then be published")
        check_index(frame, f"data.{field}", named)
    if given:
        loaded = keep_frames(loaded, folder, given, named if data.features else None)
    summary = None if new_session else Memo(loaded, folder).read()
    if summary is None:
        with engine(folder, loaded):
            from concord.flows.learn import learn

            summary = learn(loaded, folder, new_session)
    return Run(summary, folder)


def _facts(given: dict[str, Any], public: Any) -> PlanFacts:
    """The settings beside a private frame. Raises WrongInput, naming all that are missing or not known."""
    from concord.tasks.advice.draft import PlanFacts

    parameters = signature(PlanFacts).parameters
    needed = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    missing = [name for name in needed if name not in given]
    missing += ["classes or bounds"] * given.keys().isdisjoint({"classes", "bounds"})
    missing += ["public or schema"] * (public is None and "schema" not in given)
    unknown = [name for name in given if name not in parameters]
    wrong = [f"{', '.join(names)} {what}" for names, what in ((missing, "missing"), (unknown, "not known")) if names]
    if wrong:
        raise WrongInput(
            f"a frame must be given with {', '.join(needed)}, classes or bounds, public or schema: {'; '.join(wrong)}"
        )
    return PlanFacts(**given)


@our_settings()
def refresh(
    plan: str | Path | dict[str, Any] | Plan, *, home: str | Path | None = None, new_session: bool = False
) -> Run:
    """Learn from the private rows that have arrived since, as `concord refresh` does: one more release of the stream.

    plan, home    as for `run`
    new_session   if the units of earlier seasons are no longer known, begin another stream, which asks everybody again
                  and costs again
    """
    loaded, folder = _loaded(plan), prepare(_home(home))
    with engine(folder, loaded):
        from concord.flows.refresh import refresh as release

        return Run(release(loaded, folder, new_session), folder)


def _loaded(plan: str | Path | dict[str, Any] | Plan, given: Iterable[str] = ()) -> Plan:
    """The plan, which need not name the tables in `given`."""
    if isinstance(plan, Plan):
        return plan
    tables = plan if isinstance(plan, dict) else read_tables(Path(plan))
    data = tables.get("data")
    return parse_plan({**tables, "data": {**data, **dict.fromkeys(given, "")}} if isinstance(data, dict) else tables)


@our_settings()
def ask(
    plan: str | Path | dict[str, Any] | Plan,
    question: ShardFunction,
    *,
    name: str | None = None,
    epsilon: float | None = None,
    cutoff: int | None = None,
    form: str = "optimal",
    home: str | Path | None = None,
    new_session: bool = False,
) -> Answer:
    """Ask every shard of a plan a question, and release the answer that most of them give, or refuse.

    question      a function of a shard's rows, a polars frame of the plan's columns. It returns None, a truth value, a
                  number, text, bytes, or a tuple or frozenset of these; a shard on which it fails answers None
    name          the question's name; default: the function's. Asked again by its name, the answer is replayed and
                  nothing is spent; a changed question needs another name, and is paid for
    epsilon       the ε it may cost; default: the plan's. δ is always the plan's
    cutoff        questions share a session that ends after so many refusals; default: each has its own session
    form          for a question in its own session: optimal, or laplace, as in the papers
    new_session   open a further session, which costs again
    """
    loaded, folder = _loaded(plan), prepare(_home(home))
    from concord.tasks.asking.questions import Question
    from concord.tasks.asks.questions import QuestionTerms

    named = Question.of(question, name)
    with engine(folder, loaded):
        from concord.flows.ask import ask as put

        return Answer(put(loaded, named, folder, QuestionTerms(epsilon, form, cutoff, new_session)))


@our_settings()
def load_student(subject: str | Path, *, home: str | Path | None = None) -> Any:
    """Load a published student: a scikit-learn classifier, from raw public columns to class names. It takes frames,
    Arrow tables, one row as a dict or a list of them, and NumPy arrays with columns as in `feature_names_in_`.

    subject   a session; a published folder, such as a copy of HOME/released/SESSION; or a model in MLflow's registry,
              such as models:/NAME@champion. No vault is needed, and nothing is spent
    Raises WrongInput if no student was published there, NotVerified if it differs from what the ledger of its home, or
    the signature of a folder elsewhere, records.
    """
    published = published_by(str(subject), _home(home))
    from concord.tasks.publish.predict import student_of

    return student_of(published)


@our_settings()
def init(out: str | Path = "plan.toml", *, home: str | Path | None = None, **given: Any) -> dict[str, Any]:
    """Write a commented plan, as `concord init` does. Returns a summary of it.

    given   the command's options, such as private, public, label, classes, domain and rows; tallies is True, False or
            None for the better
    Raises WrongInput if something is missing or wrong, or if the file is there.
    """
    from concord.tasks.advice.init import write_plan

    tallies = given.pop("tallies", None)
    return write_plan(given, Path(out), _home(home), tallies=tallies)


@our_settings()
def plan(path: str | Path, *, home: str | Path | None = None) -> dict[str, Any]:
    """Simulate a plan, as `concord plan` does, from public figures alone; nothing is spent."""
    from concord.tasks.advice.report import plan_report

    return plan_report(Path(path), _home(home))


@our_settings()
def verify(
    subject: str | Path | None = None,
    *,
    test: str | None = None,
    key: str | None = None,
    kept: str | Path | None = None,
    home: str | Path | None = None,
) -> dict[str, Any]:
    """Check a session, a run, a published folder, or everything, as `concord verify --json` does: `ok` and `checks`."""
    folder = None if kept is None else Path(kept)
    results = checks_of(None if subject is None else str(subject), _home(home), test, key, folder)
    return {"ok": all(check.ok for check in results), "checks": [check.model_dump() for check in results]}


@our_settings()
def budget(*, home: str | Path | None = None) -> dict[str, Any]:
    """What every domain may spend, has spent and has left, as `concord budget --json` prints it."""
    return budget_of(reopen(_home(home), reading=True))


@our_settings()
def predict(
    subject: str | Path,
    rows: Any,
    *,
    key: str | None = None,
    point: str = "default",
    threshold: str | None = None,
    home: str | Path | None = None,
) -> polars.DataFrame:
    """Class and probabilities of rows, as `concord predict` writes them, by a published student; free.

    rows        a frame of polars or pandas, or an Arrow table
    key         a column of it that is kept beside them
    point, threshold
                the operating point or threshold of a class, as for the command
    Raises as `load_student`, and WrongInput if rows lack a column.
    """
    import polars

    from concord.tasks.data.frames import frame_table
    from concord.tasks.publish.predict import at_point, predictions

    student = at_point(load_student(subject, home=home), point, threshold)
    frame = polars.DataFrame(polars.from_arrow(frame_table(rows, "rows")))
    if absent := {*student.feature_names_in_, *([] if key is None else [key])}.difference(frame.columns):
        raise WrongInput(f"rows must hold the column {min(absent)!r}: its columns are {quoted(frame.columns)}")
    if frame.is_empty():
        raise WrongInput("rows must hold at least one row, got none")
    return polars.DataFrame(polars.from_arrow(next(predictions(student, iter([frame]), key))))


@our_settings()
def export(subject: str | Path, to: str | Path, *, home: str | Path | None = None) -> list[str]:
    """Write a published student in every form that suits it, as `concord export` does. Returns the files' names."""
    from concord.tasks.publish.export import export as write

    return sorted(chain(*write(published_by(str(subject), _home(home)), Path(to)).values()))


def _home(home: str | Path | None) -> Path:
    return Path(home or Settings.now().home)
