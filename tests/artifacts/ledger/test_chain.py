"""The chain: a byte changed anywhere in the ledger is found, and so is an entry that could not have been written."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import world
from tests.support.chained import database, forged, lines, read, rechained
from tests.support.openings import DOMAIN, batch, named, opening, outcome, session

COLUMNS = ("at", "domain", "session", "kind", "body", "previous", "digest")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose ledger holds every kind of entry; tests copy it before they change it."""
    home = tmp_path_factory.mktemp("home")
    ledger = named(world.Ledger.of(home))
    ledger.recap("census", 5, 5e-5, "the board said so")
    ledger.open_session(opening())
    for index in range(2):
        ledger.begin_batch("one", batch(index, first=100 * index))
        ledger.commit_batch("one", outcome(index, refused=1))
    ledger.settle("one", give_back=True)
    ledger.remark("census", "forgotten", "one", "no longer needed")
    ledger.open_session(opening("two"), further=True)
    return home


@pytest.fixture
def home(written: Path, tmp_path: Path) -> Path:
    (tmp_path / "ledger.db").write_bytes((written / "ledger.db").read_bytes())
    return tmp_path


def test_what_was_written_reads(written: Path) -> None:
    state = read(lines(written))
    assert state.sessions == {item.id: item for item in world.Ledger.of(written).sessions("census")}
    assert {line.kind for line in lines(written)} == {"domain", "recap", "remark", "open", "begin", "commit", "settle"}


def test_any_character_changed_in_any_cell_is_found(written: Path) -> None:
    chain = lines(written)
    for place, line in enumerate(chain):
        state = read(chain[:place])
        for column in COLUMNS:
            text = getattr(line, column)
            for at in range(len(text)):
                flipped = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
                with pytest.raises(world.NotVerified, match=f"entry {line.seq} "):
                    state.read(replace(line, **{column: flipped}))
        state.read(line)  # and unchanged it goes on


@pytest.mark.parametrize("cell", ["''", "'7'", "x'37'", "CAST(x'FFFE' AS TEXT)"])
def test_a_cell_replaced_in_the_database_is_found_and_named(home: Path, cell: str) -> None:
    for seq, column in zip((1, 2, 3, 4, 5, 7, len(lines(home))), COLUMNS, strict=True):
        was = getattr(lines(home)[seq - 1], column)
        with database(home) as connection:
            connection.execute(f"UPDATE entries SET {column} = {cell} WHERE seq = ?", (seq,))
        with pytest.raises(world.NotVerified, match=f"entry {seq} "):
            world.Ledger.of(home).verify()
        with database(home) as connection:
            connection.execute(f"UPDATE entries SET {column} = ? WHERE seq = ?", (was, seq))
    world.Ledger.of(home).verify()


def test_an_entry_taken_out_or_moved_is_found(home: Path) -> None:
    chain = lines(home)
    for place in range(len(chain) - 1):
        with pytest.raises(world.NotVerified, match=f"entry {chain[place + 1].seq} "):
            read(chain[:place] + chain[place + 1 :])
        with pytest.raises(world.NotVerified):
            read([*chain[:place], chain[place + 1], chain[place], *chain[place + 2 :]])
    with pytest.raises(world.NotVerified):
        read([*chain, chain[-1]])


def test_a_changed_ledger_spends_nothing(home: Path) -> None:
    with database(home) as connection:
        connection.execute("UPDATE entries SET body = replace(body, '\"refused\":1', '\"refused\":0') WHERE seq = 5")
    ledger, before = world.Ledger.of(home), lines(home)
    for change in (
        lambda: ledger.open_session(opening("three"), further=True),
        lambda: ledger.begin_batch("two", batch()),
        lambda: ledger.settle("two", give_back=True),
    ):
        with pytest.raises(world.NotVerified, match="entry 5 "):
            change()
    assert lines(home) == before


ADMITTED = session(cutoff=5)


@pytest.mark.parametrize(
    ("event", "domain", "session"),
    [
        (DOMAIN, "census", ""),  # a domain twice
        (replace(DOMAIN, name="other"), "census", ""),
        (world.NewCap(filter=DOMAIN.filter, reason="none"), "other", ""),
        (replace(ADMITTED, id="two"), "census", "two"),  # a session twice
        (replace(ADMITTED, id="three"), "census", "four"),
        (replace(ADMITTED, id="three", domain="other"), "other", "three"),
        (batch(), "census", "one"),  # after its end
        (batch(), "census", "none"),
        (batch(), "other", "two"),
        (batch(1, first=100), "census", "two"),
        (batch(outcome=outcome()), "census", "two"),
        (outcome(), "census", "two"),
        (world.Settlement(charge=ADMITTED.reserved, status="closed"), "census", "two"),
    ],
)
def test_a_chained_entry_that_breaks_the_rules_is_found(
    written: Path, event: world.Event, domain: str, session: str
) -> None:
    chain = lines(written)
    with pytest.raises(world.NotVerified, match=f"entry {len(chain) + 1} "):
        read([*chain, forged(chain, event, domain, session)])


def test_a_forger_who_keeps_the_rules_is_not_found(written: Path) -> None:
    chain = lines(written)
    assert read([*chain, forged(chain, batch())]).session("two").batches == 1


BODY = '{"exact_digest":"votes from 0","first":0,"index":0,"outcome":null,"question_digest":"rows from 0","rows":%s}'
ODD_ROWS = ('"100"', "100.0", "NaN", "100 ", '100,"more":1', '100,"rows":100')


@pytest.mark.parametrize("body", ["", "{}", "[]", "null", "{", '{"index": 0}', *(BODY % odd for odd in ODD_ROWS)])
def test_a_body_this_version_would_not_write_is_refused(written: Path, body: str) -> None:
    chain = lines(written)
    assert forged(chain, batch()).body == BODY % 100
    with pytest.raises(world.NotVerified, match="not what this version writes"):
        read([*chain, rechained(forged(chain, batch()), body=body)])


def test_the_digest_is_what_the_format_says(written: Path) -> None:
    assert [rechained(line) for line in lines(written)] == lines(written)


text = st.text(max_size=20)
counts = st.integers(-(2**70), 2**70)
charges = st.builds(world.Charge, renyi=st.decimals(0, 1000, places=18), delta=st.decimals(0, 1, places=36))


@given(
    st.one_of(
        st.builds(world.Batch, index=counts, first=counts, rows=counts, question_digest=text, exact_digest=text),
        st.builds(world.BatchOutcome, index=counts, asked=counts, answered=counts, refused=counts),
        st.builds(world.Settlement, charge=charges),
    )
)
def test_every_event_reads_back_as_it_was_written(event: world.Event) -> None:
    line = world.LogRecord.after(None, world.Entry(domain="d", session="s", event=event), at="now")
    assert line.entry_after(None).event == event


@given(
    body=st.text(max_size=200),
    kind=st.sampled_from([*world.EVENT_KINDS, "?"]),
)
def test_no_body_gets_past_the_reader_unless_it_is_ours(body: str, kind: str) -> None:
    line = rechained(
        world.LogRecord.after(None, world.Entry(domain="census", event=DOMAIN), at="now"), body=body, kind=kind
    )
    with pytest.raises(world.NotVerified):
        world.LedgerState().read(line)


def test_a_byte_flipped_in_the_file_is_found_or_changes_nothing(home: Path) -> None:
    file, truth = home / "ledger.db", lines(home)
    content = file.read_bytes()
    for at in range(0, len(content), 97):
        file.write_bytes(content[:at] + bytes([content[at] ^ 0x20]) + content[at + 1 :])
        try:
            world.Ledger.of(home).verify()
        except world.ConcordError:
            continue
        assert lines(home)[: len(truth)] == truth
