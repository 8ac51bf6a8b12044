"""Relabelled sessions: ĥ is drawn once, the subset stays secret, a domain has one of them, the whole is charged."""

import json
import math
import re
import shutil
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from artifacts.caveats import RELABELLED
from artifacts.certificate import Certificate
from artifacts.encoding import Encoding
from artifacts.errors import BudgetRefused, NotVerified, WrongInput
from artifacts.ledger import Ledger
from artifacts.plan import Plan
from artifacts.schemas import Ref
from artifacts.tracking import Tracking
from artifacts.vault import Vault
from flows.outcome import Summary
from flows.start import start, start_extension
from tasks.cells import LABEL
from tasks.encode import learn_encoding, read_frame, stage_public
from tasks.ending import close, forget
from tasks.mechanisms.relabelled import Relabelling
from tasks.relabel import Relabelled, candidates, relabel, relabelling
from tasks.release import Door
from tasks.resample import resampled
from tasks.split import SHARD, split
from tasks.verify import verify
from tests.canary import Marks, leaks
from tests.homes import charged, labels_of
from tests.people import changed, people, tables_of_plan, write_tables

KEY = bytes(range(32))
K = 30


def tables(folder: Path, private: pl.DataFrame | None = None, **relabel: Any) -> dict[str, Any]:
    """A plan that relabels by thresholds on one of the columns that decide the label."""
    found = tables_of_plan(folder if private is None else write_tables(folder, private))
    found["teachers"] = {"count": K, "block": 20, "estimator": "sklearn.tree.DecisionTreeClassifier"}
    found["teachers"]["params"] = {"max_depth": 2}
    found["relabel"] = {"hypotheses": "thresholds", "features": ["size"], "share": 0.3, **relabel}
    found["labeling"] = {"mechanism": "noisy_votes", "queries": 2000, "batch": 128}
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables lie, and the home folder of one run, from a copy of which each test begins."""
    folder = tmp_path_factory.mktemp("relabelled")
    write_tables(folder / "data")
    return folder


@pytest.fixture
def plan(kept: Path) -> Plan:
    return changed(tables(kept / "data"))


def another(plan: Plan, **changes: Any) -> Plan:
    return changed(plan.model_dump(), **changes)


def cached(summary: Summary) -> dict[str, bool]:
    return {report.name: report.cached for report in summary.stages}


def drawn(home: Path) -> dict[str, bytes]:
    """What was drawn, by the file that keeps it."""
    return {path.name: path.read_bytes() for path in sorted((home / "vault" / "choices").rglob("*.json"))}


def files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())


# The pipeline ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", ["tight", *(pytest.param(form, marks=pytest.mark.slow) for form in ("published", "none"))]
)
def test_a_run_is_certified_verified_and_replayed(plan: Plan, home: Path, form: str) -> None:
    asked = another(plan, relabel__form=form, relabel__hypotheses="stumps", relabel__features=None)
    first = start(asked, home)
    assert list(cached(first)) == ["encode", "split", "relabel", "teach", "poll", "release", "study", "certify"]
    assert first.answered == 300
    assert first.guarantee["epsilon"] == 4.0
    assert [check for check in verify(home) if not check.ok] == []
    again = start(asked, home)
    assert all(cached(again).values())
    assert again.spent_now == {"epsilon": 0.0, "delta": 0.0}
    assert len(drawn(home)) == 1


def test_every_part_of_the_cost_is_shown(home: Path, session: str) -> None:
    folder = home / "released" / session
    certificate = Certificate.model_validate_json((folder / "certificate.json").read_bytes())
    record = certificate.relabelling
    assert record is not None
    assert (record.share, record.choice_epsilon, record.form, record.copies) == (0.3, 1.0, "tight", 1)
    made = Relabelling.from_settings(certificate.mechanism.settings["relabel"])
    assert made.whole(record.inner.epsilon, record.inner.delta) == pytest.approx((4.0, 1e-5))
    for name in ("Nandi & Bassily 2020", "Beimel, Nissim & Stemmer 2015", "amplification"):
        assert name in certificate.mechanism.proof
    assert RELABELLED in certificate.caveats
    report = (folder / "report.html").read_text()
    for shown in ("relabelled", f"{record.inner.epsilon:.4g}", "nothing of it returns"):
        assert shown in report
    (run,) = (recorded for recorded in Tracking.of(home).runs(session))
    params = (Tracking.of(home).recorded(run) or pytest.fail("it has no record")).params
    assert (params["relabel.share"], params["relabel.choice_epsilon"]) == ("0.3", "1.0")
    assert str(record.inner.epsilon) in params["relabel.inner"]


def test_lost_files_are_made_again_and_the_draw_stays(plan: Plan, home: Path, session: str) -> None:
    before, labels = drawn(home), labels_of(home, session)
    for folder in ("results", "vault/shards", "vault/relabelled", "vault/teachers", "vault/votes"):
        shutil.rmtree(home / folder)
    again = start(plan, home)
    assert again.session == session
    assert not any(cached(again)[stage] for stage in ("split", "relabel", "teach", "poll"))
    assert (drawn(home), labels_of(home, session)) == (before, labels)


def test_a_draw_that_is_gone_stops_the_session(
    plan: Plan, home: Path, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge, labels = charged(home), labels_of(home, session)
    shutil.rmtree(home / "vault" / "choices")
    monkeypatch.setattr("tasks.relabel.choose_hypothesis", lambda *_: 0)  # which says the first class of all rows
    with pytest.raises(NotVerified, match="changed"):
        start(plan, home)
    assert (charged(home), labels_of(home, session)) == (charge, labels)


@pytest.mark.slow
def test_it_goes_on_with_more_rows(home: Path, session: str, tmp_path: Path) -> None:
    people(50, 9).drop("outcome", "person").write_parquet(tmp_path / "more.parquet")
    assert start_extension(session, tmp_path / "more.parquet", home).asked_now == 50
    assert [check for check in verify(home) if not check.ok] == []


def test_a_domain_has_one_relabelled_session(plan: Plan, home: Path, session: str) -> None:
    charge = charged(home)
    with pytest.raises(BudgetRefused, match="secret subset"):
        start(another(plan, data__version="2"), home, new_session=True)
    close(Door.of(home), session, give_back=True)
    assert charged(home) == charge  # nothing returns
    with pytest.raises(BudgetRefused, match="secret subset"):
        start(another(plan, relabel__share=0.2), home, new_session=True)
    assert charged(home) == charge


def test_sessions_over_all_rows_go_beside_it(plan: Plan, home: Path, session: str) -> None:
    further = start(changed(plan.model_dump(exclude={"relabel"}), privacy__epsilon=1.0), home, new_session=True)
    assert further.session != session
    assert "relabel" not in cached(further)
    assert [check for check in verify(home) if not check.ok] == []


def test_nothing_of_the_choice_or_the_subset_gets_out(home: Path, session: str) -> None:
    vault = Vault(home / "vault")
    (choice,) = drawn(home)
    chosen = json.loads(vault.read(vault.find(f"choices/people/{choice}") or pytest.fail("it is gone")))
    subset = [vault.find(str(path.relative_to(vault.root))) for path in files(home / "vault" / "shards")]
    size = sum(read_frame(block, vault).height for block in subset if block)
    assert 600 < size < 950  # of some 2,590 people a share of 0.3, within seven standard deviations
    (cut,) = chosen["low"]
    secrets = (str(size), json.dumps(chosen), repr(cut), f"{cut:.6g}")
    words = {secret: re.compile(rb"(?<![\w.])" + re.escape(secret.encode()) + rb"(?![\w.])") for secret in secrets}
    published = [home / place for place in ("released", "results", "mlartifacts", "mlflow.db")]
    assert leaks(published, Marks({}, words)) == []
    assert len(leaks(published, Marks({"session": session.encode()}, {}))) > 10  # they can be read


def test_forgetting_destroys_the_choice_and_the_relabelled_rows(home: Path, session: str) -> None:
    close(Door.of(home), session, give_back=False)
    assert forget(Door.of(home), session)
    for folder in ("choices", "relabelled", "shards", "teachers", "votes"):
        assert files(home / "vault" / folder) == []
    assert [check for check in verify(home) if not check.ok] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"relabel__hypotheses": "forests"}, "every dichotomy"),
        ({"relabel__hypotheses": "rectangles"}, "2 features"),
        ({"relabel__features": ["height"]}, "'height'"),
        ({"relabel__share": 1.0, "privacy__epsilon": 0.5}, "share below"),
        ({"data__classes": ["no", "yes", "perhaps"]}, "two classes alone"),
        ({"privacy__secret": "labels"}, "rows are secret"),
    ],
)
def test_what_cannot_be_proved_is_refused_before_anything_private_is_read(
    plan: Plan, home: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(WrongInput, match=said):
        start(another(plan, data__private="nowhere.csv", **change), home)
    assert Ledger.of(home).domains() == ()


# The subset and the rows ----------------------------------------------------------------------------------------------


class Small:
    """The stages before the door, one by one, over a private table."""

    def __init__(self, folder: Path, private: pl.DataFrame, *, unit: str | None = "person", **relabel: Any) -> None:
        found = tables(folder / "data", private, **relabel)
        self.plan = changed(found, data__unit=unit)
        self.vault = Vault(folder / "vault")
        self.encoding: Encoding = learn_encoding(self.plan)
        staged = stage_public(self.plan.path("public"), self.encoding, self.vault, "public", 128)
        space = candidates(self.plan, self.encoding, staged, self.vault)
        assert space is not None
        self.space, self.settings = space, relabelling(self.plan, space, self.encoding)

    def subset(self, share: float | None) -> pl.DataFrame:
        return pl.concat([read_frame(ref, self.vault) for ref in self.blocks(share)])

    def blocks(self, share: float | None) -> tuple[Ref, ...]:
        return split(self.plan, self.encoding, self.vault, "shards/people", KEY, share)

    def relabelled(self, share: float = 0.3) -> Relabelled:
        given = (self.blocks(share), self.plan.teachers, self.encoding, self.space, self.settings)
        return relabel(*given, self.vault, "relabelled/people", KEY)

    def taught(self, share: float = 0.3) -> pl.DataFrame:
        return pl.concat([read_frame(ref, self.vault) for ref in self.relabelled(share).blocks])


def test_the_subset_holds_one_row_of_each_unit_in_it(tmp_path: Path) -> None:
    private = people(2000, 1)
    subset = Small(tmp_path, private).subset(1.0)
    assert subset.height == private["person"].n_unique()
    some = Small(tmp_path, private).subset(0.3)
    assert 0.24 < some.height / subset.height < 0.36  # four standard deviations at 860 units
    assert set(some.rows()) <= set(subset.rows())


@pytest.mark.parametrize("unit", ["person", None])
def test_one_unit_more_leaves_every_other_in_or_out(tmp_path: Path, unit: str | None) -> None:
    private = pl.concat([people(400, 1), people(40, 1)])  # some rows come twice
    before = Small(tmp_path, private, unit=unit).subset(0.5)
    moved = []
    for one in range(0, 440, 20):
        rest = private.filter(pl.col("person") != private["person"][one]) if unit else drop(private, one)
        after = Small(tmp_path, rest, unit=unit).subset(0.5)
        assert len(difference(after, before)) == 0
        moved.append(len(difference(before, after)))
    assert set(moved) == {0, 1}


def drop(table: pl.DataFrame, row: int) -> pl.DataFrame:
    return pl.concat([table[:row], table[row + 1 :]])


def difference(first: pl.DataFrame, second: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Rows of the first that the second lacks, each as often as it does."""
    return list((Counter(first.rows()) - Counter(second.rows())).elements())


def test_labels_are_those_of_one_hypothesis_and_the_choice_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path, people(2000, 1), form="none")
    subset, taught, first = small.subset(0.3), small.taught(), small.relabelled()
    assert taught.drop(LABEL).equals(subset.drop(LABEL))
    changed_labels = (taught[LABEL] != subset[LABEL]).sum()
    assert 0 < changed_labels < 0.35 * subset.height
    monkeypatch.setattr("tasks.relabel.choose_hypothesis", lambda *_: pytest.fail("it was drawn again"))
    assert small.relabelled() == first


def test_within_a_shard_as_many_rows_are_drawn_as_it_has(tmp_path: Path) -> None:
    small = Small(tmp_path, people(4000, 1), form="tight")
    subset, taught = small.subset(0.3), small.taught()
    assert taught[SHARD].to_list() == subset[SHARD].to_list()
    theirs = set(subset.drop(LABEL).rows())
    assert set(taught.drop(LABEL).rows()) <= theirs
    left = len(set(taught.drop(LABEL).rows())) / len(theirs)
    assert 0.55 < left < 0.72  # 1 − 1/e and a little more, since shards are small


def test_copies_are_spread_and_no_row_has_more_than_it_may(tmp_path: Path) -> None:
    small = Small(tmp_path, people(4000, 1), form="published")
    subset, taught = small.subset(0.3), small.taught()
    assert taught[SHARD].is_sorted()
    copies = np.array(list(Counter(taught.drop(SHARD, LABEL).rows()).values()))
    assert copies.max() <= small.settings.copies == 8
    units = subset.height
    assert abs(copies.sum() - units) < 5 * units**0.5
    for often in (1, 2):
        expected = units / math.e / often
        assert abs((copies == often).sum() - expected) < 5 * expected**0.5
    places = taught.group_by(taught.drop(SHARD, LABEL).columns).agg(pl.col(SHARD).n_unique())
    assert places.filter(pl.col(SHARD) > 2).height > 0


@pytest.mark.parametrize("form", ["tight", "published", "none"])
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_are_relabelled_as_well(tmp_path: Path, form: str, rows: int) -> None:
    taught = Small(tmp_path, people(600, 1).head(rows), form=form).taught(share=1.0)
    assert taught.height <= 8 * rows if form == "published" else taught.height == rows
    assert set(taught[LABEL]) <= {0, 1}


@pytest.mark.parametrize("form", ["tight", "published", "none"])
def test_one_row_more_changes_as_many_shards_as_it_reaches_and_moves_no_other(tmp_path: Path, form: str) -> None:
    small = Small(tmp_path, people(900, 1), form=form)
    rows = small.subset(1.0)
    settings = replace(small.settings, copies=3 if form == "published" else 1)
    before = resampled(rows, settings, K, small.encoding, KEY)
    changed_shards = []
    for one in range(0, rows.height, 37):
        after = resampled(drop(rows, one), settings, K, small.encoding, KEY)
        differ = [s for s in range(K) if rows_of(before, s) != rows_of(after, s)]
        changed_shards.append(len(differ))
    assert max(changed_shards) <= settings.copies
    assert (max(changed_shards) > 1) == (form == "published")


def rows_of(taught: pl.DataFrame, shard: int) -> list[tuple[Any, ...]]:
    return taught.filter(pl.col(SHARD) == shard).rows()


def test_copies_in_several_shards_cost_more_than_in_one() -> None:
    """The planted fault: `published` charged as `tight` would leave the mechanism more than it may spend."""
    tight = Relabelling(hypotheses="stumps", features=("size",), grid="0", share=0.3)
    spread = Relabelling(**{**asdict(tight), "form": "published", "copies": 8})
    assert spread.whole(*tight.inner(4.0, 1e-5))[0] > 10.0


@pytest.mark.slow
def test_the_universal_scheme_chooses_beside_relabelled_labels(plan: Plan, home: Path) -> None:
    """Nandi & Bassily 2020, universal labelling: labels by Algorithm 5, then a hypothesis chosen on their rows."""
    student = {"learner": "universal", "hypotheses": "thresholds", "features": ["size"], "epsilon": 1.0}
    summary = start(changed({**plan.model_dump(), "student": student}), home)
    certificate = Certificate.model_validate_json((home / summary.certificate).read_bytes())
    assert certificate.relabelling is not None
    assert certificate.relabelling.whole.epsilon == 3.0
    assert RELABELLED in certificate.caveats
    assert [check for check in verify(home) if not check.ok] == []
