"""A private choice in a run: what it costs and whom, what is published of it, and that it is made once."""

import json
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.measures import TestRecord
from concord.artifacts.mlflow.read import Records
from concord.artifacts.parts import LEARNING, TEST
from concord.artifacts.plan import Plan
from concord.artifacts.sessions import STUDENT_CHOICE
from concord.flows.learn import study_again
from concord.flows.outcome import outcome_in_markdown
from concord.flows.start import start, start_again, start_extension
from concord.tasks.advice.report import plan_report
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.verify import verify
from tests.support.homes import certificate_of, dies, killed_at
from tests.support.people import arrive, changed, write_plan, write_tables
from tests.support.sentences import facts

CONSTANT = "sklearn.dummy.DummyClassifier"
CANDIDATES = [{"params": {"C": 1.0}}, {"estimator": CONSTANT}, {"refused": "drop"}]


@pytest.fixture
def plan(plan: Plan) -> Plan:
    tables = plan.model_dump()
    return changed(tables, test__share=0.3, student__candidates=CANDIDATES, student__epsilon=0.5)


def kinds(home: Path) -> list[tuple[str, str]]:
    ledger = Ledger.of(home)
    return [(item.mechanism["name"], ledger.part_of(item.id)) for item in ledger.sessions("people")]


def all_is_well(home: Path) -> bool:
    wrong = [check for check in verify(home) if not check.ok]
    copies = [file.parent for file in (home / "released").glob("*/certificate.json")]
    wrong += [check for folder in copies for check in verify_published(folder) if not check.ok]
    assert wrong == []
    return True


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_student_is_chosen_once_at_no_further_charge(plan: Plan, home: Path, tmp_path: Path) -> None:
    commit = Ledger.commit_batch

    def but_for_the_choice(self: Ledger, session: str, *given: Any, **named: Any) -> Any:
        return (dies if self.session(session).purpose == STUDENT_CHOICE else commit)(self, session, *given, **named)

    with killed_at(Ledger, "commit_batch", by=but_for_the_choice):  # it was drawn, and nobody has seen it
        start(plan, home)
    (drawn,) = list((home / "vault" / "sessions").glob("*/answer.npz"))
    before = drawn.read_bytes()
    summary = start(plan, home)
    assert kinds(home) == [("stable", LEARNING), ("student_choice", TEST), ("private_test", TEST)]
    assert drawn.read_bytes() == before
    ledger = Ledger.of(home)
    totals = ledger.totals("people")
    assert 0 < totals[TEST].renyi <= totals[LEARNING].renyi == ledger.total("people").renyi
    certificate = certificate_of(summary)
    assert certificate.guarantee.epsilon == plan.privacy.epsilon
    paid, tried, test = certificate.choice, certificate.test, certificate.tested
    assert paid is not None
    assert tried is not None
    assert test is not None
    choice = paid.chosen
    assert choice is not None
    assert (choice.clean, choice.share, len(choice.candidates), paid.guarantee.epsilon) == (True, 0.3, 3, 0.5)
    assert choice.chosen in (0, 2)  # the constant is some 200 units worse: e^-100
    assert (test.among, test.earlier, test.clean) == (3, 0, True)
    assert tried.guarantee.epsilon == plan.privacy.epsilon - 0.5
    chosen = choice.candidates[choice.chosen]
    assert (certificate.student.params, certificate.student.refused) == (chosen["params"], chosen["refused"])
    settings = ledger.session(paid.session).mechanism
    assert certificate.student.file.digest == settings["students"][choice.chosen]
    page = Path(summary.report).read_text(encoding="utf-8")
    assert f"{choice.chosen + 1}, chosen" in page
    assert "hold for all candidates at once" in page
    assert f"number {choice.chosen + 1} of 3 candidates" in outcome_in_markdown(summary)
    recorded = Records.of(home).recorded(summary.run_id)
    assert recorded is not None
    assert recorded.metrics["choice_epsilon"] == 0.5
    assert recorded.params["chosen.number"] == str(choice.chosen + 1)
    assert not (home / "released" / summary.session / "candidates").exists()
    assert all_is_well(home)

    again = start(plan, home)
    assert all(stage.cached for stage in again.stages)
    assert (again.spent_now["epsilon"], again.choice, again.test) == (0, summary.choice, summary.test)
    others = changed(plan, student__candidates=CANDIDATES[:2])
    with pytest.raises(BudgetRefused, match=facts(summary.session, "candidates", "costs again")):
        start(others, home)
    with pytest.raises(WrongInput, match=facts("candidates", "costs")):
        start_again(study_again, summary.session, home, others.student)
    more = start_extension(summary.session, arrive(tmp_path / "arriving", 11), home)
    assert certificate_of(more).student.params == chosen["params"]  # its way to learn was chosen: it goes on with it
    assert start_again(study_again, summary.session, home).choice == summary.choice
    assert len(kinds(home)) == 3
    assert all_is_well(home)


@pytest.mark.slow
def test_a_model_of_tallies_may_be_a_candidate(plan: Plan, home: Path) -> None:
    tables = {name: part for name, part in plan.model_dump().items() if name not in ("teachers", "student")}
    tables["labeling"] = {"mechanism": "auto", "rows": 3000}
    candidates = [{"estimator": CONSTANT}, {"learner": "linear"}]
    tallied = changed(tables, student__candidates=candidates, student__epsilon=1.0)
    summary = start(tallied, home)
    assert kinds(home) == [("tallies", LEARNING), ("student_choice", TEST), ("private_test", TEST)]
    certificate = certificate_of(summary)
    assert certificate.choice is not None
    assert certificate.choice.chosen is not None
    assert certificate.choice.chosen.chosen == 1
    assert certificate.student.estimator.endswith("Tallied")
    assert isinstance(certificate.tested, TestRecord)
    assert certificate.tested.accuracy.low > 0.7
    assert certificate.guarantee.epsilon == tallied.privacy.epsilon
    assert start(tallied, home).spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert all_is_well(home)


@pytest.mark.slow
def test_a_choice_that_leaves_the_test_nothing_is_refused_before_anything_is_read(plan: Plan, home: Path) -> None:
    dear = changed(plan, student__epsilon=3.9, labeling__cutoff=1)
    with pytest.raises(BudgetRefused, match=r"the private test nothing|does not cover it"):
        start(changed(dear, privacy__epsilon=3.95), home)
    assert Ledger.of(home).domains() == ()


@pytest.mark.usefixtures("simulated_once")
def test_a_plan_says_what_a_choice_costs_and_takes(tmp_path: Path) -> None:
    folder = write_tables(tmp_path / "data")
    plan = write_plan(folder, test__share=0.3, student__candidates=CANDIDATES, student__epsilon=0.5)
    found = plan_report(plan, None, tmp_path)["candidates"]
    assert (found["candidates"], found["epsilon"], found["aside"]) == (3, 0.5, None)
    assert 0 < found["nats"] <= found["order"] * 0.5**2 / 8
    units = {item["gap"]: item["drawn"] for item in found["units"]}
    assert units[0.01] == pytest.approx(728, abs=2)  # ln(2·19)/(0.5·0.01)
    assert all(item["proved"] > item["drawn"] for item in found["units"])
    assert plan_report(write_plan(folder), None, tmp_path)["candidates"] is None
    assert json.dumps(found)
