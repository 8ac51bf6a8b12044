"""The report: one page, complete, that fetches nothing, runs nothing, and escapes whatever a plan names; its first part
says what the certificate says."""

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.evaluated import (
    AT_20,
    EVALUATIONS,
    NONE,
    NUMBER,
    SURE,
    USEFUL,
    classes_tested,
    evaluated,
    share,
    units_tested,
)
from tests.support.published import SESSION, World, with_leading
from tests.support.recorded import RECORDED
from tests.support.sentences import says

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
def certificate(small: World) -> world.Certificate:
    return world.PublishedSession.at(small.released.root / SESSION).certificate


def test_the_page_is_whole_and_fetches_and_runs_nothing(certificate: world.Certificate) -> None:
    page = Page(world.render(certificate, FIGURES))
    assert page.open == []
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "iframe", "img", "object", "embed")
        for name, value in attributes.items():
            assert name not in ("src", "action", "data", "onload", "onclick")
            assert not (value or "").startswith(("http:", "https:", "//")) or name.startswith("xmlns")
    assert "@import" not in page.words
    assert "url(" not in page.words


def test_most_readers_need_one_page(certificate: world.Certificate) -> None:
    page = Page(world.render(certificate, FIGURES))
    assert len(page.unfolded.split()) <= ONE_PAGE
    shown = " ".join(page.unfolded.split())
    assert says(shown, "ε = 1, δ = 1e-05", "1% false positives", "baseline", "Lifetime privacy budget")
    assert f"concord verify {SESSION} --key KEY" in shown
    folds = [attributes for tag, attributes in page.tags if tag == "details"]
    assert len(folds) >= 9
    assert not any(folds)  # none is open
    assert certificate.student.file.digest in page.words


def test_settings_of_several_parts_are_tables(certificate: world.Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were printed as Python prints a dict."""
    rounds = [{"what": "codes", "share": 0.1, "scale": 2 / 3}, {"what": "labels", "share": 0.9, "scale": 2.0}]
    settings = {"rounds": rounds, "relabel": {"share": 0.3, "features": ["age", "days"]}, "many": True}
    monkeypatch.setattr(world.publish_explain, "small_counts", lambda _: "")  # which reads a mechanism's settings
    made = certificate.mechanism.model_copy(update={"settings": settings})
    page = world.render(with_leading(certificate, mechanism=made), FIGURES)
    words = " ".join(Page(page).words.split())
    assert "what share scale codes 0.1 0.6666666667 labels 0.9 2" in words
    assert "share 0.3 features age, days" in words
    assert "many" not in words.split("and its settings")[1].split("How to check it")[0]
    assert not {"{", "}", "["} & {*page.split("and its settings</caption>")[1].split("</details>")[0]}


def test_why_a_small_number_may_be_released_follows_from_the_noise(certificate: world.Certificate) -> None:
    def said(*noise: float) -> str:
        rounds = tuple(world.Round(fields=2, cells=60, least=4, share=0.5, scale=each * 16) for each in noise)
        many: dict[str, Any] = {"epsilon": 2.5, "delta": 1e-5, "classes": 2, "steps": 16, "secret": "rows"}
        settings = world.Tallies(**many, many=False, rounds=rounds).model_dump(mode="json")
        made = certificate.mechanism.model_copy(update={"settings": settings})
        return world.small_counts(with_leading(certificate, mechanism=made))

    assert says(said(2.0, 3.0), "scale 2 units", "close to the exact count")
    assert "may stand for many units" in said(3.0)


def test_the_noise_of_a_stream_is_that_of_the_numbers_it_releases(certificate: world.Certificate) -> None:
    """It was said to be 2^bits times as large, beside the true scale, and a stream to have rounds."""
    stream = world.Stream.model_validate(RECORDED["stream"])
    made = certificate.mechanism.model_copy(update={"name": "stream", "settings": RECORDED["stream"]})
    words = Page(world.render(with_leading(certificate, mechanism=made, teachers=0), FIGURES)).words
    table = words.split("The sums of every release")[1]
    for planned in stream.rounds:
        assert f" {planned.scale / (stream.steps << stream.bits):.4g} " in table
    assert says(words, "releases so far", "All releases together are charged whole")


def test_every_mechanism_that_released_a_file_is_named(certificate: world.Certificate) -> None:
    test = certificate.mechanism.model_copy(update={"name": "private_test", "proof": "its proof"})
    sessions = (certificate.leading, certificate.leading.model_copy(update={"session": "people-2", "mechanism": test}))
    words = Page(world.render(certificate.model_copy(update={"sessions": sessions}), FIGURES)).words
    assert says(words, f"of the mechanism {certificate.mechanism.name}, which", "and of the mechanism private_test,")


def test_a_reader_who_sees_no_picture_is_told_what_it_shows(certificate: world.Certificate) -> None:
    page = Page(world.render(certificate, FIGURES))
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


def test_its_commands_check_the_released_files(small: World, certificate: world.Certificate, tmp_path: Path) -> None:
    few = Page(world.render(certificate, FIGURES))
    many = Page(world.render(with_leading(certificate, files=certificate.leading.files * 5), FIGURES))
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


def test_whatever_a_plan_names_is_escaped(certificate: world.Certificate) -> None:
    nasty = "<script>alert(1)</script>\u202e\x1b[2J"
    domain = certificate.domain.model_copy(update={"name": nasty})
    guarantee = certificate.guarantee.model_copy(update={"unit": nasty})
    about = certificate.about.model_copy(update={"justification": nasty})
    named = {"domain": domain, "guarantee": guarantee, "about": about}
    page = world.render(certificate.model_copy(update=named), FIGURES)
    assert not any(part in page for part in ("<script>alert", "\u202e", "\x1b"))
    assert page.count("&lt;script&gt;") >= 4


def test_a_long_stream_is_listed_in_the_certificate_alone(certificate: world.Certificate) -> None:
    many = with_leading(certificate, files=certificate.leading.files * 100)
    page = world.render(many, FIGURES)
    assert page.count(certificate.leading.files[0].digest) == 4
    assert says(page, "all 301", "digests")


def test_an_additive_student_is_shown_as_a_scorecard(certificate: world.Certificate) -> None:
    cells = (
        world.CellPoints("below 3", (-4,)),
        world.CellPoints("3 or more", (7,)),
        world.CellPoints("no value", (0,)),
    )
    page = Page(world.render(certificate, FIGURES, world.Scorecard(("yes",), (-12,), {"age <b>": cells})))
    words = " ".join(page.words.split())
    assert "double the odds of yes. Every row starts with -12" in words
    assert "age <b> below 3 -4 3 or more +7 no value +0" in words
    assert "<h2>Scorecard</h2>" not in world.render(certificate, FIGURES)


WARNED = "a warning of the certificate"


@pytest.mark.parametrize("name", EVALUATIONS)
def test_the_first_page_warns_unless_the_student_beats_the_baseline_and_finds_each_class(
    certificate: world.Certificate, name: str
) -> None:
    """In which words: tests/texts/verdicts.txt"""
    public, private = EVALUATIONS[name]
    made = evaluated(certificate, public, private)
    useful, verdict = world.verdict_of(made)
    assert (useful, "beats" in verdict and "detect" not in verdict) == (name in USEFUL, name in USEFUL)
    quiet = made.model_copy(update={"warnings": ()})
    assert world.first_page(quiet).level == ("plain" if useful else "warned")
    page = world.first_page(made.model_copy(update={"warnings": (WARNED,)}))
    assert (page.level, page.reasons) == ("warned", (WARNED,))
    assert len(world.first_page(quiet).measured) == (public is not None) + (private is not None)


def test_a_reason_says_what_the_verdict_does_not_and_shows_commands_as_such(certificate: world.Certificate) -> None:
    """Before, the verdict stood above the same words, and commands between backticks."""
    measured = classes_tested(SURE, 0.6, {"no": SURE, "ja": NONE}, (AT_20,))
    for public, private in ((measured, None), (measured, units_tested()), (None, units_tested(recall=NONE))):
        made = evaluated(certificate, public, private)
        told = world.warnings_of(public, None if public else private, tallied=True)
        made = made.model_copy(update={"warnings": (*told, "run `concord plan <b>`")})
        assert [reason in told for reason in world.first_page(made).reasons] == [False]
    assert "<li>run <code>concord plan &lt;b&gt;</code>.</li>" in world.render(made, {})


def test_the_bars_are_the_figures_beside_the_baseline(certificate: world.Certificate) -> None:
    test = certificate.student.public_test
    assert isinstance(test, world.PublicTest)
    (measured,) = world.first_page(certificate).measured
    assert [bar.name for bar in measured.bars] == ["accuracy", "AUC", "recall of no", "recall of yes"]
    figures = [test.accuracy, test.auc, *(item.recall for item in test.classes)]
    for bar, figure in zip(measured.bars, figures, strict=True):
        assert figure is not None
        assert (bar.value, bar.low, bar.high) == (100 * figure.value, 100 * figure.low, 100 * figure.high)
        assert f"{figure.value:.3f}" in bar.figure or f"{figure.value:.1%}" in bar.figure
    marks = [100 * (item.name == test.largest) for item in test.classes]
    assert [bar.baseline for bar in measured.bars] == [100 * test.majority, 50.0, *marks]
    number = world.NumberTest(**NUMBER, rmse=share(1.0, 0.9, 1.1))
    (bar,) = world.first_page(evaluated(certificate, number)).measured[0].bars
    assert (bar.value, bar.low, bar.high, bar.baseline) == pytest.approx((50.0, 45.0, 55.0, 100.0))


def test_what_an_attacker_gains_is_the_bound_rounded_up(certificate: world.Certificate) -> None:
    facts, guarantees = world.first_page(certificate), world.guarantees_of(certificate)
    points = [tuple(map(float, point.split(","))) for point in facts.curve.split()]
    assert [across for across, _ in points] == [2.0 * at for at in range(51)]
    for across, down in points:
        gain = 100 * world.most_found(guarantees, across / 100)
        assert gain <= 100 - down + 1e-9 < gain + 0.1 + 1e-6
    share = 100 * world.most_found(guarantees, 0.01)
    stated = float(facts.attacker.split("at most ")[1].split("%")[0])
    assert share <= stated < share + 0.1
    assert says(facts.attacker, "one row", "1% false positives")
    for unit, whole in (("one row", False), ("all rows with one person", True)):
        named = world.Guarantee.at(1.0, 1e-5, unit, world.NEIGHBOURS["rows"])
        found = world.first_page(certificate.model_copy(update={"guarantee": named})).attacker
        assert ("A person with several rows is not protected as a whole." in found) != whole
    labels = world.Guarantee.at(1.0, 1e-5, "the labels of one row", world.NEIGHBOURS["labels"])
    alone = world.first_page(certificate.model_copy(update={"guarantee": labels}))
    assert says(alone.attacker, "the labels of one row")
    assert "treated as public" in alone.attacker
    assert (alone.claim, facts.claim) == ("ε = 1, δ = 1e-05 for the labels of one row", "ε = 1, δ = 1e-05 for one row")


def test_who_published_it_and_what_is_missing_stand_at_the_top(certificate: world.Certificate) -> None:
    page = world.render(certificate, {})
    assert page.count('class="missing">not provided') == 3
    turned = certificate.model_copy(update={"about": world.AboutPlan(issuer="A \u202edraw\x1b[2J")})
    assert not {"\u202e", "\x1b"} & {*world.render(turned, {})}  # letters that move or hide others
    said = world.AboutPlan(issuer="A ward, dp@ward.example", use="To plan beds", date="2026-03-01")
    page = world.render(certificate.model_copy(update={"about": said}), {})
    assert 'class="missing"' not in page
    head = page.split("<h2>")[0]
    assert all(words in head for words in ("A ward, dp@ward.example", "To plan beds", "2026-03-01"))


def test_the_checks_that_it_names_are_those_that_are_made(certificate: world.Certificate, small: World) -> None:
    made = world.verify_published(small.released.root / SESSION)
    named = [check.name.rpartition(": ")[2] for check in made if not check.warning]
    assert sorted(world.first_page(certificate).checks) == sorted(named)
