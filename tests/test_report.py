"""The report: one page, complete, that fetches nothing, runs nothing, and escapes whatever a plan names."""

from html.parser import HTMLParser

import pytest

from artifacts.certificate import Certificate
from artifacts.report import render
from tasks.mechanisms.stable import StableVoting
from tests.published import SESSION, certified, world

VOID = {"meta", "br", "link", "img", "input", "hr"}
SVG = '<?xml version="1.0"?>\n<svg width="4pt" height="3pt" viewBox="0 0 4 3"><metadata>m</metadata></svg>'
FIGURES = dict.fromkeys(("spend", "labels", "budget"), SVG)


class Page(HTMLParser):
    """What a browser would make of a page: its tags in balance, their attributes, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += f"{data} "


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    small = world(tmp_path_factory.mktemp("world"))
    _, written = certified(small, StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20), small.truth)
    return Certificate.model_validate_json(small.released.read(written.certificate))


def test_the_page_is_whole_and_fetches_and_runs_nothing(certificate: Certificate) -> None:
    page = Page(render(certificate, FIGURES))
    assert page.open == []
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "iframe", "img", "object", "embed")
        for name, value in attributes.items():
            assert name not in ("src", "action", "data", "onload", "onclick")
            assert not (value or "").startswith(("http:", "https:", "//")) or name.startswith("xmlns")
    assert "@import" not in page.words
    assert "url(" not in page.words


def test_both_readers_find_what_they_need(certificate: Certificate) -> None:
    words = " ".join(Page(render(certificate, FIGURES)).words.split())
    for part in (
        "ε = 1, δ = 1e-5",
        "add or remove one unit",
        "ε = 2",
        "lifetime cap",
        "rows asked 300",
        "answered 300",
        "tasks/mechanisms/stable.py",
        f"concord verify {SESSION}",
        certificate.student.file.digest,
        "older copy",
        "pseudo-random",
    ):
        assert part in words


def test_it_fits_phones_and_follows_the_dark_scheme(certificate: Certificate) -> None:
    page = render(certificate, FIGURES)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "prefers-color-scheme: dark" in page
    images = [attributes for tag, attributes in Page(page).tags if tag == "svg"]
    assert len(images) == 3
    assert all("width" not in image and "viewbox" in image for image in images)


def test_whatever_a_plan_names_is_escaped(certificate: Certificate) -> None:
    nasty = "<script>alert(1)</script>"
    domain = certificate.domain.model_copy(update={"name": nasty})
    guarantee = certificate.guarantee.model_copy(update={"unit": nasty})
    page = render(certificate.model_copy(update={"domain": domain, "guarantee": guarantee}), FIGURES)
    assert nasty not in page
    assert page.count("&lt;script&gt;") >= 3


def test_a_long_stream_is_listed_in_the_certificate_alone(certificate: Certificate) -> None:
    many = certificate.model_copy(update={"labels": certificate.labels * 100})
    page = render(many, FIGURES)
    assert page.count("sha256sum") == 11
    assert "The certificate (JSON) lists the other 290 files" in page


def test_a_student_without_public_test_rows_claims_no_accuracy(certificate: Certificate) -> None:
    student = certificate.student.model_copy(update={"accuracy": None})
    assert "right on public test rows" in render(certificate, FIGURES)
    assert "right on public test rows" not in render(certificate.model_copy(update={"student": student}), FIGURES)
