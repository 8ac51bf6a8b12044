"""What is special to a private test in a run: what is set aside, what it costs, and what is published of it; its life:
tests/promises/test_lifecycle.py."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from tests import world
from tests.support.homes import certificate_of
from tests.support.people import changed
from tests.support.sentences import facts


@pytest.fixture
def plan(plan: world.Plan) -> world.Plan:
    return changed(plan, test__share=0.3)


def trials_in(home: Path) -> list[str]:
    return [session.id for session in world.Ledger.of(home).sessions("people") if session.purpose == world.STUDENT_TEST]


@pytest.mark.slow
def test_a_run_tests_its_student_at_no_further_charge(plan: world.Plan, home: Path) -> None:
    summary = world.start(plan, home)
    ledger, (tested,) = world.Ledger.of(home), trials_in(home)
    assert (ledger.part_of(summary.session), ledger.part_of(tested)) == (world.LEARNING, world.TEST)
    totals = ledger.totals("people")
    assert 0 < totals[world.TEST].renyi <= totals[world.LEARNING].renyi == ledger.total("people").renyi
    assert summary.guarantee["epsilon"] == plan.privacy.epsilon

    record, test = certificate_of(summary).test, certificate_of(summary).tested
    assert record is not None
    assert isinstance(test, world.TestRecord)
    assert (record.session, test.clean, test.earlier, test.share) == (tested, True, 0, 0.3)
    assert test.accuracy.low < test.accuracy.value < test.accuracy.high
    assert 0.6 < test.accuracy.value <= 1
    assert 300 < test.rows < 1200  # noisy: of some 2,500 people, three in ten
    assert summary.test == record.shown()
    report = Path(summary.report).read_text(encoding="utf-8")
    assert "Evaluated on private records" in report
    assert f"{100 * test.accuracy.low:.1f}%" in report
    metrics = world.Records.of(home).recorded(summary.run_id)
    assert metrics is not None
    assert metrics.metrics["test_accuracy_high"] == test.accuracy.high
    (domain,) = world.budget_of(home)["domains"]
    assert [item["part"] for item in domain["sessions"]] == [world.LEARNING, world.TEST]
    assert domain["parts"]["share"] == 0.3
    assert world.start(plan, home).test == summary.test
    other = world.start(changed(plan, student__refused="drop"), home)  # another student is not tested unasked
    assert other.test is None
    assert trials_in(home) == [tested]


@pytest.mark.slow
def test_a_run_that_ended_once_its_test_was_released_leaves_no_times_to_a_later_student(
    plan: world.Plan, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels and student are of before the units were counted, the test's file of after: study publishes all anew."""

    def die(released: world.Released, refs: Sequence[world.Ref]) -> None:
        if trials_in(home):  # its counts are released: the files of before get new times
            raise world.EnvironmentFailed("the disk is full")
        restamp(released, refs)

    restamp = world.Released.restamp
    with monkeypatch.context() as patched:
        patched.setattr(world.Released, "restamp", die)
        with pytest.raises(world.EnvironmentFailed, match="the disk is full"):
            world.start(plan, home)
    (tested,) = trials_in(home)
    (learned,) = {session.id for session in world.Ledger.of(home).sessions("people")} - {tested}
    counted = max(file.stat().st_mtime for file in (home / "released" / tested).rglob("*") if file.is_file())
    summary = world.study_again(learned, home)
    certificate = certificate_of(summary)
    times = [
        (home / "released" / ref.path).stat().st_mtime for ref in (certificate.student.file, *certificate.leading.files)
    ]
    assert min(times) > counted
    assert not list((home / "vault" / "sessions" / learned).glob("earlier*"))


@pytest.mark.slow
def test_a_domain_that_cannot_pay_for_the_test_is_refused_before_anything_is_read(plan: world.Plan, home: Path) -> None:
    summary, ledger = world.start(plan, home), world.Ledger.of(home)
    (domain,), (tested,) = ledger.domains(), [ledger.session(name) for name in trials_in(home)]
    room = float(domain.filter.budget - ledger.totals("people")[world.TEST].renyi) / domain.filter.order
    terms = {field.name: getattr(tested, field.name) for field in fields(world.Terms)}
    filled = {**terms, "id": "people-full", "commitment": "another key"}
    ledger.open_session(
        world.Opening(**filled, whole=world.Cost.gaussian(room * (1 - 1e-6)), per_refusal=None), further=True
    )
    cheap = changed(changed(plan, privacy__epsilon=0.3), labeling__cutoff=1, data__version="2")
    assert ledger.part_of(summary.session) == world.LEARNING
    with pytest.raises(world.BudgetRefused, match=facts("budget", "concord domain")):
        world.start(cheap, home, new_session=True)
    undivided = cheap.model_copy(update={"test": None})
    with pytest.raises(world.BudgetRefused, match=facts("budget", "concord domain")):
        world.start(undivided, home, new_session=True)  # it counts in every part
