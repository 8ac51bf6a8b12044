"""The mechanisms by name, and how each is calibrated from public settings alone."""

from collections.abc import Callable
from functools import partial

from artifacts.errors import WrongInput
from tasks.mechanisms.confident import Confident
from tasks.mechanisms.laplace_votes import LaplaceVotes
from tasks.mechanisms.noisy_votes import NoisyVotes
from tasks.mechanisms.published import Published
from tasks.mechanisms.sparse_vector import SparseVector
from tasks.mechanisms.stable import StableVoting
from tasks.mechanisms.voting import Mechanism


def calibrate(
    name: str,
    *,
    epsilon: float,
    delta: float,
    cutoff: int | None,
    queries: int,
    classes: int,
    teachers: int,
    order: float,
) -> Mechanism:
    """The mechanism `name` that spends at most (epsilon, delta) by its end.

    cutoff    refusals until it halts, for the mechanisms that pay by refusal
    queries   rows it may answer at most, for those that pay by row
    order     the Rényi order its cost is charged at in its domain, where it must be finite
    Raises WrongInput where the settings cannot be met.
    """
    at = cutoff or 0
    makers: dict[str, Callable[..., Mechanism]] = {
        "stable": partial(StableVoting.calibrate, cutoff=at, least_order=order),
        "sparse_vector": partial(SparseVector.calibrate, cutoff=at),
        "published": partial(Published.calibrate, cutoff=at, queries=queries),
        "noisy_votes": partial(NoisyVotes.calibrate, queries=queries, classes=classes),
        "laplace_votes": partial(LaplaceVotes.calibrate, queries=queries, classes=classes),
        "confident": partial(Confident.calibrate, queries=queries, classes=classes, teachers=teachers),
    }
    if name not in makers:
        raise WrongInput(f"labeling.mechanism must be one of {', '.join(makers)}, got {name!r}")
    try:
        return makers[name](epsilon=epsilon, delta=delta)
    except ValueError as wrong:
        raise WrongInput(f"labeling: {wrong}") from None
