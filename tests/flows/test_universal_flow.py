"""What is special to a student that is chosen, alone or beside labels in two sessions of one run; their life:
tests/promises/test_lifecycle.py."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.homes import certificate_of, charged, dies, killed_at
from tests.support.people import tables_of_plan, write_tables
from tests.support.sentences import facts

STUDENT = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}
BESIDE = STUDENT | {"epsilon": 1.0}


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    """A plan for labels and a student beside them, as nested tables."""
    given = tables_of_plan(write_tables(tmp_path / "data")) | {"student": BESIDE}
    given["teachers"] |= {"count": 100, "block": 50}
    return given


@pytest.mark.slow
def test_a_student_is_chosen_without_a_vote(tables: dict[str, Any], home: Path) -> None:
    """Size and shade decide the label of the people, so the likeliest choice errs little."""
    without_votes = {name: section for name, section in tables.items() if name not in ("teachers", "labeling")}
    budget = {"privacy": tables["privacy"] | {"epsilon": 5.0}}
    plan = world.parse_plan(without_votes | budget | {"student": STUDENT})
    summary = world.start(plan, home)
    assert summary.student["accuracy"] > 0.75
    assert (summary.teachers, summary.guarantee["epsilon"], summary.guarantee["delta"]) == (0, 5.0, 0.0)
    session = world.Ledger.of(home).session(summary.session)
    assert (session.mechanism["name"], session.mechanism["secret"]) == ("universal", "rows")
    assert session.delta == session.reserved.delta == 0
    assert certificate_of(summary).mechanism.settings["candidates"] > 100
    assert "No teacher ensemble was used" in Path(summary.report).read_text()
    published = world.Run(summary, home)
    assert set(published.student.predict(pl.read_parquet(plan.path("public")))) == {"no", "yes"}
    with pytest.raises(world.WrongInput, match=facts("labels", "chosen")):
        _ = published.labels


@pytest.mark.slow
def test_both_are_paid_for_and_the_certificate_says_the_sum(tables: dict[str, Any], home: Path) -> None:
    plan = world.parse_plan(tables)
    summary = world.start(plan, home)
    labels, choice = world.Ledger.of(home).sessions("people")
    assert (labels.epsilon, labels.delta, labels.mechanism["name"]) == (3.0, 1e-5, "stable")
    assert (choice.epsilon, choice.delta, choice.mechanism["name"]) == (1.0, 0.0, "universal")
    assert (summary.session, summary.asked, summary.teachers) == (choice.id, labels.asked, 100)
    certificate = certificate_of(summary)
    assert (certificate.guarantee.epsilon, certificate.guarantee.delta) == (4.0, 1e-5)
    assert certificate.leading.guarantee.epsilon == 1.0
    assert [other.session for other in certificate.other_sessions] == [labels.id]
    assert certificate.claim_in_words.endswith("by universal and stable")
    assert len(certificate.other_sessions[0].files) == 3
    assert "the guarantee above is the sum" in Path(summary.report).read_text()
    for session in (labels, choice):
        with pytest.raises(world.WrongInput, match=facts("labels any row")):
            world.start_extension(session.id, Path(plan.path("public")), home)
    charge = charged(home)
    for other in ({"epsilon": 0.5}, {"hypotheses": "stumps", "features": ["size"]}):  # the plan asks for one choice
        with pytest.raises(world.BudgetRefused, match=facts("--new-session", "ε 4")):
            world.start(world.parse_plan({**tables, "student": BESIDE | other}), home)
    assert charged(home) == charge


@pytest.mark.slow
def test_a_kill_between_the_two_openings_needs_no_new_session(tables: dict[str, Any], home: Path) -> None:
    opened: list[str] = []

    def killed_at_the_second(*given: Any, **named: Any) -> Any:
        if opened:
            dies()
        opened.append("labels")
        return world.reserve_session(*given, **named)

    with killed_at("tests.world.flows_admit.reserve_session", by=killed_at_the_second):
        world.start(world.parse_plan(tables), home)
    assert len(world.Ledger.of(home).sessions("people")) == 1
    world.start(world.parse_plan(tables), home)
    sessions = world.Ledger.of(home).sessions("people")
    assert [session.mechanism["name"] for session in sessions] == ["stable", "universal"]


def test_both_together_must_be_covered_before_anything_private_is_read(tables: dict[str, Any], home: Path) -> None:
    """The domain covers either of the two alone."""
    Path(tables["folder"], "private.csv").write_text("none of the columns\n")
    tables["privacy"] |= {"epsilon": 7.0, "lifetime": {"epsilon": 7.0, "delta": 4e-5}}
    tables["labeling"] = {"mechanism": "noisy_votes", "queries": 300}
    tables["student"] = BESIDE | {"epsilon": 3.9}
    with pytest.raises(world.BudgetRefused, match=facts("budget", "ε 7")):
        world.start(world.parse_plan(tables), home)
    assert world.Ledger.of(home).domains() == ()


@pytest.mark.slow
def test_universal_labelling_relabels_first(tables: dict[str, Any], home: Path) -> None:
    """Nandi & Bassily 2020: the first queries by Algorithm 5, all that follow by what is chosen on their cover."""
    relabel = {"hypotheses": "stumps", "share": 0.3}
    summary = world.start(world.parse_plan({**tables, "relabel": relabel}), home)
    labels, choice = world.Ledger.of(home).sessions("people")
    assert (labels.mechanism["relabel"]["share"], labels.per_refusal) == (0.3, None)
    assert (labels.epsilon, choice.epsilon, summary.guarantee["epsilon"]) == (3.0, 1.0, 4.0)
    certificate = certificate_of(summary)
    assert certificate.relabelling is not None
    assert certificate.relabelling.whole.epsilon == 3.0
    assert world.RELABELLED in certificate.caveats
    assert all(check.ok for check in world.verify(home))
    with pytest.raises(world.BudgetRefused, match="secret subset"):
        world.start(world.parse_plan({**tables, "relabel": relabel}), home, new_session=True)
