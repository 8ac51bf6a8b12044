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
that adds over rounds asked one after another (Bun & Steinke 2016). The sharper δ is gaussian.py's, `moved_delta`. ∎
Checked by tests/privacy/test_tallies.py: the exact law on tiny universes, and planted bugs.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP
from concord.artifacts.schemas import Bounds, Frozen
from concord.tasks.mechanisms.contributions import (
    MOST_STEPS,
    IntegerModel,
    RoundQuestion,
    Span,
    What,
    check_grid,
    row_square,
)
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.gaussian import Gaussian, Move
from concord.tasks.mechanisms.noise import Scale

STEPS = 1 << 16
"""Steps per vote: truncating a unit's mean of many rows loses less than one step in a cell."""


class Round(Frozen):
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
    scale: Scale = 1.0


class Tallies(Gaussian):
    """Public settings only, independent of private rows.

    classes   number of classes; 0 if the label is a number within bounds, which costs what two classes do
    secret    the difference between neighbours: a unit with all its rows, or the labels of one unit
    many      whether a unit may have several rows
    codes     digest of the public codes that are asked, and `bounds` of a number
    """

    name: ClassVar[str] = "tallies"
    forms: ClassVar[Collection[str]] = ("sums",)
    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None
    proof: ClassVar[str] = (
        "tasks/mechanisms/tallies.py: discrete Gaussian sums of bounded whole contributions (Canonne, Kamath & Steinke "
        "2020), composed over rounds"
    )
    pays_for: ClassVar[str] = (
        "one round of totals, and one to three rounds of sums for labels; if the numbers of public rows cluster, one "
        "more of each. If single columns predict the label poorly, the second of three such rounds counts pairs of "
        "columns (up to 24 columns), at no further charge"
    )
    take_if: ClassVar[str] = "the data are tables or small images"
    releases: ClassVar[str] = "noisy sums over public codes; all else follows from them and public rows"
    of_ask: ClassVar[Collection[str]] = ("codes", "bounds")

    classes: int
    steps: int = STEPS
    secret: Literal["rows", "labels"] = "rows"
    many: bool = False
    rounds: tuple[Round, ...]
    codes: str = ""
    bounds: Bounds | None = None

    def model_post_init(self, context: Any) -> None:
        """Raises WrongInput if a setting is out of its range, or rounds ask what is not paid for."""
        super().model_post_init(context)
        if not self.rounds or math.fsum(planned.share for planned in self.rounds) > UP:
            raise WrongInput("tallies need at least one round, and shares that add up to 1 at most")
        for planned in self.rounds:
            check_grid(self.classes, self.steps, planned.least, planned.count)
            if planned.fields < 1 or planned.cells < 1 or not planned.share > 0:
                raise WrongInput("a round needs fields, cells and a share above 0")
            if self.secret == "labels" and (planned.count or planned.what == "codes"):
                raise WrongInput("if labels alone are secret, units and codes are not counted: they are public")

    @property
    def squares_by_round(self) -> list[tuple[int, Round]]:
        """N_r: the largest squared norm by which a unit moves the round's sums."""
        return [(self._square(planned), planned) for planned in self.rounds]

    def _square(self, planned: Round, steps: int | None = None) -> int:
        steps = steps or self.steps
        row = planned.fields * row_square(self.classes, steps, planned.what, planned.least)
        if self.secret == "rows":
            return row + planned.count**2
        changed = planned.fields * steps**2 * (1 if self.classes <= 2 else 2)
        if not self.many:
            return changed
        truncated = changed + planned.cells + math.isqrt(4 * changed * planned.cells) + 1
        return min(4 * row, truncated)

    @property
    def rho(self) -> float:
        """ρ of zero-concentrated DP of all rounds together; rounded up."""
        return super().rho * UP

    @property
    def moves(self) -> list[Move]:
        """The sums of each round."""
        return [(square, planned.cells, planned.scale) for square, planned in self.squares_by_round]

    def question(
        self, number: int, fields: Sequence[int], spans: Sequence[Span], model: IntegerModel | None = None
    ) -> RoundQuestion:
        """The question of round `number` for these fields. Raises ValueError if the round did not pay for it.

        A vote has as many steps as make the norm that was paid for: fewer, if more fields are asked.
        """
        planned, width = self.rounds[number], len(fields)
        steps, least = self.steps, planned.least
        if width != planned.fields and self.classes:  # the norm that was paid for, in as many steps as it has room for
            steps, paid = min(MOST_STEPS, math.isqrt(self.steps**2 * planned.fields // width)), self._square(planned)
            while True:
                least = planned.least * steps // self.steps
                if steps < 2 or self._square(planned.with_(fields=width, least=least), steps) <= paid:
                    break
                steps -= 1
        question = RoundQuestion(
            classes=self.classes,
            steps=steps,
            what=planned.what,
            least=least,
            count=planned.count,
            fields=tuple(fields),
            spans=tuple(spans),
            model=model,
        )
        self.check(number, question)
        return question

    def check(self, number: int, question: RoundQuestion) -> None:
        """Raises ValueError if round `number` did not pay for the question; the door calls this before it draws.

        A round pays for a norm and for so many numbers, on whatever grid. The label of a number is on that of `steps`.
        """
        planned, width, what = self.rounds[number], len(question.fields), (question.classes, question.what)
        same = (*what, question.count) == (self.classes, planned.what, planned.count)
        if not same or (not self.classes and question.steps != self.steps):
            raise ValueError(f"round {number} paid for other classes, another constant or grid than the question's")
        asked = planned.with_(fields=width, cells=question.size, least=question.least)
        square = self._square(asked, question.steps)
        if square > self._square(planned) or question.size > planned.cells:
            raise ValueError(
                f"round {number} paid for {planned.fields} fields of {self.steps} steps a vote and {planned.cells} "
                f"numbers, got {width} of {question.steps} and {question.size}"
            )

    @property
    def queries(self) -> int:
        """Number of rounds; each is a batch of one."""
        return len(self.rounds)

    def release(self, number: int, sums: Ints, source: RandomSource) -> Ints:
        """The sums of round `number`, each with fresh exact discrete Gaussian noise.

        Raises ValueError if there are more sums than were paid for.
        """
        if len(sums) > self.rounds[number].cells or sums.dtype != np.int64:
            raise ValueError(f"round {number} releases {self.rounds[number].cells} whole numbers at most")
        return sums + source.gaussian(self.rounds[number].scale, len(sums))
