"""What MLflow holds of a session: the certificate's numbers, digests of files, and a model that loads elsewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from shutil import copy

import polars as pl
import pytest
from mlflow.tracking import MlflowClient
from mlflow.utils.validation import _validate_metric_name

from tests import world
from tests.support.processes import own_environment
from tests.support.published import SESSION, World, world_in
from tests.support.refusing import REFUSE
from tests.support.sentences import says
from tests.support.tracked import EVIDENCE, tracked

STABLE = world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20)
DOOR = datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=UTC)
SAID = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC).timestamp() * 1000
"""When MLflow is told that was: the first full second that is not before."""


@dataclass(frozen=True)
class Published:
    """A world whose session is in MLflow."""

    small: World
    where: world.Tracked
    recorded: world.Recorded
    certificate: world.Certificate
    client: MlflowClient


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Iterator[Published]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        home = tmp_path_factory.mktemp("home")
        copy(mlflow_database, home / "mlflow.db")
        small = world_in(home)
        labels = small.truth.copy()
        labels[::15] = -1
        where = tracked(small, STABLE, labels[:286], DOOR)
        recorded = world.Records.of(home).recorded(where.run_id)
        assert recorded is not None
        certificate = world.Certificate.model_validate_json(recorded.certificate)
        yield Published(small, where, recorded, certificate, MlflowClient(f"sqlite:///{home}/mlflow.db"))


@pytest.mark.parametrize(
    ("classes", "metrics"),
    [
        (("no", "yes"), ["recall.no", "recall.yes"]),
        (("<=50K", ">50K"), ["recall.__50K", "recall._50K"]),
        (("<5", ">5"), ["recall.0._5", "recall.1._5"]),
        (("Yes", "yes", "0.Yes"), ["recall.0.Yes", "recall.1.yes", "recall.2.0.Yes"]),
        (("../a\n", "ä b" * 200), ["recall..._a_", f"recall.{('ä b' * 200)[:200]}"]),
    ],
)
def test_a_class_s_metrics_bear_its_name(published: Published, classes: tuple[str, ...], metrics: list[str]) -> None:
    test = published.certificate.student.public_test
    assert isinstance(test, world.PublicTest)
    half = world.Estimate(value=0.5, low=0.25, high=0.75)
    named = [test.classes[0].model_copy(update={"name": name, "recall": half, "precision": None}) for name in classes]
    student = published.certificate.student.model_copy(
        update={"public_test": test.model_copy(update={"classes": tuple(named)})}
    )
    found = world.content_of(published.certificate.model_copy(update={"learned": student})).metrics
    assert [name for name in found if name.startswith("recall.")] == metrics
    assert [found[name] for name in found if name.startswith("recall_low.")] == [0.25] * len(metrics)
    for name in found:
        _validate_metric_name(name)  # type: ignore[no-untyped-call]  # MLflow takes it


def test_an_auditor_can_filter_by_the_guarantee(published: Published) -> None:
    everywhere = [
        experiment.experiment_id for experiment in published.client.search_experiments(filter_string="name = 'people'")
    ]
    wanted = "tags.domain = 'people' and tags.mechanism = 'stable' and tags.epsilon = '1.0' and tags.unit = 'one row'"
    assert [run.info.run_id for run in published.client.search_runs(everywhere, wanted)] == [published.where.run_id]
    assert not published.client.search_runs(everywhere, "tags.epsilon = '2.0'")


def test_the_charge_is_a_series_over_rows_and_batches_and_the_domains_over_sessions(published: Published) -> None:
    def points(name: str) -> list[tuple[int, float]]:
        return sorted((point.step, point.value) for point in client.get_metric_history(published.where.run_id, name))

    client = published.client
    by_row, by_batch = points("epsilon_charged"), points("epsilon_charged_by_batch")
    assert (by_row[0][0], by_row[-1][0]) == (1, 286)
    assert by_row[-1][1] == pytest.approx(1.0, rel=1e-4)
    assert all(before[1] <= after[1] for before, after in pairwise(by_row))
    assert [step for step, _ in by_batch] == [1, 2, 3]  # of 128, 128 and 30 rows
    assert by_batch[-1][1] == dict(by_row)[286]
    assert 0 < by_batch[0][1] < by_batch[1][1] < by_batch[2][1]
    assert points("domain_epsilon_by_session") == [(0, 0), (1, published.certificate.domain.spent.epsilon)]


def test_a_session_is_one_run_that_begins_at_the_door_with_its_tables_by_digest(published: Published) -> None:
    run = published.client.get_run(published.where.run_id)
    assert [each.info.run_id for each in published.client.search_runs([run.info.experiment_id])] == [run.info.run_id]
    assert (run.info.status, run.info.start_time) == ("FINISHED", SAID)
    assert run.inputs is not None
    assert run.outputs is not None
    assert len(run.outputs.model_outputs) == 1
    names = set()
    for item in run.inputs.dataset_inputs:
        said = {tag.key: tag.value for tag in item.tags}
        names.add((item.dataset.name, said["mlflow.data.context"]))
        assert (len(said["sha256"]), item.dataset.digest) == (64, said["sha256"][:36])
    tables = ("public rows", "training"), ("released labels", "training"), ("public test rows", "evaluation")
    assert names == {*tables}


def test_the_experiment_tells_what_the_domain_may_spend_and_links_to_its_runs(published: Published) -> None:
    experiment = published.client.get_experiment_by_name("people")
    assert experiment is not None
    note = experiment.tags["mlflow.note.content"]
    assert says(note, "of 4", "δ = 2.1e-05 of 4e-05")
    assert f"#/experiments/{experiment.experiment_id}/runs?workflowType=machine_learning" in note
    ledger = world.Ledger.of(published.small.home)
    domain = ledger.domain("people")
    assert domain is not None
    share = domain.filter.share(ledger.total("people"))
    assert 0 < published.recorded.metrics["lifetime_used"] == pytest.approx(share)


EACH = """
for program in sys.argv[1:]:
    try:
        exec(program, {})
    except Exception as refused:
        print(refused)
    print(";")
"""
"""Runs programs one after another, and says what stopped one."""
MODULE = """import concord_student, mlflow.pyfunc
print(concord_student.__file__, len(mlflow.pyfunc.load_model("models:/people-student@champion").input_example))"""


@pytest.mark.slow
def test_the_programs_of_the_model_s_page_run_as_they_stand_where_there_is_no_concord(
    published: Published, tmp_path: Path
) -> None:
    """A polars frame is given as the page says, since MLflow would refuse it."""
    page, home = published.client.get_registered_model("people-student").description, published.small.home
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    refused = programs[0].replace("import pandas", "import polars as pandas")
    programs.append(refused.replace("predict(rows)", "predict(rows.to_pandas())"))
    rows = published.small.rows.head(5)
    rows.write_parquet(tmp_path / "rows.parquet")
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", REFUSE.replace('"polars", ', "") + EACH, *programs, refused, MODULE],
        env={**own_environment(), "PYTHONPATH": "", "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split(";")
    student = world.load(published.small.released.read(published.certificate.student.file), "sklearn")
    classes, odds = student.predict(rows), student.predict_proba(rows)
    assert [text.strip() for text in printed[:3]] == [str(classes), str(odds), str(classes)]
    assert "Expected input to be DataFrame" in printed[3]
    module, examples = printed[4].split()
    assert (module.startswith(str(home / "mlartifacts")), examples) == (True, "5")


def test_moments_are_full_seconds_not_before_the_door_and_not_a_second_ahead(published: Published) -> None:
    """Before, they were the next full hour, so that MLflow's pages said of a new run "created 0 seconds ago"."""
    runs = published.client.search_runs(
        [experiment.experiment_id for experiment in published.client.search_experiments()]
    )
    points = [
        point.timestamp
        for run in runs
        for name in run.data.metrics
        for point in published.client.get_metric_history(run.info.run_id, name)
    ]
    moments = [*points, *(run.info.start_time for run in runs), *(run.info.end_time for run in runs)]
    assert {moment % 1000 for moment in moments} == {0}
    assert min(moments) >= DOOR.timestamp() * 1000
    assert max(moments) < datetime.now(UTC).timestamp() * 1000 + 1000


def test_the_files_are_the_released_ones_and_their_digests_one_tag(published: Published) -> None:
    """So that the description can be seen."""
    figures = ("spend.svg", "labels.svg", "what_if.svg", "budget.svg")
    documents = ("certificate.json", "certificate.schema.json", "report.html")
    assert set(published.recorded.files) == {*documents, *figures, *EVIDENCE}
    for name, digest in published.recorded.files.items():
        assert digest == world.sha256((published.small.released.root / SESSION / name).read_bytes())
    assert world.logged_digests(published.recorded.tags) == published.recorded.files
    shown = {name for name in published.recorded.tags if not name.startswith("mlflow.")}
    assert shown == {*world.tags(published.certificate), world.DIGESTS}
    assert world.logged_digests({world.DIGESTS: "no json"}) == world.logged_digests({world.DIGESTS: "[1]"}) == {}


def test_the_champion_is_the_certified_student(published: Published) -> None:
    version = published.client.get_model_version_by_alias("people-student", "champion")
    assert published.where.model_uri == f"models:/people-student/{version.version}"
    assert version.run_id == published.where.run_id
    assert version.tags["epsilon"] == "1.0"
    assert "ε = 1, δ = 1e-05" in str(version.description)
    assert f"concord verify {SESSION}" in str(version.description)
    assert published.recorded.model_files[world.MODEL_FILE] == published.certificate.student.file.digest


def test_a_student_is_found_by_its_alias(published: Published) -> None:
    home = published.small.home
    records = world.Records.of(home)
    assert records.session_of("models:/people-student@champion") == SESSION
    assert records.session_of(published.where.model_uri) == SESSION
    for wrong in ("models:/people-student@other", "models:/people-student", "models:/", "models:/no one/1"):
        with pytest.raises(world.WrongInput, match="must name a registered model of ours"):
            records.session_of(wrong)


def test_nothing_of_this_machine_or_the_vault_is_told(published: Published) -> None:
    recorded = published.recorded
    text = " ".join([*recorded.tags.values(), *recorded.params.values(), *recorded.model_tags.values()])
    assert str(published.small.home) not in text
    assert "hmac of" not in text
    assert "mlflow.user" not in recorded.tags
    assert "mlflow.source.name" not in recorded.tags


def test_types_that_vary_from_file_to_file_are_left_open(tmp_path: Path) -> None:
    columns = {
        "whole": pl.Series([1, 2, None]),
        "real": [0.5, None, 2.0],
        "word": ["a", "b", None],
        "flag": [True, False, None],
        "day": pl.Series(["2020-01-01", None, "2021-01-01"]).str.to_date(),
        "image": pl.Series([[1, 2], None, [3, 4]], dtype=pl.Array(pl.UInt8, 2)),
        "void": pl.Series([None, None, None], dtype=pl.Null),
    }
    pl.DataFrame(columns).write_parquet(tmp_path / "p.parquet")
    pl.DataFrame(columns).drop("image", "void").write_csv(tmp_path / "p.csv")
    kinds = ("any", "double", "string", "boolean", "datetime", "any", "any")
    found = world.column_types(str(tmp_path / "p.parquet"), encoding_of(tmp_path / "p.parquet"))
    assert found == dict(zip(columns, kinds, strict=True))
    text = world.column_types(str(tmp_path / "p.csv"), encoding_of(tmp_path / "p.csv"))
    assert text == {"whole": "any", "real": "any", "word": "string", "flag": "any", "day": "any"}


def encoding_of(public: Path) -> world.Encoding:
    plan = {
        "data": {"private": "none", "public": str(public), "label": "y", "classes": ["a", "b"]},
        "privacy": {"domain": "d", "epsilon": 1, "delta": 1e-5, "lifetime": {"epsilon": 1, "delta": 1e-5}},
        "teachers": {"count": 2},
        "labeling": {"cutoff": 1},
    }
    return world.learn_encoding(world.parse_plan(plan))


def test_a_store_that_fails_is_the_environments_fault_and_leaves_a_failed_run(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MlflowClient, "log_artifact", full)
    before = world.Records.of(published.small.home).runs(SESSION)
    with pytest.raises(world.EnvironmentFailed, match="No space left"):
        tracked(world_in(published.small.home), STABLE, None, DOOR + timedelta(hours=1))
    assert world.Records.of(published.small.home).runs(SESSION) == before
    everywhere = [experiment.experiment_id for experiment in published.client.search_experiments()]
    assert len(published.client.search_runs(everywhere, "attributes.status = 'FAILED'")) == 1
