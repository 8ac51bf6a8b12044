"""Learning by a sketch: no public table, but a declared schema. Private rows are asked for tables, and then in rounds
for labels of the synthetic rows that are drawn from these.

Until tables are released, rows drawn from the schema stand in for public ones (tasks.data.schema_rows). From then on
the synthetic rows take their place in all that a run does with public rows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from concord.artifacts.domains import Domain
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.flows.cache import Place
from concord.flows.run import Admitted, Counted, PrivateFiles, PublicStream, RunContext
from concord.flows.stage import Disclosure, stage
from concord.flows.stages import encode
from concord.flows.tally import BySums, gather, infer, label_claim, last_codes, release_rounds, tally
from concord.tasks.asks.sketch import SketchAsk
from concord.tasks.asks.tallies import TalliesAsk, sums_digest
from concord.tasks.data.codes import Codes
from concord.tasks.data.grid import grid_of, reading_encoding
from concord.tasks.data.schema_rows import with_rows
from concord.tasks.data.units import private_table
from concord.tasks.door.admit import check_ensemble
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.student.sketch import SketchPlanner, synthetic_features, synthetic_file
from concord.tasks.student.study import Student

SYNTHETIC = "synthetic.parquet"
"""Name of the released file of synthetic rows."""


@stage("infer", reads=("data.declared", "data.features"))
def synthesise(
    place: Place, session: str, plan: Plan, steps: Sequence[Ref], encoding: Encoding, claim: Mapping[str, str]
) -> Ref:
    """Write the synthetic rows that the released steps hold, with the labels inferred for them, as a released file."""
    files = [json.loads(place.released.read(step)) for step in steps]
    table = synthetic_file(plan.data.sketched, files, encoding, claim)
    return place.released.hold_back(f"{session}/{SYNTHETIC}", table)


class BySketch(BySums):
    """Private rows are asked for tables of a declared schema, and then about synthetic rows; nobody votes."""

    def rehearse(self) -> None:
        """Raise WrongInput if schema and private table have other columns, by its header alone; or as the others do."""
        data = self.run.plan.data
        header = private_table(self.run.plan).names
        present = {*data.sketched.names} & header if data.features else header
        data.sketched.check(data.label, sorted(present), (data.unit or data.label,))
        super().rehearse()

    def ask(self, domain: Domain, session: Session | None = None) -> TalliesAsk:  # noqa: ARG002, since all ask alike
        """Tables of the schema's grid, and rounds of labels."""
        return SketchAsk.of(self.run.plan, self._grid)

    def ask_of_plan(self, domain: Domain) -> TalliesAsk:
        """The same: nothing in it is advised."""
        return self.ask(domain)

    def count(self, admitted: Admitted[TalliesAsk], private: PrivateFiles) -> Counted:
        """Write the private rows as cells of the grid, and count what is asked first."""
        run, plan, grid = self.run, self.run.plan, self._grid
        self.units = gather(run, plan, private.table, reading_encoding(plan), grid, run.erased)
        first = self._planner(admitted).first_questions()
        self.sums = [tally(run, self.units, question.record()) for question in first]
        digests = tuple(sums_digest(each, run.stores.vault) for each in self.sums)
        check_ensemble(run.stores.vault, admitted.session, digests)
        return Counted(digests, [*self.units, *chain.from_iterable(self.sums)])

    def release(self, session: Session, admitted: Admitted[TalliesAsk], counted: Counted) -> Disclosure:  # noqa: ARG002
        """Pass step after step through the door, and label the synthetic rows by the last."""
        return self._finished(admitted, release_rounds(self.run, session, self._planner(admitted), self._counted))

    def replay(self, session: Session, admitted: Admitted[TalliesAsk]) -> Disclosure:
        """The steps as released, the synthetic rows, and their labels."""
        return self._finished(admitted, super(BySums, self).replay(session, admitted))

    def fit(self, run: RunContext, admitted: Admitted[TalliesAsk], passed: Disclosure, where: str) -> Student:
        """The student: the decoded model, or one fitted to the inferred labels of synthetic rows."""
        *steps, _, labels = passed.released
        return super().fit(run, admitted, replace(passed, released=[*steps, labels]), where)

    def after(self, admitted: Admitted[TalliesAsk]) -> Admitted[TalliesAsk]:
        """The session with synthetic rows as its public ones."""
        return replace(admitted, stream=self.synthetic)

    def _counted(self, question: RoundQuestion, codes: Codes) -> Sequence[Ref]:
        """The exact sums of a step; those of the first were counted before."""
        if codes == self._grid:
            return self.sums[0]
        return tally(self.run, self.units, question.record(), codes, self._grid)

    def _finished(self, admitted: Admitted[TalliesAsk], passed: Disclosure) -> Disclosure:
        """`passed` with the files of synthetic rows, which are the public ones from now on, and of their labels."""
        run, plan, claim = self.run, self.run.plan, label_claim(admitted, passed)
        steps = list(passed.released)
        table = synthesise(run, passed.session.id, plan, steps, admitted.stream.encoding, claim)
        rows = synthetic_features(run.stores.released.read_any(table), plan.data.label)
        self.run = run = replace(run, plan=with_rows(plan, run.stores.vault, rows, "synthetic rows"))
        public = encode(run, run.plan, run.files("public"))
        self.synthetic = PublicStream(public.encoding, (run.own(public.batches),))
        self.codes = last_codes(run, self._planner(admitted), passed)
        labels = infer(run, passed.session.id, steps[-1], public.encoding, self.codes, public.batches, claim)
        return replace(passed, released=[*steps, table, labels])

    def _planner(self, admitted: Admitted[TalliesAsk]) -> SketchPlanner:
        mechanism = admitted.ask.mechanism
        if not isinstance(mechanism, Sketch):
            raise AssertionError("a sketch is planned for a session of its own")
        return SketchPlanner(mechanism, self.run.plan.data.sketched)

    @property
    def _grid(self) -> Codes:
        return grid_of(self.run.plan.data.sketched)
