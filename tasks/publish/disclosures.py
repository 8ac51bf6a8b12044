"""Disclosures: a published certificate in prose. The model card of `concord export` describes a student, its guarantee,
its inputs and its purpose. A certificate may be a stranger's: it is written `reworded`.

Checked by tests/tasks/publish/test_export.py and tests/flows/cli/test_strangers_words.py
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import in_one_line
from concord.artifacts.measures import (
    AnyPublicTest,
    AnyTested,
    NumberTested,
    PublicTest,
    number_tested_in_words,
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


def reworded(value: Any, word: Callable[[str], str]) -> Any:
    """A certificate, or a part of it, with `word` of each text in its place."""
    match value:
        case str():
            return word(value)
        case BaseModel():
            return value.model_copy(update={name: reworded(part, word) for name, part in value})
        case list() | tuple():
            return type(value)(reworded(part, word) for part in value)
        case dict():
            return {word(name): reworded(part, word) for name, part in value.items()}
    return value


ACTIVE = re.compile(r"[\\`*|<\[&]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown takes for code, emphasis, a cell's end, a tag, a link or an entity; an _ within a word is none."""
LEADING = re.compile(r"^(\d+)(?=[.)](?!\S))|^(?=[#>+=~-])")
"""What comes before a heading, a quote, a rule or a list at the beginning of a line."""


def in_words(text: str) -> str:
    """A text on one line, its words apart by single spaces."""
    return in_one_line(" ".join(text.split()))


def in_markdown(text: str) -> str:
    """A text as words of Markdown that say it and do nothing else."""
    return LEADING.sub(r"\1\\", ACTIVE.sub(r"\\\g<0>", in_words(text)))


def model_card(published: Certificate, student: Pipeline) -> Iterator[str]:
    """The lines of the model card, Markdown. `student` is the published one that the certificate digests."""
    certificate: Certificate = reworded(published, in_markdown)
    guarantee, counts, record, about = certificate.guarantee, certificate.counts, certificate.student, certificate.about
    named = [in_markdown(str(name)) for name in getattr(student, "classes_", ())]
    yield f"# {certificate.what.capitalize()}{': ' * bool(named)}{', '.join(named)}\n"
    yield (
        f"Learned from private data (domain {certificate.domain.name}, session {certificate.session}) with "
        f"{guarantee.in_words} ({guarantee.neighbours}): differential privacy, by {certificate.mechanism.name}. "
        f"{certificate.delta_in_words} Predictions spend nothing.\n"
    )
    if certificate.teachers:
        yield f"It learned from {counts.answered:,} answers to {counts.asked:,} public rows.\n"
    yield from (f"**Warning:** {warning}.\n" for warning in certificate.warnings)
    right = measured_in_words(record.public_test) or "not evaluated on public rows"
    params = in_markdown(str(published.student.params or ""))
    yield f"- Student: {record.estimator} {params}\n- Performance: {right}"
    yield f"- SHA-256 of its file: {record.file.digest}, as `certificate.json` names it\n"
    if test := certificate.tested:
        yield f"- {test_in_words(test)}\n"
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


def test_in_words(test: AnyTested) -> str:
    """The result of a test on private units, in one sentence."""
    if isinstance(test, NumberTested):
        right = f"{number_tested_in_words(test.model_dump())}, at level {test.level:g}"
    else:
        recalls = (f"{item.name} {item.recall.in_words}" for item in test.classes[:MOST_FOUND])
        right = (
            f"accuracy {test.accuracy.in_words}, balanced accuracy {test.balanced_accuracy.in_words}, recall of "
            f"{', '.join(recalls)}, at level {test.level:g}"
        )
    unclean = "" if test.clean else ", but it may have learned from some of them, so the intervals are not valid"
    units = f"about {test.rows:,} private units that were set aside"
    return f"Private test, by noisy counts of {units}: {right}{unclean}"


def measured_in_words(test: AnyPublicTest | None) -> str | None:
    """The result of a public test, in a part of a sentence."""
    if not isinstance(test, PublicTest):
        return None if test is None else test.in_words
    recalls = (f"{item.name} {item.recall.in_words}" for item in test.classes[:MOST_FOUND] if item.recall is not None)
    return f"{test.in_words}; recall of each class: {', '.join(recalls)}"
