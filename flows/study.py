"""The flow of another student: learned from the labels a session released, with its certificate out."""

from pathlib import Path

from prefect import flow

from artifacts.sections import StudentPlan
from flows.outcome import Summary
from flows.page import shown
from flows.retraining import Retraining


@flow(name="study", flow_run_name="study {session}")
def study(session: str, home: Path, student: StudentPlan | None = None) -> Summary:
    """Train the session's student again; no row is asked and nothing is spent.

    student   how it learns from now on; without it, as the session's plan says
    """
    with Retraining(session, home, student) as line:
        stream = line.resume()  # refuses here, where rows or labels are missing
        labels = line.replay(stream)
        learned = line.study(stream, labels)
        return shown(line.certify(stream, labels, learned))
