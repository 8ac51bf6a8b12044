"""Faults to plant in the code that decides and charges in the ledger, and walks by which ledgers come to show them.

None is in code that the replay (tasks.verify.replay) uses. Each is found by the replay of what the faulty ledger
wrote along some walk, or by a model of the rule: tests/artifacts/ledger/test_ledger_model.py.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from tests import world
from tests.support.openings import batch, outcome
from tests.support.published import opening

charge, admits, freeze = world.Filter.charge, world.Filter.admits, world.Filter.freeze
recapped, budget = world.Filter.recapped, world.Filter.budget
owed, begin, totals, touched = world.Session.owed, world.Session.begin, world.LedgerState.totals, world.Parts.touched_by
begin_batch, open_session, by_part = world.LedgerState.begin, world.LedgerState.open, world.artifacts_parts.by_part


def at_best_order(of: world.Filter, total: world.Charge) -> bool:
    """The classical fault: the best of several orders at admission."""
    return min(replace(of, order=order).spent(total)[0] for order in (of.order, 8.0, 20.0)) <= of.epsilon


def but_the_first(book: world.LedgerState, domain: str, *also: world.Counted) -> dict[str, world.Charge]:
    """The totals without the nats of the first session, once there is another."""
    first = next(iter(book.sessions.values())).charge.renyi if len(book.sessions) > 1 else Decimal(0)
    found = totals(book, domain, *also)
    return {part: replace(total, renyi=total.renyi - min(total.renyi, first)) for part, total in found.items()}


def ignoring_votes(state: world.LedgerState, name: str, new: world.Batch) -> list[world.Entry]:
    known = state.batch(name, new.index)
    return begin_batch(state, name, new if known is None else replace(new, exact_digest=known.exact_digest))


def returned(book: world.LedgerState, domain: str) -> None:
    """A restoration that gives back what the newer copy may have drawn on."""
    for session in book.sessions_of(domain):
        if session.status == "open":
            book.sessions[session.id] = replace(session, status="closed", settled=world.Charge())


def mixed(item: world.Session, **how: bool) -> world.Charge:
    whole = owed(item, **how)
    return replace(whole, renyi=min(whole.renyi, item.reserved.renyi / 2))


def aligned(charges: Iterable[world.Counted]) -> dict[str, world.Charge]:
    """The first seasons of all streams together, the second together, and so on: the most of these."""
    alone, together, seen = world.Charge(), dict[int, world.Charge](), dict[str, int]()
    for each in charges:
        if not each.stream:
            alone += each.charge
            continue
        at = seen[each.stream] = seen.get(each.stream, -1) + 1
        together[at] = together.get(at, world.Charge()) + each.charge
    most = world.Charge()
    for total in together.values():
        most = most.most(total)
    return dict.fromkeys(world.PARTS, alone + most)


def one_stream(charges: Iterable[world.Counted]) -> dict[str, world.Charge]:
    """The most of all streams, and not their sum."""
    return by_part([each._replace(stream=each.stream and "all") for each in charges])


def alone_or_streams(charges: Iterable[world.Counted]) -> dict[str, world.Charge]:
    """Sessions over all units count as another season."""
    return by_part([each._replace(stream=each.stream or "none") for each in charges])


def the_last(charges: Iterable[world.Counted]) -> dict[str, world.Charge]:
    """Of each stream the last season."""
    kept = {each.stream or number: each for number, each in enumerate(charges)}
    return by_part([each._replace(part=world.EVERY) for each in kept.values()])


Fault = tuple[Any, str, Any]
"""Where it is planted, by owner and name, and what stands there then."""
SEASONS: dict[str, Fault] = {
    "streams that are aligned": (world.ledger_state, "by_part", aligned),
    "streams do not add up": (world.ledger_state, "by_part", one_stream),
    "a session over all units is a season": (world.ledger_state, "by_part", alone_or_streams),
    "the last season counts, not the largest": (world.ledger_state, "by_part", the_last),
}
FAULTS: dict[str, Fault] = {
    "charges too little": (
        world.Filter,
        "charge",
        lambda of, cost: replace(whole := charge(of, cost), renyi=whole.renyi * (1 - Decimal("1e-8"))),
    ),
    "charges too much": (
        world.Filter,
        "charge",
        lambda of, cost: replace(whole := charge(of, cost), renyi=whole.renyi * (1 + Decimal("1e-5"))),
    ),
    "charges no additive δ": (world.Filter, "charge", lambda of, cost: replace(charge(of, cost), delta=Decimal(0))),
    "charges at another order": (world.Filter, "charge", lambda of, cost: charge(replace(of, order=2.0), cost)),
    "gives the whole δ to each part": (
        world.Filter,
        "freeze",
        staticmethod(lambda epsilon, delta: replace(freeze(epsilon, delta), delta_additive=delta)),
    ),
    "takes another order": (
        world.Filter,
        "freeze",
        staticmethod(lambda epsilon, delta: replace(cap := freeze(epsilon, delta), order=cap.order + 1)),
    ),
    "recaps one part of δ": (world.Filter, "recapped", lambda of, e, d: replace(recapped(of, e, d), delta_renyi=d)),
    "recaps the order": (world.Filter, "recapped", lambda of, e, d: replace(recapped(of, e, d), order=of.order + 0.25)),
    "returns everything": (world.Session, "owed", lambda *_, **__: world.Charge()),
    "returns what it must keep": (world.Session, "owed", lambda item, **_: owed(item, give_back=True)),
    "returns by a smaller price": (
        world.Session,
        "owed",
        lambda item, **how: owed(replace(item, per_refusal=replace(item.reserved, renyi=Decimal("0.01"))), **how),
    ),
    "forgets the pending batch": (world.Session, "owed", lambda item, **how: owed(replace(item, pending=None), **how)),
    "forgets a refusal": (
        world.Session,
        "owed",
        lambda item, **how: owed(replace(item, refused=max(0, item.refused - 1)), **how),
    ),
    "mixes two bounds": (world.Session, "owed", mixed),
    "forgets what is reserved": (world.Session, "charge", property(lambda item: item.settled or world.Charge())),
    "goes on after the cutoff": (world.Session, "exhausted", property(lambda _: False)),
    "starts rows again": (world.Session, "begin", lambda item, new: begin(replace(item, next_row=new.first), new)),
    "lets votes change": (world.LedgerState, "begin", ignoring_votes),
    "opens further sessions unasked": (
        world.LedgerState,
        "open",
        lambda state, asked, **_: open_session(state, asked, further=True),
    ),
    "admits everything": (world.Filter, "admits", lambda *_: True),
    "forgets Rényi": (world.Filter, "admits", lambda of, total: admits(of, world.Charge(delta=total.delta))),
    "forgets additive δ": (world.Filter, "admits", lambda of, total: admits(of, world.Charge(renyi=total.renyi))),
    "takes the best order at admission": (world.Filter, "admits", at_best_order),
    "forgets one session": (world.LedgerState, "totals", but_the_first),
    "forgets the conversion": (world.Filter, "conversion", property(lambda _: 0.0)),
    "budgets a little more": (world.Filter, "budget", property(lambda of: budget.fget(of) * Decimal("1.001"))),  # type: ignore[attr-defined]
    "returns what a restored copy may have drawn on": (world.LedgerState, "_restore", returned),
    "believes a restored copy": (world.Parts, "continued_by", lambda _, session: session.stream),
    "takes a second secret of one name": (world.Remarks, "check_secret", lambda *_: None),
    "another division counts as this one": (world.Parts, "touched_by", lambda _, session: session.part),
    "what touches every part counts as learning": (
        world.Parts,
        "touched_by",
        lambda book, session: touched(book, session) or world.LEARNING,
    ),
    "what touches every part counts in none": (
        world.ledger_state,
        "by_part",
        lambda charges: by_part([item for item in charges if item[0]]),
    ),
    "the least of the parts is charged": (
        world.ledger_state,
        "largest",
        lambda parts: min(parts.values(), key=lambda total: total.amounts),
    ),
    **SEASONS,
}
"""Production code with one fault each."""

STABLE = world.calibrated_stable(epsilon=1.0, delta=1e-6, cutoff=4)
NOISY = world.calibrated_votes(world.NoisyVotes, epsilon=1.0, delta=1e-6, queries=150, classes=2)
LARGE = world.calibrated_votes(world.NoisyVotes, epsilon=3.0, delta=1e-6, queries=10, classes=2)
SOME = world.calibrated_votes(world.NoisyVotes, epsilon=2.0, delta=1e-6, queries=10, classes=2)
SMALL = world.calibrated_votes(world.NoisyVotes, epsilon=0.2, delta=1e-6, queries=10, classes=2)
TESTED = world.calibrated_test(epsilon=2.0, delta=1e-6, classes=2, secret="rows")
VECTOR = world.calibrated_sparse_vector(epsilon=0.5, delta=1e-6, cutoff=3)
SUBSET = world.Relabelling(hypotheses="stumps", features=("age",), grid="0" * 64, share=0.25, epsilon=1.0, delta=1e-6)
INNER = dict(zip(("epsilon", "delta"), SUBSET.inner, strict=True))
RELABELLED = world.Relabelled(inner=world.calibrated_stable(**INNER, cutoff=4), relabelling=SUBSET)
ONE_ROUND = (world.Round(fields=1, cells=4, least=0, share=1.0),)
LARGE_SEASON, SMALL_SEASON = (
    world.calibrated_sums(world.Stream, epsilon=of, delta=1e-6, classes=2, rounds=ONE_ROUND, season=2)
    for of in (6.0, 0.5)
)
DIVISION = world.Division(commitment="c" * 64, share=0.1, naming='{"data.unit": [["person", false]]}')


def named(ledger: world.Ledger) -> world.Ledger:
    """The ledger with the domain `people`."""
    ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=8.0, delta=1e-4)
    return ledger


def asked(runs: Any, name: str, **changes: Any) -> world.Opening:
    """A session of that mechanism."""
    return replace(opening(runs, name), **changes)


def chosen(name: str, secret: Literal["rows", "labels"]) -> world.Opening:
    """A choice among hypotheses."""
    mechanism = world.Universal(epsilon=0.25, secret=secret)
    terms = {"epsilon": 0.25, "delta": 0.0, "cutoff": None, "queries": None, "teachers": 0, "per_refusal": None}
    return asked(STABLE, name, mechanism=mechanism.model_dump(mode="json"), whole=mechanism.cost, **terms)


def ask(ledger: world.Ledger, mechanism: Any, times: int = 1, **changes: Any) -> int:
    """Open up to so many further sessions of the mechanism. Returns how many were admitted."""
    for number in range(times):
        try:
            ledger.open_session(asked(mechanism, f"of {len(ledger.sessions('people'))}", **changes), further=True)
        except world.BudgetRefused:
            return number
    return times


def season(ledger: world.Ledger, stream: str, mechanism: world.Stream = LARGE_SEASON, part: str = world.EVERY) -> None:
    """Open and end a season."""
    ask(ledger, mechanism, stream=stream, part=part, division=DIVISION.commitment if part else "")
    ledger.settle(ledger.sessions("people")[-1].id, give_back=False)


def everything(ledger: world.Ledger) -> None:
    """All that a ledger goes through: each kind of session, refusals, settlements, recaps, a copy put back."""
    ledger.open_session(asked(STABLE, "s-1"))
    ledger.begin_batch("s-1", batch())
    ledger.commit_batch("s-1", outcome(refused=1))
    ledger.begin_batch("s-1", batch(1, first=100, rows=2))
    ledger.settle("s-1", give_back=True)  # one refusal, and a batch of two that may have been drawn
    ledger.open_session(asked(NOISY, "s-2"), further=True)
    ledger.begin_batch("s-2", batch())
    ledger.commit_batch("s-2", outcome(refused=0))
    ledger.begin_batch("s-2", batch(1, first=100))
    ledger.commit_batch("s-2", outcome(1, asked=50))
    ledger.recap("people", 9.0, 2e-4, "the board said so")
    ledger.remark("people", "erased", "digest of a unit")
    ledger.open_session(chosen("s-3", secret="rows"), further=True)
    ledger.open_session(asked(VECTOR, "s-4"), further=True)
    ledger.settle("s-4", give_back=True)
    ledger.open_session(asked(RELABELLED, "s-5", epsilon=1.0, delta=1e-6), further=True)
    ledger.begin_batch("s-5", batch())
    ledger.commit_batch("s-5", outcome(refused=4))
    ledger.open_session(asked(STABLE, "s-6"), further=True)
    ledger.restore("the disk died")
    ledger.open_session(asked(STABLE, "s-7"), further=True)


def pressed(ledger: world.Ledger) -> None:
    """Rows are begun that nothing is left for."""
    ask(ledger, STABLE)
    ledger.begin_batch("of 0", batch())
    ledger.commit_batch("of 0", outcome(refused=4))
    ledger.begin_batch("of 0", batch(1, first=100))


def filled(ledger: world.Ledger) -> None:
    """The cap is reached."""
    ask(ledger, LARGE, 8)
    ask(ledger, SMALL, 200)


def restored(ledger: world.Ledger) -> None:
    """Open sessions are lost with the newer copy, and more are opened."""
    season(ledger, "a")
    ask(ledger, LARGE, 3)
    ledger.restore("the disk died")
    ask(ledger, LARGE, 8)
    season(ledger, "a")


def rebound(ledger: world.Ledger) -> None:
    """A second secret of one name, after another of its own."""
    for about in ("domains/people first", "streams/weekly first", "domains/people first", "domains/people second"):
        ledger.remark("people", "secret", about)


def divided(ledger: world.Ledger) -> None:
    """Each part is filled."""
    ledger.divide("people", DIVISION)
    ask(ledger, SOME)
    ask(ledger, SOME, 50, part=world.LEARNING, division=DIVISION.commitment)
    ask(ledger, TESTED, 50, part=world.TEST, division="another")
    ask(ledger, TESTED, 50, part=world.TEST, division=DIVISION.commitment)


def seasons(ledger: world.Ledger, streams: str) -> None:
    """Seasons of streams by one letter; a dot is of none, a dash a small one."""
    for of in streams.split():
        season(ledger, of.strip("-."), SMALL_SEASON if "-" in of else LARGE_SEASON)


WALKS: tuple[Callable[[world.Ledger], None], ...] = (
    everything,
    pressed,
    rebound,
    restored,
    *(partial(seasons, streams=streams) for streams in ("a b", "a b- b", "a a- .", ". .")),
    divided,
    filled,
)


def walked(make: Callable[[], world.Ledger]) -> Iterable[world.Ledger]:
    """New ledgers after each walk, as far as it was not refused."""
    for walk in WALKS:
        ledger = make()
        with suppress(world.ConcordError):
            walk(named(ledger))
        yield ledger
