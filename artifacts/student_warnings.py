"""Warnings about a published student, which follow from what its certificate states: its verifier computes them again.

The student is no better than a constant prediction, or never finds some class; or nothing measures it. Checked
by tests/artifacts/test_student_warnings.py, tests/tasks/student/test_evaluate.py and
tests/artifacts/mlflow/test_champion.py
"""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from concord.artifacts.certificate import Certificate
from concord.artifacts.measures import (
    AnyPublicTest,
    AnyTested,
    NumberTest,
    NumberTested,
    PublicTest,
    compared,
    thresholds_of,
)

LEAST_ASKED = 0.01
"""The share of public rows that a session should have asked before it ended."""
NOT_MEASURED = "recall and precision there are not measured"
LARGE = 0.01
"""The least δ times the number of private units that a warning names; the usual δ stays below it."""
UNTESTED = "no test measures whether the student distinguishes the classes"


def student_warnings(certificate: Certificate, released: Sequence[str] | None = None) -> tuple[str, ...]:
    """Warnings about the student of a certificate: δ is large, its session ended after few of the public rows, or its
    measures, or else the classes that it learned or predicts, say that it is of no use.

    released   the classes among the released labels, if it learned from those and no public test measures it
    """
    student, private, (asked, rows) = certificate.student, certificate.tested, certificate.counts.of_rows
    warnings = warnings_of(student.public_test, private, tallied=not certificate.teachers)
    if student.public_test is None and private is None:
        warnings = untested(released, student.named, tallied=not certificate.teachers)
    if certificate.units and (whole := certificate.guarantee.delta * certificate.units) >= LARGE:
        large = f"δ times the number of private units is {whole:.3g}, and should be far below 1"
        why = "a mechanism that publishes each unit whole with probability δ has the guarantee"
        warnings = (f"{large}: {why}", *warnings)
    if asked >= LEAST_ASKED * rows:
        return warnings
    ended = f"the session ended after {asked:,} of {rows:,} public rows"
    return f"{ended}: the student learned nothing from the others, which have no label", *warnings


def untested(released: Sequence[str] | None, named: Sequence[str] | None, *, tallied: bool = False) -> tuple[str, ...]:
    """The warning about a student that no test measures, if it learned from no more than one class (`released`), or
    predicts one class alone for the public rows (`named`). If it was `tallied`, labels are the likeliest classes."""
    if released is not None and not released:
        return (f"no label was released, and {UNTESTED}",)
    if released is not None and len(released) == 1:
        label = "the likeliest class of every row" if tallied else "every released label"
        return (f"{label} is {released[0]!r}, and {UNTESTED}",)
    if named is not None and len(named) == 1:
        return (f"the student predicts the class {named[0]!r} for every public row, and {UNTESTED}",)
    return ()


def warnings_of(public: AnyPublicTest | None, private: AnyTested | None, *, tallied: bool = False) -> tuple[str, ...]:
    """Warnings that follow from measures: a student is no better than a constant prediction, or it never finds some
    class.

    tallied    whether it was decoded from sums, which no teacher voted on
    """
    warnings = [*_of_public(public)] if public is not None else []
    if private is None:
        return tuple(warnings)
    if not private.clean:
        return *warnings, "the private test does not measure the student, which may have learned from the tested units"
    beats, predicate = compared(private)
    if beats is False or (beats is None and isinstance(private, NumberTested)):
        warnings.append(f"by the private test the student {predicate}")
    if isinstance(private, NumberTested):
        return tuple(warnings)
    of_public = public.classes if isinstance(public, PublicTest) else ()
    recalled = {item.name for item in of_public if item.recall and item.recall.value}
    missed = [item.name for item in private.classes if item.recall.low <= 0 and item.name not in recalled]
    if missed:
        warnings.append(f"recall may be 0 for {_listed(missed)}: its interval by the private test includes 0")
    if public is None:
        warnings += _at_thresholds(missed, thresholds_of(public, private, tallied=tallied))
    return tuple(warnings)


def _of_public(test: AnyPublicTest) -> Iterator[str]:
    beats, predicate = compared(test)
    if beats is False:
        yield f"on the public test rows the student {predicate}"
    if isinstance(test, NumberTest):
        return
    if missed := [item.name for item in test.classes if item.recall and item.recall.value == 0]:
        yield f"recall is 0 for {_listed(missed)}: the student finds none of the public test rows of that class"
        for threshold in test.thresholds:
            yield f"recall for the class {threshold.name!r} is above 0 at a lower threshold: {threshold.in_words}"


def _at_thresholds(missed: Sequence[str], thresholds: Mapping[str, float]) -> Iterator[str]:
    """Of classes that may never be found, the thresholds at which they may be."""
    for name in (name for name in missed if name in thresholds):
        least = thresholds[name]
        yield (
            f"recall for the class {name!r} may be above 0 at a lower threshold: `concord predict --threshold "
            f"{quote(f'{name}={least:g}')}` predicts it for rows to which the student gives a probability of about "
            f"{least:.1%} or more, the class's share of the private units; {NOT_MEASURED}"
        )
    if lacking := [name for name in missed if name not in thresholds]:
        yield (
            f"a threshold for {_listed(lacking)} needs public labelled rows: name them as `data.test` and run again, "
            "which spends nothing"
        )


MOST_CLASSES_NAMED = 5


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_CLASSES_NAMED} more" if len(names) > MOST_CLASSES_NAMED else ""
    noun = "the class" if len(names) == 1 else "the classes"
    return f"{noun} {', '.join(map(repr, names[:MOST_CLASSES_NAMED]))}{more}"
