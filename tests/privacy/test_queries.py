"""Stable queries: undeclared answers under neighbours, and exact laws of one release."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from itertools import product

import numpy as np
import pytest

from tests import world
from tests.privacy.attacks import attacks_on
from tests.privacy.audit import audit
from tests.privacy.exact import Steady
from tests.privacy.transcripts import votes_at

Leaders = Callable[[Sequence[Hashable]], tuple[Hashable, tuple[int, int]]]


# Neighbours ---------------------------------------------------------------------------------------------------------


@cache
def distance(counts: tuple[int, int]) -> int:
    return int(world.distance_to_instability(np.array([counts]))[0])


def leaks(leading: Leaders, answers: Sequence[Hashable]) -> bool:
    """Whether some teacher's change of answer breaks what the proofs use: distances one apart, 0 where winners differ.

    Over every vector of five answers out of these. Winners differ where a reader can tell them apart.
    """
    for here in product(answers, repeat=5):
        winner, counts = leading(here)
        for teacher, other in product(range(5), answers):
            there = [*here[:teacher], other, *here[teacher + 1 :]]
            other_winner, other_counts = leading(there)
            near, far = sorted((distance(counts), distance(other_counts)))
            if far - near > 1 or (repr(winner) != repr(other_winner) and far > 0):
                return True
    return False


def test_undeclared_answers_keep_what_the_proofs_use() -> None:
    assert not leaks(world.leaders, ["a", "b", "c", "d"])
    assert not leaks(world.leaders, [1, True, 1.0, 0.0, -0.0])


def test_equal_answers_that_look_different_would_leak() -> None:
    def merged(answers: Sequence[Hashable]) -> tuple[Hashable, tuple[int, int]]:
        ranked = Counter(answers).most_common(2)
        return ranked[0][0], (ranked[0][1], ranked[1][1] if len(ranked) > 1 else 0)

    assert not leaks(merged, ["a", "b", "c"])
    assert leaks(merged, [1, True, 2])


def test_a_distance_that_trusts_a_tie_would_leak() -> None:
    def trusting(answers: Sequence[Hashable]) -> tuple[Hashable, tuple[int, int]]:
        winner, (top, second) = world.leaders(answers)
        return winner, (top + 1, second)

    assert leaks(trusting, ["a", "b", "c"])


def test_only_mechanisms_that_refuse_may_release_undeclared_answers() -> None:
    noisy = world.calibrated_votes(world.NoisyVotes, epsilon=1.0, delta=1e-5, queries=1, classes=2)
    with pytest.raises(world.WrongInput, match="noisy_votes"):
        world.ask_query(noisy, [["a", "b"]], Steady())


# Asking -------------------------------------------------------------------------------------------------------------


def test_a_query_of_no_teachers_is_refused_and_no_queries_have_no_answers() -> None:
    mechanism = world.calibrated_sparse_vector(epsilon=1.0, delta=1e-5, cutoff=1)
    assert world.ask_query(mechanism, [], Steady()) == []
    with pytest.raises(world.WrongInput):
        world.ask_query(mechanism, [[]], Steady())


# One release: exact laws on neighbours, to fifty digits, an audit by attack, and planted bugs --------------------

BUDGETS = [(0.1, 1e-6), (1.0, 1e-5), (1.0, 0.2), (4.0, 1e-9), (40.0, 1e-3), (2.0, 2.0**-60)]
ROUNDING = Decimal("1e-45")


def laplace_law(release: world.LaplaceRelease, *, noise: int = 1, lowered: int = 0) -> list[Decimal]:
    """Probability of an answer by distance, its noise and threshold made smaller as asked; to fifty digits."""
    ratio = (-noise / Decimal(release.scale)).exp()
    first = math.floor(release.threshold) + 1 - lowered
    tails = (first - distance for distance in range(3 * first + 25))
    return [ratio**t / (1 + ratio) if t > 0 else 1 - ratio ** (1 - t) / (1 + ratio) for t in tails]


def delta_reached(law: Sequence[Decimal], epsilon: float, *, jump: int = 1, differing: int = 0) -> Decimal:
    """δ at `epsilon` on the worst neighbours: distances `jump` apart, or labels that differ at `differing`."""
    grows = Decimal(epsilon).exp()
    pairs = [pair for a, b in zip(law, law[jump:], strict=False) for pair in ((a, b), (b, a))]
    none = Decimal(0)
    same = max(max(p - grows * q, none) + max(1 - p - grows * (1 - q), none) for p, q in pairs)
    return max(same, law[differing])


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_laplace_form_spends_what_it_says_and_theorem_2_4_allows(epsilon: float, delta: float) -> None:
    release = world.calibrated_laplace(epsilon=epsilon, delta=delta)
    with localcontext(prec=50):
        reached = delta_reached(laplace_law(release), epsilon)
        assert reached <= Decimal(release.cost.delta) <= reached * (1 + Decimal("3e-9"))
    assert release.cost.delta <= delta
    assert release.cost.epsilon(delta) <= epsilon * (1 + 1e-8)


@pytest.mark.parametrize(
    ("law", "neighbours"),
    [
        pytest.param({}, {"jump": 2}, id="sensitivity halved: margin for distance"),
        pytest.param({"noise": 2}, {}, id="noise halved"),
        pytest.param({"lowered": 1}, {}, id="threshold one too low"),
        pytest.param({}, {"differing": 1}, id="tie broken by data, but trusted"),
    ],
)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS[:4])
def test_planted_bugs_in_the_laplace_form_are_caught(
    law: dict[str, int], neighbours: dict[str, int], epsilon: float, delta: float
) -> None:
    release = world.calibrated_laplace(epsilon=epsilon, delta=delta)
    with localcontext(prec=50):
        assert delta_reached(laplace_law(release, **law), epsilon, **neighbours) > Decimal(release.cost.delta)


def test_the_laplace_form_answers_above_its_threshold_only() -> None:
    release = world.calibrated_laplace(epsilon=1.0, delta=math.exp(-3.5))
    distances = [d for d in range(6) for _ in range(-6, 7)]
    noise = np.array([*range(-6, 7)] * 6)
    expected = [0 if d + y > 3.5 else world.REFUSED for d, y in zip(distances, noise.tolist(), strict=True)]
    assert release.answer(votes_at(distances), noise).tolist() == expected


def answering(table: Sequence[int]) -> list[Decimal]:
    """Exact answer probabilities of a refusal table."""
    return [(world.WHOLE - Decimal(refused)) / world.WHOLE for refused in table]


def is_private(table: Sequence[int], epsilon: float, delta: float) -> bool:
    return delta_reached(answering(table), epsilon) <= Decimal(delta) + ROUNDING


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_optimal_form_is_private_and_no_entry_may_fall(epsilon: float, delta: float) -> None:
    table = [int(entry) for entry in world.calibrated_optimal(epsilon=epsilon, delta=delta).refusal]
    with localcontext(prec=50):
        assert is_private(table, epsilon, delta)
        assert table == sorted(table, reverse=True)
        for distance in range(len(table)):
            slack = max(2, (world.WHOLE - table[distance]) // 10**9)
            if table[distance] > slack:
                lower = [*table[:distance], table[distance] - slack, *table[distance + 1 :]]
                assert not is_private(lower, epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_planted_bugs_in_the_optimal_form_are_caught(epsilon: float, delta: float) -> None:
    table = [int(entry) for entry in world.calibrated_optimal(epsilon=epsilon, delta=delta).refusal]
    with localcontext(prec=50):
        assert not is_private(table[1:], epsilon, delta)  # shifted by one
        assert not is_private([table[0], *table[2:]], epsilon, delta)  # a step left out
        law = answering(table)
        assert delta_reached(law, epsilon, jump=2) > Decimal(delta)  # margin for distance
        assert delta_reached(law, epsilon, differing=1) > Decimal(delta)  # tie broken by data, but trusted


def test_the_optimal_form_refuses_below_its_entry() -> None:
    release = world.calibrated_optimal(epsilon=1.0, delta=0.01)
    last = len(release.refusal) - 1
    assert release.refusal[last] == 0
    for distance in range(last + 3):
        entry = int(release.refusal[min(distance, last)])
        draws = [draw for draw in (0, entry - 1, entry, world.WHOLE - 1) if draw >= 0]
        answers = release.answer(votes_at([distance] * len(draws)), np.array(draws, dtype=np.uint64))
        assert answers.tolist() == [world.REFUSED if draw < entry else 0 for draw in draws]


@dataclass(frozen=True)
class Alone:
    """One question put to shards, as `concord.ask` puts it: they answer with any value, and nobody declared which."""

    form: world.SingleRelease

    def release(self, votes: world.Ints, source: world.RandomSource, first: int, refused: int) -> world.Answers:
        said = [("answer", label) for label, shards in enumerate(votes[0].tolist()) for _ in range(shards)]
        (answer,) = world.ask_query(self.form, [said], source, first, refused)
        return world.Answers(np.array([world.REFUSED if answer is None else answer[1]]))


def proved(form: world.SingleRelease) -> float:
    """The ε that an audit proves of a form; it is wrong once in a hundred million runs."""
    attacks = attacks_on(form, 2, 30)
    return audit(Alone(form).release, attacks, delta=form.delta, trials=5_000, confidence=1 - 1e-8)


LAPLACE = world.calibrated_laplace(epsilon=2.0, delta=1e-6)
OPTIMAL = world.calibrated_optimal(epsilon=2.0, delta=1e-6)
PLANTED: dict[str, world.SingleRelease] = {
    "noise of a sixth of the scale": LAPLACE.with_(scale=LAPLACE.scale / 6),
    "a threshold below 0, so that an answer is released that is not ahead": LAPLACE.with_(threshold=-1.0),
    "probabilities that grow by two steps for one vote": OPTIMAL.with_(refusal=OPTIMAL.refusal[::2].copy()),
    "a table from where half of the questions are answered": OPTIMAL.with_(refusal=OPTIMAL.refusal[7:].copy()),
}


@pytest.mark.parametrize("form", world.FORMS)
def test_an_attack_on_a_question_proves_most_of_what_it_spends_and_no_more(form: str) -> None:
    assert 1 < proved(world.FORMS[form].calibrate(epsilon=2.0, delta=1e-6)) <= 2


@pytest.mark.parametrize("planted", PLANTED)
def test_an_attack_finds_planted_bugs(planted: str) -> None:
    assert proved(PLANTED[planted]) > 2
