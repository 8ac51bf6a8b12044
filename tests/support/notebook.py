"""Run a notebook cell by cell, as Jupyter would, with the standard library alone.

.venv/bin/python -m tests.support.notebook NOTEBOOK     stores the cells' output in the file
"""

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]


def code_of(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def shown_by(notebook: Notebook) -> list[str]:
    """The output of each code cell, followed by the text of its last expression, unless that is None.

    Raises whatever a cell raises.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_shown(code_of(cell), names) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _shown(code: str, names: dict[str, Any]) -> str:
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # type: ignore[attr-defined]
    return printed.getvalue() + ("" if value is None else f"{value!r}\n")


def kept(notebook: Notebook, shown: list[str]) -> Notebook:
    """The notebook with the output of its code cells."""
    texts = iter(shown)
    cells = [
        cell | _outputs(number, next(texts)) if cell["cell_type"] == "code" else cell
        for number, cell in enumerate(notebook["cells"], start=1)
    ]
    return notebook | {"cells": cells}


def _outputs(number: int, text: str) -> dict[str, Any]:
    stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
    return {"execution_count": number, "outputs": [stream] if text else []}


if __name__ == "__main__":
    path = Path(sys.argv[1]).absolute()
    given = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(kept(given, shown_by(given)), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
