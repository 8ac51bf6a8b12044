"""One of several homes against a hostile lead: each rule of what is checked, and the attack that it stops."""

import errno
import json
import os
import shutil
from base64 import b64decode
from pathlib import Path

import pytest

from concord.artifacts.errors import BudgetRefused, EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.signing import Envelope
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Passed
from concord.artifacts.stores import Stores
from concord.flows import homes as flows_homes
from concord.flows.lead import status
from concord.tasks.asks.share import Answered, Letter, ShareAsk, _check_encoding, bound, check_asked
from concord.tasks.data.codes import Codes
from concord.tasks.data.exchange import Exchange
from concord.tasks.data.vectors import VectorField
from concord.tasks.door.erase import close, forget
from tests.support.hostile import ATTACKS, DOMAIN, Watched, other_codes, overlapping, stopped
from tests.support.sentences import facts, says
from tests.support.several import NAMES, Several
from tests.support.sharing import FIRST, Shares


def test_a_question_has_the_fields_that_version_1_0_0_signed() -> None:
    """In a run that began with it, homes and lead may change to a later version one by one."""
    said = "format run number plan homes before shares mechanism encoding codes fields model until"
    asked = json.loads(FIRST.model_dump_json())
    assert ([*asked], asked["until"]) == (said.split(), "")


def test_sums_are_read_with_the_right_key_alone_and_a_failure_shows_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("1041 units")

    home, other = (Shares.in_home(tmp_path / name) for name in ("home", "other"))
    monkeypatch.setattr("concord.tasks.asks.tallies.total_of", fails)
    with pytest.raises(EnvironmentFailed, match="nothing of the data is shown") as failed:
        home.answer(FIRST)
    assert "1041" not in str(failed.value)
    key = f"secrets/sessions/{home.session.id}"
    shutil.copy(other.door.vault.root / key, home.door.vault.root / key)
    with pytest.raises(NotVerified, match="is not the one it was opened with"):
        home.answer(FIRST)


def test_an_honest_question_is_answered_once(world: Watched) -> None:
    done = world.contribute("north")
    assert (done["answered"], done["answered_now"], done["spent_now"]["epsilon"], world.read) == (1, True, 0, 1)
    (name,) = (name for name in world.files() if name.startswith("share-1-north"))
    said = b64decode(Envelope.model_validate_json(world.files()[name]).payload)
    assert b"share" in said
    assert not [mark for mark in (b"p10-", b"north.parquet", str(world.folder).encode()) if mark in said]
    before, files = world.state(), world.files()
    assert (world.contribute("north")["answered_now"], world.state(), world.files()) == (False, before, files)
    for path in world.exchange.glob("share-1-*"):
        path.unlink()
    world.contribute("north")  # the very bytes again
    assert world.files() == files


@pytest.mark.parametrize("name", ATTACKS)
def test_a_question_that_breaks_what_was_agreed_is_refused(world: Watched, name: str) -> None:
    attack, match = ATTACKS[name]
    asked, _ = world.asked(1)
    changes = attack(asked)
    world.hostile(**changes)
    world.refuses(match)


def test_other_codes_are_refused_by_a_home_without_the_public_table_too(world: Watched) -> None:
    (world.folder / "data" / "public.parquet").unlink()
    world.hostile(**other_codes(world.asked(1)[0]))
    world.refuses("changes the codes, rounds or rows that the run")


def test_a_home_without_the_public_table_says_that_codes_are_declared(world: Watched) -> None:
    (world.folder / "data" / "public.parquet").unlink()
    assert world.contribute("north")["answered_now"]
    (name,) = (name for name in world.files() if name.startswith("share-1-north"))
    share = Letter.read(world.files()[name], Answered, world.key("north").public.raw.hex()).content
    assert share.codes == "declared"


def test_another_public_table_than_the_plan_s_is_refused(world: Watched) -> None:
    file = world.folder / "data" / "public.parquet"
    plan = world.private("north")
    shutil.copy(world.folder / "data" / "test.parquet", file)
    with pytest.raises(NotVerified, match=r"homes\.public"):
        flows_homes.contribute.fn(plan, world.home("north"), str(world.exchange), "north", agreed=True)


def test_a_forged_question_is_refused_by_name(world: Watched) -> None:
    asked, _ = world.asked(1)
    world.post(asked, by="south")
    world.passes_over("question-1-.*: it is not a question of the lead")
    for path in world.exchange.glob("question-0-*"):
        path.unlink()
    world.refuses("question-1-.*: it is not a question of the lead")  # and nothing else is asked


def test_a_question_of_another_plan_is_passed_over(world: Watched) -> None:
    world.hostile(plan="0" * 64)
    world.passes_over("question-1-.* of another plan")


def test_codes_that_share_a_range_make_no_question(world: Watched) -> None:
    world.hostile(**overlapping(world.asked(1)[0]))
    world.passes_over("does not hold what Concord writes")


def test_a_question_is_none_of_another_number(world: Watched) -> None:
    """An older one, copied under the next number, stops nobody."""
    _, letter = world.asked(0)
    name = Exchange(str(world.exchange)).write("question-2", letter.data)
    done = world.contribute("north")
    assert (done["answered"], done["answered_now"]) == (1, True)
    assert done["refused"] == {name: "it is not a question of the lead: its number is 0"}


def test_a_stranger_s_files_stop_nobody(world: Watched) -> None:
    """Junk of every name that is read, and one that nobody may read or that never ends."""
    digest, post = "0" * 12, Exchange(str(world.exchange))
    for start in ("question-1", "question-2", "share-1-north", "share-0-south", "share-1-east"):
        post.write(start, b"[" * 100)
        (world.exchange / f"{start}-{digest}.json").symlink_to("/dev/zero")
        os.mkfifo(world.exchange / f"{start}-{'1' * 12}.json")
        (world.exchange / f"{start}-{'2' * 12}.json").mkdir()
        with (world.exchange / f"{start}-{'3' * 12}.json").open("wb") as bomb:
            bomb.truncate(1 << 36)
    done = world.contribute("north")
    assert (done["answered"], done["answered_now"], len(done["refused"])) == (1, True, 2 * 5)
    for name in ("south", "west"):
        assert world.contribute(name)["answered_now"]
    found = status(world.plan, str(world.exchange))
    assert found["rounds"][1]["answered"] == list(NAMES)
    assert "no home 'east'" in found["rounds"][1]["refused"]["east"]


def test_a_share_of_an_earlier_run_stops_nobody(world: Watched) -> None:
    """North's own, of another plan: it is no sign of an older copy, even if its session is forgotten."""
    before = Several(world.folder)
    before.given["data"]["version"], before.exchange = "earlier", world.folder / "before"
    before.lead()
    done = before.contribute("north", new_session=True)
    (share,) = (data for name, data in before.files().items() if name.startswith("share"))
    Exchange(str(world.exchange)).write("share-0-north", share)
    assert world.contribute("north")["answered_now"]
    door = Stores.of(world.home("north"))
    close(door, done["session"], give_back=False)
    forget(door, done["session"])
    assert world.contribute("north")["answered"] == 1


def test_two_questions_of_one_number_are_a_fork(world: Watched) -> None:
    asked, _ = world.asked(1)
    world.post(asked.model_copy(update={"fields": asked.fields[::-1]}), instead=False)
    world.refuses("two questions of number 1")


def test_what_was_answered_is_not_asked_again_in_other_words(world: Watched) -> None:
    world.contribute("north")
    world.hostile(fields=world.asked(1)[0].fields[::-1])
    world.refuses("another question of this number than the one that this home answered")


def test_a_further_round_is_refused(world: Watched) -> None:
    world.contribute("north")
    asked, letter = world.asked(1)
    rounds = len(asked.mechanism.rounds)
    for number in (2, rounds):
        further = asked.model_copy(update={"number": number, "before": letter.digest})
        world.post(further)
        world.refuses("has answered 2 of this run|rounds 0 to|does not follow" if number < rounds else "rounds 0 to")
        next(world.exchange.glob(f"question-{number}-*")).unlink()


def test_a_further_run_of_the_plan_is_not_answered_by_itself(world: Watched) -> None:
    """Replayed numbers: the lead asks from the beginning, under another run."""
    asked, _ = world.asked(0)
    shutil.rmtree(world.exchange)
    world.post(asked.model_copy(update={"run": "0" * 32}))
    world.refuses("--new-session", BudgetRefused)
    assert world.contribute("north", new_session=True)["answered_now"]


def test_a_plan_is_agreed_to_once_by_somebody(world: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    asked, _ = world.asked(0)
    shutil.rmtree(world.exchange)
    shutil.rmtree(world.home("north") / "released")
    world.post(asked.model_copy(update={"run": "0" * 32}))
    world.refuses("needs the agreement, once, of", BudgetRefused, new_session=True, agreed=False)
    shown = " ".join(capsys.readouterr().err.split())
    assert says(shown, "ε = 4", "δ = 1e-05", "all rows of one person")


def test_an_operator_at_a_terminal_sees_what_is_usable_before_agreeing(
    world: Watched, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, _ = world.asked(0)
    shutil.rmtree(world.exchange)
    world.post(asked.model_copy(update={"run": "0" * 32}))
    monkeypatch.setattr(flows_homes, "may_ask", lambda: True)
    monkeypatch.setattr(flows_homes, "confirmed", lambda _: False)
    before = world.state()
    with pytest.raises(BudgetRefused, match="needs the agreement, once, of"):
        world.contribute("north", new_session=True, agreed=False)
    assert (world.read, world.state()) == (1, before)
    assert says(capsys.readouterr().err, "private row", "data.classes")
    world.contribute("north", new_session=True)  # from cron: nobody reads it
    assert "check the label" not in capsys.readouterr().err


def test_two_runs_in_one_exchange_are_refused(world: Watched) -> None:
    asked, _ = world.asked(1)
    world.post(asked.model_copy(update={"run": "0" * 32, "number": 2}))
    world.refuses("of another run than the rest")


def test_a_home_that_left_a_round_out_stays_out(world: Watched) -> None:
    with pytest.raises(NotVerified, match="takes no further part"):
        check_asked(world.asked(1)[0], world.plan, "north", {}, {})


def test_an_older_copy_of_the_home_stops(world: Watched) -> None:
    world.copied("north", "older")
    world.contribute("north")
    shutil.rmtree(world.home("north"))
    world.home("older").rename(world.home("north"))
    world.refuses("was signed by this home, and its ledger does not know of it")
    true = Exchange._read

    def stale(post: Exchange, name: str) -> bytes:
        if name.startswith("share-1-north"):
            raise OSError(errno.ESTALE, "")
        return true(post, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Exchange, "_read", stale)
        world.refuses("cannot be read now", EnvironmentFailed)


def test_a_forgotten_session_of_another_plan_does_not_stand_for_this_one(world: Watched) -> None:
    """In an older copy of the home; the lead gave both runs one name, which differ in domain and table."""
    other, run = Several(world.folder), world.asked(0)[0].run
    other.given["privacy"]["domain"], other.exchange = "others", world.folder / "before"
    other.lead()
    other.post(other.asked(0)[0].model_copy(update={"run": run}))
    plan, home = other.private("south"), world.home("north")
    done = flows_homes.contribute.fn(plan, home, str(other.exchange), "north", agreed=True)
    door = Stores.of(home)
    close(door, done["session"], give_back=False)
    forget(door, done["session"])
    world.copied("north", "older")
    world.contribute("north")
    shutil.rmtree(home)
    world.home("older").rename(home)
    world.refuses("its ledger does not know of it")


def test_the_wrong_name_or_table_is_refused(world: Watched) -> None:
    with pytest.raises(WrongInput, match="did you mean"):
        world.contribute("nort")
    with pytest.raises(WrongInput, match="needs the home with the key"):
        flows_homes.contribute.fn(world.private("north"), world.home("south"), str(world.exchange), "north")


@pytest.mark.parametrize("step", ["gather", "begin", "answer", "certify_answers"])
def test_a_killed_answer_is_bound_to_its_question(world: Watched, step: str) -> None:
    """Another question of the number is refused for ever; the bound one is answered, with one draw."""
    asked, letter = world.asked(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShareAsk if step == "answer" else flows_homes, step, stopped)
        with pytest.raises(KeyboardInterrupt):
            world.contribute("north")
    assert bound(Ledger.of(world.home("north")), DOMAIN, asked.run)[1] == letter.digest
    world.hostile(fields=asked.fields[::-1])
    world.refuses("another question of this number")
    world.hostile(fields=asked.fields)
    assert world.contribute("north")["answered"] == 1
    assert len([*world.home("north").rglob("round-00001.npz")]) == 1


def test_a_home_that_is_not_bound_would_be_found(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: it answers whatever question of the number comes next."""
    monkeypatch.setattr(flows_homes, "bind", lambda *_: None)
    asked, _ = world.asked(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShareAsk, "answer", stopped)
        with pytest.raises(KeyboardInterrupt):
            world.contribute("north")
    world.hostile(fields=asked.fields[::-1])
    assert world.contribute("north")["answered_now"]


def test_a_range_of_lists_whose_low_end_is_above_its_high_end_is_refused_too(world: Watched) -> None:
    asked, passed = world.asked(1)[0], Passed(name="size", element="float32", size=2)
    values = {"view": "values", "element": "float32", "length": 2, "centres": "AAAAAA=="}
    turned = VectorField.model_validate({"name": "size", "start": 0, "low": 2.0, "high": 1.0, **values})
    columns = asked.encoding.model_copy(update={"columns": (passed,)})
    codes = Codes(fields=(turned,), coarse=(0,), fine=(0,))
    with pytest.raises(NotVerified, match=facts("low end", "'size'", "high end")):
        _check_encoding(asked.model_copy(update={"encoding": columns, "codes": codes}), world.plan)
