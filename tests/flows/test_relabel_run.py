"""Relabelled sessions end to end: ĥ is drawn once, a domain has one of them, the whole is charged; what stays secret:
tests/promises/test_canary_relabel.py."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import charged, labels_of
from tests.support.people import changed, people
from tests.support.relabelling import tables
from tests.world import (
    RELABELLED,
    BudgetRefused,
    Certificate,
    Ledger,
    NotVerified,
    Plan,
    Relabelled,
    Stores,
    Summary,
    Tracking,
    WrongInput,
    asking_relabel,
    close,
    forget,
    start,
    start_extension,
    verify,
)


@pytest.fixture
def plan(kept: Path) -> Plan:
    return changed(tables(kept / "data"))


def cached(summary: Summary) -> dict[str, bool]:
    return {report.name: report.cached for report in summary.stages}


def drawn(home: Path) -> dict[str, bytes]:
    """What was drawn, by the file that keeps it."""
    return {path.name: path.read_bytes() for path in sorted((home / "vault" / "choices").rglob("*.json"))}


def files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_run_is_certified_verified_and_replayed(plan: Plan, home: Path) -> None:
    asked = changed(plan, relabel__features=None)
    first = start(asked, home)
    assert list(cached(first)) == ["encode", "split", "relabel", "teach", "poll", "release", "study", "certify"]
    assert first.answered == 300
    assert first.guarantee["epsilon"] == 4.0
    assert [check for check in verify(home) if not check.ok] == []
    again = start(asked, home)
    assert all(cached(again).values())
    assert again.spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert len(drawn(home)) == 1


@pytest.mark.slow
def test_every_part_of_the_cost_is_shown(home: Path, session: str) -> None:
    folder = home / "released" / session
    certificate = Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    record = certificate.relabelling
    assert record is not None
    assert (record.share, record.choice_epsilon) == (0.3, 1.0)
    made = Relabelled.from_settings(certificate.mechanism.kind).relabelling
    assert made.whole(record.inner.epsilon, record.inner.delta) == pytest.approx((4.0, 1e-5))
    for name in ("Nandi & Bassily 2020", "Beimel, Nissim & Stemmer 2015", "amplification"):
        assert name in certificate.mechanism.proof
    assert RELABELLED in certificate.caveats
    report = (folder / "report.html").read_text()
    for shown in ("relabelled", f"{record.inner.epsilon:.4g}", "nothing returns to the budget"):
        assert shown in report
    (run,) = (recorded for recorded in Tracking.of(home).runs(session))
    params = (Tracking.of(home).recorded(run) or pytest.fail("it has no record")).params
    assert (params["relabel.share"], params["relabel.choice_epsilon"]) == ("0.3", "1.0")
    assert str(record.inner.epsilon) in params["relabel.inner"]


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_lost_files_are_made_again_and_the_draw_stays(plan: Plan, home: Path, session: str) -> None:
    before, labels = drawn(home), labels_of(home, session)
    for folder in ("results", "vault/shards", "vault/relabelled", "vault/teachers", "vault/votes"):
        shutil.rmtree(home / folder)
    again = start(plan, home)
    assert again.session == session
    assert not any(cached(again)[stage] for stage in ("split", "relabel", "teach", "poll"))
    assert (drawn(home), labels_of(home, session)) == (before, labels)


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_draw_that_is_gone_stops_the_session(
    plan: Plan, home: Path, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge, labels = charged(home), labels_of(home, session)
    shutil.rmtree(home / "vault" / "choices")
    monkeypatch.setattr(asking_relabel, "choose_hypothesis", lambda *_: 0)  # which says the first class of all rows
    with pytest.raises(NotVerified, match="changed"):
        start(plan, home)
    assert (charged(home), labels_of(home, session)) == (charge, labels)


@pytest.mark.slow
def test_it_goes_on_with_more_rows(home: Path, session: str, tmp_path: Path) -> None:
    people(50, 9).drop("outcome", "person").write_parquet(tmp_path / "more.parquet")
    assert start_extension(session, tmp_path / "more.parquet", home).asked_now == 50
    assert [check for check in verify(home) if not check.ok] == []


@pytest.mark.slow
def test_a_domain_has_one_relabelled_session(plan: Plan, home: Path, session: str) -> None:
    charge = charged(home)
    with pytest.raises(BudgetRefused, match="secret subset"):
        start(changed(plan, data__version="2"), home, new_session=True)
    close(Stores.of(home), session, give_back=True)
    assert charged(home) == charge  # nothing returns
    with pytest.raises(BudgetRefused, match="secret subset"):
        start(changed(plan, relabel__share=0.2), home, new_session=True)
    assert charged(home) == charge


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_sessions_over_all_rows_go_beside_it(plan: Plan, home: Path, session: str) -> None:
    further = start(changed(plan.model_dump(exclude={"relabel"}), privacy__epsilon=1.0), home, new_session=True)
    assert further.session != session
    assert "relabel" not in cached(further)
    assert [check for check in verify(home) if not check.ok] == []


@pytest.mark.slow
def test_forgetting_destroys_the_choice_and_the_relabelled_rows(home: Path, session: str) -> None:
    close(Stores.of(home), session, give_back=False)
    assert forget(Stores.of(home), session)
    for folder in ("choices", "relabelled", "shards", "teachers", "votes"):
        assert files(home / "vault" / folder) == []
    assert [check for check in verify(home) if not check.ok] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relabel__hypotheses": "forests"}, "every dichotomy"),
        ({"relabel__hypotheses": "rectangles"}, "2 features"),
        ({"relabel__features": ["height"]}, "'height'"),
        ({"relabel__share": 1.0, "privacy__epsilon": 0.5}, "share below"),
        ({"data__classes": ["no", "yes", "perhaps"]}, "two classes alone"),
        ({"privacy__secret": "labels"}, "rows are secret"),
    ],
)
def test_what_cannot_be_proved_is_refused_before_anything_private_is_read(
    plan: Plan, home: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    unread = tmp_path / "private.csv"
    unread.write_text("none of the columns\n")
    with pytest.raises(WrongInput, match=message):
        start(changed(plan, data__private=str(unread), **change), home)
    assert Ledger.of(home).domains() == ()
