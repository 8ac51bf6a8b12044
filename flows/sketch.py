"""Learning by a sketch: no public table, but a declared schema. Private rows are asked for tables, and then in rounds
for labels of the synthetic rows that are drawn from these.

Until tables are released, rows drawn from the schema stand in for public ones (tasks.data.grid). From then on
the synthetic rows take their place in all that a run does with public rows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from concord.artifacts.domains import Domain
from concord.artifacts.guarantee import guarantee_of_labels
from concord.artifacts.plan import Plan
from concord.artifacts.published import SYNTHETIC_FILE
from concord.artifacts.schemas import Encoding, PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import PublicPlace
from concord.flows import tally
from concord.flows.admit import Opened
from concord.flows.private_stages import gather, sum_block
from concord.flows.public_stages import encode
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, PublicStream, RunContext
from concord.flows.stage import Disclosure, stage
from concord.flows.steps import Learned
from concord.tasks.advice.planned import NO_PUBLIC_TABLE
from concord.tasks.asks.sketch import SketchAsk
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import reading_encoding
from concord.tasks.data.grid import grid_of
from concord.tasks.data.precheck import check_stored
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.student.sketch import SketchPlanner, rehearse_steps, synthetic_features, synthetic_file
from concord.tasks.units.units import private_table


@stage("infer", reads=("data.declared", "data.features"))
def synthesise(
    place: PublicPlace, plan: Plan, steps: Sequence[Ref], encoding: Encoding, claim: Mapping[str, str]
) -> Ref:
    """Write the synthetic rows that the released steps hold, with the labels inferred for them, as a released file."""
    files = [json.loads(place.released.read(step)) for step in steps]
    table = synthetic_file(plan.data.sketched, files, encoding, claim)
    return place.released.hold_back(f"{claim['session']}/{SYNTHETIC_FILE}", table)


def rehearse(run: RunContext, encoding: Encoding) -> None:
    """Raise WrongInput if schema and private table have different columns, or types that do not go together, or as
    tallies do. Of the table, only the header is read."""
    data, table = run.plan.data, private_table(run.plan)
    present = {*data.sketched.names}.intersection(table.names) if data.features else table.names
    data.sketched.check(data.label, sorted(present), (data.unit or data.label,))
    for file in table.files:
        check_stored(data.sketched, {name: file.type_of(name) for name in file.names})
    tally.rehearse(run, encoding)
    rehearse_steps(SketchPlanner(SketchAsk.of(run.plan, grid_of(data.sketched)).mechanism, data.sketched))


def ask(run: RunContext, public: PublicRows, domain: Domain, session: Session | None = None) -> SketchAsk:  # noqa: ARG001
    """Tables of the schema's grid, and rounds of labels: whatever the rows that stand in for public ones."""
    return SketchAsk.of(run.plan, grid_of(run.plan.data.sketched))


def count_exact(run: RunContext, admitted: Admitted[SketchAsk], private: PrivateFiles) -> ExactNumbers:
    """Write the private rows as cells of the grid, and count what is asked first."""
    plan, grid = run.plan, admitted.ask.coded
    planner = SketchPlanner(admitted.ask.mechanism, plan.data.sketched)
    units = gather(run, plan, private.read_by(reading_encoding(plan)), grid)

    def sums(question: RoundQuestion, codes: Codes) -> Sequence[Ref]:
        return sum_block(run, units, question.record(), codes, grid)

    return tally.counted_rounds(run, admitted, planner, units, sums)


def release(run: RunContext, opened: Opened[SketchAsk]) -> Learned:
    """Pass step after step through the door, and label the synthetic rows by the last."""
    return _synthesised(run, opened.admitted, run.stages.pass_door(opened.session, opened.exact.steps))


def replay(run: RunContext, session: Session, admitted: Admitted[SketchAsk]) -> Learned:
    """The steps as released, the synthetic rows, and their labels."""
    return _synthesised(run, admitted, tally.replay_rounds(run, session))


def _synthesised(run: RunContext, admitted: Admitted[SketchAsk], passed: Disclosure) -> Learned:
    """`passed` with the files of synthetic rows, which are the public ones from now on, and of their labels."""
    plan, steps, claim = run.plan, passed.released, guarantee_of_labels(passed.session, admitted.domain)
    table = synthesise(run, plan, steps, admitted.stream.encoding, claim)
    rows = synthetic_features(run.stores.released.read_any(table), plan.data.label)
    run = run.with_public(rows)
    public = encode(run, run.plan, run.table("public"))
    admitted = replace(admitted, stream=PublicStream(public.encoding, (run.own(public.batches),)))
    codes = SketchPlanner(admitted.ask.mechanism, plan.data.sketched).codes_after(tally.rounds_in(run, steps[:-1]))
    learned = tally.labelled(run, admitted, passed, codes, NO_PUBLIC_TABLE)
    *_, labels = learned.passed.released
    return replace(learned, passed=replace(passed, released=[*steps, table, labels]))
