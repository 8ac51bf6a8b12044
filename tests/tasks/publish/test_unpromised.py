"""A domain that is linked to one with another unit promises nothing over the life of both: whoever reads is warned."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import yaml

from concord.artifacts.certificate import Certificate
from concord.artifacts.guarantee import UNPROMISED
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.mlflow.describe import NOTE
from concord.artifacts.mlflow.read import Records
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.publish.disclosures import registry
from concord.tasks.verify.checked_student import handed_on
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.verify import verify
from tests.support.published import SESSION, world
from tests.support.sentences import says
from tests.support.tracked import tracked

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)
NEIGHBOURS = "add or remove one unit"


@pytest.fixture(scope="module", params=["one row", "all rows of one person"])
def unit(request: pytest.FixtureRequest) -> str:
    """The unit of the other domain."""
    return str(request.param)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path, unit: str) -> Path:
    """A home whose session was published after its domain was linked to one with that unit."""
    small = world(tmp_path_factory.mktemp("linked") / "home")
    copy(mlflow_database, small.home / "mlflow.db")
    ledger = Ledger.of(small.home)
    for name, of in (("people", "one row"), ("others", unit)):
        ledger.name_domain(name, unit=of, neighbours=NEIGHBOURS, epsilon=4.0, delta=4e-5)
    ledger.remark("people", "linked", "others", "one clinic")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        tracked(small, STABLE, small.truth, datetime(2026, 1, 2, tzinfo=UTC))
    return small.home


@pytest.fixture
def warned(unit: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return unit != "one row"  # else the sum of both caps is promised


def test_certificate_report_and_mlflow_warn(home: Path, warned: bool) -> None:
    folder = home / "released" / SESSION
    certificate = Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    assert any(UNPROMISED in warning for warning in certificate.warnings) == warned
    _, life = (folder / "report.html").read_text().split("<h2>Lifetime privacy budget</h2>")
    assert (f"{UNPROMISED}.</p>" in life) == warned
    records = Records.of(home)
    recorded = records.recorded(records.runs(SESSION)[0])
    assert recorded is not None
    assert (says(recorded.tags[NOTE], "Warning", "people", "linked")) == warned
    assert (UNPROMISED in recorded.model_description) == warned


def test_verify_warns_in_the_home_and_far_from_it(home: Path, warned: bool) -> None:
    """It said: ok budget, within its ε = 4."""
    for checks, name in (
        (verify(home), "people: lifetime"),
        (verify_published(home / "released" / SESSION), "lifetime"),
    ):
        assert all(check.ok for check in checks)
        found = [check.detail for check in checks if check.warning and check.name.endswith(name)]
        assert len(found) == warned
        assert all(UNPROMISED in detail for detail in found)


def test_the_registry_s_record_tells_it_with_composition(home: Path, warned: bool) -> None:
    record = yaml.safe_load(registry(handed_on(SESSION, home).certificate))
    told = UNPROMISED if warned else "they are promised the sum of the caps, ε = 8"
    (composition,) = (text for text in values_of(record, "composition"))
    assert told in composition


def values_of(record: Any, name: str) -> Iterator[str]:
    """The values of that key, wherever it stands."""
    for key, value in record.items() if isinstance(record, dict) else ():
        yield from [value] if key == name else values_of(value, name)
