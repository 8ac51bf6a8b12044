"""The flow of an open session: more public rows in, the same session's labels, student and certificate out.

An extension is a run with the session's own plan, encoding, teachers, mechanism and key, over more public rows.
"""

from pathlib import Path

from prefect import flow

from concord.flows import work
from concord.flows.keys import Files, Public
from concord.flows.outcome import Summary, shown
from concord.flows.pipeline import Pipeline
from concord.tasks.data.tables import find_files
from concord.tasks.door.checkpoint import (
    Checkpoint,
    PublicSource,
    check_open,
    checkpoint_to_extend,
    staged,
    stream,
    write_checkpoint,
)
from concord.tasks.door.release import Stores


class Extension(Pipeline):
    """One extension of one session. Nothing private is read but the teachers, which its recipe names."""

    def __init__(self, session: str, home: Path) -> None:
        door = Stores.of(home)
        known = door.ledger.session(session)
        super().__init__(checkpoint_to_extend(door.vault, known).plan, home)
        self.session = known

    def put(self, path: str) -> Public:
        """Add the public rows at `path` that the session was not given before; returns its stream.

        What is written when this returns is answered even if this process ends now: by the next `extend` or `run`.
        Raises WrongInput where the rows do not fit, BudgetRefused where there are new ones and the session has ended.
        """
        self.hold(self._session.id)
        recipe = self._recipe()
        sources = {source.digests: source for source in (*recipe.sources, *self._stage(recipe, path))}
        public = self.walk(recipe.encoding, tuple(sources.values()))
        if len(public.batches) > len(stream(recipe.sources)):
            check_open(self._session)
        write_checkpoint(self.door.vault, self._session.id, recipe.model_copy(update={"sources": self.sources}))
        self.teachers = recipe.teachers
        return public

    def _recipe(self) -> Checkpoint:
        """The session's recipe, once all that it needs besides the new rows is known to be there, as it was."""
        recipe = checkpoint_to_extend(self.door.vault, self._session)
        self.go_on(self._session, recipe)
        return recipe

    def _stage(self, recipe: Checkpoint, path: str) -> list[PublicSource]:
        """Stage those files at `path` that are not staged for the session already."""
        self.files_with_rows = recipe.private
        own, *others = recipe.sources
        there = {digest for source in others if staged(self.door.vault, source) for digest in source.digests}
        calls = []
        for file in find_files(path, "--public"):
            digest = self._digest(file)
            self.keep_apart("--public", [digest])
            if digest in there or digest in own.digests:
                continue
            there.add(digest)
            table = Files(str(file.path), (digest,))
            calls.append({"table": table, "encoding": recipe.encoding, "rows": self.plan.labeling.batch})
        return self.stages.each(work.put, calls)


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
