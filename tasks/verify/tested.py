"""Verify a private test's figures: shares, intervals and groups must follow from the noisy counts that it released.

Independent of `tasks.mechanisms.private_test`: the noise of a sum is treated as normal, less one, so an interval must
be about as wide, or wider.

Assumes      counts are those of the released file, and scales those of the recorded settings
Guarantees   found and named: an estimate that is another; an interval narrower than noise and sampling make it; a group
             that is missing, or has figures although it is too small, or none although it is not
Not covered  intervals wider than they need be; how many sessions looked at the units before. Checked by
             tests/tasks/verify/test_verify_tested.py
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from concord.artifacts.errors import NotVerified
from concord.artifacts.kinds import PrivateTest
from concord.artifacts.measures import LEAST_OF_GROUP, AnyTested, Estimate, GroupTested, NumberTested, TestRecord

ROUNDED = 1e-9
"""By how much a share may differ, since doubles are rounded."""
LEVEL = 0.95
"""Coverage probability of each interval, of all candidates that were compared together."""
SURE_FROM = [0.0, 0.75, 0.9]
"""How sure a student was, at least, at each level by which version 1.0.0 counted the units of a group."""
OTHER = ""
"""In place of all words of a column that no group is named by."""
HALVINGS = 6
"""Errors of a number are counted by 0 and by powers of 1/2 up to this, as shares of what lies between its bounds."""
Sum = tuple[float, int]
"""A sum of noisy counts, and their number."""


def follow(test: AnyTested, kind: PrivateTest, released: Mapping[str, Any], among: int) -> None:
    """Raise NotVerified if a figure does not follow from the counts of the released file.

    among   the candidates that were compared on the same units, by the certified choice; 1 without one
    """
    try:
        stated = test.level, test.among, test.clean, test.share
        _same("level, candidates, cleanness and share", (LEVEL, among, kind.clean, kind.share), stated)
        _same("a number as label", kind.classes == 0, isinstance(test, NumberTested))
        if isinstance(test, NumberTested):
            _number(test, kind, released)
        else:
            _all(test, kind, released)
            _groups(test, kind, released)
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError):
        raise NotVerified("the file of a private test is not what such a test releases") from None


def _all(test: TestRecord, kind: PrivateTest, released: Mapping[str, Any]) -> None:
    matrix, tables = np.array(released["matrix"], dtype=np.int64), released.get("groups", ())
    parts = max(1, len(tables))
    if tables and np.any(np.sum([each["matrix"] for each in tables], axis=0) != matrix):
        raise NotVerified("the groups of the file are not all units together, by their counts")
    misses, scale = (1 - test.level) / test.among, kind.scale
    right, wrong = int(released["right"]), int(released["wrong"])
    _same("the number of tested units", max(0, right + wrong), test.rows)
    _share("the accuracy", test.accuracy, (right, 1), (wrong, 1), kind.pair_scale, misses)
    together = []
    for at, item in enumerate(test.classes):
        hits, others = (float(matrix[at, at]), parts), parts * (len(matrix) - 1)
        for what, share, of in (("recall", item.recall, matrix[at]), ("precision", item.precision, matrix[:, at])):
            _share(f"the {what} of {item.name!r}", share, hits, (of.sum() - hits[0], others), scale, misses)
        wrongs = (matrix[at].sum() - hits[0], others)
        together.append(_interval(hits, wrongs, scale, misses / len(matrix)))
    value, low, high = (sum(each) / len(each) for each in zip(*together, strict=True))
    _covers("the balanced accuracy", test.balanced_accuracy, (value, low, high))
    of_class = np.maximum(matrix.sum(axis=1), 0)
    _same("the share of the largest class", of_class.max() / of_class.sum() if of_class.any() else None, test.majority)


def _number(test: NumberTested, kind: PrivateTest, released: Mapping[str, Any]) -> None:
    """Raise NotVerified if an error does not follow, as a share of what lies between the bounds."""
    low, high = kind.bounds or ()
    _same("the constant", (kind.constant, True), (test.constant, low <= test.constant <= high))
    _same("the number of tested units", max(0, sum(released["errors"])), test.rows)
    misses = (1 - test.level) / test.among
    for what, error, counts, scale in (
        ("the RMSE", test.rmse, "errors", kind.pair_scale),
        ("the RMSE of the constant", test.constant_rmse, "constant_errors", kind.scale),
    ):
        found = _error(np.array(released[counts], dtype=np.int64), scale, misses)
        _covers(what, Estimate(**{end: value / (high - low) for end, value in error.model_dump().items()}), found)


def _error(counts: NDArray[np.int64], scale: float, misses: float) -> tuple[float, float, float]:
    """The root of the mean of squares that units were counted by: what each adds to the one before it, times the share
    of units counted there or beyond. As `_interval` has it."""
    _same("the number of counts", HALVINGS + 2, len(counts))
    squares, reached = np.zeros(3), 0.0
    for at in range(1, len(counts)):
        beyond, before = (int(counts[at:].sum()), len(counts) - at), (int(counts[:at].sum()), at)
        added, reached = 4.0 ** (at - 1 - HALVINGS) - reached, 4.0 ** (at - 1 - HALVINGS)
        squares += added * np.array(_interval(beyond, before, scale, misses / (HALVINGS + 1)))
    value, low, high = np.sqrt(squares).tolist()
    return value, low, high


def _groups(test: TestRecord, kind: PrivateTest, released: Mapping[str, Any]) -> None:
    """Raise NotVerified if the groups are not those of the file, or have other figures."""
    by, tables = kind.by, released.get("groups", ())
    named = [list(words) for words in kind.named]
    if [each["words"] for each in tables] != ([*named, None] if by else []):
        raise NotVerified("the groups of the file are not those of the settings, by their words")
    every = [{OTHER, *words} for words in zip(*named, strict=True)]
    _same("the number of combinations of words", math.prod(map(len, every)) if by else 0, len(tables))
    parts: dict[tuple[str | None, str | None], list[Mapping[str, Any]]] = {}
    for each in tables:
        words = zip(by, each["words"], strict=True) if each["words"] is not None else [(None, None)]
        for column, word in words:
            if word != OTHER:
                parts.setdefault((column, word), []).append(each)
    _same("the groups", {(each.column, each.group) for each in test.groups}, set(parts))
    _same("the number of groups", len(test.groups), len(parts))
    misses, scale = (1 - test.level) / test.among, kind.scale
    for group in test.groups:
        found, name = parts[group.column, group.group], f"{group.column or 'no group'} {group.group!r}"
        matrix = np.sum([each["matrix"] for each in found], axis=0)
        pairs, many = np.sum([each.get("pairs") or each["sure"] for each in found], axis=0), len(found)
        right, wrong = pairs.sum(axis=0).tolist()
        _same(f"the units of {name}", group.rows, max(0, right + wrong))
        cells = many * len(pairs)
        _shown(f"the accuracy of {name}", group.accuracy, (right, cells), (wrong, cells), scale, misses)
        levels = SURE_FROM if group.calibrated and "sure" in found[0] else []
        _same(f"the classes and levels of {name}", (len(matrix), levels), _shapes(group))
        for at, share in enumerate(group.recalls):
            hits = (float(matrix[at, at]), many)
            others = (float(matrix[at].sum() - matrix[at, at]), many * (len(matrix) - 1))
            _shown(f"the recall of {test.classes[at].name!r} of {name}", share, hits, others, scale, misses)
        for level, (hit, missed) in zip(group.calibrated, pairs.tolist(), strict=False):
            what = f"how often it is right of {name} where it is sure by {level.least:g}"
            _shown(what, level.right, (hit, many), (missed, many), scale, misses)


def _shapes(group: GroupTested) -> tuple[int, list[float]]:
    return len(group.recalls), [level.least for level in group.calibrated]


def _shown(what: str, share: Estimate | None, right: Sum, wrong: Sum, scale: float, misses: float) -> None:
    """Raise NotVerified if a share is given of too few units, or not given of enough, or is another."""
    beyond = right[0] + wrong[0] - float(ndtri(1 - misses / 2)) * scale * math.sqrt(right[1] + wrong[1])
    if (share is None) != (beyond < LEAST_OF_GROUP) and abs(beyond - LEAST_OF_GROUP) > 1:
        raise NotVerified(f"{what} is {'not ' * (share is None)}given, of about {right[0] + wrong[0]:.0f} units")
    if share is not None:
        _share(what, share, right, wrong, scale, misses)


def _share(what: str, share: Estimate, right: Sum, wrong: Sum, scale: float, misses: float) -> None:
    _covers(what, share, _interval(right, wrong, scale, misses))


def _interval(right: Sum, wrong: Sum, scale: float, misses: float) -> tuple[float, float, float]:
    """Estimate and ends: Clopper & Pearson's, moved by the noise of either sum; without a positive count, the middle of
    0 and 1."""
    (hits, ones), (fails, others) = right, wrong
    near, far = (max(0, math.floor(float(ndtri(1 - misses / 8)) * scale * math.sqrt(n)) - 1) for n in (ones, others))
    low = 0.0 if hits <= near else float(betaincinv(hits - near, max(0, fails + far) + 1, misses / 4))
    high = 1.0 if fails <= far else float(betaincinv(max(0, hits + near) + 1, fails - far, 1 - misses / 4))
    all_of = max(0, hits) + max(0, fails)
    return (max(0, hits) / all_of if all_of else 1 / 2), low, high


def _covers(what: str, share: Estimate, found: tuple[float, float, float]) -> None:
    (value, low, high), stated = found, f"{share.value:.6g} ({share.low:.6g} to {share.high:.6g})"
    if not math.isclose(share.value, value, rel_tol=ROUNDED, abs_tol=ROUNDED):
        raise NotVerified(f"{what} is {value:.6g}, but it was certified as {stated}")
    if not -ROUNDED <= share.low - ROUNDED <= share.value <= share.high + ROUNDED <= 1 + 2 * ROUNDED:
        raise NotVerified(f"{what} must be certified within its interval, from 0 to 1, not as {stated}")
    if share.low > low + ROUNDED or share.high < high - ROUNDED:
        raise NotVerified(f"the interval of {what} must be {low:.6g} to {high:.6g}, or wider, not {stated}")


def _same(what: str, found: object, recorded: object) -> None:
    if found != recorded:
        raise NotVerified(f"{what} follow as {found}, but were certified as {recorded}")
