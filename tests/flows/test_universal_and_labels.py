"""Labels bought and a student chosen beside them, in two sessions of one run that the plan asks for together."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import certificate_of, dies, killed_at
from tests.support.people import tables_of_plan, write_tables
from tests.support.sentences import facts
from tests.world import (
    RELABELLED,
    BudgetRefused,
    Ledger,
    Plan,
    WrongInput,
    parse_plan,
    reserve_session,
    start,
    start_extension,
    verify,
)

STUDENT = {
    "learner": "universal",
    "hypotheses": "rectangles",
    "features": ["size", "shade=dark"],
    "epsilon": 1.0,
}
STAGES = ["encode", "split", "teach", "count", "poll", "release", "choose", "study", "certify"]


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    given = tables_of_plan(write_tables(tmp_path / "data")) | {"student": STUDENT}
    given["teachers"] |= {"count": 100, "block": 50}
    return given


@pytest.fixture
def plan(tables: dict[str, Any]) -> Plan:
    return parse_plan(tables)


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_both_are_paid_for_and_the_certificate_says_the_sum(plan: Plan, home: Path) -> None:
    summary = start(plan, home)
    assert [report.name for report in summary.stages] == STAGES
    labels, choice = Ledger.of(home).sessions("people")
    assert (labels.epsilon, labels.delta, labels.mechanism["name"]) == (3.0, 1e-5, "stable")
    assert (choice.epsilon, choice.delta, choice.mechanism["name"]) == (1.0, 0.0, "universal")
    assert (summary.guarantee["epsilon"], summary.guarantee["delta"]) == (4.0, 1e-5)
    assert (summary.session, summary.asked, summary.teachers) == (choice.id, labels.asked, 100)
    certificate = certificate_of(summary)
    assert (certificate.guarantee.epsilon, certificate.guarantee.delta) == (4.0, 1e-5)
    assert certificate.leading.guarantee.epsilon == 1.0
    assert [other.session for other in certificate.other_sessions] == [labels.id]
    assert len(certificate.other_sessions[0].files) == 3
    assert all(check.ok for check in verify(home))
    report = Path(summary.report).read_text()
    assert "the guarantee above is the sum" in report
    assert "ε = 4" in report
    for session in (labels, choice):
        with pytest.raises(WrongInput, match=facts("labels any row")):
            start_extension(session.id, Path(plan.path("public")), home)


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_again_it_answers_from_cache_and_spends_nothing(plan: Plan, home: Path) -> None:
    first, charged = start(plan, home), Ledger.of(home).total("people")
    again = start(plan, home)
    assert sorted(report.name for report in again.stages if report.cached) == sorted(STAGES)
    assert (again.session, again.spent_now["epsilon"]) == (first.session, 0.0)
    assert Ledger.of(home).total("people") == charged


@pytest.mark.slow
def test_a_kill_between_the_two_openings_needs_no_new_session(plan: Plan, home: Path) -> None:
    opened: list[str] = []

    def killed_at_the_second(*given: Any, **named: Any) -> Any:
        if opened:
            dies()
        opened.append("labels")
        return reserve_session(*given, **named)

    with killed_at("tests.world.flows_admit.reserve_session", by=killed_at_the_second):
        start(plan, home)
    assert len(Ledger.of(home).sessions("people")) == 1
    start(plan, home)
    assert [session.mechanism["name"] for session in Ledger.of(home).sessions("people")] == ["stable", "universal"]


def test_both_together_must_be_covered_before_anything_private_is_read(tables: dict[str, Any], home: Path) -> None:
    """The domain covers either of the two alone."""
    Path(tables["folder"], "private.csv").write_text("none of the columns\n")
    tables["privacy"] |= {"epsilon": 7.0, "lifetime": {"epsilon": 7.0, "delta": 4e-5}}
    tables["labeling"] = {"mechanism": "noisy_votes", "queries": 300}
    tables["student"] = STUDENT | {"epsilon": 3.9}
    with pytest.raises(BudgetRefused, match=facts("budget", "ε 7")):
        start(parse_plan(tables), home)
    assert Ledger.of(home).domains() == ()


@pytest.mark.slow
def test_another_student_beside_the_same_labels_must_be_asked_for(tables: dict[str, Any], home: Path) -> None:
    """The plan asks for one choice beside its labels; a second one is a further session, whatever its class."""
    start(parse_plan(tables), home)
    charged = Ledger.of(home).total("people")
    for other in ({"epsilon": 0.5}, {"hypotheses": "stumps", "features": ["size"]}):
        with pytest.raises(BudgetRefused, match=facts("--new-session", "ε 4")):
            start(parse_plan({**tables, "student": STUDENT | other}), home)
    assert Ledger.of(home).total("people") == charged


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_universal_labelling_relabels_first(tables: dict[str, Any], home: Path) -> None:
    """Nandi & Bassily 2020: the first queries by Algorithm 5, all that follow by what is chosen on their cover."""
    relabel = {"hypotheses": "stumps", "share": 0.3, "epsilon": 0.5}
    summary = start(parse_plan({**tables, "relabel": relabel}), home)
    labels, choice = Ledger.of(home).sessions("people")
    assert labels.mechanism["relabel"]["share"] == 0.3
    assert labels.per_refusal is None
    assert (labels.epsilon, choice.epsilon, summary.guarantee["epsilon"]) == (3.0, 1.0, 4.0)
    assert [report.name for report in summary.stages] == [*STAGES[:2], "relabel", *STAGES[2:]]
    certificate = certificate_of(summary)
    assert certificate.relabelling is not None
    assert certificate.relabelling.whole.epsilon == 3.0
    assert RELABELLED in certificate.caveats
    assert all(check.ok for check in verify(home))
    with pytest.raises(BudgetRefused, match="secret subset"):
        start(parse_plan({**tables, "relabel": relabel}), home, new_session=True)
