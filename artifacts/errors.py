"""Errors, one class per exit status, each one sentence for the person at the console; how words of others print; and
the names that 2.0.0 no longer has.

Names of classes, columns, types, domains and files may come from strangers. As they are, they could clear a terminal,
pass for lines of ours, hide another address, or turn the direction of writing.

Guarantees   of `in_one_line` and `in_lines`, only printable letters and JOINERS reach a terminal or a text; `in_json`
             loses nothing. Every error of ours, both consoles and all files in words go through them
Not covered  letters that look like others. Checked by tests/artifacts/test_errors.py and
             tests/flows/cli/test_strangers_words.py
"""

import errno
import json
import resource
from collections.abc import Callable, Sequence
from typing import ClassVar

OF_ANOTHER = (
    "was written by another version of Concord: 2.0.0 reads homes and folders of 2.0.0 alone; keep the older version "
    "for older ones"
)
"""The end of a sentence about a home, or a published folder, of another format."""


class ConcordError(Exception):
    """The root of all errors here: the console prints its sentence, on one line, and exits with `exit_status`.

    It carries its sentence and nothing else. The exception it was raised from may hold private values; `from None`
    hides them from tracebacks only, and some picklers, Prefect's among them, keep both attributes.
    """

    exit_status: ClassVar[int] = 1
    __context__ = __cause__ = property(lambda _: None, lambda _, __: None)

    def __init__(self, sentence: str) -> None:
        super().__init__(in_one_line(sentence))


class EnvironmentFailed(ConcordError):
    """The machine refused: disk, permission, server. Nothing is wrong with the plan."""

    exit_status = 1


def refused(what: str, failed: OSError) -> EnvironmentFailed:
    """The error that something cannot be done; or its true cause, if too many files are open for anything to be."""
    if failed.errno in (errno.EMFILE, errno.ENFILE):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return EnvironmentFailed(
            f"too many files are open: this process may open {most}, by `ulimit -n`; allow more, such as 1024"
        )
    return EnvironmentFailed(f"{what}: {failed.strerror}")


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


SHOWN_NAMES = 20
"""Most names that a sentence lists."""
JOINERS = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""Letters of honest words that Python does not call printable."""


def is_printable(text: str) -> bool:
    """Whether a text is printed as it is."""
    return in_one_line(text) == text


def in_one_line(text: str) -> str:
    """A text on one line: a line break, or any other letter that cannot be printed, becomes �."""
    return _with_others(text, lambda _: "\N{REPLACEMENT CHARACTER}")


def single_spaced(text: str) -> str:
    """A text on one line, its words apart by single spaces."""
    return in_one_line(" ".join(text.split()))


def in_lines(text: str) -> str:
    """A text whose line breaks are ours, each line as `in_one_line`."""
    return "\n".join(map(in_one_line, text.split("\n")))


def in_json(value: object) -> str:
    """JSON on one line, whose letters that cannot be printed are escaped."""
    return _with_others(json.dumps(value, ensure_ascii=False), lambda letter: json.dumps(letter)[1:-1])


def quoted(names: Sequence[str]) -> str:
    """Names in quotes; the first, if there are many."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(map(repr, names[:SHOWN_NAMES])) + more


def _with_others(text: str, other: Callable[[str], str]) -> str:
    """The text with another in place of each letter that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in JOINERS else other(letter) for letter in text)


GONE: dict[str, str] = {
    "data.format.quote": 'a CSV cell is quoted by " alone; write a table with other quotes, or none, as Parquet',
    "data.format.quoted_line_breaks": "a line of a CSV file is a row; write cells with line breaks as Parquet",
    "data.most_unknown_labels": "data.most_unknown is the threshold of every column",
    "relabel.form": "rows are resampled within each shard, so that each reaches one teacher",
    "data.private.delta": "name the files of the table, such as Parquet, or a query",
    "data.public.delta": "name the files of the table, such as Parquet, or a query",
    "data.test.delta": "name the files of the table, such as Parquet, or a query",
    "privacy.lifetime.filter": "charges add up by Rényi order",
    "concord count": "`concord.ask` asks the shards, and a plan with data.schema releases noisy tables",
    "concord serve": "call `concord extend` or `concord refresh` from the machine's cron, or deploy prefect.yaml",
    "concord link": "a table belongs to one domain, and each domain's cap is promised by itself",
    "homes": "a plan is of one holder of private rows",
    "concord lead": "a plan is of one holder of private rows",
    "concord contribute": "a plan is of one holder of private rows",
    "concord homes": "a plan is of one holder of private rows",
    "concord test": "the plan's [test] share sets units aside, and `concord run PLAN` tests its student on them once",
    "concord attack": "the curve on the report's first page bounds every attacker, and tests/privacy attacks each kind",
    "concord audit": "attacks on every mechanism are tests, in tests/privacy of Concord's source",
    "student.candidates": "compare on the public test table; [test] share tests each session's student, at its price",
    "concord certify": "the report answers what reviewers ask, and `concord export` writes a model card",
    "concord dossier": "the report answers what reviewers ask, and `concord verify` checks it",
    "concord explain": "the report shows feature effects, and `concord export` writes the scorecard",
}
"""Names of 1.x that 2.0.0 does not have, each with the alternative: keys of the plan; commands as `concord NAME`."""
