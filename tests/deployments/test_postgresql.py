"""PostgreSQL: as ledger and tracking store of a run; and asked by a query, every type as words, none of which can fail,
few rows in memory, and no password in a sentence."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import postgresql
from tests.support.people import changed, tables_of_plan, write_tables
from tests.support.sources import PASSWORD, VARIABLE, asked_of, plan_over, read
from tests.world import EnvironmentFailed, Vault, WrongInput, rows_of_query, start, verify, with_snapshots

pytestmark = pytest.mark.slow

ODD = """
select * from (values
    (1, 1.5::float8, 'infinity'::timestamptz, true, 12.50::numeric, 'a%b:c'::text, '\\xff00'::bytea, '{1,2}'::int[]),
    (2, 'NaN', '2020-01-02 03:04:05.5+02', false, 'NaN', '', '', '{}'),
    (3, '-0', '4713-01-01 BC', null, 1e-30, E'a\\nb', 'x', null),
    (4, 0.1, '294276-01-01', true, 0.10, 'é', 'y', '{7}')
) as t(id, number, moment, truth, exact, word, bits, list)
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with postgresql.server(PASSWORD) as place:
        yield f"postgresql://{place.replace('@', f':{PASSWORD}@')}/postgres"


def test_cells_of_every_type_are_words(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, address)
    with rows_of_query(ODD, VARIABLE, "data.private") as (names, parts):
        rows = sorted(row for part in parts for row in part)
    assert names == ["id", "number", "moment", "truth", "exact", "word", "bits", "list"]
    assert rows == [
        ("1", "1.5", "infinity", "true", "12.50", "a%b:c", "\\xff\0", "{1,2}"),
        ("2", "NaN", "2020-01-02 01:04:05.5", "false", "NaN", "", "", "{}"),
        ("3", "-0", "4713-01-01 00:00:00 BC", None, "0.000000000000000000000000000001", "a\nb", "x", None),
        ("4", "0.1", "294276-01-01 00:00:00", "true", "0.10", "é", "y", "{7}"),
    ]


def test_a_row_becomes_the_same_alone_as_in_company(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, columns = Vault(tmp_path / "vault"), ("number", "moment", "truth", "exact", "word", "bits", "list")

    def rows(query: str) -> list[tuple[bytes | None, ...]]:
        source = asked_of(monkeypatch, address, query)
        return sorted(read(plan_over(source, tmp_path, unit="id"), vault, *columns), key=repr)

    alone = [row for number in (1, 2, 3, 4) for row in rows(f"select * from ({ODD}) as odd where id = {number}")]
    assert rows(ODD) == sorted(alone, key=repr)
    assert len(alone) == 4


def test_memory_holds_few_rows(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, address)
    query = "select repeat('x', 1000) as word from generate_series(1, 100000)"
    tracemalloc.start()
    with rows_of_query(query, VARIABLE, "data.private") as (_, parts):
        assert sum(map(len, parts)) == 100_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # of 100 MB


@pytest.mark.parametrize("encoding", ["latin1", "sql_ascii"])
def test_text_is_what_it_is_however_clients_are_set(
    address: str, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """A server that had to write other letters would fail on some; bytes are the text that they are in UTF-8."""
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    monkeypatch.setenv(VARIABLE, address)
    query = "select '日本é' as word, convert_to('日本é', 'UTF8') as bits"
    with rows_of_query(query, VARIABLE, "data.private") as (_, parts):
        assert [row for part in parts for row in part] == [("日本é", "日本é")]


OTHERS = "select 1 as c) as x; commit; create table planted (c int); select * from (select 1 as c"
"""A query that would bring other statements."""


@pytest.mark.parametrize(
    ("query", "error", "says"),
    [
        (OTHERS, WrongInput, "cannot insert multiple commands"),
        ("select * from planted", WrongInput, 'relation "planted" does not exist'),
        ("selec 1", WrongInput, "does not understand the query"),
        ("select 1 as c, 2 as c", EnvironmentFailed, "AmbiguousColumn"),
        ("delete from pg_class returning 1", WrongInput, "does not understand the query"),
        (f"select 1 / (id - 3) as c from ({ODD}) as odd", EnvironmentFailed, r"failed while the query was read \("),
        (f"select word::int as c from ({ODD}) as odd", EnvironmentFailed, r"failed while the query was read \("),
    ],
)
def test_what_it_fails_with_is_one_sentence(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as failed:
        with_snapshots(plan_over(asked_of(monkeypatch, address, query), tmp_path), Vault(tmp_path / "vault"))
    assert PASSWORD not in str(failed.value)
    assert "a%b" not in str(failed.value)
    monkeypatch.setenv(VARIABLE, address.replace(PASSWORD, "mistaken"))
    with pytest.raises(EnvironmentFailed, match=f"{VARIABLE} names cannot be opened") as failed:
        with_snapshots(plan_over({"query": query, "connection": VARIABLE}, tmp_path), Vault(tmp_path / "vault"))
    assert "mistaken" not in str(failed.value)


def test_a_run_is_kept_and_verified_there(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = changed(tables_of_plan(write_tables(tmp_path / "data")))
    with postgresql.server() as ledger, postgresql.server() as tracking:
        monkeypatch.setenv("CONCORD_LEDGER", f"postgresql+psycopg://{ledger}")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql+psycopg://{tracking}")
        first = start(plan, home)
        assert first.answered > 0
        again = start(plan, home)
        assert (again.session, again.spent_now) == (first.session, {"epsilon": 0.0, "delta": 0.0})
        checks = verify(home)
        assert [check for check in checks if not check.ok] == []
        assert {check.name for check in checks} > {"ledger chain", f"{first.session}: MLflow"}
        assert not (home / "ledger.db").exists()
