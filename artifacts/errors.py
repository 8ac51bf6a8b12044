"""Errors, one class per exit status. Every message is one sentence for the person at the console.

Checked by tests/artifacts/test_errors.py.
"""

from typing import ClassVar


class ConcordError(Exception):
    """The root of all errors here: the console prints its sentence and exits with `exit_status`.

    It carries its sentence and nothing else. The exception it was raised from may hold private values; `from None`
    hides them from tracebacks only, and some picklers, Prefect's among them, keep both attributes.
    """

    exit_status: ClassVar[int] = 1
    __context__ = __cause__ = property(lambda _: None, lambda _, __: None)


class EnvironmentFailed(ConcordError):
    """The machine refused: disk, permission, server. Nothing is wrong with the plan."""

    exit_status = 1


class WrongInput(ConcordError):
    """The plan or a public table is wrong: names the field, the value and the rule."""

    exit_status = 2


class BudgetRefused(ConcordError):
    """The domain's budget does not cover what was asked, or a further session was not asked for."""

    exit_status = 3


class NotCovered(BudgetRefused):
    """The domain's budget does not cover the session, whether or not a further one was asked for."""


class NotVerified(ConcordError):
    """A file or record is not what was written: fail closed, spend nothing."""

    exit_status = 4


class NotKept(ConcordError):
    """A replay would have to compute, draw or write something: the run is made in full (flows/replay.py)."""
