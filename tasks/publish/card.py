"""The model card: what a published student is, what is promised about it, what it takes, and what it is meant for.

Checked by tests/tasks/publish/test_export.py
"""

from collections.abc import Iterator

from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline

from concord.artifacts.certificate import Certificate
from concord.artifacts.measures import PublicTest, TestRecord

MOST_FOUND = 20
"""Classes of which the card says how many are found."""
TAKES = {
    "numeric": "a number",
    "boolean": "a truth value",
    "date": "a date or a moment",
    "categorical": "a word",
    "uint8": "a list of {} whole numbers from 0 to 255",
    "float32": "a list of {} numbers",
}


def model_card(certificate: Certificate, student: Pipeline) -> Iterator[str]:
    """Its lines, in Markdown. `student` is the published one, as the certificate digests it."""
    guarantee, counts, record, about = certificate.promise, certificate.counts, certificate.student, certificate.about
    yield f"# A classifier of {', '.join(_plain(str(name)) for name in student.classes_)}\n"
    yield (
        f"Learned from private data (domain `{certificate.domain.name}`, session `{certificate.session}`) with "
        f"ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g} for {guarantee.unit} ({guarantee.neighbours}): "
        f"differential privacy, by `{certificate.mechanism.name}`. Using it costs nothing more.\n"
    )
    if certificate.teachers:
        yield f"It learned from {counts.answered:,} answers to {counts.asked:,} public rows.\n"
    yield from (f"**Warning:** {warning}.\n" for warning in certificate.warnings)
    right = _measured(record.public_test) or "not measured on public rows"
    yield f"- Student: `{record.estimator}` {record.params or ''}\n- Measured: {right}"
    yield f"- SHA-256 of its file: `{record.file.digest}`, as `certificate.json` names it\n"
    if certificate.test:
        yield f"- {test_in_words(certificate.test)}\n"
    yield "## What it is meant for\n"
    yield f"{about.use or 'The publisher has not said.'}\n"
    if about.issuer:
        yield f"Issued by {_plain(', '.join(filter(None, (about.issuer, about.contact))))}.\n"
    yield "## What it takes\n\nA pandas or polars frame of raw rows; a missing or unknown cell is no error.\n"
    yield "| column | holds |\n|---|---|"
    for name, (part, _) in columns_of(student).items():
        yield f"| {_plain(name)} | {holds(part)} |"
    yield "\n## What the guarantee does not cover\n"
    yield from (f"- {caveat}" for caveat in certificate.caveats)
    yield ""


def columns_of(student: Pipeline) -> dict[str, tuple[Pipeline, list[str]]]:
    """The first part that each column goes through, and all columns that go with it."""
    parts = [(part, names) for _, part, names in student["encode"].transformers_ if isinstance(part, Pipeline)]
    return {name: (part, names) for part, names in reversed(parts) for name in names}


def holds(part: Pipeline) -> str:
    """What a column holds that goes through that part first."""
    if isinstance(part[-1], HashingVectorizer):
        return "free text, of which the words count and not their order"
    return TAKES[part[0].kind].format(part[0].size)


def test_in_words(test: TestRecord) -> str:
    """What a test on private units found, in one sentence."""
    of = test.accuracy
    unclean = "" if test.clean else ", but it learned from some of them, so the interval says nothing"
    return (
        f"Tried on about {test.rows:,} private units that were set aside, by noisy counts: {of.value:.1%} right "
        f"({of.low:.1%} to {of.high:.1%} at level {test.level:g}){unclean}"
    )


def _plain(name: str) -> str:
    """A name in one line of Markdown, that ends no cell of a table and begins no tag."""
    return "".join(f"\\{letter}" if letter in "\\`*_|<[" else letter for letter in " ".join(name.split()))


def _measured(test: PublicTest | None) -> str | None:
    if test is None:
        return None
    finds = (f"{item.name} {item.recall:.1%}" for item in test.classes[:MOST_FOUND] if item.recall is not None)
    return (
        f"{test.accuracy:.1%} right on {test.rows:,} public test rows, where the largest class alone is "
        f"{test.majority:.1%}; balanced accuracy {test.balanced_accuracy:.1%}; found of each class: {', '.join(finds)}"
    )
