"""Golden: what the private side computes of a fixed small home with fixed keys, bit for bit.

Shards, units, sums, votes and the ledger's entries are held to digests on file while the code that makes them moves. A
change of one is a change of what a key, a digest or a certificate of an open session rests on: it needs a reason in the
commit that rewrites the file: GOLDEN=write in the environment has this test do so.
"""

import json
import os
from pathlib import Path

import pytest

from tests.promises.golden import FILE, PLANS, golden


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("stable", "tallies") else pytest.mark.slow) for name in PLANS]
)
def test_what_a_fixed_home_holds_is_what_it_always_held(home: Path, tmp_path: Path, name: str) -> None:
    filed = json.loads(FILE.read_text() if FILE.exists() else "{}")
    found = golden(name, tmp_path / "data", home, filed.get(name, {}).get("calibrated", ()))
    if os.environ.get("GOLDEN") == "write":
        FILE.write_text(json.dumps(filed | {name: found}, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(FILE.read_text())[name]
