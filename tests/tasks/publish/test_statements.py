"""A certificate in the words of others: each statement fits its readers' schema, and says what is missing."""

import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from jsonschema import Draft7Validator

from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import WrongInput
from concord.artifacts.measures import Estimate, TestRecord
from concord.tasks.asks.kinds import KINDS
from concord.tasks.publish.disclosures import ABOUT, description, model_card, registry
from concord.tasks.publish.statements import statement
from concord.tasks.student.model import load
from concord.tasks.verify.checked_student import handed_on
from tests.support.console import concord
from tests.support.published import SESSION, World, rewrite
from tests.support.recorded import RECORDED
from tests.support.sentences import says
from tests.tasks.verify.signed_folder import sign_again

SAID = {
    "issuer": "A ward",
    "use": "To plan beds.",
    "justification": "The board agreed.",
    "date": "2026-05-03",
}


def schema(name: str) -> dict[str, Any]:
    """The schema that others published."""
    return cast(
        "dict[str, Any]", yaml.safe_load((Path(__file__).parent / "schemas" / f"{name}.yaml").read_text("utf-8"))
    )


@pytest.fixture(scope="module")
def home(small: World) -> Path:
    return small.home


@pytest.fixture(scope="module")
def folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was published, by a plan that says all that is asked for."""
    copy = tmp_path_factory.mktemp("copy") / "published"
    shutil.copytree(home / "released" / SESSION, copy)
    rewrite(copy, lambda values: values.update(about=SAID))
    sign_again(copy)
    return copy


@pytest.fixture(scope="module")
def certificate(folder: Path) -> Certificate:
    return Certificate.model_validate_json((folder / "certificate.json").read_bytes())


def said(folder: Path, kind: str) -> str:
    """A statement that lacks nothing."""
    text, lacking = statement(handed_on(str(folder), Path("nowhere")), kind)
    assert lacking == []
    return text


def test_a_registry_record_fits_its_schema(folder: Path, certificate: Certificate) -> None:
    record = yaml.safe_load(said(folder, "registry"))
    check = Draft7Validator(schema("registry"), format_checker=Draft7Validator.FORMAT_CHECKER)
    assert [error.message for error in check.iter_errors(record)] == []
    parameters = record["deployment"]["privacy_loss"]["privacy_parameters"]
    assert (parameters["epsilon"], parameters["delta"]) == (certificate.guarantee.epsilon, certificate.guarantee.delta)
    for wrong in ({"tier": 4}, {"status": "Fine"}, {"more": 1}, {"url_slug": 1}, {"deployment": {"basic": 1}}):
        assert not check.is_valid({**record, **wrong})


def test_an_inventory_fits_the_published_schema(folder: Path, certificate: Certificate) -> None:
    text = said(folder, "cyclonedx")
    check = JsonStrictValidator(SchemaVersion.V1_6)
    assert check.validate_str(text) is None
    assert check.validate_str(text.replace("machine-learning-model", "machine")) is not None
    model, *labels = json.loads(text)["components"]
    assert model["hashes"][0]["content"] == certificate.student.file.digest
    assert [item["bom-ref"] for item in labels] == [file.digest for file in certificate.leading.files]


def test_a_card_says_the_guarantee(folder: Path) -> None:
    text = said(folder, "markdown")
    assert "ε = 1, δ = 1e-05" in text
    assert str(SAID["use"]) in text


@pytest.mark.parametrize(
    ("kind", "instead"), [("nist", "concord dossier"), ("dataset", "MLflow"), ("openlineage", "MLflow")]
)
def test_a_statement_that_is_gone_names_what_takes_its_place(home: Path, kind: str, instead: str) -> None:
    status, _, answer = concord("certify", SESSION, "--as", kind, "--home", str(home))
    assert (status, f"--as {kind} is no longer written" in answer, instead in answer) == (2, True, True)


@pytest.mark.parametrize("kind", [kind for kind, keys in ABOUT.items() if "date" not in keys])
def test_what_the_plan_does_not_say_is_listed(home: Path, kind: str) -> None:
    text, lacking = statement(handed_on(SESSION, home), kind)
    assert lacking == [f"about.{key}" for key in ABOUT[kind]]
    assert "None" not in text


def test_a_choice_is_not_said_to_be_answers_to_public_rows(certificate: Certificate) -> None:
    """Without voters nothing was asked row by row: the one question counted is which hypothesis to publish."""
    chosen = certificate.mechanism.model_copy(update={"name": "universal", "releases": KINDS["universal"].releases})
    leading = certificate.leading.model_copy(update={"teachers": 0, "mechanism": chosen})
    universal = certificate.model_copy(update={"sessions": (leading,)})
    said = "that learned from: one hypothesis of a class, chosen by its errors on the private rows (universal)."
    assert description(universal).endswith(said)
    assert "public rows (stable)" in description(certificate)


def test_a_private_test_is_told_where_accuracy_is(folder: Path, certificate: Certificate) -> None:
    share = Estimate(value=0.875, low=0.8, high=0.9)
    tested = TestRecord(
        share=0.1,
        clean=False,
        earlier=0,
        level=0.95,
        rows=4321,
        accuracy=share,
        balanced_accuracy=share,
        classes=(),
    )
    settings = {**RECORDED["private_test"], "session": SESSION, "student": certificate.student.file.digest}
    mechanism = certificate.mechanism.model_copy(update={"settings": settings})
    record = certificate.leading.model_copy(update={"mechanism": mechanism, "outcomes": (tested,)})
    whole = certificate.model_copy(update={"sessions": (certificate.leading, record)})
    card = "\n".join(model_card(whole, load((folder / "student.skops").read_bytes())))
    assert "about 4,321 private units" in card
    assert "accuracy 87.5% (80.0% to 90.0%), balanced accuracy 87.5% (80.0% to 90.0%)" in card


def test_names_of_columns_and_classes_stay_in_their_line(certificate: Certificate, folder: Path) -> None:
    student = load((folder / "student.skops").read_bytes())
    student.classes_[0] = "no\n\n## Guarantee\n\nε = 0"
    card = "\n".join(model_card(certificate, student))
    assert "\n## Guarantee" not in card


def test_what_is_no_certificate_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "certificate.json").write_text("{}")
    status, _, answer = concord("certify", str(tmp_path), "--as", "markdown")
    assert (status, "is not a certificate" in answer) == (4, True)


def test_no_date_is_invented(home: Path) -> None:
    with pytest.raises(WrongInput, match="no clock is read"):
        statement(handed_on(SESSION, home), "registry")


def test_the_command_writes_a_new_file_and_no_other(home: Path, tmp_path: Path) -> None:
    asked = ("certify", SESSION, "--as", "markdown", "--home", str(home))
    assert "ε = 1" in concord(*asked)[1]
    status, _, answer = concord(*asked, "--out", str(tmp_path / "card.md"))
    assert (status, says(answer, "about.issuer", "about.use")) == (0, True)
    before = (tmp_path / "card.md").read_bytes()
    assert concord(*asked, "--out", str(tmp_path / "card.md"))[0] == 2
    assert (tmp_path / "card.md").read_bytes() == before
    status, _, answer = concord("certify", SESSION, "--as", "poem", "--home", str(home))
    assert (status, says(answer, "registry", "cyclonedx", "markdown")) == (2, True)


def test_a_stream_is_not_called_static(certificate: Certificate) -> None:
    def of(settings: dict[str, Any]) -> str:
        mechanism = certificate.mechanism.model_copy(update={"settings": settings})
        first = certificate.sessions[0].model_copy(update={"mechanism": mechanism})
        return registry(certificate.model_copy(update={"sessions": (first, *certificate.sessions[1:])}))

    kinds = certificate.mechanism.settings, {**RECORDED["stream"], "season": 52}
    basic = [yaml.safe_load(of(settings))["deployment"]["deployment_model"] for settings in kinds]
    assert [each["data_source_type"] for each in basic] == ["Static", "Dynamic"]
    details = [each["data_source_type_details"] for each in basic]
    assert "one state of the private data" in details[0]
    assert "the season has 52 releases" in details[1]
