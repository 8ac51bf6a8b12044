"""Learning by a universal student (`tasks.asks.hypothesis`), chosen by private errors.

The choice has a session of its own. If the plan asks for labels as well (Nandi & Bassily 2020, universal labelling),
those have another session, and both are admitted together (flows.learn).
"""

from functools import partial

from concord.artifacts.domains import Domain
from concord.artifacts.sessions import Session
from concord.flows import stages
from concord.flows.admit import check_unchanged
from concord.flows.learning import Learning
from concord.flows.run import Admitted, Counted, PrivateFiles, RunContext
from concord.flows.stage import Disclosure, pass_door
from concord.flows.stages import study_chosen
from concord.flows.steps import rehearse
from concord.tasks.asks.hypothesis import HypothesisAsk
from concord.tasks.door.door import release_once
from concord.tasks.student.study import Student


class ByHypothesis(Learning[HypothesisAsk]):
    """The student is chosen by its errors on the private rows."""

    def rehearse(self) -> None:
        """Raise WrongInput if the test table would fail."""
        rehearse(self.run, self.public.encoding)

    def ask(self, domain: Domain) -> HypothesisAsk:  # noqa: ARG002, since it costs the same in any
        """The choice among the hypotheses that differ on the public rows."""
        return HypothesisAsk.of(self.run.plan, self.public.encoding, self.public.batches, self.run.stores.vault)

    def count(self, admitted: Admitted[HypothesisAsk], private: PrivateFiles) -> Counted:
        """Count the errors of every candidate."""
        run, stream = self.run, admitted.stream
        counts = stages.count(run, run.plan, private.table, stream.encoding, stream.batches, run.erased)
        check_unchanged(run, admitted.session, (counts.digest,))
        return Counted((counts.digest,), [counts])

    def release(self, session: Session, admitted: Admitted[HypothesisAsk], counted: Counted) -> Disclosure:
        """Choose once."""
        chosen = partial(release_once, ask=admitted.ask, exact=counted.kept)
        return pass_door(self.run, session, chosen, "choose")

    def fit(self, run: RunContext, admitted: Admitted[HypothesisAsk], passed: Disclosure, where: str) -> Student:
        """The hypothesis itself."""
        stream = admitted.stream
        return study_chosen(run, where, stream.encoding, stream.batches, passed.released[0], run.test)
