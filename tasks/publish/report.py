"""Report: a certificate as one page that opens offline and fetches nothing.

    verdict ─ guarantee, and what an attacker gains │ performance ─ lifetime budget ─ checks      the first page
    a reviewer's questions ─ performance in full ─ scorecard ─ charges ─ limits ─ how to check    unfolded

An attacker decides, from all that was published, whether the records contain a unit. A session that is
(ε, δ(ε))-differentially private at every ε lets a test with a share x of false positives reach at most min over ε of
e^ε·x + δ(ε) true positives, and as few misses the other way round: its trade-off curve (Wasserman & Zhou 2010; Kairouz,
Oh & Viswanath 2015; Dong, Roth & Su 2022). One claimed pair alone would allow more: of ε = 1, up to 2.7 % true
positives at 1 % false ones, where Gaussian noise allows 2 %.

A student that tallies of single columns are decoded to is additive: a scorecard says how many points each cell of a
row adds, and ten points double the odds.

Assumes      texts of the certificate may be a stranger's: they are reworded, and the template escapes them. The
             settings on record ran, and prove what the certificate claims, and the student is its own (tasks.verify)
Guarantees   it is a function of certificate, figures and scorecard. No attacker passes the shares shown, which are
             rounded up: a few ε are tried, each δ is rounded up, and several sessions compose as in the certificate
             (artifacts.records.promised)
Not covered  whether the certificate is right (tasks.verify); what an attacker knew before; what is as true of a unit
             whose rows were left out; a column that stands for another that goes with it. Checked by
             tests/tasks/publish/test_report.py and test_explain.py, and tests/privacy/test_membership.py against the
             law of Gaussian noise
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from sklearn.pipeline import Pipeline

from concord.artifacts.certificate import Certificate, reworded
from concord.artifacts.errors import in_lines, single_spaced
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.measures import Estimate, NumberTest, NumberTested, PublicTest, TestRecord, compared
from concord.artifacts.published import NOBODYS
from concord.artifacts.records import promised
from concord.artifacts.schemas import Budget
from concord.artifacts.student_warnings import NOT_MEASURED, warnings_of
from concord.tasks.asks.kinds import delta_of
from concord.tasks.mechanisms.catalogue import recorded
from concord.tasks.mechanisms.confident import ConfidentGNMax
from concord.tasks.mechanisms.mechanism import PublicSettings
from concord.tasks.mechanisms.noisy_votes import NoisyCounts
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.mechanisms.queries import LaplaceRelease
from concord.tasks.mechanisms.relabelled import Relabelled
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student.scorecard import has_scorecard
from concord.tasks.student.scorecard import scorecard as points_of

CODE = re.compile("`([^`]*)`")
STATED = {"issuer": "publisher and contact", "date": "date", "use": "intended use"}
"""Keys of `[about]` that the page shows, in words."""
CHECKS = (
    *("certificate", "guarantee", "budget", "files", "released labels", "student", "public test", "what it says"),
    *("ledger excerpt", "signature"),
)
"""The checks that `concord verify SESSION` makes."""
FEW_WRONG = 0.01
"""False-positive rate at which the largest true-positive rate is stated."""
POINTS = 50
"""Points of the drawn curve, after the first."""
EPSILONS = 16
"""Number of ε below the claimed one at which δ is computed, from 0 on in equal steps."""
MOST_BARS = 11
"""Most classes whose recall is drawn."""
Level = Literal["plain", "warned"]


@dataclass(frozen=True)
class Bar:
    """A figure with its interval as a bar, all in percent of its width; `baseline` is a mark on it, if there is one."""

    name: str
    figure: str
    value: float
    low: float
    high: float
    baseline: float | None


@dataclass(frozen=True)
class Measured:
    """Figures of one evaluation: on what, beside which baseline, and what else a reader must know of it."""

    on: str
    baseline: str
    bars: tuple[Bar, ...]
    remark: str = ""


@dataclass(frozen=True)
class FirstPage:
    """The whole page: what a certificate states.

    reasons        warnings
    attacker       what one gains, in a sentence; `curve` in points of a square of 100, from its upper left corner
    session_share  of the lifetime budget that this session is charged, in percent; `other_share` what others are
    checks         those that `concord verify` makes
    """

    title: str
    session: str
    data_version: str
    about: dict[str, str | None]
    level: Level
    verdict: str
    reasons: tuple[str, ...]
    claim: str
    meaning: str
    attacker: str
    curve: str
    measured: tuple[Measured, ...]
    session_share: float
    other_share: float
    lifetime: str
    checks: tuple[str, ...] = CHECKS


@cache
def _template() -> Template:
    """The report's template, compiled once for all sessions of a process."""
    loader = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_shown)
    made.filters["code"] = lambda text: Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))
    return made.get_template("report.html.j2")


def _shown(value: Any) -> Any:
    """What a page shows of a value: no letter of a stranger's text that moves or hides others."""
    return in_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def first_page(certificate: Certificate) -> FirstPage:
    """The first page of a certificate, `reworded`."""
    warnings, guarantee, domain = certificate.warnings, certificate.guarantee, certificate.domain
    useful, verdict = verdict_of(certificate)
    public = certificate.student.public_test
    worded = warnings_of(public, None if public else certificate.tested, tallied=not certificate.teachers)
    guarantees = guarantees_of(certificate)
    steps = [(at / POINTS, most_found(guarantees, at / POINTS)) for at in range(POINTS + 1)]
    share = next((charge.share for charge in domain.charges if charge.session == certificate.session), 0.0)
    return FirstPage(
        title=f"Differentially private {certificate.what}: {domain.name}",
        session=certificate.session,
        data_version=certificate.data_version,
        about={words: getattr(certificate.about, key) for key, words in STATED.items()},
        level="plain" if useful and not warnings else "warned",
        verdict=verdict,
        reasons=tuple(reason for reason in warnings if reason not in worded or NOT_MEASURED in reason),
        claim=guarantee.in_words,
        meaning=f"Differential privacy under the relation “{guarantee.neighbours}”. {certificate.delta_in_words}",
        attacker=_attacker(certificate, most_found(guarantees, FEW_WRONG)),
        curve=" ".join(f"{100 * wrong:.0f},{100 - _up(share):.1f}" for wrong, share in steps),
        measured=tuple(_measured(certificate)),
        session_share=100 * share,
        other_share=100 * max(0.0, domain.used - share),
        lifetime=_lifetime(certificate, share),
    )


def verdict_of(certificate: Certificate) -> tuple[bool, str]:
    """Whether the figures speak for the model, and what they say in a sentence: what not to use it for, or by how much
    it beats a baseline. Public test rows are asked first, and private units if there are none."""
    test = certificate.student.public_test or certificate.tested
    if test is None:
        return False, "The model was not evaluated."
    if isinstance(test, TestRecord | NumberTested) and not test.clean:
        return False, "The model was not evaluated: it may have learned from the records it was tested on."
    beats, predicate = compared(test)
    verdict = f"The model {predicate}."
    if isinstance(test, NumberTest | NumberTested):
        return beats is True, verdict
    recalls = [(item.recall.value, item.name) for item in test.classes if item.recall is not None]
    if blind := [name for recall, name in recalls if recall <= 0]:
        measured = {of.name: of for of in test.thresholds} if isinstance(test, PublicTest) else {}
        more = f" and {len(blind) - MOST_BARS:,} other classes" if len(blind) > MOST_BARS else ""
        at = "" if measured.keys().isdisjoint(blind) else " by its likeliest class"
        sentences = [f"Do not use it{at} to detect {', '.join(map(repr, blind[:MOST_BARS]))}{more}: recall 0."]
        sentences += [measured[name].in_a_sentence for name in blind[:MOST_BARS] if name in measured]
        return False, " ".join([*sentences, *([] if beats else [verdict])])
    lowest = " The lowest recall is {:.1%}, for {!r}.".format(*min(recalls)) if beats and recalls else ""
    return beats is True, f"{verdict}{lowest}"


def guarantees_of(certificate: Certificate) -> tuple[Guarantee, ...]:
    """Guarantees that hold at once: the claim, and others of less ε and more δ that the same settings prove."""
    claim, guarantees = certificate.guarantee, [certificate.guarantee]
    for step in range(EPSILONS):
        lesser = []
        for record in certificate.sessions:
            epsilon = step / EPSILONS * record.guarantee.epsilon
            pair = Budget(epsilon=epsilon, delta=delta_of(record.mechanism.settings, epsilon))
            lesser.append(record.model_copy(update={"guarantee": pair}))
        together = promised(lesser)
        guarantees.append(Guarantee.at(together.epsilon, together.delta, claim.unit, claim.neighbours))
    return tuple(guarantees)


def most_found(guarantees: Sequence[Guarantee], wrong: float) -> float:
    """The largest share of true positives of a test with a share `wrong` of false ones, by guarantees that all hold."""
    return min(guarantee.most_found(wrong) for guarantee in guarantees)


def _up(share: float) -> float:
    """A share in percent, rounded up to a tenth."""
    return min(100.0, math.ceil(1000 * share) / 10)


def _attacker(certificate: Certificate, share: float) -> str:
    """What an attacker gains, in a sentence, and whom the unit does not protect."""
    guarantee = certificate.guarantee
    what = (
        f"{guarantee.unit} are those in the records"
        if guarantee.labels_only
        else f"the records contain {guarantee.unit}"
    )
    whole = "" if "all rows" in guarantee.unit else "A person with several rows is not protected as a whole."
    gain = (
        f"Suppose an attacker infers from the publication whether {what}. At {FEW_WRONG:.0%} false positives, the "
        f"attacker reaches at most {_up(share):.1f}% true positives; guessing reaches {FEW_WRONG:.0%}."
    )
    return " ".join(filter(None, (gain, guarantee.unprotected, whole)))


def _lifetime(certificate: Certificate, share: float) -> str:
    """How much of the budget this session and all others take, and why that is not its part of the cap's ε."""
    domain, epsilon = certificate.domain, certificate.leading.guarantee.epsilon
    part, cap = epsilon / domain.cap.epsilon, f"ε = {epsilon:.4g} of {domain.cap.epsilon:.4g}"
    why = (
        "which grows roughly with the square of ε"
        if share < part
        else "and converting their sum to ε costs a fixed amount once"
    )
    sessions = "one session" if domain.sessions == 1 else f"{domain.sessions:,} sessions"
    return (
        f"This session, with {cap}, takes {share:.1%} of the lifetime budget, not {part:.0%}. Charges are added in "
        f"Rényi divergence of order {domain.order:.4g}, {why}. In total, {domain.used:.1%} is used, by {sessions}."
    )


def _measured(certificate: Certificate) -> Iterator[Measured]:
    """Each evaluation: on public test rows, and on private units that were set aside."""
    public, private = certificate.student.public_test, certificate.tested
    if isinstance(public, PublicTest):
        largest = public.largest
        bars = [_bar("accuracy", public.accuracy, public.majority)]
        bars += [_bar("AUC", public.auc, 0.5, "{:.3f}")] if public.auc is not None else []
        recalls = [(item.name, item.recall) for item in public.classes]
        bars += [_bar(f"recall of {name}", recall, name == largest) for name, recall in recalls[:MOST_BARS] if recall]
        on = f"Evaluated on {public.rows:,} labelled public rows, with 95% intervals."
        yield Measured(on, f"majority-class baseline, accuracy {public.majority:.1%} ({largest})", tuple(bars))
    elif public is not None:
        on = f"Evaluated on {public.rows:,} labelled public rows, with 95% intervals. R² {public.r2:.3f}."
        yield _of_number(on, public.rmse, public.mean_rmse, f"their mean, RMSE {public.mean_rmse:.4g}")
    if private is None:
        return
    units = f"about {private.rows:,} private units set aside"
    on = f"Evaluated on {units}, by noisy counts, with {private.level:.0%} intervals."
    remark = "The model may have learned from some of them, so these figures are optimistic." * (not private.clean)
    if private.clean and private.earlier:
        remark = "Earlier results on these units may make the figures optimistic."
    if isinstance(private, TestRecord):
        bars = [_bar("accuracy", private.accuracy, private.majority)]
        bars += [_bar(f"recall of {item.name}", item.recall, None) for item in private.classes[:MOST_BARS]]
        has_majority = private.majority is not None
        baseline = f"majority-class baseline, accuracy about {private.majority:.1%}" if has_majority else ""
        yield Measured(on, baseline, tuple(bars), remark)
    else:
        constant = private.constant_rmse
        yield _of_number(on, private.rmse, constant.value, f"{private.constant:.4g}, RMSE {constant:.4g}", remark)


def _bar(name: str, figure: Estimate, baseline: float | None, form: str = "{:.1%}") -> Bar:
    value, low, high = (100 * min(1.0, max(0.0, end)) for end in (figure.value, figure.low, figure.high))
    return Bar(name, form.format(figure), value, low, high, None if baseline is None else 100.0 * baseline)


def _of_number(on: str, rmse: Estimate, constant: float, named: str, remark: str = "") -> Measured:
    """The error of a number beside that of a constant prediction, on one scale from 0."""
    scale = 100 / (max(rmse.high, constant) or 1.0)
    bar = Bar("RMSE", f"{rmse:.4g}", scale * rmse.value, scale * rmse.low, scale * rmse.high, scale * constant)
    return Measured(on, f"always predicting {named}", (bar,), remark)


DOUBLE = 10
"""Points that double the odds."""
DIGITS = 3
"""Of the ends of ranges."""


@dataclass(frozen=True)
class CellPoints:
    """A cell of a column, in words, and the points that it adds for each of the card's classes."""

    cell: str
    points: tuple[int, ...]


@dataclass(frozen=True)
class Scorecard:
    """An additive student: `base` points for each of `classes`, and those of every cell of each column, the column that
    moves most first. With two classes the card scores the second; for a number it scores its place between its
    bounds."""

    classes: tuple[str, ...]
    base: tuple[int, ...]
    columns: dict[str, tuple[CellPoints, ...]]

    @property
    def largest(self) -> int:
        """The most points, of either sign; 1 if there are none."""
        cells = (cell for cells in self.columns.values() for cell in cells)
        return max((abs(points) for cell in cells for points in cell.points), default=0) or 1


def shown_scorecard(student: Pipeline) -> Scorecard | None:
    """The card of a student that was decoded from tallies of single columns; None for any other."""
    if not has_scorecard(student) or {"joined", "pairs"} & student.named_steps.keys():
        return None
    card, names = points_of(student), [str(name) for name in getattr(student[-1], "classes", ("number",))]
    columns = {column["name"]: tuple(_cells(column)) for column in card["columns"]}
    order = sorted(columns, key=lambda name: -_spread(columns[name]))
    classes = tuple(names[-1:] if len(names) <= 2 else names)
    return Scorecard(classes, _points(card["intercept"]), {name: columns[name] for name in order})


def _points(logits: Any) -> tuple[int, ...]:
    return tuple(round(DOUBLE * float(logit) / math.log(2)) for logit in logits)


def _spread(cells: Sequence[CellPoints]) -> int:
    classes = range(len(cells[0].points))
    return max(max(c.points[at] for c in cells) - min(c.points[at] for c in cells) for at in classes)


def _cells(column: dict[str, Any]) -> Iterator[CellPoints]:
    """The cells of one column, those without a value last; neighbouring ranges of equal points are one."""
    if "words" in column:
        yield from (CellPoints(word, _points(points)) for word, points in column["words"].items())
        yield CellPoints("other category", _points(column["other words"]["points"]))
    for points, group in groupby(column.get("intervals", ()), key=lambda interval: _points(interval["points"])):
        within = [*group]
        yield CellPoints(_range(within[0]["from"], within[-1]["to"], column["kind"]), points)
    yield CellPoints("no value", _points(column["missing"]))


def _rounded(end: float) -> str:
    return f"{float(f'{end:.{DIGITS}g}'):.6g}"


def _range(low: float | str | None, high: float | str | None, kind: str) -> str:
    """The numbers from `low` on that are below `high`, in words; dates are text."""
    if low is None and high is None:
        return "any"
    if kind == "boolean":
        return "no" if low is None else "yes"
    least, end = (bound[:10] if isinstance(bound, str) else _rounded(bound or 0.0) for bound in (low, high))
    if low is None or high is None:
        return f"below {end}" if low is None else f"{least} or more"
    return f"{least} to below {end}"


MUCH = 3.0
"""Least scale of noise, in units, at which a count below ten may well stand for none or for twice as many."""


def render(certificate: Certificate, figures: Mapping[str, str], card: Scorecard | None = None) -> str:
    """The report as HTML. `figures` are SVG documents by name: spend, what_if, labels, reliability and budget, if
    they exist; all other content is escaped.

    card   of an additive student
    """
    drawn = {name: _inline(name, figure) for name, figure in figures.items()}
    shown, context = (
        reworded(certificate, single_spaced),
        {"nobodys": NOBODYS, "small_counts": small_counts(certificate)},
    )
    return _template().render(certificate=shown, page=first_page(shown), figures=drawn, card=card, **context)


def small_counts(certificate: Certificate) -> str:
    """Why counts below ten may be released, or that there are no such counts."""
    noise = [scale for record in certificate.sessions for scale in _scales(recorded(record.mechanism.settings))]
    if not noise:
        return "No count or sum of records is released, only labels of public rows or the choice of a model."
    small = (
        "So a number below ten, or below zero, may stand for many units, and one above ten for none: a small number "
        "reveals no more about a person than a large one."
        if min(noise) >= MUCH
        else "With so little noise, a number is close to the exact count, and so is a small one. Only ε justifies its "
        "release, and so large an ε may not be enough for you."
    )
    return (
        "No exact count of records is released. A rule against counts below ten protects exact counts; every number "
        f"released here has noise of scale {min(noise):.3g} units or more. {small} ε covers what one unit can change "
        "in all numbers together."
    )


def _scales(mechanism: PublicSettings | Relabelled) -> list[float]:
    """Scales of the noise in what is released of records, in units of what one of them adds; none if it releases no
    count and no sum. In a stream, a vote is multiplied by the coefficients."""
    match mechanism:
        case Relabelled(inner=PublicSettings() as inner):
            return _scales(inner)
        case Tallies():
            vote = mechanism.steps * (1 << mechanism.bits if isinstance(mechanism, Stream) else 1)
            return [planned.scale / vote for planned in mechanism.rounds]
        case PrivateTest():
            return [mechanism.scale, mechanism.pair_scale]
        case NoisyCounts() | ConfidentGNMax() | LaplaceRelease():
            return [mechanism.scale]
    return []


def _inline(name: str, figure: str) -> Markup:
    """A figure to inline in the page: scaled to its column, without a document's head, and with unique ids."""
    image = figure[figure.index("<svg") :]
    image = re.sub(
        r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', rf'\1 role="img" aria-labelledby="{name}-caption"', image
    )
    image = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", image)
    return Markup(re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", image, flags=re.DOTALL))
