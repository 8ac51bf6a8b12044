"""Export: a published student as a folder that needs nothing of Concord.

    student.skops         the file that the certificate digests
    concord_student.py    estimators of the student that scikit-learn lacks
    model.onnx            the student from clean cells on, if skl2onnx knows its parts
    MODEL_CARD.md         the student, its guarantee and its inputs
    certificate.json      the guarantee, and certificate.schema.json and report.html as they were published
    attestation.json      who signed them, with key.pem, the ledger's excerpt and attestation.schema.json
    model.sig             the student's own signature in the OpenSSF's form, by model-key.pem
    example.py            six lines that predict, and requirements.txt for them

Assumes      the session's folder holds what was published
Guarantees   only published things are read: no vault, no ledger; nothing is spent
Not covered  whether the certificate is right: tasks.verify.verify. Checked by tests/tasks/publish/test_export.py
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.metadata import packages_distributions, version
from pathlib import Path
from shutil import copyfile

from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline

from concord.artifacts.attestation import ATTESTATION_FILE, ATTESTATION_SCHEMA_FILE, KEY_FILE
from concord.artifacts.certificate import CERTIFICATE_FILE, SCHEMA_FILE
from concord.artifacts.errors import WrongInput
from concord.artifacts.ledger.excerpt import EXCERPT_FILE
from concord.artifacts.model_signature import MODEL_KEY_FILE, MODEL_SIGNATURE_FILE
from concord.tasks.publish.disclosures import columns_of, model_card
from concord.tasks.student.model import is_older, load, modules_needed, read_published
from concord.tasks.student.trust import trusted_types

NEEDED = ("numpy", "pandas", "scikit-learn", "scipy", "skops")
STUDENT, ONNX = "student.skops", "model.onnx"
EVIDENCE = (ATTESTATION_FILE, ATTESTATION_SCHEMA_FILE, EXCERPT_FILE, KEY_FILE, MODEL_SIGNATURE_FILE, MODEL_KEY_FILE)
COPIED = (CERTIFICATE_FILE, SCHEMA_FILE, "report.html", *EVIDENCE)
EXAMPLE = """import pandas as pd
import skops.io

trusted = {trusted!r}
student = skops.io.load({file!r}, trusted=trusted)
rows = pd.DataFrame([{row}])
print(student.predict(rows))
"""


@dataclass(frozen=True)
class Exported:
    """The files of a folder, and the reason if model.onnx is not among them."""

    files: tuple[str, ...]
    without_onnx: str | None


def export(source: Path, target: Path) -> Exported:
    """Write the student of `source`, a session's published folder, to the new or empty folder `target`.

    Raises WrongInput if nothing was published there, or if an earlier version published it; NotVerified if the
    student's file is not the one that the certificate names.
    """
    certificate, file = read_published(source)
    if is_older(file):
        raise WrongInput(
            f"the student in {source} is of an earlier version and needs its code: publish it anew with "
            "`concord run PLAN --from study`, which spends nothing"
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise WrongInput(f"--to must name a folder that is empty or not there yet, got {target}")
    student, trusted = load(file), trusted_types(file)
    target.mkdir(parents=True, exist_ok=True)
    (target / STUDENT).write_bytes(file)
    for name in COPIED:
        if (source / name).is_file():
            copyfile(source / name, target / name)
    without = _write_onnx(student, target / ONNX)
    row = ", ".join(f"{name!r}: {value}" for name, value in example_row(student).items())
    texts = {
        **{f"{part.NAME}.py": Path(str(part.__file__)).read_text(encoding="utf-8") for part in modules_needed(trusted)},
        "example.py": EXAMPLE.format(trusted=trusted, file=STUDENT, row=f"{{{row}}}"),
        "requirements.txt": "".join(f"{name}=={version(name)}\n" for name in _needed(certificate.student.estimator)),
        "MODEL_CARD.md": "\n".join((*model_card(certificate, student), *_to_use(without), *_to_check(target))),
    }
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    return Exported(tuple(sorted(path.name for path in target.iterdir())), without)


def example_row(student: Pipeline) -> dict[str, str]:
    """A typical value of each column, as Python source: the public median, or the most frequent public word."""
    return {name: _example(part, names.index(name)) for name, (part, names) in columns_of(student).items()}


def _example(part: Pipeline, at: int) -> str:
    kind = part[0].kind
    if "code" in part.named_steps:
        known = part["code"].cuts or part["code"].words
        return repr(known[len(known) // 2] if kind != "boolean" else True) if known else "None"
    if isinstance(part[-1], HashingVectorizer):
        return repr("a few words")
    if kind == "categorical":
        return repr(next(iter(part[1].categories_[0]), None))
    if kind in ("uint8", "float32"):
        return f"[0] * {part[0].size}"
    middle = float(part["fill"].statistics_[at])
    if "log" in part.named_steps:
        middle = math.copysign(math.expm1(abs(middle)), middle)
    if kind == "boolean":
        return repr(middle == 1)
    return repr((date(1970, 1, 1) + timedelta(days=middle)).isoformat() if kind == "date" else float(f"{middle:.6g}"))


def _write_onnx(student: Pipeline, file: Path) -> str | None:
    """Write the ONNX graph; returns the reason if there is none."""
    try:
        from concord.tasks.student.onnx import to_onnx
    except ModuleNotFoundError as absent:
        return f"{absent.name} is not installed: pip install 'concord[export]'"
    try:
        file.write_bytes(to_onnx(student))
    except NotImplementedError as unknown:
        return str(unknown)
    return None


def _needed(estimator: str) -> list[str]:
    """Packages that the example needs, with the student's own; not Concord, whose part is in the folder."""
    package = estimator.split(".")[0]
    own = [] if package == "concord" else packages_distributions().get(package, [])
    return sorted({*NEEDED, *own})


def _to_check(target: Path) -> Iterator[str]:
    """The card's section on the evidence, if it was published, as it is since the third format."""
    if (target / ATTESTATION_FILE).is_file():
        yield (
            "## To check it\n\n`concord verify .` in this folder recomputes the guarantee and what the domain was "
            f"charged, compares these files with what `{KEY_FILE}` signed (name the key you trust with `--key`), and "
            "lists as missing what is not here: labels and figures. The folder as it was published, copied whole, "
            "verifies by itself.\n"
        )


def _to_use(without_onnx: str | None) -> Iterator[str]:
    """The card's section on the other files of the folder."""
    yield "## To use it\n\n`pip install -r requirements.txt`, then `python example.py` in this folder.\n"
    if without_onnx is None:
        yield (
            f"`{ONNX}` takes clean cells, one input a column: numbers, truth values (0 and 1) and dates (days since "
            "1970) as double, NaN if missing; words as string; lists as float. Its first output is the class.\n"
        )
    else:
        yield f"There is no `{ONNX}`: {without_onnx}.\n"
