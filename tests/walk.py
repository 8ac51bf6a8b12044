"""The way of one small run to its mechanism: frames on the stack, and files loaded by then."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PLAN = """
[data]
private = "private.csv"
public = "public.csv"
label = "y"
classes = ["no", "yes"]
[privacy]
domain = "small"
epsilon = 2.0
delta = 1e-5
lifetime = { epsilon = 4.0, delta = 4e-5 }
[teachers]
count = 20
estimator = "sklearn.linear_model.LogisticRegression"
[labeling]
mechanism = "stable"
cutoff = 5
[student]
estimator = "sklearn.linear_model.LogisticRegression"
"""
PROBE = """
import importlib, json, os, sys, traceback
def of(name):
    try:
        return importlib.import_module("concord." + name)
    except ModuleNotFoundError:
        return importlib.import_module(name)
root, result = sys.argv[1], sys.argv[2]
folders = tuple(os.path.join(root, top, "") for top in ("flows", "tasks", "artifacts"))
def ours(file):
    return os.path.realpath(file or "").startswith(folders)
def noting(self, *arguments, **named):
    frames = [f.filename for f in traceback.extract_stack()[:-1] if ours(f.filename)]
    loaded = {os.path.realpath(m.__file__) for m in list(sys.modules.values()) if ours(getattr(m, "__file__", None))}
    loaded = [file for file in loaded if os.path.getsize(file)]
    json.dump({"frames": len(frames), "files": len(loaded), "on_the_way": len(set(frames))}, open(result, "w"))
    return answer(self, *arguments, **named)
main = of("flows.cli").main
stable = of("tasks.mechanisms.stable").StableVoting
for name in [name for name in sys.modules if name.split(".")[-1] != "cli" and ".mechanisms" in name]:
    del sys.modules[name]  # the run loads what it needs by itself
stable = of("tasks.mechanisms.stable").StableVoting
answer, stable.answer = stable.answer, noting
sys.argv = ["concord", "run", "plan.toml", "--home", "home", "--quiet"]
main()
"""


def way(root: Path) -> dict[str, int]:
    """Frames of ours on the stack, and files of ours loaded, when one small run has come to its mechanism."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plan.toml").write_text(PLAN)
        rows = [f"{at % 7},{at % 11},{'yes' if at % 7 > 3 else 'no'}" for at in range(400)]
        (folder / "private.csv").write_text("\n".join(("a,b,y", *rows)))
        (folder / "public.csv").write_text("\n".join(("a,b", *(row.rpartition(",")[0] for row in rows[:40]))))
        hidden = root / ".package"
        environment = os.environ | {"PYTHONPATH": str(hidden if hidden.is_dir() else root)}
        command = [sys.executable, "-W", "ignore", "-c", PROBE, str(root.resolve()), str(folder / "way.json")]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=600)
        walked: dict[str, int] = json.loads((folder / "way.json").read_text())
    return walked
