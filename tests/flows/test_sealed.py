"""Cached results are believed only as they were written: each way to edit one ends in its stage being run again."""

import base64
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect.serializers import JSONSerializer

from tests.support.people import changed
from tests.world import SEAL_BYTES, Certificate, NotVerified, Plan, SealedResults, Stores, read_checkpoint, start

pytestmark = pytest.mark.usefixtures("prefect_server")

Edit = Callable[[Path], None]
RAN = Path("code-ran")


class Canary:
    """Leaves a file where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return RAN.touch, ()


def results(home: Path, stage: str) -> list[Path]:
    return sorted((home / "results").glob(f"{stage}-*"))


def name_the_first_block(home: Path) -> None:
    """All blocks made to name the first: its teachers vote as often as there are blocks."""
    first, *others = results(home, "teach")
    for other in others:
        other.write_bytes(first.read_bytes())


def raise_the_accuracy(home: Path) -> None:
    (student,) = results(home, "study")
    edited, found = re.subn(rb"(\Waccuracy\D+)[\d.]+", rb"\g<1>0.999", student.read_bytes(), count=1)
    assert found == 1
    student.write_bytes(edited)


def have_code_run(home: Path) -> None:
    """The serializer switched to pickle, in each form that a file can have."""
    content = base64.encodebytes(pickle.dumps(Canary())).decode()
    record = {"metadata": {"serializer": {"type": "pickle"}}, "result": content}
    for stage, sealed in {"encode": b"", "teach": bytes(SEAL_BYTES), "study": None}.items():
        for file in results(home, stage):
            before = file.read_bytes()[:SEAL_BYTES] if sealed is None else sealed
            file.write_bytes(before + json.dumps(record).encode())


def take_the_seals_off(home: Path) -> None:
    """A file without one."""
    for file in results(home, "poll"):
        file.write_bytes(file.read_bytes()[SEAL_BYTES:])


EDITS: tuple[tuple[Edit, set[str], str], ...] = (
    (name_the_first_block, {"teach"}, "   teach 1 cached result is not what was written: computed again"),
    (raise_the_accuracy, {"study"}, "   study 1 cached result is not what was written: computed again"),
    (have_code_run, {"encode", "teach", "study"}, "   teach 2 cached results are not what was written"),
    (take_the_seals_off, {"poll"}, "    poll 1 cached result is not what was written: computed again"),
)


@pytest.mark.slow
def test_an_edited_result_is_computed_again(
    session: str,
    plan: Plan,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    true = Certificate.model_validate_json((home / "released" / session / "certificate.json").read_bytes())
    assert true.student.accuracy is not None
    for edit, again, message in EDITS:
        edit(home)
        summary = start(plan, home)
        recipe = read_checkpoint(Stores.of(home), session)
        assert recipe is not None
        assert len({block.path for block in recipe.teachers}) == 2
        assert summary.student["accuracy"] == true.student.accuracy.value
        assert {stage.name for stage in summary.stages if not stage.cached} == again
        assert summary.spent_now == {"epsilon": 0.0, "delta": 0.0}
        assert not RAN.exists()
        assert message in capsys.readouterr().err
        assert {stage.name for stage in start(plan, home).stages if not stage.cached} == set()  # they are whole again
    name_the_first_block(home)  # and by workers, who seal what they write
    elsewhere = changed(plan, teachers__runner="dask")
    assert {stage.name for stage in start(elsewhere, home).stages if not stage.cached} == {"teach"}
    assert not any(SealedResults(home=home).is_foreign(file.name) for file in results(home, "teach"))


@pytest.fixture
def kept_here(tmp_path: Path) -> SealedResults:
    return SealedResults(home=tmp_path / "home")


def record_of(result: Any, **serializer: Any) -> bytes:
    """A record as Prefect writes it."""
    metadata = {"serializer": JSONSerializer().model_dump() | serializer}
    return json.dumps({"metadata": metadata, "result": json.dumps(result)}).encode()


def test_a_result_stands_for_its_own_key_in_its_own_vault_alone(kept_here: SealedResults, tmp_path: Path) -> None:
    for key, value in {"study-a": 0.9, "study-b": 0.5}.items():
        kept_here.write_path(key, content=record_of(value))
    assert kept_here.read_path("study-a") == record_of(0.9)
    folder = kept_here.home / "results"
    (folder / "study-b").write_bytes((folder / "study-a").read_bytes())
    with pytest.raises(NotVerified, match="study-b is not what was written"):
        kept_here.read_path("study-b")
    assert [kept_here.is_foreign(key) for key in ("study-a", "study-b", "study-c")] == [False, True, False]
    other = SealedResults(home=tmp_path / "other")
    other.write_path("study-a", content=record_of(0.9))
    (folder / "study-a").write_bytes((other.home / "results/study-a").read_bytes())
    assert kept_here.is_foreign("study-a")


def test_a_flip_of_any_byte_of_a_result_is_found(kept_here: SealedResults) -> None:
    kept_here.write_path("teach-a", content=record_of({"path": "teachers/a", "digest": "00"}))
    file = kept_here.home / "results" / "teach-a"
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert kept_here.is_foreign("teach-a")
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert kept_here.is_foreign("teach-a")


def test_nothing_but_plain_json_is_sealed_in_its_folder_alone(kept_here: SealedResults) -> None:
    for named in ({"type": "pickle"}, {"type": "compressed/json"}, {"object_decoder": "os.system"}):
        with pytest.raises(TypeError, match="must be serialized as JSON"):
            kept_here.write_path("study-a", content=record_of(1.0, **named))
    for key in ("../ledger.db", "/etc/passwd", "..", "a/b", ""):
        with pytest.raises(NotVerified, match="must be named by a cache key"):
            kept_here.write_path(key, content=record_of(1.0))
    assert not (kept_here.home / "results").exists()
    (kept_here.home / "results/teach-a").mkdir(parents=True)
    assert kept_here.is_foreign("teach-a")  # which cannot be read
