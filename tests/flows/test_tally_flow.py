"""What is special to tallies: what is published, of pictures, pairs and all numbers together too, and where labels
alone are secret; their life: tests/promises/test_lifecycle.py."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from mlflow import MlflowClient

from tests import world
from tests.support import secret_labels
from tests.support.clusters import clustered, permuted, tables_of_clusters
from tests.support.edited import LAST_MODEL, MODEL, missed
from tests.support.homes import certificate_of
from tests.support.people import changed, tables_of_plan, write_tables
from tests.support.sentences import facts


def tallied(given: dict[str, Any]) -> dict[str, Any]:
    labeling = {"mechanism": "tallies", "rows": 300, "batch": 128}
    return {name: section for name, section in given.items() if name not in ("teachers", "student")} | {
        "labeling": labeling
    }


def tables(folder: Path) -> dict[str, Any]:
    return tallied(tables_of_plan(write_tables(folder)))


@pytest.mark.parametrize("opens_first", [True, False], ids=["the other opens first", "it opens first"])
def test_a_run_states_its_own_charge_whatever_others_spend_meanwhile(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, opens_first: bool
) -> None:
    """Before, it stated by how much the domain's charge had grown while it ran."""
    given = tables(tmp_path / "data")
    plan, other = world.parse_plan(given), world.parse_plan(given | {"data": given["data"] | {"version": "2"}})
    target, name = (world.flows_run.PrivateFiles, "of") if opens_first else (world.flows_learn, "fit")
    work, others = getattr(target, name), list[world.Summary]()

    def meanwhile(*values: Any) -> Any:
        monkeypatch.setattr(target, name, work)
        others.append(world.start(other, home, new_session=True))
        return work(*values)

    monkeypatch.setattr(target, name, meanwhile)
    own, (further,) = world.start(plan, home, new_session=True), others
    ledger = world.Ledger.of(home)
    rule, total = ledger.domains()[0].filter, ledger.total("people")
    assert own.session != further.session
    assert own.lifetime["now"] == further.lifetime["now"] == pytest.approx(rule.share(total) / 2)
    assert own.spent_now["epsilon"] + further.spent_now["epsilon"] == pytest.approx(rule.spent(total)[0])
    assert sorted([own.conversion, further.conversion]) == [0.0, rule.conversion]


def seen(folder: Path, learner: dict[str, Any]) -> world.Plan:
    """Tables of pictures: a bar that stands or lies, somewhere; and a private row whose picture is missing."""
    given = tables(folder)
    for name, seed, rows in (("private", 1, 4000), ("public", 2, 200), ("test", 3, 200)):
        draw = np.random.default_rng(seed)
        stands, at = draw.random(rows) < 0.5, draw.integers(2, 10, rows)
        pictures = np.zeros((rows, 14, 14), dtype=np.uint8)
        for picture, upright, first in zip(pictures, stands, at, strict=True):
            (picture if upright else picture.T)[2:12, first : first + 2] = draw.integers(100, 256)
        image = pl.Series("image", pictures.reshape(rows, -1), dtype=pl.Array(pl.UInt8, 196))
        table = pl.DataFrame({"image": image, "outcome": np.where(stands, "yes", "no")})
        if name == "private":
            table = pl.concat([table, pl.DataFrame({"image": [None], "outcome": ["yes"]}, schema=table.schema)])
        (table.drop("outcome") if name == "public" else table).write_parquet(folder / f"{name}.parquet")
    data = {name: value for name, value in given["data"].items() if name != "unit"} | {"private": "private.parquet"}
    privacy = given["privacy"] | {"epsilon": 1.0}
    labeling = {"mechanism": "tallies", "rows": 4000}
    return world.parse_plan(given | {"data": data, "privacy": privacy, "labeling": labeling, "student": learner})


def check_last_round(plan: world.Plan, home: Path, session: str) -> None:
    """It asked about a space that the one before it taught, and its sums are those of all private rows, and noise."""
    rounds = [json.loads(file.read_text()) for file in sorted((home / "released" / session).glob("rounds/*"))]
    learned = world.Codes.model_validate_json(json.dumps(rounds[1]["next"]["codes"]))
    field = learned.fields[0]
    assert isinstance(field, world.VectorField)
    assert field.layer is not None
    assert [each["question"]["what"] for each in rounds] == ["codes", "labels", "labels"]
    assert rounds[2]["question"]["spans"] == [[0, learned.size]]
    images = pl.read_parquet(plan.path("private"))["image"]
    labels = pl.read_parquet(plan.path("private"))["outcome"]
    cell = np.bincount(field.of(images), weights=np.where(labels == "yes", 0.5, -0.5), minlength=learned.size)
    noise = np.array(rounds[2]["sums"]) / rounds[2]["question"]["steps"] - cell
    assert np.abs(noise).max() < 7 * rounds[2]["scale"] / rounds[2]["question"]["steps"]


@pytest.mark.slow
def test_pictures_are_tallied_by_cells_of_public_ones(tmp_path: Path, home: Path) -> None:
    plan = seen(tmp_path / "data", {"estimator": "sklearn.linear_model.Ridge"})
    summary = world.start(plan, home)
    assert (summary.asked, summary.inferred) == (3, 200)
    labels = world.Run(summary, home).labels["label"]
    upright = pl.read_parquet(plan.path("public"))["image"].to_numpy().reshape(-1, 14, 14).max(axis=1).astype(bool)
    assert np.mean((labels == "yes").to_numpy() == (upright.sum(axis=1) == 2)) > 0.95
    assert [check for check in world.verify(home) if not check.ok] == []
    check_last_round(plan, home, summary.session)
    recoded = list((home / "vault" / "sums").rglob("block-*.arrow"))
    assert len(recoded) == 8
    world.forget(world.Stores.of(home), summary.session)
    assert not any(file.exists() for file in recoded)


def test_a_student_that_knows_cells_alone_is_refused_for_pictures_before_anything_is_read(
    tmp_path: Path, home: Path
) -> None:
    with pytest.raises(world.WrongInput, match=facts("student.estimator", "'image'", "lists")):
        world.start(seen(tmp_path / "data", {}), home)
    assert not (home / "vault" / "units").exists()


def test_a_run_publishes_labels_and_a_student_by_its_last_round(tmp_path: Path, home: Path) -> None:
    plan = changed(tables(tmp_path / "data"), labeling__rows=6000)
    summary = world.start(plan, home)
    assert summary.student["accuracy"] > 0.85
    assert summary.student["public_test"]["prior_odds"]["balanced_accuracy"] > 0.8
    logged = MlflowClient(f"sqlite:///{home}/mlflow.db").get_run(summary.run_id).data
    assert {name for name in logged.params if name.startswith("student.")} == set()  # it has no settings
    assert logged.metrics["prior_odds_accuracy"] == summary.student["public_test"]["prior_odds"]["accuracy"]
    assert (summary.teachers, summary.asked, summary.answered, summary.inferred) == (0, 4, 4, 300)
    certificate = certificate_of(summary)
    rounds = [f"round-{number:05d}.json" for number in range(4)]
    assert [file.path.rpartition("/")[2] for file in certificate.leading.files] == [*rounds, "labels.arrow"]
    last_drawn = (home / "vault" / "sessions" / summary.session / rounds[-1]).stat().st_mtime
    assert min((home / "released" / file.path).stat().st_mtime for file in certificate.leading.files) >= last_drawn
    assert "noisy sums were released" in Path(summary.report).read_text()
    labels = world.Run(summary, home).labels
    student = world.Run(summary, home).student
    public = pl.read_parquet(plan.path("public"))
    assert set(labels["outcome"]) == {"inferred"}
    with pytest.raises(world.WrongInput, match=facts(summary.session, "tallies", "concord predict")):
        world.study_again(summary.session, home)
    assert np.allclose(labels["scores"].to_numpy().sum(axis=1), 1)
    assert np.allclose(student.predict_proba(public), labels["scores"].to_numpy())
    assert student.predict(public).tolist() == labels["label"].to_list()
    at_odds = student.set_params(student__point="prior odds").predict(public)
    assert at_odds.tolist() == labels["balanced"].to_list()
    stray = home / "released" / summary.session / "rounds" / "round-00009.json"
    stray.write_text("{}")
    assert any(stray.name in check.detail for check in world.verify(home) if not check.ok)


def agreeing(rows: int, seed: int) -> pl.DataFrame:
    """Of the label, no single column says anything."""
    rng = np.random.default_rng(seed)
    size, shade = rng.normal(size=rows).round(4), rng.choice(["dark", "light"], rows)
    given = {"person": rng.integers(0, rows // 2, rows).astype(str), "size": size, "shade": shade}
    return pl.DataFrame(
        given | {"visits": rng.integers(0, 9, rows), "outcome": np.where((size > 0) == (shade == "dark"), "yes", "no")}
    )


@pytest.mark.slow
def test_a_pair_of_columns_is_asked_about_read_and_certified(tmp_path: Path, home: Path) -> None:
    given = tables(tmp_path / "data")
    agreeing(8_000, 1).write_csv(tmp_path / "data" / "private.csv")
    agreeing(1_000, 2).drop("outcome", "person").write_parquet(tmp_path / "data" / "public.parquet")
    agreeing(500, 3).drop("person").write_parquet(tmp_path / "data" / "test.parquet")
    plan = changed(given, labeling__rows=4_000, test__share=0.2)
    summary = world.start(plan, home)
    assert summary.student["public_test"]["accuracy"] > 0.95
    assert summary.test is not None
    assert summary.test["accuracy"]["value"] > 0.9
    assert any("the student uses size × shade" in warning for warning in summary.warnings)
    assert [check for check in world.verify(home) if not check.ok] == []


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "owner"), [("person", "all rows with one person"), (None, "one row")])
def test_one_round_is_asked_if_labels_alone_are_secret(
    tmp_path: Path, home: Path, unit: str | None, owner: str
) -> None:
    given = changed(tallied(secret_labels.tables(tmp_path / "data", public_share=0.2)), data__unit=unit)
    summary = world.start(changed(given, privacy__epsilon=1.0), home)
    assert summary.asked == summary.answered == 1
    assert summary.student["accuracy"] > 0.85
    certificate = certificate_of(summary)
    assert (certificate.guarantee.unit, certificate.guarantee.replace_one) == (f"the labels of {owner}", None)
    assert certificate.guarantee.neighbours == "change the labels of one unit"
    assert certificate.caveats[0] == world.LABELS_ALONE
    settings = certificate.mechanism.settings
    assert (settings["secret"], settings["many"], len(settings["rounds"])) == ("labels", unit is not None, 1)
    asked = json.loads((home / "released" / certificate.leading.files[0].path).read_bytes())
    assert asked["decoded"]["units"] == int(asked["decoded"]["units"])


@pytest.mark.slow
def test_a_student_of_secret_labels_is_tried_out_on_labels_that_no_sum_holds(tmp_path: Path, home: Path) -> None:
    plan = changed(tallied(secret_labels.tables(tmp_path / "data", public_share=0.2)), test__share=0.2)
    summary = world.start(plan, home)
    assert summary.test is not None
    assert summary.test["clean"]
    assert 0.7 < summary.test["accuracy"]["value"] <= 1
    assert [check for check in world.verify(home) if not check.ok] == []
    sample = world.Stores.of(home).vault.keep("coded/people/of-other-rows/sample.npy", b"of features of its units")
    world.erased(home, "people", "p1-17")
    assert not (home / "vault" / sample.path).exists()


def rounds_of(summary: world.Summary, home: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((home / "released" / summary.session).glob("rounds/*"))]


def test_clusters_of_public_rows_are_asked_about_verified_and_predicted(tmp_path: Path, home: Path) -> None:
    plan = world.parse_plan(tables_of_clusters(tmp_path / "data"))
    summary = world.start(plan, home)
    assert summary.student["public_test"]["accuracy"] > 0.95
    rounds = rounds_of(summary, home)
    assert [file["question"]["what"] for file in rounds[:4]] == ["codes", "codes", "labels", "labels"]
    asked = [file["question"]["fields"] for file in rounds[:4]]
    assert [len(fields) for fields in asked] == [5, 1, 1, 5]
    assert [file["decoded"] is not None for file in rounds[:4]] == [False, False, False, True]
    assert [check for check in world.verify(home) if not check.ok] == []
    report = Path(summary.report).read_text()
    assert "since public rows cluster, one for all its numbers together" in report
    assert report.count(">all numbers together</td>") == 2
    views = certificate_of(summary).student.views or ""
    assert views.startswith("columns, and by cells of all numbers together: public rows cluster (R = 0.")
    assert f"Records were counted by {views}." in report
    again = world.start(plan, home)
    assert (again.session, again.spent_now["epsilon"]) == (summary.session, 0.0)
    run, public = world.Run(summary, home), pl.read_parquet(plan.path("public"))
    assert run.student.predict(public).tolist() == run.labels["label"].to_list()
    assert np.array_equal(run.student.predict_proba(public[:1]), run.student.predict_proba(public)[:1])
    assert json.loads(world.scorecard_json(run.student))["numbers together"]["columns"] == clustered(1, 0).columns[:4]


@pytest.mark.slow
def test_columns_alone_are_asked_if_a_plan_says_so_or_public_rows_do_not_cluster(tmp_path: Path, home: Path) -> None:
    given = tables_of_clusters(tmp_path / "data")
    off = world.start(changed(given, labeling__joined=False), home)
    assert [len(file["question"]["fields"]) for file in rounds_of(off, home)[:2]] == [5, 5]
    assert "all its numbers together" not in Path(off.report).read_text()
    assert certificate_of(off).student.views == "columns alone: labeling.joined is false"
    permuted(clustered(800, 2), 4).drop("outcome").write_parquet(tmp_path / "data" / "public.parquet")
    no_clusters = world.start(changed(given, data__version="2"), home, new_session=True)
    views = certificate_of(no_clusters).student.views or ""
    assert views.startswith("columns alone: public rows do not cluster (R = ")
    assert [len(file["question"]["fields"]) for file in rounds_of(no_clusters, home)[:2]] == [5, 5]
    assert [check for check in world.verify(home) if not check.ok] == []


@pytest.mark.slow
def test_an_edit_of_any_field_of_its_rounds_is_found(tmp_path: Path, home: Path) -> None:
    """Of the first round with a model, too: before it, no question follows from sums."""
    folder = home / "released" / world.start(world.parse_plan(tables_of_clusters(tmp_path / "data")), home).session
    drawn = {"sums.*"} | MODEL | LAST_MODEL
    places = {place for number in range(4) for place in missed(folder, f"{folder.name}/rounds/round-{number:05d}.json")}
    assert places - drawn == set()
    assert [check for check in world.verify_published(folder) if not check.ok] == []
