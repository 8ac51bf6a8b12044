"""The statement: as in-toto has it, valid by the schema that is published beside it, and of no other words."""

import base64
import json
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

from tests.support.published import SESSION, World, certified, world
from tests.world import (
    ATTESTATION_FILE,
    ATTESTATION_SCHEMA_FILE,
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    StableVoting,
    Statement,
    attestation_schema,
    sha256,
)

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


@pytest.fixture
def made(tmp_path: Path) -> World:
    small = world(tmp_path / "home", rows=60)
    certified(small, STABLE, small.truth)
    return small


def test_it_is_a_statement_of_in_toto_that_the_published_schema_knows(made: World) -> None:
    folder = made.released.root / SESSION
    envelope = json.loads((folder / ATTESTATION_FILE).read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert envelope["payloadType"] == PAYLOAD_TYPE
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert (statement["_type"], statement["predicateType"]) == ("https://in-toto.io/Statement/v1", PREDICATE_TYPE)
    schema = json.loads((folder / ATTESTATION_SCHEMA_FILE).read_text())
    assert schema == attestation_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(statement, schema)
    for subject in statement["subject"]:
        assert subject["digest"] == {"sha256": sha256((made.released.root / subject["name"]).read_bytes())}
    claim = statement["predicate"]
    assert (claim["guarantee"]["epsilon"], claim["guarantee"]["unit"], claim["mechanism"]) == (1.0, "one row", "stable")
    assert claim["domain"]["cap"] == {"epsilon": 4.0, "delta": 4e-5}
    for other in ({**statement, "at": "now"}, {**statement, "subject": []}, {**statement, "predicateType": "any"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(other, schema)
        with pytest.raises(ValidationError):
            Statement.model_validate(other)


def test_all_that_is_published_is_signed_and_none_of_the_vault(made: World) -> None:
    folder = made.released.root / SESSION
    envelope = json.loads((folder / ATTESTATION_FILE).read_text())
    subjects = {item["name"] for item in json.loads(base64.b64decode(envelope["payload"]))["subject"]}
    there = {f"{SESSION}/{file.relative_to(folder)}" for file in folder.rglob("*") if file.is_file()}
    assert there - subjects == {f"{SESSION}/{ATTESTATION_FILE}"}
    assert subjects <= there
