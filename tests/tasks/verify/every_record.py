"""Every edit of a field of what is published beside the released files: certificate, ledger's excerpt, statement.

Each is written as Concord writes such a record, and signed anew by somebody else's key, so that what finds it is the
check of its meaning and not the signature. A field that may be changed is listed with the reason."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tests.support.edited import edits
from tests.tasks.verify.signed_folder import sign_again
from tests.world import Certificate, Excerpt, NotVerified

RECORDS: dict[str, tuple[type[BaseModel], int, str]] = {
    "certificate.json": (Certificate, 2, "certificate"),
    "ledger.json": (Excerpt, 1, "ledger excerpt"),
}
"""The type of each record, how its JSON is indented, and the check that finds another form of it."""
SIGNED = "attestation.json"
CHECKS = {
    "certificate.json": {
        "guarantee.unit": "ledger excerpt",
        "guarantee*": "guarantee",
        "sessions.?.mechanism.name": "guarantee",
        "sessions.?.guarantee*": "guarantee",
        "sessions.?.counts.not_asked": "released labels",
        "sessions.?.files*": "released labels",
        "sessions.?.outcomes*": "released labels",
        "sessions*": "ledger excerpt",
        "domain*": "ledger excerpt",
        "caveats*": "ledger excerpt",
        "features*": "public test",
        "student.estimator": "student",
        "student.file*": "files",
        "student.accuracy*": "what it says",
        "student.public_test": "what it says",
        "student.public_test.*": "public test",
        "*": "certificate",
    },
    "ledger.json": {"*": "ledger excerpt"},
    SIGNED: {"*": "signature"},
}
"""The check that finds another value of a field, by the first pattern that fits its place."""
FREE = {
    "certificate.json": {
        "data_version": "names of data versions are left out of an excerpt; the ledger of the home denies another one",
        "about*": "the publisher states it, and no file says more",
        "units": "the plan states it, and the private rows are not counted",
        "sessions.?.outcomes.?.earlier": "earlier tests of other sessions are not in the excerpt; the home denies it",
        "noise*": "the publisher's estimate of what noise changed, which follows from no released file",
        "student": "a certificate without its student is one of answers alone",
        "student.params*": "the plan states them; of a fitted student they need not show",
        "student.refused": "the plan states what refused labels taught",
        "student.public_test.calibration.?.confidence": "within the tolerance for ranks on another machine",
        "student.public_test.classes.?.auc.*": "within the tolerance for ranks on another machine",
        "student.public_test.classes.?.average_precision.*": "within the tolerance for ranks on another machine",
        "versions.[!c]*": "the publisher states the versions of libraries",
        "versions.cryptography": "the publisher states the versions of libraries",
    },
    "ledger.json": {
        "entries.?.body.commitment": "a salted digest of the session's key, which the home alone can tell",
        "entries.?.body.division": "a salted digest of the division that the session read by",
        "entries.?.body.part": "without a division on record it names no part, and the session counts in each",
        "entries.?.body.rows": "rows that were begun and not asked before the session's end cost nothing",
        "entries.?.body.version": "the version that opened the session",
    },
    SIGNED: {"predicate.version": "the version that signed"},
}
"""Fields of which another value may pass, and why."""


STATED = ("about*", "units", "features*", "noise*", "student*", "versions*")
"""Fields of a certificate that come from the plan, the student or a file, and not from the ledger."""


@dataclass(frozen=True)
class Edit:
    """An edit of one field: `content` is the record with it."""

    record: str
    place: str
    content: Any

    @property
    def field(self) -> str:
        """The place of the field, with an asterisk for a place in a list."""
        return self.place.partition(" ")[0]

    @property
    def checks(self) -> set[str]:
        """The check of the field's value, and that of the record's form."""
        check = next(check for place, check in CHECKS[self.record].items() if fnmatchcase(self.field, place))
        return {check, RECORDS[self.record][2] if self.record in RECORDS else check}

    @property
    def may_pass(self) -> bool:
        return any(fnmatchcase(self.field, place) for place in FREE[self.record])

    @property
    def of_the_ledger(self) -> bool:
        """Whether the field follows from the ledger of the home."""
        return self.record == "certificate.json" and not any(fnmatchcase(self.field, place) for place in STATED)

    def write(self, folder: Path) -> None:
        """Write the record with the edit, and sign everything anew, if that can be."""
        if self.record == SIGNED:
            sign_again(folder, lambda _: self.content)
            return
        kind, indent, _ = RECORDS[self.record]
        file, text = folder / self.record, json.dumps(self.content, indent=indent, ensure_ascii=False)
        try:
            written = kind.model_validate(self.content).model_dump_json(indent=indent)
        except ValidationError:
            written = text
        file.write_text(text if written == file.read_text() else written)
        try:
            sign_again(folder)
        except (ValidationError, NotVerified):  # it is no such record, and need not be signed
            return


def every_edit(folder: Path) -> Iterator[Edit]:
    """Every edit of a field of the folder's records."""
    for record in RECORDS:
        yield from (Edit(record, place, other) for place, other in edits(json.loads((folder / record).read_text())))
    envelope = json.loads((folder / SIGNED).read_text())
    for place, other in edits(json.loads(base64.b64decode(envelope["payload"]))):
        yield Edit(SIGNED, place, other)


@contextmanager
def kept(folder: Path) -> Iterator[None]:
    """The files of a folder are put back."""
    whole = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    try:
        yield
    finally:
        for file, content in whole.items():
            file.write_bytes(content)
