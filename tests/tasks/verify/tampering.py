"""One table of tampering with a published folder: what is changed, and the check that names it, whoever signs it anew.

A lie changes values of the certificate or of the ledger's excerpt, consistently where its teller would; another edit
changes a file. Single fields are changed one and all by `every_record`."""

import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.edited import with_values
from tests.support.published import SESSION
from tests.world import Certificate, Excerpt, Guarantee, calibrated_stable, labels_schema, sha256, table_bytes

OWN = "sessions.0"
"""Where the record of the session stands in its certificate."""
LABELS = "labels/batch-00000.arrow"
DEAR = calibrated_stable(epsilon=50.0, delta=1e-5, cutoff=20).model_dump(mode="json")
Values = dict[str, Any]


@dataclass(frozen=True)
class Tampering:
    """An edit of a folder, which is then signed by somebody else's key, and the checks that find it, of which the first
    says so."""

    edit: Callable[[Path], object]
    checks: str
    says: str = ""


def claiming(epsilon: float, delta: float) -> Values:
    """Another claim, wherever the certificate says it, and what follows from it."""
    claim, said = {"epsilon": epsilon, "delta": delta}, ("guarantee", f"{OWN}.guarantee", "domain.charges.0")
    replaced = Guarantee.at(epsilon, delta, "one row", "add or remove one unit").replace_one
    assert replaced is not None
    return {"guarantee.replace_one": replaced.model_dump()} | {
        f"{part}.{key}": value for part in said for key, value in claim.items()
    }


def first(**changes: object) -> Callable[[list[Values]], list[Values]]:
    """A list with another first element after it, which differs by these changes."""
    return lambda there: [*there, {**there[0], **changes}]


def without(*at: int) -> Callable[[list[Any]], list[Any]]:
    return lambda there: [each for place, each in enumerate(there) if place not in {a % len(there) for a in at}]


NOTHING, MUCH, WHOLE = {"epsilon": 0.0, "delta": 0.0}, {"epsilon": 50.0, "delta": 0.5}, {"epsilon": 4.0, "delta": 4e-5}
ALMOST_1 = {"value": 0.999, "low": 0.99, "high": 1.0}
BESIDE = {"sessions": first(session="people-2"), "domain.charges": first(session="people-2"), "domain.sessions": 2}
LIES: dict[str, tuple[Values, str, str]] = {
    "a smaller ε": (claiming(0.5, 1e-5), "guarantee", "the epsilon that is claimed is 0.5"),
    "a smaller δ": (claiming(2.5, 1e-6), "guarantee", "the delta that is claimed is 1e-06"),
    "votes on one class": ({f"{OWN}.mechanism.settings.classes": 1}, "guarantee", "no classes"),
    "another cutoff": ({f"{OWN}.mechanism.settings.cutoff": 10}, "released labels", ""),
    "more answers": ({f"{OWN}.counts": lambda of: of | {"answered": 267, "asked": 287}}, "released labels", ""),
    "a dear session beside": ({"sessions": first(session="people-2", guarantee=MUCH)}, "guarantee", ""),
    "less than its sessions together": (BESIDE, "guarantee", "all that was published"),
    "a session that names a stream and is none": ({f"{OWN}.stream": "weekly"}, "budget", ""),
    "the same throughout": ({f"{OWN}.stream": "w", "domain.charges.0.stream": "w"}, "guarantee", "no season of it"),
    "spent beyond the cap": ({"domain.spent.epsilon": 5.0}, "budget", "do not add"),
    "spent nothing": ({"domain.remaining": WHOLE, "domain.spent": NOTHING}, "budget", "did not spend"),
    "left out of the domain": ({"domain.charges": [], "domain.sessions": 0}, "budget", ""),
    "charged more than the cap": ({"domain.charges.0.share": 1.5}, "budget", "more than its cap"),
    "a file outside the folder": ({"student.file.path": f"{SESSION}/../../secret"}, "files", "lies outside"),
    "a name of no file": ({f"{OWN}.files.0.path": f"{SESSION}/\x00"}, "files", ""),
    "a file named often": ({f"{OWN}.files": lambda files: files * 100}, "released labels", "is named 100 times"),
    "labels left out": ({f"{OWN}.files": without(0)}, "released labels", ""),
    "another accuracy": ({"student.accuracy": ALMOST_1}, "what it says", "the student's accuracy"),
    "a caveat of its own": ({"caveats": lambda there: [*there, "It covers everything."]}, "ledger excerpt", ""),
    "a warning of its own": ({"warnings": ["the student is perfect"]}, "what it says", "the warnings"),
    "no caveats": ({"caveats": []}, "what it says", "leaves out what must stand in it"),
    "another latest accuracy": ({"student.history": [ALMOST_1]}, "what it says", "the accuracy of the latest release"),
    "a version that wrote no such certificate, and no caveats": (
        {"versions.concord": "1.1.0", "caveats": []},
        "certificate",
        "names the version 1.1.0 of Concord",
    ),
    "a later version": ({"versions.concord": "9.0.0"}, "certificate", "verify it with that version"),
    **{
        f"the version {name}": ({"versions.concord": name, "caveats": []}, "certificate", "which is not a version")
        for name in ("latest", "1.0.00", "01.0.0", "1.00.0")
    },
    # what only the ledger denies
    "above the cap": (
        {f"{OWN}.mechanism.settings": DEAR, **claiming(50.0, 1e-5)},
        "ledger excerpt, released labels",
        "epsilon is 50.0",
    ),
    "that nobody sees an older copy": ({"caveats": without(-2)}, "ledger excerpt, what it says", ""),
    "that a pre-check was shown": ({"caveats": without(-1)}, "ledger excerpt", ""),
}
"""Lies of a certificate by places and values, with the checks that find each and a fact of what the first says."""

CHEAP = "0.000001000000000000"
EXCERPTS: dict[str, tuple[Values, str]] = {
    "cheaper": ({"entries.1.body.reserved.renyi": CHEAP}, ""),
    "settled for less": ({"entries.4.body.charge.renyi": CHEAP}, ""),
    "dear at the price of a cheap one": ({"entries.1.body.mechanism": DEAR, "entries.1.body.epsilon": 50.0}, ""),
    "without the session": ({"entries": without(1, 2, 3, 4)}, ""),
    "that opens it twice": ({"entries": lambda lines: [lines[0], *lines[1:2] * 2, *lines[2:]]}, ""),
    "out of order": ({"entries": lambda lines: lines[::-1]}, ""),
    "of its end alone": ({"entries": without(0, 1, 2, 3)}, ""),
}
"""Edits of the ledger's excerpt that break its rule, or do not carry the claim."""


def told(lie: Values) -> Callable[[Path], object]:
    """The certificate with that lie, written as Concord would."""

    def edit(folder: Path) -> None:
        file = folder / "certificate.json"
        values = with_values(json.loads(file.read_text()), lie)
        file.write_text(Certificate.model_validate(values).model_dump_json(indent=2))

    return edit


def excerpted(lie: Values) -> Callable[[Path], object]:
    """The excerpt with that lie; a dear session's is in its certificate as well."""

    def edit(folder: Path) -> None:
        if DEAR in lie.values():
            told(LIES["above the cap"][0])(folder)
        file = folder / "ledger.json"
        file.write_bytes(Excerpt.model_validate(with_values(json.loads(file.read_text()), lie)).text)

    return edit


def put(folder: Path, data: bytes) -> None:
    """Publish those bytes as the first labels."""
    (folder / LABELS).write_bytes(data)
    told({f"{OWN}.files.0.digest": sha256(data)})(folder)


def relabelled(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    """Other labels in a file of Arrow's."""

    def edit(folder: Path) -> None:
        table = change(pa.ipc.open_file(folder / LABELS).read_all())
        put(folder, table_bytes(table.columns, table.schema))

    return edit


def of_nothing(rows: int) -> bytes:
    """So many rows of labels, all of them empty."""
    zeros, nothing = pa.py_buffer(bytes(8 * (rows + 1))), pa.array([], pa.int64())
    row = pa.UInt64Array.from_buffers(pa.uint64(), rows, [None, zeros])
    words = pa.StringArray.from_buffers(rows, zeros, pa.py_buffer(b""))
    scores = pa.FixedSizeListArray.from_buffers(pa.list_(pa.int64(), 0), rows, [None], children=[nothing])
    return table_bytes([row, words, words, scores, words], labels_schema(0, {}))


def of_another_session(table: pa.Table) -> pa.Table:
    return table.set_column(4, table.schema.field("session"), pa.array(["people-2"] * table.num_rows))


def repacked(**more: Any) -> Callable[[Path], object]:
    """The student with more in its file, and its digest where the certificate names it."""

    def edit(folder: Path) -> None:
        file = folder / "student.skops"
        with zipfile.ZipFile(file) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        parts["schema.json"] = json.dumps(json.loads(parts["schema.json"]) | more).encode()
        with zipfile.ZipFile(file, "w") as archive:
            for name, part in parts.items():
                archive.writestr(name, part)
        told({"student.file.digest": sha256(file.read_bytes())})(folder)

    return edit


def written(name: str, data: bytes = b"another") -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def spaced(folder: Path) -> None:
    """A certificate of the same content."""
    file = folder / "certificate.json"
    file.write_bytes(file.read_bytes() + b" ")


def longer(name: str, more: int) -> Callable[[Path], object]:
    """A file with so many more bytes, of nothing."""
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size + more)


def behind_a_link(name: str) -> Callable[[Path], object]:
    """A file or folder that is a link out of what is published."""

    def edit(folder: Path) -> None:
        elsewhere = folder.parent / f"elsewhere-{name}"
        (folder / name).rename(elsewhere)
        (folder / name).symlink_to(elsewhere)

    return edit


FILES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "labels that are no table": (lambda folder: put(folder, b"nonsense"), "released labels", ""),
    "labels of no bytes": (lambda folder: put(folder, b""), "released labels", ""),
    "labels of more rows than are counted": (lambda folder: put(folder, of_nothing(1000)), "released labels", ""),
    "labels of another session": (relabelled(of_another_session), "released labels", "the session of the labels"),
    "labels with a dictionary": (
        relabelled(lambda table: table.set_column(2, "outcome", table["outcome"].dictionary_encode())),
        "released labels",
        "",
    ),
    "labels with a further column": (
        relabelled(lambda table: table.append_column("more", pa.nulls(table.num_rows, pa.null()))),
        "released labels",
        "",
    ),
    "labels without scores": (relabelled(lambda table: table.drop_columns(["scores"])), "released labels", ""),
    "labels behind a link": (behind_a_link("labels"), "files", "is missing"),
    "a student behind a link": (behind_a_link("student.skops"), "files", "is missing"),
    "a student with a long end": (longer("student.skops", 2**25), "files", "student.skops is not the one"),
    "a student with more in its file": (repacked(more="names of patients"), "student", "holds more than the student"),
    "another student": (written("student.skops"), "files", "student.skops"),
    "no student": (lambda folder: (folder / "student.skops").unlink(), "files", "missing"),
    **{
        f"another {name}": (written(name, b"{}"), "signature", f"{name} holds other bytes than Concord writes")
        for name in ("certificate.schema.json", "attestation.schema.json")
    },
    "a certificate with another end": (spaced, "certificate", "bytes"),
}
"""Edits of files, with the check that finds each and a fact of what it says."""

TAMPERING: dict[str, Tampering] = {
    **{f"a certificate of {name}": Tampering(told(lie), *found) for name, (lie, *found) in LIES.items()},
    **{
        f"an excerpt {name}": Tampering(excerpted(lie), "ledger excerpt", says)
        for name, (lie, says) in EXCERPTS.items()
    },
    **{name: Tampering(*row) for name, row in FILES.items()},
}
