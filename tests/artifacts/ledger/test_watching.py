"""A ledger that says it is witnessed: it stops without its witness, and goes on without it on the record alone."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from concord.artifacts.errors import BudgetRefused, EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.ledger.ledger import Ledger
from tests.artifacts.ledger.openings import CAP, DOMAIN, batch, named, opening, outcome, refusals
from tests.artifacts.ledger.test_chain import lines
from tests.artifacts.ledger.witnessed import CHANGES, RELABELLED, answer, put_back, seen, watched
from tests.support.sentences import facts


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONCORD_WITNESS", str(tmp_path / "witness"))
    return tmp_path / "witness"


@pytest.fixture
def home(tmp_path: Path, place: Path) -> Path:
    """A home that is watched; and beside it `old`, a copy of it as it is now."""
    made = watched(tmp_path / "home")
    assert place.exists()
    return made


def unset(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.delenv("CONCORD_WITNESS")


def removed(place: Path, _: pytest.MonkeyPatch) -> None:
    place.unlink()


def emptied(place: Path, _: pytest.MonkeyPatch) -> None:
    place.write_bytes(b"")


def misnamed(place: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("CONCORD_WITNESS", f"{place}.elsewhere")


GONE: list[Callable[[Path, pytest.MonkeyPatch], None]] = [unset, removed, emptied, misnamed]


def test_it_says_so_once_its_witness_has_seen_it(home: Path, place: Path) -> None:
    assert [line.kind for line in lines(home)][:3] == ["domain", "watch", "open"]
    assert len(seen(place)[0]["heads"]) == 1  # type: ignore[arg-type]  # JSON
    assert Ledger.of(home).witnessed


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("change", CHANGES)
def test_without_its_witness_it_stops_before_anything_is_written(
    home: Path, place: Path, monkeypatch: pytest.MonkeyPatch, change: str, gone: Callable[..., None]
) -> None:
    gone(place, monkeypatch)
    before, ledger = lines(home), Ledger.of(home)
    for act in (CHANGES[change], Ledger.check_witness):
        with pytest.raises(NotVerified, match=facts("witness", "restore", "`concord restore")):
            act(ledger)
    assert lines(home) == before
    assert ledger.session("one").refused == 1  # it may still be looked at


@pytest.mark.parametrize("gone", GONE)
def test_it_goes_on_without_its_witness_for_a_reason_on_the_record(
    home: Path, place: Path, monkeypatch: pytest.MonkeyPatch, gone: Callable[..., None]
) -> None:
    gone(place, monkeypatch)
    ledger = Ledger.of(home)
    (standing,) = ledger.restore("the machine that had it burnt")
    assert "burnt" in lines(home)[-1].body
    item = ledger.session("one")
    assert (item.status, item.charge, standing.charge) == ("closed", item.reserved, item.reserved)
    with pytest.raises(BudgetRefused):
        ledger.begin_batch("one", batch(1, first=100))
    ledger.open_session(opening("next"), further=True)
    answer(ledger, 0, "next")
    assert ledger.lost_its_witness
    assert ledger.witnessed == ledger.check_witness() == (gone is not unset)
    with pytest.raises(WrongInput, match="nothing is to be restored"):
        ledger.restore("again")
    assert Ledger.of(home).session("next").status == "open"


def test_a_domain_whose_witness_is_gone_may_have_answered_from_its_secret_subset(home: Path, place: Path) -> None:
    place.unlink()
    ledger = Ledger.of(home)
    ledger.restore("the machine that had it burnt")
    with pytest.raises(BudgetRefused, match=facts("session that is lost", "secret subset")):
        ledger.open_session(opening("next", **RELABELLED), further=True)
    ledger.name_domain("survey", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    ledger.open_session(opening("next", domain="survey", **RELABELLED))


def test_a_new_witness_has_seen_all_of_it(home: Path, place: Path) -> None:
    place.unlink()
    Ledger.of(home).restore("the machine that had it burnt")
    assert [head for sighting in seen(place) for head in sighting["heads"]] == [line.digest for line in lines(home)]  # type: ignore[attr-defined]  # JSON
    answer_on = put_back(home)
    with pytest.raises(NotVerified, match="restored from a backup"):
        answer(answer_on, 1)


def test_a_new_witness_that_cannot_be_written_ends_no_session(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_WITNESS", str(home.parent / "not mounted" / "witness"))
    before = lines(home)
    with pytest.raises(EnvironmentFailed, match="cannot be written"):
        Ledger.of(home).restore("the machine that had it burnt")
    assert lines(home) == before


@pytest.mark.parametrize("sightings", [1, 2])
def test_a_death_between_any_two_steps_of_the_first_watch_leaves_it_to_go_on(
    home: Path, place: Path, sightings: int
) -> None:
    shutil.rmtree(home)
    first = b"".join(place.read_bytes().splitlines(keepends=True)[:1])
    place.unlink()
    named(Ledger.of(home))
    if sightings == 1:  # the sighting of the entry that says so was lost
        assert place.read_bytes() != first
        place.write_bytes(place.read_bytes().splitlines(keepends=True)[0])
    Ledger.of(home).open_session(opening())
    assert seen(place)[-1]["seq"] == len(lines(home)) == 3


def test_a_ledger_that_was_never_witnessed_goes_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONCORD_WITNESS")
    shutil.rmtree(home)
    ledger = named(Ledger.of(home))
    ledger.open_session(opening())
    assert not ledger.witnessed
    assert not ledger.check_witness()
    with pytest.raises(WrongInput, match="CONCORD_WITNESS must name"):
        ledger.restore("in doubt")


@pytest.fixture
def separate(home: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A ledger put back to an older copy that went on without its witness, which saw more of the other: one session
    drawn on further, and one more opened. Its witness is there again."""
    newer = Ledger.of(home)
    answer(newer, 1)
    newer.open_session(opening("theirs", whole=refusals(20)), further=True)
    with monkeypatch.context() as patch:
        patch.delenv("CONCORD_WITNESS")
        ours = put_back(home)
        ours.restore("nobody knew that there was one")
        ours.open_session(opening("ours", whole=refusals(5)), further=True)
        answer(ours, 0, "ours")
    return Ledger.of(home)


def test_two_histories_are_charged_together(separate: Ledger, place: Path) -> None:
    charged_there = seen(place)[-1]["standings"][0]["charge"]["renyi"]  # type: ignore[index]  # JSON
    with pytest.raises(NotVerified, match="restored from a backup"):
        answer(separate, 1, "ours")
    ours = separate.session("ours").reserved
    (standing,) = separate.restore("the witness was found")
    assert standing.domain == DOMAIN
    assert str(standing.charge.renyi - ours.renyi) == charged_there
    assert separate.session("ours").status == "closed"
    separate.recap("census", 9.0, 1e-4, "more is needed")
    separate.open_session(opening("next"), further=True)
    answer(separate, 0, "next")
    digests = [line.digest for line in lines(place.parent / "home")]
    heads: list[str] = []
    for sighting in seen(place):
        heads[sighting["seq"] - len(sighting["heads"]) :] = sighting["heads"]  # type: ignore[operator,arg-type,call-overload]  # JSON
    assert heads == digests


def test_a_session_drawn_on_in_both_is_not_restored(home: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a version that knew of no record could go on: with the entry that says so taken out of the copy."""
    shutil.rmtree(home)
    with monkeypatch.context() as patch:
        patch.delenv("CONCORD_WITNESS")
        ledger = named(Ledger.of(home))
        ledger.open_session(opening())
        shutil.rmtree(home.parent / "old")
        shutil.copytree(home, home.parent / "old")
    place.unlink()
    answer(Ledger.of(home), 0)
    with monkeypatch.context() as patch:
        patch.delenv("CONCORD_WITNESS")
        ours = put_back(home)
        ours.begin_batch("one", batch(exact_digest="others"))
        ours.commit_batch("one", outcome(refused=1))
    before = lines(home)
    with pytest.raises(NotVerified, match="session one was drawn on in this ledger"):
        Ledger.of(home).restore("the disk died")
    assert lines(home) == before


def test_the_witness_of_another_ledger_restores_nothing(home: Path, tmp_path: Path) -> None:
    shutil.rmtree(home)
    (tmp_path / "witness").rename(tmp_path / "theirs")
    Ledger.of(home).name_domain("survey", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    shutil.copy(tmp_path / "theirs", tmp_path / "witness")
    before = lines(home)
    with pytest.raises(NotVerified, match=facts("another ledger", "CONCORD_WITNESS")):
        Ledger.of(home).restore("in doubt")
    assert lines(home) == before


def test_a_witness_that_was_only_misplaced_is_taken_up_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delenv("CONCORD_WITNESS")
        ledger = Ledger.of(home)
        ledger.restore("nobody knew where it was")
        ledger.open_session(opening("next"), further=True)
    answer(Ledger.of(home), 0, "next")
    assert Ledger.of(home).witnessed
    assert Ledger.of(home).session("next").status == "open"
