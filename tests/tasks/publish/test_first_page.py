"""The first page of the report: its verdict, figures and bars are the certificate's; what is missing shows."""

from typing import Any

import pytest

from tests.support.published import SESSION, World
from tests.support.recorded import RECORDED
from tests.support.sentences import says
from tests.world import (
    NEIGHBOURS,
    AboutPlan,
    Certificate,
    ClassMeasured,
    ClassTested,
    Estimate,
    Guarantee,
    NumberTest,
    NumberTested,
    PublicTest,
    PublishedSession,
    SessionRecord,
    TestRecord,
    Threshold,
    first_page,
    guarantees_of,
    most_found,
    render,
    verdict_of,
    verify_published,
    warnings_of,
)

WARNED = "a warning of the certificate"


@pytest.fixture(scope="module")
def certificate(small: World) -> Certificate:
    return PublishedSession.at(small.released.root / SESSION).certificate


def share(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high)


def classes_tested(
    accuracy: Estimate, majority: float, recalls: dict[str, Estimate], thresholds: tuple[Threshold, ...] = ()
) -> PublicTest:
    found = [
        ClassMeasured(name=name, rows=100 - at, predicted=1, recall=recall, precision=None)
        for at, (name, recall) in enumerate(recalls.items())
    ]
    figures: dict[str, Any] = {
        "accuracy": accuracy,
        "balanced_accuracy": accuracy,
        "majority": majority,
        "classes": tuple(found),
    }
    return PublicTest(table="", label="kind", rows=300, matrix=None, calibration=None, thresholds=thresholds, **figures)


def evaluated(certificate: Certificate, public: Any = None, private: Any = None) -> Certificate:
    """The certificate with those evaluations alone."""
    student = certificate.student.model_copy(update={"public_test": public})
    tests = []
    if private is not None:
        settings = {**RECORDED["private_test"], "session": SESSION, "student": student.file.digest}
        made = certificate.mechanism.model_copy(update={"settings": settings})
        tests = [certificate.leading.model_copy(update={"mechanism": made, "outcomes": (private,)})]
    assert all(isinstance(record, SessionRecord) for record in tests)
    return certificate.model_copy(update={"learned": student, "sessions": (*certificate.sessions[:1], *tests)})


SURE, HALF, NONE = share(0.9, 0.85, 0.94), share(0.5, 0.4, 0.6), share(0.0, 0.0, 0.03)
AT_20 = Threshold(name="ja", least=0.2, recall=SURE, precision=HALF)
UNITS: dict[str, Any] = {"share": 0.1, "clean": True, "earlier": 0, "level": 0.95, "rows": 900}
NUMBER: dict[str, Any] = {"table": "", "label": "cost", "rows": 300, "r2": HALF, "mean_rmse": 2.0}


def units_tested(**changes: Any) -> TestRecord:
    recalls = {"no": SURE, "ja": changes.pop("recall", SURE)}
    found = tuple(ClassTested(name=name, recall=recall, precision=SURE) for name, recall in recalls.items())
    return TestRecord(
        **{**UNITS, "accuracy": SURE, "balanced_accuracy": SURE, "majority": 0.6, "classes": found, **changes}
    )


BEATS, DOES_NOT = (f"The model {verb} the majority-class baseline: accuracy" for verb in ("beats", "does not beat"))
CLASSES_90, CLASSES_50 = "90.0% (85.0% to 94.0%) against 60.0%", "50.0% (40.0% to 60.0%) against"
JA, UNKNOWN = "Do not use it to detect 'ja': recall 0.", "The model was not evaluated"
VERDICTS: dict[str, tuple[Any, Any, bool, str]] = {
    "both classes are found": (
        classes_tested(SURE, 0.6, {"no": SURE, "ja": HALF}),
        None,
        True,
        f"{BEATS} {CLASSES_90}. The lowest recall is 50.0%, for 'ja'.",
    ),
    "a class is never found": (classes_tested(SURE, 0.6, {"no": SURE, "ja": NONE}), None, False, JA),
    "a class is found at another threshold": (
        classes_tested(SURE, 0.6, {"no": SURE, "ja": NONE}, thresholds=(AT_20,)),
        None,
        False,
        "Do not use it by its likeliest class to detect 'ja': recall 0. At a probability of 0.2 or more for 'ja', "
        "recall is 90.0% (85.0% to 94.0%) and precision 50.0% (40.0% to 60.0%).",
    ),
    "nor the baseline beaten": (
        classes_tested(HALF, 0.6, {"no": SURE, "ja": NONE}),
        None,
        False,
        f"{JA} {DOES_NOT} {CLASSES_50} 60.0%.",
    ),
    "the interval holds the baseline": (
        classes_tested(HALF, 0.45, {"no": SURE}),
        None,
        False,
        f"The model may not beat the majority-class baseline: accuracy {CLASSES_50} 45.0%.",
    ),
    "private units": (None, units_tested(), True, f"{BEATS} {CLASSES_90}. The lowest recall is 90.0%, for 'ja'."),
    "a class is never found among them": (None, units_tested(recall=NONE), False, JA),
    "learned from them": (
        None,
        units_tested(clean=False),
        False,
        f"{UNKNOWN}: it may have learned from the records it was tested on.",
    ),
    "a number": (
        NumberTest(**NUMBER, rmse=share(1.0, 0.9, 1.1)),
        None,
        True,
        "The model beats a constant prediction: RMSE 1 (0.9 to 1.1) against 2.",
    ),
    "a number that is not predicted": (
        NumberTest(**NUMBER, rmse=share(2.0, 1.9, 2.1)),
        None,
        False,
        "The model does not beat a constant prediction: RMSE 2 (1.9 to 2.1) against 2.",
    ),
    "a number of private units": (
        None,
        NumberTested(**UNITS, rmse=share(1.0, 0.5, 1.8), constant=3.0, constant_rmse=share(2.0, 1.7, 2.3)),
        False,
        "The model may not beat a constant prediction: RMSE 1 (0.5 to 1.8) against 2 (1.7 to 2.3).",
    ),
    "no evaluation": (None, None, False, f"{UNKNOWN}."),
}


@pytest.mark.parametrize(("public", "private", "useful", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdict_says_what_not_to_use_it_for_or_how_far_it_beats_the_baseline(
    certificate: Certificate, public: Any, private: Any, useful: bool, verdict: str
) -> None:
    made = evaluated(certificate, public, private)
    assert verdict_of(made) == (useful, verdict)
    quiet = made.model_copy(update={"warnings": ()})
    assert first_page(quiet).level == ("plain" if useful else "warned")
    page = first_page(made.model_copy(update={"warnings": (WARNED,)}))
    assert (page.level, page.reasons) == ("warned", (WARNED,))
    assert len(first_page(quiet).measured) == (public is not None) + (private is not None)


def test_a_reason_says_what_the_verdict_does_not_and_shows_commands_as_such(certificate: Certificate) -> None:
    """Before, the verdict stood above the same words, and commands between backticks."""
    measured = classes_tested(SURE, 0.6, {"no": SURE, "ja": NONE}, (AT_20,))
    for public, private in ((measured, None), (measured, units_tested()), (None, units_tested(recall=NONE))):
        made = evaluated(certificate, public, private)
        told = warnings_of(public, None if public else private, tallied=True)
        made = made.model_copy(update={"warnings": (*told, "run `concord plan <b>`")})
        assert [reason in told for reason in first_page(made).reasons] == [False]
    assert "<li>run <code>concord plan &lt;b&gt;</code>.</li>" in render(made, {})


def test_the_bars_are_the_figures_beside_the_baseline(certificate: Certificate) -> None:
    test = certificate.student.public_test
    assert isinstance(test, PublicTest)
    (measured,) = first_page(certificate).measured
    assert [bar.name for bar in measured.bars] == ["accuracy", "AUC", "recall of no", "recall of yes"]
    figures = [test.accuracy, test.auc, *(item.recall for item in test.classes)]
    for bar, figure in zip(measured.bars, figures, strict=True):
        assert figure is not None
        assert (bar.value, bar.low, bar.high) == (100 * figure.value, 100 * figure.low, 100 * figure.high)
        assert f"{figure.value:.3f}" in bar.figure or f"{figure.value:.1%}" in bar.figure
    marks = [100 * (item.name == test.largest) for item in test.classes]
    assert [bar.baseline for bar in measured.bars] == [100 * test.majority, 50.0, *marks]
    number = NumberTest(**NUMBER, rmse=share(1.0, 0.9, 1.1))
    (bar,) = first_page(evaluated(certificate, number)).measured[0].bars
    assert (bar.value, bar.low, bar.high, bar.baseline) == pytest.approx((50.0, 45.0, 55.0, 100.0))


def test_what_an_attacker_gains_is_the_bound_rounded_up(certificate: Certificate) -> None:
    facts, guarantees = first_page(certificate), guarantees_of(certificate)
    points = [tuple(map(float, point.split(","))) for point in facts.curve.split()]
    assert [across for across, _ in points] == [2.0 * at for at in range(51)]
    for across, down in points:
        gain = 100 * most_found(guarantees, across / 100)
        assert gain <= 100 - down + 1e-9 < gain + 0.1 + 1e-6
    share = 100 * most_found(guarantees, 0.01)
    stated = float(facts.found.split("at most ")[1].split("%")[0])
    assert share <= stated < share + 0.1
    assert says(facts.found, "one row", "1% false positives")
    for unit, whole in (("one row", False), ("all rows with one person", True)):
        named = Guarantee.at(1.0, 1e-5, unit, NEIGHBOURS["rows"])
        found = first_page(certificate.model_copy(update={"guarantee": named})).found
        assert ("A person with several rows is not protected as a whole." in found) != whole
    labels = Guarantee.at(1.0, 1e-5, "the labels of one row", NEIGHBOURS["labels"])
    alone = first_page(certificate.model_copy(update={"guarantee": labels}))
    assert says(alone.found, "the labels of one row")
    assert "treated as public" in alone.found
    assert (alone.claim, facts.claim) == ("ε = 1, δ = 1e-05 for the labels of one row", "ε = 1, δ = 1e-05 for one row")


def test_the_lifetime_budget_says_why_a_share_is_no_ratio_of_epsilons(certificate: Certificate) -> None:
    facts, domain = first_page(certificate), certificate.domain
    (charge,) = domain.charges
    assert (facts.own, facts.others) == (100 * charge.share, 0.0)
    assert says(facts.lifetime, "ε = 1 of 4", f"{charge.share:.1%}", "not 25%")
    assert "the square of ε" in facts.lifetime
    dear = charge.model_copy(update={"share": 0.3})
    two = domain.model_copy(update={"charges": (dear, charge.model_copy(update={"session": "other"})), "sessions": 2})
    facts = first_page(certificate.model_copy(update={"domain": two}))
    assert [facts.own, facts.others] == pytest.approx([30.0, 100 * charge.share])
    assert "costs a fixed amount once" in facts.lifetime
    assert f"{two.used:.1%} is used, by 2 sessions" in facts.lifetime


def test_who_published_it_and_what_is_missing_stand_at_the_top(certificate: Certificate) -> None:
    page = render(certificate, {})
    assert page.count('class="missing">not provided') == 4
    turned = certificate.model_copy(update={"about": AboutPlan(issuer="A \u202edraw\x1b[2J")})
    assert not {"\u202e", "\x1b"} & {*render(turned, {})}  # letters that move or hide others
    said = AboutPlan(issuer="A ward", contact="dp@ward.example", use="To plan beds", date="2026-03-01")
    page = render(certificate.model_copy(update={"about": said}), {})
    assert 'class="missing"' not in page
    head = page.split("<h2>")[0]
    assert all(words in head for words in ("A ward", "dp@ward.example", "To plan beds", "2026-03-01"))


def test_the_checks_that_it_names_are_those_that_are_made(certificate: Certificate, small: World) -> None:
    made = verify_published(small.released.root / SESSION)
    named = [check.name.rpartition(": ")[2] for check in made if not check.warning]
    assert sorted(first_page(certificate).checks) == sorted(named)
