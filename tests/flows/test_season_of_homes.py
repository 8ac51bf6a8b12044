"""Several homes whose rows arrive week by week: what is released, who is in it, what it costs."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.ledger.ledger import Ledger
from concord.flows import lead as flows_lead
from concord.flows.lead import status
from concord.flows.learn import learn
from concord.flows.refresh import refresh
from concord.tasks.asks.share import Letter
from concord.tasks.verify.homes import joint_rounds
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.verify import verify
from tests.support.several import NAMES, Weekly

pytestmark = pytest.mark.usefixtures("tracking")
DOMAIN = "people"


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick passes at each call."""
    monkeypatch.setattr("concord.flows.season.next_time", lambda _clock, _zone, now, _field: now)


def wrong(checks: Any) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in checks if not check.ok]


def releases(done: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((Path(done["certificate"]).parent / "rounds").iterdir())]


def off(release: dict[str, Any], units: int) -> float:
    """By how many standard deviations the people counted in a release are not that many."""
    count, spread = release["questions"][-1]["count"], release["spread"]
    return float(abs(release["totals"][-1][-1] / count - units) / (release["scales"][-1] * spread / count))


@pytest.mark.usefixtures("due")
def test_a_home_that_missed_a_release_is_whole_in_the_next_that_it_answers(tmp_path: Path) -> None:
    several = Weekly(tmp_path / "world", season=3)
    units = {name: several.arrive(name, 1) for name in NAMES}
    assert several.lead()["missing"] == list(NAMES)
    for name in NAMES:
        several.contribute(name)
    first = several.lead()
    charged = {name: Ledger.of(several.home(name)).total(DOMAIN) for name in NAMES}
    assert (first["asked"], first["warnings"]) == (1, [])
    assert several.lead()["missing"] == list(NAMES)
    units |= {name: units[name] + several.arrive(name, 2) for name in NAMES}
    several.contribute("north")
    several.contribute("south")
    assert several.lead()["missing"] == ["west"]
    second = several.lead(without=["west"])
    assert second["warnings"] == ["Release 1 is without the rows of west"]
    assert wrong(verify_published(Path(second["certificate"]).parent)) == []
    assert several.lead()["missing"] == list(NAMES)
    for name in NAMES:
        several.contribute(name)
    third = several.lead()
    assert (third["asked"], third["warnings"], third["student"]["accuracy"] > 0.7) == (3, [], True)
    assert several.lead()["certificate_digest"] == third["certificate_digest"]  # the season has ended
    assert {name: Ledger.of(several.home(name)).total(DOMAIN) for name in NAMES} == charged  # once for all of it
    found, folder = releases(third), Path(third["certificate"]).parent
    assert off(found[1], units["north"] + units["south"]) < 6
    assert off(found[2], sum(units.values())) < 6
    assert several.share(2, "west").release == 1  # its second answer, with less noise
    assert wrong(verify_published(folder)) == []
    assert [wrong(verify(several.home(name))) for name in ("lead", *NAMES)] == [[], [], [], []]
    assert [each["missing"] for each in status(several.plan, str(several.exchange))["rounds"]] == [[], ["west"], []]
    certificate = json.loads(Path(third["certificate"]).read_bytes())
    mechanism, of = certificate["sessions"][0]["mechanism"], certificate["guarantee"]
    assert "past and future" in mechanism["releases"]
    assert ("asks everybody again" in mechanism["releases"], "alone" in mechanism["releases"]) == (True, False)
    assert "the sum of the shares of several homes" in mechanism["releases"]
    assert len(certificate["student"]["history"]) == 3
    tampered(several, mechanism["settings"], found, (of["unit"], of["neighbours"]))


def tampered(several: Weekly, settings: dict[str, Any], found: list[dict[str, Any]], unit: tuple[str, str]) -> None:
    """What is published of a season, changed in every way that the second path must find."""

    def said(change: Callable[[list[dict[str, Any]]], object], **terms: Any) -> str:
        copy = json.loads(json.dumps(found))
        change(copy)
        with pytest.raises(NotVerified) as raised:
            joint_rounds(settings | terms, [json.dumps(each).encode() for each in copy], unit, ())
        return str(raised.value)

    def added(copy: list[dict[str, Any]]) -> None:
        copy[2]["totals"][1][0] += 1

    def older(copy: list[dict[str, Any]]) -> None:
        copy[2]["homes"]["shares"]["west"] = copy[0]["homes"]["shares"]["west"]

    def every(copy: list[dict[str, Any]], name: str) -> None:
        for each in copy:
            for question in each["questions"]:
                question[name] += 1

    def split(copy: list[dict[str, Any]]) -> None:
        for each in copy:
            each["totals"][0].append(each["totals"][1].pop(0))

    def without_west(copy: list[dict[str, Any]]) -> None:
        asked, _ = several.asked(2)
        named = ({name: own for name, own in asked.shares[0].items() if name != "west"},)
        letter = Letter.signed(asked.model_copy(update={"shares": named}), several.key("lead"))
        copy[2]["homes"]["question"] = letter.data.decode()

    joint_rounds(settings, [json.dumps(each).encode() for each in found], unit, ())
    assert "the shares named in question 2" in said(without_west)
    assert "not the sum of its shares" in said(added)
    assert "not the sum of its shares" in said(lambda copy: copy[2]["homes"]["shares"].pop("west"))
    assert "of the share of west of round 2" in said(older)
    assert "does not continue the season" in said(lambda copy: copy[2].update(season=99))
    assert "the claim of release 2" in said(lambda copy: copy[2].update(epsilon=0.1))
    for name in ("steps", "classes", "least"):
        assert "than was paid for" in said(partial(every, name=name))
    assert "has another size" in said(split)
    assert "states other noise than its shares" in said(lambda copy: copy[2].update(spread=found[1]["spread"]))
    assert "states other noise than was paid for" in said(lambda copy: copy[2].update(scales=[1.0, 1.0]))
    assert "the question or session of release 2" in said(lambda copy: copy[2]["questions"][1].update(count=1))
    assert "the season in question 0" in said(lambda _: None, season=4)
    assert "4 rounds were added" in said(lambda copy: copy.append(copy[2]))
    assert "question 0 is not signed" in said(lambda _: None, lead=settings["keys"][0])
    assert "the epsilon of the share" in said(lambda _: None, claim={"epsilon": 1.0, "delta": 1e-5})
    last = [found[0], found[1]]
    with pytest.raises(NotVerified, match="Release 1 is without the rows of west"):  # and nobody is told
        joint_rounds(settings, [json.dumps(each).encode() for each in last], unit, ())


def put_back(several: Weekly, name: str) -> None:
    """The older copy of a home, as a backup would."""
    shutil.rmtree(several.home(name))
    several.home("backup").rename(several.home(name))


@pytest.mark.usefixtures("due")
def test_an_older_copy_of_a_home_draws_no_release_twice(tmp_path: Path) -> None:
    """Though its newer share is gone from the exchange: the next question names it."""
    several = Weekly(tmp_path / "world")
    several.arrive("north", 1)
    several.lead()
    several.contribute("north")
    several.lead(without=["south", "west"])
    several.copied("north", "backup")
    several.lead()
    several.contribute("north")
    several.lead(without=["south", "west"])
    for path in several.exchange.glob("share-1-*"):
        path.unlink()
    put_back(several, "north")
    assert several.lead()["round"] == 2
    with pytest.raises(NotVerified, match="an older copy of the home was put back"):
        several.contribute("north")
    assert Ledger.of(several.home("north")).sessions(DOMAIN)[0].asked == 1


@pytest.mark.usefixtures("due")
def test_an_older_copy_of_the_lead_asks_no_other_question(tmp_path: Path) -> None:
    several = Weekly(tmp_path / "world")
    several.arrive("north", 1)
    several.lead()
    several.contribute("north")
    several.copied("lead", "backup")
    several.lead(without=["south", "west"])
    several.lead()
    files = several.files()
    put_back(several, "lead")
    several.lead(without=["south", "west"])
    assert several.lead()["round"] == 1
    assert several.files() == files
    assert several.contribute("north")["answered_now"]


def test_a_plan_of_homes_is_not_refreshed(tmp_path: Path) -> None:
    several = Weekly(tmp_path / "world")
    for flow in (refresh, learn):
        with pytest.raises(WrongInput, match="is run by `concord lead`"):
            flow.fn(several.private("north"), several.home("north"))


def test_a_lead_in_cron_asks_once_a_tick(tmp_path: Path) -> None:
    several = Weekly(tmp_path / "world")
    for name in NAMES:
        several.arrive(name, 1)
    several.lead()
    for name in NAMES:
        several.contribute(name)
    done, files = several.lead(), several.files()
    assert several.lead()["certificate_digest"] == done["certificate_digest"]
    assert several.files() == files
    several.arrive("north", 2)
    again = several.contribute("north")
    assert (again["answered"], again["answered_now"], several.files()) == (0, False, files)


STEPS = {
    "before the question is kept": (flows_lead.SeasonOfHomes, "_question"),
    "before shares are on record": (flows_lead, "accepted"),
    "before they are added": (flows_lead, "release_joint"),
    "before it is begun": (Ledger, "begin_batch"),
    "before it is committed": (Ledger, "commit_batch"),
    "before it is published": (flows_lead, "publish"),
    "before that is on record": (flows_lead, "published_mark"),
}


@pytest.mark.slow
@pytest.mark.usefixtures("due")
def test_a_killed_lead_of_a_season_is_finished_by_the_next(tmp_path: Path) -> None:
    """At every step of both releases: the same question, the sum of the shares that were there, and none left out."""

    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    several, published = Weekly(tmp_path / "world", season=2), list[int]()
    for week in (1, 2):
        for name in NAMES:
            several.arrive(name, week)
        several.lead()
        for name in NAMES:
            several.contribute(name)
        for owner, name in STEPS.values():
            with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
                patch.setattr(owner, name, killed)
                several.lead()
        published.append((done := several.lead())["asked"])
        numbers = [name.rpartition("-")[0] for name in several.files()]
        assert len({*numbers}) == len(numbers)
    assert published == [1, 2]
    assert wrong(verify_published(Path(done["certificate"]).parent)) == []
    assert len(Ledger.of(several.home("lead")).sessions(f"{DOMAIN}.joint")) == 1
