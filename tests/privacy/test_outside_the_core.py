"""Faults planted outside the core (tests/test_core.py): each is refused before a draw, or bounded as a unit's part is.

The worst that was thought of for each file that handles codes, votes, labels or questions. A planted fault that was
neither refused nor bounded would be one that ε does not cover.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.at_door import (
    NOISY,
    PLAN,
    ROWS,
    STABLE,
    TEACHERS,
    Case,
    counts_of,
    files_of,
    labels_by,
    make_case,
    opened,
    refused,
)
from tests.support.made import made
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.recorded import DRAWN
from tests.support.sums import LABELS, SPANS, TALLIES, Rounds, question, refuses
from tests.support.sums import ROWS as CODED

NOTHING = "nothing was drawn"


# Encoders -------------------------------------------------------------------------------------------------------------


PEOPLE = people(60, 7)
UNITS = PEOPLE["person"].n_unique()


def coded(folder: Path) -> tuple[world.Coding, world.RoundQuestion]:
    """Private rows with their codes, and a question about them in which a row adds at most its steps to a cell."""
    given = tables_of_plan(write_tables(folder, PEOPLE)) | {"labeling": {"mechanism": "tallies", "rows": 60}}
    plan = world.parse_plan({name: given[name] for name in given if name not in ("teachers", "student")})
    encoding = world.learn_encoding(plan)
    cells = world.cast_rows(pl.read_parquet(plan.path("public")).select(encoding.features), encoding)
    codes = world.learn_codes([cells], encoding.columns, coarse=8)
    spans = tuple((field.start, field.start + field.size) for field in codes.fields)
    asked = world.RoundQuestion(
        classes=2, steps=4, what="codes", least=0, count=0, fields=tuple(range(codes.width)), spans=spans
    )
    return world.Coding(world.PrivateRows(plan, encoding, world.Vault(folder / "vault"), bytes(32)), codes), asked


def sums_of(coding: world.Coding, asked: world.RoundQuestion) -> world.Ints:
    """Of codes that follow from those of single columns."""
    vault = coding.private.vault
    blocks = world.gather(coding, "units/d/here")
    files = [world.count([block], asked, vault, f"sums/{at}", coding.codes) for at, block in enumerate(blocks)]
    return world.summed(files, vault)[1]


MAKES_CODES = {"encoder": "of_raw", "recoder": "completed"}


@pytest.mark.parametrize("planted", [10**6, -(10**6)], ids=["beyond", "below"])
@pytest.mark.parametrize("where", MAKES_CODES)
def test_a_code_out_of_its_span_counts_once_in_its_own_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: int, where: str
) -> None:
    coding, asked = coded(tmp_path)
    most = asked.steps * UNITS
    true = getattr(world.Codes, MAKES_CODES[where])
    monkeypatch.setattr(world.Codes, MAKES_CODES[where], lambda *given: true(*given) + np.int32(planted))
    found = sums_of(coding, asked)
    for start, stop in asked.spans:
        cells = found[start - asked.spans[0][0] : stop - asked.spans[0][0]]
        assert cells.min() >= 0
        assert 0 < cells.sum() <= most


@pytest.mark.parametrize("where", MAKES_CODES)
def test_an_encoder_that_doubles_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    coding, asked = coded(tmp_path)
    true = getattr(world.Codes, MAKES_CODES[where])
    monkeypatch.setattr(world.Codes, MAKES_CODES[where], lambda *given: np.concatenate([true(*given)] * 2))
    with pytest.raises(world.EnvironmentFailed, match="nothing of the data is shown"):
        sums_of(coding, asked)


def test_features_of_units_are_not_handed_on_where_rows_are_secret(tmp_path: Path) -> None:
    """A question could follow from them: they are for plans in which labels alone are."""
    coding, _ = coded(tmp_path)
    blocks, private = world.gather(coding, "units/d/here"), coding.private
    with pytest.raises(world.NotVerified, match="nothing is handed on"):
        world.known_codes(blocks, coding.codes, private.vault)


# Learners and voters --------------------------------------------------------------------------------------------------

COLUMN = world.Scaled(kind="numeric", name="x", mean=0, scale=1, fill=0, low=-1, high=1, missing=False)
ENCODING = world.Encoding(columns=(COLUMN,), label="y", classes=("a", "b"))


VOTES: dict[str, Any] = {
    "for two classes": lambda X: np.ones((len(X), 2)),
    "for both at once": lambda X: np.array([[0, 1]] * len(X), object),
    "for a class that is none": lambda X: np.full(len(X), 2),
    "below all": lambda X: np.full(len(X), -1),
    "by a part": lambda X: np.full(len(X), 0.5),
    "by nothing": lambda X: np.full(len(X), np.nan),
    "twice": lambda X: np.zeros(2 * len(X), np.int64),
    "in words": lambda X: np.array(["b"] * len(X)),
}


@pytest.mark.parametrize("vote", VOTES)
def test_a_voter_votes_once_on_each_row_whatever_it_says(vote: str) -> None:
    class Voter:
        predict = staticmethod(VOTES[vote])

    X, counts = np.zeros((5, 1), np.float32), np.zeros((5, 2), np.uint32)
    world.add_votes(counts, [world.Teacher(Voter(), 1), world.Teacher(None, 0)], X)
    assert counts.sum(axis=1).tolist() == [2] * 5


@pytest.mark.parametrize("planted", ["one voter twice", "one voter less", "a row less", "a row more"])
def test_votes_that_are_not_one_of_each_teacher_are_refused(tmp_path: Path, planted: str) -> None:
    case = make_case(tmp_path / "home", STABLE)
    votes = counts_of(0)
    votes = {
        "one voter twice": votes + np.eye(2, dtype=np.int64)[0],
        "one voter less": votes - (votes == votes.max(axis=1, keepdims=True)),
        "a row less": votes[1:],
        "a row more": np.vstack([votes, votes[:1]]),
    }[planted]
    case.recount(0, votes)
    refused(case, f"each of {TEACHERS} teachers votes once on each of {ROWS} rows")


# Asks and flows: questions, sums and mechanisms -----------------------------------------------------------------------


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    return Rounds.in_home(tmp_path)


def test_sums_of_another_question_are_refused_though_they_are_as_many(rounds: Rounds) -> None:
    """Its model expects less, so a unit adds more than the round paid for."""
    asked = question(0, None)
    other = replace(asked, least=0)
    assert other.size == asked.size
    sums = world.keep_sums(rounds.door.vault, "sums/d/other", other, world.tally(other, CODED, LABELS), made())
    refuses(rounds, rounds.step(0, asked, [sums]), "another question")
    refuses(rounds, rounds.step(0, other, [sums]), NOTHING)


def test_a_block_is_not_counted_twice_into_one_sum(tmp_path: Path) -> None:
    """As the sums of a season's period are counted, over all blocks at once."""
    coding, asked = coded(tmp_path)
    blocks, vault = world.gather(coding, "units/d/here"), coding.private.vault
    world.count(blocks, asked, vault, "sums/d/s/0")
    with pytest.raises(world.NotVerified, match="a unit would be in two"):
        world.count([*blocks, blocks[0]], asked, vault, "sums/d/s/1")


def test_a_question_that_its_round_did_not_pay_for_is_refused(rounds: Rounds) -> None:
    """Whatever it followed from: one field asked in more steps than there is room for."""
    asked = world.RoundQuestion(
        classes=2, steps=1 << 12, what="labels", least=0, count=0, fields=(0,), spans=(SPANS[0],)
    )
    sums = world.keep_sums(rounds.door.vault, "sums/d/0", asked, world.tally(asked, CODED, LABELS), made())
    refuses(rounds, rounds.step(0, asked, [sums]), "paid for")


class Silent(world.Tallies):
    """It records what it should, and adds no noise."""

    def release(self, number: int, sums: world.Ints, source: world.RandomSource) -> world.Ints:  # noqa: ARG002
        return sums


def test_the_mechanism_on_record_draws_whatever_an_ask_has(
    tmp_path: Path, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of less noise, and one that says it is the session's and adds none."""
    true, scales, asked = world.mechanisms_noise.gaussian, list[float](), question(0, None)

    def drawn_at(scale: float, size: int) -> world.Ints:
        scales.append(scale)
        return true(scale, size)

    monkeypatch.setattr(world.mechanisms_noise, "gaussian", drawn_at)
    step = rounds.step(0, asked, rounds.blocks(0, asked), Silent.model_validate(TALLIES.model_dump(mode="json")))
    world.release(rounds.door, rounds.session, [step])
    case = make_case(tmp_path / "votes", NOISY)
    files_of(case.door, case.session, labels_by(NOISY.with_(scale=1.0)), case.batches[:1], case.votes_on)
    assert scales == [TALLIES.rounds[0].scale, NOISY.scale]


def test_a_step_that_says_it_is_another_is_refused(rounds: Rounds) -> None:
    """The second round's question at the first's place, and a step without numbers."""
    asked = question(0, None)
    step = rounds.step(1, asked, rounds.blocks(0, asked))
    with pytest.raises(world.NotVerified):
        world.release(rounds.door, rounds.session, [step])
    refuses(rounds, replace(step, number=0, exact=None), "without exact numbers")


# Calibration and price ------------------------------------------------------------------------------------------------

THINNER = {
    name: {key: value * 0.999 for key, value in vars(mechanism).items() if key.endswith("scale")}
    for name, mechanism in DRAWN.items()
}
THINNER |= {
    name: {"rounds": tuple(of.with_(scale=of.scale * 0.999) for of in DRAWN[name].rounds)}
    for name in ("tallies", "sketch", "stream")
}
THINNER["stable"] = {"cutoff": DRAWN["stable"].cutoff + 1}
THINNER["published"] = {name: scale / 10 for name, scale in THINNER["published"].items()}  # what is printed wastes much
THINNER["optimal"] = {"refusal": DRAWN["optimal"].refusal[1:].copy()}
"""By kind, a fault of its calibration: a little less noise, or one refusal more, than the claim has room for."""


@dataclass(frozen=True)
class Asked(world.Ask[Any]):
    """An ask of a mechanism by itself."""

    purpose: ClassVar[str] = world.LABELS

    def depends(self, plan: world.Plan) -> dict[str, Any]:
        return {"version": plan.data.version}


OF_LABELS = changed(tables_of_plan(Path()), privacy__secret="labels")


def opens(home: Path, mechanism: Any, plan: world.Plan = PLAN) -> world.Session:
    return world.reserve_session(world.Stores.of(home), plan, Asked(mechanism), ENCODING, [], new_session=False)


def is_not_opened(home: Path, mechanism: Any, plan: world.Plan = PLAN) -> None:
    with pytest.raises(world.NotVerified, match="nothing was opened"):
        opens(home, mechanism, plan)
    assert world.Stores.of(home).ledger.domains() == ()


@pytest.mark.parametrize("name", sorted(DRAWN.keys() - {"universal"}))  # which draws at its ε, whatever it says
def test_a_claim_that_the_calibrated_settings_do_not_prove_is_refused(tmp_path: Path, name: str) -> None:
    opens(tmp_path / "honest", DRAWN[name])
    is_not_opened(tmp_path / "planted", DRAWN[name].with_(**THINNER[name]))


def test_a_table_that_refuses_more_often_further_away_is_refused(tmp_path: Path) -> None:
    """Answers became as rare in one step as was claimed of many: the cost looked at how fast they grow alone."""
    honest = DRAWN["optimal"]
    rising = honest.with_(refusal=np.array([*honest.refusal, 2**64 - 1], np.uint64))
    is_not_opened(tmp_path, rising)


@pytest.mark.parametrize("name", ["tallies", "universal", "private_test"])
def test_a_mechanism_of_rows_is_refused_where_labels_are_secret(tmp_path: Path, name: str) -> None:
    """It would cost less than what a changed label changes."""
    is_not_opened(tmp_path, DRAWN[name], OF_LABELS)


def test_tallies_of_one_label_are_refused_where_a_unit_has_several(tmp_path: Path) -> None:
    """All labels of a unit change together: they move the sums by more."""
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "classes": 2, "secret": "labels"}
    asked = [world.Round(fields=2, cells=10, least=0, share=1.0)]
    of_one, of_several = (
        world.calibrated_sums(world.Tallies, rounds=asked, many=many, **given) for many in (False, True)
    )
    opens(tmp_path / "honest", of_several, OF_LABELS)
    is_not_opened(tmp_path / "planted", of_one, OF_LABELS)


def test_a_session_is_charged_what_its_settings_cost_whatever_its_ask_states(tmp_path: Path) -> None:
    """The worst that it may state: nothing for the whole or for a refusal, a smaller claim, and no end."""
    free = {"cost": world.Cost.gaussian(0.0), "per_refusal": world.Cost.gaussian(0.0), "epsilon": 1e-9, "cutoff": None}
    stated = {"name": "stable", "calibrated": (), "delta": 0.0, "queries": None, "model_dump": STABLE.model_dump}
    honest, planted = (
        opens(tmp_path / name, of) for name, of in (("a", STABLE), ("b", SimpleNamespace(**stated, **free)))
    )
    for term in ("reserved", "per_refusal", "epsilon", "delta", "cutoff", "queries"):
        assert getattr(planted, term) == getattr(honest, term)


def test_sessions_that_are_no_seasons_are_charged_one_by_one(tmp_path: Path) -> None:
    """Of a stream's seasons a domain pays the largest alone, since each asks other units; an ask may say it is one."""

    class Free(Asked):
        stream = "s"

    door = world.Stores.of(tmp_path)
    for _ in range(2):
        session = world.reserve_session(door, PLAN, Free(DRAWN["tallies"]), ENCODING, [], new_session=True)
        door.ledger.settle(session.id, give_back=False)
    assert door.ledger.total("d") == session.reserved.times(2)


def test_a_session_that_is_charged_to_other_units_than_it_reads_draws_nothing(tmp_path: Path) -> None:
    """Half of what is learned, in the name of the units that students are tested on: no part would pay for both."""
    home = tmp_path / "home"
    home.mkdir()
    opened(world.Stores.of(home), STABLE, part=world.TEST)
    refused(make_case(home, STABLE), "is charged for numbers of another part")


# Publishing -----------------------------------------------------------------------------------------------------------


def test_what_publishes_cannot_leave_the_noise_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given what was drawn; the counts of refusals, by which the session pays, are taken from that as well."""
    case = make_case(tmp_path / "home", STABLE)
    labels = case.run()
    honest = case.door.ledger.session("d-1")
    other, given = make_case(tmp_path / "other", STABLE), list[Any]()

    def silent(drawn: Any) -> bytes:
        given.append(drawn)
        return b"everything was answered"

    steps = (replace(step, publish=silent) for step in _steps(other))
    with monkeypatch.context():
        world.release(other.door, other.session, steps)
    session = other.door.ledger.session("d-1")
    assert session.asked == session.answered + session.refused == honest.asked == labels.num_rows
    assert [array.shape for drawn in given for array in drawn.arrays] == [(ROWS,)] * 3
    assert all(set(np.unique(drawn.arrays[0])) <= {-1, 0, 1} for drawn in given)


def _steps(case: Case) -> Any:
    return labels_by(STABLE).steps(case.door, case.session, case.batches, case.votes_on)


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    """Votes given as sums would be released as they are, with noise for what a unit adds to sums."""
    case = make_case(tmp_path / "home", NOISY)
    (step, *_) = _noisy(case.door, case)
    sums = replace(step, exact=replace(step.exact, form="counts"))
    with pytest.raises((world.EnvironmentFailed, world.NotVerified)):
        world.release(case.door, case.session, [sums])
    assert not (case.door.released.root / "d-1").exists()


def _noisy(door: world.Stores, case: Case) -> Any:
    return labels_by(NOISY).steps(door, case.session, case.batches, case.votes_on)
