"""Tallies: sums over public codes with exact discrete noise, in rounds.

Privacy statement
    Assumes      every unit is whole in one contribution (contributions.py); what a round asks is a function of the
                 plan, of public rows and of rounds released before it; a round is drawn once, at the door
    Guarantees   (epsilon, delta) for all rounds together, against any adaptive choice of questions, and Rényi α·ρ at
                 every order α, ρ = Σ N_r / (2·scale_r²), for adding or removing a unit; with labels secret, for
                 changing a unit's labels
    Ends         after the last round; a round that is begun is paid for, whether or not it is used
    Not covered  replacing a unit by another, or its rows by others (two steps, four times ρ); with labels secret, the
                 rows except for their labels, and the number of units

Proof. A unit moves a round's sums by a vector v of whole numbers with ‖v‖² ≤ N_r:
  rows secret     its contribution: `row_square` for each of the fields asked, and the square of the constant. Of more
                  fields than were paid for, a vote is fewer steps: N_r is the same
  labels secret   one row: its expectation stays, and S moves in one column (two classes) or from one to another, in
                  each field. Several rows: their mean moves by no more, and truncation towards zero changes the
                  difference of two numbers by less than 1 more: √N = √N_1 + √cells; or twice the norm of either
A discrete Gaussian under any whole shift v is ‖v‖²/2σ²-zero-concentrated (Canonne, Kamath & Steinke 2020, Thm. 14), and
that adds over rounds asked one after another (Bun & Steinke 2016). The sharper δ is noise.py's, `moved_delta`. ∎
Checked by tests/privacy/test_tallies.py: the exact law on tiny universes, and planted bugs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.kinds import KINDS, Kind
from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms.contributions import (
    MOST_STEPS,
    IntegerModel,
    RoundQuestion,
    Span,
    What,
    check_grid,
    columns,
    row_square,
)
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.noise import (
    LARGEST_SCALE,
    check_budget,
    exact_epsilon,
    gaussian_cost,
    least_noise,
    moved_delta,
)

STEPS = 1 << 16
"""Steps per vote: truncating a unit's mean of many rows loses less than one step in a cell."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Settings of a round, fixed before anything is released; its `RoundQuestion` has the fields asked and the model.

    fields   number of fields asked
    cells    largest number of numbers released
    least    the least that its model expects of a class, in steps
    count    steps that a unit adds by being present; 0 if units are not counted
    share    share of ρ
    scale    scale of the discrete Gaussian noise in every number, in steps
    """

    what: What = "labels"
    fields: int
    cells: int
    least: int
    count: int = 0
    share: float
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Tallies:
    """Public settings only, independent of private rows.

    classes   number of classes; 0 if the label is a number within bounds, which costs what two classes do
    secret    the difference between neighbours: a unit with all its rows, or the labels of one unit
    many      whether a unit may have several rows
    """

    name: ClassVar[str] = "tallies"
    calibrated: ClassVar[tuple[str, ...]] = ()
    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None
    proof: ClassVar[str] = (
        "tasks/mechanisms/tallies.py: discrete Gaussian sums of bounded whole contributions (Canonne, Kamath & Steinke "
        "2020), composed over rounds"
    )
    pays_for: ClassVar[str] = (
        "one round of totals, and one to three rounds of sums for labels. If single columns predict the label poorly, "
        "the second of three such rounds counts pairs of columns (up to 24 columns), at no further charge"
    )
    take_if: ClassVar[str] = "the data are tables or small images"

    epsilon: float
    delta: float
    classes: int
    steps: int = STEPS
    secret: Literal["rows", "labels"] = "rows"
    many: bool = False
    rounds: tuple[Round, ...]

    def __post_init__(self) -> None:
        if not self.rounds or math.fsum(each.share for each in self.rounds) > UP:
            raise WrongInput("tallies need at least one round, and shares that add up to 1 at most")
        for each in self.rounds:
            check_grid(self.classes, self.steps, each.least, each.count)
            if each.fields < 1 or each.cells < 1 or not each.share > 0 or not each.scale > 0:
                raise WrongInput("a round needs fields, cells, a share and a scale above 0")
            if each.scale > LARGEST_SCALE:
                raise WrongInput(f"the budget is too small for noise of any scale up to {LARGEST_SCALE:g}")
            if self.secret == "labels" and (each.count or each.what == "codes"):
                raise WrongInput("if labels alone are secret, units and codes are not counted: they are public")

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, classes: int, rounds: Sequence[Round], **settings: Any) -> Self:
        """The least noise with which all rounds stay within (epsilon, delta), each at its share of ρ.

        settings    other fields, such as `many`; of a stream its `season`
        """
        check_budget(epsilon=epsilon, delta=delta, queries=max(1, len(rounds)), classes=classes or 2)
        made = cls(epsilon=epsilon, delta=delta, classes=classes, rounds=tuple(rounds), **settings)
        return least_noise(made.with_noise)

    def with_noise(self, scale: float) -> Self:
        """The same with noise of that scale, in units of the root of N_r over a round's share of ρ."""
        scales = [scale * math.sqrt(square / each.share) for square, each in self.squares_by_round]
        rounds = (replace(each, scale=own) for each, own in zip(self.rounds, scales, strict=True))
        return replace(self, rounds=tuple(rounds))

    def plain(self, rounds: Iterable[Round]) -> "Tallies":
        """Plain tallies with the same settings and these rounds."""
        values = {each.name: getattr(self, each.name) for each in fields(Tallies)}
        return Tallies(**{**values, "rounds": tuple(rounds)})

    @property
    def squares_by_round(self) -> list[tuple[int, Round]]:
        """N_r: the largest squared norm by which a unit moves the round's sums."""
        return [(self._square(each), each) for each in self.rounds]

    def _square(self, each: Round, steps: int | None = None) -> int:
        steps = steps or self.steps
        row = each.fields * row_square(self.classes, steps, each.what, each.least)
        if self.secret == "rows":
            return row + each.count**2
        changed = each.fields * steps**2 * (1 if self.classes <= 2 else 2)
        if not self.many:
            return changed
        truncated = changed + each.cells + math.isqrt(4 * changed * each.cells) + 1
        return min(4 * row, truncated)

    @property
    def rho(self) -> float:
        """ρ of zero-concentrated DP of all rounds together."""
        return math.fsum(square / (2 * scale**2) for square, _, scale in self.moves) * UP

    @property
    def cost(self) -> Cost:
        """Zero-concentrated with ρ; also claims (epsilon, delta) if the sharper δ is within it."""
        return gaussian_cost(self, self.rho)

    def delta_at(self, epsilon: float) -> float:
        """δ of all rounds at that ε; rounded up."""
        return moved_delta(epsilon, self.moves)

    @property
    def moves(self) -> list[tuple[int, int, float]]:
        """The effect of a unit on what is released: squared norm, numbers it may move, and the scale of their noise."""
        return [(square, each.cells, each.scale) for square, each in self.squares_by_round]

    @classmethod
    def from_settings(cls, kind: Kind) -> Self:
        """The mechanism that a session ran, from its settings on record. Raises NotVerified if they are another's."""
        own = kind.only(KINDS[cls.name])
        values = {each.name: getattr(own, each.name) for each in fields(cls)}
        return cls(**{**values, "rounds": tuple(Round(**dict(each)) for each in own.rounds)})

    def settings(self) -> dict[str, Any]:
        """Its public settings as JSON: the keywords it is built from, and its name."""
        return {"name": self.name, **asdict(self), "rounds": [asdict(each) for each in self.rounds]}

    def question(
        self, number: int, fields: Sequence[int], spans: Sequence[Span], model: IntegerModel | None = None
    ) -> RoundQuestion:
        """The question of round `number` for these fields. Raises ValueError if the round did not pay for it.

        A vote has as many steps as make the norm that was paid for: fewer, if more fields are asked.
        """
        each, asked = self.rounds[number], len(fields)
        steps, least = self.steps, each.least
        if asked != each.fields and self.classes:  # the norm that was paid for, in as many steps as it has room for
            steps = min(MOST_STEPS, math.isqrt(self.steps**2 * each.fields // asked))
            while True:
                least = each.least * steps // self.steps
                if steps < 2 or self._square(replace(each, fields=asked, least=least), steps) <= self._square(each):
                    break
                steps -= 1
        found = RoundQuestion(
            classes=self.classes,
            steps=steps,
            what=each.what,
            least=least,
            count=each.count,
            fields=tuple(fields),
            spans=tuple(spans),
            model=model,
        )
        self.check(number, found)
        return found

    def check(self, number: int, question: RoundQuestion) -> None:
        """Raises ValueError if round `number` did not pay for the question; the door calls this before it draws.

        A round pays for a norm and for so many numbers, on whatever grid. The label of a number is on that of `steps`.
        """
        each, asked = self.rounds[number], len(question.fields)
        kind, own = (self.classes, each.what, each.count), (question.classes, question.what, question.count)
        if own != kind or (not self.classes and question.steps != self.steps):
            raise ValueError(f"round {number} paid for other classes, another constant or grid than the question's")
        square = self._square(replace(each, fields=asked, cells=question.size, least=question.least), question.steps)
        if square > self._square(each) or question.size > each.cells:
            raise ValueError(
                f"round {number} paid for {each.fields} fields of {self.steps} steps a vote and {each.cells} numbers, "
                f"got {asked} of {question.steps} and {question.size}"
            )

    @property
    def queries(self) -> int:
        """Number of rounds; each is a batch of one."""
        return len(self.rounds)

    def epsilon_if_ended(self, asked: int, refused: int) -> float:  # noqa: ARG002
        """ε at `delta` of the first `asked` rounds at the same scales."""
        return exact_epsilon(self.plain(self.rounds[:asked]))

    def release(self, number: int, sums: Ints, source: RandomSource) -> Ints:
        """The sums of round `number`, each with fresh exact discrete Gaussian noise.

        Raises ValueError if there are more sums than were paid for.
        """
        if len(sums) > self.rounds[number].cells or sums.dtype != np.int64:
            raise ValueError(f"round {number} releases {self.rounds[number].cells} whole numbers at most")
        return sums + source.gaussian(self.rounds[number].scale, len(sums))


SHARES = {1: (1.0,), 2: (0.3, 0.7), 3: (0.3, 0.3, 0.4)}
"""Shares of ρ by number of rounds."""
TRUST = (1 / 2, 1 / 4, 1 / 20)
"""The least that a model may expect of either of two classes, by round: rows it is sure of count for less."""
MIXED = 3 / 10
"""Share of the expectation of a model of more classes that is the same for every class."""
LATER_FIELDS = 7
"""Most fields asked after the first round: the most predictive ones, judged by released sums."""
PAIRED = 24
"""The most columns whose pairs may all be asked."""
GROUPS, FINER = 4, 8
"""Groups of a column's values, besides missing ones, if all pairs are asked, and then a few of them."""
REPAIR_SHARE = 1 / 10
"""Share of ρ for totals of the codes, by which public rows unlike the private ones are recognised and repaired."""
COUNT_SHARE = 10
"""A unit's constant is its norm divided by this, which adds half a percent of noise."""


def planned_rounds(
    *,
    classes: int,
    fields: int,
    codes: int,
    rounds: int = 3,
    repair: bool = True,
    secret: str = "rows",
    spaces: bool = False,
    pairs: bool = False,
    later: int = LATER_FIELDS,
    steps: int = STEPS,
) -> tuple[Round, ...]:
    """The default rounds: totals of the codes first if `repair`, then rounds of labels. If only labels are secret, a
    single round, since every round of the same codes would measure the same.

    fields, codes   fields of a row, and code numbers in all
    spaces          whether each later round queries other codes, for which there is no model yet
    pairs           whether later rounds may query pairs of columns instead
    later           most fields that later rounds query
    """
    if secret == "labels":
        least, cells = least_expected(classes, steps, 0), codes * columns(classes, "labels")
        return (Round(fields=fields, cells=cells, least=least, share=1.0),)
    rest = 1 - REPAIR_SHARE if repair else 1.0
    ways = math.comb(fields, 2) if pairs else 0
    # most cells of all pairs of columns, or of the few that are asked then
    paired = max(ways * (GROUPS + 1) ** 2, min(ways, LATER_FIELDS) * (FINER + 1) ** 2)
    asked = [
        Round(
            fields=min(fields, later) if at else fields,
            cells=(max(codes, paired) if at else codes) * columns(classes, "labels"),
            least=least_expected(classes, steps, 0 if spaces else at),
            share=rest * share,
        )
        for at, share in enumerate(SHARES[rounds])
    ]
    norm = math.isqrt(fields * row_square(classes, steps, "labels", asked[0].least))
    asked[0] = replace(asked[0], count=max(1, norm // COUNT_SHARE), cells=asked[0].cells + 1)
    totals = Round(what="codes", fields=fields, cells=codes, least=0, share=REPAIR_SHARE)
    return (totals, *asked) if repair else tuple(asked)


def least_expected(classes: int, steps: int, at: int) -> int:
    """The least, in steps, that the model of round `at` of labels, from 0, may expect of a class: less in each."""
    return math.floor(steps * (TRUST[at] if classes <= 2 else (MIXED if at else 1.0) / classes))


MECHANISM = Tallies
