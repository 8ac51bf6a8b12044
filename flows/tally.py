"""Learning by tallies: private rows are asked in rounds, and labels of public rows inferred from noisy sums.

The stages come first. As in `flows.stages`, each takes a place and everything its result depends on.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from concord.artifacts.domains import Domain
from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import guarantee_of_labels
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicBatch, PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Public
from concord.flows.admit import Opened
from concord.flows.cache import Place, PrivateInput
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext
from concord.flows.stage import Disclosure, mapped, on_workers, stage
from concord.flows.stages import UNITS
from concord.flows.steps import Learned, rehearse_published
from concord.tasks.advice.planned import asks_pairs, check_columns, planned_sizes, planned_tallies, views_in_words
from concord.tasks.asks.tallies import TalliesAsk, round_step
from concord.tasks.data.codes import Codes, CodeSizes, deepens, learn_codes
from concord.tasks.data.encode import read_frame, systematic_sample
from concord.tasks.data.grid import recoded
from concord.tasks.data.joined import joinable, unclustered
from concord.tasks.door.admit import check_ensemble
from concord.tasks.door.checkpoint import sums_folder
from concord.tasks.door.door import Step
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.student.decode import Decoded
from concord.tasks.student.public_rows import read_sample, staged_rows, write_sample
from concord.tasks.student.questions import RoundFile, RoundPlanner, codes_after
from concord.tasks.student.sketch import SketchPlanner
from concord.tasks.student.study import inferred
from concord.tasks.units import blocks as units_blocks
from concord.tasks.units import sums as units_sums


@stage("code")
def code(place: Place, encoding: Encoding, batches: Sequence[PublicBatch], sizes: CodeSizes) -> Codes:
    """Learn the codes of rows from the staged public rows; `sizes` as `planned_sizes` gives them."""
    return learn_codes((read_frame(batch.ref, place.staged) for batch in batches), encoding.columns, **sizes)


@stage("code")
def clustering(place: Place, encoding: Encoding, batches: Sequence[PublicBatch]) -> float | None:
    """R of the staged public rows, by the sample that their codes are learned from."""
    numbers = [column.name for column in joinable(encoding.columns)]
    frames = (read_frame(batch.ref, place.staged).select(numbers) for batch in batches)
    return unclustered(systematic_sample(frames), encoding.columns)


@stage("code")
def sample(place: Place, domain: str, codes: Codes, batches: Sequence[PublicBatch]) -> Ref:
    """Write the codes of the sample of the staged public rows that models are decoded on, in a folder that is erased
    with the domain: they may be features of private units."""
    return write_sample(batches, codes, place.staged, f"coded/{domain}/{place.key[:16]}/sample.npy")


@stage("gather", version=3, reads=UNITS)
def gather(place: Place, plan: Plan, private: PrivateInput, codes: Codes) -> list[Ref]:
    """Write private rows as codes and classes, whole units together."""
    return gather_in(f"units/{plan.privacy.domain}/{place.key[:16]}", place, plan, private, codes)


@stage("gather", version=3, reads=UNITS)
def recode(place: Place, plan: Plan, private: PrivateInput, codes: Codes, units: Sequence[Ref]) -> list[Ref]:
    """Write private rows by codes learned from released rounds, in the folder of `units`' sums, to go with them."""
    return gather_in(f"{sums_folder(units[0])}/{place.key[:16]}", place, plan, private, codes)


def gather_in(folder: str, place: Place, plan: Plan, private: PrivateInput, codes: Codes) -> list[Ref]:
    """Write private rows as codes and classes into a folder of the vault, with the flow's workers."""

    def each(step: units_blocks.BlockStep, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        given = (place, plan, private, codes)
        return on_workers(gather_part, [{"given": given, "step": step, "call": call} for call in calls])

    return list(units_blocks.gather(units_blocks.Coding(private.at(place, plan), codes), folder, each))


@task(name="gather", persist_result=False, cache_policy=NO_CACHE)
def gather_part(
    given: tuple[Place, Plan, PrivateInput, Codes], step: units_blocks.BlockStep, call: tuple[Any, ...]
) -> Any:
    """A step of `gather` for a part of the rows. A worker is sent no key: it opens the vault itself."""
    place, plan, private, codes = given
    return step(units_blocks.Coding(private.at(place, plan), codes), *call)


@mapped("tally")
def tally(
    place: Place, block: Ref, question: Mapping[str, Any], codes: Codes | None = None, grid: Codes | None = None
) -> Ref:
    """The sum over the units of one block that answers a question; of pairs of columns, or of groups of a grid's cells,
    by the codes that have them."""
    parsed, path = RoundQuestion.from_record(dict(question)), f"{sums_folder(block)}/{place.key}.npy"
    recode = None if codes is None else codes.completed if grid is None else partial(recoded, grid=grid, codes=codes)
    return units_sums.count([block], parsed, place.vault, path, recode)


@stage("infer")
def infer(place: Place, last: Ref, codes: Codes, public: PublicRows, claim: Mapping[str, str]) -> Ref:
    """Labels and scores of all public rows, by the model decoded from the last round."""
    decoded = Decoded.from_record(json.loads(place.released.read(last))["decoded"])
    rows = (codes.of(read_frame(batch.ref, place.staged)) for batch in public.batches)
    labels = inferred(decoded, rows, public.encoding, claim)
    return place.released.hold_back(f"{claim['session']}/labels.arrow", labels)


def rehearse(run: RunContext, encoding: Encoding) -> None:
    """Raise WrongInput if codes, student or test table would fail; the student learns from inferred labels, which are
    soft."""
    check_columns(run.plan, encoding)
    soft = run.plan.student.model_copy(update={"refused": "soft"})
    rehearse_published(run, encoding, soft)


def ask(run: RunContext, public: PublicRows, domain: Domain, session: Session | None = None) -> TalliesAsk:  # noqa: ARG001
    """Rounds of sums about codes that are learned from the plan's own public rows."""
    return ask_now(run, public)


def ask_now(run: RunContext, public: PublicRows) -> TalliesAsk:
    """The same, in any domain."""
    rows, sizes = sum(batch.rows for batch in public.batches), planned_sizes(run.plan, public.encoding)
    codes = code(run, public.encoding, public.batches, sizes)
    staged = tuple(batch.ref.digest for batch in public.batches)
    mechanism = planned_tallies(run.plan, codes, rows)
    return TalliesAsk(mechanism, codes.digest, staged, bounds=public.encoding.bounds, coded=codes)


def count_exact(run: RunContext, admitted: Admitted[TalliesAsk], private: PrivateFiles) -> ExactNumbers:
    """Code the private rows, and sum what is asked before anything is released."""
    codes, rows = admitted.ask.coded, private.read_by(admitted.stream.encoding)
    units = gather(run, run.plan, rows, codes)
    planner = planner_of(run, admitted, codes, units)
    coded = partial(recode, run, run.plan, rows, units=units)

    def sums(question: RoundQuestion, codes: Codes) -> Sequence[Ref]:
        if codes.pairs:
            return tally(run, units, question.record(), codes)
        return tally(run, units if codes is planner.codes else coded(codes), question.record())

    return counted_rounds(run, admitted, planner, units, sums)


def release(run: RunContext, opened: Opened[TalliesAsk]) -> Learned:
    """Pass round after round through the door, and label the public rows by the last."""
    return labelled(run, opened.admitted, run.stages.pass_door(opened.session, opened.exact.steps))


def replay(run: RunContext, session: Session, admitted: Admitted[TalliesAsk]) -> Learned:
    """The rounds as released, and the labels inferred from the last."""
    return labelled(run, admitted, replay_rounds(run, session))


def rounds_in(run: RunContext, files: Sequence[Ref]) -> list[RoundFile]:
    """What released rounds say."""
    return [json.loads(run.stores.released.read(ref)) for ref in files]


def labelled(
    run: RunContext, admitted: Admitted[Any], passed: Disclosure, codes: Codes | None = None, views: str | None = None
) -> Learned:
    """`passed`, and the file of the labels inferred from its last round, by these codes; by default, by those that the
    round queried, which then say which views of a row were counted."""
    stream, claim = admitted.stream, guarantee_of_labels(passed.session, admitted.balance.domain)
    if codes is None:
        coded, encoding = admitted.ask.coded, stream.encoding
        codes = codes_after(rounds_in(run, passed.released[:-1]), coded)
        views = views_in_words(run.plan, encoding, coded, lambda: clustering(run, encoding, stream.batches))
    public = PublicRows(encoding=stream.encoding, batches=tuple(stream.batches))
    labels = infer(run, passed.released[-1], codes, public, claim)
    return Learned(run, admitted, replace(passed, released=[*passed.released, labels]), codes, views)


def planner_of(run: RunContext, admitted: Admitted[Any], codes: Codes, units: Sequence[Ref]) -> RoundPlanner:
    """The source of a session's questions: the public rows, or the features of its units if those are public.

    units   the files of `gather`
    """
    mechanism, vault = admitted.ask.mechanism, run.stores.vault
    if run.plan.privacy.secret == "labels":
        rows, units_read = units_blocks.known_codes(units, codes, vault)
        if units_read:
            return RoundPlanner(mechanism, codes, rows, units_read)
    batches = admitted.stream.batches
    rows = read_sample(sample(run, run.plan.privacy.domain, codes, batches), vault.staged)
    if mechanism.secret == "rows" and deepens(codes):
        return RoundPlanner(mechanism, codes, rows, public=staged_rows(batches, vault.staged))
    units_known = None if mechanism.secret == "rows" else 1
    return RoundPlanner(mechanism, codes, rows, units_known, pairs=asks_pairs(run.plan, codes))


Sums = Callable[[RoundQuestion, Codes], Sequence[Ref]]
"""The exact sums of a question about these codes."""


def counted_rounds(
    run: RunContext, admitted: Admitted[Any], planner: RoundPlanner | SketchPlanner, units: Sequence[Ref], sums: Sums
) -> ExactNumbers:
    """The sums of the planner's first questions: totals of codes alone would not show changed labels. Those of other
    rounds are counted at the door. Raises NotVerified if the session was opened with other private data."""
    first = [tally(run, units, question.record()) for question in planner.first_questions()]

    def rounds(stores: Public, session: Session) -> Iterator[Step]:
        published = list[dict[str, Any]]()
        for number in range(len(planner.mechanism.rounds)):
            question, codes = planner.question(published), planner.codes_after(published)
            exact = sums(question, codes) if number else first[0]
            yield round_step(planner, published, question, exact)
            published.append(json.loads(stores.released.read(stores.ledger.released_by(session.id)[number])))

    digests = tuple(units_sums.sums_digest(sums_of, run.stores.vault) for sums_of in first)
    check_ensemble(run.stores, admitted.session, digests)
    return ExactNumbers(digests, [*units, *chain.from_iterable(first)], steps=rounds)


def replay_rounds(run: RunContext, session: Session) -> Disclosure:
    """The rounds as released. Raises WrongInput if some are still to be asked."""
    released = run.stores.ledger.released_by(session.id)
    if len(released) < (session.queries or 0):
        raise WrongInput(f"session {session.id} has rounds left to ask: run its plan, which asks them")
    return Disclosure(session, released, 0, run.stores.ledger.now())
