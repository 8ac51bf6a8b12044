"""What is special to a question to all shards: the worked example, streams of questions, and what asks for a further
session; its life: tests/promises/test_lifecycle.py."""

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from mlflow.tracking import MlflowClient

from tests import world
from tests.support.pages import python_on
from tests.support.people import people, write_plan, write_tables
from tests.support.sentences import facts

pytestmark = pytest.mark.slow
(EXAMPLE,) = python_on("deployments/guides/questions.md")
STREAM: dict[str, Any] = {"epsilon": 8.0, "cutoff": 2}
"""Terms by which it refuses what 150 shards agree on with probability 1e-8, and with 5e-11 nothing that they do not."""


def patients(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age, visits = rng.uniform(20, 90, rows).round(), rng.integers(0, 9, rows)
    stays = age + 2 * visits + rng.normal(0, 9, rows) > 55
    return pl.DataFrame({"age": age, "visits": visits, "readmitted": np.where(stays, "yes", "no")})


@pytest.fixture
def plan(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORD_HOME", str(home))
    lifetime = {"epsilon": 12.0, "delta": 1e-4}
    return write_plan(write_tables(tmp_path), labeling__cutoff=60, privacy__delta=1e-9, privacy__lifetime=lifetime)


def common_shade(rows: pl.DataFrame) -> str:
    return str(rows["shade"].mode().min())


def larger_shade(rows: pl.DataFrame) -> str:
    """Which comes with the outcome."""
    return str(rows.filter(pl.col("outcome") == "yes")["shade"].mode().min())


def sessions(home: Path) -> list[str]:
    return [session.id for session in world.Ledger.of(home).sessions("people")]


def faults(home: Path) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in world.verify(home) if not check.ok]


def test_the_worked_example_runs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients(9000, 1).write_csv(tmp_path / "private.csv")
    patients(300, 2).drop("readmitted").write_parquet(tmp_path / "public.parquet")
    no_test = {"data__test": None, "data__unit": None, "data__label": "readmitted", "student": None}
    write_plan(tmp_path, **no_test, teachers__count=300)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORD_HOME", str(home))
    with redirect_stdout(StringIO()) as shown:
        exec(EXAMPLE, {})
    first, *others = shown.getvalue().splitlines()
    assert first == "answered age 0.5"
    assert [line.partition(" (")[0] for line in others] == [
        *("most below 40 return: False", "most below 60 return: False", "most below 90 return: True")
    ]
    assert faults(home) == []
    assert len(sessions(home)) == 2


def test_a_question_is_certified_shown_and_answered_again_by_the_same_run(plan: Path, home: Path) -> None:
    first = world.ask(plan, larger_shade, epsilon=1.0)
    assert (first.outcome, first.value, repr(first)) == ("answered", "dark", repr(first))
    with pytest.raises(world.WrongInput, match=facts(first.session, "questions")):
        world.handed_on(first.session, home)
    session = world.Ledger.of(home).session(first.session)
    assert (session.epsilon, session.delta, session.teachers) == (1.0, 1e-9, 150)
    certificate = first.certificate
    assert (certificate.guarantee.epsilon, certificate.teachers) == (1.0, 150)
    more = certificate.leading.model_copy(update={"teachers": 9})
    with pytest.raises(world.NotVerified, match="teachers is 9"):
        world.excerpt_as_certified(
            certificate.model_copy(update={"sessions": (more,)}),
            world.PublishedSession.at(home / "released" / session.id).excerpt,
        )
    assert [(item.question, item.answer) for item in certificate.leading.answers] == [("larger_shade", "dark")]
    (domain,) = world.budget_of(home)["domains"]
    assert [(item["mechanism"], item["asked"]) for item in domain["sessions"]] == [("optimal_release", 1)]
    again = world.ask(plan, larger_shade, epsilon=1.0)
    assert (again.value, again.details["run_id"]) == ("dark", first.details["run_id"])
    data = MlflowClient(f"sqlite:///{home / 'mlflow.db'}").get_run(first.details["run_id"]).data
    assert (data.params["answer"], data.params["question"]) == ('"dark"', "larger_shade")
    assert set(data.metrics) == {"epsilon", "delta", "shards"}


def test_another_question_is_another_session_and_other_code_another_question(plan: Path, home: Path) -> None:
    first = world.ask(plan, larger_shade, name="shade", epsilon=0.5)
    with pytest.raises(world.BudgetRefused, match="further session"):
        world.ask(plan, common_shade, epsilon=0.5)
    with pytest.raises(world.WrongInput, match="another name"):
        world.ask(plan, common_shade, name="shade", epsilon=0.5)
    assert sessions(home) == [first.session]
    other = world.ask(plan, common_shade, epsilon=0.5, form="laplace", new_session=True)
    assert sessions(home) == [first.session, other.session]
    assert faults(home) == []


def test_a_stream_of_questions_shares_a_session_until_it_is_closed(plan: Path, home: Path) -> None:
    first = world.ask(plan, larger_shade, **STREAM)
    charged = world.Ledger.of(home).total("people")
    answers = [
        world.ask(plan, lambda rows: rows.height > 3, name="enough", **STREAM),
        world.ask(plan, lambda rows: rows["size"].sum(), name="sum", **STREAM),
    ]
    assert world.Ledger.of(home).total("people") == charged
    assert {answer.session for answer in answers} == {first.session}
    assert (first.value, answers[1].outcome, answers[1].value) == ("dark", "refused", None)
    assert [item.answer for item in answers[1].certificate.leading.answers] == ["dark", True, None]
    assert (first.certificate.session, faults(home)) == (first.session, [])  # the certificate is that of the session
    world.close(world.Stores.of(home), first.session, give_back=True)
    assert world.Ledger.of(home).total("people").renyi < charged.renyi
    with pytest.raises(world.BudgetRefused, match="another question needs a further session"):
        world.ask(plan, common_shade, **STREAM)
    assert world.ask(plan, larger_shade, **STREAM).value == "dark"
    assert faults(home) == []


def test_questions_are_no_session_of_a_run_nor_a_run_one_of_questions(plan: Path, home: Path) -> None:
    asked = world.ask(plan, larger_shade, epsilon=0.5)
    done = world.run(plan)
    assert world.latest(world.Stores.of(home), "people").id == done.session
    with pytest.raises(world.WrongInput, match="is for questions"):
        world.start_extension(asked.session, Path("more.parquet"), home)
    assert [charge.session for charge in done.certificate.domain.charges] == [asked.session, done.session]
    assert asked.session in done.report_path.read_text()
    assert world.ask(plan, larger_shade, epsilon=0.5).session == asked.session
    assert faults(home) == []


def test_what_was_asked_under_a_version_of_the_data_is_not_asked_of_other_data(plan: Path) -> None:
    world.ask(plan, larger_shade, **STREAM)
    people(6000, 7).write_csv(plan.parent / "private.csv")
    with pytest.raises(world.NotVerified, match=facts("teachers.block", "version", "--new-session")):
        world.ask(plan, common_shade, **STREAM)
    assert world.ask(plan, larger_shade, **STREAM).value == "dark"  # from what was released


def test_plans_without_shards_and_questions_that_cannot_be_asked_spend_nothing(plan: Path, home: Path) -> None:
    with pytest.raises(world.WrongInput, match=facts("public rows", "ColumnNotFoundError")):
        world.ask(plan, lambda rows: rows["wealth"][0], name="wealth")
    votes = dict.fromkeys(("teachers", "labeling", "student"))
    tallied = {**votes, "labeling__mechanism": "tallies", "labeling__rows": 300}
    for plan_of, sentence in ((tallied, "has none"), ({"relabel__share": 0.3}, r"without \[relabel\]")):
        with pytest.raises(world.WrongInput, match=sentence):
            world.ask(write_plan(write_tables(plan.parent / "other"), **plan_of), larger_shade)
    assert world.Ledger.of(home).domains() == ()
