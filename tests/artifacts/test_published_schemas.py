"""The schemas of certificate and statement: published beside them, right about them, never changed under one format."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests import world
from tests.support.published import SESSION, certified, world_in

PUBLISHED = {
    "concord certificate 3": "f796827bae32e4f10220f94085a2795f72c15868c924b09801d43edb7b0e3246",
    "concord certificate 4": "dcb7ad9c665a1bb224f06a1eb4f7df765f22c69caa3282d2fa08db422eda0fb0",
    "concord certificate 5": "a568e51fc646af633f53e8c27af1c8119bb1e6a1f6a466516d01b1b3d8469566",
}
"""SHA-256 of the schema of each format, but for its words."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The released folder of a session."""
    small = world_in(tmp_path_factory.mktemp("world"))
    certified(small, world.calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20), small.truth)
    return small.released.root / SESSION


def certificate_of(folder: Path) -> dict[str, Any]:
    certificate: dict[str, Any] = json.loads((folder / "certificate.json").read_bytes())
    return certificate


def statement_of(folder: Path) -> dict[str, Any]:
    """What the envelope holds, of the type that it names."""
    envelope = json.loads((folder / world.ATTESTATION_FILE).read_text())
    assert envelope["payloadType"] == world.PAYLOAD_TYPE
    statement: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return statement


def test_each_is_what_the_schema_beside_it_says(written: Path) -> None:
    assert certificate_of(written)["$schema"] == world.SCHEMA_FILE
    for name, due, document in (
        (world.SCHEMA_FILE, world.schema(), certificate_of(written)),
        (world.ATTESTATION_SCHEMA_FILE, world.attestation_schema(), statement_of(written)),
    ):
        found = json.loads((written / name).read_bytes())
        assert found == due
        Draft202012Validator.check_schema(found)
        Draft202012Validator(found).validate(document)


def test_the_statement_is_of_in_toto_about_all_that_is_published_and_nothing_of_the_vault(written: Path) -> None:
    statement = statement_of(written)
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert (statement["_type"], statement["predicateType"]) == ("https://in-toto.io/Statement/v1", world.PREDICATE_TYPE)
    there = {f"{SESSION}/{file.relative_to(written)}" for file in written.rglob("*") if file.is_file()}
    assert {subject["name"] for subject in statement["subject"]} == there - {f"{SESSION}/{world.ATTESTATION_FILE}"}
    for subject in statement["subject"]:
        assert subject["digest"] == {"sha256": world.sha256((written.parent / subject["name"]).read_bytes())}
    claim = statement["predicate"]
    assert (claim["guarantee"]["epsilon"], claim["guarantee"]["unit"]) == (1.0, "one row")
    assert claim["mechanism"] == certificate_of(written)["sessions"][0]["mechanism"]["name"]
    assert claim["domain"]["cap"] == {"epsilon": 4.0, "delta": 4e-5}


def test_another_schema_is_another_format() -> None:
    """What fails here: raise the number in FORMAT, and add the new schema's digest below; never change an old one."""
    result = json.dumps(without_words(world.schema()), sort_keys=True).encode()
    assert PUBLISHED[world.CERTIFICATE_FORMAT] == hashlib.sha256(result).hexdigest()


def without_words(part: Any) -> Any:
    """A schema without what it says to people, which may be put better at any time: descriptions, and the caveats."""
    if isinstance(part, dict):
        words = {"description", "title", *(["default"] if part.get("default") == [*world.CAVEATS] else [])}
        return {key: without_words(value) for key, value in part.items() if key not in words}
    return [without_words(item) for item in part] if isinstance(part, list) else part
