"""The flow of an open session: more public rows in, the same session's labels, student and certificate out.

An extension is a run with the session's own plan, encoding, teachers, mechanism and key, over more public rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from prefect import flow

from concord.artifacts.schemas import Ref
from concord.flows.cache import Files
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, PublicStream, RunContext, check_not_private, digest_of, running
from concord.flows.stages import put, release, study
from concord.flows.steps import count_votes, go_on, publish
from concord.tasks.data.tables import find_files
from concord.tasks.door.checkpoint import (
    Checkpoint,
    check_open,
    checkpoint_to_extend,
    staged,
    write_checkpoint,
)
from concord.tasks.door.release import Stores
from concord.tasks.mechanisms.mechanism import Mechanism


@flow(name="extend", flow_run_name="extend {session}")
def extend(session: str, public: str, home: Path) -> Summary:
    """Answer the rows at `public` that the session was not given before; without any, nothing is spent.

    public   a file, a folder or a glob; what the session was given stays given, so a schedule may name one folder
    """
    stores = Stores.of(home)
    plan = checkpoint_to_extend(stores.vault, stores.ledger.session(session)).plan
    with running(plan, home) as run:
        known = run.hold(session)
        admitted, teachers = add_rows(run, session, public)  # refuses here, before a teacher votes
        stream, mechanism = admitted.stream, admitted.mechanism
        votes = count_votes(run, stream, teachers)
        labels = release(run, known, mechanism, plan.data.classes, stream.batches, votes)
        student = study(run, session, plan, stream.encoding, stream.batches, labels.released, run.test)
        return shown(publish(run, admitted, labels, student))


def add_rows(run: RunContext, name: str, path: str) -> tuple[Admitted[Mechanism], tuple[Ref, ...]]:
    """Add the public rows at `path` that the session was not given before; the session admitted again, its teachers.

    What is written when this returns is answered even if this process ends now: by the next `extend` or `run`. Nothing
    private is read but the teachers, which the session's checkpoint names.
    Raises WrongInput if the rows do not fit, BudgetRefused if there are new ones and the session has ended.
    """
    vault, session = run.stores.vault, run.stores.ledger.session(name)
    checkpoint = checkpoint_to_extend(vault, session)
    admitted = go_on(run, session, checkpoint)
    added = put(run, new_files(run, checkpoint, path), checkpoint.encoding, run.plan.labeling.batch)
    sources = {source.digests: source for source in (*checkpoint.sources, *added)}
    stream = PublicStream.of(run, session, checkpoint.encoding, sources.values())
    if len(stream.batches) > len(admitted.stream.batches):
        check_open(session)
    write_checkpoint(vault, session.id, checkpoint.model_copy(update={"sources": stream.sources}))
    return replace(admitted, stream=stream), checkpoint.teachers


def new_files(run: RunContext, checkpoint: Checkpoint, path: str) -> Iterator[Files]:
    """Those files at `path` that are not staged for the session already. Raises WrongInput if one is private."""
    vault, (own, *others) = run.stores.vault, checkpoint.sources
    there = {digest for source in others if staged(vault, source) for digest in source.digests}
    for file in find_files(path, "--public"):
        digest = digest_of(vault, file)
        check_not_private("--public", [digest], checkpoint.private)
        if digest not in there and digest not in own.digests:
            there.add(digest)
            yield Files(str(file.path), (digest,))
