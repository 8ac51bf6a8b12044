"""Tables in an object store, against a local server of S3: copied byte for byte, refused in one sentence."""

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest
from prefect.serializers import JSONSerializer

from tests import world
from tests.support.sources import PASSWORD, plan_over, read, ward
from tests.support.store import Store, running


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A server with a bucket `ward`, which the environment names."""
    with running("ward") as server, pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ENDPOINT_URL", server.address),
            ("AWS_ACCESS_KEY_ID", "someone"),
            ("AWS_SECRET_ACCESS_KEY", PASSWORD),
            ("AWS_REGION", "us-east-1"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ):
            patch.setenv(name, value)
        yield server
        world.data_places._store.cache_clear()


@pytest.fixture(autouse=True)
def _anew() -> None:
    world.data_places._store.cache_clear()


def put(store: Store, name: str, file: Path) -> None:
    store.objects[f"ward/{name}"] = file.read_bytes()


def test_a_table_of_a_store_is_what_its_files_are(store: Store, tmp_path: Path) -> None:
    vault = world.Vault(tmp_path / "vault")
    for number, rows in enumerate((ward(30), ward(20)), start=7):
        folder = tmp_path / "ward" / f"day {number}"
        folder.mkdir(parents=True)
        rows.write_parquet(folder / "a.parquet")
        for place in ("", "_temporary/"):
            put(store, f"year 1/{place}day {number}/a.parquet", folder / "a.parquet")
    there = plan_over("s3://ward/year 1", tmp_path, unit="unit")
    found = read(there, vault, "c", "label")
    assert found == read(plan_over("ward", tmp_path, unit="unit"), vault, "c", "label")
    local = world.find_files(str(tmp_path / "ward"), world.PRIVATE)
    kept = world.find_files(world.with_snapshots(there, vault).path("private"), world.PRIVATE)
    assert [vault.digest_file(file.path) for file in kept] == [vault.digest_file(file.path) for file in local]
    del store.objects["ward/year 1/day 7/a.parquet"]
    assert read(there, vault, "c", "label") == found  # as it was when it was read
    table = world.open_public("s3://ward/year 1")  # for `concord plan`, which keeps nothing
    assert table.kinds(["c", "label"]) == dict.fromkeys(("c", "label"), "categorical")


def test_an_object_that_is_written_while_it_is_read_is_not_kept(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows in (30, 31):
        ward(rows).write_parquet(tmp_path / f"{rows}.parquet")
    put(store, "moving.parquet", tmp_path / "30.parquet")
    honest = shutil.copyfileobj

    def meanwhile(*given: Any) -> None:
        put(store, "moving.parquet", tmp_path / "31.parquet")
        honest(*given)

    vault, plan = world.Vault(tmp_path / "vault"), plan_over("s3://ward/moving.parquet", tmp_path, unit="unit")
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfileobj", meanwhile)
        with pytest.raises(world.EnvironmentFailed, match="was written while it was read"):
            world.with_snapshots(plan, vault)
    assert len(read(plan, vault, "c")) == 31


def test_what_a_store_fails_with_is_one_sentence(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = world.Vault(tmp_path / "vault")
    for address in ("s3://ward/absent", "s3://absent/ward.csv"):
        with pytest.raises((world.WrongInput, world.EnvironmentFailed), match="s3://") as failed:
            world.with_snapshots(plan_over(address, tmp_path), vault)
        assert PASSWORD not in str(failed.value)
    (tmp_path / "note.odd").write_text("words")
    put(store, "notes/note.odd", tmp_path / "note.odd")
    with pytest.raises(world.WrongInput, match="must be Parquet, Arrow IPC or CSV"):
        world.with_snapshots(plan_over("s3://ward/notes", tmp_path), vault)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    once = pyarrow.fs.S3FileSystem(retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=1))
    monkeypatch.setattr(world.data_places, "_store", lru_cache(lambda *_: once))  # it tries ten times, for seconds
    with pytest.raises(world.EnvironmentFailed, match=r"cannot be read \(network connection\)"):
        world.with_snapshots(plan_over("s3://ward/note", tmp_path), vault)


def test_cached_results_in_a_store_are_sealed_as_on_a_disk(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_RESULTS", "s3://ward/results/")
    kept = world.SealedResults(home=tmp_path)
    record = json.dumps({"metadata": {"serializer": JSONSerializer().model_dump()}, "result": "7"}).encode()
    assert not kept.is_foreign("teach-a")
    kept.write_path("teach-a", content=record)
    assert world.SealedResults(home=tmp_path).read_path("teach-a") == record
    assert not (tmp_path / "results").exists()
    there = store.objects["ward/results/teach-a"]
    for edited in (there[:-1], b"\0" * 32 + record, record):
        store.objects["ward/results/teach-a"] = edited
        assert kept.is_foreign("teach-a")
    store.objects["ward/results/teach-b"] = there
    assert kept.is_foreign("teach-b")


def test_google_s_store_without_a_key_is_refused_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(world.data_places, "RETRY_FOR", timedelta(seconds=1))
    with pytest.raises(world.EnvironmentFailed, match="gs://ward/a cannot be read"):
        world.with_snapshots(plan_over("gs://ward/a", tmp_path), world.Vault(tmp_path / "vault"))


def test_a_store_s_own_words_are_in_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    class Failing:
        def get_file_info(self, _: Any) -> Any:
            raise OSError(f"GET https://ward.blob?sig={PASSWORD}")

        open_input_file = get_file_info

    monkeypatch.setattr(world.data_places, "_store", lru_cache(lambda *_: Failing()))
    for attempt in (
        lambda: world.with_snapshots(plan_over("az://ward/a/b", tmp_path), world.Vault(tmp_path / "vault")),
        lambda: list(world.TableFile(world.data_places.Remote("az://ward/a/b"), "csv", "data.public").frames(["c"])),
    ):
        with pytest.raises((world.EnvironmentFailed, world.WrongInput)) as refused:
            attempt()
        assert PASSWORD not in str(refused.value)
