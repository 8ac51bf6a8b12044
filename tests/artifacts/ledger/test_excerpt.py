"""The excerpt: it adds up to what the ledger says of a domain's charges, hides the rest, and binds all of it."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.openings import CAP, DOMAIN, batch, outcome
from tests.support.published import opening

STABLE = world.calibrated_stable(epsilon=0.2, delta=1e-6, cutoff=10)


def answer(ledger: world.Ledger, index: int, name: str, refused: int = 1) -> None:
    ledger.begin_batch(name, batch(index, first=100 * index))
    ledger.commit_batch(name, outcome(index, refused=refused))


def session(name: str, domain: str = "census") -> world.Opening:
    """A session that the rule prices."""
    return replace(opening(STABLE, name), domain=domain)


def busy(home: Path, hidden: int = 0) -> world.Ledger:
    """A ledger in which a session has ended, another was stopped in a batch, and two are open; and `hidden` files."""
    ledger = world.Ledger.of(home)
    ledger.name_domain("census", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    ledger.name_domain("survey", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    ledger.hold("census", [f"file {at}" for at in range(hidden)])
    ledger.open_session(session("ended"))
    for index, refused in enumerate((4, 6)):
        answer(ledger, index, "ended", refused=refused)
    ledger.open_session(session("stopped"), further=True)
    answer(ledger, 0, "stopped", refused=2)
    ledger.begin_batch("stopped", batch(1, first=100, rows=3))
    ledger.settle("stopped", give_back=True)
    ledger.divide("census", world.Division(commitment="keyed commitment", share=0.25, naming="columns and format"))
    for name in ("open", "other"):
        ledger.open_session(session(name), further=True)
        answer(ledger, 0, name)
    ledger.recap("census", 9, 1e-4, "the board, 3 May")
    return ledger


def excerpt(ledger: world.Ledger, home: Path, **covered: int) -> world.Excerpt:
    return world.Excerpt.of(ledger.records(), "census", covered, world.hiding(home))


def test_it_adds_up_to_what_the_ledger_says_and_keeps_its_rule(tmp_path: Path) -> None:
    ledger = busy(tmp_path)
    found = excerpt(ledger, tmp_path, open=100)
    moment, domain = found.reading, ledger.domain("census")
    assert domain is not None
    assert world.DomainCharge.of(domain, moment) == world.DomainCharge.of(domain, ledger)
    assert moment.totals("census") == ledger.totals("census")
    assert list(world.ledger_faults(found.records)) == []
    counts = {name: (moment.session(name).asked, moment.session(name).refused) for name in ("ended", "open", "other")}
    assert counts == {"ended": (200, 10), "open": (100, 1), "other": (0, 0)}  # an open one's progress is not told


def test_nothing_of_the_operator_s_is_in_it(tmp_path: Path) -> None:
    ledger = busy(tmp_path, hidden=3)
    ledger.remark("census", "erased", "digest of a unit", "she asked for it")
    text = excerpt(ledger, tmp_path, open=100).text.decode()
    records = ledger.records()
    shown = {"census", "ended", "stopped", "open", "other"}
    private = {record.at for record in records} | {record.digest for record in records}
    private |= {record.previous for record in records if record.previous.strip("0")}
    private |= {"survey", "file 0", "digest of a unit", "she asked", "3 May", "hmac of", "rows from", "votes from"}
    private |= {"keyed commitment", "labels/", "columns and format"}
    assert [item for item in private if item in text] == []
    assert all(name in text for name in shown)


def test_how_much_is_hidden_does_not_show(tmp_path: Path) -> None:
    """The number of private files is private: so is how many entries lie between two that are told."""
    few, many = (busy(tmp_path / name, hidden) for name, hidden in (("few", 0), ("many", 7)))
    told = [
        [line.model_dump(exclude={"commitment"}) for line in excerpt(ledger, tmp_path / "few").entries]
        for ledger in (few, many)
    ]
    hashes = [{line.body.pop("commitment", "") for line in excerpt(of, tmp_path / "few").entries} for of in (few, many)]
    assert hashes[0] == hashes[1]
    assert told[0] == told[1]


def test_what_is_done_without_a_charge_changes_no_byte(tmp_path: Path) -> None:
    ledger = busy(tmp_path)
    before = excerpt(ledger, tmp_path, open=100)
    ledger.remark("census", "erased", "digest of a unit")
    ledger.remark("census", "holds", "file")
    ledger.open_session(session("elsewhere", "survey"))
    answer(ledger, 1, "other")
    assert excerpt(ledger, tmp_path, open=100).text == before.text


def test_commitments_are_salted_by_the_vault_s_secret(tmp_path: Path) -> None:
    ledger = busy(tmp_path)
    ours, theirs = (excerpt(ledger, tmp_path / name) for name in ("ours", "theirs"))
    plain = {hashlib.sha256(text).hexdigest() for record in ledger.records() for text in _guesses(record.digest)}
    mine = {line.commitment for line in ours.entries}
    assert not mine & {line.commitment for line in theirs.entries}
    assert not mine & plain


def _guesses(digest: str) -> list[bytes]:
    return [digest.encode(), bytes.fromhex(digest)]


def test_it_is_read_back_byte_by_byte(tmp_path: Path) -> None:
    found = excerpt(busy(tmp_path), tmp_path)
    assert world.Excerpt.read(found.text) == found
    short = found.text.replace(found.entries[0].commitment.encode(), b"0")
    for other in (short, found.text + b" ", found.text.replace(b"  ", b" ", 1), b"{}", b"\xff", b""):
        with pytest.raises(world.NotVerified, match=r"ledger\.json"):
            world.Excerpt.read(other)
    with pytest.raises(world.NotVerified, match="no entry"):
        _ = world.Excerpt(entries=()).head


def test_a_ledger_that_went_on_holds_it_and_one_that_denies_any_entry_does_not(tmp_path: Path) -> None:
    ledger, hide = busy(tmp_path, hidden=2), world.hiding(tmp_path)
    found = excerpt(ledger, tmp_path, open=100)
    ledger.settle("open", give_back=True)
    ledger.remark("census", "erased", "digest of a unit")
    answer(ledger, 1, "other")
    records = ledger.records()
    found.check_ledger(records, hide)
    for at in range(len(found.entries)):  # each of these was denied: the chain is made anew without it
        denied = without(records, at + 1)
        with pytest.raises(world.NotVerified, match="denies entry"):
            found.check_ledger(denied, hide)
    with pytest.raises(world.NotVerified, match="the vault lacks the secret"):
        found.check_ledger(records, world.hiding(tmp_path / "other"))


def without(records: list[world.LogRecord], seq: int) -> list[world.LogRecord]:
    """The chain made anew without that entry, by who may write the whole ledger."""
    denied: list[world.LogRecord] = []
    for old in records[: seq - 1] + records[seq:]:
        denied.append(old.following(denied[-1] if denied else None))
    return denied


def test_a_later_excerpt_holds_an_earlier_one_and_of_a_ledger_made_anew_without_an_entry_it_does_not(
    tmp_path: Path,
) -> None:
    """Two excerpts are enough to tell: neither the ledger nor the secret is asked."""
    records, hide = busy(tmp_path, hidden=2).records(), world.hiding(tmp_path)

    def told(of: list[world.LogRecord], **covered: int) -> world.Excerpt:
        return world.Excerpt.of(of, "census", covered, hide)

    moments = [told(records[:at], open=100) for at in range(1, len(records) + 1)]
    for at, earlier in enumerate(moments):
        for later in moments[at:]:
            earlier.check_later(later)
    whole = moments[-1]
    whole.check_later(told(records))  # the rows of an open session may be left out
    with pytest.raises(world.NotVerified, match="or it is the earlier of the two"):
        whole.check_later(moments[-2])
    hidden = next(record.seq for record in records if record.kind == "remark")
    known = {record.seq for record in records if hide(record.digest) in {line.commitment for line in whole.entries}}
    for seq in (hidden, *known):
        with pytest.raises(world.NotVerified, match="denies"):
            whole.check_later(told(without(records, seq), open=100))
    elsewhere = world.Excerpt.of(records, "survey", {}, hide)
    with pytest.raises(world.NotVerified, match="of another domain"):
        whole.check_later(elsewhere)


ROWS: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "fewer refusals of an open session": lambda lines: lines[-1]["body"].update(refused=0),
    "as many rows, of other entries": lambda lines: [line.update(commitment="0" * 64) for line in lines],
    "more rows of one that had ended": lambda lines: lines[1]["body"].update(asked=201),
    "no rows of one that had ended": lambda lines: [line.update(session="open") for line in lines[:2]],
}


@pytest.mark.parametrize("lie", ROWS)
def test_a_later_excerpt_that_denies_rows_is_found(tmp_path: Path, lie: str) -> None:
    found = excerpt(busy(tmp_path), tmp_path, open=100)
    values = found.model_dump()
    ROWS[lie]([line for line in values["entries"] if line["kind"] in ("begin", "commit")])
    with pytest.raises(world.NotVerified, match="denies rows of session"):
        found.check_later(world.Excerpt.model_validate(values))


LIES: dict[str, Callable[[dict[str, object]], object]] = {
    "open": lambda body: body.update(epsilon=0.1),
    "settle": lambda body: body.update(status="spent" if body["status"] == "closed" else "closed"),
    "commit": lambda body: body.update(refused=0),
}


@pytest.mark.parametrize("kind", LIES)
def test_a_line_under_an_honest_commitment_that_says_otherwise_is_found(tmp_path: Path, kind: str) -> None:
    """The operator keeps the commitment to an entry, and tells another one."""
    ledger, hide = busy(tmp_path), world.hiding(tmp_path)
    values = excerpt(ledger, tmp_path).model_dump()
    LIES[kind](next(line["body"] for line in values["entries"] if line["kind"] == kind))
    with pytest.raises(world.NotVerified, match="contradicts"):
        world.Excerpt.model_validate(values).check_ledger(ledger.records(), hide)
