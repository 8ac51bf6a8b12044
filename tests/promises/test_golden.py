"""Golden: what the private side computes of a fixed small home with fixed keys, bit for bit.

Shards, units, votes, answers and refusal tables are held to digests in golden.json, which never change. The ledger's
entries are held to those in golden_ledger.json: a change of one is a change of what a certificate rests on, and needs a
reason in the commit that rewrites the file. GOLDEN=write in the environment has this test do so, and adds to
golden.json what is not there.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.promises.golden import FILE, LEDGER_FILE, PLANS, golden, mechanisms

WRITES = os.environ.get("GOLDEN") == "write"


def filed(file: Path, name: str, found: Any = None) -> Any:
    """What is on file under a name; written first if it was found and may be."""
    known = json.loads(file.read_text() if file.exists() else "{}")
    if WRITES and found is not None:
        known[name] = {**found, **known.get(name, {})} if file == FILE else found
        file.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return known.get(name, {})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("stable", "tallies") else pytest.mark.slow) for name in PLANS]
)
def test_what_a_fixed_home_holds_is_what_it_always_held(home: Path, tmp_path: Path, name: str) -> None:
    kept, ledger = golden(name, tmp_path / "data", home, filed(LEDGER_FILE, name))
    assert kept == filed(FILE, name, kept)
    assert ledger == filed(LEDGER_FILE, name, ledger)


def test_a_mechanism_refuses_and_answers_as_it_always_did() -> None:
    found = mechanisms(filed(FILE, "mechanisms"))
    assert found == filed(FILE, "mechanisms", found)
