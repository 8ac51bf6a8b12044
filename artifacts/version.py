"""The version of Concord: of the package, and of what ledger and certificates say they were written by."""

import re

VERSION = "0.2.0"

UNSAID = "0.1.0"
"""The version of whatever does not say: the ledger names the version that opened a session since 0.2.0."""


def is_version(text: str) -> bool:
    """Whether a text is a version: three numbers."""
    return re.fullmatch(r"\d+\.\d+\.\d+", text) is not None


def older(one: str, other: str) -> bool:
    """Whether one version came before the other: three numbers each."""
    return _numbers(one) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
