"""The contents of small homes made with fixed keys and fixed noise, as digests: see tests/promises/test_golden.py.

The models that follow from noisy sums are computed in floating point, so nothing after the first round is compared. Nor
are the last bits of what calibration computes in floating point, which depend on the processor: entries that open or
settle a session are on file whole, and numbers that differ from those by rounding alone count as equal.
"""

import hashlib
import itertools
import json
import math
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.artifacts.home.vault import KEY_BYTES, Vault, keyed_digest
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import parse_plan
from concord.flows.start import start
from concord.tasks.mechanisms import noise
from concord.tasks.mechanisms.distance import table_of
from tests.support.people import people, tables_of_plan, write_tables

FILE = Path(__file__).with_name("golden.json")
FOLDERS = ("shards", "units", "relabelled", "votes", "counts", "tested")
"""Folders of the vault that are compared; sums lie beside the units they are of."""
CALIBRATED = ("open", "settle")
"""Kinds of entries that hold calibrated numbers."""
ROUNDING, LONG_TEXT, AMOUNT = 1e-9, 64, re.compile(r"[0-9]+([.][0-9]+)?([Ee][-+]?[0-9]+)?")
WRITTEN_BY = "1.0.0"
"""The version that wrote the digests on file: entries of the ledger name it."""
TREE = "sklearn.tree.DecisionTreeClassifier"
"""A learner whose models do not depend on the machine's floating point."""
CANDIDATES = [{"estimator": TREE, "params": {"random_state": 0, "max_depth": depth}} for depth in (2, 3)]
PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "stable": {
        "teachers": {"count": 40, "estimator": TREE, "params": {"random_state": 0, "max_depth": 3}},
        "labeling": {"mechanism": "stable", "cutoff": 250, "batch": 128},
    },
    "noisy_votes": {
        "teachers": {"count": 40, "estimator": TREE, "params": {"random_state": 0, "max_depth": 3}},
        "labeling": {"mechanism": "noisy_votes", "batch": 128},
        "student": {"estimator": TREE, "params": {"random_state": 0, "max_depth": 3}},  # a test names its file's digest
        "test": {"share": 0.2},
        "data": {"unit": "person"},
    },
    "relabelled": {
        "teachers": {"count": 20, "estimator": TREE, "params": {"random_state": 0, "max_depth": 2}},
        "relabel": {"hypotheses": "stumps", "features": ["size"], "share": 0.1},
        "labeling": {"mechanism": "stable", "cutoff": 12, "batch": 128},
    },
    "tallies": {"labeling": {"mechanism": "tallies", "rows": 300, "batch": 128}},
    "universal": {"student": {"learner": "universal", "hypotheses": "stumps"}},
    "candidates": {
        "teachers": {"count": 40, "estimator": TREE, "params": {"random_state": 0, "max_depth": 3}},
        "labeling": {"mechanism": "stable", "cutoff": 250, "batch": 128},
        "student": {
            "epsilon": 1.0,
            "candidates": CANDIDATES,
        },  # keys and file digests name the choice
        "test": {"share": 0.2},
        "data": {"unit": "person"},
    },
}
WITHOUT = {"tallies": ("teachers", "student"), "universal": ("teachers", "labeling")}


def golden(name: str, data: Path, home: Path, filed: Sequence[Any]) -> dict[str, Any]:
    """What the run of a plan leaves in a new home: digests of files by folder, of the ledger's entries in order, and
    whole entries of kinds that hold floating-point numbers, of which `filed` has those on file."""
    with pytest.MonkeyPatch.context() as patch:
        fixed(patch)
        tables = tables_of_plan(write_tables(data, people(2000, 1)))
        tables = {part: given for part, given in tables.items() if part not in WITHOUT.get(name, ())}
        for part, given in PLANS[name].items():
            tables[part] = given if part == "labeling" else {**tables.get(part, {}), **given}
        start(parse_plan(tables), home)
        files = {folder: contents(Vault(home / "vault"), folder) for folder in FOLDERS}
        known, bodies, digests = iter(filed), list[Any](), list[str]()
        for record in Ledger.of(home).records():
            body = _body(record)
            if record.kind in CALIBRATED:
                body = as_filed(body, next(known, body))
                bodies.append(body)
            digests.append(f"{record.kind} {_digest([record.domain, record.session, body])}")
        found = {folder: digest for folder, digest in files.items() if digest}
        return {"files": found, "ledger": digests, "calibrated": bodies}


def fixed(patch: pytest.MonkeyPatch) -> None:
    """Keys that follow from their names, sessions that are counted, and noise from a generator with a seed."""
    numbers = itertools.count(1)
    patch.setattr(Vault, "_make_secret", _make_secret)
    patch.setattr("concord.tasks.door.admit.__version__", WRITTEN_BY)
    patch.setattr(secrets, "token_hex", _counted(secrets.token_hex, numbers))
    for drawn in ("laplace", "gaussian"):
        patch.setattr(noise, drawn, lambda scale, size: np.arange(size) % 7 - 3 + round(scale))
    patch.setattr(noise, "sample_by_weight", lambda scores, **_: int(np.argmax(scores)))


def contents(vault: Vault, folder: str) -> str:
    """One digest of all files of a folder, whatever their names are."""
    found = sorted(file for file in (vault.root / folder).rglob("*") if file.is_file())
    each = (vault.take(str(file.relative_to(vault.root))) for file in found)
    digests = sorted(hashlib.sha256(taken[1]).hexdigest() for taken in each if taken is not None)
    return _digest(digests) if digests else ""


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


def _body(record: Any) -> Any:
    body = json.loads(record.body)
    if record.kind == "commit":
        body["released"] = body["released"]["path"]
    if record.kind == "remark":
        body["about"] = ""  # where the tables lie
    if record.kind == "draw" or (record.kind == "begin" and body["index"] > 0):
        return {key: value for key, value in body.items() if "digest" not in key}
    return body


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _make_secret(vault: Vault, name: str) -> None:
    if not vault.has_secret(name):
        key = hashlib.sha256(name.encode()).digest()[:KEY_BYTES]
        with vault._new(f"secrets/{name}", exclusive=False) as file:
            file.write(key + bytes.fromhex(keyed_digest(key, "check", name)))


def _counted(true: Callable[[int], str], numbers: Iterable[int]) -> Callable[[int], str]:
    """Names of sessions, which are 8 digits long, in order; other tokens as they are."""
    count = iter(numbers)
    return lambda size: f"{next(count):08x}" if size == 4 else true(size)
