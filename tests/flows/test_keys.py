"""A stage's key is made of all its arguments: nothing that its result depends on can be left out of it."""

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from prefect.tasks import Task

from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Encoding, OneHot, Ref
from concord.artifacts.sections import StudentPlan, TeachersPlan
from concord.flows import work
from concord.flows.keys import Files, digested, key_of, only
from concord.flows.pipeline import UNITS
from concord.flows.run import RunContext
from concord.flows.stage import Stages
from concord.tasks.data.encode import PublicBatch
from concord.tasks.mechanisms.hypotheses.boxes import Stumps, Thresholds
from concord.tasks.mechanisms.hypotheses.dichotomies import HypothesisClass
from concord.tasks.mechanisms.relabelled import Relabelling
from concord.tasks.student.study import Student
from tests.support.people import changed, tables_of_plan, write_tables

STAGES = {name: item for name, item in vars(work).items() if isinstance(item, Task) and item.cache_key_fn is not None}
ONE, OTHER = Ref(path="a/b", digest="00"), Ref(path="a/b", digest="01")


def encoding(word: str) -> Encoding:
    columns = (OneHot(name="size", vocabulary=(word,), missing=False),)
    return Encoding(columns=columns, label="outcome", classes=("no", "yes"), unit=None)


def files(digest: str) -> Files:
    return Files("table.csv", (digest,))


def relabelling(share: float) -> Relabelling:
    return Relabelling(hypotheses="stumps", features=("a",), grid="", share=share)


VALUES: dict[Any, tuple[Any, Any]] = {
    Files: (files("00"), files("01")),
    Files | None: (None, files("00")),
    Encoding: (encoding("s"), encoding("m")),
    Ref: (ONE, OTHER),
    TeachersPlan: (TeachersPlan(count=1), TeachersPlan(count=1, params={"C": 2.0})),
    StudentPlan: (StudentPlan(), StudentPlan(seed=1)),
    PublicBatch: (PublicBatch(ref=ONE, first=0, rows=1), PublicBatch(ref=ONE, first=1, rows=1)),
    HypothesisClass: (Stumps((0,)), Stumps((1,))),
    Relabelling: (relabelling(0.1), relabelling(0.2)),
    Cost | None: (None, Cost.gaussian(1.0)),
    Student: (Student(ref=ONE, accuracy=None), Student(ref=ONE, accuracy=0.5)),
    Sequence[str]: ((), ("00",)),
    Sequence[int]: ((0, 5), (5, 10)),
    Sequence[Any]: ((1, "open"), (2, "open")),
    Sequence[Ref]: ((ONE,), (ONE, OTHER)),
    Sequence[PublicBatch]: ((), (PublicBatch(ref=ONE, first=0, rows=1),)),
    Mapping[str, Sequence[Ref]]: ({"a": (ONE,)}, {"b": (ONE,)}),
    float | None: (None, 0.0),
    int: (1, 2),
    str: ("a", "b"),
}
"""Two values of each type that a stage takes."""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return changed(tables_of_plan(write_tables(tmp_path / "data")))


@pytest.mark.parametrize("stage", STAGES)
def test_changing_any_argument_changes_the_key(stage: str, plan: Plan, tmp_path: Path) -> None:
    task, stages = STAGES[stage], Stages(tmp_path / "home", None)
    values = VALUES | {Plan: (plan, changed(plan.model_dump(), labeling__batch=7))}
    kinds = {name: item.annotation for name, item in inspect.signature(task.fn).parameters.items() if name != "place"}
    arguments = {name: values[kind][0] for name, kind in kinds.items()}
    keys = [stages.call(task, arguments | {name: values[kind][1]})["place"].key for name, kind in kinds.items()]
    assert len({stages.call(task, arguments)["place"].key, *keys}) == 1 + len(kinds)


def test_a_version_and_a_stages_name_are_in_its_key(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    keys = {key_of(vault, name, version, {"a": 1}) for name in ("split", "teach") for version in ("1", "2")}
    assert len(keys) == 4


def test_a_value_that_no_key_can_digest_is_refused() -> None:
    for odd in (Path("a"), b"a", {1: 2}, {"a"}, object()):
        with pytest.raises(TypeError, match="its key can digest"):
            digested(odd)


def test_two_values_never_look_alike() -> None:
    """Of two classes with equal fields, or of −0.0 and 0.0."""
    odd = [0.0, -0.0, 0, "0", None, [], {}, ["0"], Stumps((0,)), Thresholds((0,)), True]
    assert len({json.dumps(digested(value)) for value in odd}) == len(odd)


def test_a_field_that_is_not_in_the_view_cannot_be_read(plan: Plan) -> None:
    """It would be left out of the key: a default must not stand in for it either."""
    view = only(plan, *UNITS, "teachers.count")
    assert (view.data.label, view.privacy.secret, view.teachers.count) == (plan.data.label, "rows", plan.teachers.count)
    for read in (
        lambda: view.student,
        lambda: view.data.private,
        lambda: view.data.classes,
        lambda: view.teachers.estimator,
        lambda: view.teachers.block,
        lambda: view.folder,
    ):
        with pytest.raises(AttributeError):
            read()


def test_files_that_moved_are_the_same_files() -> None:
    assert digested(Files("here.csv", ("00",))) == digested(Files("there.csv", ("00",)))
    assert digested(Files("here.csv", ("00",))) != digested(Files("here.csv", ("00", "01")))


def test_a_block_that_moved_within_the_vault_is_not_trained_again(tmp_path: Path) -> None:
    stages = Stages(tmp_path / "home", None)
    learner = {"shards": (0, 5), "plan": only(TeachersPlan(count=5), "estimator", "params"), "encoding": encoding("s")}
    keys = [
        stages.call(work.teach, {"block": block, **learner})["place"].key
        for block in (ONE, Ref(path="elsewhere/a/b", digest=ONE.digest), OTHER)
    ]
    assert keys[0] == keys[1] != keys[2]


def test_a_home_that_moved_has_the_same_keys(plan: Plan, tmp_path: Path) -> None:
    arguments = {"plan": only(plan, *UNITS), "table": Files(plan.path("private"), ("00",))}
    before = Stages(tmp_path / "home", None).call(work.split, arguments)["place"].key
    (tmp_path / "home").rename(tmp_path / "moved")
    moved = {**arguments, "table": Files("/elsewhere.csv", ("00",))}
    assert Stages(tmp_path / "moved", None).call(work.split, moved)["place"].key == before


def test_the_students_settings_are_in_no_key_of_the_teachers(plan: Plan, tmp_path: Path) -> None:
    other = changed(plan.model_dump(), student__refused="drop")
    views = [RunContext(item, tmp_path / "home").plan for item in (plan, other)]
    for names in ((*UNITS, "teachers.count", "teachers.block"), ("data.label", "data.features", "labeling.batch")):
        assert digested(only(views[0], *names)) == digested(only(views[1], *names))
    assert digested(only(views[0], "student")) != digested(only(views[1], "student"))
