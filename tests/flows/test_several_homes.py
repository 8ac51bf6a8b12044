"""Several homes end to end: three homes and a lead, from the first question to the student that anyone can verify."""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.kinds import Joint, Kind
from concord.artifacts.ledger.excerpt import Excerpt
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import PublicRows, Ref, canonical_json
from concord.flows import lead as flows_lead
from concord.flows import stages
from concord.flows.lead import status
from concord.tasks.asks.share import Answered, Letter
from concord.tasks.data import exchange
from concord.tasks.data.exchange import Exchange
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.homes import joint_rounds
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.verify import verify
from tests.support.homes import dies
from tests.support.people import people
from tests.support.sentences import facts, says
from tests.support.several import NAMES, Several, all_rounds

DOMAIN = "people"
pytestmark = pytest.mark.usefixtures("tracking")


def rounds_of(done: dict[str, Any]) -> list[bytes]:
    return [path.read_bytes() for path in sorted((Path(done["certificate"]).parent / "rounds").iterdir())]


def wrong(checks: Any) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in checks if not check.ok]


def test_three_homes_and_a_lead_publish_a_student_that_anyone_can_verify(tmp_path: Path) -> None:
    several = Several(tmp_path / "world", rows=3000)
    done = all_rounds(several)
    assert done["student"]["accuracy"] > 0.85
    again = several.lead()
    assert again["certificate_digest"] == done["certificate_digest"]
    folder = Path(done["certificate"]).parent
    assert wrong(verify_published(folder)) == []
    assert [wrong(verify(several.home(name))) for name in ("lead", *NAMES)] == [[], [], [], []]
    _added_otherwise(several.home("lead"))
    rounds = [json.loads(text) for text in rounds_of(done)]
    tables = [pl.read_parquet(several.folder / "data" / f"{name}.parquet") for name in NAMES]
    units, last = sum(table["person"].n_unique() for table in tables), rounds[-1]
    assert abs(last["decoded"]["units"] - units) < 6 * last["scale"] / last["question"]["count"]
    assert [each["homes"]["differ"] for each in rounds] == [[]] * len(rounds)
    certificate = json.loads(Path(done["certificate"]).read_bytes())
    assert (certificate["guarantee"]["epsilon"], certificate["warnings"]) == (4, [])
    (session,) = Ledger.of(several.home("north")).sessions(DOMAIN)
    assert (session.status, session.epsilon, session.purpose) == ("spent", 4, "a share")
    assert [each["answered"] for each in status(several.plan, str(several.exchange))["rounds"]] == [list(NAMES)] * len(
        rounds
    )
    guarantee = certificate["guarantee"]
    _tampered(certificate["sessions"][0]["mechanism"]["settings"], rounds, (guarantee["unit"], guarantee["neighbours"]))


def _added_otherwise(lead: Path) -> None:
    """The planted bug: the lead's ledger and files agree on a sum that is not of the shares."""

    def read(at: PublishedSession, ref: Ref) -> bytes:
        if not ref.path.endswith("round-00001.json"):
            return true(at, ref)
        content = json.loads(true(at, ref))
        return canonical_json({**content, "sums": [content["sums"][0] + 1, *content["sums"][1:]]}).encode()

    true = PublishedSession.named
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PublishedSession, "named", read)
        (found,) = wrong(verify(lead))
    assert says(found, "sums", "round 1", "shares")


def _tampered(settings: dict[str, Any], rounds: list[dict[str, Any]], unit: tuple[str, str]) -> None:
    """What is published of the homes, changed in every way that the second path must find."""

    def found(change: Callable[[list[dict[str, Any]]], object], of: tuple[str, str] = unit, **terms: Any) -> str:
        copy = json.loads(json.dumps(rounds))
        change(copy)
        with pytest.raises(NotVerified) as raised:
            joint_rounds(Kind.of(settings | terms).only(Joint), [json.dumps(each).encode() for each in copy], of, ())
        return str(raised.value)

    def swapped(copy: list[dict[str, Any]]) -> None:
        shares = copy[0]["homes"]["shares"]
        shares["north"], shares["south"] = shares["south"], shares["north"]

    def earlier(copy: list[dict[str, Any]]) -> None:
        copy[1]["homes"]["shares"]["north"] = copy[0]["homes"]["shares"]["north"]

    def added(copy: list[dict[str, Any]]) -> None:
        copy[1]["sums"][0] += 1

    def asking(change: dict[str, Any]) -> Callable[[list[dict[str, Any]]], object]:
        return lambda copy: copy[1]["question"].update(change)

    assert joint_rounds(Kind.of(settings).only(Joint), [json.dumps(each).encode() for each in rounds], unit, ())
    assert says(found(added), "sum", "shares")
    assert says(found(lambda copy: copy[0]["homes"]["shares"].pop("west")), "sum", "shares")
    assert says(found(swapped), "north", "round 0", "not signed")
    assert says(found(earlier), "share", "north", "round 1")
    spans = rounds[1]["question"]["spans"]
    for change, what in (
        ({"spans": [*spans[1:], spans[0]]}, "the spans of round 1"),
        ({"steps": 2 * rounds[1]["question"]["steps"]}, "further than was paid for"),
        ({"count": 1}, "another question than was paid for"),
    ):
        assert what in found(asking(change))
    assert says(found(lambda copy: copy[0].update(next={"fields": [0], "model": None})), "round", "announced")
    assert says(found(lambda copy: copy[1].update(scale=copy[1]["scale"] / 3**0.5)), "another noise")
    assert says(found(lambda _: None, lead=settings["keys"][0]), "question 0", "signed")
    assert says(found(lambda _: None, run="0" * 32), "run", "question")
    assert says(found(lambda _: None, claim={"epsilon": 1.0, "delta": 1e-5}), "epsilon", "share")
    for term, value in {"people": "in several", "homes": 2, "classes": 3}.items():
        assert term in found(lambda _: None, unit, **{term: value})  # another promise than the homes agreed to
    assert says(found(lambda _: None, ("a row", unit[1])), "unit", "share")
    assert says(found(lambda copy: copy[1]["homes"].update(differ=["west"])), "round 1", "west")
    assert says(found(lambda copy: copy.append(copy[-1])), "rounds", "added")


def test_all_questions_of_a_run_have_one_encoding_whatever_processor_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Homes refuse a question with another one, even if statistics of a logarithm differ in their last bits alone."""
    several, learned = Several(tmp_path / "world"), stages.encode

    def encoded(mean: float) -> Callable[..., PublicRows]:
        def encode(*given: Any) -> PublicRows:
            public = learned(*given)
            log = {"log": True, "mean": mean}
            columns = tuple(
                each.model_copy(update=log) if each.name == "size" else each for each in public.encoding.columns
            )
            return public.model_copy(update={"encoding": public.encoding.model_copy(update={"columns": columns})})

        return encode

    monkeypatch.setattr(flows_lead, "encode", encoded(0.5))
    for name in several.lead()["missing"]:
        several.contribute(name)
    monkeypatch.setattr(flows_lead, "encode", encoded(math.nextafter(0.5, 1)))
    assert all_rounds(several)["published"]
    asked = [several.asked(number)[0].encoding for number in range(several.asked(0)[0].mechanism.queries)]
    assert {encoding.digest for encoding in asked} == {asked[0].digest}


@pytest.mark.slow
def test_several_homes_learn_a_number(tmp_path: Path) -> None:
    several = Several(tmp_path / "world", rows=800)
    for name in (*NAMES, "test"):
        file = several.folder / "data" / f"{name}.parquet"
        pl.read_parquet(file).with_columns(cost=3 + 2 * pl.col("size")).write_parquet(file)
    given = {name: value for name, value in several.given["data"].items() if name != "classes"}
    several.given["data"] = {**given, "label": "cost", "bounds": [0.0, 6.0], "features": ["size", "shade", "visits"]}
    done = all_rounds(several)
    assert done["student"]["public_test"]["r2"] > 0.5
    assert wrong(verify_published(Path(done["certificate"]).parent)) == []


@pytest.mark.slow
def test_a_home_that_drops_out_loses_its_rows_and_nothing_else(tmp_path: Path) -> None:
    several = Several(tmp_path / "world", rows=1500)
    several.lead()
    for name in NAMES:
        several.contribute(name)
    assert several.lead()["missing"] == list(NAMES)
    for name in ("north", "west"):
        several.contribute(name)
    assert several.lead()["missing"] == ["south"]
    with pytest.raises(WrongInput, match="did you mean 'south'"):
        several.lead(without=["soth"])
    done = several.lead(without=["south"])
    rounds = [json.loads(text) for text in rounds_of(done)]
    assert [sorted(each["homes"]["shares"]) for each in rounds] == [sorted(NAMES), ["north", "west"]]
    assert rounds[1]["part"] == pytest.approx(2 / 3, abs=0.05)
    assert any("without the rows of south" in warning for warning in done["warnings"])
    certificate = json.loads(Path(done["certificate"]).read_bytes())
    settings, guarantee = certificate["sessions"][0]["mechanism"]["settings"], certificate["guarantee"]
    with pytest.raises(NotVerified, match=facts("Round 1", "south")):  # and nobody is told
        joint_rounds(Kind.of(settings).only(Joint), rounds_of(done), (guarantee["unit"], guarantee["neighbours"]), ())
    assert done["student"]["accuracy"] > 0.8
    assert wrong(verify_published(Path(done["certificate"]).parent)) == []
    several.contribute("south")  # too late: what is decoded stays
    assert several.lead()["certificate_digest"] == done["certificate_digest"]


@pytest.mark.slow
@pytest.mark.usefixtures("apart")  # shares are checked in a process of its own, as for users
def test_a_share_that_differs_beyond_noise_is_named(tmp_path: Path) -> None:
    several = Several(tmp_path / "world", rows=3000)
    file = several.folder / "data" / "west.parquet"
    people(3000, 12).with_columns(pl.lit("dark").alias("shade")).write_parquet(file)
    done = all_rounds(several)
    assert any("the share of west differs" in warning for warning in done["warnings"])
    assert "the share of west differs" in Path(done["report"]).read_text()
    assert wrong(verify_published(Path(done["certificate"]).parent)) == []


@pytest.mark.slow
def test_people_in_several_homes_are_promised_the_sum(tmp_path: Path) -> None:
    several = Several(tmp_path / "world", people="in several")
    done = all_rounds(several)
    assert 4 * 3**0.5 < done["guarantee"]["epsilon"] < 12
    assert wrong(verify_published(Path(done["certificate"]).parent)) == []
    assert Ledger.of(several.home("north")).sessions(DOMAIN)[0].epsilon == 4


def test_a_share_that_does_not_fit_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = Several(tmp_path / "world")
    several.lead()
    for name in NAMES:
        several.contribute(name)
    (name,) = (name for name in several.files() if name.startswith("share-0-south"))
    good, post = several.files()[name], Exchange(str(several.exchange))
    share = Letter.read(good, Answered, several.key("south").public.raw.hex()).content
    (several.exchange / name).unlink()

    def refused(data: bytes) -> str:
        written = post.write("share-0-south", data)
        found, (said, *_) = several.lead(), status(several.plan, post.address)["rounds"]
        assert (found["missing"], [*found["refused"]]) == (["south"], ["south"])
        assert (said["answered"], said["refused"]) == (["north", "west"], found["refused"])  # who looks on is told so
        (several.exchange / written).unlink()
        return str(found["refused"]["south"])

    def signed(by: str = "south", **changes: Any) -> bytes:
        return Letter.signed(share.model_copy(update=changes), several.key(by)).data

    assert says(refused(signed(by="west")), "key")
    assert says(refused(signed(home="north")), "another home's")
    assert says(refused(signed(run="0" * 32)), "another question")
    assert says(refused(signed(question="0" * 64)), "another question")
    assert "sums, and" in refused(signed(sums=share.sums[:-1]))
    assert says(refused(signed(scale=share.scale / 2)), "noise", "claim")
    assert says(refused(signed(epsilon=1.0)), "noise", "claim")
    assert says(refused(signed(session="people-none")), "hold", "session")
    assert says(refused(signed(share_before="0" * 64)), "another share")
    assert says(refused(signed(unit="a row")), "unit", "share")  # with which nothing would verify
    assert says(refused(signed(neighbours="none")), "neighbours", "share")

    def ledger(**changes: Any) -> bytes:
        """South's own ledger says otherwise how it was charged."""
        lines = json.loads(share.excerpt)
        for line in lines["entries"]:
            if line["kind"] == "open":
                line["body"] |= changes
        return signed(excerpt=Excerpt.model_validate(lines).text.decode())

    (session,) = Ledger.of(several.home("south")).sessions(DOMAIN)
    agreed = {**session.mechanism["share"], "plan": "0" * 64}
    assert says(refused(ledger(epsilon=3.0)), "claim", "south")
    assert says(refused(ledger(mechanism={**session.mechanism, "share": agreed})), "plan", "south")
    assert says(refused(ledger(mechanism={**session.mechanism, "rounds": []})), "ledger", "south")
    assert says(refused(ledger(mechanism={**session.mechanism, "many": False})), "many", "south")
    assert "what Concord never writes" in refused(ledger(mechanism=[]))
    assert "no envelope" in refused(b"[" * 100_000)
    assert "no envelope" in refused(b"{}")
    monkeypatch.setattr(exchange, "LARGEST", len(good) + 1000)
    assert "holds more than" in refused(good + bytes(2000))
    post.write("share-0-south", good)
    post.write("share-0-south", signed(sums=(0, *share.sums[1:])))
    assert "two shares" in several.lead()["refused"]["south"]
    assert status(several.plan, post.address)["rounds"][0]["missing"] == ["south"]


STEPS = {
    "before the question is kept": (flows_lead.Leading, "_question"),
    "before shares are on record": (flows_lead, "accepted"),
    "before they are added": (flows_lead, "joint_step"),
    "before it is begun": (Ledger, "begin_batch"),
    "before it is committed": (Ledger, "commit_batch"),
    "before it is published": (flows_lead, "publish"),
}


@pytest.mark.slow
def test_a_killed_lead_is_finished_by_the_next(tmp_path: Path) -> None:
    """At every step, in every round: the same question, and the sum of the shares that were there."""
    several, questions = Several(tmp_path / "world"), dict[str, bytes]()
    for _ in range(3):
        for owner, name in STEPS.values():
            with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
                patch.setattr(owner, name, dies)
                several.lead()
            there = several.files() if several.exchange.exists() else {}
            now = {file: text for file, text in there.items() if file.startswith("question")}
            assert questions.items() <= now.items()
            assert len({file.rpartition("-")[0] for file in now}) == len(now)
            questions = now
        if (done := several.lead())["published"]:
            break
        for name in done["missing"]:
            several.contribute(name)
    assert done["published"]
    assert wrong(verify_published(Path(done["certificate"]).parent)) == []
    assert len(Ledger.of(several.home("lead")).sessions(f"{DOMAIN}.joint")) == 1
