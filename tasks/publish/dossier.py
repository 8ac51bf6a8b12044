"""Dossier: the questions of a release review, answered from what was published and verified.

    published folder ─ checks of `concord verify` ─┬─ all hold: first page, and answers by document
                                                   └─ one fails: first page alone, which says what is not true

Questions, templates of their answers and where each answer stands in the published set are in dossier.toml. What nobody
published is "not provided", and who could provide it is named.

Assumes      the checks are those of the folder that the certificate was read from (tasks.verify.published)
Guarantees   nothing but what was published is read. If a check fails, the page begins with it, and no figure of the
             certificate is given as true. The same folder gives the same files; all content is escaped
Not covered  whether a law or a standard is met: no answer says so. Checked by tests/tasks/publish/test_dossier.py
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import WrongInput, in_json
from concord.artifacts.published import NOBODYS
from concord.tasks.publish.disclosures import (
    CENTRAL,
    description,
    groups_of,
    in_words,
    measured_in_words,
    mechanism_in_words,
    of_lifetime,
    reworded,
    test_in_words,
    unprotected,
)
from concord.tasks.publish.first_page import STATED, Checks, FirstPage, check_meanings, first_page, name_of, page_of

FORMAT = "concord dossier 1"
HTML, JSON = "dossier.html", "dossier.json"
MUCH = 3.0
"""Least scale of noise, in units, at which a count below ten may well stand for none or for twice as many."""
MOST_COLUMNS = 40
"""Most columns that are named."""


def dossier(published: Certificate, checks: Checks) -> dict[str, Any]:
    """The content of a dossier, as JSON: answers only if all checks hold, each None if nobody stated it.

    Raises WrongInput if no student is published.
    """
    certificate: Certificate = reworded(published, in_words)
    page = first_page(certificate, checks)
    failed = [_named(check) for check in checks if not check["ok"]]
    noise = (
        []
        if failed
        else [
            {"session": record.session, **noise._asdict()}
            for record in certificate.sessions
            for noise in record.mechanism.kind.noise
        ]
    )
    facts = _facts(certificate, checks, page, noise)
    return {
        "format": FORMAT,
        "page": asdict(page),
        "session": certificate.session,
        "what": certificate.what,
        "verified": not failed,
        "failed": failed,
        "warnings": [*certificate.warnings],
        "checked": [_named(check) for check in checks if check["ok"] and not check["warning"]],
        "left": [_named(check) for check in checks if check["ok"] and check["warning"]],
        "about": {name: getattr(certificate.about, name) for name in STATED},
        **{name: facts[name] for name in ("claim", "bound", "found", "lifetime", "measured", "counts")},
        "noise": noise,
        "not_stated": [words for name, words in STATED.items() if not getattr(certificate.about, name)],
        "parts": [] if failed else [_answered(part, facts) for part in _asked()["part"]],
    }


def write(content: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Write a dossier as HTML and JSON to a new or empty folder. Returns the names of the files. Raises WrongInput."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongInput(f"--out must name a folder that is empty or not there yet, got {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HTML).write_text(render(content), encoding="utf-8")
    (folder / JSON).write_text(in_json(content, indent=2) + "\n", encoding="utf-8")
    return HTML, JSON


def render(content: Mapping[str, Any]) -> str:
    """The dossier as one page of HTML that opens offline and fetches nothing."""
    return page_of("dossier.html.j2", **content)


@cache
def _asked() -> dict[str, Any]:
    """The questions of dossier.toml."""
    return tomllib.loads(Path(__file__).with_name("dossier.toml").read_text(encoding="utf-8"))


def _named(check: Mapping[str, Any]) -> dict[str, str]:
    """A check by its name in a session, what it means if it holds, and what it found."""
    return {
        "name": (name := name_of(check)),
        "means": check_meanings().get(name, ""),
        "detail": in_words(check["detail"]),
    }


def _answered(part: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    texts = Environment(undefined=StrictUndefined)  # no HTML yet: the page escapes all of it
    found = []
    for each in part["questions"]:
        said = {name: in_words(texts.from_string(each.get(name, "")).render(facts)) for name in ("answer", "from")}
        found.append({**each, **said, "answer": said["answer"] or None})
    return {**part, "questions": found}


def _facts(
    certificate: Certificate, checks: Checks, page: FirstPage, noise: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What templates of answers may name."""
    guarantee, features = certificate.guarantee, certificate.features
    signed = [check["detail"] for check in checks if check["name"].endswith(": signature")]
    measured = measured_in_words(certificate.student.public_test) or ""
    tested = "" if certificate.tested is None else test_in_words(certificate.tested)
    more = f" and {len(features) - MOST_COLUMNS} more" if len(features) > MOST_COLUMNS else ""
    return {
        "c": certificate,
        "g": guarantee,
        "about": certificate.about,
        "domain": certificate.domain,
        "claim": f"Differential privacy with {guarantee.in_words}. {certificate.delta_in_words}",
        "bound": guarantee.meaning,
        "found": page.facts.found if page.facts else "",
        "counts": _of_counts(noise),
        "synthetic": NOBODYS if certificate.mechanism.kind.of_rows == "synthetic rows" else "",
        "releases": "; ".join(dict.fromkeys(record.mechanism.releases for record in certificate.sessions)),
        "mechanism": mechanism_in_words(certificate),
        "lifetime": of_lifetime(certificate),
        "measured": ". ".join(filter(None, (measured, tested))),
        "by_group": "; ".join(each.in_words for each in groups_of(certificate)),
        "made": description(certificate),
        "columns": f"{', '.join(features[:MOST_COLUMNS])}{more}",
        "trusted": CENTRAL,
        "unprotected": unprotected(certificate),
        "signed": "; ".join(map(in_words, signed)),
        "passed": len(page.passed or ()),
        "open": len(page.left),
    }


def _of_counts(noise: Sequence[Mapping[str, Any]]) -> str:
    """Why counts below ten may be released, or that none is."""
    if not noise:
        return "No count or sum of records is released, only labels of public rows or the choice of a model."
    least = min(each["noise"] for each in noise)
    small = (
        "So a number below ten, or below zero, may stand for many units, and one above ten for none: a small number "
        "reveals no more about a person than a large one."
        if least >= MUCH
        else "With so little noise, a number is close to the exact count, and so is a small one. Only ε justifies its "
        "release, and so large an ε may not be enough for you."
    )
    return (
        "No exact count of records is released. A rule against counts below ten protects exact counts; every number "
        f"released here has noise of scale {least:.3g} units or more. {small} ε covers what one unit can change in all "
        "numbers together."
    )
