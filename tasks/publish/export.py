"""Export: a published student as a folder that needs nothing of Concord, in every form that suits it.

    FORMS                 what each form writes: a program for scikit-learn, a scorecard, a statement of SQL, tables
    MODEL_CARD.md         the student, its guarantee, its inputs, and how to use each form
    certificate.json      the guarantee, and certificate.schema.json and report.html as they were published
    attestation.json      who signed them, with key.pem, the ledger's excerpt and attestation.schema.json

A further form is an entry of FORMS; `make reference` adds it to deployments/guides/publish.md. A certificate may be a
stranger's: the model card is written of a reworded one.

Assumes      the published student (tasks.verify.certificate) and its values (tasks.student.trust) were checked
Guarantees   nothing but what was published is read, and nothing is spent. The files that were signed are written with
             the bytes that were compared; into example.py, of a student's words and numbers nothing but their `repr`
Not covered  what a stranger's report.html holds, which is copied as it was signed, and how much memory a stranger's
             synthetic rows take; whether the certificate is right: tasks.verify.verify. Checked by
             tests/tasks/publish/test_export.py, tests/flows/cli/test_strangers_words.py and, of synthetic rows,
             tests/flows/test_sketch_operations.py
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline

from concord.artifacts.certificate import Certificate, reworded
from concord.artifacts.errors import WrongInput, single_spaced
from concord.artifacts.measures import AnyPublicTest, AnyTested, NumberTest, NumberTested
from concord.artifacts.mlflow.describe import NEEDED
from concord.artifacts.published import ATTESTATION_FILE, CARD_FILE, KEY_FILE, NOBODYS, SYNTHETIC_FILE, PublishedStudent
from concord.tasks.data.concord_student import Spelled, truth_words
from concord.tasks.publish.predict import csv_text
from concord.tasks.publish.tables import TABLES, TABLES_GUIDE, tables_files
from concord.tasks.student.model import load, modules_needed, strangers
from concord.tasks.student.scorecard import has_scorecard, has_statement, scorecard_json, scorecard_sql
from concord.tasks.student.trust import trusted_types

STUDENT, SCORECARD, SQL, ROWS = "student.skops", "scorecard.json", "scorecard.sql", "synthetic.csv"
EXAMPLE = """import pandas as pd
import skops.io

trusted = {trusted!r}
student = skops.io.load({file!r}, trusted=trusted)
rows = pd.DataFrame([{row}])
print(student.predict(rows))
"""
AT_THRESHOLD = """
# By itself the student may never name {name!a}. From this probability on, its rows are found; see MODEL_CARD.md.
chance = student.predict_proba(rows)[:, student.classes_.tolist().index({name!r})]
print(chance >= {least!r})
"""


@dataclass(frozen=True)
class ExportForm:
    """A form of an exported student.

    use     how to use it, for the model card and the guide
    suits   whether a published student has that form
    files   what is written for a student that it suits, by name
    """

    use: str
    suits: Callable[[PublishedStudent, Pipeline], bool]
    files: Callable[[PublishedStudent, Pipeline], Mapping[str, bytes]]


def export(published: PublishedStudent, target: Path) -> dict[str, list[str]]:
    """Write a published student to the new or empty folder `target`; returns the names of its files, by form, and of
    those that were published with it.

    Raises WrongInput if `target` is neither; NotVerified as `load` does.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise WrongInput(f"--to must name a folder that is empty or not there yet, got {target}")
    student = load(published.student)
    with strangers():
        forms = {name: form.files(published, student) for name, form in FORMS.items() if form.suits(published, student)}
        uses = (f"- {name}: {FORMS[name].use}" for name in forms)
        operating_points = _to_find(_thresholds(published, student), forms)
        card = (
            *model_card(published.certificate, student),
            "## To use it\n",
            *uses,
            "",
            *operating_points,
            *_to_check(published),
        )
    forms["published"] = {**published.documents, CARD_FILE: "\n".join(card).encode()}
    target.mkdir(parents=True, exist_ok=True)
    for files in forms.values():
        for name, content in files.items():
            (target / name).write_bytes(content)
    return {form: sorted(files) for form, files in forms.items()}


def _program(published: PublishedStudent, student: Pipeline) -> dict[str, bytes]:
    """The student, estimators of it that scikit-learn lacks, a program that predicts, and the packages it needs."""
    trusted = trusted_types(published.student)
    modules = modules_needed(trusted)
    row = ", ".join(f"{name!r}: {value}" for name, value in example_row(student).items())
    at_thresholds = "".join(
        AT_THRESHOLD.format(name=name, least=least) for name, least in _thresholds(published, student).items()
    )
    example = EXAMPLE.format(trusted=trusted, file=STUDENT, row=f"{{{row}}}") + at_thresholds
    return {
        STUDENT: published.student,
        **{f"{part.NAME}.py": Path(str(part.__file__)).read_bytes() for part in modules},
        "example.py": example.encode(),
        "requirements.txt": "".join(f"{name}=={version(name)}\n" for name in _needed(trusted, modules)).encode(),
    }


def _synthetic_rows(published: PublishedStudent, student: Pipeline) -> pl.DataFrame:
    """The synthetic rows, truth values and dates as the published schema has them written, which the student reads."""
    rows = pl.read_parquet(published.documents[SYNTHETIC_FILE])
    for name, (part, _) in columns_of(student).items():
        match part[0]:
            case Spelled(kind="boolean", true=true, false=false, absent=absent):
                truths = reversed(truth_words(true, false, absent).items())  # the first word of each value is taken
                words = {str(value == 1).lower(): word for word, value in truths}
                rows = rows.with_columns(pl.col(name).cast(pl.String).replace(words))
            case Spelled(dates=form) if form and rows.schema[name] == pl.Date:  # a moment has more digits than a form
                rows = rows.with_columns(pl.col(name).dt.strftime(form))
    return rows


FORMS = {
    "scikit-learn": ExportForm(
        "`pip install -r requirements.txt`, then `python example.py` in the folder", lambda *_: True, _program
    ),
    "scorecard": ExportForm(
        f"`{SCORECARD}` lists the points of every cell and how a cell is read",
        lambda _, student: has_scorecard(student),
        lambda published, student: {SCORECARD: scorecard_json(student, published.certificate.thresholds).encode()},
    ),
    "SQL": ExportForm(
        f'`{SQL}` scores a table in a database: put its name in place of `"rows"`',
        lambda _, student: has_statement(student),
        lambda published, student: {SQL: scorecard_sql(student, published.certificate.thresholds).encode()},
    ),
    "synthetic rows": ExportForm(
        f"`{ROWS}` has synthetic rows that resemble the private ones, with inferred labels. {NOBODYS}",
        lambda published, _: SYNTHETIC_FILE in published.documents,
        lambda published, student: {ROWS: csv_text(_synthetic_rows(published, student)).encode()},
    ),
    "tables": ExportForm(
        f"`{TABLES}` has the released noisy counts of each column and of each pair of columns, with their standard "
        f"deviations and 95 % intervals; `{TABLES_GUIDE}` says how to read them",
        lambda published, _: bool(published.tables),
        lambda published, _: tables_files(published.tables),
    ),
}
"""What a student is exported as; `concord export` and `concord.export` write every form that suits it."""


def example_row(student: Pipeline) -> dict[str, str]:
    """A typical value of each column, as Python source: the public median, or the most frequent public word."""
    row = dict[str, str]()
    for name, (part, names) in columns_of(student).items():
        kind, size = part[0].kind, part[0].size
        of_list = kind in ("uint8", "float32")
        row[name] = f"[0] * {size!r}" if of_list else repr(_typical(part, kind, names.index(name)))
    return row


def _typical(part: Pipeline, kind: str, at: int) -> Any:
    """A cell of a column of that kind: a plain value, as tasks.student.trust has checked."""
    if kind == "hashed" or isinstance(part[-1], HashingVectorizer):
        return "a few words"
    if "code" in part.named_steps:
        values = part["code"].cuts or part["code"].words
        middle = values[len(values) // 2] if values else None
    elif kind == "categorical":
        middle = next(iter(part[1].categories_[0].tolist()), None)
    else:
        middle = float(part["fill"].statistics_[at])
        if "log" in part.named_steps:
            middle = math.copysign(math.expm1(abs(middle)), middle)
    if kind == "categorical" or middle is None:
        return middle
    if kind == "boolean":
        return bool(middle > 0)
    return (date(1970, 1, 1) + timedelta(days=middle)).isoformat() if kind == "date" else float(f"{middle:.6g}")


def _needed(trusted: Sequence[str], modules: Sequence[ModuleType]) -> list[str]:
    """Packages that the example needs, with those of the student's types; not ours, whose part is in the folder."""
    packages = {name.split(".")[0] for name in trusted} - {part.NAME for part in modules}
    distributions = (name for package in packages for name in packages_distributions().get(package, []))
    return sorted({*NEEDED, *distributions})


def _to_check(published: PublishedStudent) -> Iterator[str]:
    """The card's section on the evidence, if it was published, as it is since the third format."""
    if ATTESTATION_FILE in published.documents:
        yield (
            "## To check it\n\n`concord verify .` in this folder recomputes the guarantee and what the domain was "
            f"charged, compares these files with what `{KEY_FILE}` signed (name the key you trust with `--key`), and "
            "names what is not included here: labels and figures. The folder as it was published, copied whole, is "
            "verified whole.\n"
        )


def _thresholds(published: PublishedStudent, student: Pipeline) -> dict[str, float]:
    """The thresholds of the certificate, of classes that the student knows."""
    named = [*getattr(student, "classes_", ())]
    return {name: least for name, least in published.certificate.thresholds.items() if name in named}


def _to_find(thresholds: Mapping[str, float], forms: Collection[str]) -> Iterator[str]:
    """The card's words on classes that the student may never name by itself."""
    if thresholds:
        least = ", ".join(f"{in_markdown(name)} from {value:g} on" for name, value in thresholds.items())
        also = f", and so do `{SCORECARD}` and, of two classes, `{SQL}`" if "scorecard" in forms else ""
        yield (
            "A class that the student may never name by itself is found if you name it from a probability on: "
            f"{least}. `example.py` shows how{also}.\n"
        )


NOT_STATED = "Not stated by the publisher."
MOST_FOUND = 20
"""Most classes whose recall the card lists."""
TAKES = {
    "numeric": "a number",
    "boolean": "a truth value",
    "date": "a date or a moment",
    "categorical": "a category",
    "hashed": "text, hashed to one of {} buckets",
    "uint8": "a list of {} whole numbers from 0 to 255",
    "float32": "a list of {} numbers",
}


ACTIVE = re.compile(r"[\\`*|<\[&]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown takes for code, emphasis, a cell's end, a tag, a link or an entity; an _ within a word is none."""
LEADING = re.compile(r"^(\d+)(?=[.)](?!\S))|^(?=[#>+=~-])")
"""What comes before a heading, a quote, a rule or a list at the beginning of a line."""


def in_markdown(text: str) -> str:
    """A text as words of Markdown that say it and do nothing else."""
    return LEADING.sub(r"\1\\", ACTIVE.sub(r"\\\g<0>", single_spaced(text)))


def model_card(published: Certificate, student: Pipeline) -> Iterator[str]:
    """The lines of the model card, Markdown. `student` is the published one that the certificate digests."""
    certificate: Certificate = reworded(published, in_markdown)
    record, about = certificate.student, certificate.about
    named = [in_markdown(str(name)) for name in getattr(student, "classes_", ())]
    yield f"# {certificate.what.capitalize()}{': ' * bool(named)}{', '.join(named)}\n"
    yield (
        f"Learned from private data (domain {certificate.domain.name}, session {certificate.session}) with "
        f"{certificate.claim_in_words}. {certificate.delta_in_words} Predictions spend nothing.\n"
    )
    yield f"{certificate.released_in_words}\n"
    yield from (f"**Warning:** {warning}.\n" for warning in certificate.warnings)
    public, private = record.public_test, certificate.tested
    right = "not evaluated on public rows" if public is None else evaluated_in_words(public)
    params = in_markdown(str(published.student.params or ""))
    yield f"- Student: {record.estimator} {params}\n- Performance: {right}"
    yield f"- SHA-256 of its file: {record.file.digest}, as `certificate.json` names it\n"
    if private is not None:
        yield f"- Private test, by noisy counts: {evaluated_in_words(private)}\n"
    yield "## Intended use\n"
    yield f"{about.use or NOT_STATED}\n"
    if about.issuer:
        yield f"Issued by {about.issuer}.\n"
    yield "## Input\n\nA pandas or polars frame of raw rows. Missing and unknown cells are allowed.\n"
    yield "| column | contains |\n|---|---|"
    for name, (part, _) in columns_of(student).items():
        yield f"| {in_markdown(name)} | {holds(part)} |"
    yield "\n## What the guarantee does not cover\n"
    yield from (f"- {caveat}" for caveat in certificate.caveats)
    yield ""


def columns_of(student: Pipeline) -> dict[str, tuple[Pipeline, list[str]]]:
    """For each column, in the order of a table's, the first part of the pipeline that reads it, and all columns of that
    part."""
    encode = student["encode"]
    parts = [(part, names) for _, part, names in encode.transformers_ if isinstance(part, Pipeline)]
    first = {name: (part, names) for part, names in reversed(parts) for name in names}
    return {name: first[name] for name in encode.feature_names_in_ if name in first}


def holds(part: Pipeline) -> str:
    """Content of a column that is read by this part first, in words."""
    if isinstance(part[-1], HashingVectorizer):
        return "free text, as a bag of words"
    return TAKES[part[0].kind].format(part[0].size)


def evaluated_in_words(test: AnyPublicTest | AnyTested) -> str:
    """The result of a test, in a part of a sentence."""
    if isinstance(test, NumberTest | NumberTested):
        return test.in_words
    recalls = (f"{item.name} {item.recall.in_words}" for item in test.classes[:MOST_FOUND] if item.recall is not None)
    return f"{test.in_words}; recall of each class: {', '.join(recalls)}"
