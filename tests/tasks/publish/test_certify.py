"""The certificate says what the ledger and the released files say, and nothing that is private."""

import json
import math
from dataclasses import replace
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
    labeling = small.plan.labeling.model_copy(update={"rows": 20_000})
    certified(replace(small, plan=small.plan.model_copy(update={"labeling": labeling})), STABLE, small.truth)
    stating = read(small)
    silent = stating.model_copy(update={"units": None})
    assert stating.units == 20_000
    assert "number of private units, which the plan does not state" in silent.delta_in_words
    assert "about 20,000 private units" in stating.delta_in_words
    assert stating.delta_in_words.endswith("is 0.2.")
    for certificate in (silent, stating):
        page = " ".join(render(certificate, {}).split())
        assert page.index("δ = 1e-05") < page.index(certificate.delta_in_words) < page.index("What the guarantee means")
    assert content_of(stating).params["units"] == "20000"
    assert "units" not in content_of(silent).params


def test_it_says_what_the_ledger_and_the_files_say(small: World) -> None:
    student, written = certified(small, STABLE, labels_with_refusals(small, 15, 286))
    certificate = read(small)
    assert certificate.counts.model_dump() == {"asked": 286, "answered": 266, "refused": 20, "not_asked": 14}
    assert (certificate.session, certificate.teachers) == (SESSION, TEACHERS)
    assert certificate.mechanism.settings == json.loads(json.dumps(STABLE.settings()))
    assert (certificate.domain.cap.epsilon, certificate.domain.cap.delta) == (4.0, 4e-5)
    replaced = certificate.guarantee.replace_one  # which is two steps
    assert replaced is not None
    assert replaced.epsilon == 2.0
    assert replaced.delta == pytest.approx((1 + math.e) * 1e-5)
    assert certificate.student.file == student.ref
    assert certificate.student.accuracy == student.accuracy
    assert [small.released.find(ref.path) for ref in certificate.leading.files] == list(certificate.leading.files)
    for ref in (written.certificate, written.schema_file, written.report, *written.figures.values()):
        assert small.released.find(ref.path) == ref
    others = small.write(labels_with_refusals(small, 20, 300))
    with pytest.raises(NotVerified, match=facts("285 answers", "15 refusals", "266 and 20")):
        recertified(small, others, student)


def test_the_domains_charge_is_the_filters(small: World) -> None:
    certified(small, STABLE, small.truth)
    ledger, domain = Ledger.of(small.home), read(small).domain
    assert (domain.spent.epsilon, domain.spent.delta) == ledger.domains()[0].filter.spent(ledger.total("people"))
    assert domain.remaining.epsilon == pytest.approx(4 - domain.spent.epsilon)
    assert domain.sessions == 1
    assert [charge.session for charge in domain.charges] == [SESSION]
    share = ledger.session(SESSION).charge.renyi / ledger.domains()[0].filter.budget
    assert domain.charges[0].share == float(share)


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


def test_every_mechanism_names_its_proof() -> None:
    for proof in (Universal.proof, *(mechanism_class(name).proof for name in MECHANISMS)):
        assert (Path(__file__).parents[3] / proof.partition(":")[0]).is_file()
