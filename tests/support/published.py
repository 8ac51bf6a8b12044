"""A small published world for tests: public rows, their encoding, and labels as the door would have released them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from tests import world
from tests.support import openings

CLASSES = ("no", "yes")
TEACHERS = 100
SESSION = "people-1"


@dataclass(frozen=True)
class World:
    """One home folder with staged public rows; `truth` is the class index of each row."""

    home: Path
    plan: world.Plan
    encoding: world.Encoding
    batches: tuple[world.PublicBatch, ...]
    vault: world.Vault
    released: world.Released
    truth: NDArray[np.int64]

    @property
    def public(self) -> world.PublicRows:
        return world.PublicRows(encoding=self.encoding, batches=self.batches)

    @property
    def rows(self) -> pl.DataFrame:
        return pl.read_parquet(self.plan.path("public"))

    def write(
        self,
        labels: NDArray[np.int64],
        counts: NDArray[np.int64] | None = None,
        guarantee: Mapping[str, str] = MappingProxyType({"session": SESSION, "epsilon": "1"}),
    ) -> list[world.Ref]:
        """Write released files of labels (asked,) over all rows, one per batch; negative is refused."""
        return [
            write_labels(
                self.released,
                world.labels_path(SESSION, index),
                world.labels_table(
                    range(batch.first, batch.first + batch.rows),
                    labels[batch.first : batch.first + batch.rows],
                    None if counts is None else counts[batch.first : batch.first + batch.rows],
                    CLASSES,
                    guarantee,
                ),
            )
            for index, batch in enumerate(self.batches)
        ]

    def labels(self, labels: NDArray[np.int64], counts: NDArray[np.int64] | None = None) -> pa.Table:
        return self.released.labels(self.write(labels, counts))


def write_labels(released: world.Released, path: str, table: pa.Table) -> world.Ref:
    """Write labels as they are released."""
    return released.write(path, world.table_bytes(table.columns, table.schema))


def world_in(home: Path, rows: int = 300, batch: int = 128) -> World:
    """A world in `home`: three columns; the class depends on `size` and `shade`."""
    home.mkdir(exist_ok=True)
    rng = np.random.default_rng(5)
    size, dark = rng.normal(10, 4, rows), rng.random(rows) < 0.5
    truth = ((size - 10) / 4 + dark - 0.5 > 0).astype(np.int64)
    shade = np.where(dark, "dark", "light")
    frame = pl.DataFrame({"size": size, "shade": shade, "note": [None if row % 7 == 0 else row for row in range(rows)]})
    frame.write_parquet(home / "public.parquet")
    frame.with_columns(kind=np.array(CLASSES)[truth]).write_parquet(home / "test.parquet")
    plan = world.parse_plan(
        {
            "data": {"private": "none", "public": "public.parquet", "test": "test.parquet", "label": "kind"}
            | {"classes": CLASSES},
            "privacy": {"domain": "people", "epsilon": 1.0, "delta": 1e-5, "lifetime": {"epsilon": 4.0, "delta": 4e-5}},
            "teachers": {"count": TEACHERS},
            "labeling": {"mechanism": "stable", "cutoff": 20, "batch": batch},
            "folder": str(home),
        }
    )
    encoding, vault = world.learn_encoding(plan), world.Vault(home / "vault")
    batches = world.stage_public(plan.path("public"), encoding, vault, "public", batch)
    return World(home, plan, encoding, batches, vault, world.Released(home), truth)


def session(
    small: World, mechanism: world.Mechanism, labels: NDArray[np.int64], counts: NDArray[np.int64] | None = None
) -> list[world.Ref]:
    """Record the world's rows in a ledger as the door would, with those answers. Returns the released files."""
    ledger = world.Ledger.of(small.home)
    ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=4.0, delta=4e-5)
    ledger.open_session(opened := opening(mechanism))
    refs = small.write(labels, counts, claim_of(opened))
    for index, batch in enumerate(small.batches):
        if ledger.session(SESSION).exhausted:
            break
        begun = ledger.begin_batch(
            SESSION,
            world.Batch(
                index=index,
                first=batch.first,
                rows=batch.rows,
                question_digest="hmac of rows",
                exact_digest="hmac of votes",
            ),
        )
        part = labels[batch.first : batch.first + batch.rows]
        refused = int((part < 0).sum())
        outcome = begun.released_as(refs[index], answered=len(part) - refused, refused=refused)
        ledger.commit_batch(SESSION, outcome)
    return refs


def claim_of(opened: world.Opening) -> dict[str, str]:
    """The metadata of a table of labels of that session, in a domain of single rows."""
    said = {"session": opened.id, "epsilon": repr(opened.epsilon), "delta": repr(opened.delta)}
    unit = {"unit": "one row", "neighbours": "add or remove one unit"}
    return {**said, **unit, "mechanism": str(opened.mechanism["name"])}


def opening(mechanism: world.Mechanism, name: str = SESSION) -> world.Opening:
    """A session of that mechanism in the domain `people`, as a plan would ask for it."""
    secret = {name: f"hmac of {name}" for name in ("identity", "ensemble")}
    terms = {"domain": "people", "commitment": f"hmac of the key of {name}", "data_version": "1", "teachers": TEACHERS}
    settings = mechanism.model_dump(mode="json")
    budget = {"epsilon": settings["epsilon"], "delta": settings["delta"]}
    return openings.opening(name, **secret, **terms, **budget, **openings.charged_by(mechanism))


def noisy_votes(truth: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Noisy counts (rows, 2) of 100 teachers of whom 70 are right."""
    ones = np.where(truth == 1, 70, 30) + np.rint(np.random.default_rng(6).normal(0, scale, len(truth))).astype(int)
    return np.column_stack([TEACHERS - ones, ones])


def certified(
    small: World, mechanism: world.Mechanism, labels: NDArray[np.int64]
) -> tuple[world.Student, world.Certified]:
    """A session of that mechanism with its student and certificate, all written as a run would."""
    refs = session(small, mechanism, labels)
    fitted = learned(small, refs)
    test = world.evaluate(fitted, small.plan.path("test"), small.encoding)
    student = world.Student(ref=world.hold_student(fitted, SESSION, small.released), test=test)
    return student, recertified(small, refs, student)


def learned(small: World, refs: list[world.Ref]) -> Pipeline:
    """The student that learns from those released labels."""
    return world.fit_student(small.plan, small.public, refs, None, small.vault, small.released)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a published folder's certificate, and write it as Concord would."""
    file = folder / "certificate.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(world.Certificate.model_validate(values).model_dump_json(indent=2))


def leading(values: dict[str, Any]) -> dict[str, Any]:
    """The record of the leading session in a certificate's JSON."""
    record: dict[str, Any] = values["sessions"][0]
    return record


def with_leading(certificate: world.Certificate, **changes: Any) -> world.Certificate:
    """The certificate with those parts of the leading session's record."""
    record = certificate.leading.model_copy(update=changes)
    return certificate.model_copy(update={"sessions": (record, *certificate.sessions[1:])})


def recertified(small: World, refs: list[world.Ref], student: world.Student) -> world.Certified:
    """The certificate from the ledger's present state."""
    stores = world.Stores(small.vault, world.Ledger.of(small.home), small.released)
    certificate = world.certificate_of(small.plan, {SESSION: refs}, student, small.encoding.features, stores)
    return world.write_certificate(certificate, small.plan.data.classes, stores)
