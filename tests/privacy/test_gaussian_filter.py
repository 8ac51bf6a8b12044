"""The filter `gaussian`: exact adversaries that open what the ledger admits, by what came before; and wrong filters.

A question has a law of its privacy loss, in steps of STEP. The asker sees every outcome and opens what it likes; the
worst is found by trying all, at every ε of GRID at once: what a Gaussian filter promises holds for all of them. The
ledger is the real one. Each wrong filter is planted in it, or played beside it, and breaks the promise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from concord.artifacts.domains import Domain, Filter, FilterKind, GaussianFilter, freeze
from concord.artifacts.errors import BudgetRefused
from concord.artifacts.gaussian import delta_above, mu_of_pure, mu_of_range
from concord.artifacts.ledger.events import Entry, LogRecord
from concord.artifacts.ledger.state import LedgerState
from concord.artifacts.privacy import Charge, Cost, Pure, WholeClaim, compose
from concord.artifacts.sessions import Opening, Session
from concord.tasks.mechanisms.laplace_votes import LaplaceVotes
from concord.tasks.mechanisms.sparse_vector import SparseVector
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.mechanisms.tallies import Round, Tallies
from tests.artifacts.ledger.openings import batch, outcome
from tests.privacy.exact import Floats
from tests.support.published import opening

STEP = 0.25
GRID = tuple(STEP * at for at in range(33))
Law = tuple[tuple[float, int | None], ...]
"""Odds of an outcome, and its privacy loss in steps; None if the other side never has it."""


@dataclass(frozen=True)
class Kind:
    """A question that may be asked: what it costs, and the law of its loss against the worst neighbour."""

    cost: Cost
    law: Law


def response(steps: int, delta: float = 0.0) -> Kind:
    """Randomised response, which with odds δ tells everything."""
    epsilon = steps * STEP
    high = (1 - delta) / (1 + math.exp(-epsilon))
    told: Law = ((delta, None),) if delta else ()
    return Kind(Cost.approximate(epsilon, delta), ((high, steps), (1 - delta - high, -steps), *told))


def choice(steps: int, top: int) -> Kind:
    """The worst answer of bounded range: losses `top` and `top − steps`."""
    low = math.expm1((steps - top) * STEP) / math.expm1(steps * STEP)
    high = low * math.exp(top * STEP)
    return Kind(Cost.bounded_range(steps * STEP), ((high, top), (1 - high, top - steps)))


@dataclass(frozen=True)
class Game:
    """A domain and what may be asked in it. `closing`: a session that told anything is closed, which gives nothing
    back."""

    kinds: tuple[Kind, ...]
    epsilon: float
    delta: float
    filter_kind: FilterKind = "gaussian"
    closing: bool = False
    most: int = 9

    @property
    def domain(self) -> Domain:
        terms = {"unit": "u", "neighbours": "add or remove one unit"}
        return Domain.frozen("people", self.filter_kind, **terms, epsilon=self.epsilon, delta=self.delta)

    def admits(self, asked: tuple[int, ...], closed: tuple[int, ...]) -> bool:
        """Whether a real ledger opens so many sessions of each kind, if so many of them were closed at once."""
        book = LedgerState()
        write(book, lambda: book.name(self.domain))
        try:
            for at, (count, ended) in enumerate(zip(asked, closed, strict=True)):
                for number in range(count):
                    name = f"{at}-{number}"
                    write(book, partial(book.open, self._opening(name, at), further=True))
                    if number < ended:
                        write(book, partial(book.settle, name, give_back=True))
        except BudgetRefused:
            return False
        return True

    def _opening(self, name: str, at: int) -> Opening:
        asked = opening(StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=1), name)
        once = replace(asked, cutoff=None, queries=1, per_refusal=None, mechanism={"name": "a question"})
        return replace(once, commitment=name, whole=self.kinds[at].cost)


def write(book: LedgerState, decide: Callable[[], list[Entry]]) -> None:
    for entry in decide():
        book.read(LogRecord.after(book.head, entry, at="now"))


def worst(*games: Game) -> Floats:
    """The largest δ at each ε of GRID that any asker reaches who plays in all of the games at once."""
    kinds = [(at, number) for at, game in enumerate(games) for number in range(len(game.kinds))]
    admits = [cache(game.admits) for game in games]
    Counts = tuple[tuple[int, ...], ...]

    @cache
    def gain(asked: Counts, closed: Counts, loss: int) -> Floats:
        best = np.maximum(0.0, -np.expm1(np.array(GRID) - loss * STEP))
        for at, number in kinds:
            game, more = games[at], _one_more(asked, at, number)
            if sum(more[at]) > game.most or not admits[at](more[at], closed[at]):
                continue
            found = np.zeros(len(GRID))
            for odds, lost in game.kinds[number].law:
                ended = _one_more(closed, at, number) if game.closing and (lost or 1) > 0 else closed
                found += odds * (1.0 if lost is None else gain(more, ended, loss + lost))
            best = np.maximum(best, found)
        return best

    none = tuple((0,) * len(game.kinds) for game in games)
    return gain(none, none, 0)


def _one_more(counts: tuple[tuple[int, ...], ...], at: int, number: int) -> tuple[tuple[int, ...], ...]:
    own = tuple(count + (place == number) for place, count in enumerate(counts[at]))
    return (*counts[:at], own, *counts[at + 1 :])


def promised(game: Game) -> Floats:
    """δ_μ(ε) of the cap, at each ε of GRID; and δ_A, if a question may spend of it."""
    rule = game.domain.filter
    mu, additive = math.sqrt(rule.budget), any(kind.cost.delta for kind in game.kinds)
    return np.array([float(delta_above(mu, epsilon)) for epsilon in GRID]) + rule.delta_additive * additive


PURE = Game((response(2),), 1.5, 0.1)
MIXED = Game((response(2, 0.01), choice(3, 1), choice(3, 2)), 1.0, 0.1, most=5)
TELLING = Game((response(1, 0.02),), 1.0, 0.1)
LOUD = Game((response(8),), 6.0, 0.1)
CLOSED = Game((response(2),), 1.5, 0.1, closing=True)
GAMES = {"pure": PURE, "of all kinds": MIXED, "that tell all": TELLING, "loud": LOUD, "that are closed": CLOSED}


@pytest.mark.parametrize("name", GAMES)
def test_no_asker_gets_beyond_the_promise_at_any_epsilon(name: str) -> None:
    game = GAMES[name]
    found = worst(game)
    assert (found <= promised(game)).all()
    assert found[GRID.index(game.epsilon)] <= game.delta
    assert found[0] > 0.35 * promised(game)[0]  # it does spend


CHARGE = GaussianFilter.charge
FAULTS: dict[str, tuple[Game, type, str, object]] = {
    "μ is added instead of μ²": (
        LOUD,
        GaussianFilter,
        "charge",
        lambda rule, cost: replace(CHARGE(rule, cost), mu_squared=CHARGE(rule, cost).mu_squared.sqrt()),
    ),
    "a δ is forgotten": (
        TELLING,
        GaussianFilter,
        "charge",
        lambda rule, cost: replace(CHARGE(rule, cost), delta=Decimal(0)),
    ),
    "half of μ is charged": (
        PURE,
        GaussianFilter,
        "charge",
        lambda rule, cost: replace(CHARGE(rule, cost), mu_squared=CHARGE(rule, cost).mu_squared / 4),
    ),
    "what was begun is refunded": (CLOSED, Session, "owed", lambda *_, **__: Charge()),
    "everything is admitted": (PURE, GaussianFilter, "admits", lambda *_: True),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_filter_breaks_the_promise(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    game, owner, name, twin = FAULTS[fault]
    bound = promised(game)
    monkeypatch.setattr(owner, name, twin)
    assert (worst(game) > bound).any()


@dataclass(frozen=True)
class Rounds(Game):
    """Sessions of two rounds, each a randomised response, that are closed after one or two of them; the asker sees a
    round that was begun, even if the process was killed before it was committed."""

    def admits(self, asked: tuple[int, ...], closed: tuple[int, ...]) -> bool:  # noqa: ARG002
        book, each = LedgerState(), response(2).cost
        write(book, lambda: book.name(self.domain))
        for rounds, count in enumerate(asked, 1):
            for name in (f"{rounds}-{number}" for number in range(count)):
                asks = replace(self._opening(name, 0), queries=2, whole=compose([each, each]), rounds=(each, each))
                try:
                    write(book, partial(book.open, asks, further=True))
                except BudgetRefused:
                    return False
                for at in range(rounds):
                    write(book, partial(book.begin, name, batch(at, first=at, rows=1)))
                    if at == 0 and rounds == 2:
                        write(book, partial(book.commit, name, outcome(0, asked=1)))
                write(book, partial(book.settle, name, give_back=True))
        return True


ONE = response(2)
BOTH = Kind(compose([ONE.cost] * 2), tuple((p * q, int(a or 0) + int(b or 0)) for p, a in ONE.law for q, b in ONE.law))
STOPPING = Rounds((ONE, BOTH), 1.5, 0.1)


def test_rounds_never_begun_return_and_no_asker_gets_beyond_the_promise() -> None:
    each, budget = STOPPING.domain.filter.charge(ONE.cost), STOPPING.domain.filter.budget
    fit = int(budget / each.mu_squared)
    assert STOPPING.admits((fit - 1, 0), ())  # each reserves two, and one returns
    assert not STOPPING.admits((fit, 0), ())
    assert not STOPPING.admits((0, fit // 2 + 1), ())
    found = worst(STOPPING)
    assert (found <= promised(STOPPING)).all()
    assert found[0] > 0.35 * promised(STOPPING)[0]


OWED = Session.owed
REFUNDS: dict[str, Callable[..., Charge]] = {
    "a round that was begun and not committed": lambda item, **how: OWED(replace(item, next_row=item.asked), **how),
    "one round too many": lambda item, **how: OWED(replace(item, next_row=max(0, item.next_row - 1)), **how),
}


@pytest.mark.parametrize("fault", REFUNDS)
def test_a_refund_of_a_round_that_may_have_been_seen_breaks_the_promise(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = promised(STOPPING)
    monkeypatch.setattr(Session, "owed", REFUNDS[fault])
    assert (worst(STOPPING) > bound).any()


def test_adding_over_the_tree_instead_of_the_path_breaks_the_promise() -> None:
    """Most paths stop at once, and their share is spent on the others: the mean over the tree is within the cap."""
    rule, each, first = PURE.domain.filter, response(2), choice(8, 7)
    (told, lost), (other, less) = first.law
    start, once = rule.charge(first.cost).mu_squared / 4, rule.charge(each.cost).mu_squared
    most = int((rule.budget - start) / once / Decimal(told))
    assert start + most * Decimal(told) * once <= rule.budget < start + most * once

    def gain(left: int, loss: int) -> Floats:
        best = np.maximum(0.0, -np.expm1(np.array(GRID) - loss * STEP))
        if not left:
            return best
        found = sum(odds * gain(left - 1, loss + int(lost or 0)) for odds, lost in each.law)
        return np.asarray(np.maximum(best, found))

    found = told * gain(most, int(lost or 0)) + other * gain(0, int(less or 0))
    assert (found > promised(PURE)).any()


def test_admitting_by_exact_trade_off_curves_breaks_the_promise() -> None:
    """A natural f-DP filter (arXiv:2602.06756): each second question, composed exactly with the first, is within the
    curve of the cap, both ways; chosen by what the first said, they are not."""
    first, mu = response(4), math.sqrt(GaussianFilter.freeze(3.0, 0.1).budget)
    grid = np.array([-at for at in GRID[:0:-1]] + list(GRID))
    ahead = np.array([float(delta_above(mu, abs(at))) for at in grid])
    curve = np.where(grid < 0, -np.expm1(grid) + np.exp(grid) * ahead, ahead)

    def law(top: int, low: int) -> Law:
        q = -math.expm1(low * STEP) / (math.exp(top * STEP) - math.exp(low * STEP))
        return ((q * math.exp(top * STEP), top), (1 - q * math.exp(top * STEP), low))

    def after(second: Law, loss: int | None) -> Floats:
        lost = [(odds, STEP * ((loss or 0) + (more or 0))) for odds, more in second]
        return np.asarray(sum(odds * np.maximum(0.0, -np.expm1(grid - at)) for odds, at in lost))

    def composed(second: Law) -> Floats:
        return np.asarray(sum(odds * after(second, loss) for odds, loss in first.law))

    seconds = [law(top, low) for top in range(1, 16) for low in range(-16, 0)]
    admitted = [second for second in seconds if (composed(second) <= curve).all()]
    assert 0 < len(admitted) < len(seconds)
    adaptive = sum(odds * np.max([after(second, loss) for second in admitted], axis=0) for odds, loss in first.law)
    assert (adaptive > curve * 1.001).any()


def test_a_stable_session_is_charged_whole_however_early_it_stops() -> None:
    stable = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20, order=GaussianFilter.order)
    session = _admitted(stable)
    assert session.per_refusal is None
    assert session.owed(give_back=True) == session.reserved == GaussianFilter.freeze(20.0, 1e-3).charge(stable.cost)
    assert session.reserved.mu_squared >= Decimal(mu_of_pure(1.0)) ** 2
    assert session.reserved.delta == pytest.approx(Decimal("1e-5"))


def _admitted(stable: StableVoting) -> Session:
    book, asked = LedgerState(), opening(stable, "s-1")
    terms = {"unit": "u", "neighbours": "add or remove one unit"}
    write(book, lambda: book.name(Domain.frozen(asked.domain, "gaussian", **terms, epsilon=20.0, delta=1e-3)))
    write(book, lambda: book.open(asked, further=False))
    return book.session("s-1")


def test_two_domains_of_the_same_people_keep_the_sum_of_both_caps_whatever_their_filters() -> None:
    games = Game((response(1),), 0.75, 0.1), Game((response(1),), 0.75, 0.1, "renyi")
    found, at = worst(*games), GRID.index(0.75)
    assert found[GRID.index(1.5)] <= 0.2
    assert found[at] > max(worst(game)[at] for game in games) > 0


def sums_of(epsilon: float, delta: float) -> Cost:
    rounds = [
        Round(fields=14, cells=450, least=0, count=100, share=0.3),
        Round(fields=7, cells=450, least=8, share=0.7),
    ]
    return Tallies.calibrate(epsilon=epsilon, delta=delta, classes=2, rounds=rounds).cost


def test_under_4_and_4e5_thirteen_sums_of_1_and_1e5_fit_where_eleven_do_by_renyi() -> None:
    cost, fit, first = sums_of(1.0, 1e-5), {}, {}
    for kind in ("renyi", "gaussian"):
        game = Game((Kind(cost, ()),), 4.0, 4e-5, kind)
        rule = game.domain.filter
        fit[kind], first[kind] = rule.more(Charge(), rule.charge(cost)), rule.spent(rule.charge(cost))
        assert game.admits((fit[kind],), (0,))
        assert not game.admits((fit[kind] + 1,), (0,))
    assert fit == {"renyi": 11, "gaussian": 13}
    assert first["gaussian"][0] == pytest.approx(0.904, abs=1e-3)
    assert first["gaussian"][1] == 4e-5
    assert first["renyi"][0] == pytest.approx(1.925, abs=1e-3)


ROWS: dict[str, Callable[[float, float, float], Cost]] = {
    "`tallies`": lambda epsilon, delta, _: sums_of(epsilon, delta),
    "`laplace_votes`": lambda e, d, _: LaplaceVotes.calibrate(epsilon=e, delta=d, queries=100, classes=2).cost,
    "`stable`": lambda e, d, order: StableVoting.calibrate(epsilon=e, delta=d, cutoff=20, order=order).cost,
    "`sparse_vector`": lambda e, d, _: SparseVector.calibrate(epsilon=e, delta=d, cutoff=20).cost,
    "one choice": lambda epsilon, *_: Cost.bounded_range(epsilon),
}
COLUMNS = ((4.0, 4e-5, 1.0, 1e-5), (4.0, 4e-5, 0.1, 1e-6), (10.0, 1e-5, 1.0, 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_the_table_of_how_many_fit_is_as_the_filters_count(name: str) -> None:
    page = (Path(__file__).parents[2] / "artifacts" / "README.md").read_text(encoding="utf-8")
    (line,) = [row for row in page.splitlines() if row.startswith(f"| {name}") and " / " in row]
    cells = [cell.replace("*", "").replace(",", "").split(" / ") for cell in line.split(" | ")[1:]]
    for (cap, most, epsilon, delta), cell in zip(COLUMNS, cells, strict=True):
        rules = freeze("renyi", cap, most), freeze("gaussian", cap, most)
        fit = [rule.more(Charge(), rule.charge(ROWS[name](epsilon, delta, rule.order))) for rule in rules]
        assert [int(word.strip(" |")) for word in cell] == fit


def test_a_session_that_claims_less_than_it_costs_is_refused() -> None:
    stable = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
    cheaper = replace(stable.cost, parts=(WholeClaim(epsilon=0.9, delta=1e-5, cost=stable.cost),))
    with pytest.raises(ValueError, match="it is not within"):
        GaussianFilter.freeze(20.0, 1e-3).charge(cheaper)


@pytest.mark.parametrize("kind", ["renyi", "gaussian"])
def test_further_sessions_are_counted_as_they_would_be_admitted(kind: FilterKind) -> None:
    rule = freeze(kind, 4.0, 4e-5)
    each = rule.charge(Cost.approximate(0.2, 1e-7))
    more = rule.more(each, each)
    assert rule.admits(each.times(more + 1))
    assert not rule.admits(each.times(more + 2))


def test_the_two_proofs_of_a_choice_and_a_pure_answer_differ_by_half() -> None:
    assert mu_of_range(0.8) == mu_of_pure(0.4)
    assert GaussianFilter.freeze(4.0, 0.1).charge(Cost.bounded_range(0.8)) == GaussianFilter.freeze(4.0, 0.1).charge(
        Cost(renyi=Cost.gaussian(0.0).renyi, parts=(Pure(epsilon=0.4),))
    )


def test_a_quarter_of_delta_is_additive_exactly() -> None:
    rule = GaussianFilter.freeze(4.0, 4e-5)
    assert Fraction(rule.delta_additive) * 4 == Fraction(rule.delta)
    assert isinstance(freeze("renyi", 4.0, 4e-5), Filter)
