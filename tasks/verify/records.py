"""Read the records of a published session, or of a copy of it: each is parsed once, into its type.

    folder ─ certificate ─ released files, each in the form of its kind
           ─ key ─ statement that it signed ─ ledger's excerpt

A file that is only digested is read piece by piece; one that is parsed is read whole. Labels are unpacked a batch at a
time. What memory and time that may take is limited by who asks (tasks.verify.checks).

Assumes      the folder does not change while it is read
Guarantees   pipes, devices, links and files outside the published folder count as missing; a record that holds other
             bytes than Concord writes for its content is none
             Checked by tests/tasks/verify/test_verify_folder.py
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import pyarrow as pa
from pydantic import ValidationError

from concord.artifacts.certificate import CERTIFICATE_FILE, Certificate
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import labels_schema, sha256
from concord.artifacts.home.signing import PAYLOAD_TYPE, PublicKey, payload_of
from concord.artifacts.ledger.excerpt import EXCERPT_FILE, Excerpt
from concord.artifacts.published import (
    ATTESTATION_FILE,
    CARD_FILE,
    DOCUMENTS,
    KEY_FILE,
    Statement,
    certificate_file,
)
from concord.artifacts.records import SessionRecord
from concord.artifacts.schemas import Ref
from concord.tasks.verify.checks import NotIncluded
from concord.tasks.verify.forms import Form, form_of
from concord.tasks.verify.recompute import read_settings

Schema = Callable[[int, dict[str, str]], pa.Schema]
"""The schema of a table of labels, for a number of classes and metadata."""
LARGEST = 2**28
"""Most bytes of a file that any reader reads whole; the signed files of a million answers are smaller."""
AT_ONCE = 2**20
"""Bytes of a file that are digested at a time."""


@dataclass(frozen=True)
class PublishedSession:
    """A published certificate, and the files published with it."""

    certificate: Certificate
    text: bytes
    folder: Path
    _digests: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    _forms: dict[tuple[type[Form], Ref], Form] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def at(cls, path: Path) -> Self:
        """The session in a folder or certificate file. Raises WrongInput if there is none, NotVerified if invalid."""
        try:
            file = certificate_file(path)
            text = b"".join(_pieces(file, CERTIFICATE_FILE, LARGEST))
        except PermissionError:
            raise WrongInput(f"{CERTIFICATE_FILE} cannot be read at {path}: this user may not") from None
        except (OSError, ValueError):
            raise WrongInput(f"there is no {CERTIFICATE_FILE} to verify at {path}") from None
        return cls(Certificate.read(text, str(file)), text, file.parent)

    def read(self, path: str) -> bytes:
        """The content of a published file. Raises NotVerified if it is missing, lies elsewhere or is too large."""
        return b"".join(self._content(path, LARGEST))

    def digest(self, path: str) -> str:
        """SHA-256 in hex of a published file, computed once. Raises NotVerified as `read` does."""
        if path not in self._digests:
            digest = hashlib.sha256()
            for piece in self._content(path):
                digest.update(piece)
            self._digests[path] = digest.hexdigest()
        return self._digests[path]

    def named(self, ref: Ref) -> bytes:
        """A file that the certificate names. Raises NotVerified unless it is the one that it digests."""
        data = self.read(ref.path)
        _as_digested(ref, sha256(data))
        return data

    def check(self, ref: Ref) -> None:
        """Raise NotVerified unless a file that the certificate names is the one that it digests."""
        _as_digested(ref, self.digest(ref.path))

    def forms(self, record: SessionRecord, files: Iterable[Ref]) -> list[Form]:
        """The content of JSON files that a session released, each in the form of its kind and compared with the record
        in all that follows from it. Raises NotVerified."""
        form, forms = form_of(read_settings(record.mechanism.settings)), list[Form]()
        for number, ref in enumerate(files):
            if (form, ref) not in self._forms:
                self._forms[form, ref] = form.read(self.named(ref), ref.path)
            forms.append(self._forms[form, ref])
            forms[-1].check(record, number, ref.path)
        return forms

    @cached_property
    def key(self) -> PublicKey:
        """The key that is published with the certificate. Raises NotVerified if the file holds no key."""
        try:
            return PublicKey.of_pem(self.read(self.path(KEY_FILE)))
        except NotVerified as wrong:
            raise NotVerified(f"{KEY_FILE}: {wrong}") from None

    @cached_property
    def statement(self) -> Statement:
        """The statement that the key signed. Raises NotVerified if there is none."""
        try:
            payload = payload_of(self.read(self.path(ATTESTATION_FILE)), PAYLOAD_TYPE, self.key)
        except NotVerified as wrong:
            raise NotVerified(f"{ATTESTATION_FILE} is not signed by the key in {KEY_FILE}: {wrong}") from None
        try:
            statement = Statement.model_validate_json(payload)
        except ValidationError:
            raise NotVerified(f"{ATTESTATION_FILE} holds no statement of a differential-privacy claim") from None
        if statement.text != payload or len(statement.digests) != len(statement.subject):
            raise NotVerified(f"{ATTESTATION_FILE} holds another statement than Concord writes")
        return statement

    @cached_property
    def excerpt(self) -> Excerpt:
        """The excerpt of the ledger that is published with the certificate. Raises NotVerified if there is none."""
        return Excerpt.read(self.read(self.path(EXCERPT_FILE)))

    def signer(self, trusted: str | None) -> PublicKey:
        """The key, which must be the `trusted` one if a reader names one. Raises NotVerified."""
        if trusted is not None and not self.key.is_named(trusted):
            raise NotVerified(f"{KEY_FILE} holds the key {self.key.fingerprint}, which is not the one that you named")
        return self.key

    def signed_excerpt(self, trusted: str | None) -> Excerpt:
        """The excerpt that was signed with the certificate; other published files need not be there. Raises
        NotVerified if certificate or excerpt is not what the key signed, or the key is not the `trusted` one."""
        self.signer(trusted)
        for name in (CERTIFICATE_FILE, EXCERPT_FILE):
            self.check_signed(self.path(name), self.read(self.path(name)))
        return self.excerpt

    def check_signed(self, path: str, data: bytes) -> None:
        """Raise NotVerified unless this content of a published file is the one that was signed."""
        if self.statement.digests.get(path) != sha256(data):
            raise NotVerified(f"the published file {path} is not the one that was signed")

    def path(self, name: str) -> str:
        """The path of a file of the session's own folder."""
        return f"{self.certificate.session}/{name}"

    def batches(self, ref: Ref, schema: Schema = labels_schema) -> Iterator[pa.RecordBatch]:
        """The batches of a file of labels, of that schema for some number of classes; the file itself is never in
        memory whole. Raises NotVerified if it is not what Concord writes."""
        self.check(ref)
        with pa.memory_map(str(self._place(ref.path))) as data, pa.ipc.open_file(data) as table:
            scores = table.schema.field("scores").type if "scores" in table.schema.names else None
            classes = scores.list_size if isinstance(scores, pa.FixedSizeListType) else 0
            if not table.schema.equals(schema(classes, {})):
                raise NotVerified(f"the published file {ref.path} holds other columns than those of labels")
            for at in range(table.num_record_batches):
                batch = table.get_batch(at)
                batch.validate(full=True)  # damaged content would crash the process
                yield batch

    @property
    def exported(self) -> bool:
        """Whether the folder is an export of the student, which leaves out labels and figures."""
        return (self.folder / CARD_FILE).is_file()

    @property
    def _handed_on(self) -> set[str]:
        """The files that an export has."""
        student = set[str]() if self.certificate.learned is None else {self.certificate.student.file.path}
        return {*student, *map(self.path, DOCUMENTS)}

    def _place(self, path: str) -> Path:
        session, _, inside = path.partition("/")
        if {"", ".", ".."} & {*path.split("/")}:  # as an absolute path has, or one that goes on as one
            raise NotVerified(f"the file {path} is named, which lies outside what is published")
        return (self.folder if session == self.certificate.session else self.folder.parent / session) / inside

    def _content(self, path: str, most: int | None = None) -> Iterator[bytes]:
        file, is_certificate = self._place(path), path == self.path(CERTIFICATE_FILE)
        try:
            base = self.folder if file.is_relative_to(self.folder) else self.folder.parent
            if file.resolve() != base.resolve() / file.relative_to(base):  # a folder that is a link leads anywhere too
                raise FileNotFoundError
            yield from (self.text,) if is_certificate else _pieces(file, path, most)
        except PermissionError:
            raise NotVerified(f"the published file {path} cannot be read: this user may not") from None
        except (OSError, ValueError):
            if self.exported and path not in self._handed_on:
                raise NotIncluded(f"{path} is not included in an export, and was not checked") from None
            raise NotVerified(f"the published file {path} is missing: put it beside {CERTIFICATE_FILE}") from None


def _pieces(file: Path, path: str, most: int | None) -> Iterator[bytes]:
    """The content of a file, up to its stated size, in pieces. Raises OSError if there is none, NotVerified if it is
    larger than `most`."""
    if not file.is_file() or file.is_symlink():  # pipes and devices never end, and a link leads anywhere
        raise FileNotFoundError
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if most is not None and size > most:
            raise NotVerified(f"the published file {path} holds {size:,} bytes; of such a file {most:,} are read")
        while size > 0 and (piece := stream.read(min(size, AT_ONCE))):
            yield piece
            size -= len(piece)


def _as_digested(ref: Ref, digest: str) -> None:
    if digest != ref.digest:
        raise NotVerified(f"the published file {ref.path} is not the one that the certificate digests")
