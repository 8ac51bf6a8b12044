"""A small published world, recorded in MLflow; not in tests.support.published, since MLflow is slow to import."""

from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from tests.support.published import SESSION, World, certified
from tests.world import Certified, Ledger, Mechanism, PublicRows, Stores, Tracked, Tracking, publication_of

EVIDENCE = ("ledger.json", "key.pem", "attestation.schema.json", "attestation.json")
WRITTEN = {"certificate": "certificate.json", "schema_file": "certificate.schema.json", "report": "report.html"}


def tracked(world: World, mechanism: Mechanism, labels: NDArray[np.int64] | None, started: datetime) -> Tracked:
    """Record the world's session in MLflow; if labels are given, after certifying it."""
    if labels is not None:
        certified(world, mechanism, labels)
    found = {field: world.released.find(f"{SESSION}/{name}") for field, name in WRITTEN.items()}
    drawn = {name: world.released.find(f"{SESSION}/{name}.svg") for name in ("spend", "labels", "what_if", "budget")}
    there = {name: figure for name, figure in drawn.items() if figure is not None}
    beside = [world.released.find(f"{SESSION}/{name}") for name in EVIDENCE]
    written = Certified.model_validate({**found, "figures": there, "evidence": beside})
    public = PublicRows(encoding=world.encoding, batches=tuple(world.batches))
    stores = Stores(world.vault, Ledger.of(world.home), world.released)
    return Tracking.of(world.home).publish(publication_of(world.plan, written, public, stores), started)
