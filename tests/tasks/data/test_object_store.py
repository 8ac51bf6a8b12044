"""Tables in an object store, against a local server of S3: copied byte for byte, refused in one sentence."""

import json
import logging
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from prefect.serializers import JSONSerializer

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import load_plan
from concord.flows.cache import SealedResults
from concord.tasks.data import places, snapshots
from concord.tasks.data.files import PRIVATE, TableFile, find_files
from concord.tasks.data.sources import with_snapshots
from concord.tasks.data.tables import open_public
from tests.support.console import concord
from tests.support.people import write_tables
from tests.support.ports import own_port
from tests.support.sources import PASSWORD, plan_over, read, ward

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """A server with a bucket `ward`, which the environment names."""
    server_of = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
            ("AWS_ACCESS_KEY_ID", "someone"),
            ("AWS_SECRET_ACCESS_KEY", PASSWORD),
            ("AWS_REGION", "us-east-1"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ):
            patch.setenv(name, value)
        places._store.cache_clear()
        client = boto3.client("s3")
        client.create_bucket(Bucket="ward")
        yield client
        places._store.cache_clear()
    server.stop()


@pytest.fixture(autouse=True)
def _anew() -> None:
    places._store.cache_clear()


def put(store: Any, name: str, file: Path) -> None:
    store.put_object(Bucket="ward", Key=name, Body=file.read_bytes())


def test_a_table_of_a_store_is_what_its_files_are(store: Any, tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    for number, rows in enumerate((ward(30), ward(20)), start=7):
        folder = tmp_path / "ward" / f"day={number}"
        folder.mkdir(parents=True)
        rows.write_parquet(folder / "a.parquet")
        put(store, f"year 1/day={number}/a.parquet", folder / "a.parquet")
    there = plan_over("s3://ward/year 1", tmp_path, unit="unit")
    found = read(there, vault, "c", "day")
    assert found == read(plan_over("ward", tmp_path, unit="unit"), vault, "c", "day")
    local = find_files(str(tmp_path / "ward"), PRIVATE)
    kept = find_files(with_snapshots(there, vault).path("private"), PRIVATE)
    assert [vault.digest_file(file.path) for file in kept] == [vault.digest_file(file.path) for file in local]
    store.delete_object(Bucket="ward", Key="year 1/day=7/a.parquet")
    assert read(there, vault, "c", "day") == found  # as it was when it was read
    table = open_public("s3://ward/year 1")  # for `concord plan`, which keeps nothing
    assert table.kinds(["c", "day"]) == {"c": "categorical", "day": "numeric"}


def test_csv_in_a_store_is_read_line_by_line(store: Any, tmp_path: Path) -> None:
    (tmp_path / "ward.csv").write_bytes(b'c,label,unit\n1,no,u\n"2,yes,v\n\xff,no,w\n')
    put(store, "ward.csv", tmp_path / "ward.csv")
    vault, stored = Vault(tmp_path / "vault"), plan_over("ward.csv", tmp_path, unit="unit")
    assert read(plan_over("s3://ward/ward.csv", tmp_path, unit="unit"), vault, "c") == read(stored, vault, "c")


@pytest.mark.usefixtures("store")
def test_a_delta_table_of_a_store_is_read(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake("s3://ward/delta", ward(20).to_arrow(), partition_by=["label"])
    vault = Vault(tmp_path / "vault")
    assert len(read(plan_over({"delta": "s3://ward/delta"}, tmp_path, unit="unit"), vault, "c", "label")) == 20


def test_an_object_that_is_written_while_it_is_read_is_not_kept(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows in (30, 31):
        ward(rows).write_parquet(tmp_path / f"{rows}.parquet")
    put(store, "moving.parquet", tmp_path / "30.parquet")
    honest = snapshots.Sealing.write

    def meanwhile(sealing: Any, data: Any) -> int:
        put(store, "moving.parquet", tmp_path / "31.parquet")
        return honest(sealing, data)

    vault, plan = Vault(tmp_path / "vault"), plan_over("s3://ward/moving.parquet", tmp_path, unit="unit")
    with monkeypatch.context() as patch:
        patch.setattr(snapshots.Sealing, "write", meanwhile)
        with pytest.raises(EnvironmentFailed, match="was written while it was read"):
            with_snapshots(plan, vault)
    assert len(read(plan, vault, "c")) == 31


def test_what_a_store_fails_with_is_one_sentence(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = Vault(tmp_path / "vault")
    for address in ("s3://ward/absent", "s3://absent/ward.csv"):
        with pytest.raises((WrongInput, EnvironmentFailed), match="s3://") as failed:
            with_snapshots(plan_over(address, tmp_path), vault)
        assert PASSWORD not in str(failed.value)
    (tmp_path / "note.txt").write_text("words")
    put(store, "notes/note.txt", tmp_path / "note.txt")
    with pytest.raises(WrongInput, match="must be Parquet, Arrow IPC or CSV"):
        with_snapshots(plan_over("s3://ward/notes", tmp_path), vault)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    places._store.cache_clear()
    with pytest.raises(EnvironmentFailed, match=r"cannot be read \(network connection\)"):
        with_snapshots(plan_over("s3://ward/note", tmp_path), vault)


def test_rows_in_a_store_are_the_bits_of_a_frame(store: Any, tmp_path: Path) -> None:
    rows = ward(50).with_columns(number=pl.col("c").cast(pl.Float32))
    rows.write_ipc(tmp_path / "ward.arrow")
    put(store, "ward.arrow", tmp_path / "ward.arrow")
    vault = Vault(tmp_path / "vault")
    found = read(plan_over("s3://ward/ward.arrow", tmp_path, unit="unit"), vault, "c", "number")
    assert found == read(plan_over("ward.arrow", tmp_path, unit="unit"), vault, "c", "number")


def test_cached_results_in_a_store_are_sealed_as_on_a_disk(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_RESULTS", "s3://ward/results/")
    kept = SealedResults(home=tmp_path)
    record = json.dumps({"metadata": {"serializer": JSONSerializer().model_dump()}, "result": "7"}).encode()
    assert not kept.is_foreign("teach-a")
    kept.write_path("teach-a", content=record)
    assert SealedResults(home=tmp_path).read_path("teach-a") == record
    assert not (tmp_path / "results").exists()
    there = store.get_object(Bucket="ward", Key="results/teach-a")["Body"].read()
    for edited in (there[:-1], b"\0" * 32 + record, record):
        store.put_object(Bucket="ward", Key="results/teach-a", Body=edited)
        assert kept.is_foreign("teach-a")
    store.put_object(Bucket="ward", Key="results/teach-b", Body=there)
    assert kept.is_foreign("teach-b")


def test_init_writes_a_plan_over_tables_of_a_store(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("private.csv", "public.parquet", "test.parquet"):
        put(store, f"init/{name}", write_tables(tmp_path) / name)
    monkeypatch.chdir(tmp_path)
    tables = ("--private", "s3://ward/init/private.csv", "--public", "s3://ward/init/public.parquet")
    stated = ("--test", "s3://ward/init/test.parquet", "--label", "outcome", "--unit", "person", "--domain", "people")
    status, _, error = concord("init", *tables, *stated, "--rows", "6000", "--home", str(tmp_path / "home"))
    assert status == 0, error
    plan = load_plan(tmp_path / "plan.toml")
    assert (plan.data.private, plan.data.features) == (tables[1], ("size", "shade", "visits"))
    absent = ("--private", "s3://ward/absent", "--rows", "9", "--out", "absent.toml")
    status, _, error = concord("init", *tables, *stated, *absent)
    assert (status, "s3://ward/absent does not exist" in error) == (2, True)


def test_google_s_store_without_a_key_is_refused_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(places, "RETRY_FOR", timedelta(seconds=1))
    with pytest.raises(EnvironmentFailed, match="gs://ward/a cannot be read"):
        with_snapshots(plan_over("gs://ward/a", tmp_path), Vault(tmp_path / "vault"))


AZURITE = "azurite-blob"
"""Azure's emulator, of npm; 186 MB, so tests do without if it is not installed."""
ACCOUNT = "devstoreaccount1"
ITS_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Which every such emulator has, and its documentation prints."""


def connection(port: int) -> str:
    """The connection string of an emulator."""
    return f"AccountName={ACCOUNT};AccountKey={ITS_KEY};BlobEndpoint=http://127.0.0.1:{port}/{ACCOUNT};"


@pytest.mark.skipif(shutil.which(AZURITE) is None, reason=f"{AZURITE} of npm is not installed")
def test_a_table_of_azure_is_what_its_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port, vault = own_port(), Vault(tmp_path / "vault")
    words = [AZURITE, "--silent", "--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck"]
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(port))
    with subprocess.Popen([*words, "--blobPort", str(port)], cwd=tmp_path) as emulator:
        try:
            until_it_listens(port)
            folder, path = places.store_of(f"az://{ACCOUNT}/ward/year 1")
            folder.create_dir("ward")
            (tmp_path / "ward").mkdir()
            ward(30).write_parquet(tmp_path / "ward" / "a.parquet")
            places.Remote(f"az://{ACCOUNT}/{path}/a.parquet").write_bytes((tmp_path / "ward/a.parquet").read_bytes())
            there = plan_over(f"az://{ACCOUNT}/ward/year 1", tmp_path, unit="unit")
            assert read(there, vault, "c") == read(plan_over("ward", tmp_path, unit="unit"), vault, "c")
            with pytest.raises(WrongInput, match=f"az://{ACCOUNT}/ward/absent does not exist"):
                with_snapshots(plan_over(f"az://{ACCOUNT}/ward/absent", tmp_path), vault)
        finally:
            emulator.terminate()


def until_it_listens(port: int) -> None:
    """Wait until somebody takes connections there."""
    for _ in range(200):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    pytest.fail(f"nobody listens on port {port}")


AT = {"blob_storage_authority": "127.0.0.1:7", "dfs_storage_authority": "127.0.0.1:7"}
BLOBS = ".blob.core.windows.net"
BY = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
VARIABLES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "azure, with nothing said": (f"az://{ACCOUNT}/ward", {}, {}),
    "azure, by a key": (f"az://{ACCOUNT}/ward", {"AZURE_STORAGE_KEY": ITS_KEY}, {"account_key": ITS_KEY}),
    "azure, by a token": (f"az://{ACCOUNT}/ward", {"AZURE_STORAGE_SAS_TOKEN": "sig=a"}, {"sas_token": "?sig=a"}),
    "azure, by a connection of a token": (
        "az://acct/ward",
        {"AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint=https://acct{BLOBS}/;SharedAccessSignature=sv=1&sig=a"},
        {
            "sas_token": "?sv=1&sig=a",
            "blob_storage_authority": BLOBS,
            "dfs_storage_authority": BLOBS.replace("blob", "dfs"),
            **dict.fromkeys(BY, "https"),
        },
    ),
    "azure, by a connection": (
        f"az://{ACCOUNT}/ward",
        {"AZURE_STORAGE_CONNECTION_STRING": connection(7)},
        {"account_key": ITS_KEY, **AT, **BY},
    ),
    "azure, by another's": ("az://other/ward", {"AZURE_STORAGE_CONNECTION_STRING": connection(7)}, {}),
    "azure, by a key and a token": (
        f"az://{ACCOUNT}/ward",
        {"AZURE_STORAGE_KEY": ITS_KEY, "AZURE_STORAGE_SAS_TOKEN": "sig=a"},
        {"account_key": ITS_KEY},
    ),
    "azure, by another's token": (
        f"az://{ACCOUNT}/ward",
        {"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_SAS_TOKEN": "sig=a"},
        {},
    ),
    "azure, by its own token": (
        f"az://{ACCOUNT}/ward",
        {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_SAS_TOKEN": "sig=a"},
        {"sas_token": "?sig=a"},
    ),
    "google, with nothing said": ("gs://ward/a", {}, {}),
    "google, an emulator": (
        "gs://ward/a",
        {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:7"},
        {"anonymous": True, "scheme": "http", "endpoint_override": "127.0.0.1:7"},
    ),
    "google, an emulator without its scheme": (
        "gs://ward/a",
        {"STORAGE_EMULATOR_HOST": "localhost:7"},
        {"anonymous": True, "scheme": "http", "endpoint_override": "localhost:7"},
    ),
}


@pytest.mark.parametrize("case", VARIABLES)
def test_what_lets_us_in_is_what_the_stores_own_tools_read(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    address, variables, options = VARIABLES[case]
    for end in ("CONNECTION_STRING", "ACCOUNT", "KEY", "SAS_TOKEN"):
        monkeypatch.delenv(f"AZURE_STORAGE_{end}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    given: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    system = {"az": "AzureFileSystem", "gs": "GcsFileSystem"}[address[:2]]
    monkeypatch.setattr(f"pyarrow.fs.{system}", lambda *names, **rest: given.append((names, rest)))
    usual = {"retry_time_limit": places.RETRY_FOR} if address.startswith("gs") else {}
    path = places.store_of(address)[1]
    assert given == [((address.split("/")[2],) if address.startswith("az") else (), usual | options)]
    assert path == address.partition("://")[2].removeprefix(f"{address.split('/')[2]}/" * address.startswith("az"))


@pytest.mark.parametrize(("its", "wrong"), [(ITS_KEY, f"{PASSWORD}!"), ("127.0.0.1", f"[{PASSWORD}")])
def test_a_connection_that_azure_cannot_take_is_one_sentence_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, its: str, wrong: str
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(1).replace(its, wrong))
    with pytest.raises(EnvironmentFailed, match=f"data.private: az://{ACCOUNT}/ward/a cannot be read") as refused:
        with_snapshots(plan_over(f"az://{ACCOUNT}/ward/a", tmp_path), Vault(tmp_path / "vault"))
    assert PASSWORD not in str(refused.value)


class Failing:
    """A store whose errors hold the token that lets in, as Azure's addresses do."""

    def open_input_file(self, path: str) -> Any:
        raise OSError(f"GetProperties failed for 'https://acct.example/{path}?sig={PASSWORD}'")

    def open_output_stream(self, path: str) -> Any:
        return self.open_input_file(path)


def test_no_error_shows_the_token_that_lets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_store", lru_cache(lambda *_: Failing()))
    there = places.Remote("az://acct/ward/a.parquet")
    for uses in (
        lambda: TableFile(there, "parquet", "data.public").names,
        lambda: TableFile(there, "csv", "data.public").names,
        there.read_bytes,
        lambda: there.write_bytes(b""),
    ):
        with pytest.raises((OSError, WrongInput)) as failed:
            uses()
        assert PASSWORD not in str(failed.value)


def test_a_key_that_was_changed_lets_in_at_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a service runs for months, and the file that holds the key is written anew."""
    opened = list[str]()

    def system(bucket: str, **_: object) -> Any:
        opened.append(bucket)
        return Failing()

    monkeypatch.setattr("pyarrow.fs.AzureFileSystem", system)
    for tries in (1, 2, 3):
        with pytest.raises(OSError, match="the object store failed"):
            places.Remote("az://rotated/ward/a.parquet").raw()
        assert opened == ["rotated"] * tries
    places.store_of("az://rotated/ward/b.parquet")
    places.store_of("az://rotated/ward/c.parquet")
    assert len(opened) == 4  # one that lets in is kept


def test_an_address_that_is_none_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://[")
    with pytest.raises(EnvironmentFailed, match="gs://ward/a cannot be read"):
        open_public("gs://ward/a")
