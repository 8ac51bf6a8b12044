"""Warnings about a student: by its measures, it is no better than a constant prediction, or never finds some class.

They follow from what a certificate states, and its verifier computes them again.

Checked by tests/artifacts/test_student_warnings.py, tests/tasks/student/test_evaluate.py and
tests/artifacts/mlflow/test_champion.py
"""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from concord.artifacts.certificate import Certificate
from concord.artifacts.measures import AnyPublicTest, AnyTested, NumberTest, NumberTested, PublicTest, thresholds_of

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
    found = warnings_of(student.public_test, private, tallied=not certificate.teachers)
    if student.public_test is None and private is None:
        found = untested(released, student.named, tallied=not certificate.teachers)
    if certificate.units and (whole := certificate.guarantee.delta * certificate.units) >= LARGE:
        sentence = f"δ times the number of private units is {whole:.3g}, and should be far below 1"
        found = (f"{sentence}: a mechanism that publishes each unit whole with probability δ has the guarantee", *found)
    if asked >= LEAST_ASKED * rows:
        return found
    ended = f"the session ended after {asked:,} of {rows:,} public rows"
    return f"{ended}: the student learned nothing from the others, which have no label", *found


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
    if public is None:
        return tuple(_of_private(private, set(), thresholds_of(public, private, tallied=tallied)))
    if isinstance(public, PublicTest):
        recalled = {item.name for item in public.classes if item.recall and item.recall.value}
        return (*_of_public(public), *_of_private(private, recalled, None))
    return (*_of_number(public), *_of_private(private, set(), None))


def _of_number(test: NumberTest) -> Iterator[str]:
    if test.rmse.value >= test.mean_rmse:
        yield (
            "the student does not beat a constant prediction, the mean of the public test rows: RMSE "
            f"{test.rmse:.4g} against {test.mean_rmse:.4g}"
        )


def _of_public(test: PublicTest) -> Iterator[str]:
    if test.accuracy.value <= test.majority:
        yield (
            f"the student does not beat the majority-class baseline: accuracy {test.accuracy.in_words} on the public "
            f"test rows, against {test.majority:.1%} for always predicting {test.largest!r}"
        )
    if missed := [item.name for item in test.classes if item.recall and item.recall.value == 0]:
        yield f"recall is 0 for {_listed(missed)}: the student finds none of the public test rows of that class"
        for threshold in test.thresholds:
            yield f"recall for the class {threshold.name!r} is above 0 at a lower threshold: {threshold.in_words}"


def _of_private(test: AnyTested | None, found: set[str], thresholds: Mapping[str, float] | None) -> Iterator[str]:
    if test is None:
        return
    if not test.clean:
        yield "the private test does not measure the student, which may have learned from the tested units"
        return
    if isinstance(test, NumberTested):
        if test.rmse.high >= test.constant_rmse.low:
            beats = "does not beat" if test.rmse.low >= test.constant_rmse.high else "may not beat"
            yield (
                f"by the private test the student {beats} a constant prediction of {test.constant:.4g}: RMSE "
                f"{test.rmse.low:.4g} to {test.rmse.high:.4g} against "
                f"{test.constant_rmse.low:.4g} to {test.constant_rmse.high:.4g}"
            )
        return
    if test.majority is not None and test.accuracy.value <= test.majority:
        yield (
            "by the private test the student does not beat the majority-class baseline: accuracy about "
            f"{test.accuracy.value:.1%} against about {test.majority:.1%}"
        )
    missed = [item.name for item in test.classes if item.recall.low <= 0 and item.name not in found]
    if missed:
        yield f"recall may be 0 for {_listed(missed)}: its interval by the private test includes 0"
    if thresholds is None:
        return
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
    return (
        f"{'the class' if len(names) == 1 else 'the classes'} {', '.join(map(repr, names[:MOST_CLASSES_NAMED]))}{more}"
    )
