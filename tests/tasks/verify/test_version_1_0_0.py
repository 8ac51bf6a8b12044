"""What version 1.0.0 published still verifies: certificates of the first format, whose figures have no interval."""

import json
import tarfile
from pathlib import Path

import pytest

from concord.artifacts.certificate import FIRST_FORMAT, Certificate
from concord.artifacts.guarantee import CAVEATS, WORDED_BEFORE
from concord.tasks.verify.published import verify_published
from tests.support.sentences import says

KINDS = ("votes", "tallies", "number")


@pytest.fixture(params=KINDS)
def published(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a session with a student, beside that of its private test and a table of test rows."""
    with tarfile.open(Path(__file__).with_name("version_1_0_0.tar.xz")) as file:
        file.extractall(tmp_path, filter="data")
    kind: Path = tmp_path / request.param
    return next(path.parent for path in kind.glob("*/student.skops"))


def test_a_folder_of_the_first_format_verifies(published: Path) -> None:
    checks = verify_published(published, test=str(published.parent / "test.parquet"))
    assert [check.detail for check in checks if not check.ok] == []
    (measured,) = [check.detail for check in checks if check.name.endswith("public test")]
    assert says(measured, "student", "200 rows")


def test_its_figures_are_numbers_and_say_that_they_have_no_interval(published: Path) -> None:
    text = (published / "certificate.json").read_bytes()
    certificate = Certificate.read(text, "certificate.json")
    assert certificate.format == FIRST_FORMAT
    assert certificate.model_dump_json(indent=2).encode() == text
    assert certificate.student.public_test is not None
    assert says(certificate.student.public_test.in_words, "no interval", "200 public test rows")


@pytest.mark.parametrize("published", ["votes"], indirect=True)
def test_another_figure_of_the_first_format_is_found(published: Path) -> None:
    values = json.loads((published / "certificate.json").read_bytes())
    values["student"]["public_test"]["accuracy"] += 0.01
    (published / "certificate.json").write_text(json.dumps(values, indent=2))
    failed = {check.name.partition(": ")[2]: check.detail for check in verify_published(published) if not check.ok}
    assert "the accuracy is" in failed["public test"]


def test_its_caveats_are_known_by_their_present_words(published: Path) -> None:
    """They are compared with those that the ledger of its home makes due."""
    certificate = Certificate.read((published / "certificate.json").read_bytes(), "certificate.json")
    assert {*certificate.caveats} <= {CAVEATS[0], *WORDED_BEFORE.values()}
