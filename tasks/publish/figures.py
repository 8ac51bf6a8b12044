"""Figures of a session as SVG, from released labels and the ledger alone; the same input gives the same bytes.

Lines and words are in `currentColor` and in colours of middle brightness, so that an inlined figure follows the page's
light or dark scheme. One figure shows the ε that the session would have promised if it had been planned to end sooner:
the rows answered until then would be the same, and the cost is that of its mechanism with an earlier end. Checked by
tests/tasks/publish/test_figures.py and tests/privacy/test_calibration.py.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from concord.artifacts.errors import in_one_line
from concord.artifacts.guarantee import DomainCharge, shared
from concord.artifacts.home.released import Integers
from concord.artifacts.measures import CalibrationBin, Estimate
from concord.artifacts.parts import EVERY, PARTS
from concord.artifacts.privacy import Cost
from concord.artifacts.records import Counts
from concord.artifacts.sessions import Session
from concord.tasks.mechanisms.catalogue import of_votes
from concord.tasks.mechanisms.confident import ConfidentGNMax
from concord.tasks.mechanisms.gaussian import Gaussian

if TYPE_CHECKING:  # a run that is cached draws nothing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
POINTS_DRAWN = 200
"""Most points of a series that a figure draws."""
INK = "#010203"  # stands for currentColor, which matplotlib does not know
BLUE, ORANGE, GREY = "#3b7dd8", "#d9822b", "#8a8f98"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "concord",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def svg(draw: Callable[P, Figure]) -> Callable[P, str]:
    """The drawing of a function, in STYLE, as SVG."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> str:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return _svg(draw(*args, **kwargs))

    return drawn


def _svg(figure: Figure) -> str:
    page = io.StringIO()
    figure.savefig(page, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return page.getvalue().replace(INK, "currentColor")


def _axes(across: str, up: str | None, height: float = 2.9) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(across)
    axes.set_ylabel(up or "")
    return figure, axes


@dataclass(frozen=True)
class Spending:
    """Charges over a session: ε at its δ, after `rows` were asked and `answered` of them answered; all (points,)."""

    rows: Integers
    answered: Integers
    epsilon: NDArray[np.float64]


def spending(session: Session, refused: NDArray[np.bool_], rows: Integers | None = None) -> Spending:
    """The charge of a session over the rows it was asked, at `rows` (points,), by default POINTS_DRAWN of them.

    refused   (asked,) whether each row was refused
    A mechanism that pays by refusal is charged for the refusals so far; any other is charged whole before it starts.
    These are charges, not guarantees: the guarantee is the session's claim, at its end.
    """
    rows_asked, places = len(refused), np.flatnonzero(refused)
    at = np.unique(np.linspace(min(1, rows_asked), rows_asked, POINTS_DRAWN).astype(np.int64)) if rows is None else rows
    had = np.searchsorted(places, at).astype(np.int64)  # refusals among the first `at` rows
    per_refusal = None if session.per_refusal is None else of_votes(session.mechanism).per_refusal
    if per_refusal is None:
        return Spending(at, at - had, np.full(len(at), session.epsilon))
    charged = {count: charge_of(per_refusal, count, session.epsilon, session.delta) for count in set(had.tolist())}
    return Spending(at, at - had, np.array([charged[count] for count in had.tolist()]))


@svg
def spend_figure(session: Session, spent: Spending) -> Figure:
    """ε charged over rows asked, against the claim."""
    figure, axes = _axes("rows asked", f"ε at δ = {session.delta:g}")
    axes.plot(spent.rows, spent.epsilon, color=BLUE, linewidth=2, drawstyle="steps-post", label="charged so far")
    axes.axhline(session.epsilon, color=ORANGE, linestyle="--", label="guarantee, at the session's end")
    axes.set_ylim(0, session.epsilon * 1.15)
    axes.legend(loc="lower right")
    return figure


@svg
def labels_figure(by_class: Mapping[str, int], classes: Sequence[str], counts: Counts) -> Figure:
    """Rows answered by class of the released label, against those refused and not asked."""
    bars = [(in_one_line(name), by_class.get(name, 0), BLUE) for name in classes]
    bars += [("refused", counts.refused, ORANGE), ("not asked", counts.not_asked, GREY)]
    figure, axes = _axes("public rows", None, height=1.0 + 0.3 * len(bars))
    axes.barh(range(len(bars)), [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    axes.set_yticks(range(len(bars)), [bar[0] for bar in bars], parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    for place, (_, rows, _) in enumerate(bars):
        axes.annotate(f" {rows:,}", (rows, place), va="center")
    return figure


@svg
def what_if_figure(session: Session, sooner: Spending) -> Figure:
    """ε that would have been promised if the session ended, against the rows answered by then.

    The dashed line extrapolates a session that pays by refusal at its present rate of refusals: a guess, no promise.
    """
    figure, axes = _axes("rows answered", f"ε at δ = {session.delta:g}")
    axes.plot(sooner.answered, sooner.epsilon, color=BLUE, linewidth=2, label="planned to end there")
    if session.cutoff is not None and 0 < session.refused < session.cutoff:
        ends = [session.answered, session.answered * session.cutoff // session.refused]
        axes.plot(ends, [sooner.epsilon[-1], session.epsilon], color=ORANGE, linestyle="--", label="if it goes on so")
    axes.set_ylim(0, session.epsilon * 1.15)
    axes.legend(loc="lower right")
    return figure


@svg
def releases_figure(history: Sequence[Estimate]) -> Figure:
    """The accuracy of the student of each release, on the same public test rows, by its number; with intervals."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure, axes = _axes("release", "accuracy on public test rows")
    shown = dict(enumerate(history, start=1))
    axes.plot(list(shown), [of.value for of in shown.values()], color=BLUE, linewidth=2, marker="o", markersize=4)
    low, high = ([getattr(of, end) for of in shown.values()] for end in ("low", "high"))
    axes.vlines(list(shown), low, high, color=BLUE, linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure


@svg
def budget_figure(domain: DomainCharge) -> Figure:
    """The domain's spent budget, session by session: charges add up by its filter."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    shares = np.array([charge.share for charge in domain.charges])
    before, places = np.array([_before(domain, at) for at in range(len(shares))]), np.arange(1, len(shares) + 1)
    still_open = np.array([charge.status == "open" for charge in domain.charges])
    figure, axes = _axes("sessions of the domain, in order", "share of the lifetime budget")
    if before.any():
        axes.bar(places, before, color=BLUE, alpha=0.3, label="used by earlier sessions")
    for kind, of, colour in (("used", ~still_open, BLUE), ("set aside", still_open, GREY)):
        if of.any():
            axes.bar(places[of], shares[of], bottom=before[of], color=colour, label=kind)
    axes.axhline(1, color=ORANGE, linestyle="--", label="limit")
    axes.set_xlim(0.4, max(len(places), 4) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, max(1.0, *(before + shares)) * 1.05)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, columnspacing=1, handlelength=1.2, fontsize=9)
    return figure


@svg
def reliability_figure(calibration: Sequence[CalibrationBin]) -> Figure:
    """Reliability diagram: accuracy by mean confidence; each point's area grows with its rows."""
    figure, axes = _axes("mean confidence", "accuracy", height=3.2)
    confidence, accuracy = [bin_.confidence for bin_ in calibration], [bin_.accuracy.value for bin_ in calibration]
    rows = np.array([bin_.rows for bin_ in calibration])
    low = min(*confidence, *accuracy, 1.0)
    axes.plot([low, 1], [low, 1], color=GREY, linestyle="--", label="perfect calibration")
    axes.plot(confidence, accuracy, color=BLUE, linewidth=2, label="this student")
    least, most = ([getattr(bin_.accuracy, end) for bin_ in calibration] for end in ("low", "high"))
    axes.vlines(confidence, least, most, color=BLUE, linewidth=1)
    axes.scatter(confidence, accuracy, s=20 + 180 * rows / rows.max(), color=BLUE, alpha=0.5)
    axes.legend(loc="lower right")
    return figure


def _before(domain: DomainCharge, at: int) -> float:
    """The charge, before session `at`, of the units it touches; if it touches all, the largest of any part. Units of a
    season were touched by no earlier one of its stream."""
    charge = domain.charges[at]
    others = [other for other in domain.charges[:at] if not charge.stream or other.stream != charge.stream]
    return max(shared(others, part) for part in (PARTS if charge.part == EVERY else (charge.part,)))


def charge_of(per_refusal: Cost, refusals: int, epsilon: float, delta: float) -> float:
    """ε charged for that many refusals at the δ of a claim, at most its ε."""
    if not refusals:
        return 0.0
    so_far = Cost(renyi=tuple(refusals * r for r in per_refusal.renyi), delta=refusals * per_refusal.delta)
    return min(epsilon, so_far.epsilon(delta))


def epsilon_if_ended(mechanism: Any, asked: int, refused: int) -> float:
    """ε, at its δ, of a mechanism of votes that has the same table or scales and was planned to end after `asked` rows;
    if it pays by refusal, at the next refusal after `refused`, but no later than its cutoff."""
    ends = {"queries": asked}
    if mechanism.cutoff is not None:
        ends = {"cutoff": min(refused + 1, mechanism.cutoff)}
    if mechanism.per_refusal is not None:
        return charge_of(mechanism.per_refusal, ends["cutoff"], mechanism.epsilon, mechanism.delta)
    if isinstance(mechanism, ConfidentGNMax):
        ends["answers"] = min(mechanism.answers, max(1, asked - refused))
    early = mechanism.with_(**ends)
    return exact_epsilon(early) if isinstance(early, Gaussian) else min(early.epsilon, early.cost.epsilon(early.delta))


def exact_epsilon(mechanism: Gaussian) -> float:
    """The ε at which the mechanism's exact δ is the δ it claims; `cost` claims that only at the ε of calibration."""
    from scipy.optimize import brentq  # heavy, and rarely asked for

    def beyond(epsilon: float) -> float:
        return mechanism.delta_at(epsilon) - mechanism.delta

    held = beyond(mechanism.epsilon) <= 0 < beyond(0.0)
    return float(brentq(beyond, 0.0, mechanism.epsilon)) if held else mechanism.epsilon


PLANS = 50
"""Points of the curve, each the cost of another plan."""


def epsilon_if_stopped_early(session: Session, spent: Spending) -> Spending | None:
    """ε that the session would have promised if it had been planned to end sooner, at some points of `spent`.

    A mechanism that pays by refusal goes on to the next refusal, so the plan includes that one. None if there is no
    such plan: nothing was asked, there are no teachers, or rows were relabelled, which is always charged whole.
    """
    if not session.teachers or session.relabelled or not session.asked:
        return None
    mechanism = of_votes(session.mechanism)
    at = np.unique(np.linspace(0, len(spent.rows) - 1, PLANS).astype(np.int64))
    rows, answered = spent.rows[at], spent.answered[at]
    plans = zip(rows.tolist(), answered.tolist(), strict=True)
    promised = [epsilon_if_ended(mechanism, rows_asked, rows_asked - had) for rows_asked, had in plans]
    return Spending(rows, answered, np.array(promised, dtype=np.float64))
