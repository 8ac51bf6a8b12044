"""A published folder is verified by itself: no home, no ledger; what was changed in it is found and named."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.console import concord
from tests.support.published import SESSION, leading, rewrite
from tests.support.sentences import says
from tests.world import Check, limited, verify_published


def faults(folder: Path) -> list[str]:
    """What fails, whoever signed it: of signatures, see test_verify_signed.py."""
    failing = [check for check in verify_published(folder) if not check.ok]
    return [check.detail for check in failing if check.name != f"{SESSION}: signature"]


def test_an_honest_folder_holds_and_says_what_it_leaves(folder: Path) -> None:
    checks = verify_published(folder)
    assert all(check.ok for check in checks)
    assert [check.name for check in checks if check.warning] == [f"{SESSION}: signer", f"{SESSION}: not checked here"]
    assert verify_published(folder / "certificate.json") == checks


def test_one_changed_bit_of_a_file_it_names_is_found_and_the_file_named(folder: Path) -> None:
    rng = np.random.default_rng(3)
    for file in (folder / "student.skops", *sorted((folder / "labels").iterdir())):
        whole = file.read_bytes()
        for _ in range(12):
            changed, at = bytearray(whole), int(rng.integers(len(whole)))
            changed[at] ^= 1 << int(rng.integers(8))
            file.write_bytes(changed)
            assert any(str(file.relative_to(folder.parent)) in fault for fault in faults(folder))
        file.write_bytes(whole)
    assert faults(folder) == []


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "student.skops").unlink()
    (fault,) = {*faults(folder)}
    assert says(fault, f"{SESSION}/student.skops", "missing", "beside the certificate")


def smaller_epsilon(values: dict[str, Any]) -> None:
    values["guarantee"]["epsilon"] = leading(values)["guarantee"]["epsilon"] = 0.5


def smaller_delta(values: dict[str, Any]) -> None:
    values["guarantee"]["delta"] = leading(values)["guarantee"]["delta"] = 1e-6


def smaller_for_a_replaced_unit(values: dict[str, Any]) -> None:
    values["guarantee"]["replace_one"]["epsilon"] = 1.0


def other_mechanism(values: dict[str, Any]) -> None:
    leading(values)["mechanism"]["name"] = "noisy_votes"


def settings_of_none(values: dict[str, Any]) -> None:
    del leading(values)["mechanism"]["settings"]["cutoff"]


def more_answers(values: dict[str, Any]) -> None:
    leading(values)["counts"]["answered"] += 1
    leading(values)["counts"]["asked"] += 1


def spent_beyond_the_cap(values: dict[str, Any]) -> None:
    values["domain"]["spent"]["epsilon"] = values["domain"]["cap"]["epsilon"] + 1


def left_out_of_the_domain(values: dict[str, Any]) -> None:
    values["domain"]["charges"] = []
    values["domain"]["sessions"] = 0


def charged_more_than_the_cap(values: dict[str, Any]) -> None:
    values["domain"]["charges"][0]["share"] = 1.5


def outside_the_folder(values: dict[str, Any]) -> None:
    values["student"]["file"]["path"] = f"{SESSION}/../../secret"


def other_session(values: dict[str, Any]) -> None:
    leading(values)["session"] = "people-2"


def other_accuracy(values: dict[str, Any]) -> None:
    values["student"]["accuracy"] = {"value": 0.999, "low": 0.99, "high": 1.0}


def no_caveats(values: dict[str, Any]) -> None:
    values["caveats"] = []


def spent_nothing(values: dict[str, Any]) -> None:
    values["domain"]["remaining"] = values["domain"]["cap"]
    values["domain"]["spent"] = {"epsilon": 0.0, "delta": 0.0}


def other_neighbours(values: dict[str, Any]) -> None:
    values["guarantee"]["neighbours"] = "any two tables"


def asked_without_teachers(values: dict[str, Any]) -> None:
    leading(values)["teachers"] = 0


def a_dear_session_beside(values: dict[str, Any]) -> None:
    values["sessions"] += [{**leading(values), "session": "people-2", "guarantee": {"epsilon": 50.0, "delta": 0.5}}]


def less_than_its_sessions_together(values: dict[str, Any]) -> None:
    values["sessions"] += [{**leading(values), "session": "people-2"}]
    values["domain"]["charges"] += [{**values["domain"]["charges"][0], "session": "people-2"}]
    values["domain"]["sessions"] = 2


def answers_that_nobody_gave(values: dict[str, Any]) -> None:
    leading(values)["outcomes"] = [{"question": "who", "code": "", "outcome": "answered", "answer": "you"}]


def read_of_one_part_alone(values: dict[str, Any]) -> None:
    leading(values)["part"] = "test"


def of_a_stream(values: dict[str, Any]) -> None:
    leading(values)["stream"] = "weekly"


def of_a_stream_throughout(values: dict[str, Any]) -> None:
    of_a_stream(values)
    values["domain"]["charges"][0]["stream"] = "weekly"


def settings_of_another_kind(values: dict[str, Any]) -> None:
    leading(values)["mechanism"]["settings"]["refusal"] = ""


def a_name_of_no_file(values: dict[str, Any]) -> None:
    leading(values)["files"][0]["path"] = f"{SESSION}/\x00"


def votes_on_one_class(values: dict[str, Any]) -> None:
    leading(values)["mechanism"]["settings"]["classes"] = 1


WORDS = (other_accuracy, no_caveats, spent_nothing, other_neighbours, asked_without_teachers, a_dear_session_beside)
RECORDS = (
    less_than_its_sessions_together,
    answers_that_nobody_gave,
    read_of_one_part_alone,
)
SEEN = (votes_on_one_class,)
ODD = (settings_of_another_kind, a_name_of_no_file)
LIES = (smaller_epsilon, smaller_delta, smaller_for_a_replaced_unit, other_mechanism, settings_of_none, more_answers)
MORE = (spent_beyond_the_cap, left_out_of_the_domain, charged_more_than_the_cap, outside_the_folder, other_session)


@pytest.mark.parametrize("lie", [*LIES, *MORE, *WORDS, *RECORDS, *ODD, *SEEN])
def test_a_certificate_that_says_more_than_it_proves_is_found(
    folder: Path, lie: Callable[[dict[str, Any]], None]
) -> None:
    rewrite(folder, dict.copy)
    assert faults(folder) == []  # written thus, an honest one passes
    rewrite(folder, lie)
    assert faults(folder) != []


@pytest.mark.parametrize(("lie", "by"), [(of_a_stream, "budget"), (of_a_stream_throughout, "guarantee")])
def test_a_session_that_names_a_stream_and_is_none_is_found_without_an_excerpt(
    folder: Path, lie: Callable[[dict[str, Any]], None], by: str
) -> None:
    rewrite(folder, lie)
    assert f"{SESSION}: {by}" in [check.name for check in verify_published(folder) if not check.ok]


def name_labels(folder: Path, data: bytes) -> None:
    """Have the certificate name those labels."""
    rewrite(folder, lambda values: leading(values)["files"][0].update(digest=hashlib.sha256(data).hexdigest()))


@pytest.mark.parametrize("bits", [b"nonsense", b""])
def test_labels_that_cannot_be_read_are_a_fault_and_no_traceback(folder: Path, bits: bytes) -> None:
    file = folder / "labels" / "batch-00000.arrow"
    file.write_bytes(bits)
    name_labels(folder, bits)
    assert len(faults(folder)) == 1


def damaged(folder: Path) -> Iterator[bytes]:
    """The file of labels with one damage after another, each named by the certificate: of bytes, and of offsets of
    words, which compression would hide from damage of bytes."""
    rng, file = np.random.default_rng(4), folder / "labels" / "batch-00000.arrow"
    whole = file.read_bytes()
    batch = pa.ipc.open_file(whole).get_batch(0)
    at = batch.schema.get_field_index("label")
    for turn in range(24):
        damage = bytearray(whole)
        for place in rng.integers(len(whole), size=20):
            damage[place] ^= int(rng.integers(1, 256))
        if turn % 2:
            _, offsets, text = batch.column(at).buffers()
            wrong = np.frombuffer(offsets, np.int32).copy()
            wrong[rng.integers(1, len(batch), size=20)] = rng.integers(2**31, size=20)
            words = pa.Array.from_buffers(pa.string(), len(batch), [None, pa.py_buffer(wrong), text])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch.set_column(at, batch.schema.field(at), words))
            damage = bytearray(sink.getvalue())
        file.write_bytes(damage)
        name_labels(folder, bytes(damage))
        yield bytes(damage)


def verified(folder: str) -> list[Check]:
    return [Check(name="damage", ok=not faults(Path(folder)), detail="") for _ in damaged(Path(folder))]


def counted(folder: str) -> list[Check]:
    """As labels were counted before they were validated."""
    for damage in damaged(Path(folder)):
        with suppress(pa.ArrowException, OSError), pa.ipc.open_file(damage) as table:
            table.get_batch(0).column("label").value_counts()
    return []


@pytest.mark.usefixtures("apart")
def test_damage_inside_labels_is_found_and_ends_no_process(folder: Path) -> None:
    """Arrow reads offsets as it finds them: a count of damaged words ended the process, as it does here."""
    found = limited((f"{__name__}:verified", (str(folder),)))
    assert [check.ok for check in found] == 24 * [False]
    assert [check.name for check in limited((f"{__name__}:counted", (str(folder),)))] == ["limits"]


def test_other_bytes_than_concord_writes_are_found(folder: Path) -> None:
    file = folder / "certificate.json"
    file.write_bytes(file.read_bytes() + b" ")
    (fault,) = faults(folder)
    assert says(fault, "certificate.json", "bytes")


def test_a_version_that_is_not_known_yet_is_no_way_past_what_this_one_asks_for(folder: Path) -> None:
    rewrite(folder, lambda values: values["versions"].update(concord="9.0.0"))
    assert any("verify it with that version" in fault for fault in faults(folder))


@pytest.mark.parametrize("name", ["1.0.00", "01.0.0", "1.00.0"])
def test_another_spelling_of_a_version_is_no_way_past_what_it_asks_for(folder: Path, name: str) -> None:
    def unnamed(values: dict[str, Any]) -> None:
        values["caveats"] = []
        values["versions"].update(concord=name)

    rewrite(folder, unnamed)
    assert any("of Concord, which is not a version" in fault for fault in faults(folder))


def test_labels_of_another_session_are_not_this_one_s(folder: Path) -> None:
    """Its claim may be another, and they say themselves whose they are."""
    file = folder / "labels" / "batch-00000.arrow"
    table = pa.ipc.open_file(file).read_all()
    others = table.set_column(4, table.schema.field("session"), pa.array(["people-2"] * table.num_rows))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, others.schema) as writer:
        writer.write_table(others)
    name_labels(folder, file.read_bytes())
    assert any("the session of the labels" in fault for fault in faults(folder))


def test_the_command_needs_no_home(folder: Path, tmp_path: Path) -> None:
    status, out, _ = concord("verify", str(folder), "--home", str(tmp_path / "nowhere"), "--json")
    assert (status, json.loads(out)["ok"]) == (0, True)
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_without_its_certificate_fails_and_names_it(folder: Path, tmp_path: Path) -> None:
    (folder / "certificate.json").unlink()
    (fault,) = faults(folder)
    assert says(fault, "no certificate.json", folder)
    asked = ("--home", str(tmp_path / "nowhere"), "--json")
    status, out, _ = concord("verify", str(folder), *asked)
    assert (status, "no certificate.json" in out) == (4, True)
    status, _, told = concord("verify", str(folder / "labels"), *asked)
    assert (status, says(told, folder / "labels", "nothing published")) == (1, True)
