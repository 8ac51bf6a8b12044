"""The catalogue of what is published names every mechanism that can open a session, and the referee agrees on each."""

import json
from dataclasses import replace

import pytest

from tests import world
from tests.promises import kinds as promised
from tests.promises.kinds import EXAMPLES
from tests.support.published import SESSION, World
from tests.support.recorded import RECORDED


@pytest.fixture(scope="module")
def session(small: World) -> tuple[world.Session, world.Ledger]:
    ledger = world.Ledger.of(small.home)
    return ledger.session(SESSION), ledger


def test_producer_and_referee_know_the_same_mechanisms(session: tuple[world.Session, world.Ledger]) -> None:
    assert world.CATALOGUE.keys() == world.KINDS.keys()
    certified = {name for name, kind in world.CATALOGUE.items() if kind.releases}
    for name in certified - world.MECHANISMS.keys():
        asked = replace(session[0], mechanism=RECORDED[name])
        answers = world.asks_shards(asked) or name == "private_test"
        assert (world.releases(world.read_settings(RECORDED[name])) == "answers") is answers, name
    assert {world.releases(world.read_settings(RECORDED[name])) for name in world.MECHANISMS} == {"labels"}


def test_promises_are_tested_on_every_kind() -> None:
    assert world.KINDS.keys() <= {*EXAMPLES, *(kind.name for kind in promised.KINDS)}


def test_what_an_operator_declares_of_rows_without_names_is_said(session: tuple[world.Session, world.Ledger]) -> None:
    streams = [{**RECORDED["stream"], "many": many} for many in (False, True)]
    said = [world.mechanism_of(replace(session[0], mechanism=stream)) for stream in streams]
    assert ["each is delivered once" in of.releases for of in said] == [True, False]


@pytest.mark.parametrize(
    ("read", "said"),
    [([], []), (["a × b", "a × c"], ["none of them is informative"]), (["a × b", "a × c", "a × b"], ["uses a × b"])],
)
def test_pairs_of_columns_that_were_asked_about_are_said(read: list[str], said: list[str]) -> None:
    fields = [{"name": name, "kind": "pair"} for name in read]
    asked = [{"codes": {"fields": part}} for part in (fields[:2], fields[2:]) if part]
    files = [json.dumps({"next": following}).encode() for following in (None, *asked, {"model": None}, None)]
    found = world.remarks_of("tallies", files)
    assert [each.split(", and ")[1].removeprefix("the student ") for each in found] == said


def test_questions_to_a_mechanism_of_labels_are_answers_by_both(session: tuple[world.Session, world.Ledger]) -> None:
    asked = replace(session[0], purpose="questions")
    assert world.asks_shards(asked)
    assert world.releases(world.read_settings(asked.mechanism), asked.purpose) == "answers"
    assert world.mechanism_of(asked).releases != world.mechanism_of(session[0]).releases


@pytest.mark.parametrize(
    ("name", "text"),
    [("private_test", b'{"matrix": 1}'), ("laplace_release", b"")],
)
def test_what_is_no_outcome_is_a_sentence(session: tuple[world.Session, world.Ledger], name: str, text: bytes) -> None:
    with pytest.raises(world.NotVerified, match="is not what such a session releases"):
        world.outcomes_of(replace(session[0], mechanism=RECORDED[name]), [text], session[1])


def test_a_mechanism_of_a_later_version_is_a_sentence(session: tuple[world.Session, world.Ledger]) -> None:
    with pytest.raises(world.NotVerified, match="does not know"):
        world.mechanism_of(replace(session[0], mechanism={"name": "later"}))
