"""Every field of every kind of released file is checked without the home: each is edited or removed, and keys added.

The folder is written as its publisher would write it, with the digest of the edited file in the certificate, as anyone
can who signs it by a key of their own.
"""

from pathlib import Path

import pytest

from concord.artifacts.errors import NotVerified
from concord.tasks.door.stores import Stores
from concord.tasks.publish.certify import certify_answers
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.published import verify_published
from tests.promises.kinds import KINDS, Kind
from tests.support.edited import LAST_MODEL, MODEL, missed

SUMS = {"sums.*", "sums.*.*"}
DRAWN: dict[str, set[str]] = {
    "tallies": SUMS | MODEL | LAST_MODEL,
    "sketch": SUMS | MODEL | LAST_MODEL,
    "stream": SUMS | MODEL | LAST_MODEL,
    "share": SUMS,
    "hypothesis": {"classes.*", *(f"hypothesis.{name}" for name in ("columns.*", "low.*", "high.*", "inside"))},
}
"""What was drawn, or decoded from it and public or synthetic rows, so that nobody can tell another value of it: of a
student, these are compared with it (test_student_as_released)."""


def folder_of(kind: Kind, home: Path) -> Path:
    """What a session of that kind publishes."""
    kind.prepare(home)
    kind.ask(home)
    stores = Stores.of(home)
    certify_answers("d-1", stores.ledger, stores.released, stores.vault)
    return stores.released.root / "d-1"


def faults(folder: Path) -> str:
    """What is wrong with the released files of the folder's session."""
    (check,) = (each for each in verify_published(folder) if each.name == "d-1: released labels")
    return "" if check.ok else check.detail


CERTIFIED = [kind for kind in KINDS if kind.name != "estimate"]


def test_an_estimate_alone_is_never_certified(tmp_path: Path) -> None:
    with pytest.raises(NotVerified, match="of which this version of Concord knows nothing"):
        folder_of(next(kind for kind in KINDS if kind not in CERTIFIED), tmp_path / "home")


@pytest.mark.parametrize("kind", CERTIFIED, ids=lambda kind: str(kind.name))
def test_an_edit_of_any_field_is_found(kind: Kind, tmp_path: Path) -> None:
    folder = folder_of(kind, tmp_path / "home")
    assert faults(folder) == ""
    record, places = PublishedSession.at(folder).certificate.leading, set[str]()
    assert record.files
    for file in record.files:
        places |= {*missed(folder, file.path)}
    assert (places - DRAWN.get(kind.name, set()), faults(folder)) == (set(), "")
