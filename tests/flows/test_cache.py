"""A stage's key is made of all its arguments: nothing that its result depends on can be left out of it."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from tests import world
from tests.support.people import changed, tables_of_plan, write_tables

ROOMS = (world.flows_private_stages, world.flows_public_stages)
STAGES = {name: item for room in ROOMS for name, item in vars(room).items() if isinstance(item, world.Described)}
ONE, OTHER = world.Ref(path="a/b", digest="00"), world.Ref(path="a/b", digest="01")


def encoding(word: str) -> world.Encoding:
    columns = (world.OneHot(name="size", vocabulary=(word,), missing=False),)
    return world.Encoding(columns=columns, label="outcome", classes=("no", "yes"), unit=None)


def files(digest: str, path: str = "table.csv") -> world.RowTable:
    return world.RowTable(path, (), "data.private", digests=(digest,))


def codes(cut: float) -> world.Codes:
    return world.Codes(
        fields=(world.NumberField(kind="numeric", name="a", start=0, cuts=(cut,)),), coarse=(0,), fine=(0,)
    )


def relabelling(share: float) -> world.Relabelling:
    return world.Relabelling(hypotheses="stumps", features=("a",), grid="", share=share, epsilon=1.0, delta=1e-6)


BATCH = world.PublicBatch(ref=ONE, first=0, rows=1)
ROWS = world.PublicRows(encoding=encoding("s"), batches=())
INPUT = world.PrivateInput(files("00"), encoding("s"), ())
STUDENT = world.StudentFile(ONE, "sklearn.svm.LinearSVC", None)
VALUES: dict[Any, tuple[Any, Any]] = {
    world.RowTable: (files("00"), files("01")),
    world.RowTable | None: (None, files("00")),
    world.Encoding: (encoding("s"), encoding("m")),
    world.Ref: (ONE, OTHER),
    world.PublicBatch: (BATCH, world.PublicBatch(ref=ONE, first=1, rows=1)),
    world.HypothesisClass: (world.Stumps((0,)), world.Stumps((1,))),
    world.Relabelling: (relabelling(0.1), relabelling(0.2)),
    world.Cost | None: (None, world.Cost.gaussian(1.0)),
    world.Codes: (codes(0.5), codes(0.25)),
    world.Codes | None: (None, codes(0.5)),
    world.CodeSizes: ({"coarse": 2}, {"coarse": 4}),
    world.PrivateInput: (INPUT, replace(INPUT, erased=("00",))),
    world.StudentFile: (STUDENT, replace(STUDENT, ref=OTHER)),
    world.PublicRows: (ROWS, world.PublicRows(encoding=encoding("s"), batches=(BATCH,))),
    Mapping[str, Any]: ({"question": 1}, {"question": 2}),
    Mapping[str, str]: ({"session": "d-1"}, {"session": "d-2"}),
    Sequence[int]: ((0, 5), (5, 10)),
    world.Certificate: (world.Certificate.model_construct(teachers=1), world.Certificate.model_construct(teachers=2)),
    Sequence[world.Ref]: ((ONE,), (ONE, OTHER)),
    Sequence[world.PublicBatch]: ((), (BATCH,)),
    float | None: (None, 0.0),
    float: (0.0, 1.0),
    int: (1, 2),
    str: ("a", "b"),
}
"""Two values of each type that a stage takes."""


@pytest.fixture
def plan(tmp_path: Path) -> world.Plan:
    return changed(tables_of_plan(write_tables(tmp_path / "data")))


def key(stage: world.Described, home: Path, **arguments: Any) -> str:
    """The key of a stage's result on those arguments."""
    return str(stage.call(home, stage.arguments(**arguments))["place"].key)


@pytest.mark.parametrize("name", STAGES)
def test_changing_any_argument_changes_the_key(name: str, plan: world.Plan, tmp_path: Path) -> None:
    stage, other = STAGES[name], {"labeling__batch": 7, "privacy__domain": "others"}
    other |= {"student__params": {"C": 2.0}, "student__estimator": "sklearn.svm.LinearSVC"}
    values = VALUES | {world.Plan: (plan, changed(plan, **other, teachers__params={"C": 2.0}))}
    kinds = {name: item.annotation for name, item in stage.signature.parameters.items() if name != "place"}
    arguments = {name: values[kind][0] for name, kind in kinds.items()}
    keys = [key(stage, tmp_path, **arguments | {name: values[kind][1]}) for name, kind in kinds.items()]
    first, second = (world.key_of(tmp_path, name, version, {}) for version in "12")
    assert name in first != second
    assert len({key(stage, tmp_path, **arguments), *keys}) == 1 + len(kinds)


@pytest.mark.parametrize(
    ("whole", "others"),
    [
        (INPUT, {"table": files("01"), "encoding": encoding("m"), "erased": ("00",)}),
        (STUDENT, {"ref": OTHER, "estimator": "b", "codes": world.Codes(fields=(), coarse=(), fine=())}),
    ],
)
def test_changing_any_field_of_an_argument_changes_the_key(whole: Any, others: dict[str, Any]) -> None:
    assert {*others} == {field.name for field in fields(whole)}
    found = [whole, *(replace(whole, **{name: value}) for name, value in others.items())]
    assert len({json.dumps(world.digested(each)) for each in found}) == 1 + len(others)


def test_a_result_of_another_type_or_of_one_that_moved_has_another_key(tmp_path: Path) -> None:
    """A cached record names its type by its module: of a moved one, a run that was paid got plain JSON."""

    def keyed(returned: type) -> str:
        def work(place: world.PublicPlace) -> Any: ...

        work.__annotations__["return"] = returned
        return key(world.stage("code")(work), tmp_path)

    here, there = (type("Rows", (), {"__module__": module}) for module in ("concord.tasks.units", "concord.tasks.asks"))
    assert keyed(here) == keyed(here) != keyed(there)


def test_a_value_that_no_key_can_digest_is_refused() -> None:
    for odd in (Path("a"), b"a", {1: 2}, {"a"}, object()):
        with pytest.raises(TypeError, match="its key can digest"):
            world.digested(odd)


def test_a_table_is_known_by_digests_alone_so_one_without_them_is_refused(plan: world.Plan, tmp_path: Path) -> None:
    table = world.open_public(plan.path("public"))
    with pytest.raises(TypeError, match=r"data\.public must be digested"):
        world.digested(table)
    vault, (file,) = world.Vault(tmp_path / "vault"), table.files
    assert world.digested(table.digested(vault.digest_file)) == [vault.digest_file(file.path)]


def test_two_values_never_look_alike() -> None:
    """Of two classes with equal fields, or of −0.0 and 0.0."""

    class Columns(world.Stumps):
        """Another class with the same fields."""

    odd = [0.0, -0.0, 0, "0", None, [], {}, ["0"], world.Stumps((0,)), Columns((0,)), True]
    assert len({json.dumps(world.digested(value)) for value in odd}) == len(odd)


def test_a_field_that_is_not_in_the_view_cannot_be_read(plan: world.Plan) -> None:
    """It would be left out of the key: a default must not stand in for it either."""
    view = world.only(plan, *world.UNITS, "teachers.count")
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
    view = world.flows_private_stages.teach.arguments(block=ONE, plan=plan, encoding=encoding("s"))["plan"]
    assert view.teachers.estimator == plan.teachers.estimator
    for part, field in ((view.teachers, "count"), (view, "student"), (view, "data")):
        with pytest.raises(AttributeError):
            getattr(part, field)


def test_what_moved_keeps_its_key(plan: world.Plan, tmp_path: Path) -> None:
    """Files, a block within the vault, and a home."""
    assert world.digested(files("00", "here.csv")) == world.digested(files("00", "there.csv"))
    blocks = [ONE, world.Ref(path="elsewhere/a/b", digest=ONE.digest), OTHER]
    teach = world.flows_private_stages.teach
    keys = [key(teach, tmp_path, block=block, plan=plan, encoding=encoding("s")) for block in blocks]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 2

    def split_key(home: Path, path: str) -> str:
        return key(world.flows_private_stages.split, home, plan=plan, private=replace(INPUT, table=files("00", path)))

    before = split_key(tmp_path / "home", plan.path("private"))
    (tmp_path / "home").rename(tmp_path / "moved")
    assert split_key(tmp_path / "moved", "/elsewhere.csv") == before


SEARCHED, RAN = list[str](), list[Any]()


class Cuts(list[float]):
    """Cuts of codes that tell of Prefect's search for futures in them."""

    def __iter__(self) -> Iterator[float]:
        if sys._getframe(1).f_code.co_name == "visit_collection":
            SEARCHED.append("searched")
        return super().__iter__()


@world.stage("code")
def once(place: world.PublicPlace, cuts: Cuts) -> list[float]:
    """A stage of one task."""
    RAN.append((type(cuts), place.key))
    return cuts[:1]


@world.mapped("tally")
def each(place: world.PrivatePlace, part: int, cuts: Cuts) -> list[float]:
    """A stage of a task for each part."""
    RAN.append((type(cuts), place.key))
    return cuts[part:]


@task(name="gather", persist_result=False, cache_policy=NO_CACHE)
def part_of_stage(call: Cuts) -> float:
    """A task that is part of a stage."""
    RAN.append((type(call), ""))
    return call[0]


def in_turn(run: Any, cuts: Cuts) -> list[Any]:
    with each.in_turn(run, [0, 1], 1, cuts) as result:
        return [result(0), result(1)]


WAYS: dict[str, Callable[[Any, Cuts], Any]] = {
    "a stage of one task": once,
    "a mapped stage": lambda run, cuts: each(run, [0, 1], cuts),
    "a stage in turn": in_turn,
    "a part of a stage": lambda _, cuts: world.on_workers(part_of_stage, [{"call": cuts}] * 2),
}


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("way", WAYS)
def test_no_argument_is_searched_and_each_is_in_the_key(way: str, home: Path) -> None:
    """By Prefect's engine, which looked through arguments: longer than all else took in tables of many columns."""
    SEARCHED.clear()
    RAN.clear()

    @flow
    def learn(start_from: world.StageName | None, cut: float) -> list[Any]:
        with world.at_work(home, None):
            return [WAYS[way](SimpleNamespace(stages=world.Stages(home, start_from)), Cuts([cut, 1.5]))]

    found = [learn(None, 0.5), learn(None, 0.5), learn("code", 0.5), learn(None, 0.25)]
    assert found[0] == found[1] == found[2] != found[3]
    assert not SEARCHED
    assert {kind for kind, _ in RAN} == {Cuts}
    keys = [taken for _, taken in RAN if taken]
    match way:
        case "a part of a stage":
            assert len(RAN) == 8  # it is in no cache
        case "a stage of one task":
            assert keys == [key(once, home, cuts=[cut, 1.5]) for cut in (0.5, 0.5, 0.25)]
        case _:
            parts = ({"part": part, "cuts": [cut, 1.5]} for cut in (0.5, 0.5, 0.25) for part in (0, 1))
            assert sorted(keys) == sorted(key(each, home, **call) for call in parts)
