"""What is done with a session of a sketch besides learning: each operation, on as few runs as show it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from mlflow import MlflowClient

import concord as package
from tests import world
from tests.support.workers import FIELDS, plan_of, workers

pytestmark = pytest.mark.slow

PLAN = """
[data]
private = "private.parquet"
test = "test.parquet"
schema = "schema.json"
label = "class"
classes = ["low", "high"]
unit = "person"
groups = ["sex"]
[privacy]
domain = "workers"
epsilon = 1.0
delta = 1e-5
lifetime = { epsilon = 4.0, delta = 4e-5 }
[labeling]
mechanism = "tallies"
rows = 2000
[test]
share = 0.3
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan of workers with two rows each, of whom some are set aside."""
    plan_of(tmp_path)
    rows = workers(4_000, 1)
    rows.with_columns(person=pl.Series([f"p{at // 2}" for at in range(rows.height)])).write_parquet(
        tmp_path / "private.parquet"
    )
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def all_is_well(home: Path) -> bool:
    folders = [file.parent for file in (home / "released").glob("*/certificate.json")]
    checks = [*world.verify(home), *(check for folder in folders for check in world.verify_published(folder))]
    assert [check for check in checks if not check.ok] == []
    return True


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_units_of_many_rows_are_learned_tested_and_erased(
    plan: Path,
    home: Path,
    tmp_path: Path,
    concord: Callable[..., tuple[int, str, str]],
) -> None:
    status, printed, _ = concord("run", str(plan), "--json")
    found = json.loads(printed)
    session, folder = found["session"], home / "released" / found["session"]
    certificate = world.Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    assert (status, certificate.mechanism.name, certificate.guarantee.unit) == (0, "sketch", "all rows with one person")
    assert certificate.mechanism.settings["many"]
    tested = certificate.tested
    assert isinstance(tested, world.TestRecord)
    assert tested.accuracy.value == pytest.approx(found["student"]["public_test"]["accuracy"], abs=0.2)
    assert all_is_well(home)

    said_to_be_synthetic(session, home, tmp_path, concord)

    charged, published = world.Ledger.of(home).total("workers"), files_in(home / "released")
    assert any((home / "vault" / "sums").rglob("*.npy"))
    status, printed, _ = concord("erase", "--domain", "workers", "--unit", "p7", "--json")
    assert (status, json.loads(printed)["left_out"]) == (0, True)
    assert not any(file.is_file() for file in (home / "vault" / "sums").rglob("*"))
    assert world.Ledger.of(home).total("workers") == charged
    assert published.items() <= files_in(home / "released").items()
    assert all_is_well(home)
    status, _, error = concord("run", str(plan))
    assert (status, "--new-session" in error) == (3, True)


def said_to_be_synthetic(session: str, home: Path, folder: Path, concord: Callable[..., tuple[int, str, str]]) -> None:
    """Wherever synthetic rows show, it is said that they are, and that they are nobody's."""
    assert concord("export", session, "--to", str(folder / "export"))[0] == 0
    released = home / "released" / session
    report = " ".join((released / "report.html").read_text().replace("&#39;", "'").split())
    assert world.NOBODYS in report.split("be extracted from the model")[1].split("</div>")[0]
    assert "The declared schema" in report.split("What is not protected?")[1].split("</div>")[0]
    assert world.NOBODYS in (folder / "export" / "MODEL_CARD.md").read_text()
    assert "learned from public rows" not in report
    assert "chosen public rows" not in report
    for file in (released / "synthetic.parquet", folder / "export" / "synthetic.parquet"):
        assert pl.read_parquet_metadata(file)["what"] == world.SYNTHETIC
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    (model,) = client.search_model_versions("")
    assert "synthetic rows, which belong to nobody" in str(model.description)
    runs = [run for each in client.search_experiments() for run in client.search_runs([each.experiment_id])]
    inputs = [item.dataset.name for run in runs if run.inputs for item in run.inputs.dataset_inputs]
    assert "synthetic rows" in inputs
    assert not {*inputs} - {"synthetic rows", "released labels", "public test rows"}


def test_a_fitted_student_of_synthetic_rows_is_tested(tmp_path: Path, home: Path) -> None:
    trees = {"estimator": "sklearn.ensemble.ExtraTreesRegressor", "params": {"n_estimators": 20}}
    aside = {"share": 0.3, "columns": ["wage", "age", "sex"]}
    plan = plan_of(tmp_path / "data", student=trees, test=aside)
    found = world.start(plan, home)
    certificate = world.Certificate.model_validate_json(Path(found.certificate).read_bytes())
    kinds = [session.mechanism["name"] for session in world.Ledger.of(home).sessions("workers")]
    assert kinds == ["sketch", "private_test"]
    assert isinstance(certificate.tested, world.TestRecord)
    assert certificate.tested.accuracy.low > 0.6
    assert all_is_well(home)
    with pytest.raises(world.WrongInput, match=r"its plan with another \[student\] is run again, which spends nothing"):
        world.study_again(found.session, home, world.StudentPlan(estimator="sklearn.linear_model.Ridge"))


def test_exported_rows_are_written_in_the_words_that_the_student_reads(
    tmp_path: Path, home: Path, concord: Callable[..., tuple[int, str, str]]
) -> None:
    """Truth values stood there as true and false, which are no words of ja and nein: each was a missing cell."""
    limits = {"minimum": "2000-01-01", "maximum": "2020-12-31"}
    fields = [
        *({**field, "missingValues": ["-9", "unbekannt"]} for field in FIELDS),
        {"name": "member", "type": "boolean", "trueValues": ["ja", "jawohl"], "falseValues": ["nein"]},
        {"name": "since", "type": "date", "format": "%d.%m.%Y", "constraints": limits},
    ]
    plan = plan_of(tmp_path, data={"schema": {"fields": fields}, "test": None})
    rows, source = workers(4_000, 1), np.random.default_rng(3)
    high = rows["class"].to_numpy() == "high"
    member = pl.Series(np.where(high ^ (source.random(4_000) < 0.1), "ja", "nein"))
    days = pl.date_range(pl.date(2000, 1, 1), pl.date(2010, 12, 31), eager=True).sample(
        4_000, with_replacement=True, seed=3
    )
    since = (days + pl.Series(high).cast(pl.Int64) * pl.duration(days=3_000)).dt.strftime("%d.%m.%Y")
    rows = rows.with_columns(
        member=member, since=since, sex=pl.when(pl.int_range(4_000) % 9 > 0).then("sex").otherwise(pl.lit("unbekannt"))
    )
    rows.write_parquet(tmp_path / "private.parquet")
    session = world.start(plan, home).session
    assert concord("export", session, "--to", str(tmp_path / "export"))[0] == 0
    written = pl.read_csv(tmp_path / "export" / "synthetic.csv", infer_schema=False)
    assert {*written["member"].drop_nulls()} <= {"ja", "jawohl", "nein"}
    assert written["since"].drop_nulls().str.contains(r"^\d\d\.\d\d\.\d{4}$").all()
    for name in ("synthetic.csv", "synthetic.parquet"):
        asked = ("predict", session, str(tmp_path / "export" / name), "--out", str(tmp_path / f"{name}.parquet"))
        assert concord(*asked)[0] == 0
    both = [pl.read_parquet(tmp_path / f"synthetic.{kind}.parquet") for kind in ("csv", "parquet")]
    assert both[0].equals(both[1])


def test_a_declared_word_is_a_category_though_it_often_marks_a_missing_cell(
    tmp_path: Path, home: Path, concord: Callable[..., tuple[int, str, str]]
) -> None:
    """In CSV, None was a missing cell whatever the dictionary declared, and a schema could not declare it."""
    fields = [*FIELDS[:2], {"name": "sex", "type": "string", "constraints": {"enum": ["None", "Male"]}}]
    files = {"private": "private.csv", "test": "test.csv", "schema": {"fields": fields}}
    plan = plan_of(tmp_path, data=files)
    for name, rows in (("private", workers(4_000, 1)), ("test", workers(1_000, 2))):
        named = rows.filter(pl.col("sex") != "other").with_columns(pl.col("sex").replace("Female", "None"))
        named.write_csv(tmp_path / f"{name}.csv")
        named.write_parquet(tmp_path / f"{name}.parquet")
    found = world.start(plan, home)
    assert found.student["public_test"]["accuracy"] > 0.75
    assert not [warning for warning in found.warnings if "'sex'" in warning]
    written = []
    for kind in ("csv", "parquet"):
        out = tmp_path / f"of {kind}.csv"
        assert concord("predict", found.session, str(tmp_path / f"test.{kind}"), "--out", str(out))[0] == 0
        written.append(out.read_bytes())
    assert written[0] == written[1]
    assert all_is_well(home)
    first = json.loads((home / "released" / found.session / "rounds" / "round-00000.json").read_text())
    assert first["sums"][first["question"]["spans"][-1][0]] / first["question"]["steps"] > 1_000  # as many are None


def test_a_frame_and_a_schema_are_all_that_python_needs(home: Path) -> None:
    known: dict[str, Any] = {"rows": 4_000, "schema": {"fields": FIELDS}, "home": home}
    frame, test = workers(4_000, 1), workers(1_000, 2)
    rows = frame.drop("class")
    done = package.run(frame, label="class", domain="workers", classes=["low", "high"], **known)
    assert done.certificate.mechanism.name == "sketch"
    model = package.ConcordClassifier(domain="others", classes=["low", "high"], **known).fit(rows, frame["class"])
    assert np.mean(model.predict(test.drop("class")) == test["class"].to_numpy()) > 0.7
    years = np.random.default_rng(3).normal(frame["age"] / 2, 2)
    numbers = package.ConcordRegressor(domain="years", bounds=(0, 50), **known).fit(rows, years)
    assert np.corrcoef(numbers.predict(test.drop("class")), test["age"])[0, 1] > 0.9
