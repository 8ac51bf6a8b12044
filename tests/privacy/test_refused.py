"""What no proof covers is refused: budgets of every mechanism, each one's own settings, and numbers given to bounds."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.support.recorded import ASKED, BUDGET, DRAWN
from tests.support.sentences import facts

BUDGETS = {"epsilon": (0.0, -1.0, math.inf, math.nan), "delta": (0.0, 1.0, -1e-5, math.nan)}
CHARGED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    **ASKED,
    "a choice": (world.ExponentialMechanism, {"epsilon": 1.0}),
    "what relabelling leaves": (partial(world.inner_budget, share=0.5, choice_epsilon=1.0), BUDGET),
}


@pytest.mark.parametrize("name", CHARGED)
def test_a_budget_that_is_none_is_refused_of_every_mechanism(name: str) -> None:
    make, given = CHARGED[name]
    for field in BUDGETS.keys() & given.keys():
        for wrong in BUDGETS[field]:
            with pytest.raises(world.WrongInput, match=facts(field)):
                make(**{**given, field: wrong})


ONE = world.Round(fields=2, cells=99, least=16, count=12, share=1.0)
CODES = ONE.with_(what="codes", least=0, count=0)
TABLES, PAIRS, LABELS = (CODES.with_(share=0.1), CODES.with_(share=0.1), ONE.with_(count=0, share=0.1))
COUNTED = TABLES.with_(count=1)
OWN: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"cutoff": 0}, "cutoff") for name in ("stable", "sparse_vector", "published")),
    *((name, {"queries": 0}, "queries") for name in ("noisy_votes", "laplace_votes", "confident", "published")),
    *((name, {"classes": 1}, "classes") for name in ("noisy_votes", "confident", "tallies", "private_test")),
    ("stable", {"delta": 1e-16, "cutoff": 10}, "delta"),
    ("noisy_votes", {"epsilon": 1e-12, "delta": 1e-280}, "the budget is too small"),
    ("stable", {"epsilon": 1e-4, "cutoff": 10**6}, "epsilon"),
    ("published", {"epsilon": 16.0, "cutoff": 3000, "queries": 3001}, "epsilon = 16"),
    *(
        (form, wrong, "single release")
        for form in ("laplace", "optimal")
        for wrong in ({"epsilon": 601}, {"delta": 1e-19})
    ),
    ("optimal", {"epsilon": 1e-6, "delta": 1e-9}, "beyond distance"),
    ("tallies", {"rounds": ()}, "at least one round"),
    ("tallies", {"rounds": (ONE.with_(share=1.5),)}, "shares that add up"),
    ("tallies", {"rounds": (ONE.with_(fields=0),)}, "needs fields"),
    ("tallies", {"rounds": (ONE,), "secret": "labels"}, "units and codes are not counted"),
    ("tallies", {"rounds": (CODES,), "secret": "labels"}, "units and codes are not counted"),
    *(
        ("sketch", {"rounds": rounds}, "asks one-way tables")
        for rounds in (
            (LABELS,),
            (COUNTED,),
            (LABELS, COUNTED),
            (COUNTED, PAIRS, PAIRS, LABELS),
            (COUNTED, LABELS, PAIRS, LABELS),
        )
    ),
    ("sketch", {"rounds": (TABLES, PAIRS, LABELS)}, "counts units in its first step"),
    ("sketch", {"rounds": (COUNTED, COUNTED, LABELS)}, "counts units in its first step"),
    ("sketch", {"rounds": (LABELS,), "secret": "labels"}, "the rows are public"),
    *(("stream", wrong, "a season has 1 to") for wrong in ({"season": 0}, {"season": 5000}, {"bits": 9})),
    ("private_test", {"secret": "rests"}, "a private test needs"),
    *(("error_estimate", wrong, "at least 1 shard and at least 1 step") for wrong in ({"shards": 0}, {"steps": 0})),
]
"""A mechanism, settings that it cannot have, and what is said of them."""


@pytest.mark.parametrize(("name", "wrong", "said"), OWN)
def test_settings_that_a_mechanism_cannot_have_are_refused(name: str, wrong: dict[str, Any], said: str) -> None:
    make, given = ASKED[name]
    with pytest.raises(world.WrongInput, match=said):
        make(**{**given, **wrong})


CAPPED = partial(world.calibrated_confident, **BUDGET, queries=10, classes=2, teachers=5)
PRINTED = partial(world.calibrated_published, **BUDGET, cutoff=5, queries=10)
SPACE = partial(world.Relabelling, hypotheses="stumps", features=("age",), grid="0" * 64, **BUDGET)
SCALES = [(name, field) for name, each in DRAWN.items() for field in vars(each) if field.endswith("scale")]
ERRING = partial(world.exact_cutoff, queries=10, teachers=5)
INPUTS: list[tuple[str, Callable[[], object]]] = [
    *(("answers must be", partial(CAPPED, answers=answers)) for answers in (0, 11)),
    *(  # of a smaller one a session ran, and its certificate did not verify
        (
            "1e-280 ≤ delta",
            partial(world.calibrated_votes, world.NoisyVotes, epsilon=1.0, delta=delta, queries=9, classes=2),
        )
        for delta in (0.0, 1e-300)
    ),
    (  # its session was charged, and then nothing could be drawn
        "the budget is too small for noise that can be drawn",
        partial(world.calibrated_confident, epsilon=1e-9, delta=1e-12, queries=100_000, classes=2, teachers=250),
    ),
    *(
        ("scale of noise must be", partial(draw, scale, 1))
        for draw in (world.mechanisms_noise.laplace, world.mechanisms_noise.gaussian)
        for scale in (0.0, -1.0, math.nan, math.inf, 2.0**41)
    ),
    *(  # planted, their sessions were charged, and then nothing could be drawn
        ("scale of noise must be", partial(DRAWN[name].with_, **{field: scale}))
        for name, field in SCALES
        for scale in (0.0, -1.0, math.nan, math.inf, 2.0**41)
    ),
    ("beta", partial(PRINTED, beta=0.0)),
    ("threshold", partial(DRAWN["sparse_vector"].with_, threshold=-1)),
    ("sensitivity", partial(world.ExponentialMechanism, epsilon=1.0, sensitivity=0)),
    *(("relabel: ", partial(SPACE, share=share, choice_epsilon=1.0)) for share in (0.0, 1.1)),
    *(("relabel: ", partial(SPACE, share=0.5, choice_epsilon=epsilon)) for epsilon in (0.0, -1.0)),
    *(("error must be between 0 and 1", partial(ERRING, error=x, beta=0.1)) for x in (0.0, 1.0, -1.0, math.nan)),
    *(("beta must be between 0 and 1", partial(ERRING, error=0.1, beta=x)) for x in (0.0, 1.0, -1.0, math.nan)),
    (facts("hypotheses", "stumps", "got 'trees'"), partial(world.hypothesis_class, "trees", columns=[0])),
    ("rectangles need 2 features, got 1", partial(world.hypothesis_class, "rectangles", columns=[0])),
    (facts("stumps", "columns", "one or more"), partial(world.hypothesis_class, "stumps", columns=[])),
    (facts("stumps", "columns", "different"), partial(world.hypothesis_class, "stumps", columns=[0, 0])),
    (facts("grid", "2 columns"), partial(world.hypothesis_class, "stumps", columns=[0, 1], grid=[(0.0, 1.0)])),
    *(
        ("finite numbers in rising order", partial(world.hypothesis_class, "stumps", columns=[0], grid=[points]))
        for points in ((1.0, 0.0), (0.0, math.nan))
    ),
    (
        facts("3,348,901 dichotomies", "2,097,152"),
        partial(world.hypothesis_class, "rectangles", columns=[0, 1], grid=[range(60)] * 2),
    ),
    (
        "rectangles: up to .* use fewer features",
        lambda: world.hypothesis_class("rectangles", columns=[0, 1]).dichotomies(np.arange(200.0).reshape(-1, 2)),
    ),
]
"""What is said, and what is asked for."""


@pytest.mark.parametrize(("said", "ask"), INPUTS)
def test_inputs_that_no_theorem_covers_are_refused(said: str, ask: Callable[[], object]) -> None:
    with pytest.raises(world.WrongInput, match=said):
        ask()


WITH_TABLE = partial(world.StableVoting, epsilon=1.0, delta=1e-6, cutoff=1, order=5.0)
OURS: list[tuple[str, Callable[[], object]]] = [
    *(
        ("refusal must", partial(WITH_TABLE, refusal=np.array(table, np.uint64)))
        for table in ([], [5, 6], [5, 0], [[7, 5]])
    ),
    *(("delta must be", partial(world.Cost.approximate, 0.1, delta)) for delta in (-1e-9, 1.0, math.nan)),
    *(
        ("renyi must hold", partial(world.Cost, renyi=renyi))
        for renyi in ((0.1,), (-0.1,) * len(world.ORDERS), (math.nan,) * len(world.ORDERS))
    ),
]
"""What is said of our own errors, and what is asked for."""


@pytest.mark.parametrize(("said", "ask"), OURS)
def test_numbers_that_no_law_has_are_an_error_of_ours(said: str, ask: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=said):
        ask()
