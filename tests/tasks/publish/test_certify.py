"""The certificate says what the ledger and the released files say, and nothing that is private."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tests.support.published import SESSION, TEACHERS, World, certified, opening, recertified, world
from tests.support.sentences import facts
from tests.world import (
    MECHANISMS,
    Certificate,
    Ledger,
    NotVerified,
    StableVoting,
    Stores,
    Universal,
    artifacts_certificate,
    certificate_of,
    content_of,
    digested,
    library_versions,
    mechanism_class,
    render,
)

pytestmark = pytest.mark.usefixtures("blank_figures")

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


@pytest.fixture
def small(tmp_path: Path) -> World:
    return world(tmp_path)


def read(small: World) -> Certificate:
    return Certificate.model_validate_json((small.released.root / SESSION / "certificate.json").read_bytes())


def labels_with_refusals(small: World, every: int, asked: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    labels = small.truth.copy()[:asked]
    labels[::every] = -1
    return labels


def test_the_units_that_the_plan_states_stand_beside_delta(small: World) -> None:
    """Without them nobody could judge δ."""
    certified(small, STABLE, small.truth)
    silent = read(small)
    stating = silent.model_copy(update={"units": 20_000})
    assert silent.units is None
    assert silent.units is None
    assert "number of private units, which the plan does not state" in silent.delta_in_words
    assert "about 20,000 private units" in stating.delta_in_words
    assert stating.delta_in_words.endswith("is 0.2.")
    for certificate in (silent, stating):
        page = " ".join(render(certificate, {}).split())
        assert page.index("δ = 1e-05") < page.index(certificate.delta_in_words) < page.index("What the guarantee means")
    assert content_of(stating).params["units"] == "20000"
    assert "units" not in content_of(silent).params


def test_the_units_are_the_plan_s(small: World) -> None:
    labeling = small.plan.labeling.model_copy(update={"rows": 20_000})
    stating = replace(small, plan=small.plan.model_copy(update={"labeling": labeling}))
    certified(stating, STABLE, small.truth)
    assert read(stating).units == 20_000


def test_it_says_what_the_ledger_and_the_files_say(small: World) -> None:
    student, written = certified(small, STABLE, labels_with_refusals(small, 15, 286))
    certificate = read(small)
    assert certificate.counts.model_dump() == {"asked": 286, "answered": 266, "refused": 20, "not_asked": 14}
    assert (certificate.session, certificate.teachers) == (SESSION, TEACHERS)
    assert certificate.mechanism.settings == json.loads(json.dumps(STABLE.settings()))
    assert (certificate.domain.cap.epsilon, certificate.domain.cap.delta) == (4.0, 4e-5)
    assert certificate.student.file == student.ref
    assert certificate.student.accuracy == student.accuracy
    assert [small.released.find(ref.path) for ref in certificate.leading.files] == list(certificate.leading.files)
    for ref in (written.certificate, written.schema_file, written.report, *written.figures.values()):
        assert small.released.find(ref.path) == ref


def test_replacing_a_unit_is_two_steps(small: World) -> None:
    certified(small, STABLE, small.truth)
    guarantee = read(small).guarantee
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-5)
    assert guarantee.replace_one is not None
    assert guarantee.replace_one.epsilon == 2.0
    assert guarantee.replace_one.delta == pytest.approx((1 + math.e) * 1e-5)


def test_the_domains_charge_is_the_filters(small: World) -> None:
    certified(small, STABLE, small.truth)
    ledger, domain = Ledger.of(small.home), read(small).domain
    assert (domain.spent.epsilon, domain.spent.delta) == ledger.domains()[0].filter.spent(ledger.total("people"))
    assert domain.remaining.epsilon == pytest.approx(4 - domain.spent.epsilon)
    assert domain.sessions == 1
    assert [charge.session for charge in domain.charges] == [SESSION]
    share = ledger.session(SESSION).charge.renyi / ledger.domains()[0].filter.budget
    assert domain.charges[0].share == float(share)


def test_the_same_facts_give_the_same_bytes(small: World) -> None:
    labels = labels_with_refusals(small, 50, 300)
    student, first = certified(small, STABLE, labels)
    assert recertified(small, list(read(small).leading.files), student) == first


def test_a_certificate_is_known_before_it_is_written_by_all_but_the_versions_that_write_it(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of the stage digests it: other libraries must not certify anew, and all else must."""
    student, _ = certified(small, STABLE, small.truth)
    written, stores = read(small), Stores(small.vault, Ledger.of(small.home), small.released)

    def due() -> Certificate:
        files, features = {SESSION: list(written.leading.files)}, small.encoding.features
        return certificate_of(small.plan, files, student, features, stores)

    before = due()
    assert before.versions == {}
    assert before.model_dump(exclude={"versions"}) == written.model_dump(exclude={"versions"})
    assert written.versions == library_versions()
    monkeypatch.setattr(artifacts_certificate, "library_versions", lambda: {"numpy": "9.0"})
    assert due() == before
    stores.ledger.open_session(opening(STABLE, "later"), further=True)
    assert digested(due()) != digested(before)


def test_labels_that_are_not_what_the_ledger_counted_stop_it(small: World) -> None:
    student, _ = certified(small, STABLE, small.truth)
    others = small.write(labels_with_refusals(small, 15, 300))
    with pytest.raises(NotVerified, match=facts("280 answers", "20 refusals", "300 and 0")):
        recertified(small, others, student)


def test_a_changed_label_file_stops_it(small: World) -> None:
    student, _ = certified(small, STABLE, small.truth)
    refs = read(small).leading.files
    file = small.released.root / refs[1].path
    file.write_bytes(file.read_bytes().replace(b"answered", b"Answered", 1))
    with pytest.raises(NotVerified, match="batch-00001"):
        recertified(small, list(refs), student)


def test_nothing_of_the_vault_the_clock_or_the_machine_is_in_it(small: World) -> None:
    certified(small, STABLE, labels_with_refusals(small, 15, 286))
    for file in (small.released.root / SESSION).iterdir():
        if file.suffix in (".json", ".html", ".svg"):
            text = file.read_text()
            for private in ("hmac of", str(small.home), datetime.now(UTC).date().isoformat()):
                assert private not in text


def test_every_mechanism_names_its_proof() -> None:
    for proof in (Universal.proof, *(mechanism_class(name).proof for name in MECHANISMS)):
        assert (Path(__file__).parents[3] / proof.partition(":")[0]).is_file()


def test_it_knows_no_other_key(small: World) -> None:
    certified(small, STABLE, small.truth)
    with pytest.raises(ValueError, match="extra"):
        Certificate.model_validate({**read(small).model_dump(), "rows": 1})


def test_a_session_that_answered_nothing_is_certified_too(small: World) -> None:
    student, _ = certified(small, STABLE, np.full(20, -1))
    assert read(small).counts.model_dump() == {"asked": 20, "answered": 0, "refused": 20, "not_asked": 280}
    assert student.accuracy is not None
