"""The flow of an open session: more public rows in, the same session's labels, student and certificate out."""

from pathlib import Path

from prefect import flow

from flows.extension import Extension
from flows.outcome import Summary
from flows.page import shown


@flow(name="extend", flow_run_name="extend {session}")
def extend(session: str, public: str, home: Path) -> Summary:
    """Answer the rows at `public` that the session was not given before; without any, nothing is spent.

    public   a file, a folder or a glob; what the session was given stays given, so a schedule may name one folder
    """
    with Extension(session, home) as line:
        stream = line.put(public)  # refuses here, before a teacher votes
        votes = line.poll(stream, line.teachers)
        labels = line.release(stream, votes)
        student = line.study(stream, labels)
        return shown(line.certify(stream, labels, student))
