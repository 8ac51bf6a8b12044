"""A known fault that never was: what is said of known ones is tested with it, whatever the true list holds."""

from pathlib import Path

import pytest

from concord.artifacts import vulnerabilities

OPENED = "0.0.9"
"""The version that had it; FIXED mended it."""
FIXED = "0.1.0"
ENTRY = f"""
[[vulnerability]]
name = "invented"
fixed = "{FIXED}"
scope = "every session"
what = "one unit counted twice"
unless = "there was one unit"
"""


def known(monkeypatch: pytest.MonkeyPatch, folder: Path, entries: str = ENTRY) -> None:
    """Have these entries be all that is known."""
    file = folder / "vulnerabilities.toml"
    file.write_text(entries)
    monkeypatch.setattr(vulnerabilities, "VULNERABILITIES", vulnerabilities.listed(file))
