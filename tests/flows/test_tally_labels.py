"""Tallies where labels alone are secret: one round over features that are known, and what is promised of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import certificate_of
from tests.support.people import changed
from tests.support.secret_labels import tables
from tests.world import LABELS_ALONE, Ledger, Stores, erased, start, verify


def tallied(folder: Path) -> dict[str, Any]:
    given = tables(folder, public_share=0.2)
    given["labeling"] = {"mechanism": "tallies", "rows": 300, "batch": 512}
    return {name: section for name, section in given.items() if name not in ("teachers", "student")}


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["person", None])
def test_a_run_asks_once_and_promises_labels_alone(tmp_path: Path, home: Path, unit: str | None) -> None:
    plan = changed(tallied(tmp_path / "data"), data__unit=unit, privacy__epsilon=1.0)
    summary = start(plan, home)
    assert summary.asked == summary.answered == 1
    assert summary.student["accuracy"] > 0.85
    certificate = certificate_of(summary)
    owner = "all rows with one person" if unit else "one row"
    assert certificate.guarantee.unit == f"the labels of {owner}"
    assert certificate.guarantee.neighbours == "change the labels of one unit"
    assert certificate.guarantee.replace_one is None
    assert certificate.caveats[0] == LABELS_ALONE
    settings = certificate.mechanism.settings
    assert (settings["secret"], settings["many"], len(settings["rounds"])) == ("labels", unit is not None, 1)
    assert [check for check in verify(home) if not check.ok] == []
    asked = json.loads((home / "released" / certificate.leading.files[0].path).read_bytes())
    assert asked["decoded"]["units"] == int(asked["decoded"]["units"])
    charged = Ledger.of(home).total("people")
    assert start(plan, home).spent_now["epsilon"] == 0
    assert Ledger.of(home).total("people") == charged


@pytest.mark.slow
def test_its_student_is_tried_out_on_labels_that_no_sum_holds(tmp_path: Path, home: Path) -> None:
    plan = changed(tallied(tmp_path / "data"), test__share=0.2)
    summary = start(plan, home)
    assert summary.test is not None
    assert summary.test["clean"]
    assert 0.7 < summary.test["accuracy"]["value"] <= 1
    assert [check for check in verify(home) if not check.ok] == []
    sample = Stores.of(home).vault.keep("coded/people/of-other-rows/sample.npy", lambda: b"of features of its units")
    erased(home, "people", "p1-17")
    assert not (home / "vault" / sample.path).exists()
