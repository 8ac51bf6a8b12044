"""The command that finishes a session which is charged and not published.

Such a session was opened by a command that was killed, or failed, before its end (`artifacts.ledger.held`). Before a
further session of the same plan is opened, it is finished (`tasks.door.admit.find_session`).
Checked by tests/promises/test_killed_further.py
"""

from concord.artifacts.sessions import STUDENT_TEST, Session
from concord.tasks.asks.counts import CountsAsk
from concord.tasks.asks.estimate import EstimateAsk
from concord.tasks.asks.questions import QuestionsAsk
from concord.tasks.asks.share import ShareAsk

COMMANDS = {
    EstimateAsk.purpose: "concord estimate PLAN",
    CountsAsk.purpose: "concord count PLAN",
    ShareAsk.purpose: "concord contribute PLAN",
    QuestionsAsk.purpose: "concord.ask",
}
"""By the purpose of a session; any other is finished by what runs its plan, or tests its student."""


def finished_by(session: Session) -> str:
    """The command that finishes a session, with the words that it is given in place of names."""
    if session.purpose == STUDENT_TEST and not session.stream:
        return f"concord test {session.kind.session}"
    runs = "lead" if session.kind.lead else "refresh" if session.stream else "run"
    return COMMANDS.get(session.purpose, f"concord {runs} PLAN")


def unfinished_in_words(session: Session) -> str:
    """A sentence about a session that is charged and not published."""
    return (
        f"it is charged and not published: `{finished_by(session)}` finishes it and charges nothing more; "
        f"`concord close {session.id}` ends it"
    )
