"""Disclosures: a published certificate in prose, for users of the model, a registry and a guideline.

The model card describes a published student, its guarantee, its inputs and its purpose. The other two use the subjects
and keys of the registry and the guideline, in our words, and list what is missing. A certificate may be a stranger's:
each writes it `reworded`.

Checked by tests/tasks/publish/test_export.py, tests/tasks/publish/test_statements.py and
tests/flows/cli/test_strangers_words.py
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import yaml
from pydantic import BaseModel
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import in_one_line
from concord.artifacts.measures import (
    AnyPublicTest,
    AnyTested,
    GroupMeasured,
    NumberTested,
    PublicTest,
    number_tested_in_words,
)

NOT_STATED = "Not stated by the publisher."
ABOUT = {
    "registry": ("issuer", "date", "use", "justification"),
    "cyclonedx": ("issuer", "use"),
    "markdown": ("issuer", "use"),
}
"""The keys of `[about]` that each statement asks for."""
STATIC = "The certificate names one state of the private data, `{}`; a later state is published anew."
GROWING = (
    "Rows arrive, and each release counts all units of its season that arrived so far; the season has {} releases, and "
    "each unit is counted in one season."
)
CENTRAL = (
    "One curator holds the private records and runs the software. The curator, the machine and its console are "
    "trusted. Readers of the publication are not trusted."
)
COMPOSITION = (
    "A ledger charges every session of the domain before its first answer is drawn, and refuses a session that would "
    "exceed the domain's lifetime cap. {}"
)

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


def lacking(certificate: Certificate, kind: str) -> list[str]:
    """Keys of `[about]` that the statement asks for and the plan did not give."""
    return [f"about.{key}" for key in ABOUT[kind] if not getattr(certificate.about, key)]


def registry(certificate: Certificate) -> str:
    """A draft for the registry's reviewers: deployments-schema.yaml of opendp/deployments-registry-data."""
    certificate = reworded(certificate, in_words)
    about, promise, domain = certificate.about, certificate.guarantee, certificate.domain
    absent = lacking(certificate, "registry")
    basic = {
        "name": f"{certificate.what.capitalize()} learned from {domain.name}",
        "data_curators": [about.issuer or NOT_STATED],
        "intended_use": about.use or NOT_STATED,
        "data_product_type": "Machine learning model",
        "data_product_region": NOT_STATED,
        "description": description(certificate),
        "publication_date": about.date,
    }
    deployment = {
        "basic": basic,
        "dp_variant": {
            "variant_name": "Approximate DP" if promise.delta else "Pure DP",
            "data_domain": f"Tables whose privacy unit is {promise.unit}; neighbours: {promise.neighbours}.",
            "unprotected_quantities": unprotected(certificate),
        },
        "privacy_loss": {
            "privacy_unit": promise.unit,
            "privacy_unit_details": f"Two tables are adjacent if they differ as in: {promise.neighbours}.",
            "privacy_parameters": {"epsilon": promise.epsilon, "delta": promise.delta},
            "privacy_parameters_details": f"{certificate.delta_in_words} {of_lifetime(certificate)}",
        },
        "deployment_model": {
            "model_name": "Central",
            "model_name_details": CENTRAL,
            "release_type": "One release" if domain.sessions == 1 else "Many releases",
            "release_type_details": of_lifetime(certificate),
            "data_source_type": "Dynamic" if certificate.mechanism.kind.season else "Static",
            "data_source_type_details": sourced(certificate),
            "access_type": "Non-interactive",
            "access_type_details": "The student is published as a file. Predictions do not query the private records.",
        },
        "accounting": {
            "post_processing": f"The student, {certificate.student.estimator}, is fitted to what was released.",
            "composition": COMPOSITION.format(of_lifetime(certificate)),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": (
                "Settings follow from public facts and the plan, or from a private choice that is charged. Settings "
                "that an operator chose by looking at private rows are not covered."
            ),
            "mechanisms": " ".join(
                (mechanism_in_words(certificate), "Noise is drawn in integers.", *certificate.caveats)
            ),
            "justification": about.justification or NOT_STATED,
        },
        "administrative": {
            "notes": f"Not stated in the plan: {', '.join(absent)}." if absent else "Written from the certificate.",
            "registry_authors": [about.issuer or NOT_STATED],
        },
    }
    record = {"url_slug": certificate.session, "status": "Draft", "tier": 3, "deployment": deployment}
    return str(yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=100))


def groups_of(certificate: Certificate) -> Sequence[GroupMeasured]:
    """Figures by group, on public test rows."""
    test = certificate.student.public_test
    return () if test is None else test.groups


def description(certificate: Certificate) -> str:
    counts, mechanism = certificate.counts, certificate.mechanism
    how = f"{counts.answered:,} released answers to {counts.asked:,} public rows"
    what = how if certificate.teachers else mechanism.releases
    return f"A {certificate.what}, {certificate.student.estimator}, that learned from: {what} ({mechanism.name})."


def mechanism_in_words(certificate: Certificate) -> str:
    """The mechanism, those of its settings that are single numbers, and its proof."""
    scalars = {  # tables of numbers are in the certificate
        name: value
        for name, value in certificate.mechanism.settings.items()
        if isinstance(value, int | float) and name != "name"
    }
    settings = ", ".join(f"{name} = {value}" for name, value in scalars.items())
    return f"{certificate.mechanism.name} ({settings}). Proof: {certificate.mechanism.proof}."


def sourced(certificate: Certificate) -> str:
    """Whether the private data change over time."""
    season = certificate.mechanism.kind.season
    return GROWING.format(season) if season else STATIC.format(certificate.data_version)


def unprotected(certificate: Certificate) -> str:
    """What is not protected."""
    given, besides = certificate.mechanism.kind.given, certificate.guarantee.unprotected
    return f"The {given}, the plan and the declared classes or bounds. {besides}".rstrip()


def of_lifetime(certificate: Certificate) -> str:
    """What the domain may spend, and has spent."""
    domain = certificate.domain
    charged = "1 session has" if domain.sessions == 1 else f"{domain.sessions} sessions have"
    return (
        f"Over its lifetime the domain {domain.name} may spend {domain.cap.in_words}. So far {charged} been charged "
        f"ε = {domain.spent.epsilon:.3g} at δ = {domain.spent.delta:g}."
    )
