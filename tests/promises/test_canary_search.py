"""The search for canaries finds leaks planted where they are easiest to miss."""

import base64
import hashlib
import json

import pytest

from tests.promises.canary import ROWS, operated, published, relabelling
from tests.promises.kept import drawn, sequences, totals
from tests.promises.marks import leaks
from tests.promises.scene import Scene
from tests.world import Vault, describe, mlflow_describe, publish_certify


@pytest.mark.slow
def test_planted_leaks_are_found_in_the_files_they_reach(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.tables = relabelling(scene.tables)
    summary = scene.run()
    (hypothesis,) = drawn(scene.home).values()
    subset, size = next((what, size) for what, size in totals(scene.home) if what.startswith("rows of shards"))
    assert 1500 < size < 2000  # half of the units
    planted = f"1 ({ROWS:,} rows, {size} of them relabelled by {hypothesis['low'][0]:.6g})"
    monkeypatch.setattr(
        publish_certify,
        "describe",
        lambda *arguments: describe(*arguments).model_copy(update={"data_version": planted}),
    )
    file = next(scene.private.iterdir())
    monkeypatch.setattr(mlflow_describe, "digest_of_labels", lambda _: hashlib.sha256(file.read_bytes()).hexdigest())
    scene.run(start_from="certify")
    details = {what: numbers.tolist() for what, numbers in sequences(scene.home)}
    (scene.home / "results" / "told").write_text(json.dumps(details, indent=2))
    key = Vault(scene.home / "vault").secret(f"sessions/{summary.session}")
    (scene.home / "results" / "key").write_text(json.dumps({"key": base64.b64encode(key).decode()}))
    (scene.home / "results" / "choice").write_bytes(b"chosen: " + json.dumps(hypothesis).encode())
    marks = scene.marks()
    found = leaks([*published(scene.home), *operated(scene.home)], marks)
    for where, what in (
        *((file, f"rows, {ROWS}") for file in ("certificate.json", "report.html", "mlflow.db")),
        *((file, f"{subset}, {size}") for file in ("certificate.json", "report.html", "mlflow.db")),
        *((file, "choices/") for file in ("certificate.json", "report.html", "mlflow.db", "results/choice")),
        ("mlflow.db", f"sha256 of {file.name}"),
        ("results/key", summary.session),
        *(("results/told", what) for what in details),
    ):
        assert any(where in leak and what in leak for leak in found), f"{what} in {where} was not found"
    for what, numbers in sequences(scene.home):
        for spelt in (numbers.tobytes(), numbers.astype("<f4").tobytes(), "; ".join(map(str, numbers)).encode()):
            assert any(mark.startswith(what) for mark in marks.found(b"..." + spelt)), what
