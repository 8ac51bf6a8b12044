"""The contents of small homes made with fixed keys and fixed noise, as digests: see tests/promises/test_golden.py.

The models that follow from noisy sums are computed in floating point, so nothing after the first round is compared. Nor
are the last bits of what calibration computes in floating point, which depend on the processor: settings of mechanisms
and entries that open or settle a session are on file whole, and numbers that differ from those by rounding alone count
as equal.
"""

import base64
import hashlib
import itertools
import json
import math
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.made import content_of
from tests.support.people import people, tables_of_plan, write_tables

FILE, LEDGER_FILE = (Path(__file__).with_name(name) for name in ("golden.json", "golden_ledger.json"))
FOLDERS = ("shards", "units", "relabelled", "votes", "counts", "tested")
"""Folders of the vault that are compared. Sums are compared as they are released, with the fixed noise."""
ANSWERED = ("label", "outcome", "scores", "sums", "hypothesis", "matrix", "right", "wrong")
"""What released files hold of an answer itself."""
CALIBRATED = ("open", "settle")
"""Kinds of entries that hold calibrated numbers."""
ROUNDING, LONG_TEXT, AMOUNT = 1e-9, 64, re.compile(r"[0-9]+([.][0-9]+)?([Ee][-+]?[0-9]+)?")
WRITTEN_BY = "golden"
"""The version that entries of the ledger name."""
TREE = {"estimator": "sklearn.tree.DecisionTreeClassifier", "params": {"random_state": 0, "max_depth": 3}}
"""A learner whose models do not depend on the machine's floating point."""
FORTY = {"count": 40, **TREE}
TALLIES = {"mechanism": "tallies", "rows": 300, "batch": 128}
FIELDS = [
    {"name": "size", "type": "number", "constraints": {"minimum": -10, "maximum": 10}},
    {"name": "shade", "type": "string", "constraints": {"enum": ["dark", "light"]}},
]
PLANS: dict[str, dict[str, Any]] = {
    "stable": {"teachers": FORTY, "labeling": {"mechanism": "stable", "cutoff": 250, "batch": 128}},
    "noisy_votes": {
        "teachers": FORTY,
        "labeling": {"mechanism": "noisy_votes", "batch": 128},
        "student": TREE,  # of whose file a test names the digest
        "test": {"share": 0.2},
        "data": {"unit": "person"},
    },
    "relabelled": {
        "teachers": {"count": 20, "estimator": TREE["estimator"], "params": {"random_state": 0, "max_depth": 2}},
        "relabel": {"hypotheses": "stumps", "features": ["size"], "share": 0.1},
        "labeling": {"mechanism": "stable", "cutoff": 12, "batch": 128},
    },
    "tallies": {"teachers": None, "student": None, "labeling": TALLIES},
    "numbers": {
        "teachers": None,
        "student": None,
        "data": {"label": "visits", "classes": None, "bounds": [0, 8]},
        "labeling": TALLIES,
    },
    "sketch": {
        "teachers": None,
        "student": None,
        "data": {"public": None, "schema": {"fields": FIELDS}, "features": ["size", "shade"]},
        "labeling": TALLIES,
    },
    "stream": {"teachers": None, "student": None, "labeling": TALLIES, "stream": {"season": 3}},
    "universal": {"teachers": None, "labeling": None, "student": {"learner": "universal", "hypotheses": "stumps"}},
}
"""What each plan has besides `tables_of_plan`; a section of None is left out."""


def golden(name: str, data: Path, home: Path, filed: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the run of a plan leaves in a new home. First what never changes: digests of files by folder, of answers,
    and refusal tables. Then digests of the ledger's entries in order, and whole entries of kinds that hold
    floating-point numbers. Of `filed`, numbers are taken that differ from those found by rounding alone."""
    with pytest.MonkeyPatch.context() as patch:
        fixed(patch)
        tables = tables_of_plan(write_tables(data, people(2000, 1)))
        for part, given in PLANS[name].items():
            tables[part] = given if part == "labeling" else _without_none({**tables.get(part, {}), **(given or {})})
        plan = world.parse_plan(
            {part: given for part, given in tables.items() if PLANS[name].get(part, given) is not None}
        )
        world.refresh(plan, home) if plan.stream else world.start(plan, home)
        vault, known = world.Vault(home / "vault"), iter(filed.get("calibrated", ()))
        files = {folder: contents(vault, folder) for folder in FOLDERS}
        answers, bodies, digests = list[str](), list[Any](), list[str]()
        for record in world.Ledger.of(home).records():
            body = _body(record, of_files=plan.stream is not None)
            if record.kind == "commit":
                answers += answer(home / "released" / body["released"], first=body["index"] == 0)
            if record.kind in CALIBRATED:
                body = as_filed(body, next(known, body))
                bodies.append(body)
            digests.append(f"{record.kind} {_digest([record.domain, record.session, body])}")
        found = {"files": {folder: digest for folder, digest in files.items() if digest}, "answers": answers}
        return found, {"ledger": digests, "calibrated": bodies}


def answer(released: Path, *, first: bool) -> list[str]:
    """A digest of what was answered, without names of sessions and what was computed from it."""
    if released.suffix == ".arrow":
        rows = pl.read_ipc(released.read_bytes())
        return [_digest(rows.select(column for column in ANSWERED if column in rows.columns).to_dict(as_series=False))]
    content = json.loads(released.read_bytes())
    return [_digest({key: content[key] for key in ANSWERED if key in content})] if first else []


def _without_none(section: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if value is not None}


def mechanisms(filed: dict[str, Any]) -> dict[str, Any]:
    """Of each mechanism of votes its settings, with its refusal table, and a digest of its answers to fixed votes."""
    found = dict[str, Any]()
    terms: world.VoteTerms = {"cutoff": 20, "queries": 60, "classes": 3, "teachers": 200, "order": 2.0}
    votes = np.random.default_rng(0).multinomial(200, [0.5, 0.3, 0.2], size=60)
    for name in world.MECHANISMS:
        mechanism = world.calibrate(name, epsilon=4.0, delta=1e-5, **terms)
        answers = mechanism.release(votes, Fixed(), 0, 0)
        counts = None if answers.counts is None else answers.counts.tolist()
        settings = as_filed(
            json.loads(world.canonical_json(mechanism.model_dump(mode="json"))), filed.get(name, {}).get("settings", {})
        )
        found[name] = {"settings": settings, "answers": _digest([answers.labels.tolist(), counts])}
    for single in (form.calibrate(epsilon=1.0, delta=1e-5) for form in world.FORMS.values()):
        settings = json.loads(world.canonical_json(single.model_dump(mode="json")))
        found[single.name] = {"settings": as_filed(settings, filed.get(single.name, {}).get("settings", {}))}
    return found


class Fixed:
    """Draws that are the same at every call: keyed ones by a key of zeros, and noise as `fixed`."""

    def uniform(self, first: int, rows: int) -> world.Draws:
        return world.mechanisms_noise.keyed_draws(bytes(world.KEY_BYTES), first, rows)

    def laplace(self, scale: float, size: int) -> world.Ints:
        return noise_of(scale, size)

    gaussian = laplace

    def once(self, name: str, draw: Callable[[], world.Ints]) -> world.Ints:  # noqa: ARG002
        return draw()


def fixed(patch: pytest.MonkeyPatch) -> None:
    """Keys that follow from their names, sessions that are counted, and noise from a generator with a seed."""
    numbers = itertools.count(1)
    patch.setattr(world.Vault, "_make_secret", _make_secret)
    patch.setattr(world.door_admit, "__version__", WRITTEN_BY)
    patch.setattr(secrets, "token_hex", _counted(secrets.token_hex, numbers))
    for drawn in ("laplace", "gaussian"):
        patch.setattr(world.mechanisms_noise, drawn, noise_of)
    patch.setattr(world.mechanisms_noise, "sample_by_weight", lambda scores, **_: int(np.argmax(scores)))


def noise_of(scale: float, size: int) -> world.Ints:
    """What stands in for noise of that scale."""
    return np.arange(size) % 7 - 3 + round(scale)


def contents(vault: world.Vault, folder: str) -> str:
    """One digest of what all files of a folder hold, whatever their names are."""
    found = sorted(file for file in (vault.root / folder).rglob("*") if file.is_file())
    refs = filter(None, (vault.find(str(file.relative_to(vault.root))) for file in found))
    digests = sorted(hashlib.sha256(content_of(ref, vault)).hexdigest() for ref in refs)
    return _digest(digests) if digests else ""


def table_of(text: str) -> Any:
    """A table of refusals, from its base64."""
    return np.frombuffer(base64.b64decode(text), "<u8").astype(np.float64)


def as_filed(found: Any, filed: Any) -> Any:
    """What is on file, as far as `found` differs from it by the rounding of floating-point numbers alone."""
    match found, filed:
        case {"mechanism": now, **others}, {"mechanism": then, "identity": identity} if now != then:
            calibrated = as_filed(now, then)  # of which the identity may be a digest
            found = {**others, "mechanism": calibrated} | ({"identity": identity} if calibrated == then else {})
            return {key: as_filed(found[key], filed.get(key)) for key in found}
        case dict(), dict():
            return {key: as_filed(found[key], filed.get(key)) for key in found}
        case list(), list() if len(found) == len(filed):
            return list(map(as_filed, found, filed))
        case float(), float() if math.isclose(found, filed, rel_tol=ROUNDING):
            return filed
        case str(), str() if len(found) == len(filed) > LONG_TEXT:  # a table of refusals
            return filed if np.allclose(table_of(found), table_of(filed), rtol=ROUNDING) else found
        case str(), str() if AMOUNT.fullmatch(found) and AMOUNT.fullmatch(filed):
            return filed if math.isclose(float(found), float(filed), rel_tol=ROUNDING) else found
    return found


def _body(record: Any, *, of_files: bool) -> Any:
    """An entry without what differs from run to run; a stream's batch digests where its files lie."""
    body = json.loads(record.body)
    if record.kind == "commit":
        body["released"] = body["released"]["path"]
    if record.kind == "remark":
        body["about"] = ""  # where the tables lie
    if record.kind == "draw" or (record.kind == "begin" and (body["index"] > 0 or of_files)):
        return {key: value for key, value in body.items() if "digest" not in key}
    return body


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _make_secret(vault: world.Vault, name: str) -> None:
    if not vault.has_secret(name):
        key = hashlib.sha256(name.encode()).digest()[: world.KEY_BYTES]
        with vault._new(f"secrets/{name}", exclusive=False) as file:
            file.write(key + bytes.fromhex(world.keyed_digest(key, "check", name)))


def _counted(true: Callable[[int], str], numbers: Iterable[int]) -> Callable[[int], str]:
    """Names of sessions, which are 8 digits long, in order; other tokens as they are."""
    count = iter(numbers)
    return lambda size: f"{next(count):08x}" if size == 4 else true(size)
