"""What commands and the calls of `api` return: the results of a run, the answer to a question, the budget, the
checks of what was written, and an erasure.

Checked by tests/flows/test_api.py
"""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from concord.artifacts.errors import EnvironmentFailed, WrongInput, in_one_line

if TYPE_CHECKING:  # heavy packages are imported when a result is read
    import polars

    from concord.artifacts.certificate import Certificate
    from concord.artifacts.domains import Domain
    from concord.artifacts.ledger.ledger import Ledger
    from concord.artifacts.ledger.reading import Reading
    from concord.artifacts.sessions import Session
    from concord.flows.outcome import Summary
    from concord.tasks.verify.checks import Check


BRIEFLY = ("session", "guarantee", "student", "private test", "budget", "report")
"""The facts that a notebook shows of a run."""


class Run:
    """The result of a run. All of it is published except `summary`, which is the operator's and has the durations of
    stages."""

    def __init__(self, summary: Summary, home: Path) -> None:
        self.summary, self.home = summary, home

    def _repr_html_(self) -> str:
        """How a notebook shows it: its warnings, then guarantee, performance and cost."""
        warnings = "".join(f"<p><b>Warning:</b> {escape(text)}.</p>" for text in self.summary.warnings)
        facts = self._facts.items()
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
        return f"{warnings}<table>{rows}</table>"

    def __repr__(self) -> str:
        """The same in lines, for a console."""
        warnings = [f"Warning: {in_one_line(text)}." for text in self.summary.warnings]
        return "\n".join([*warnings, *(f"{name}: {in_one_line(text)}" for name, text in self._facts.items())])

    @property
    def _facts(self) -> dict[str, str]:
        from concord.flows.outcome import facts

        return {label: text for label, text in facts(self.summary).items() if label in BRIEFLY}

    @property
    def session(self) -> str:
        """The session's name, as the command line takes it."""
        return self.summary.session

    @property
    def not_asked(self) -> int:
        """Number of the session's public rows that it does not pay for."""
        return self.summary.not_asked

    @property
    def report_path(self) -> Path:
        """The report, one HTML file that opens offline."""
        return Path(self.summary.report)

    @cached_property
    def certificate(self) -> Certificate:
        """The guarantee and everything it rests on. Raises NotVerified if the file is not what this run wrote."""
        from concord.artifacts.certificate import Certificate
        from concord.artifacts.home.released import Released
        from concord.artifacts.schemas import Ref

        released = Released(self.home)
        path = Path(self.summary.certificate).relative_to(released.root)
        ref = Ref(path=str(path), digest=self.summary.certificate_digest)
        return Certificate.model_validate_json(released.read(ref))

    @cached_property
    def student(self) -> Any:
        """The fitted scikit-learn classifier, as `load_student` returns it. Raises NotVerified."""
        from concord.artifacts.home.released import Released
        from concord.tasks.student.model import AnyRows, load

        return AnyRows(load(Released(self.home).read(self.certificate.student.file)).steps)

    @cached_property
    def labels(self) -> polars.DataFrame:
        """The released labels of all public rows, with columns as in `artifacts.home.released.labels_schema`.

        For tallies, the inferred labels, as in `artifacts.home.released.inferred_schema`.
        Raises WrongInput if there are no labels, as for a universal student without votes.
        """
        import polars

        from concord.artifacts.home.released import Released

        if not (tables := self.certificate.tables):
            raise WrongInput("labels: this run released none, because its student was chosen")
        return polars.DataFrame(Released(self.home).labels(tables))


class Answer:
    """The result of a question. All of it is published except `details`, which is the operator's and has the durations
    of stages.

    outcome   answered; no answer, if most shards had none; or refused, if shards disagree
    """

    def __init__(self, details: dict[str, Any]) -> None:
        self.details = details
        self.question: str = details["question"]
        self.session: str = details["session"]
        self.outcome: str = details["outcome"]
        self.spent_now: dict[str, float] = details["spent_now"]

    @property
    def value(self) -> Any:
        """The common answer; None unless there is one."""
        from concord.tasks.asking.answers import from_plain

        return from_plain(self.details["answer"])

    @cached_property
    def certificate(self) -> Certificate:
        """The guarantee of its session, and the outcomes of all questions asked in it so far."""
        from concord.artifacts.certificate import Certificate

        return Certificate.model_validate_json(self.details["certificate_text"])

    def __repr__(self) -> str:
        guarantee = self.details["guarantee"]
        result = repr(self.value) if self.outcome == "answered" else self.outcome
        return f"{self.question}: {result} (ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g}, {self.session})"


def budget_of(home: Path) -> dict[str, Any]:
    """Every domain of the ledger with its cap, the amounts spent and remaining, and its sessions. Raises NotVerified if
    the ledger denies what the home holds."""
    from concord.artifacts.ledger.home_contents import HomeContents, checked_ledger

    contents, ledger = HomeContents(home), checked_ledger(home)

    def listed(now: Reading) -> dict[str, Any]:
        unpublished = contents.unpublished(now)
        return {"domains": [_domain(domain, now, unpublished) for domain in now.domains()]}

    return ledger.at_once(listed)


def _domain(domain: Domain, ledger: Reading, unpublished: Container[str]) -> dict[str, Any]:
    """A domain with its sessions, of which some are charged and `unpublished`."""
    from concord.artifacts.guarantee import DomainCharge

    rule, division = domain.filter, ledger.division(domain.name)
    amounts = DomainCharge.of(domain, ledger).model_dump(include={"cap", "spent", "remaining", "parts"})
    parts, charged = amounts.pop("parts"), ledger.total(domain.name).renyi
    sessions = []
    for session in ledger.sessions(domain.name):
        finishing = None
        if session.id in unpublished:
            from concord.tasks.asks.kinds import finished_by  # it loads scikit-learn, which takes a second

            finishing = finished_by(session)
        sessions.append(_session(domain, session, ledger) | {"finished_by": finishing})
    return {
        "name": domain.name,
        "unit": domain.unit,
        "neighbours": domain.neighbours,
        **amounts,
        "conversion": rule.conversion if any(amounts["spent"].values()) else 0.0,
        "renyi": {"order": rule.order, "budget": str(rule.budget), "charged": str(charged)},
        # The domain's charge is that of its largest part.
        "parts": division and {"share": division.share, "naming": division.naming, "spent": parts},
        "sessions": sessions,
    }


def session_of(ledger: Ledger, name: str) -> dict[str, Any]:
    """The session of that id, as `budget_of` lists it. Raises WrongInput if the ledger has no such session."""
    session = ledger.session(name)
    return _session(ledger.domain_of(session), session, ledger)


def _session(domain: Domain, session: Session, ledger: Reading) -> dict[str, Any]:
    settled = None if session.settled is None else _pair(domain.filter.spent(session.settled))
    return {
        "id": session.id,
        "mechanism": session.facts.name,
        "claim": {"epsilon": session.epsilon, "delta": session.delta},
        "reserved": _pair(domain.filter.spent(session.reserved)),
        "settled": settled,
        "asks": session.asks,
        "asked": session.asked,
        "answered": session.answered,
        "refused": session.refused,
        "status": session.status,
        "part": ledger.part_of(session.id),
        "stream": ledger.stream_of(session.id),
    }


def _pair(amounts: tuple[float, float]) -> dict[str, float]:
    return {"epsilon": amounts[0], "delta": amounts[1]}


def erased(home: Path, domain: str, unit: str | None) -> dict[str, Any]:
    """Erase a unit, or every unit, of a domain. Returns the details, with what its sessions have published. Raises as
    `tasks.door.erase`."""
    from concord.artifacts.mlflow.read import Records
    from concord.artifacts.stores import Stores
    from concord.tasks.door.erase import erase

    stores = Stores.of(home)
    now = erase(stores, domain, unit)
    try:
        records = Records.of(home)
        published = [
            {"session": session.id, "labels": session.answered, "models": records.models(session.id)}
            for session in stores.ledger.sessions(domain)
        ]
    except EnvironmentFailed as failed:
        what = f"the data of domain {domain!r} are erased as asked, but its published models cannot be listed"
        raise EnvironmentFailed(f"{what}: {failed}") from None
    lasting = [session.id for session in stores.ledger.sessions(domain) if session.stream and session.status == "open"]
    details = {"domain": domain, "erased_now": now, "left_out": unit is not None, "published": published}
    return details | {"goes_on": lasting}


def checks_of(
    subject: str | None, home: Path, test: str | None = None, key: str | None = None, kept: Path | None = None
) -> list[Check]:
    """The checks of a session, a run or everything in a home, or of a published folder anywhere.

    key    the key that must have signed, as `PublicKey.named` takes it
    kept   a published folder that the home's ledger, or the later folder that is checked, must not contradict
    """
    from concord.tasks.verify.checks import VERIFY_FOLDER, limited

    trusted = None
    if key is not None:
        from concord.artifacts.home.signing import PublicKey

        trusted = PublicKey.named(key)
    if subject is not None and Path(subject).exists():
        checks = limited((VERIFY_FOLDER, (subject, test, trusted, kept and str(kept))))
        if checks:
            return checks
    from concord.flows.home import reopen

    try:
        home = reopen(home, reading=True)
    except EnvironmentFailed as absent:
        raise EnvironmentFailed(
            f"{subject} contains nothing published, and {absent}" if subject else str(absent)
        ) from None
    from concord.tasks.verify.verify import verify, verify_kept

    checks = [] if kept is not None and subject is None else verify(home, subject, test, trusted)
    return checks if kept is None else [*checks, *verify_kept(home, kept, trusted)]
