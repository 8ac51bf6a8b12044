"""Figures of a session, from released labels and the ledger alone, as SVG that is the same for the same facts.

Lines and words are in `currentColor` and in colours of middle brightness, so that an inlined figure follows the page's
light or dark scheme.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.ticker
import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from artifacts.certificate import Counts
from artifacts.privacy import Cost
from artifacts.sessions import Domain, Session

POINTS = 200
"""Points of a series: what a figure can show."""
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


@dataclass(frozen=True)
class Spending:
    """What the rows so far have been charged: ε (points,) at the session's δ, after that many rows asked (points,)."""

    rows: NDArray[np.int64]
    epsilon: NDArray[np.float64]


def spending(session: Session, per_refusal: Cost | None, labels: pa.Table) -> Spending:
    """The charge of a session as its rows were asked.

    A mechanism that pays by refusal is charged for the refusals so far; any other is charged whole before it starts.
    These are charges: the guarantee is the session's claim, at its end.
    """
    outcomes = labels["outcome"].to_numpy()
    refusals = np.cumsum(outcomes[outcomes != "not asked"] == "refused")
    rows = np.unique(np.linspace(min(1, len(refusals)), len(refusals), POINTS).astype(np.int64))
    if per_refusal is None:
        return Spending(rows, np.full(len(rows), session.epsilon))
    so_far = np.concatenate([[0], refusals])[rows]
    charged = {count: _epsilon(session, per_refusal, int(count)) for count in set(so_far.tolist())}
    return Spending(rows, np.array([charged[count] for count in so_far.tolist()]))


def spend_figure(session: Session, spent: Spending) -> str:
    """ε charged over rows asked, against the claim."""
    figure, axes = _axes("rows asked", f"ε at δ = {session.delta:g}")
    axes.plot(spent.rows, spent.epsilon, color=BLUE, linewidth=2, drawstyle="steps-post", label="charged so far")
    axes.axhline(session.epsilon, color=ORANGE, linestyle="--", label="guarantee, at the session's end")
    axes.set_ylim(0, session.epsilon * 1.15)
    axes.legend(loc="lower right")
    return _svg(figure)


def labels_figure(labels: pa.Table, classes: Sequence[str], counts: Counts) -> str:
    """Rows answered by class of the released label, against those refused and not asked."""
    names, released = np.unique(labels["label"].drop_null().to_numpy(zero_copy_only=False), return_counts=True)
    found = dict(zip(names.tolist(), released.tolist(), strict=True))
    bars = [(name, found.get(name, 0), BLUE) for name in classes]
    bars += [("refused", counts.refused, ORANGE), ("not asked", counts.not_asked, GREY)]
    figure, axes = _axes("public rows", None, height=1.0 + 0.3 * len(bars))
    axes.barh(range(len(bars)), [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    axes.set_yticks(range(len(bars)), [bar[0] for bar in bars], parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    for place, (_, rows, _) in enumerate(bars):
        axes.annotate(f" {rows:,}", (rows, place), va="center")
    return _svg(figure)


def budget_figure(domain: Domain, sessions: Sequence[Session]) -> str:
    """The domain's budget, session by session: charges add up in Rényi divergence at the domain's order."""
    shares = [float(session.charge.renyi / domain.filter.budget) for session in sessions]
    ends = np.cumsum(shares)
    figure, axes = _axes("share of the domain's lifetime budget", None, height=1.0 + 0.3 * len(shares))
    colours = [GREY if session.status == "open" else BLUE for session in sessions]
    axes.barh(range(len(shares)), shares, left=ends - shares, color=colours)
    names = [f"{session.id} ({'reserved' if session.status == 'open' else 'settled'})" for session in sessions]
    axes.set_yticks(range(len(shares)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=0))
    return _svg(figure)


def _epsilon(session: Session, per_refusal: Cost, refusals: int) -> float:
    if not refusals:
        return 0.0
    so_far = Cost(renyi=tuple(refusals * r for r in per_refusal.renyi), delta=refusals * per_refusal.delta)
    return min(session.epsilon, so_far.epsilon(session.delta))


def _axes(across: str, up: str | None, height: float = 3.2) -> tuple[Figure, Axes]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xlabel(across)
        if up is not None:
            axes.set_ylabel(up)
    return figure, axes


def _svg(figure: Figure) -> str:
    page = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(page, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return page.getvalue().replace(INK, "currentColor")
