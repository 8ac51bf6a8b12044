"""The state of a home folder, for tests of what a command changes or leaves alone, also if it is killed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world


def charged(home: Path) -> world.Charge:
    """The whole charge of the domain of tests.support.people."""
    return world.Ledger.of(home).total("people")


def labels_of(home: Path, session: str) -> dict[str, bytes]:
    """The released labels of a session, by file name."""
    return {path.name: path.read_bytes() for path in (home / "released" / session / "labels").iterdir()}


def certificate_of(summary: world.Summary) -> world.Certificate:
    return world.Certificate.model_validate_json(Path(summary.certificate).read_bytes())


def certified_rows(home: Path, summary: world.Summary) -> pl.DataFrame:
    """The released rows that a certificate covers."""
    certificate = certificate_of(summary)
    assert certificate.counts.asked == summary.asked
    return pl.DataFrame(world.Released(home).labels(certificate.leading.files))


def cached(summary: world.Summary) -> tuple[str, ...]:
    """The stages that were answered from cache, in order."""
    return tuple(report.name for report in summary.stages if report.cached)


def state_of(home: Path, session: str) -> tuple[Any, ...]:
    """The state that a refused command must leave alone."""
    door = world.Stores.of(home)
    checkpoint = world.read_checkpoint(door, session)
    return charged(home), door.ledger.batches(session), checkpoint, labels_of(home, session)


def dies(*_: object, **__: object) -> Any:
    """Stands in for a step at which a command is killed."""
    raise KeyboardInterrupt


@contextmanager
def killed_at(*step: Any, by: Callable[..., Any] = dies) -> Iterator[None]:
    """Context in which a command is killed at a step: an owner and the name of its method, or the place of a function.
    Fails if it is not."""
    given: Any = (*step, by)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*given)
        with pytest.raises(KeyboardInterrupt):
            yield


def die_extending(session: str, public: Path, home: Path) -> None:
    """Extend a session of three batches, and die before the labels of the second new one are written."""
    true = world.Released.write

    def dying(released: world.Released, path: str, data: Any) -> Any:
        if path == world.labels_path(session, 4):
            dies()
        return true(released, path, data)

    with killed_at(world.Released, "write", by=dying):
        world.start_extension(session, public, home)


def undrawn(_: object) -> str:
    """Stands in for what draws a figure: a blank one."""
    return "<svg></svg>"


def name_domain(door: world.Stores, domain: str, unit: str = "all rows with one person") -> None:
    """A domain in a home's ledger, with its secret."""
    door.ledger.name_domain(domain, unit=unit, neighbours=world.NEIGHBOURS["rows"], epsilon=9.0, delta=4e-5)
    door.vault.make_secret(f"domains/{domain}")


def door_of(home: Path, *domains: str) -> world.Stores:
    """The stores of a new home that knows those domains."""
    door = world.Stores.of(home)
    for domain in domains:
        name_domain(door, domain)
    return door
