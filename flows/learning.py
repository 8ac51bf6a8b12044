"""The ways for a plan's student to learn from private rows: by votes, by tallies, or by a choice among hypotheses.

They differ in the steps of `Learning` and in nothing else: `flows.learn` runs each of them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic

from concord.artifacts.domains import Domain
from concord.artifacts.schemas import PublicRows
from concord.artifacts.sessions import Session
from concord.flows.run import Admitted, Asking, Balance, Counted, PrivateFiles, PublicStream, RunContext
from concord.flows.stage import Disclosure
from concord.tasks.data.codes import Codes
from concord.tasks.door.admit import check_same_mechanism
from concord.tasks.door.checkpoint import Checkpoint
from concord.tasks.publish.track import column_types
from concord.tasks.student.study import Student


@dataclass
class Learning(ABC, Generic[Asking]):
    """One way, for one run.

    public  the encoding, and the plan's own public rows
    codes   codes by which the decoded model of tallies reads a row, once they are known; None for other ways
    """

    run: RunContext
    public: PublicRows
    codes: Codes | None = None

    @abstractmethod
    def rehearse(self) -> None:
        """Raise WrongInput now, while nothing is spent, if a later step would fail."""

    @abstractmethod
    def ask(self, domain: Domain) -> Asking:
        """What the plan asks of its private rows, in a domain."""

    @abstractmethod
    def count(self, admitted: Admitted[Asking], private: PrivateFiles) -> Counted:
        """Compute what the session answers from. Raises NotVerified if it was opened with other private data."""

    @abstractmethod
    def release(self, session: Session, admitted: Admitted[Asking], counted: Counted) -> Disclosure:
        """Pass the door, or replay what passed it."""

    @abstractmethod
    def fit(self, run: RunContext, admitted: Admitted[Asking], passed: Disclosure, where: str) -> Student:
        """The student of that run's plan, in the folder `where` of released files."""


class Resumable(Learning[Asking]):
    """A way whose session can be looked at again: tested, extended, learned from once more."""

    @abstractmethod
    def ask(self, domain: Domain, session: Session | None = None) -> Asking:
        """What the plan asks, or what it asked in the session that goes on."""

    def resume(self, session: Session, checkpoint: Checkpoint) -> Admitted[Asking]:
        """An open session that goes on, with all rows of its checkpoint.

        Raises NotVerified if it would not go on as it began or rows are gone, WrongInput if its tables no longer fit.
        """
        run, domain = self.run, self.run.stores.ledger.domain_of(session)
        ask = self.ask(domain, session)
        check_same_mechanism(run.stores.vault, session, ask.settings())
        self.rehearse()
        column_types(run.plan.path("public"), checkpoint.encoding)  # checked now: MLflow needs them after the spend
        stream = PublicStream.of(run, session, checkpoint.encoding, checkpoint.sources)
        return Admitted(Balance.of(run, domain), ask, stream, session)

    @abstractmethod
    def replay(self, session: Session, admitted: Admitted[Asking]) -> Disclosure:
        """What the session released. Raises WrongInput if some of it is still to be asked."""


AnyLearning = Learning[Any]
