"""A number as label, end to end: what is published, predicted, verified and replayed, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests import world
from tests.support.console import concord
from tests.support.edited import rewritten
from tests.support.homes import certificate_of
from tests.support.sentences import says

RIDGE = {"estimator": "sklearn.linear_model.Ridge"}
ASIDE = {"share": 0.3, "columns": ["size", "shade"]}
"""A private test of rows that are named by their cells."""


def bills(rows: int, seed: int) -> pl.DataFrame:
    """A cost that follows from a number and a word, and is seldom far beyond what is declared."""
    rng = np.random.default_rng(seed)
    size, shade = rng.normal(size=rows), rng.choice(["dark", "light"], size=rows)
    cost = 20 + 4 * size + 8 * (shade == "dark") + 2 * rng.normal(size=rows)
    cost[rng.random(rows) < 0.01] = 4_000.0
    return pl.DataFrame({"size": size.round(4), "shade": shade, "cost": cost})


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    bills(20_000, 1).write_parquet(tmp_path / "private.parquet")
    bills(300, 2).drop("cost").write_parquet(tmp_path / "public.parquet")
    bills(400, 3).filter(pl.col("cost") < 100).write_parquet(tmp_path / "test.parquet")
    named = {"private": "private.parquet", "public": "public.parquet", "test": "test.parquet"}
    privacy = {"domain": "bills", "epsilon": 2.0, "delta": 1e-7, "lifetime": {"epsilon": 9.0, "delta": 4e-7}}
    return {
        "folder": str(tmp_path),
        "data": {**named, "label": "cost", "bounds": [0, 50]},
        "privacy": privacy,
        "labeling": {"mechanism": "tallies", "rows": 20_000, "batch": 128},
    }


def test_a_run_publishes_a_student_that_gives_numbers(tables: dict[str, Any], home: Path, tmp_path: Path) -> None:
    tables["test"] = ASIDE
    plan = world.parse_plan(tables)
    summary = world.start(plan, home)
    test = summary.student["public_test"]
    assert test["rmse"] < 0.5 * test["mean_rmse"]
    assert test["r2"] > 0.75
    assert (summary.asked, summary.inferred, summary.warnings, summary.student["champion"]) == (2, 300, [], True)
    check_private_test(summary, plan, home)
    labels = world.Run(summary, home).labels
    said = world.load_student(summary.session, home=home).predict(pl.read_parquet(plan.path("public")))
    assert labels["label"].to_numpy() == pytest.approx(said)
    assert labels.columns == ["row", "label", "outcome", "session"]
    assert 0 < said.min() < said.max() < 50
    out = tmp_path / "predicted.parquet"
    assert concord("predict", summary.session, plan.path("test"), "--out", str(out), "--home", str(home))[0] == 0
    written, truth = pl.read_parquet(out), pl.read_parquet(plan.path("test"))["cost"].to_numpy()
    assert written.columns == ["number"]
    assert np.sqrt(np.mean((written["number"].to_numpy() - truth) ** 2)) == pytest.approx(test["rmse"])
    again = world.start(world.parse_plan(tables | {"student": RIDGE}), home)
    assert (again.session, again.spent_now["epsilon"]) == (summary.session, 0.0)
    assert again.student["public_test"]["r2"] > 0.75
    assert [check for check in world.verify(home) if not check.ok] == []
    assert again.test is None  # another student is not tested unasked
    assert len(world.Ledger.of(home).sessions("bills")) == 2
    check_measures(home, summary.session, plan.path("test"))


def check_private_test(summary: world.Summary, plan: world.Plan, home: Path) -> None:
    """Its interval holds the error on all private rows, and it is said everywhere."""
    private = pl.read_parquet(plan.path("private"))
    said = world.load_student(summary.session, home=home).predict(private.drop("cost"))
    true = np.sqrt(np.mean((said - private["cost"].clip(0, 50).to_numpy()) ** 2))
    found = summary.student["private_test"]
    assert found["rmse"]["low"] < true < found["rmse"]["high"]
    assert 5600 < found["rows"] < 6400
    truth = private["cost"].clip(0, 50).to_numpy()
    assert found["constant"] == pytest.approx(truth.mean(), abs=2)
    there = found["constant_rmse"]
    assert found["rmse"]["high"] < there["low"] < np.sqrt(np.mean((found["constant"] - truth) ** 2)) < there["high"]
    assert summary.test is not None
    assert summary.test["in_words"].startswith(f"RMSE {found['rmse']['value']:.4g} (")
    assert f"RMSE</span> <span>{found['rmse']['value']:.4g} (" in Path(summary.report).read_text()
    recorded = world.Records.of(home).recorded(summary.run_id)
    assert recorded is not None
    assert recorded.metrics["test_rmse_high"] == found["rmse"]["high"]
    certificate = certificate_of(summary)
    assert certificate.tested is not None
    assert f"RMSE {found['rmse']['value']:.4g}" in certificate.tested.in_words


def check_measures(home: Path, session: str, table: str) -> None:
    """The report says them, and a certificate with others is found out."""
    folder = home / "released" / session
    report = (folder / "report.html").read_text()
    certificate = world.Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    test = certificate.student.public_test
    assert isinstance(test, world.NumberTest)
    assert "Differentially private model of a number: " in report
    assert certificate.mechanism.settings["bounds"] == [0, 50]
    assert says(report, "bounds", "0.0 and 50.0")
    assert f"{test.rmse:.4g}" in report

    def found(**changed: object) -> str:
        student = certificate.student.model_copy(update={"public_test": test.model_copy(update=changed)})
        other = certificate.model_copy(update={"learned": student})
        return world.public_test(other, lambda ref: (home / "released" / ref.path).read_bytes(), table, home)

    assert "those from the student and the" in found()
    better = world.Estimate(**{end: getattr(test.rmse, end) * 0.99 for end in ("value", "low", "high")})
    with pytest.raises(world.NotVerified, match="R²"):
        found(rmse=better)
    with pytest.raises(world.NotVerified, match="the RMSE is"):
        found(rmse=better, r2=test.r2.model_copy(update={"value": 1 - (better.value / test.mean_rmse) ** 2}))
    of_half = test.r2.model_copy(update={"value": 1 - (test.rmse.value / test.mean_rmse / 2) ** 2})
    with pytest.raises(world.NotVerified, match="the RMSE of the mean"):
        found(mean_rmse=test.mean_rmse * 2, r2=of_half)
    check_bounds(certificate.mechanism.settings)
    check_within(folder)


def check_bounds(settings: dict[str, Any]) -> None:
    """A certificate without them, or with others than the numbers inferred within them, is found out."""
    claim = (settings["epsilon"], settings["delta"])
    assert "the settings prove" in world.proved(settings, claim)
    for odd in (None, [0], [0, "50"], [50, 0], [0, float("nan")], [-float("inf"), 50]):
        with pytest.raises(world.NotVerified, match=r"do not state what it lies between|by another path: bounds"):
            world.proved({**settings, "bounds": odd}, claim)


def check_within(folder: Path) -> None:
    """A number that was inferred beyond the bounds is found out, whoever signs it."""
    path = f"{folder.name}/labels.arrow"
    whole = (folder.parent / path).read_bytes()
    table = pa.ipc.open_file(whole).read_all()
    beyond = table.set_column(1, table.schema.field(1), pa.array([50.00001, *table["label"].to_pylist()[1:]]))
    rewritten(folder, path, world.table_bytes(beyond.columns, beyond.schema))
    assert any("are not between 0 and 50" in check.detail for check in world.verify_published(folder))
    rewritten(folder, path, whole)


def test_if_labels_alone_are_secret_one_round_asks_for_them(tables: dict[str, Any], home: Path) -> None:
    secret = {"privacy": tables["privacy"] | {"secret": "labels"}, "test": ASIDE}
    summary = world.start(world.parse_plan(tables | secret), home)
    assert summary.student["private_test"]["rmse"]["high"] < 25
    assert (summary.asked, summary.student["public_test"]["r2"] > 0.75) == (1, True)
    assert [check for check in world.verify(home) if not check.ok] == []
