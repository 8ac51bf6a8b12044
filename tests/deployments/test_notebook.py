"""The notebook in deployments/ is whole, short, and does what it shows."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.notebook import Notebook, code_of, shown_by
from tests.support.processes import own_environment

ROOT = Path(__file__).parents[2]
PATH = ROOT / "deployments/first.ipynb"
CELLS = 10


@pytest.fixture(scope="module")
def notebook() -> Notebook:
    """The notebook, as it is kept."""
    found: Notebook = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def test_it_is_ten_cells_of_a_format_that_jupyter_reads(notebook: Notebook) -> None:
    assert (notebook["nbformat"], notebook["nbformat_minor"], len(notebook["cells"])) == (4, 5, CELLS)
    assert len({cell["id"] for cell in notebook["cells"]}) == CELLS
    for cell in notebook["cells"]:
        assert (cell["cell_type"] == "code") == ("outputs" in cell)
        assert max(map(len, code_of(cell).splitlines())) <= 120


def test_a_cell_that_fails_is_seen() -> None:
    cells = [{"cell_type": "code", "source": [line]} for line in ("x = 7", "print(x)\nx + 1", "x / 0")]
    assert shown_by({"cells": cells[:2]}) == ["", "7\n8\n"]
    with pytest.raises(ZeroDivisionError):
        shown_by({"cells": cells})


@pytest.mark.slow
def test_it_runs_and_shows_what_it_keeps_but_for_the_noise(notebook: Notebook, tmp_path: Path) -> None:
    reads = f"json.load(open({str(PATH)!r}))"
    program = f"import json; from tests.support.notebook import *; print(json.dumps(shown_by({reads})))"
    environment = {**own_environment(), "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    kept = ["".join(out["text"]) for cell in notebook["cells"] if "outputs" in cell for out in cell["outputs"]]
    assert [_without_figures(text) for text in shown if text] == [_without_figures(text) for text in kept]
    assert "ε = 1, δ = 1e-07" in "".join(shown)
    assert shown[-1] == "True\n"
    assert any(path.is_dir() for path in tmp_path.iterdir())
    assert not (ROOT / "home").exists()


def _without_figures(text: str) -> str:
    """A cell's output without what noise may change: figures, and the class that a row is predicted to be of."""
    return re.sub(r"\s+", " ", re.sub(r"[\d.]+|\b(?:yes|no)\b", "…", text))
