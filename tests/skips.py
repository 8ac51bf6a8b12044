"""What may be skipped where everything is installed, with the reason for each: with `--no-skips`, as CI runs, another
skip is a failure."""

import pytest

MAY_BE_SKIPPED = {
    "the tables of Adult are not there": "UCI's data are not this project's to give: CI writes them where it has them",
    "no disk can be mounted here": "a container mounts a disk only if its host lets it",
    "it takes two users": "only root can act for another user; CI is root",
}
"""What the sentence of a skip begins with, and why that skip may be."""


def failed_unless_listed(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skip that is not listed above into one of a failure."""
    if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return
    reason = str(report.longrepr[2]).removeprefix("Skipped: ")
    if not reason.startswith(tuple(MAY_BE_SKIPPED)):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {reason}. Install what it needs, or list it in tests/skips.py"
