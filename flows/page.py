"""The page of a flow run in Prefect's UI, for the operator: what the run came to, and how each stage went."""

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from flows.outcome import Summary, spent_in_words


def shown(summary: Summary) -> Summary:
    """Put the outcome and the stages of the current flow run on its page; returns the summary."""
    create_markdown_artifact(outcome(summary), key="outcome", description=f"Session {summary.session}")
    create_table_artifact(stages(summary), key="stages", description=f"Stages of session {summary.session}")
    return summary


def outcome(summary: Summary) -> str:
    """What a run came to, in Markdown."""
    guarantee, accuracy = summary.guarantee, summary.student["accuracy"]
    told = {
        "guarantee": f"ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g}",
        "for": f"{guarantee['unit']} ({guarantee['neighbours']})",
        "mechanism": f"{summary.mechanism['name']}, {summary.teachers:,} teachers",
        "rows asked": f"{summary.asked:,}, of which {summary.asked_now:,} now",
        "rows answered": f"{summary.answered:,}",
        "rows refused": f"{summary.refused:,}",
        "student": "no public test rows" if accuracy is None else f"{accuracy:.1%} right on public test rows",
        "model": f"`{summary.student['model_uri']}`",
        "spent now": f"{spent_in_words(summary.spent_now, summary.conversion)}; δ = {summary.spent_now['delta']:.3g}",
        "report": f"`{summary.report}`",
        "certificate": f"`{summary.certificate}`",
        "MLflow run": f"`{summary.run_id}`",
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in told.items())
    return f"| session | {summary.session} |\n|---|---|\n{rows}\n\nTo check it: `concord verify {summary.session}`\n"


def stages(summary: Summary) -> list[dict[str, str | float]]:
    """The stages in order: whether the cache answered, and how long each took."""
    return [
        {"stage": one.name, "from cache": "yes" if one.cached else "no", "seconds": one.seconds}
        for one in summary.stages
    ]
