"""The stages of a run whose student is chosen (`tasks.door.choose`): with labels bought as well, or without a vote."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any

from concord.artifacts.privacy import compose
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.flows import work
from concord.flows.keys import Public, only
from concord.flows.outcome import Summary
from concord.flows.pipeline import UNITS, Pipeline
from concord.tasks.asking import teachers as asking_teachers
from concord.tasks.door.admit import Asked, check_ensemble, claim, going_on, planned_domain, reserve_session, spent
from concord.tasks.door.choose import UniversalChoice, choice_depends_on
from concord.tasks.door.release import RUN, alone
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.student.study import Student


class Choosing(Pipeline):
    """One run whose student is chosen in a session of its own, `choice`.

    Where the plan asks for labels as well (Nandi & Bassily 2020, universal labelling), theirs is a second session. The
    plan asks for both explicitly and they are admitted together, before anything private is read.
    """

    choice: Session | None

    def rehearse(self, encoding: Encoding) -> None:
        """Raise WrongInput where teachers or test table would fail later."""
        if self.plan.votes:
            asking_teachers.rehearse_teachers(self.plan.teachers, encoding)
        self.rehearse_test(encoding)

    def admit(self, public: Public) -> Public:
        """Find the sessions this plan goes on with, or make sure that they may be opened."""
        if self.plan.votes:
            stream = super().admit(public)
        else:
            self.session = None
            self.domain = planned_domain(self.door, self.plan)
            self.spent_before = spent(self.door, self.domain)
            stream = self.walk(public.encoding, (self.own(public),))
        chooser = UniversalChoice.of(self.plan, stream.encoding, stream.batches, self.door.vault)
        self._find_choice(chooser, stream)
        self.wait_for(self.choice_asked.identity)
        for item in (chooser, chooser.earlier, chooser):
            if self.choice is None:
                self._find_choice(item, stream)
        self._check_openings()
        if self.choice is not None:
            self._hold_choice(self.choice.id)
        return stream

    def check_opening(self) -> None:
        """The labels are not admitted by themselves, but with the choice."""

    def count(self, public: Public) -> Ref:
        """Errors of every candidate on the private rows; refused where those are not what the session opened with."""
        self.name_private()
        view = only(self.plan, *UNITS, "student", "privacy.epsilon")
        counts: Ref = self.stages.one(
            work.count,
            plan=view,
            table=self.table,
            encoding=public.encoding,
            batches=public.batches,
            erased=self.erased,
        )
        if self.choice is not None:
            check_ensemble(self.door.vault, self.choice, (counts.digest,))
        return counts

    def open_choice(self, public: Public, counts: Ref) -> None:
        """Reserve the cost of the choice where its session is not open yet, and keep what it is made from."""
        claim(self.door, self.plan, self.files_with_rows)
        if self.choice is None:
            session = reserve_session(self.door, self.choice_asked, (counts.digest,), new_session=self._further)
            self._hold_choice(session.id)
        self.keep(self._choice, public, (counts,))

    def choose(self, public: Public, counts: Ref) -> Ref:
        """The door: choose once and publish; or replay what was published before."""
        session, classes = self._choice, self.plan.data.classes
        self.chosen_before = session.asked
        chosen: Ref
        chosen, self.choice = self.at_the_door(
            "choose", session, lambda: work.choose(self.home, session, self.chooser, public.batches, counts, classes)
        )
        return chosen

    def study_chosen(self, public: Public, chosen: Ref) -> Student:
        """The student that the hypothesis is, tried on public test rows where there are any."""
        given = {"encoding": public.encoding, "chosen": chosen, "test": self.test}
        student: Student = self.stages.one(work.study_chosen, session=self._choice.id, **given)
        return student

    def certify_chosen(self, public: Public, labels: Sequence[Ref], chosen: Ref, student: Student) -> Summary:
        """Certificate, report and MLflow run of the choice, with the labels bought beside it."""
        others = {} if self.session is None else {self.session.id: list(labels)}
        asked_now = self._choice.asked - self.chosen_before
        summary = self.write_up(self._choice, None, public, [chosen], student, asked_now=asked_now, beside=others)
        return summary if self.session is None else summary.model_copy(update=_of_labels(self.session, summary))

    @property
    def _choice(self) -> Session:
        if self.choice is None:
            raise RuntimeError("the session of the choice is opened at the door, before anything is published")
        return self.choice

    @property
    def _further(self) -> bool:
        """Whether one more session may be opened: for labels that no student was chosen for yet, the choice is not a
        further one, since the plan asks for both."""
        return self.new_session or (self.session is not None and not self._chosen_for(self.session))

    def _chosen_for(self, labels: Session) -> bool:
        """Whether a student was chosen after those labels were bought: another one is chosen beside labels anew."""
        since = dropwhile(lambda session: session.id != labels.id, self.door.ledger.sessions(labels.domain))
        return any(item.mechanism["name"] == Universal.name for item in since)

    def _check_openings(self) -> None:
        """Raise BudgetRefused where what the plan lacks may not be opened, all of it at one price; spends nothing."""
        lacking: list[Asked] = []  # and what --new-session would buy anew, where that is what is missing
        if self.plan.votes and (self.session is None or (self.choice is None and not self._further)):
            lacking.append(self.asked)
        if self.choice is None:
            lacking.append(self.choice_asked)
        if lacking:
            openings = [missing.opening() for missing in lacking]
            claimed = sum(opening.epsilon for opening in openings), sum(opening.delta for opening in openings)
            cost = compose([opening.whole for opening in openings])
            whole = replace(openings[0], whole=cost, epsilon=claimed[0], delta=claimed[1])
            self.door.ledger.check_opening(whole, self.domain, further=self._further)

    def _find_choice(self, chooser: UniversalChoice, stream: Public) -> None:
        """The session in which `chooser` is asked, if there is one."""
        self.chooser = chooser
        depends = choice_depends_on(self.plan, chooser, stream.batches)
        self.choice_asked = Asked.once(self.plan, chooser, stream.encoding, self.door.vault, depends)
        self.choice = going_on(self.door, self.choice_asked, new_session=self.new_session)

    def _hold_choice(self, session: str) -> None:
        self._held.enter_context(alone(self.door.vault, session, RUN))
        self.choice = self.door.ledger.session(session)


def _of_labels(session: Session, summary: Summary) -> dict[str, Any]:
    """What a summary says of rows and teachers, from the session of the labels; and the guarantee of both together."""
    together = {
        "epsilon": summary.guarantee["epsilon"] + session.epsilon,
        "delta": summary.guarantee["delta"] + session.delta,
    }
    details = {name: getattr(session, name) for name in ("teachers", "asked", "answered", "refused")}
    return {**details, "guarantee": summary.guarantee | together}


def choose(line: Choosing) -> Summary:
    """Nobody votes: the student is chosen by its errors on the private rows."""
    public = line.encode()
    stream = line.admit(public)
    counts = line.count(stream)
    line.open_choice(stream, counts)
    chosen = line.choose(stream, counts)
    student = line.study_chosen(stream, chosen)
    return line.certify_chosen(stream, [], chosen, student)


def choose_beside_labels(line: Choosing) -> Summary:
    """Public rows are labelled by votes, and the student is chosen among all that tell those rows apart."""
    public = line.encode()
    stream = line.admit(public)
    shards = line.split(stream)
    trained = line.relabel(stream, shards)
    teachers = line.teach(stream, trained)
    votes = line.poll(stream, teachers)
    counts = line.count(stream)
    line.open(stream, trained, teachers)
    line.open_choice(stream, counts)
    labels = line.release(stream, votes)
    chosen = line.choose(stream, counts)
    student = line.study_chosen(stream, chosen)
    return line.certify_chosen(stream, labels, chosen, student)
