"""A recorder: a whole session is run on D, and again on a neighbouring D′ with the outcomes of D in place of its own.

What is published depends on private rows through what mechanisms draw, and through nothing else. So with the same keys
and with the outcomes that D drew, whatever is published of D′ equals what was published of D, to the byte: files, their
names, MLflow's records, how the command ended, what it printed, and which questions were asked in which order. Any
other divergence is a leak that no ε accounts for. The idea is that of Re:cord-play (Cebere, Erb, Desfontaines, Bellet &
Fitzsimons 2026, arXiv:2602.17454), of single mechanisms there.

Frozen       what mechanisms draw (METHODS); keyed digests of exact answers and commitments to entries of the ledger,
             which are pseudo-random without the keys; keys, names of sessions and MLflow's identifiers, which are drawn
             without looking at a row
Masked       moments between a run's begin and its end, and durations on the console, which is the operator's. A moment
             outside, such as one that a private cell or file has, is compared
Not covered  times within a run, and what the operator sees besides the console: tests/promises/test_canary_kinds.py
"""

import hashlib
import importlib
import itertools
import pickle
import pkgutil
import re
import secrets
import sqlite3
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mlflow.models import Model

from tests.world import KEY_BYTES, ConcordError, Vault, door_door, keyed_digest, ledger_excerpt, tasks_mechanisms

METHODS = ("release", "choose")
"""Methods of mechanisms that draw."""
DURATION = re.compile(r"\d+(\.\d+)? s(, [\d.e-]+/s)?\b")
LOGGED = re.compile(r"^\d\d:\d\d:\d\d\.\d+ \| ")
"""A line of Prefect's log, which is the operator's."""
STAMP = re.compile(rb"\b1\d{9}(?:\d{3})?(?:\.\d+)?\b")
MOMENT = re.compile(rb"20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")
MASK = b"(a moment of this run)"


@dataclass
class Recording:
    """What one run drew, and what became of it.

    outcomes   what each mechanism drew, by class, method and call
    drawn      what passed the door at each step
    questions  the steps in order: session, index, rows and digest of the question
    exact      keyed digests of exact answers
    shown      all that was published, by place; how it ended, and the console
    """

    outcomes: dict[tuple[str, int], Any] = field(default_factory=dict)
    drawn: list[bytes] = field(default_factory=list)
    questions: list[tuple[Any, ...]] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)
    shown: dict[str, bytes] = field(default_factory=dict)

    def differing(self, other: "Recording") -> list[str]:
        """Places in which two runs diverge, other than in their exact answers."""
        found = [] if self.questions == other.questions else ["the questions"]
        found += [] if self.drawn == other.drawn else ["what passed the door"]
        return found + sorted(
            place for place in self.shown.keys() | other.shown.keys() if self.shown.get(place) != other.shown.get(place)
        )


def recorded(
    ask: Callable[[], object], folder: Path, capture: pytest.CaptureFixture[str], before: Recording | None = None
) -> Recording:
    """Run `ask`, whose homes and tables lie in `folder`; with the outcomes of `before`, if it is given."""
    made, began = Recording(), time.time()
    capture.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        _fixed(patch)
        _frozen(patch, made, before)
        try:
            ended = _without_times(ask())
        except ConcordError as error:
            ended = f"{type(error).__name__}: {error}"
    lines = [line for text in capture.readouterr() for line in text.splitlines() if not LOGGED.match(line)]
    made.shown = {"the ending": ended.encode(), "the console": DURATION.sub("…", "\n".join(lines)).encode()}
    for place, content in _published(folder):
        made.shown[place] = _masked(content, began - 1, time.time() + 2)
    return made


def _published(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All published files below a folder, and MLflow's records as text."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name == "mlflow.db":
            with closing(sqlite3.connect(path)) as database:
                yield name, "\n".join(database.iterdump()).encode()
        elif path.is_file() and re.search(r"(^|/)(released|mlartifacts)/", name):
            yield name, path.read_bytes() + f"\n{path.stat().st_mtime}".encode()


def _masked(content: bytes, began: float, ended: float) -> bytes:
    """Content in which moments of the run are masked."""

    def stamp(found: re.Match[bytes]) -> bytes:
        whole, _, part = found[0].partition(b".")
        seconds = float(whole) / (1000 if len(whole) > 10 else 1) + (float(b"0." + part) if part else 0.0)
        return MASK if began <= seconds <= ended else found[0]

    def moment(found: re.Match[bytes]) -> bytes:
        try:
            seconds = datetime.fromisoformat(found[0].decode()).replace(tzinfo=UTC).timestamp()
        except ValueError:
            return found[0]
        return MASK if began <= seconds <= ended else found[0]

    return MOMENT.sub(moment, STAMP.sub(stamp, content))


def _without_times(result: Any) -> str:
    """What a run returned, without how long its stages took."""
    shown = result.model_dump() if hasattr(result, "model_dump") else result
    if isinstance(shown, dict) and "stages" in shown:
        stages = [each if isinstance(each, dict) else each.model_dump() for each in shown["stages"]]
        shown = {**shown, "stages": [{**each, "seconds": 0} for each in stages]}
    return repr(shown)


def _fixed(patch: pytest.MonkeyPatch) -> None:
    """Keys that follow from their places, and names and identifiers that are counted."""
    tokens, identifiers, true, begin = itertools.count(1), itertools.count(1), uuid.uuid4, Model.__init__

    def make_secret(vault: Vault, name: str) -> None:
        if not vault.has_secret(name):
            key = hashlib.sha256(f"{vault.root} {name}".encode()).digest()[:KEY_BYTES]
            with vault._new(f"secrets/{name}", exclusive=False) as file:
                file.write(key + bytes.fromhex(keyed_digest(key, "check", name)))

    def made(model: Model, *given: Any, **named: Any) -> None:
        begin(model, *given, **named)
        model.utc_time_created = "2001-01-01 00:00:00"  # a tag has the digest of a file with it

    def identifier() -> uuid.UUID:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        return uuid.UUID(int=next(identifiers)) if caller.startswith("mlflow") else true()

    patch.setattr(Vault, "_make_secret", make_secret)
    patch.setattr(secrets, "token_hex", lambda size=32: f"{next(tokens):0{2 * size}x}")
    patch.setattr(uuid, "uuid4", identifier)
    patch.setattr(Model, "__init__", made)


def _frozen(patch: pytest.MonkeyPatch, made: Recording, before: Recording | None) -> None:
    """Mechanisms draw what `before` drew, and the door notes what passes it."""
    calls, nested, commitments = Counter[str](), threading.local(), dict[str, str]()

    def freeze(owner: type, method: str) -> None:
        draw = getattr(owner, method)

        def drawn(self: Any, *given: Any, **named: Any) -> Any:
            if getattr(nested, "inside", False):  # a part of another draw
                return draw(self, *given, **named)
            nested.inside = True
            try:
                outcome = draw(self, *given, **named)
            finally:
                nested.inside = False
            name = f"{owner.__name__}.{method}"
            place = name, calls[name]
            calls[name] += 1
            made.outcomes[place] = outcome
            return outcome if before is None else before.outcomes.get(place, outcome)

        patch.setattr(owner, method, drawn)

    for owner, method in drawing():
        freeze(owner, method)
    true_step, true_digest = door_door.pass_step, door_door.digest_in

    def pass_step(stores: Any, before: Any, step: Any, batch: Any, numbers: Any) -> Any:
        made.questions.append((before.id, batch.index, batch.first, batch.rows, batch.question_digest))
        made.exact.append(batch.exact_digest)

        def noted(drawn: Any) -> bytes:
            made.drawn.append(pickle.dumps(drawn.arrays))
            return bytes(step.publish(drawn))

        return true_step(stores, before, replace(step, publish=noted), batch, numbers)

    def digest_in(stores: Any, session: str, what: str, *content: str | bytes) -> str:
        found = true_digest(stores, session, what, *content)
        if what != "exact":
            return found
        made.exact.append(found)
        return true_digest(stores, session, what, "frozen")

    def hiding(_: Vault) -> Callable[[str], str]:
        return lambda entry: commitments.setdefault(entry, f"{len(commitments):064x}")

    for true, replaced in ((true_step, pass_step), (true_digest, digest_in), (ledger_excerpt.hiding, hiding)):
        in_all_modules(patch, true, replaced)


def in_all_modules(patch: pytest.MonkeyPatch, true: Callable[..., Any], replaced: Callable[..., Any]) -> None:
    """Put a function in the place of another, wherever that was imported."""
    for name, module in [*sys.modules.items()]:
        if name.startswith(("concord.", "tests.")) and vars(module).get(true.__name__) is true:
            patch.setattr(module, true.__name__, replaced)


def drawing() -> Iterator[tuple[type, str]]:
    """The classes of all mechanisms, and those of their methods that draw."""
    return ((owner, method) for owner in classes_of(tasks_mechanisms) for method in METHODS if method in vars(owner))


def classes_of(package: ModuleType) -> Iterator[type]:
    """The classes that the modules of a package define, but for protocols."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        for owner in vars(module).values():
            own = isinstance(owner, type) and owner.__module__ == module.__name__
            if own and not getattr(owner, "_is_protocol", False):
                yield owner
