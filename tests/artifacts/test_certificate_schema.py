"""The certificate's schema: published beside it, right about it, and never changed under one format."""

import hashlib
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support.published import SESSION, certified, world
from tests.world import CAVEATS, CERTIFICATE_FORMAT, SCHEMA_FILE, Mechanism, NoisyVotes, StableVoting, schema

MECHANISMS: dict[str, Mechanism] = {
    "stable": StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20),
    "noisy_votes": NoisyVotes.calibrate(epsilon=1.0, delta=1e-5, queries=300, classes=2),
}
PUBLISHED = {
    "concord certificate 3": "f796827bae32e4f10220f94085a2795f72c15868c924b09801d43edb7b0e3246",
}
"""SHA-256 of the schema of each format, but for its words."""


@pytest.fixture(scope="module", params=MECHANISMS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The released folder of a session of each kind of mechanism."""
    small = world(tmp_path_factory.mktemp("world"))
    certified(small, MECHANISMS[request.param], small.truth)
    return small.released.root / SESSION


def test_a_certificate_is_what_the_schema_beside_it_says(written: Path) -> None:
    certificate = json.loads((written / "certificate.json").read_bytes())
    assert certificate["$schema"] == SCHEMA_FILE
    details = json.loads((written / certificate["$schema"]).read_bytes())
    assert details == schema()
    Draft202012Validator.check_schema(details)
    Draft202012Validator(details).validate(certificate)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("format",), "concord certificate 0"),
        (("guarantee", "epsilon"), "1"),
        (("sessions", 0, "counts", "asked"), None),
        (("sessions", 0, "files", 0, "digest"), 7),
        (("domain", "charges", 0, "status"), "lost"),
        (("rows",), 1),
        (("sessions",), []),
    ],
)
def test_the_schema_finds_what_is_no_certificate(written: Path, place: tuple[Any, ...], value: object) -> None:
    certificate = json.loads((written / "certificate.json").read_bytes())
    wrong = deepcopy(certificate)
    part = wrong
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    valid = Draft202012Validator(schema()).is_valid
    assert valid(certificate)
    assert not valid(wrong)


def test_another_schema_is_another_format() -> None:
    """What fails here: raise the number in FORMAT, and add the new schema's digest below; never change an old one."""
    result = json.dumps(without_words(schema()), sort_keys=True).encode()
    assert PUBLISHED[CERTIFICATE_FORMAT] == hashlib.sha256(result).hexdigest()


def without_words(part: Any) -> Any:
    """A schema without what it says to people, which may be put better at any time: descriptions, and the caveats."""
    if isinstance(part, dict):
        words = {"description", "title", *(["default"] if part.get("default") == [*CAVEATS] else [])}
        return {key: without_words(value) for key, value in part.items() if key not in words}
    return [without_words(item) for item in part] if isinstance(part, list) else part
