"""The outcome of a run: its stages, the summary that `concord run --json` prints, and its page in Prefect's UI."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args
from uuid import UUID

from pydantic import BaseModel

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.facts import Facts
from concord.artifacts.guarantee import (
    NO_LATER_ROWS,
    later_rows_in_words,
    lifetime_in_words,
    unasked_in_words,
)
from concord.artifacts.measures import (
    AnyPublicTest,
    AnyTested,
    Estimate,
    NumberTest,
    NumberTested,
)
from concord.artifacts.sessions import Session
from concord.flows.console import on_page

StageName = Literal[
    "encode",
    "code",
    "split",
    "gather",
    "relabel",
    "teach",
    "poll",
    "measure",
    "ask",
    "count",
    "tally",
    "release",
    "choose",
    "infer",
    "study",
    "try",
    "test",
    "certify",
]
STAGES: tuple[StageName, ...] = get_args(StageName)
"""All stages in order; a run has those that its plan needs."""


def stage_named(name: str | None) -> StageName | None:
    """The stage of that name. Raises WrongInput if no stage has it."""
    if name is not None and name not in STAGES:
        raise WrongInput(f"--from must name one of {', '.join(STAGES)}, got {name!r}")
    return next((stage for stage in STAGES if stage == name), None)


class StageReport(BaseModel):
    """The outcome of one stage."""

    name: StageName
    cached: bool
    seconds: float


class Summary(BaseModel):
    """The summary of a run, as `concord run --json` prints it.

    certificate_digest   SHA-256 of the certificate's file
    student      its file, and its measures on public test rows and by a private test, if there are any
    test         the student's test on private units set aside, as in the certificate
    warnings     warnings to users of the student
    spent_now    what the sessions of this run added to the domain's charge, whatever other runs did meanwhile
    asks         what was asked, in the plural (`Session.asks`)
    not_asked    public rows that the session was given and does not pay for
    inferred     rows whose labels follow from tallies, at no charge; public or synthetic, as `of_rows` says
    later_rows   a sentence on whether the session can be extended
    season       of a stream, a sentence on how far its season is; else empty
    conversion   the part of that ε that a domain pays once, with its first session, to convert Rényi charges to ε
    lifetime     shares of the domain's budget: charged by this run, charged in all; and how many more such sessions fit
    """

    run_id: str
    domain: str
    session: str
    certificate: str
    certificate_digest: str
    report: str
    guarantee: dict[str, Any]
    mechanism: dict[str, Any]
    teachers: int
    asks: str = "rows"
    asked: int
    answered: int
    refused: int
    asked_now: int
    not_asked: int = 0
    inferred: int = 0
    of_rows: str = "public rows"
    later_rows: str = ""
    season: str = ""
    student: dict[str, Any]
    test: dict[str, Any] | None = None
    warnings: list[str] = []
    spent_now: dict[str, float]
    conversion: float
    lifetime: dict[str, Any]
    stages: list[StageReport]

    def repeated(self, used: float) -> "Summary":
        """The summary of the same run once more, which asks and charges nothing; of the domain's budget `used` is."""
        nothing = {"asked_now": 0, "conversion": 0.0, "spent_now": dict.fromkeys(self.spent_now, 0.0)}
        stages = [StageReport(name=stage.name, cached=True, seconds=0.0) for stage in self.stages]
        lifetime = {"now": 0.0, "used": used, "more": None}
        return self.model_copy(update={**nothing, "lifetime": lifetime, "stages": stages})


def merge_reports(reports: Sequence[StageReport]) -> list[StageReport]:
    """One report per stage, in the order of their first runs: rounds run some stages several times."""
    merged: dict[str, StageReport] = {}
    for report in reports:
        before = merged.get(report.name, StageReport(name=report.name, cached=True, seconds=0.0))
        seconds, cached = round(before.seconds + report.seconds, 3), before.cached and report.cached
        merged[report.name] = StageReport(name=report.name, cached=cached, seconds=seconds)
    return list(merged.values())


def in_words(summary: Summary) -> str:
    """A run in one line."""
    noun = summary.asks if summary.asked_now != 1 else summary.asks.removesuffix("s")
    in_all = f"{summary.answered} of {summary.asked} answered" if summary.asks == "rows" else summary.asked
    rows = f"{summary.asked_now} {noun} queried now, {in_all} in total"
    rows += f"; {summary.inferred} {summary.of_rows} labelled from them" * (summary.inferred > 0)
    rows += f", {summary.not_asked} not queried" * (summary.not_asked > 0)
    rows += f"; {summary.season}" * (summary.season != "")
    return f"session {summary.session}: {rows}; budget: {spent_in_words(summary.lifetime)}"


class RowsNotPaid(BudgetRefused):
    """No row was asked, because the session pays for none of those it was given. `summary` is of the run."""

    def __init__(self, summary: Summary) -> None:
        super().__init__(unasked_in_words(summary.session, summary.not_asked))
        self.summary = summary


def check_any_asked(summary: Summary) -> None:
    """Raise RowsNotPaid if public rows were given to a session that pays for none of them."""
    if summary.not_asked and not summary.asked_now:
        raise RowsNotPaid(summary)


def check_all_asked(summary: Summary) -> None:
    """Raise BudgetRefused, naming their number, if public rows were given to a session that does not pay for them."""
    if summary.not_asked:
        raise BudgetRefused(unasked_in_words(summary.session, summary.not_asked))


def spent_in_words(lifetime: Mapping[str, Any]) -> str:
    """A sentence on the share of the lifetime budget that this command was charged, and the room that is left."""
    words = lifetime_in_words(lifetime["now"], lifetime["used"], lifetime["more"])
    return words if lifetime["more"] is None else f"this session {words}"


def measures_of(certificate: Certificate) -> dict[str, Any]:
    """The measures of a student, for a summary."""
    public, private, accuracy = certificate.student.public_test, certificate.tested, certificate.student.accuracy
    measures: dict[str, Any] = {"accuracy": None if accuracy is None else accuracy.value}
    if public is not None:
        measures["public_test"] = _of_public(public)
        if public.groups:
            measures["groups"] = [group.model_dump(mode="json") for group in public.groups]
    return measures if private is None else {**measures, "private_test": _of_private(private)}


OF_ALL = ("rows", "accuracy", "balanced_accuracy", "majority", "matrix")
"""Figures of a test of classes that belong to no single class."""
OF_CLASS = ("recall", "precision", "average_precision")


def _of_private(test: AnyTested) -> dict[str, Any]:
    if isinstance(test, NumberTested):
        return test.model_dump(include={"rows", "rmse", "constant", "constant_rmse"})
    figures = test.model_dump(mode="json")
    shares = {kind: {item["name"]: item[kind] for item in figures["classes"]} for kind in ("recall", "precision")}
    return {name: figures[name] for name in OF_ALL} | shares


def _of_public(test: AnyPublicTest) -> dict[str, Any]:
    """Figures as numbers, and beside them their intervals by the same names."""
    if isinstance(test, NumberTest):
        figures: dict[str, Any] = {name: getattr(test, name) for name in ("rows", "rmse", "mean_rmse", "r2")}
    else:
        ranking = () if test.auc is None else ("auc", "calibration_error")
        figures = {name: getattr(test, name) for name in (*OF_ALL, *ranking)}
        for kind in OF_CLASS if ranking else OF_CLASS[:-1]:
            figures[kind] = {item.name: getattr(item, kind) for item in test.classes}
        if test.prior_odds is not None:
            figures["prior_odds"] = dict(test.prior_odds)
    return {
        **{name: _each(part, lambda of: of.value) for name, part in figures.items() if part is not None},
        "intervals": {
            name: _each(part, lambda of: [of.low, of.high])
            for name, part in figures.items()
            if isinstance(part, Estimate | dict)
        },
        "in_words": test.in_words,
    }


def _each(part: Any, of: Callable[[Estimate], Any]) -> Any:
    """A figure, or those of each class, with `of` of each estimate in its place."""
    if isinstance(part, dict):
        return {name: _each(item, of) for name, item in part.items()}
    return of(part) if isinstance(part, Estimate) else part


def facts(summary: Summary) -> dict[str, str]:
    """The facts of a run by their labels, in words, as console, notebook and Prefect's page show them; those that it
    does not have are left out."""
    teachers = f"{summary.teachers:,}" if summary.teachers else "no"
    test = summary.student.get("public_test", {})
    odds = (f"{of.replace('_', ' ')} {share_in_words(test, 'prior_odds', of)}" for of in test.get("prior_odds", ()))
    untested = "not evaluated: add [test] share or --test" if summary.test is None else "no public test rows"
    words = {
        "session": summary.session,
        "guarantee": summary.guarantee["in_words"],
        "mechanism": f"{Facts.of(summary.mechanism).name}, {teachers} teachers",
        "rows": rows_in_words(summary),
        "season": summary.season,
        "later rows": summary.later_rows,
        "student": test.get("in_words", untested),
        "rare classes": f"{', '.join(odds)} at the threshold for rare classes" if "prior_odds" in test else "",
        "private test": "" if summary.test is None else summary.test["in_words"],
        "budget": spent_in_words(summary.lifetime),
        "certificate": summary.certificate,
        "report": summary.report,
    }
    return {label: text for label, text in words.items() if text}


def rows_in_words(summary: Summary) -> str:
    """How many public or synthetic rows were labelled, and from what."""
    words = f"{summary.asked:,} public rows queried, {summary.answered:,} labelled, {summary.refused:,} refused"
    if summary.inferred:
        words = f"{summary.inferred:,} {summary.of_rows} labelled, from {summary.asked} rounds of noisy sums"
    elif not summary.teachers:
        words = "none: the student was chosen by its errors on the private rows"
    return f"{words}, {summary.not_asked:,} not queried, because the session had ended" if summary.not_asked else words


def share_in_words(test: Mapping[str, Any], kind: str, of: str) -> str:
    """A figure of one class in a summary's test, with its interval; a public test has the intervals beside the
    figures."""
    share = test[kind][of]
    if share is not None and "intervals" in test:
        low, high = test["intervals"][kind][of]
        share = {"value": share, "low": low, "high": high}
    return "–" if share is None else Estimate(**share).in_words


def extension_in_words(session: Session) -> str:
    """A sentence on whether the session can be extended."""
    if not session.teachers:
        return NO_LATER_ROWS
    ends = {"queries": session.queries, "cutoff": session.cutoff}
    return later_rows_in_words(**ends, asked=session.asked, refused=session.refused, ended=session.ended)


def shown(summary: Summary) -> None:
    """Show outcome and stages on the page of the current flow run, if there is one, name it for its session, and tag it
    with domain and session."""
    if not on_page():
        return
    from prefect.artifacts import create_markdown_artifact, create_table_artifact
    from prefect.client.orchestration import get_client
    from prefect.runtime import flow_run

    name = f"{flow_run.flow_name} {summary.session}"
    tags = {*flow_run.tags, f"domain:{summary.domain}", f"session:{summary.session}"}
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), name=name, tags=sorted(tags))
    create_markdown_artifact(outcome_in_markdown(summary), key="outcome", description=f"Session {summary.session}")
    stages = [
        {"stage": stage.name, "from cache": "yes" if stage.cached else "no", "seconds": stage.seconds}
        for stage in summary.stages
    ]
    create_table_artifact(stages, key="stages", description=f"Stages of session {summary.session}")


def outcome_in_markdown(summary: Summary) -> str:
    """The outcome of a run, in Markdown."""
    report = f"[{Path(summary.report).name}]({Path(summary.report).absolute().as_uri()}), `{summary.report}`"
    names = {"certificate": summary.certificate, "model": summary.student["model_uri"], "MLflow run": summary.run_id}
    queried = {f"{summary.asks} queried": f"{summary.asked:,} ({summary.asked_now:,} by this command)"}
    named = {label: f"`{name}`" for label, name in names.items()}
    listed = facts(summary) | queried | {"neighbours": summary.guarantee["neighbours"], "report": report} | named
    head, *lines = [f"| {label} | {text} |" for label, text in listed.items()]
    warned = "".join(f"**Warning:** {warning}.\n\n" for warning in summary.warnings)
    table = "\n".join([head, "|---|---|", *lines])
    return f"{warned}{table}\n\nTo verify it: `concord verify {summary.session}`\n"
