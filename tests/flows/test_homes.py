"""Several homes end to end: three homes and a lead on folders of their own, from the first question to the student."""

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from concord.artifacts.home.signing import SigningKey
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan, parse_plan
from concord.flows.homes import contribute
from concord.flows.lead import lead, status
from concord.flows.serving import ready, serving_flows
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.verify import verify
from tests.support.people import people, tables_of_plan, write_tables

NAMES = ("north", "south", "west")


class Homes:
    """A lead, three homes with private tables of their own, and the exchange."""

    def __init__(self, folder: Path, **homes: Any) -> None:
        self.folder, self.exchange = folder, str(folder / "exchange")
        data = write_tables(folder / "data")
        for seed, name in enumerate(NAMES):
            people(3000, 10 + seed).write_parquet(data / f"{name}.parquet")
        given = tables_of_plan(data)
        given["labeling"] = {"mechanism": "tallies", "rows": 4000}
        given["data"]["private"] = ""
        given["homes"] = {
            "names": list(NAMES),
            "keys": [self.key(name) for name in NAMES],
            "lead": self.key("lead"),
            "people": "in one home",
            "public": hashlib.sha256((data / "public.parquet").read_bytes()).hexdigest(),
            "tick": 0,
            **homes,
        }
        self.given = {name: section for name, section in given.items() if name not in ("teachers", "student")}
        self.plan = parse_plan(self.given)

    def home(self, name: str) -> Path:
        return self.folder / f"home-{name}"

    def key(self, name: str) -> str:
        return SigningKey.of(Vault(self.home(name) / "vault")).public.raw.hex()

    def private(self, name: str) -> Plan:
        data = self.plan.data.model_copy(update={"private": f"{name}.parquet"})
        return self.plan.model_copy(update={"data": data})

    def lead(self, **asked: Any) -> dict[str, Any]:
        with serving_flows(self.home("lead")):
            done: dict[str, Any] = ready(lead, self.home("lead"))(
                self.plan, self.home("lead"), exchange=self.exchange, **asked
            )
        return done

    def contribute(self, name: str, **asked: Any) -> dict[str, Any]:
        given = {"agreed": True, **asked}
        with serving_flows(self.home(name)):
            done: dict[str, Any] = ready(contribute, self.home(name))(
                self.private(name), self.home(name), exchange=self.exchange, name=name, **given
            )
        return done

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(Path(self.exchange).iterdir())}


@pytest.mark.slow
def test_three_homes_and_a_lead_publish_a_student_that_anyone_can_verify(home: Path) -> None:
    homes = Homes(home.parent / "all")
    rounds = 0
    while not (done := homes.lead())["published"]:
        assert (done["round"], done["missing"]) == (rounds, list(NAMES))
        for name in NAMES:
            answered = homes.contribute(name)
            assert (answered["answered"], answered["answered_now"]) == (rounds, True)
        before = homes.files()
        again = homes.contribute("north")
        assert (again["answered_now"], again["spent_now"]["epsilon"], homes.files()) == (False, 0, before)
        rounds += 1
    assert done["student"]["accuracy"] > 0.8
    assert homes.lead()["certificate_digest"] == done["certificate_digest"]
    for name in ("lead", *NAMES):
        assert [check for check in verify(homes.home(name)) if not check.ok] == [], name
    folder = Path(done["certificate"]).parent
    assert [check for check in verify_published(folder) if not check.ok] == []
    found = status(homes.plan, homes.exchange)
    assert [each["answered"] for each in found["rounds"]] == [list(NAMES)] * rounds
    units = sum(pl.read_parquet(homes.folder / "data" / f"{name}.parquet")["person"].n_unique() for name in NAMES)
    last = json.loads((folder / "rounds" / f"round-{rounds - 1:05d}.json").read_bytes())
    assert abs(last["decoded"]["units"] - units) < 100
    (session,) = Ledger.of(homes.home("north")).sessions("people")
    assert (session.status, session.epsilon) == ("spent", homes.plan.privacy.epsilon)
