"""Several homes in one process: a lead and three homes with tables, keys and home folders of their own."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from concord.artifacts.home.signing import SigningKey
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import Plan, parse_plan
from concord.flows.homes import contribute
from concord.flows.lead import lead
from concord.tasks.asks.share import Answered, Asked, Letter, homes_of
from concord.tasks.data import remote
from concord.tasks.data.exchange import Exchange
from tests.promises.commands import STAND_INS
from tests.support.people import people, tables_of_plan

NAMES = ("north", "south", "west")


@contextmanager
def plainly() -> Iterator[pytest.MonkeyPatch]:
    """Flows as plain functions, without Prefect's engine and without MLflow's store."""
    with pytest.MonkeyPatch.context() as patch:
        for place in ("concord.flows.run.Stages", "concord.tasks.publish.figures._svg"):
            patch.setattr(place, STAND_INS[place])
        patch.setattr("concord.flows.run.ready_mlflow", lambda _: None)
        yield patch


def stored(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """A local folder as the bucket `bucket` of a store of s3://."""
    (folder / "bucket").mkdir()
    store = pyarrow.fs.SubTreeFileSystem(str(folder), pyarrow.fs.LocalFileSystem())
    patch.setattr(remote, "_store", lru_cache(lambda *_: store))
    return folder / "bucket"


class Several:
    """The world of a plan of three homes, below a folder; `of_homes` are keys of [homes]."""

    def __init__(self, folder: Path, rows: int = 400, **of_homes: Any) -> None:
        self.folder, self.exchange = folder, folder / "exchange"
        self.address = ""  # of the exchange, if it is not that folder
        data = folder / "data"
        if not data.exists():  # else it is a copy
            data.mkdir(parents=True)
            for seed, name in enumerate(NAMES):
                people(rows, 10 + seed).write_parquet(data / f"{name}.parquet")
            people(150, 2).drop("outcome", "person").write_parquet(data / "public.parquet")
            people(200, 3).drop("person").write_parquet(data / "test.parquet")
        given = tables_of_plan(data)
        given["labeling"] = {"mechanism": "tallies", "rows": 200}  # so few that a round of labels is enough
        given["data"]["private"] = ""
        given["homes"] = {
            "names": list(NAMES),
            "keys": [self.key(name).public.raw.hex() for name in NAMES],
            "lead": self.key("lead").public.raw.hex(),
            "people": "in one home",
            "public": hashlib.sha256((data / "public.parquet").read_bytes()).hexdigest(),
            "tick": 0,
            **of_homes,
        }
        self.given = {name: section for name, section in given.items() if name not in ("teachers", "student")}

    @property
    def plan(self) -> Plan:
        return parse_plan(self.given)

    def home(self, name: str) -> Path:
        return self.folder / f"home-{name}"

    def key(self, name: str) -> SigningKey:
        return SigningKey.of(Vault(self.home(name) / "vault"))

    def private(self, name: str, plan: Plan | None = None) -> Plan:
        plan = plan or self.plan
        return plan.model_copy(update={"data": plan.data.model_copy(update={"private": f"{name}.parquet"})})

    def lead(self, **asked: Any) -> dict[str, Any]:
        done: dict[str, Any] = lead.fn(self.plan, self.home("lead"), self.address or str(self.exchange), **asked)
        return done

    def contribute(self, name: str, plan: Plan | None = None, **asked: Any) -> dict[str, Any]:
        given = {"agreed": True, **asked}
        done: dict[str, Any] = contribute.fn(
            self.private(name, plan), self.home(name), self.address or str(self.exchange), name, **given
        )
        return done

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.exchange.iterdir()) if path.name[0] != "."}

    def asked(self, number: int) -> tuple[Asked, Letter[Asked]]:
        """The lead's question of that number, as the exchange has it."""
        (name,) = (name for name in self.files() if name.startswith(f"question-{number}-"))
        letter = Letter.read(Exchange(str(self.exchange)).read(name), Asked, homes_of(self.plan).lead_key)
        return letter.content, letter

    def share(self, number: int, name: str) -> Answered:
        """A home's share of that number, as the exchange has it."""
        (file,) = self.exchange.glob(f"share-{number}-{name}-*")
        return Letter.read(file.read_bytes(), Answered, self.key(name).public.raw.hex()).content

    def post(self, asked: Asked, by: str = "lead", *, instead: bool = True) -> Letter[Asked]:
        """Put another question into the exchange, in place of that of its number or beside it."""
        for path in self.exchange.glob(f"question-{asked.number}-*") if instead else ():
            path.unlink()
        letter = Letter.signed(asked, self.key(by))
        Exchange(str(self.exchange)).write(f"question-{asked.number}", letter.data)
        return letter

    def copied(self, name: str, to: str) -> None:
        shutil.copytree(self.home(name), self.home(to))


def all_rounds(several: Several) -> dict[str, Any]:
    """Everybody answers everything; what was published."""
    while not (done := several.lead())["published"]:
        for name in done["missing"]:
            several.contribute(name)
    return done
