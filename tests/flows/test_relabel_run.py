"""What is special to relabelled sessions: a domain has one of them, and the whole is charged; their life:
tests/promises/test_lifecycle.py; what stays secret: tests/promises/test_canary_kinds.py."""

import shutil
from pathlib import Path

import pytest

from tests.support.homes import charged, labels_of
from tests.support.people import changed, people
from tests.support.relabelling import tables
from tests.world import (
    RELABELLED,
    BudgetRefused,
    Certificate,
    NotVerified,
    Plan,
    Relabelled,
    Stores,
    Tracking,
    asking_relabel,
    close,
    recorded_as,
    start,
    start_extension,
    verify,
)


@pytest.fixture
def plan(kept: Path) -> Plan:
    return changed(tables(kept / "data"))


@pytest.mark.slow
def test_every_part_of_the_cost_is_shown(home: Path, session: str) -> None:
    folder = home / "released" / session
    certificate = Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    record = certificate.relabelling
    assert record is not None
    assert (record.share, record.choice_epsilon) == (0.3, 1.0)
    made = recorded_as(Relabelled, certificate.mechanism.settings).relabelling
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
def test_a_domain_has_one_relabelled_session_which_goes_on_beside_others(
    plan: Plan, home: Path, session: str, tmp_path: Path
) -> None:
    people(50, 9).drop("outcome", "person").write_parquet(tmp_path / "more.parquet")
    assert start_extension(session, tmp_path / "more.parquet", home).asked_now == 50
    over_all = start(changed(plan.model_dump(exclude={"relabel"}), privacy__epsilon=1.0), home, new_session=True)
    assert over_all.session != session
    assert [check for check in verify(home) if not check.ok] == []
    charge = charged(home)
    with pytest.raises(BudgetRefused, match="secret subset"):
        start(changed(plan, data__version="2"), home, new_session=True)
    close(Stores.of(home), session, give_back=True)
    assert charged(home) == charge  # nothing returns
    with pytest.raises(BudgetRefused, match="secret subset"):
        start(changed(plan, relabel__share=0.2), home, new_session=True)
    assert charged(home) == charge
