"""A small published world, recorded in MLflow; not in tests.support.published, since MLflow is slow to import."""

from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from tests.support.published import SESSION, World, certified
from tests.world import Certified, Ledger, Mechanism, PublicRows, Stores, Tracked, Tracking, publication_of

EVIDENCE = ("ledger.json", "key.pem", "attestation.schema.json", "attestation.json")
WRITTEN = ("certificate.json", "report.html", "certificate.schema.json")
FIGURES = ("spend.svg", "labels.svg", "what_if.svg", "budget.svg")


def tracked(small: World, mechanism: Mechanism, labels: NDArray[np.int64] | None, started: datetime) -> Tracked:
    """Record the world's session in MLflow; if labels are given, after certifying it."""
    if labels is not None:
        certified(small, mechanism, labels)
    found = [small.released.find(f"{SESSION}/{name}") for name in (*WRITTEN, *EVIDENCE, *FIGURES)]
    certificate, report, *_ = files = [file for file in found if file is not None]
    written = Certified(certificate=certificate, report=report, files=tuple(files))
    public = PublicRows(encoding=small.encoding, batches=tuple(small.batches))
    stores = Stores(small.vault, Ledger.of(small.home), small.released)
    return Tracking.of(small.home).publish(publication_of(small.plan, written, public, stores), started)
