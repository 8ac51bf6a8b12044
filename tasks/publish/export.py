"""Export: a published student as a folder that needs nothing of Concord.

    student.skops         the very file that the certificate digests
    concord_student.py    what scikit-learn lacks to read it
    model.onnx            the student from clean cells on, if skl2onnx knows its parts
    MODEL_CARD.md         what it is, what is promised, what it takes
    certificate.json      the guarantee, and certificate.schema.json and report.html as they were published
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

from sklearn.pipeline import Pipeline

from concord.artifacts.certificate import SCHEMA_FILE, Certificate
from concord.artifacts.errors import WrongInput
from concord.artifacts.measures import PublicTest
from concord.tasks.student.concord_tallied import Tallied
from concord.tasks.student.model import is_older, load, published, travelling
from concord.tasks.student.trust import trusted_types

NEEDED = ("numpy", "pandas", "scikit-learn", "scipy", "skops")
STUDENT, ONNX = "student.skops", "model.onnx"
COPIED = ("certificate.json", SCHEMA_FILE, "report.html")
TAKES = {
    "numeric": "a number",
    "boolean": "a truth value",
    "date": "a date or a moment",
    "categorical": "a word",
    "uint8": "a list of {} whole numbers from 0 to 255",
    "float32": "a list of {} numbers",
}
EXAMPLE = """import pandas as pd
import skops.io

trusted = {trusted!r}
student = skops.io.load({file!r}, trusted=trusted)
rows = pd.DataFrame([{row}])
print(student.predict(rows))
"""


@dataclass(frozen=True)
class Exported:
    """The files of a folder, and why model.onnx is not among them, if so."""

    files: tuple[str, ...]
    without_onnx: str | None


def export(source: Path, target: Path) -> Exported:
    """Write the student that `source`, a session's published folder, holds to the new or empty folder `target`.

    Raises WrongInput if nothing was published there, or an earlier version did; NotVerified if the student's file is
    not the one that the certificate names.
    """
    certificate, file = published(source)
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
        **{f"{part.NAME}.py": Path(str(part.__file__)).read_text(encoding="utf-8") for part in travelling(trusted)},
        "example.py": EXAMPLE.format(trusted=trusted, file=STUDENT, row=f"{{{row}}}"),
        "requirements.txt": "".join(f"{name}=={version(name)}\n" for name in _needed(certificate.student.estimator)),
        "MODEL_CARD.md": "\n".join(_card(certificate, student, without)),
    }
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    return Exported(tuple(sorted(path.name for path in target.iterdir())), without)


def example_row(student: Pipeline) -> dict[str, str]:
    """A middling value of each column, as Python writes it: the public median, or the most frequent public word."""
    return {name: _example(part, names.index(name)) for name, (part, names) in _columns(student).items()}


def _columns(student: Pipeline) -> dict[str, tuple[Pipeline, list[str]]]:
    """The first part that each column goes through, and all columns that go with it."""
    parts = [(part, names) for _, part, names in student["encode"].transformers_ if isinstance(part, Pipeline)]
    return {name: (part, names) for part, names in reversed(parts) for name in names}


def _example(part: Pipeline, at: int) -> str:
    kind = part[0].kind
    if "code" in part.named_steps:
        known = part["code"].cuts or part["code"].words
        return repr(known[len(known) // 2] if kind != "boolean" else True) if known else "None"
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
    """Write the graph; or why there is none."""
    if isinstance(student["student"], Tallied):
        return "the model of tallies has none yet"
    try:
        from concord.tasks.student.onnx import to_onnx
    except ModuleNotFoundError as absent:
        return f"{absent.name} is not installed: pip install 'concord[export]'"
    try:
        file.write_bytes(to_onnx(student))
    except NotImplementedError as unknown:
        return str(unknown)
    return None


MOST_FOUND = 20
"""Classes of which the card says how many are found."""


def _needed(estimator: str) -> list[str]:
    """What the example needs: the student's own package too."""
    own = packages_distributions().get(estimator.split(".")[0], [])
    return sorted({*NEEDED, *own})


def _measured(test: PublicTest | None) -> str | None:
    if test is None:
        return None
    finds = (f"{item.name} {item.recall:.1%}" for item in test.classes[:MOST_FOUND] if item.recall is not None)
    return (
        f"{test.accuracy:.1%} right on {test.rows:,} public test rows, where the largest class alone is "
        f"{test.majority:.1%}; balanced accuracy {test.balanced_accuracy:.1%}; found of each class: {', '.join(finds)}"
    )


def _card(certificate: Certificate, student: Pipeline, without_onnx: str | None) -> Iterator[str]:
    guarantee, counts, record = certificate.promise, certificate.counts, certificate.student
    yield f"# A classifier of {', '.join(map(str, student.classes_))}\n"
    yield (
        f"Learned from private data (domain `{certificate.domain.name}`, session `{certificate.session}`) with "
        f"ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g} for {guarantee.unit} ({guarantee.neighbours}): "
        f"differential privacy, by `{certificate.mechanism.name}`. Using it costs nothing more.\n"
    )
    if certificate.teachers:
        yield f"It learned from {counts.answered:,} answers to {counts.asked:,} public rows.\n"
    yield from (f"**Warning:** {warning}.\n" for warning in certificate.warnings)
    right = _measured(record.public_test) or "not measured on public rows"
    yield f"- Student: `{record.estimator}` {record.params or ''}\n- Measured: {right}\n- SHA-256 of `{STUDENT}`: "
    yield f"  `{record.file.digest}`, as `certificate.json` names it\n"
    yield "## What it takes\n\nA pandas or polars frame of raw rows; a missing or unknown cell is no error.\n"
    yield "| column | holds |\n|---|---|"
    for name, (part, _) in _columns(student).items():
        yield f"| {name} | {TAKES[part[0].kind].format(part[0].size)} |"
    yield "\n## To use it\n\n`pip install -r requirements.txt`, then `python example.py` in this folder.\n"
    if without_onnx is None:
        yield (
            f"`{ONNX}` takes clean cells, one input a column: numbers, truth values (0 and 1) and dates (days since "
            "1970) as double, NaN where missing; words as string; lists as float. Its first output is the class.\n"
        )
    else:
        yield f"There is no `{ONNX}`: {without_onnx}.\n"
    yield "## What the guarantee does not cover\n"
    yield from (f"- {caveat}" for caveat in certificate.caveats)
    yield ""
