"""What is special to relabelled sessions: a domain has one of them, and the whole is charged; their life:
tests/promises/test_lifecycle.py; what stays secret: tests/promises/test_canary_kinds.py."""

import shutil
from pathlib import Path

import pytest

from tests import world
from tests.support.homes import charged, labels_of
from tests.support.people import changed, people
from tests.support.relabelling import tables


@pytest.fixture
def plan(kept: Path) -> world.Plan:
    return changed(tables(kept / "data"))


@pytest.mark.slow
def test_every_part_of_the_cost_is_shown(home: Path, session: str) -> None:
    folder = home / "released" / session
    certificate = world.Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    record = certificate.relabelling
    assert record is not None
    assert (record.share, record.choice_epsilon) == (0.3, 1.0)
    made = world.recorded_as(world.Relabelled, certificate.mechanism.settings).relabelling
    assert made.whole(record.inner.epsilon, record.inner.delta) == pytest.approx((4.0, 1e-5))
    for name in ("Nandi & Bassily 2020", "Beimel, Nissim & Stemmer 2015", "amplification"):
        assert name in certificate.mechanism.proof
    assert world.RELABELLED in certificate.caveats
    report = (folder / "report.html").read_text()
    for shown in ("relabelled", f"{record.inner.epsilon:.4g}", "nothing returns to the budget"):
        assert shown in report
    (run,) = (recorded for recorded in world.Tracking.of(home).runs(session))
    params = (world.Tracking.of(home).recorded(run) or pytest.fail("it has no record")).params
    assert (params["relabel.share"], params["relabel.choice_epsilon"]) == ("0.3", "1.0")
    assert str(record.inner.epsilon) in params["relabel.inner"]


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_draw_that_is_gone_stops_the_session(
    plan: world.Plan, home: Path, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge, labels = charged(home), labels_of(home, session)
    shutil.rmtree(home / "vault" / "choices")
    # one that says the first class of all rows
    monkeypatch.setattr(world.units_relabel, "choose_hypothesis", lambda *_: 0)
    with pytest.raises(world.NotVerified, match="changed"):
        world.start(plan, home)
    assert (charged(home), labels_of(home, session)) == (charge, labels)


@pytest.mark.slow
def test_a_domain_has_one_relabelled_session_which_goes_on_beside_others(
    plan: world.Plan, home: Path, session: str, tmp_path: Path
) -> None:
    people(50, 9).drop("outcome", "person").write_parquet(tmp_path / "more.parquet")
    assert world.start_extension(session, tmp_path / "more.parquet", home).asked_now == 50
    over_all = world.start(changed(plan.model_dump(exclude={"relabel"}), privacy__epsilon=1.0), home, new_session=True)
    assert over_all.session != session
    assert [check for check in world.verify(home) if not check.ok] == []
    charge = charged(home)
    with pytest.raises(world.BudgetRefused, match="secret subset"):
        world.start(changed(plan, data__version="2"), home, new_session=True)
    world.close(world.Stores.of(home), session, give_back=True)
    assert charged(home) == charge  # nothing returns
    with pytest.raises(world.BudgetRefused, match="secret subset"):
        world.start(changed(plan, relabel__share=0.2), home, new_session=True)
    assert charged(home) == charge
