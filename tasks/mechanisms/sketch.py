"""Sketch: tables of the private rows, one-way and two-way, then rounds of labels, with exact discrete noise.

It needs no public table: synthetic rows that resemble the released tables take its place (tasks.student.sketch), and
tallies (tallies.py) of labels are counted by their codes.

Privacy statement
    Assumes      cells of the one-way tables follow from a declared schema alone; how later tables group those cells,
                 and all other questions, follow from plan, schema and what was released before; a step is drawn
                 once, at the door
    Guarantees   (epsilon, delta) for all tables and rounds together, against any adaptive choice of groups, questions
                 and of the rows themselves, and Rényi α·ρ at every order α, ρ = Σ N_r / (2·scale_r²), for adding or
                 removing a unit
    Ends         after the last round; a step that is begun is paid for, whether or not it is used
    Not covered  replacing a unit by another (two steps, four times ρ); whether the schema was read off private rows;
                 labels alone secret, which needs no sketch because the rows are public then

Proof. A unit of one row adds S to exactly one cell of each table asked, whatever groups of cells a table has, because
groups partition cells and cells partition all values; and c to the count. Of T one-way tables it moves the sums by v
with ‖v‖² = T·S² + c², of P two-way ones by ‖v‖² = P·S², and of a round of labels by at most N_r (tallies.py). Those
norms and all scales are fixed when the session is opened. A unit of several rows contributes their mean, truncated
towards zero, which is no longer than the longest of them. So step r is N_r/2σ_r²-zero-concentrated whatever was
released before (Canonne, Kamath & Steinke 2020, Thm. 14), and that adds (Bun & Steinke 2016); the sharper δ is
gaussian.py's, `moved_delta`. Fitting, drawing and decoding synthetic rows are post-processing. ∎
Checked by tests/privacy/test_sketch.py: the exact law on a tiny universe, against an adversary, and planted bugs.
"""

from typing import Any, ClassVar

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.tallies import Tallies


class Sketch(Tallies):
    """Public settings only, independent of private rows. Its first rounds are tables, counted in the first one; the
    others are of labels."""

    name: ClassVar[str] = "sketch"
    proof: ClassVar[str] = (
        "tasks/mechanisms/sketch.py: discrete Gaussian tables and sums of bounded whole contributions (Canonne, Kamath "
        "& Steinke 2020), composed over steps"
    )
    releases: ClassVar[str] = (
        "noisy one-way and two-way tables of the private rows with their estimated number, and noisy sums of labels; "
        "synthetic rows, which belong to nobody, and all else follow from them and the declared schema, of which it is "
        "assumed, and cannot be checked, that it was not read off private rows"
    )

    def model_post_init(self, context: Any) -> None:
        """Raises WrongInput if its steps are not those of a sketch."""
        super().model_post_init(context)
        if self.secret != "rows":
            raise WrongInput("a sketch is for privacy.secret = 'rows': if labels alone are secret, the rows are public")
        what = [planned.what for planned in self.rounds]
        if what[: self.tables] != ["codes"] * self.tables or not 1 <= self.tables <= 2 or what[-1] != "labels":
            raise WrongInput("a sketch asks one-way tables, then two-way ones if any, then labels")
        if [planned.count > 0 for planned in self.rounds] != [True] + [False] * (len(self.rounds) - 1):
            raise WrongInput("a sketch counts units in its first step alone")

    @property
    def tables(self) -> int:
        """Number of steps that ask tables: 2, or 1 if there are no two-way ones."""
        return sum(planned.what == "codes" for planned in self.rounds)
