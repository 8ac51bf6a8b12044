"""Warnings about a student: by its measures, it is no better than a constant prediction, or never finds some class.

They follow from the published measures alone, and the verifier of a certificate computes them again.

Checked by tests/artifacts/test_student_warnings.py, tests/tasks/student/test_evaluate.py and
tests/artifacts/mlflow/test_champion.py
"""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from concord.artifacts.measures import AnyPublicTest, AnyTested, NumberTest, NumberTested, PublicTest, thresholds_of

LEAST_ASKED = 0.01
"""The share of public rows that a session should have asked before it ended."""


def warnings_of(
    public: AnyPublicTest | None,
    private: AnyTested | None,
    released: Sequence[str] | None = None,
    named: Sequence[str] | None = None,
    *,
    asked: tuple[int, int] | None = None,
    tallied: bool = False,
) -> tuple[str, ...]:
    """Warnings about a student: it is no better than a constant prediction, it never finds some class, or its session
    ended after few of the public rows.

    released   the classes among the released labels, if it learned from those
    named      the classes it predicts on the public rows, if that was computed
    asked      how many public rows were asked, and how many there are
    tallied    whether it was decoded from sums, which no teacher voted on
    """
    thresholds = None if public else thresholds_of(public, private, tallied=tallied)
    return (*_of_rows(*(asked or (0, 0))), *_of_student(public, private, thresholds, released, named))


def _of_rows(asked: int, rows: int) -> Iterator[str]:
    if asked < LEAST_ASKED * rows:
        yield (
            f"the session ended after {asked:,} of {rows:,} public rows: the others were not asked, and have no label "
            "to learn from"
        )


def _of_student(
    public: AnyPublicTest | None,
    private: AnyTested | None,
    thresholds: Mapping[str, float] | None,
    released: Sequence[str] | None,
    named: Sequence[str] | None,
) -> tuple[str, ...]:
    if isinstance(public, NumberTest):
        return (*_of_number(public), *_of_private(private, set(), None))
    if public is None and private is None:
        return tuple(f"{words}, and {UNTESTED}" for words in _of_one_class(released, named))
    found = (
        set[str]() if public is None else {item.name for item in public.classes if item.recall and item.recall.value}
    )
    return (*_of_public(public), *_of_private(private, found, thresholds))


UNTESTED = "no test says whether the student tells classes apart"


def _of_one_class(released: Sequence[str] | None, named: Sequence[str] | None) -> Iterator[str]:
    if released is not None and not released:
        yield "no released label names a class"
    elif released is not None and len(released) == 1:
        yield f"every released label names the class {released[0]!r}"
    elif named is not None and len(named) == 1:
        yield f"the student names the class {named[0]!r} for every public row"


def _of_public(test: PublicTest | None) -> Iterator[str]:
    if test is None:
        return
    if test.accuracy.value <= test.majority:
        yield (
            f"the student is no better than naming the class {test.largest!r} for every row: it is right on "
            f"{test.accuracy.in_words} of the public test rows, and {test.majority:.1%} of them are of that class"
        )
    if blind := [item for item in test.classes if item.recall and item.recall.value == 0]:
        names = _listed([item.name for item in blind])
        yield f"the student is blind to {names}: of the public test rows of such a class it finds none"
        for threshold in test.thresholds:
            name = threshold.name
            yield f"the student would find rows of the class {name!r} at a lower threshold: {threshold.in_words}"


def _of_number(test: NumberTest) -> Iterator[str]:
    if test.rmse.value >= test.mean_rmse:
        yield (
            "the student is no better than naming the mean for every row: its RMSE is "
            f"{test.rmse:.4g} on the public test rows, and {test.mean_rmse:.4g} of their mean"
        )


def _of_private(test: AnyTested | None, found: set[str], thresholds: Mapping[str, float] | None) -> Iterator[str]:
    if test is None:
        return
    if not test.clean:
        yield "the private test says nothing of the student, which may have learned from the tested units"
        return
    if isinstance(test, NumberTested):
        if test.rmse.high >= test.constant_rmse.low:
            what = "is no better than" if test.rmse.low >= test.constant_rmse.high else "cannot be told from"
            yield (
                f"by the private test the student {what} naming {test.constant:.4g} for every unit: its RMSE is "
                f"{test.rmse.low:.4g} to {test.rmse.high:.4g}, and that of the constant "
                f"{test.constant_rmse.low:.4g} to {test.constant_rmse.high:.4g}"
            )
        return
    if test.majority is not None and test.accuracy.value <= test.majority:
        yield (
            "by the private test the student is no better than naming the largest class for every unit: it is right on "
            f"about {test.accuracy.value:.1%}, and about {test.majority:.1%} are of that class"
        )
    if blind := [item.name for item in test.classes if item.recall.low <= 0 and item.name not in found]:
        yield (
            f"the student may be blind to {_listed(blind)}: the private test cannot tell it from one that never finds "
            "such a class"
        )
        if thresholds is not None:
            yield from _of_thresholds(blind, thresholds)


def _of_thresholds(blind: Sequence[str], thresholds: Mapping[str, float]) -> Iterator[str]:
    """The proposed threshold of each of these classes, or what it takes to propose one."""
    for name in (name for name in blind if name in thresholds):
        least = thresholds[name]
        yield (
            f"a lower threshold may find rows of the class {name!r}: `concord predict --threshold "
            f"{quote(f'{name}={least:g}')}` names it for rows to which the student gives at least the class's share of "
            f"the private units, about {least:.1%}, as probability; recall and precision there are not measured"
        )
    if lacking := [name for name in blind if name not in thresholds]:
        yield (
            f"it takes public labelled rows to propose a threshold that finds rows of {_listed(lacking)}: name them as "
            "`data.test` and run again, which spends nothing"
        )


MOST_CLASSES_NAMED = 5


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_CLASSES_NAMED} more" if len(names) > MOST_CLASSES_NAMED else ""
    return (
        f"{'the class' if len(names) == 1 else 'the classes'} {', '.join(map(repr, names[:MOST_CLASSES_NAMED]))}{more}"
    )
