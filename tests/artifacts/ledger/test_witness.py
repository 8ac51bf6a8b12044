"""The witness: a ledger put back to an older copy stops, and goes on only when what may have been spent is charged."""

import multiprocessing
import shutil
from pathlib import Path

import pytest

from concord.artifacts.errors import BudgetRefused, EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.witness import Witness
from concord.artifacts.privacy import Charge
from concord.artifacts.sessions import Opening
from tests.artifacts.ledger.openings import CAP, DOMAIN, at_most, batch, named, opening, refusals
from tests.artifacts.ledger.test_chain import lines
from tests.artifacts.ledger.witnessed import CHANGES, RELABELLED, answer, put_back, seen, watched
from tests.support.sentences import facts


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the witness is: outside the home folder, named by the environment."""
    monkeypatch.setenv("CONCORD_WITNESS", str(tmp_path / "witness"))
    return tmp_path / "witness"


@pytest.fixture
def home(tmp_path: Path, place: Path) -> Path:
    """A home that is watched; and beside it `old`, a copy of it as it is now."""
    made = watched(tmp_path / "home")
    assert place.exists()
    return made


def test_every_entry_is_seen_with_what_is_charged(home: Path, place: Path) -> None:
    digests = [line.digest for line in lines(home)]
    assert [head for sighting in seen(place) for head in sighting["heads"]] == digests  # type: ignore[attr-defined]  # JSON
    assert seen(place)[-1]["seq"] == len(digests)
    last = Witness(place).last()
    assert last is not None
    ledger = Ledger.of(home)
    assert [(standing.domain, standing.charge) for standing in last.standings] == [
        (ledger.domain("census"), ledger.total("census"))
    ]
    assert place.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", CHANGES)
def test_an_older_copy_stops_before_anything_is_written(home: Path, change: str) -> None:
    answer(Ledger.of(home), 1)
    older = put_back(home)
    before = lines(home)
    with pytest.raises(NotVerified, match=facts("backup", "`concord restore`")):
        CHANGES[change](older)
    assert lines(home) == before
    with pytest.raises(NotVerified, match="restored from a backup"):
        older.check_witness()
    assert older.session("one").refused == 1  # it may still be looked at


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_copy_does_not(home: Path, change: str) -> None:
    CHANGES[change](put_back(home))


def test_a_restored_ledger_charges_what_was_lost(home: Path) -> None:
    newer = Ledger.of(home)
    newer.settle("one", give_back=True)
    newer.open_session(opening("lost", whole=refusals(40)), further=True)
    charged = newer.total("census")
    older = put_back(home)
    (standing,) = older.restore("the disk died")
    assert standing.charge == older.total("census")
    assert at_most(charged, older.total("census"))
    item = older.session("one")
    assert (item.status, item.charge) == ("closed", item.reserved)
    with pytest.raises(BudgetRefused):
        older.begin_batch("one", batch(1, first=100))
    assert older.settle("one", give_back=True) == item  # nothing returns
    older.open_session(opening("next"), further=True)
    answer(older, 0, "next")
    assert Ledger.of(home).total("census") == older.total("census")
    older.check_witness()


def test_a_restored_domain_may_have_answered_from_its_secret_subset(home: Path) -> None:
    """What is charged for a lost session leaves open whether it was relabelled; one subset serves one such session."""
    Ledger.of(home).open_session(opening("lost", **RELABELLED), further=True)
    older = put_back(home)
    older.restore("the disk died")
    with pytest.raises(BudgetRefused, match=facts("session that is lost", "secret subset")):
        older.open_session(opening("again", **RELABELLED), further=True)
    older.open_session(opening("again"), further=True)  # over all rows


def test_what_the_ledger_charges_already_is_not_charged_again(home: Path) -> None:
    answer(Ledger.of(home), 1)
    older = put_back(home)
    older.restore("the disk died")
    assert older.total("census") == older.session("one").reserved


def test_a_lost_domain_is_named_again_as_it_was(home: Path) -> None:
    newer = Ledger.of(home)
    newer.recap("census", 3, 3e-5, "the board said so")
    newer.name_domain("survey", unit="one row", neighbours=DOMAIN.neighbours, **CAP)
    newer.open_session(opening("lost", domain="survey"))
    state = newer.domains(), newer.total("survey")
    older = put_back(home)
    older.restore("the disk died")
    assert (older.domains(), older.total("survey")) == state
    assert older.caps("census") == ((4.0, 4e-5), (3.0, 3e-5))  # a plan follows it
    assert older.caps("survey") == ((4.0, 4e-5),)  # nobody has changed it, and a plan that differs is a wrong one


def test_a_ledger_that_is_gone_altogether_is_restored(home: Path) -> None:
    charged = Ledger.of(home).total("census")
    shutil.rmtree(home)
    with pytest.raises(NotVerified, match="has 0 entries"):
        named(Ledger.of(home))
    (standing,) = Ledger.of(home).restore("there was no backup")
    assert (standing.domain, standing.charge) == (DOMAIN, charged)


def test_a_restored_ledger_put_back_again_stops_again(home: Path) -> None:
    answer(Ledger.of(home), 1)
    put_back(home).restore("the disk died")
    older = put_back(home)
    with pytest.raises(NotVerified, match="restored from a backup"):
        answer(older, 1)
    older.restore("and again")
    assert lines(home)[-1].kind == "restore"


def test_a_restoration_whose_sighting_was_lost_goes_on(home: Path, place: Path) -> None:
    answer(Ledger.of(home), 1)
    before = place.read_bytes()
    put_back(home).restore("the disk died")
    place.write_bytes(before)  # as a crash between commit and sighting leaves it
    ledger = Ledger.of(home)
    with pytest.raises(WrongInput, match="nothing is to be restored"):
        ledger.restore("again")
    ledger.open_session(opening("next"), further=True)
    assert [len(sighting["heads"]) for sighting in seen(place)][-1] == 2  # type: ignore[arg-type]  # JSON
    put_back(home).restore("a second time")


def test_a_crash_between_commit_and_sighting_leaves_the_ledger_ahead(home: Path, place: Path) -> None:
    before = place.read_bytes()
    ledger = Ledger.of(home)
    ledger.begin_batch("one", batch(1, first=100))
    place.write_bytes(before)
    Ledger.of(home).begin_batch("one", batch(1, first=100))  # the same again, as a run that is taken up asks
    assert seen(place)[-1]["seq"] == len(lines(home))


def test_nothing_to_restore_is_wrong_input(home: Path) -> None:
    with pytest.raises(WrongInput, match="holds all that"):
        Ledger.of(home).restore("in doubt")


def test_a_torn_line_counts_for_nothing(home: Path, place: Path) -> None:
    whole = place.read_bytes()
    place.write_bytes(whole + b'{"seq": 99, "heads"')
    answer(Ledger.of(home), 1)
    assert place.read_bytes().startswith(whole + b'{"seq":6')


@pytest.mark.parametrize("text", ["no sighting\n", '{"seq": 1}\n', '{"seq":1,"heads":[],"standings":[]}\n'])
def test_a_file_that_is_no_witness_stops(home: Path, place: Path, text: str) -> None:
    place.write_text(text)
    with pytest.raises(NotVerified, match="no sighting"):
        Ledger.of(home).check_witness()


def test_a_witness_in_the_home_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_WITNESS", str(home / "witness"))
    with pytest.raises(WrongInput, match="outside the home folder"):
        Ledger.of(home)


def test_a_witness_that_cannot_be_written_stops_before_a_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_WITNESS", str(tmp_path / "not mounted" / "witness"))
    for _ in range(2):
        with pytest.raises(EnvironmentFailed, match="cannot be written"):
            named(Ledger.of(tmp_path / "home"))


def test_long_lines_are_read_from_the_end(tmp_path: Path, place: Path) -> None:
    ledger = Ledger.of(tmp_path / "home")
    for index in range(60):  # a line of some 12 kB
        ledger.name_domain(f"domain {index}", unit="one row", neighbours="none", **CAP)
    last = Witness(place).last()
    assert last is not None
    assert len(last.standings) == 60
    assert len(place.read_bytes().splitlines()[-1]) > 3 * 4096


def opens(home: Path, number: int) -> None:
    ledger = Ledger.of(home)
    for index in range(5):
        asked: Opening = opening(f"{number}-{index}", whole=refusals(1), cutoff=1)
        ledger.open_session(asked, further=True)


def test_processes_are_seen_in_turn(home: Path, place: Path) -> None:
    context = multiprocessing.get_context("spawn")  # with the environment as it is here, and no thread of ours
    processes = [context.Process(target=opens, args=(home, number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 2
    assert [head for sighting in seen(place) for head in sighting["heads"]] == [line.digest for line in lines(home)]  # type: ignore[attr-defined]  # JSON
    Ledger.of(home).check_witness()
    assert Ledger.of(home).total("census") != Charge()
