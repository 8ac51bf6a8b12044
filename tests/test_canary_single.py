"""One answer publishes itself alone: no error count, no count of rows and no private value is in what is published."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from artifacts.plan import parse_plan
from artifacts.vault import Vault
from flows.start import start, start_estimate
from tests.canary import Marks, canary_tables, leaks, operated, published, token

STUDENT = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    return canary_tables(tmp_path / "data")


def kept(home: Path, kind: str) -> list[bytes]:
    """What the vault keeps of a kind of private numbers."""
    vault = Vault(home / "vault")
    paths = sorted(path for path in (vault.root / kind).rglob("*") if path.is_file())
    found = [vault.find(str(path.relative_to(vault.root))) for path in paths]
    return [vault.read(ref) for ref in found if ref is not None]


def nothing_got_out(tables: dict[str, Any], home: Path, counts: NDArray[np.int64], total: int) -> None:
    """Neither the marks, nor those counts as bytes or in a row, nor the total; they would be seen."""
    marks = Marks.of(Path(tables["folder"], tables["data"]["private"]), home).with_names()
    literals = {f"counts as {kind}": counts.astype(kind).tobytes() for kind in ("<i8", "<i4", "<u4", "<f8")}
    marks = Marks(marks.literals | literals, marks.numbers | {"the total": token(total)})
    assert leaks(published(home), marks) == []
    values = Marks({name: mark for name, mark in marks.literals.items() if "name" not in name}, marks.numbers)
    assert leaks(operated(home), values) == []
    assert marks.found(str(total).encode()) == {"the total"}
    assert marks.found(b"..." + counts.astype("<i8").tobytes()) == {"counts as <i8"}


def test_a_choice_tells_no_error_count(tables: dict[str, Any], home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    without = {name: section for name, section in tables.items() if name not in ("teachers", "labeling")}
    start(parse_plan({**without, "student": STUDENT}), home)
    (file,) = kept(home, "counts")
    errors = np.load(io.BytesIO(file))
    assert len(errors) > 100
    nothing_got_out(tables, home, errors[:4], int(errors[0]))
    told = "".join(capfd.readouterr())
    assert not token(int(errors.min())).search(told.encode())


def test_an_estimate_tells_no_sum(tables: dict[str, Any], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    totals: list[int] = []

    def far_off(_self: object, total: int, _source: object) -> int:
        totals.append(total)
        return total + 12_345

    monkeypatch.setattr("tasks.mechanisms.error_estimate.ErrorEstimate.release", far_off)
    start_estimate(parse_plan(tables), home, epsilon=0.5, share=0.3, beta=0.05, again=False)
    measured = np.hstack([np.frombuffer(file, np.int64).reshape(2, -1) for file in kept(home, "measured")])
    assert measured.shape == (2, 60)
    nothing_got_out(tables, home, measured[0, :6], totals[0])
