"""An extension of a session: its own plan, encoding, teachers, mechanism and key, over more public rows."""

from pathlib import Path

from flows import work
from flows.pipeline import Pipeline
from flows.work import Public
from tasks.files import find_files
from tasks.recipe import Recipe, Source, check_open, recipe_to_extend, staged, stream, write_recipe
from tasks.release import Door


class Extension(Pipeline):
    """One extension of one session. Nothing private is read but the teachers, which its recipe names."""

    def __init__(self, session: str, home: Path) -> None:
        door = Door.of(home)
        known = door.ledger.session(session)
        super().__init__(recipe_to_extend(door.vault, known).plan, home)
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
        write_recipe(self.door.vault, self._session.id, recipe.model_copy(update={"sources": self.sources}))
        self.teachers = recipe.teachers
        return public

    def _recipe(self) -> Recipe:
        """The session's recipe, once all that it needs besides the new rows is known to be there, as it was."""
        recipe = recipe_to_extend(self.door.vault, self._session)
        self.go_on(self._session, recipe)
        return recipe

    def _stage(self, recipe: Recipe, path: str) -> list[Source]:
        """Stage those files at `path` that are not staged for the session already."""
        self.private = recipe.private
        own, *others = recipe.sources
        there = {digest for source in others if staged(self.door.vault, source) for digest in source.digests}
        rows = self.plan.labeling.batch
        calls = []
        for file in find_files(path, "--public"):
            digest = self._digest(file)
            self.keep_apart("--public", [digest])
            if digest in there or digest in own.digests:
                continue
            there.add(digest)
            arguments = {"file": str(file.path), "digest": digest, "encoding": recipe.encoding, "rows": rows}
            depends = (recipe.encoding.digest, digest, rows)
            calls.append(self._call("encode", depends, **arguments))
        return self.stages.each("encode", work.put, calls)
