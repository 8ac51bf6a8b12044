"""Check what released rounds and releases of tallies asked, against what their session paid for.

It shares no line with what asks them (tasks.mechanisms.tallies and stream, tasks.student.infer).

Assumes      the settings are those on record, and prove their claim (tasks.verify.recompute)
Guarantees   found and named: a round that a unit moves further than was paid for, or with more numbers, other noise or
             another grid; a question that was not announced; a release that asks another question than the first, or
             whose running totals, or their noise, do not follow from what was released
Not covered  the sums themselves, which were drawn
             Checked by tests/tasks/verify/test_recompute_rounds.py and test_every_field.py, and by
             tests/tasks/asks/test_periods.py
"""

import math
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from concord.tasks.verify.kinds import Round, Stream, Tallies
from concord.tasks.verify.recompute_gaussian import (
    MOST_STEPS,
    TALLIES_ROUNDING,
    coefficients,
    moved_norm,
)


def _weights(kind: Stream, releases: int) -> Any:
    """The coefficients of 1/((1 − x)·q(x)): how often a release, from the last on, counts in the totals of so many."""
    q, inverse = coefficients(kind)[:releases], list[float]()
    for k in range(len(q)):  # of 1/q(x), by long division
        inverse.append(((k == 0) - sum(q[j] * inverse[k - j] for j in range(1, k + 1))) / q[0])
    return np.cumsum(inverse)


def totals_off(kind: Stream, sums: Any, totals: Any) -> float:
    """Error of the running totals of a question's last release, in steps, beyond what rounding explains.

    sums    (releases, numbers) of all releases so far, in order
    totals  (numbers,) that the last of them states
    """
    weights, released = _weights(kind, len(sums))[::-1], np.asarray(sums, np.float64)
    most = 1 / 2 + TALLIES_ROUNDING * float(np.abs(weights[:, None] * released).sum(axis=0).max(initial=0.0))
    return float(np.abs(weights @ released - np.asarray(totals, np.float64)).max(initial=0.0)) - most


def _asked_fault(kind: Stream, number: int, found: Mapping[str, Any]) -> str:
    """What is wrong with what a release asked, as for rounds, one for each question."""
    if (found["release"], found["season"]) != (number, kind.season):
        return f"release {number} does not continue the season"
    asked = zip(found["questions"], found["sums"], found["scales"], kind.rounds, strict=True)
    for at, (question, sums, scale, paid) in enumerate(asked):
        if fault := round_fault(kind, at, {"round": at, "question": question, "sums": sums, "scale": scale}):
            return f"release {number}: {fault}"
        whole = len(question["fields"]) != paid.fields or question["steps"] == kind.steps
        if question["model"] is not None or question["least"] != paid.least or not whole:
            return f"release {number} asks another question than was paid for"
    return ""


def season_fault(kind: Stream, found: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with the releases of a season so far, in order; empty if nothing is.

    They must ask what the season paid for, all the same and of no model, and their totals follow from their sums.
    """
    try:
        sizes = [[len(sums) for sums in found[0]["sums"]] if found else []]
        for number, release in enumerate(found):
            if fault := _asked_fault(kind, number, release):
                return fault
            asked, first = release["questions"], found[0]["questions"]
            if asked != first:
                return f"release {number} does not continue the season"
            sizes += [[len(numbers) for numbers in release[what]] for what in ("sums", "totals")]
            for question, totals in enumerate(release["totals"]):
                sums = [each["sums"][question] for each in found[: number + 1]]
                if not totals_off(kind, sums, totals) <= 0:  # nor if it is no number
                    return f"the running totals of release {number} do not follow from what was released"
            if not math.isclose(release["spread"] ** 2, sum(_weights(kind, number + 1) ** 2), rel_tol=1e-9):
                return f"release {number} states other noise than its totals have"
        if any(size != sizes[0] for size in sizes[1:]):
            return "a release has another size than was paid for"
    except (KeyError, IndexError, TypeError, ValueError):
        return "a release is not what a season releases"
    return ""


def round_fault(kind: Tallies, number: int, found: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """What is wrong with what a released round asked; empty if nothing is.

    before   the round before, which may have announced the question
    On whatever grid, it must move no further by a unit, and have no more numbers, than its round paid for.
    """
    try:
        paid, asked, sums = kind.rounds[number], found["question"], found["sums"]
        ordered, announced = sorted(asked["spans"]), (before or {}).get("next") or {}
        whole = [asked["steps"], asked["least"], *asked["fields"], *chain(*ordered), *sums]
        if any(type(each) is not int for each in whole):
            return f"round {number} holds something else than whole numbers"
        if any(announced.get(name, asked[name]) != asked[name] for name in ("fields", "model")):
            return f"round {number} asks another question than the round before announced"
        grid = kind.model_copy(update={"steps": asked["steps"]})
        own = {"least": asked["least"], "fields": len(asked["fields"]), "cells": len(sums)}
        due = (number, kind.classes, paid.what, paid.count)
        if (found["round"], asked["classes"], asked["what"], asked["count"]) != due:
            return f"round {number} asks another question than was paid for"
        if found["scale"] != paid.scale:
            return f"round {number} states other noise than was paid for"
        columns = 1 if asked["what"] == "codes" or asked["classes"] <= 2 else asked["classes"]
        size = sum(stop - start for start, stop in asked["spans"]) * columns + (asked["count"] > 0)
        if any(not 0 <= start < stop for start, stop in ordered) or any(a[1] > b[0] for a, b in pairwise(ordered)):
            return f"round {number} asks for a cell twice, or for none"
        once = len({*asked["fields"]}) == len(asked["fields"]) == len(ordered)
        if not once or min(asked["fields"], default=0) < 0 or not len(sums) == size <= paid.cells:
            return f"round {number} has another size than was paid for"
        steady = 0 <= asked["least"] <= asked["steps"] <= MOST_STEPS
        if not steady or moved_norm(grid, paid.model_copy(update=own)) > moved_norm(kind, paid):
            return f"a unit moves round {number} further than was paid for"
        if (asked["steps"], asked["least"]) != _grid(kind, paid, len(asked["fields"])):
            return f"round {number} has another grid than was paid for"
    except (KeyError, IndexError, TypeError, ValueError):
        return f"round {number} is not what tallies release"
    return ""


def _grid(kind: Tallies, paid: Round, fields: int) -> tuple[int, int]:
    """The most steps of a vote, and the least count of steps, with which that many fields move as far as was paid
    for."""
    whole = kind.steps
    if fields == paid.fields or not kind.classes:
        return whole, paid.least

    def fits(steps: int) -> bool:
        own = paid.model_copy(update={"fields": fields, "least": paid.least * steps // whole})
        return moved_norm(kind.model_copy(update={"steps": steps}), own) <= moved_norm(kind, paid)

    most = min(MOST_STEPS, math.isqrt(whole**2 * paid.fields // fields))
    steps = next(each for each in range(most, 0, -1) if each < 2 or fits(each))
    return steps, paid.least * steps // whole
