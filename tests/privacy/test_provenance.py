"""Provenance: files that a flow hands on in the place of others are refused, through the rooms that write it.

Each fault is planted outside the core (tests/test_core.py), as in tests/privacy/test_outside_the_core.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.promises.kinds import ESTIMATE, TESTING
from tests.support.at_door import ROWS, STABLE, TEACHERS, counts_of, files_of, make_case, opened, refused, write_votes
from tests.support.made import keep, made
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.sums import LABELS, QUESTIONS, Rounds, Season, question, refuses
from tests.support.sums import ROWS as CODED
from tests.support.weeks import CountedWeeks, of

# Shards ---------------------------------------------------------------------------------------------------------------

RELABELLING = world.Relabelling(hypotheses="stumps", features=("size",), grid="6f", share=0.3, epsilon=2.0, delta=1e-5)


GIVEN: dict[str, Any] = {"relabelled": {"share": 0.3}, "measured": {"aside": 0.3}}
"""How shards are split for what is made of them."""


@dataclass(frozen=True)
class Shards:
    """People in four shards, in two blocks of files; as another split has them, if they are other people."""

    plan: world.Plan
    encoding: world.Encoding
    vault: world.Vault
    blocks: tuple[world.Ref, ...]

    @classmethod
    def of(
        cls,
        folder: Path,
        seed: int = 1,
        unit: str | None = "person",
        turned: bool = False,
        key: bytes = b"",
        **given: Any,
    ) -> "Shards":
        tables = tables_of_plan(write_tables(folder / f"{seed}", people(60, seed)))
        plan = changed(tables, teachers__count=4, teachers__block=2, data__unit=unit)
        encoding, vault = world.learn_encoding(plan), world.Vault(folder / "vault")
        encoding = encoding.model_copy(update={"classes": encoding.classes[:: -1 if turned else 1]})
        vault.make_secret("domains/people")
        rows = world.PrivateRows.of(plan, encoding, vault, ())
        rows, place = replace(rows, key=key or rows.key), f"{seed}-{unit}-{turned}-{key.hex()}-{given}"
        return cls(plan, encoding, vault, world.units_split.split(rows, f"shards/people/{place}", **given))

    def answered(self, blocks: Sequence[world.Ref]) -> world.Ref:
        return world.units_teachers.answer(str, blocks, self.encoding, self.vault, "answers", {})

    def relabelled(self, blocks: Sequence[world.Ref], cuts: Sequence[float] = (-1.0, 0.0)) -> world.RelabelledRows:
        space, settings = world.hypothesis_class("stumps", columns=[0], grid=[cuts]), RELABELLING.with_(grid=f"{cuts}")
        place = self.vault, f"relabelled/people/{cuts}", bytes(32)
        return world.units_relabel.relabel(blocks, self.encoding, space, settings, *place)

    def polled(self, blocks: Sequence[world.Ref]) -> world.Ref:
        plan, vault = self.plan.teachers, self.vault
        taught = [world.teach(block, plan, self.encoding, vault, f"teachers/people/{block.digest}") for block in blocks]
        rows = world.write_frame(pl.read_parquet(self.plan.path("public")).head(3), vault, "public/rows")
        batch = world.PublicBatch(ref=rows, first=0, rows=3)
        return world.units_teachers.poll(batch, tuple(taught), self.encoding, vault, "votes/people/here")

    def measured(self, blocks: Sequence[world.Ref]) -> object:
        plan = self.plan.teachers
        errors = [world.measure(block, plan, self.encoding, self.vault, f"errors/{block.digest}") for block in blocks]
        return world.opened(world.Exact("errors", (tuple(errors),)), self.vault)


@pytest.mark.parametrize("given", [(0, 0), (1, 0), (0,) * 3, (1,), ()])
@pytest.mark.parametrize("what", ["answered", "relabelled", "polled", "measured"])
def test_blocks_that_are_not_of_each_shard_once_are_refused(tmp_path: Path, what: str, given: tuple[int, ...]) -> None:
    """One block twice in place of the other: a unit would have two answers, votes or errors among as many, or choose
    labels twice."""
    shards = Shards.of(tmp_path, **GIVEN.get(what, {}))
    do = getattr(shards, what)
    do(shards.blocks)
    with pytest.raises(world.NotVerified, match="a unit would be in two"):
        do([shards.blocks[at] for at in given])


@pytest.mark.parametrize("what", ["answered", "relabelled", "polled", "measured"])
@pytest.mark.parametrize("other", [{"unit": None}, {"share": 0.4}, {"turned": True}, {"key": bytes(32)}])
def test_shards_of_two_splits_that_are_as_many_as_of_one_are_refused(
    tmp_path: Path, what: str, other: dict[str, Any]
) -> None:
    """Of rows and of people, of a subset and of all or another one, by two encodings or keys: a unit could be in two of
    them."""
    shards, others = (Shards.of(tmp_path, **GIVEN.get(what, {}) | given) for given in ({}, other))
    with pytest.raises(world.NotVerified, match="a unit would be in two"):
        getattr(shards, what)([shards.blocks[0], others.blocks[1]])
    later = Shards.of(tmp_path, seed=2, **GIVEN.get(what, {}))
    getattr(shards, what)([shards.blocks[0], later.blocks[1]])  # a person is in one shard, whatever the table holds


def test_blocks_that_were_labelled_by_two_choices_are_refused(tmp_path: Path) -> None:
    """Two hypotheses would be drawn, and one is charged."""
    shards = Shards.of(tmp_path, share=0.3)
    (first, _), (_, second) = shards.relabelled(shards.blocks).blocks, shards.relabelled(shards.blocks, [0.5]).blocks
    with pytest.raises(world.NotVerified, match="a unit would be in two"):
        shards.polled([first, second])


CHARGED: dict[str, Any] = {
    "domain": "other",
    "unit": "all rows with one x",
    "subset": (0.5, 1.0),
    "pieces": 599,
    "form": "errors",
    "stream": "d-stream",
    "period": 1,
}


@pytest.mark.parametrize("fact", CHARGED)
def test_votes_made_of_what_the_session_is_not_charged_for_are_refused(tmp_path: Path, fact: str) -> None:
    """Teachers of another domain, whose units would pay nothing; of other units; of a secret subset where all are
    charged for; of fewer shards, each of which would have several votes; numbers that are no votes; and so on."""
    case = make_case(tmp_path / "home", STABLE)
    votes = pl.DataFrame(counts_of(0), world.votes_schema(2).names, orient="row").cast(pl.UInt32)
    honest: dict[str, Any] = {"pieces": TEACHERS, "form": "votes"}
    planted = made(**honest | {fact: CHARGED[fact]})
    case.votes[0] = planted.rows(votes, case.door.vault, "votes/d/planted.arrow")
    refused(case, f"is charged for numbers of another {fact}")


SUBSETS = [(), (0.3,), (0.3, 2.0, "6f"), (0.5, 1.0, "6f"), (0.3, 1.0, "6e"), (0.3, 1.0, "6f", 1.0, "6f")]


@pytest.mark.parametrize("subset", SUBSETS)
def test_votes_of_another_subset_or_choice_than_on_record_are_refused(tmp_path: Path, subset: tuple[Any, ...]) -> None:
    """The session claims what a subset of share .3 is worth, labelled by a choice of ε = 1."""
    epsilon, delta = RELABELLING.inner
    inner = world.calibrated_votes(world.NoisyVotes, epsilon=epsilon, delta=delta, queries=3 * ROWS, classes=2)
    case = make_case(tmp_path / "home", world.Relabelled(inner=inner, relabelling=RELABELLING))
    case.votes = [write_votes(case.door, f"planted-{at}", counts_of(at), subset=subset) for at in range(3)]
    refused(case, "is charged for numbers of another subset")
    case.votes = [write_votes(case.door, f"{at}", counts_of(at), subset=(0.3, 1.0, "6f")) for at in range(3)]
    case.run()


@pytest.mark.parametrize("share", [None, 0.01, 0.5])
def test_votes_of_another_division_than_the_session_s_are_refused(tmp_path: Path, share: float | None) -> None:
    """As if a flow had left out that units are set aside, or how many: what students are tested on would be learned."""
    tables = tables_of_plan(write_tables(tmp_path, people(60, 1)))
    plans = [changed(tables, **({} if each is None else {"test__share": each})) for each in (0.5, share)]
    case = make_case(tmp_path / "home", STABLE)
    case.door.vault.make_secret("domains/people")
    given = world.learn_encoding(plans[0]), case.door.vault, ()
    divisions = [world.provenance_of(world.PrivateRows.of(plan, *given)).division for plan in plans]
    other = make_case(tmp_path / "other", STABLE, part=world.LEARNING, division=divisions[0])
    other.votes = [write_votes(other.door, f"{at}", counts_of(at), division=divisions[1]) for at in range(3)]
    if share == 0.5:
        other.run()
    else:
        refused(other, "is charged for numbers of another division")


@dataclass(frozen=True)
class AsCounts(world.EstimateAsk):
    """One word is planted: one draw would be added to the errors of every shard."""

    form: ClassVar[Any] = "counts"


@pytest.mark.parametrize("form", ["errors", "counts", ""])
def test_a_mechanism_draws_from_its_own_form_alone(tmp_path: Path, form: str) -> None:
    """Whatever the ask says, and whatever the file is: errors, or the shards themselves."""
    door, ask = world.Stores.of(tmp_path), AsCounts(ESTIMATE.mechanism, ESTIMATE.about)
    errors = keep(door.vault, "measured/d/0", np.arange(8, dtype="<i8").tobytes(), made(4, form=form))
    for asked, why in ((ask, "draws from errors, not from counts"), (ESTIMATE, "numbers of another form")):
        if (asked, form) != (ESTIMATE, "errors"):
            with pytest.raises(world.NotVerified, match=why):
                files_of(door, opened(door, ask), asked, [errors])
    assert door.ledger.batches("d-1") == ()


def test_errors_of_a_number_are_no_matrix_of_classes(tmp_path: Path) -> None:
    """Both are sixteen counts, of which a unit moves two and one."""
    mechanism = world.calibrated_test(epsilon=2.0, delta=1e-5, classes=4, secret="rows")
    ask, door = world.StudentTestAsk(mechanism, TESTING, tuple("abcd")), world.Stores.of(tmp_path)
    planted, honest = (
        keep(door.vault, f"tested/d/{name}", bytes(128), made(part="test", form="counts", question=name))
        for name in ("number_errors", "confusion")
    )
    with pytest.raises(world.NotVerified, match="counts of another kind"):
        files_of(door, opened(door, ask), ask, [planted])
    assert len(files_of(door, opened(door, ask), ask, [honest])) == 1


@pytest.mark.parametrize("content", [b"", b"votes", bytes(9), b"\xff" * 9, b"{}\x02\0\0\0"])
def test_a_file_that_does_not_say_how_it_was_made_is_refused(tmp_path: Path, content: bytes) -> None:
    vault = world.Vault(tmp_path)
    with vault.create("votes/d/0") as sink:
        sink.write(content)
    with pytest.raises(world.NotVerified, match="of another version of concord: go on with that one"):
        world.opened(world.Exact("votes", ((sink.ref,),)), vault)


# Blocks and sums ------------------------------------------------------------------------------------------------------


def coding_of(folder: Path, unit: str | None) -> tuple[world.Coding, world.RoundQuestion]:
    """People in four files, as codes, and a question that counts them."""
    given = tables_of_plan(write_tables(folder, people(60, 7))) | {"labeling": {"mechanism": "tallies", "rows": 60}}
    given["data"] |= {"unit": unit, "private": str(folder / "many")}
    (folder / "many").mkdir()
    for at in range(4):
        people(60, 7)[15 * at : 15 * at + 15].write_parquet(folder / f"many/{at}.parquet")
    plan = world.parse_plan({name: given[name] for name in given if name not in ("teachers", "student")})
    encoding, vault = world.learn_encoding(plan), world.Vault(folder / "vault")
    vault.make_secret("domains/people")
    cells = world.cast_rows(pl.read_parquet(plan.path("public")).select(encoding.features), encoding)
    codes = world.learn_codes([cells], encoding.columns, coarse=8)
    spans = tuple((field.start, field.start + field.size) for field in codes.fields)
    fields = tuple(range(codes.width))
    asked = world.RoundQuestion(classes=2, steps=4, what="codes", least=0, count=1, fields=fields, spans=spans)
    return world.Coding(world.PrivateRows.of(plan, encoding, vault, ()), codes), asked


def test_workers_that_are_handed_the_parts_of_others_write_no_block(tmp_path: Path) -> None:
    """Each of eight blocks would have the same people."""
    coding, _ = coding_of(tmp_path, "person")

    def planted(step: world.BlockStep, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        given = [(calls[0][0], *call[1:]) for call in calls] if step.__name__ == "meet" else calls
        return [step(coding, *call) for call in given]

    with pytest.raises(world.NotVerified, match="in the place of another's"):
        world.gather(coding, "units/people/here", planted)


def test_blocks_of_shares_of_two_sizes_are_refused(tmp_path: Path) -> None:
    """Rows without names: shares 0 of 2, 2 of 4 and 3 of 4 fill each block once, and the second file is in two."""
    coding, asked = coding_of(tmp_path, None)
    files, vault = tuple(str(file.path) for file in coding.table.files), coding.private.vault
    shares = [(0, 2), (2, 4), (3, 4)]
    parts = [world.code_rows(coding, share, files, f"units/people/{share[1]}") for share in shares]
    blocks = [block for part in parts for block in part]
    assert len(blocks) == world.BLOCKS
    sums = [world.count([block], asked, vault, f"sums/people/{at}") for at, block in enumerate(blocks)]
    with pytest.raises(world.NotVerified, match="a unit would be in two"):
        world.summed(sums, vault)


def test_features_are_not_made_public_where_rows_are_secret(tmp_path: Path) -> None:
    coding, _ = coding_of(tmp_path, "person")
    data = coding.private.plan.data.model_copy(update={"public_share": 0.9, "features": ("size",)})
    planted = coding.private.plan.model_copy(update={"data": data})
    with pytest.raises(world.NotVerified, match="nothing is written"):
        world.with_public(planted, coding.private.vault, ["x"])


@pytest.mark.parametrize("given", [(0, 0), (0, 1, 0), (1,), (1, 0), ()])
def test_sums_that_are_not_of_each_block_once_are_refused(tmp_path: Path, given: tuple[int, ...]) -> None:
    """A block is added twice, or in place of another: a unit would count twice."""
    rounds, asked = Rounds.in_home(tmp_path), question(0, None)
    blocks = rounds.blocks(0, asked)
    refuses(rounds, rounds.step(0, asked, [blocks[at] for at in given]), "a unit would be in two")
    assert len(world.release(rounds.door, rounds.session, [rounds.step(0, asked, blocks)])) == 1


def test_people_whose_rows_were_read_as_units_of_their_own_are_refused(tmp_path: Path) -> None:
    """As if a flow had read the table without its column of units: a person would add as much as all of their rows."""
    rounds, asked = Rounds.in_home(tmp_path), question(0, None)
    of_people = made(unit="all rows with one person")
    sums = world.keep_sums(rounds.door.vault, "sums/d/0", asked, world.tally(asked, CODED, LABELS), of_people)
    refuses(rounds, rounds.step(0, asked, [sums]), "is charged for numbers of another unit")


@pytest.mark.parametrize(("place", "why"), [(0, "not those that its releases were drawn for"), (1, "each period once")])
def test_a_period_s_sums_in_the_place_of_another_s_are_refused(tmp_path: Path, place: int, why: str) -> None:
    """Its units would be added twice."""
    season = Season.in_home(tmp_path)
    counted = season.counted(2)
    season.release(0)
    counted[place] = counted[place].model_copy(update={"sums": counted[1 - place].sums})
    with pytest.raises(world.NotVerified, match=why):
        season.release(1, counted)
    season.release(1)


def test_people_of_a_stream_are_people_whatever_table_a_flow_hands_on(tmp_path: Path) -> None:
    weeks = CountedWeeks(tmp_path / "data")
    weeks.arrive("one", of(*["a"] * 40))
    table = replace(world.table_of(weeks.plan, weeks.vault, weeks.taken()), unit=None)  # the planted bug
    blocks = world.gather(world.Coding(weeks.private, weeks.codes, world.Arriving(table, "s", 0, (), "a")), "units/d/0")
    assert (
        weeks.units(world.summed([world.count(blocks, weeks.question, weeks.vault, "sums/d/0")], weeks.vault)[1]) == 1
    )


def test_sums_whose_units_are_new_by_other_names_than_the_last_period_s_are_refused(tmp_path: Path) -> None:
    """The names are those of another arrival: units of the sums before would be asked again."""
    weeks = CountedWeeks(tmp_path / "data")
    weeks.arrive("one", of("a", "b", "c"))
    table = world.table_of(weeks.plan, weeks.vault, weeks.taken())
    nothing = world.table_of(weeks.plan, weeks.vault, world.Period(files={}))

    def arrived(
        name: str, table: world.RowTable, period: int, before: Sequence[world.Ref]
    ) -> tuple[world.Provenance, tuple[world.Ref, ...]]:
        arriving = world.Arriving(table, "s", period, before, f"arrived/d/{name}")
        (first, *_) = world.gather(world.Coding(weeks.private, weeks.codes, arriving), f"units/d/{name}")
        return world.read_made(first, weeks.vault)[0], tuple(arriving.names)

    zero, honest = arrived("zero", table, 0, ())
    _, planted = arrived("nothing", nothing, 0, ())
    after = [arrived(f"{at}", nothing, 1, names)[0].follows for at, names in enumerate((honest, planted))]
    assert [follows == zero.reading for follows in after] == [True, False]
    season = Season.in_home(tmp_path / "home")
    season.release(0)
    for reading in ("another", "the first"):
        counted = season.counted(2)
        sums = [
            world.keep_sums(
                season.door.vault,
                f"sums/d/{reading}-{number}-{at}",
                asked,
                np.zeros(asked.size, np.int64),
                made(stream="d-stream", period=number, reading="the first", follows=reading if number else ""),
            )
            for number in range(2)
            for at, asked in enumerate(QUESTIONS)
        ]
        again = [sums[:2], sums[2:]]
        season.door.ledger.remark("d", "erased", "somebody")
        if reading == "another":
            with pytest.raises(world.NotVerified, match="new by other names"):
                season.release(1, counted, again=again)
        else:
            season.release(1, counted, again=again)
