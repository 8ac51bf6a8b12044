"""The dossier: it answers from what was verified, says plainly what is wrong on its first page, and invents nothing."""

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from concord.artifacts.measures import Estimate, PublicTest, TestRecord
from concord.artifacts.student_warnings import warnings_of
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.mechanisms.tallies import Round, Tallies
from concord.tasks.publish.dossier import _of_counts, dossier, render
from concord.tasks.student.intervals import mean_of_shares, share
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.published import verify_published
from tests.support.console import heard
from tests.support.published import SESSION, rewrite
from tests.support.sentences import says
from tests.tasks.verify.signed_folder import claim, sign_again

DOUBT = "Do not rely on it"


class Words(HTMLParser):
    """The words of a page, and those seen before anything is unfolded."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.first, self.all, self._within, self._folded = "", "", "", 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002
        self._within, self._folded = tag, self._folded + (tag == "details")

    def handle_endtag(self, tag: str) -> None:
        self._within, self._folded = "", self._folded - (tag == "details")

    def handle_data(self, data: str) -> None:
        if self._within not in ("style", "title"):
            self.all += data
            self.first += "" if self._folded else data


def content_of(folder: Path) -> dict[str, Any]:
    checks = [check.model_dump() for check in verify_published(folder)]
    return dossier(PublishedSession.at(folder).certificate, checks)


def of_settings(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The dossier, if its session had been of a mechanism with these settings."""
    certificate = PublishedSession.at(folder).certificate
    mechanism = certificate.mechanism.model_copy(update={"settings": settings})
    record = certificate.leading.model_copy(update={"mechanism": mechanism})
    return dossier(certificate.model_copy(update={"sessions": (record,)}), [])


def first_page(folder: Path) -> str:
    return " ".join(Words(render(content_of(folder))).first.split())


def test_an_honest_set_is_what_it_says_and_every_figure_follows_from_it(folder: Path) -> None:
    found, page = content_of(folder), first_page(folder)
    certificate = PublishedSession.at(folder).certificate
    assert found["verified"]
    assert found["failed"] == found["warnings"] == []
    assert DOUBT not in page
    assert "10 checks passed, none failed" in page
    for said in (
        "The signer was not checked.",
        "Not checked: signer, what only the publisher knows.",
        f"concord verify {SESSION} --key KEY",
        "ε = 1, δ = 1e-05",
        found["found"],
        "A person with several rows is not protected as a whole.",
        "No count or sum of records is released",
    ):
        assert said in page
    for check in found["checked"]:
        assert check["means"], check  # each is in plain words
        assert check["means"] in page
    answers = json.dumps(found["parts"], ensure_ascii=False)
    assert isinstance(certificate.student.public_test, PublicTest)
    assert certificate.student.public_test.in_words in answers
    assert f"accuracy {certificate.student.public_test.accuracy.in_words} on 300 public test rows" in answers
    assert certificate.student.file.digest in answers
    assert says(answers, "people", "ε = 4")


def test_what_nobody_said_is_not_stated_and_whom_to_ask_is(folder: Path) -> None:
    found, page = content_of(folder), first_page(folder)
    for words in ("publisher", "contact", "intended use", "date"):
        assert words in found["not_stated"]
        assert f"{words} not provided" in page
    asked = {each["question"]: each for part in found["parts"] for each in part["questions"]}
    assert asked["Safe projects. What is it for?"]["answer"] is None
    assert sum(each["answer"] is None for each in asked.values()) >= 15
    assert all(each["answer"] or each.get("ask") for each in asked.values())
    assert all(each["answer"] is None or each["from"] for each in asked.values())
    said = {"issuer": "A ward", "contact": "dp@ward.example", "use": "To plan beds", "date": "2026-03-01"}
    rewrite(folder, lambda values: values["about"].update(said))
    sign_again(folder)
    page = first_page(folder)
    for words in said.values():
        assert words in page
    assert content_of(folder)["not_stated"] == ["justification of these settings"]


def test_it_counts_the_checks_that_passed_apart_from_those_that_warn(folder: Path) -> None:
    checks = verify_published(folder)
    passed, warned = (sum(check.ok and check.warning == warns for check in checks) for warns in (False, True))
    (answer,) = (
        each["answer"]
        for part in content_of(folder)["parts"]
        for each in part["questions"]
        if "Which checks are automatic" in each["question"]
    )
    assert says(answer, f"{passed} checks passed", f"{warned} are warnings")
    assert warned > 0


def test_nothing_claims_that_a_law_is_met(folder: Path) -> None:
    words = Words(render(content_of(folder))).all.casefold()
    for claimed in ("complies", "compliant", "conforms", "is anonymous.", "satisfies", "fulfils"):
        assert claimed not in words
    assert words.count("nothing here claims that a law or a standard is met") == 7
    assert "signature…" in "".join(words.split())  # a draft, for the expert to sign


def unclean(values: dict[str, Any]) -> None:
    test = TestRecord(
        share=0.1,
        clean=False,
        earlier=0,
        level=0.95,
        rows=90,
        accuracy=Estimate(value=0.9, low=0.8, high=1.0),
        balanced_accuracy=Estimate(value=0.9, low=0.8, high=1.0),
        classes=(),
    )
    values["warnings"] = [*warnings_of(None, test)]


def beyond_its_cap(values: dict[str, Any]) -> None:
    values["domain"]["charges"][0]["share"] = 1.5


def exact(hits: int, rows: int) -> Any:
    return share(hits, rows).model_dump()


def constant(values: dict[str, Any]) -> None:
    """The student names the larger class for every row."""
    test = values["student"]["public_test"]
    rows = [item["rows"] for item in test["classes"]]
    largest, of = max(range(2), key=rows.__getitem__), max(rows)
    test["matrix"] = [[count if at == largest else 0 for at in range(2)] for count in rows]
    for at, item in enumerate(test["classes"]):
        item.update(predicted=300 if at == largest else 0, recall=exact(rows[at] if at == largest else 0, rows[at]))
        item["precision"] = exact(of, 300) if at == largest else None
    both = [share(rows[at] if at == largest else 0, rows[at]) for at in range(2)]
    test.update(accuracy=exact(of, 300), balanced_accuracy=mean_of_shares(both).model_dump(), majority=of / 300)
    test["calibration"] = None
    values["student"]["accuracy"] = exact(of, 300)
    values["warnings"] = [*warnings_of(PublicTest.model_validate(test), None)]


PLANTED: dict[str, tuple[Callable[[dict[str, Any]], object], str, str]] = {
    "an edited ε": (claim("epsilon", 0.5), DOUBT, "guarantee:"),
    "a private test that is not clean": (unclean, "The model beats", "may have learned from the tested units"),
    "no better than the largest class": (
        constant,
        "Do not use it to detect",
        "does not beat the majority-class baseline",
    ),
    "beyond its cap": (beyond_its_cap, DOUBT, "the domain's sessions are charged more than its cap"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_said_plainly_on_the_first_page(name: str, folder: Path) -> None:
    """Even by somebody who signs it all again."""
    change, verdict, said = PLANTED[name]
    rewrite(folder, change)
    sign_again(folder)
    page = first_page(folder)
    assert verdict in page
    assert page.index(verdict) < page.index(said) < page.index("Checks passed")
    assert ("This claim is not established" in page) == (verdict == DOUBT)


def test_a_set_that_nobody_signed_is_not_relied_on(folder: Path) -> None:
    (folder / "attestation.json").unlink()
    page = first_page(folder)
    assert DOUBT in page
    assert "signature: " in page.split("What it claims")[0]
    found = content_of(folder)
    assert (found["verified"], found["parts"], found["noise"]) == (False, [], [])


def test_the_command_writes_both_and_leaves_with_4_if_a_check_fails(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, printed, _ = heard("dossier", str(folder), "--out", str(out), "--json")
    assert (status, json.loads(printed)["verified"]) == (0, True)
    assert sorted(file.name for file in out.iterdir()) == ["dossier.html", "dossier.json"]
    assert json.loads((out / "dossier.json").read_text())["session"] == SESSION
    status, _, error = heard("dossier", str(folder), "--out", str(out))
    assert (status, "--out must name a folder that is empty" in error) == (2, True)
    status, printed, _ = heard("dossier", str(folder), "--key", "0" * 64, "--out", str(tmp_path / "other"))
    assert (status, "do not rely on it" in printed) == (4, True)
    assert DOUBT in (tmp_path / "other" / "dossier.html").read_text()
    assert heard("dossier", "nowhere", "--home", str(tmp_path), "--out", str(tmp_path / "third"))[0] == 2


def test_whatever_a_plan_names_is_escaped(folder: Path) -> None:
    nasty = "<script>alert(1)</script> {{ 7 * 7 }} \u202e\x1b[2J"
    rewrite(folder, lambda values: values["about"].update(use=nasty, issuer=nasty))
    sign_again(folder)
    page = render(content_of(folder))
    assert not any(part in page for part in ("<script>", "\u202e", "\x1b", " 49 "))
    assert "{{ 7 * 7 }}" in page


def test_the_noise_stands_beside_each_sum(folder: Path) -> None:
    content = content_of(folder)
    rounds = [Round(fields=2, cells=60, least=4, share=0.5, scale=noise * 16) for noise in (2.0, 3.0)]
    many: dict[str, Any] = {"epsilon": 2.5, "delta": 1e-5, "classes": 2, "steps": 16, "secret": "rows", "many": False}
    settings = Tallies(**many, rounds=tuple(rounds)).settings()
    found = of_settings(folder, settings)
    assert [(each["numbers"], each["noise"]) for each in found["noise"]] == [(60, 2.0), (60, 3.0)]
    page = Words(render({**content, "noise": found["noise"], "counts": found["counts"]})).first
    assert says(page, "scale 2 units")
    assert "may stand for many units" in _of_counts([{"noise": 3.0}])
    assert "round 2: sums about labels" in page
    season = Stream(**many, rounds=tuple(rounds), season=2, bits=8)  # a unit moves them by up to q_0 = 2^8
    running = of_settings(folder, season.settings())
    assert [each["noise"] for each in running["noise"]] == [2.0 / 256, 3.0 / 256]
