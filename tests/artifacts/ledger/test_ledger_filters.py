"""A domain's filter on the record: of one Rényi order for ever; what another filter wrote is refused plainly."""

from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import parse_plan
from tests.artifacts.ledger.openings import CAP, DOMAIN, opening
from tests.support.chained import Said, rewrite
from tests.support.people import tables_of_plan
from tests.support.sentences import facts


def ledger(home: Path) -> Ledger:
    made = Ledger.of(home)
    made.name_domain("census", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **CAP)
    return made


def test_a_domain_of_the_filter_that_is_gone_is_refused_by_name(tmp_path: Path) -> None:
    """1.0.0 named it by an entry of its own kind."""
    ledger(tmp_path)

    def rename(lines: list[Said]) -> None:
        lines[0].kind = "gaussian"

    rewrite(tmp_path, rename)
    with pytest.raises(NotVerified, match=facts("entry 1", "'gaussian'", "this version", "go on with")):
        Ledger.of(tmp_path).domains()


@pytest.mark.parametrize("charged", [{"mu_squared": "1"}, {"rounds": [{"renyi": "1"}]}])
def test_a_charge_of_the_filter_that_is_gone_is_refused(tmp_path: Path, charged: dict[str, Any]) -> None:
    ledger(tmp_path).open_session(opening())

    def charge(lines: list[Said]) -> None:
        body = lines[-1].body
        (body if "rounds" in charged else body["reserved"]).update(charged)

    rewrite(tmp_path, charge)
    with pytest.raises(NotVerified, match="its body is not what this version writes"):
        Ledger.of(tmp_path).sessions("census")


def test_a_plan_that_names_it_is_told_what_to_do(tmp_path: Path) -> None:
    tables = tables_of_plan(tmp_path)
    tables["privacy"]["lifetime"]["filter"] = "gaussian"
    with pytest.raises(WrongInput, match=facts("privacy.lifetime.filter", "no longer a key")):
        parse_plan(tables)
