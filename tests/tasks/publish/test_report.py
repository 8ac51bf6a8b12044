"""The report: one page, complete, that fetches nothing, runs nothing, and escapes whatever a plan names."""

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.support.published import SESSION, World, with_leading
from tests.support.sentences import says
from tests.world import CellPoints, Certificate, PublishedSession, Round, Scorecard, Tallies, render, small_counts

VOID = {"meta", "br", "link", "img", "input", "hr"}
SVG = (
    '<?xml version="1.0"?>\n<svg width="4pt" height="3pt" viewBox="0 0 4 3"><metadata>m</metadata>'
    '<g id="axes"><use xlink:href="#axes" clip-path="url(#axes)"/></g></svg>'
)
ONE_PAGE = 300
"""Words that most readers are given."""
FIGURES = dict.fromkeys(("spend", "what_if", "labels", "budget"), SVG)


class Page(HTMLParser):
    """What a browser would make of a page: its tags in balance, their attributes, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.unfolded = ""  # the words that are seen before anything is unfolded
        self.shown: list[str] = []  # what each <pre> holds
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "pre":
            self.shown.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += f"{data} "
        if not {"details", "style", "svg"} & {*self.open}:
            self.unfolded += f"{data} "
        if self.open[-1:] == ["pre"]:
            self.shown[-1] += data


@pytest.fixture(scope="module")
def certificate(small: World) -> Certificate:
    return PublishedSession.at(small.released.root / SESSION).certificate


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


def test_most_readers_need_one_page(certificate: Certificate) -> None:
    page = Page(render(certificate, FIGURES))
    assert len(page.unfolded.split()) <= ONE_PAGE
    shown = " ".join(page.unfolded.split())
    assert says(shown, "ε = 1, δ = 1e-05", "1% false positives", "baseline", "Lifetime privacy budget")
    assert f"concord verify {SESSION} --key KEY" in shown
    folds = [attributes for tag, attributes in page.tags if tag == "details"]
    assert len(folds) >= 9
    assert not any(folds)  # none is open
    assert certificate.student.file.digest in page.words


def test_settings_of_several_parts_are_tables(certificate: Certificate) -> None:
    """They were printed as Python prints a dict."""
    rounds = [{"what": "codes", "share": 0.1, "scale": 2 / 3}, {"what": "labels", "share": 0.9, "scale": 2.0}]
    settings = {"rounds": rounds, "relabel": {"share": 0.3, "features": ["age", "days"]}, "many": True}
    made = certificate.mechanism.model_copy(update={"settings": settings})
    page = render(with_leading(certificate, mechanism=made), FIGURES)
    words = " ".join(Page(page).words.split())
    assert "what share scale codes 0.1 0.6666666667 labels 0.9 2" in words
    assert "share 0.3 features age, days" in words
    assert "many" not in words.split("and its settings")[1].split("How to check it")[0]
    assert not {"{", "}", "["} & {*page.split("and its settings</caption>")[1].split("</details>")[0]}


def test_why_a_small_number_may_be_released_follows_from_the_noise(certificate: Certificate) -> None:
    def said(*noise: float) -> str:
        rounds = tuple(Round(fields=2, cells=60, least=4, share=0.5, scale=each * 16) for each in noise)
        many: dict[str, Any] = {"epsilon": 2.5, "delta": 1e-5, "classes": 2, "steps": 16, "secret": "rows"}
        settings = Tallies(**many, many=False, rounds=rounds).settings()
        made = certificate.mechanism.model_copy(update={"settings": settings})
        return small_counts(with_leading(certificate, mechanism=made))

    assert says(said(2.0, 3.0), "scale 2 units", "close to the exact count")
    assert "may stand for many units" in said(3.0)


def test_a_reader_who_sees_no_picture_is_told_what_it_shows(certificate: Certificate) -> None:
    page = Page(render(certificate, FIGURES))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)) == 9  # a caption and a part of each figure, and the caption of the first page
    for tag, attributes in page.tags:
        if tag == "svg":
            assert attributes["role"] == "img"
            assert "width" not in attributes
            assert attributes["aria-labelledby"] in ids
        if tag == "use":
            assert str(attributes["xlink:href"]).removeprefix("#") in ids
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
    assert [attributes for tag, attributes in page.tags if tag == "html"] == [{"lang": "en"}]
    headings = [tag for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
    assert headings[0] == "h1"
    assert headings.count("h1") == 1


def test_its_commands_check_the_released_files(small: World, certificate: Certificate, tmp_path: Path) -> None:
    few = Page(render(certificate, FIGURES))
    many = Page(render(with_leading(certificate, files=certificate.leading.files * 5), FIGURES))
    commands = [few.shown[-1], *many.shown[-2:]]
    assert [command.split()[0] for command in commands] == ["sha256sum", "sha256sum", "python3"]
    released = Path(shutil.copytree(small.released.root, tmp_path / "released"))
    assert [run_in(released, command) for command in commands] == [0, 0, 0]
    file = released / certificate.leading.files[0].path
    file.write_bytes(file.read_bytes()[:-1])
    assert 0 not in [run_in(released, command) for command in commands]


def run_in(folder: Path, command: str) -> int:
    shell = ["bash", "-c", f"set -o pipefail; {command}"]
    return subprocess.run(shell, cwd=folder, capture_output=True, check=False).returncode


def test_whatever_a_plan_names_is_escaped(certificate: Certificate) -> None:
    nasty = "<script>alert(1)</script>\u202e\x1b[2J"
    domain = certificate.domain.model_copy(update={"name": nasty})
    guarantee = certificate.guarantee.model_copy(update={"unit": nasty})
    about = certificate.about.model_copy(update={"justification": nasty})
    named = {"domain": domain, "guarantee": guarantee, "about": about}
    page = render(certificate.model_copy(update=named), FIGURES)
    assert not any(part in page for part in ("<script>alert", "\u202e", "\x1b"))
    assert page.count("&lt;script&gt;") >= 4


def test_a_long_stream_is_listed_in_the_certificate_alone(certificate: Certificate) -> None:
    many = with_leading(certificate, files=certificate.leading.files * 100)
    page = render(many, FIGURES)
    assert page.count(certificate.leading.files[0].digest) == 4
    assert says(page, "all 301", "digests")


def test_an_additive_student_is_shown_as_a_scorecard(certificate: Certificate) -> None:
    cells = (CellPoints("below 3", (-4,)), CellPoints("3 or more", (7,)), CellPoints("no value", (0,)))
    page = Page(render(certificate, FIGURES, Scorecard(("yes",), (-12,), {"age <b>": cells})))
    words = " ".join(page.words.split())
    assert "double the odds of yes. Every row starts with -12" in words
    assert "age <b> below 3 -4 3 or more +7 no value +0" in words
    assert "<h2>Scorecard</h2>" not in render(certificate, FIGURES)
