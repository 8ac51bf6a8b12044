"""Checks of one session and of the whole home, and their results.

A check of a session is a function of a `CheckedSession`: it returns a sentence about what it found, or raises
NotVerified naming the difference. MLflow is a mirror of the ledger and of released files, and is rebuilt from them, so
only facts that an auditor relies on are compared. What the home holds is compared with the ledger by
artifacts.ledger.home_contents, as every command does that believes the ledger.

Assumes      the certificate was compared with the ledger; MLflow returns what it stored
Guarantees   found and named, if it was changed or is missing: a released label file; any file of the MLflow run, with
             its certificate; any file of the registered model, its description and its tags; the run's tags of the
             guarantee, its note, parameters and figures; answers released in a batch that the ledger never committed
Not covered  in MLflow, the words of a description or a note that another version wrote; additional records:
             curves except for their last point, datasets, descriptions of experiments and registered models,
             times; the version that an alias names, which operators choose; a server, which may hold sessions of other
             homes
             Checked by test_verify.py, test_verify_mlflow.py and test_verify_home.py in tests/tasks/verify
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc
from pydantic import BaseModel

from concord import __version__
from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import ConcordError, NotVerified
from concord.artifacts.home.released import Released, labels_path
from concord.artifacts.ledger.home_contents import AGAIN, HomeContents, named
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.measures import Estimate
from concord.artifacts.mlflow.describe import (
    MODEL_FILE,
    NOTE,
    SERIES,
    Recorded,
    content_of,
    guarantee_text,
    listing,
    logged_digests,
    tags,
)
from concord.artifacts.schemas import CertificatePart
from concord.artifacts.sessions import Session
from concord.tasks.verify.kinds import Kind
from concord.tasks.verify.limited import Check
from concord.tasks.verify.recompute import SLACK, least_delta

ROUNDED = 1e-6
"""Relative tolerance for a figure that follows from the same counts: libraries of another version round otherwise."""


@dataclass(frozen=True)
class CheckedSession:
    """One session with the records to check it against.

    run     its latest run in MLflow, or the requested run; None without a run
    latest  whether that is the session's latest run, whose files are those now released
    test    path of the public test table, if it was given
    key     key in hex by which published files must be signed, if it was given
    """

    session: Session
    ledger: Reading
    released: Released
    run: Recorded | None
    latest: bool
    test: str | None = None
    key: str | None = None

    @property
    def published(self) -> bool:
        """Whether anything was certified or tracked; a session that was stopped at the door has labels alone."""
        return self.run is not None or self.released.find(f"{self.session.id}/certificate.json") is not None


class NotIncluded(NotVerified):
    """A published file that an export leaves out."""


def checked(name: str, check: Callable[[], str]) -> Check:
    """Run a check and return its result, whatever exception it raises."""
    try:
        return Check(name=name, ok=True, detail=check())
    except NotIncluded as absent:
        return Check(name=name, ok=True, warning=True, detail=str(absent))
    except ConcordError as wrong:
        return Check(name=name, ok=False, detail=str(wrong))
    except MemoryError:
        return Check(name=name, ok=False, detail="it takes more memory than there is for its check")
    except Exception as failed:  # whoever made the folder may have made it so
        return Check(name=name, ok=False, detail=f"it holds what Concord never writes ({type(failed).__name__})")


def equal(what: str, found: object, recorded: object) -> None:
    """Raise NotVerified, naming `what`, if `found` differs from `recorded`."""
    if found != recorded:
        raise NotVerified(difference(what, found, recorded))


def alike(what: str, found: object, certified: object, apart: float = 0.0) -> None:
    """Raise NotVerified, naming the first that differs, unless figures are the certified ones up to rounding, or up to
    a difference of `apart`."""
    match found, certified:
        case Estimate(), Estimate():
            same = all(_near(of, getattr(certified, end), apart) for end, of in found)
            if not same:
                raise NotVerified(f"{what} is {found:.6g}, but it was certified as {certified:.6g}")
        case (float(), float()) if not _near(found, certified, apart):
            raise NotVerified(f"{what} is {found:.6g}, but it was certified as {certified:.6g}")
        case (float(), float()):
            pass
        case (CertificatePart(), CertificatePart()) if type(found) is type(certified):
            for name, value in found:
                alike(f"{what}, {name}", value, getattr(certified, name), apart)
        case (tuple(), tuple()):
            equal(f"how many there are of {what}", len(found), len(certified))
            for at, (own, other) in enumerate(zip(found, certified, strict=True)):
                alike(f"{what}, {at}", own, other, apart)
        case _:
            equal(what, found, certified)


def _near(found: float, certified: float, apart: float) -> bool:
    return math.isclose(found, certified, rel_tol=ROUNDED, abs_tol=apart or ROUNDED**2)


def difference(what: str, found: object, recorded: object) -> str:
    """A sentence on what differs: within objects the first field, since whole objects would be cut short."""
    ours, theirs = _fields(found), _fields(recorded)
    if ours is not None and theirs is not None:
        names = {**ours, **theirs}
        first = next(name for name in names if name not in ours or name not in theirs or ours[name] != theirs[name])
        return difference(f"{what}, {first}", ours.get(first), theirs.get(first))
    if isinstance(found, tuple) and isinstance(recorded, tuple):
        others = tuple(part for part in recorded if part not in found)
        found, recorded = tuple(part for part in found if part not in recorded), others
        if not found and not recorded:
            return f"{what} is in another order than it was recorded"
        if len(found) == len(recorded) == 1:
            return difference(what, *found, *recorded)
    return f"{what} is {_short(found)}, but it was recorded as {_short(recorded)}"


def _fields(value: object) -> Mapping[str, object] | None:
    """The fields of an object by name; None for any other value."""
    match value:
        case BaseModel():
            return dict(value)
        case Mapping():
            return value
    return None


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def proved(settings: Mapping[str, Any], claim: tuple[float, float], of: str = "") -> str:
    """Check that settings state a claim (ε, δ), if they state any, and prove it. Raises NotVerified.

    of   whose settings they are, in the words of a sentence
    """
    kind = Kind.of(settings)
    for term, claimed, stated in zip(("epsilon", "delta"), claim, kind.claim, strict=True):
        equal(f"the {term} that is claimed{of}", claimed, claimed if stated is None else stated)
    if kind.classes == 0:
        stated_bounds(kind)
    epsilon, delta = claim
    least = _least_delta(json.dumps(settings, sort_keys=True), epsilon)
    if not least <= delta * SLACK:
        raise NotVerified(f"at ε = {epsilon:g} the settings{of} prove δ = {least:.6g}, claimed {delta:g}")
    return f"at ε = {epsilon:g} the settings prove δ = {least:.6g}; claimed: {delta:g}"


def stated_bounds(kind: Kind) -> tuple[float, float]:
    """The bounds of a number that the settings state. Raises NotVerified if there are none."""
    match kind.bounds:
        case [low, high] if low < high:
            return low, high
    raise NotVerified("the label is a number, and the settings do not state what it lies between")


@lru_cache(maxsize=256)
def _least_delta(settings: str, epsilon: float) -> float:
    """What the same settings of any number of sessions prove."""
    return least_delta(Kind.of(json.loads(settings)), epsilon)


def of_home(held: HomeContents, ledger: Reading) -> list[Check]:
    """The checks of what the home holds, and of the sessions that the ledger knows and this home never opened."""
    name, found, others = "the home's sessions", [*held.denied_by(ledger)], held.others(ledger)
    if found:
        checks = [Check(name=name, ok=False, detail=f"{'; '.join(found)}: {AGAIN}")]
    else:
        checks = [Check(name=name, ok=True, detail="the ledger knows every session that the home holds")]
    if others:
        detail = f"the ledger serves other homes as well: verify there {named(others)}"
        checks.append(Check(name="other homes", ok=True, warning=True, detail=detail))
    return checks


BY_ONE = (("round", "a round"), ("answer", "an answer"))
"""Releases with one file per batch, in a folder of that name, and what to call one."""


def committed(subject: CheckedSession) -> str:
    """Check that the session's released files are those the ledger committed, and that no other one holds an answer."""
    session, released = subject.session, subject.released
    files = _named_in(released, f"{session.id}/labels", "*.arrow")  # before the ledger, which a file comes after
    by_one = {folder: _named_in(released, f"{session.id}/{folder}s", "*") for folder, _ in BY_ONE}
    batches = subject.ledger.batches(session.id)
    refs = [batch.outcome.released for batch in batches if batch.outcome]
    for ref in refs:
        released.read(ref)
    begun = {labels_path(session.id, batch.index) for batch in batches if batch.outcome is None}
    for folder, kind in BY_ONE:
        pending = {f"{session.id}/{folder}s/{folder}-{item.index:05d}.json" for item in batches if item.outcome is None}
        for path in sorted(by_one[folder] - pending - {ref.path for ref in refs}):
            raise NotVerified(f"the released file {path} is of {kind} that the ledger never committed: it was cut back")
    for path in sorted(files - begun - {ref.path for ref in refs}):
        if holds_answers(released, path):
            raise NotVerified(
                f"the released file {path} holds answers that the ledger never committed: it was cut back"
            )
    for term in ("cutoff", "queries"):
        if (stated := getattr(Kind.of(session.mechanism), term)) is not None:
            equal(term, getattr(session, term), stated)
    return f"{len(refs)} files are as committed"


def _named_in(released: Released, folder: str, pattern: str) -> set[str]:
    return {f"{folder}/{file.name}" for file in (released.root / folder).glob(pattern)}


def holds_answers(released: Released, path: str) -> bool:
    """Whether a released file holds an answer: any does but a table of rows that were not asked, since they came after
    the end of a session and cost nothing."""
    ref = released.find(path)
    if not path.endswith(".arrow"):
        return ref is not None
    try:
        return ref is not None and pc.any(pc.not_equal(released.labels([ref])["outcome"], "not asked")).as_py() is True
    except (ValueError, KeyError):  # no table of labels
        raise NotVerified(f"the released file {path} is not what was written") from None


def run_files(subject: CheckedSession) -> str:
    """Certificate, report and figures: MLflow's copies, and the released files, are as they were logged."""
    run = _run(subject)
    logged = logged_digests(run.tags)
    for name, digest in logged.items():
        if run.files.get(name) != digest:
            raise NotVerified(f"MLflow's file {name} is not what was logged")
        released = subject.released.find(f"{subject.session.id}/{name}")
        if subject.latest and (released is None or released.digest != digest):
            raise NotVerified(f"the released file {subject.session.id}/{name} is not what was logged")
    for name in run.files.keys() - logged.keys():
        raise NotVerified(f"MLflow's file {name} was never logged")
    return f"{len(logged)} files are as logged"


def model(subject: CheckedSession) -> str:
    """The student is registered as it was logged, under the certificate's words and tags, and is the one it digests."""
    run = _run(subject)
    certificate = _certificate(run)
    if certificate.versions.get("concord") == __version__:  # another one words it otherwise
        equal("the registered model's description", run.model_description, guarantee_text(certificate))
    _all_equal("model tag", run.model_tags, tags(certificate))
    if run.model_files.get(MODEL_FILE) != certificate.student.file.digest:
        raise NotVerified(f"the registered model's {MODEL_FILE} is not the student that was certified")
    if listing(run.model_files) != run.model_tags.get("digest.model"):
        raise NotVerified("the registered model's folder is not what was registered")
    return f"{len(run.model_files)} files are as registered, and the student is the certified one"


def run_figures(subject: CheckedSession) -> str:
    """The guarantee and the figures that MLflow shows are the certificate's, and its guarantee is the ledger's."""
    run = _run(subject)
    certificate = _certificate(run)
    content, epsilon = content_of(certificate), subject.session.epsilon
    equal("MLflow's guarantee", certificate.leading.guarantee.epsilon, epsilon)
    note = {NOTE: guarantee_text(certificate)} if certificate.versions.get("concord") == __version__ else {}
    _all_equal("tag", run.tags, {**tags(certificate), **note})
    equal("MLflow's list of parameters", sorted(run.params), sorted(content.params))
    _all_equal("parameter", run.params, content.params)
    equal("MLflow's list of metrics", sorted(run.metrics.keys() - set(SERIES)), sorted(content.metrics))
    _all_equal("metric", run.metrics, content.metrics)
    for name in SERIES:
        if name.startswith("epsilon") and not 0 <= run.metrics.get(name, 0) <= epsilon:
            raise NotVerified(f"MLflow's series {name} passes the guarantee")
    return f"{len(content.metrics)} metrics, the parameters and the tags are as certified"


def _all_equal(kind: str, found: Mapping[str, object], certified: Mapping[str, object]) -> None:
    for name, value in certified.items():
        equal(f"MLflow's {kind} {name}", found.get(name), value)


def _run(subject: CheckedSession) -> Recorded:
    if subject.run is None:
        raise NotVerified(
            f"MLflow has no finished run of session {subject.session.id}: a run of its plan records it again, and "
            "spends nothing"
        )
    return subject.run


def _certificate(run: Recorded) -> Certificate:
    return Certificate.read(run.certificate, "MLflow's certificate.json")
