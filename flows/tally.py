"""Learning by tallies: private rows are asked in rounds, and labels of public rows inferred from noisy sums."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from concord.artifacts.domains import Domain
from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import guarantee_of_labels
from concord.artifacts.schemas import Encoding, PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Public
from concord.flows.admit import Opened
from concord.flows.private_stages import first_sums, gather, known_codes, recode, sum_block
from concord.flows.public_stages import clustering, code, infer, sample
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext
from concord.flows.stage import Disclosure
from concord.flows.steps import Learned, rehearse_published
from concord.tasks.advice.planned import asks_pairs, check_columns, planned_sizes, planned_tallies, views_in_words
from concord.tasks.asks.tallies import TalliesAsk, round_step
from concord.tasks.data.codes import Codes, deepens
from concord.tasks.door.door import Step
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.student.public_rows import read_sample, staged_rows
from concord.tasks.student.questions import RoundFile, RoundPlanner, codes_after
from concord.tasks.student.sketch import SketchPlanner


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
            return sum_block(run, units, question.record(), codes)
        return sum_block(run, units if codes is planner.codes else coded(codes), question.record())

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
    stream, claim = admitted.stream, guarantee_of_labels(passed.session, admitted.domain)
    if codes is None:
        coded, encoding = admitted.ask.coded, stream.encoding
        codes = codes_after(rounds_in(run, passed.released[:-1]), coded)
        views = views_in_words(run.plan, encoding, coded, lambda: clustering(run, encoding, stream.batches))
    labels = infer(run, passed.released[-1], codes, stream.public, claim)
    return Learned(run, admitted, replace(passed, released=[*passed.released, labels]), codes, views)


def planner_of(run: RunContext, admitted: Admitted[Any], codes: Codes, units: Sequence[Ref]) -> RoundPlanner:
    """The source of a session's questions: the public rows, or the features of its units if those are public.

    units   the files of `gather`
    """
    mechanism, staged = admitted.ask.mechanism, run.stores.staged
    if run.plan.privacy.secret == "labels":
        rows, units_read = known_codes(run, units, codes)
        if units_read:
            return RoundPlanner(mechanism, codes, rows, units_read)
    batches = admitted.stream.batches
    rows = read_sample(sample(run, run.plan.privacy.domain, codes, batches), staged)
    if mechanism.secret == "rows" and deepens(codes):
        return RoundPlanner(mechanism, codes, rows, public=staged_rows(batches, staged))
    units_known = None if mechanism.secret == "rows" else 1
    return RoundPlanner(mechanism, codes, rows, units_known, pairs=asks_pairs(run.plan, codes))


Sums = Callable[[RoundQuestion, Codes], Sequence[Ref]]
"""The exact sums of a question about these codes."""


def counted_rounds(
    run: RunContext, admitted: Admitted[Any], planner: RoundPlanner | SketchPlanner, units: Sequence[Ref], sums: Sums
) -> ExactNumbers:
    """The sums of the planner's first questions: totals of codes alone would not show changed labels. Those of other
    rounds are counted at the door. Raises NotVerified if the session was opened with other private data."""
    first, digests = first_sums(run, admitted.session, units, planner.first_questions())

    def rounds(stores: Public, session: Session) -> Iterator[Step]:
        published = list[dict[str, Any]]()
        for number in range(len(planner.mechanism.rounds)):
            question, codes = planner.question(published), planner.codes_after(published)
            exact = sums(question, codes) if number else first[0]
            yield round_step(planner, published, question, exact)
            published.append(json.loads(stores.released.read(stores.ledger.released_by(session.id)[number])))

    return ExactNumbers(digests, [*units, *chain.from_iterable(first)], steps=rounds)


def replay_rounds(run: RunContext, session: Session) -> Disclosure:
    """The rounds as released. Raises WrongInput if some are still to be asked."""
    released = run.stores.ledger.released_by(session.id)
    if len(released) < (session.queries or 0):
        raise WrongInput(f"session {session.id} has rounds left to ask: run its plan, which asks them")
    return Disclosure(session, released, 0, run.stores.ledger.now())
