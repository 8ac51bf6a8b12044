"""Rehearse tallies: what the sums of a plan would teach, on public rows with synthetic labels or numbers.

    private rows of synthetic labels ─ sums, planned noise ─ decode ─ scores of the public rows

The rounds, their questions and the decoder are the code that runs; `rehearse` has the labels and the measures.

A rehearsal of a wide table, or of many classes, would take minutes. So it is of as many columns as MOST_WORK allows,
chosen by the digest of their names, with that share of the units and public rows, and the noise that a plan of these
columns alone has. With F columns and n units, the squares of a column's sums are proportional to n²/F and the variance
of their noise to F. Both n and F fall by the same share, so if columns carry similar information, the sums of each
remain as distinguishable from their noise, and from the draw of labels and of public rows, as among all.

Assumes      plan, public rows and class shares are public
Guarantees   nothing private is read and nothing is charged: NumPy's generator is seeded, so results repeat
Not covered  columns that repeat one another, of a wide table. Pictures are rehearsed up to their first round of labels.
             Checked by tests/tasks/advice/test_rehearse.py
"""

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
from threadpoolctl import threadpool_limits

from concord.artifacts.plan import Plan
from concord.artifacts.threads import Threads
from concord.tasks.advice.planned import learning_units, planned_tallies, read_at_end, views_in_words
from concord.tasks.advice.public_facts import PublicFacts
from concord.tasks.advice.rehearse import (
    SIGNALS,
    Ahead,
    Rehearsed,
    Stage,
    random_logits,
    rehearse_classes,
    separated,
)
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, deepens
from concord.tasks.data.joined import JoinedField
from concord.tasks.mechanisms.contributions import RoundQuestion, columns, tally
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.mechanisms.tallies import Round, Tallies
from concord.tasks.student.decode import Decoded, scores
from concord.tasks.student.public_rows import sampled_rows
from concord.tasks.student.questions import RoundFile, RoundPlanner
from concord.tasks.student.running_totals import as_read
from concord.tasks.student.sketch import SketchPlanner

SumsPlanner = RoundPlanner | SketchPlanner
Noisy = Callable[[int, RoundQuestion, Codes], Ints]
"""Noisy sums of a step, by its number, its question and its codes."""
PRIVATE_ROWS = 20_000
"""Most stand-ins of private rows. More of them are stood in for by as many with that much less noise."""
MOST_WORK = {"weak": 2e9, "typical": 2e9, "strong": 1.2e10}
"""Most of C·(P + d)³ for P sums and d weights of each of C columns of a model: seconds of decoding. A strong signal has
most of it, since only many columns together show clusters."""
EXPLAINED = {"weak": 0.1, "typical": 0.5, "strong": 0.9}
"""Share of a number's variance that its row explains, by strength of signal."""
SPREAD_OF_NUMBERS = 0.15
"""Standard deviation of a synthetic number, as a share of the distance between its bounds."""
DRAWS = 3
"""Draws of labels and noise, if their decoding is no more than ALL_DRAWS; otherwise as many as are, at least one."""
ALL_DRAWS = 4e9
"""Most work of all draws of a signal, unless a single one has more."""
RELEASES = (1, 4, 13, 26)
"""Releases of a season that are simulated for a stream, besides the last."""


@dataclass(frozen=True, kw_only=True)
class SumsStage(Stage):
    """A simulation of noisy sums: the mechanism asks about the rehearsed columns alone, and `units` is the matching
    share of the private units."""

    mechanism: Tallies
    units: float

    @abstractmethod
    def planner(self, mechanism: Tallies, drawn: int) -> SumsPlanner:
        """The planner of all steps, for `drawn` private rows and a mechanism scaled to them."""

    @abstractmethod
    def coded(self, codes: Codes) -> CodeMatrix:
        """The rows (m, F) in the codes of a step."""

    def private(self, rng: np.random.Generator) -> Ints:
        """Rows that stand in for private ones."""
        return rng.integers(0, len(self.rows), round(min(self.units, PRIVATE_ROWS)))

    @property
    def begun(self) -> Sequence[RoundFile]:
        """Steps released before the first one about labels; they depend on no label."""
        return ()

    def learned(self, private: Ints, labels: Ints, rng: np.random.Generator) -> Floats:
        """The student's scores (m, C) of all rows, after noisy sums of the `private` ones, with labels."""
        mechanism = self.scaled_to(len(private))
        return self.decoded(mechanism, len(private), self.noisy(mechanism, private, labels, rng), self.begun)

    def scaled_to(self, drawn: int) -> Tallies:
        """The mechanism with noise scaled from the plan's units to `drawn` rows."""
        rounds = self.mechanism.rounds
        scaled = (step.with_(scale=step.scale * drawn / self.units) for step in rounds)
        return self.mechanism.with_(rounds=tuple(scaled))

    def noisy(self, mechanism: Tallies, private: Ints, labels: Ints, rng: np.random.Generator) -> Noisy:
        """Sums over `private` rows with labels, plus simulated noise."""

        def sums(number: int, question: RoundQuestion, codes: Codes) -> Ints:
            noise = np.rint(rng.normal(scale=mechanism.rounds[number].scale, size=question.size)).astype(np.int64)
            return tally(question, self.coded(codes)[private], labels) + noise

        return sums

    def decoded(self, mechanism: Tallies, drawn: int, noisy: Noisy, before: Sequence[RoundFile] = ()) -> Floats:
        """The scores (m, C) of the rows by the model decoded from all steps; `before` are those released already."""
        planner = self.planner(mechanism, drawn)
        released = simulated_steps(planner, noisy, before)
        codes = planner.codes_after(released[:-1])
        return scores(Decoded.from_record(released[-1]["decoded"]), self.coded(codes))


@dataclass(frozen=True, kw_only=True)
class TalliesStage(SumsStage):
    """Tallies of the rehearsed columns, as read after their last round or release; `public` is the number of public
    rows."""

    public: int

    @classmethod
    def planned(cls, plan: Plan, mechanism: Tallies, codes: Codes, rows: CodeMatrix, public: int) -> "TalliesStage":
        """All columns: `rows` are codes (m, F) of some of the `public` rows; the plan states the number of units."""
        units = learning_units(plan)
        assert units is not None  # a plan for tallies states its rows
        classes = mechanism.classes or 2
        return cls(mechanism=mechanism, codes=codes, rows=rows, classes=classes, units=units, public=public)

    def within(self, plan: Plan, most: float) -> "TalliesStage":
        """The same with as many columns as have no more work than `most`, and as many units and rows for each."""
        codes, rows = within_work(self.mechanism, self.codes, self.rows, most)
        part = len(codes.coarse) / len(self.codes.coarse)
        if part == 1:
            return self
        of_labels = [planned.fields for planned in of_columns(self.mechanism, self.codes) if planned.what == "labels"]
        mechanism = planned_tallies(plan, codes, self.public, (len(of_labels), of_labels[-1]))
        units, public = max(1.0, self.units * part), math.ceil(self.public * part)
        return replace(self, mechanism=mechanism, codes=codes, rows=rows, units=units, public=public)

    def as_read(self, released: int | None = None) -> "TalliesStage":
        """The mechanism as it is decoded: for a stream, its running totals after that many releases, by default a whole
        season."""
        if not isinstance(self.mechanism, Stream):
            return self
        season = self.mechanism.season
        units = max(1.0, self.units * (released or season) / season)
        return replace(self, mechanism=as_read(self.mechanism, released or season), units=units)

    @property
    def draws(self) -> int:
        """Number of draws that take no more work than ALL_DRAWS."""
        return max(1, min(DRAWS, int(ALL_DRAWS // work(self.mechanism, self.codes, range(len(self.codes.coarse))))))

    def planner(self, mechanism: Tallies, drawn: int) -> RoundPlanner:
        """Rounds after the first of labels are left out if each would ask about a space that is learned from the one
        before."""
        if deepens(self.codes):
            first = [planned.what for planned in mechanism.rounds].index("labels") + 1
            mechanism = mechanism.with_(rounds=mechanism.rounds[:first])
        public = sampled_rows(self.rows, self.codes, self.public)
        return RoundPlanner(mechanism, self.codes, public, units=drawn if mechanism.secret == "labels" else None)

    def coded(self, codes: Codes) -> CodeMatrix:
        """The rows as they are: all rounds ask about the same codes."""
        assert codes is self.codes
        return self.rows


@dataclass(frozen=True, kw_only=True)
class RoundAhead:
    """A planned round.

    together  whether it counts cells of all numbers together, not columns
    noise     the standard deviation in each released sum, in units
    """

    what: str
    columns: int
    together: bool
    share: float
    noise: float

    @classmethod
    def all_of(
        cls, mechanism: Tallies, tables: Sequence[str] = (), *, joined: bool = False
    ) -> tuple["RoundAhead", ...]:
        """The rounds of a mechanism; the first ones count `tables`, by these names.

        joined  whether those of one field are about all numbers together
        """
        counted = [*tables, *(planned.what for planned in mechanism.rounds[len(tables) :])]
        return tuple(
            cls(
                what=what,
                columns=planned.fields,
                together=joined and planned.fields == 1,
                share=planned.share,
                noise=planned.scale / mechanism.steps,
            )
            for what, planned in zip(counted, mechanism.rounds, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class ReleaseAhead:
    """A release of a season: what running totals teach after it, if units arrive evenly and the signal is typical.

    noise   of running totals, over that of one release of the same budget at the end
    """

    release: int
    units: float
    noise: float
    rehearsed: Rehearsed


@dataclass(frozen=True, kw_only=True)
class TalliesAhead(Ahead):
    """Cost of tallies, and what to expect of them.

    codes      number of codes of all `columns` columns of the public rows
    views      which views of a row are counted, and why; None if there is no choice
    rho        the domain's charge, in zero-concentrated DP
    releases   of a stream: earlier ones, and the last
    """

    columns: int
    codes: int
    views: str | None
    rho: float
    rounds: tuple[RoundAhead, ...]
    releases: tuple[ReleaseAhead, ...]


def expect_tallies(plan: Plan, public: PublicFacts) -> TalliesAhead:
    """What to expect of a plan for tallies. Raises WrongInput if they do not fit the budget."""
    codes, rows = public.codes(plan), public.rows
    planned = planned_tallies(plan, codes, rows)
    rounds = RoundAhead.all_of(read_at_end(planned), joined=codes.joined is not None)
    of_labels = next(ahead for ahead in rounds if ahead.what == "labels" and not ahead.together)
    seen = 4 * of_labels.noise  # units whose sum exceeds the noise by two deviations: each moves it by half a vote
    stage = TalliesStage.planned(plan, planned, codes, codes.of(public.sample), rows)
    rehearsed, group = (
        rehearse_sums(plan, stage, public.shares),
        f"; smallest detectable group: about {seen:,.0f} units",
    )
    return TalliesAhead(
        **vars(Ahead.of(plan.data.classes, rehearsed, more=group)),
        columns=len(codes.coarse),
        codes=codes.size,
        views=views_in_words(plan, public.encoding, codes, public.ratio),
        rho=planned.rho,
        rounds=rounds,
        releases=tuple(_releases(plan, stage, public.shares)) if isinstance(planned, Stream) else (),
    )


def _releases(plan: Plan, whole: TalliesStage, shares: Sequence[float] | None) -> Iterator[ReleaseAhead]:
    planned = whole.mechanism
    assert isinstance(planned, Stream)
    at_once = planned_tallies(plan.model_copy(update={"stream": None}), whole.codes, 1, (1, 1))
    stage = whole.within(plan, MOST_WORK["typical"])
    for release in sorted({*(at for at in RELEASES if at < planned.season), planned.season}):
        typical = rehearse_labels("typical", stage.as_read(release), 0, shares)
        noise = as_read(planned, release).rounds[-1].scale / at_once.rounds[-1].scale
        units = whole.units * release / planned.season
        yield ReleaseAhead(release=release, units=units, noise=noise, rehearsed=typical)


def rehearse_sums(plan: Plan, whole: TalliesStage, shares: Sequence[float] | None = None) -> tuple[Rehearsed, ...]:
    """Rehearse tallies for each strength of signal, several draws of it; of a stream, at the end of a season.

    shares   of the classes; if they are not known equal and uneven ones, or those of clusters
    """
    stages = {signal: whole.within(plan, MOST_WORK[signal]).as_read() for signal in SIGNALS}
    draws = [(signal, stage, draw, shares) for signal, stage in stages.items() for draw in range(stage.draws)]
    at_once = 1 if whole.classes > 2 else os.cpu_count() or 1  # several columns use all cores
    with threadpool_limits(1, user_api="blas"), Threads(at_once) as pool:
        return tuple(pool.each(lambda of_draw: rehearse_labels(*of_draw), draws))


def rehearse_labels(signal: str, stage: SumsStage, draw: int, shares: Sequence[float] | None) -> Rehearsed:
    """Rehearse synthetic classes as `rehearse_classes`, or synthetic numbers, with noise."""
    if stage.mechanism.classes:
        return rehearse_classes(signal, stage, draw, shares)
    codes, rows, rng = stage.codes, stage.rows, np.random.default_rng(1 + draw)
    logits = random_logits(codes, rows, 2, rng)
    if signal == "strong":
        logits = separated(stage.leading, logits / 10, np.full(2, 1 / 2))[0]
    explained, line = EXPLAINED[signal], logits[:, 1] - logits[:, 1].mean()
    truth = 1 / 2 + SPREAD_OF_NUMBERS * math.sqrt(explained) * line
    private = stage.private(rng)
    noisy = truth[private] + SPREAD_OF_NUMBERS * math.sqrt(1 - explained) * rng.normal(size=len(private))
    labels: Ints = np.rint(stage.mechanism.steps * np.clip(noisy, 0, 1)).astype(np.int64)
    missed = float(np.mean((stage.learned(private, labels, rng)[:, 1] - truth) ** 2)) / SPREAD_OF_NUMBERS**2
    return Rehearsed(signal=signal, right=explained - missed, possible=explained, largest=None)


def work(mechanism: Tallies, codes: Codes, kept: Sequence[int]) -> int:
    """C·(P + d)³ if the columns `kept` were all that there are."""
    coarse, fine = ([codes.fields[views[at]].size for at in kept] for views in (codes.coarse, codes.fine))
    rounds, together = of_columns(mechanism, codes), _cells_together(codes, len(kept))
    first = [planned.what for planned in rounds].index("labels")
    later = sum(sum(sorted(fine)[-planned.fields :]) for planned in rounds[first + 1 :])
    sums = (first + 1) * sum(coarse) + later + (len(mechanism.rounds) - len(rounds)) * together
    return columns(mechanism.classes, "labels") * (sums + sum(fine) + together) ** 3


def of_columns(mechanism: Tallies, codes: Codes) -> list[Round]:
    """The rounds that ask about columns: all but those of one field, all numbers together."""
    return [planned for planned in mechanism.rounds if codes.joined is None or planned.fields > 1]


def _cells_together(codes: Codes, kept: int) -> int:
    """Cells of all numbers together if so many columns are kept: as many units as before for each cell."""
    return 0 if codes.joined is None else codes.fields[codes.joined].size * kept // len(codes.coarse)


def within_work(mechanism: Tallies, codes: Codes, rows: CodeMatrix, most: float) -> tuple[Codes, CodeMatrix]:
    """Codes and rows of the columns that are rehearsed: all of them, or the first ones by the digest of their names."""
    order = sorted(range(len(codes.coarse)), key=lambda at: sha256(codes.fields[codes.fine[at]].name.encode()).digest())
    kept = order[:1]
    for at in order[1:]:
        if work(mechanism, codes, [*kept, at]) > most:
            break
        kept.append(at)
    if len(kept) == len(order):
        return codes, rows
    views = [(codes.coarse[at], codes.fine[at]) for at in sorted(kept)]
    places = {old: new for new, old in enumerate(sorted({view for pair in views for view in pair}))}
    fields, columns_kept, start = list[CodedField](), [], 0
    for old in places:
        field = codes.fields[old]
        fields.append(field.model_copy(update={"start": start}))
        columns_kept.append(rows[:, old] - field.start + start)
        start += field.size
    coarse, fine = (tuple(places[pair[side]] for pair in views) for side in (0, 1))
    joined = None if codes.joined is None or len(kept) < 2 else codes.fields[codes.joined]
    if isinstance(joined, JoinedField) and (part := joined.part(places, start, _cells_together(codes, len(kept)))):
        fields.append(part)
    within = Codes(fields=tuple(fields), coarse=coarse, fine=fine)
    return within, within.completed(np.asfortranarray(np.column_stack(columns_kept)))


def simulated_steps(
    planner: SumsPlanner, noisy: Noisy, before: Sequence[RoundFile] = (), steps: int | None = None
) -> list[RoundFile]:
    """The files of the first `steps` steps, or of all; `before` are those released already."""
    released = [*before]
    for number, planned in [*enumerate(planner.mechanism.rounds)][len(before) : steps]:
        question = planner.question(released)
        sums = noisy(number, question, planner.codes_after(released))
        follows = planner.follow(released, question, sums)
        released.append({"question": question.record(), "scale": planned.scale, "sums": sums.tolist(), **follows})
    return released
