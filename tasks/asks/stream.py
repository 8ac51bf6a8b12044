"""A stream: one release a period, of running sums over all units that arrived so far; a session is a season of them.

When a season has ended, the next asks the same questions of units that arrive from then on. What a period took and the
names of units belong to the stream, and outlive its seasons: each of them knows all units that earlier ones asked.

A period takes files, which are counted (exact sums of its new units, and the names of all units up to it), and is then
released. Its files and their sums are on record in the vault before the draw: a killed release is finished with the
same files and names, and what arrived meanwhile waits for the next. If it is not on record, nothing was drawn.

Assumes      the ledger reserved the season when the session was opened; a period's sums and names are of its files
Guarantees   a release is drawn for once, after it was begun; its batch digests the period's files, sums and names, and
             those of earlier periods are compared with their batches. Questions are those of the first release
Ends         with the season: the session is charged whole, also if it is closed before
Not covered  as for `tallies`. The delay of a release after its tick reveals how long counting took. One that
             was begun and whose kept draw is gone stops, and no later one can be read: `concord close --whole` ends the
             season. Sums that were counted again after an erasure are digested by no batch.
             Checked by tests/tasks/asks/test_periods.py, tests/flows/test_refresh.py and tests/promises
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import ROUND_FILE
from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import Encoding, Ref, canonical_json
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Public
from concord.tasks.asks.tallies import TalliesAsk
from concord.tasks.data.codes import Codes
from concord.tasks.door.checkpoint import PublicSource
from concord.tasks.door.door import Drawn, Step
from concord.tasks.door.exact import Exact
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.student.running_totals import spread, totals
from concord.tasks.units.arrivals import Period

RELEASE_FORMAT = "concord release 2"
"""Format of a release's file, JSON: number, questions, sums, running totals, and results computed from them."""


class Beginning(BaseModel):
    """What was public when a stream began. Later releases ask by these codes, whatever rows are public by then: what is
    decoded from released sums, on any public rows, is post-processing.

    read     digest of the plan's fields by which the encoding was learned
    source   the public rows that encoding and codes were learned from
    """

    model_config = ConfigDict(frozen=True)

    read: str
    encoding: Encoding
    codes: Codes
    source: PublicSource


def beginning_of(vault: Vault, domain: str, stream: str) -> Beginning | None:
    """How a stream began, if it is known."""
    taken = vault.take(_beginning(domain, stream))
    return None if taken is None else Beginning.model_validate_json(taken[1])


def keep_beginning(vault: Vault, domain: str, stream: str, beginning: Beginning) -> None:
    """Record how a stream begins; the first record stays."""
    path = _beginning(domain, stream)
    if vault.kept(path) is None:
        vault.keep(path, beginning.model_dump_json().encode())


def _beginning(domain: str, stream: str) -> str:
    return f"streams/{domain}/{stream}/beginning.json"


class PeriodCounts(BaseModel):
    """The exact sums of a period, and the names of its units.

    period  what it took
    sums    exact sums of its new units, a file for each question
    names   files of the names of all units up to this period
    erased  number of names erased by then; their units are in none of these files
    """

    model_config = ConfigDict(frozen=True)

    period: Period
    sums: tuple[Ref, ...]
    names: tuple[Ref, ...] = ()
    erased: int = 0


def periods_counted(vault: Vault, session: Session) -> Iterator[PeriodCounts]:
    """The periods of a season that were counted so far, in order; the last may not be released yet."""
    for number in count():
        taken = vault.take(_path(session, number))
        if taken is None:
            return
        yield PeriodCounts.model_validate_json(taken[1])


def keep_counted(vault: Vault, session: Session, number: int, counted: PeriodCounts) -> PeriodCounts:
    """Record what a period took and was counted to; the first record stays."""
    path = _path(session, number)
    kept = vault.kept(path) or vault.keep(path, counted.model_dump_json().encode())
    return PeriodCounts.model_validate_json(vault.read(kept))


def keep_again(vault: Vault, session: Session, erased: int, sums: Sequence[Sequence[Ref]]) -> None:
    """Record the sums of all periods of a season so far, counted again without the units of that many erased names."""
    with vault.create(_path_again(session, erased)) as sink:
        sink.write(_SUMS.dump_json(sums))


def counted_again(vault: Vault, session: Session, erased: int) -> list[tuple[Ref, ...]]:
    """What `keep_again` recorded for that many erased names, if anything."""
    taken = vault.take(_path_again(session, erased))
    return [] if taken is None else [tuple(pair) for pair in _SUMS.validate_json(taken[1])]


_SUMS = TypeAdapter(Sequence[Sequence[Ref]])


def _path_again(session: Session, erased: int) -> str:
    return f"sums/{session.domain}/{session.id}/again-{erased}.json"  # `erase` removes it with them


def _path(session: Session, number: int) -> str:
    """Among what its stream keeps when a season is forgotten."""
    return f"streams/{session.domain}/{session.stream}/{session.id}-{number:05d}.json"


class TotalsReader(Protocol):
    """What further results of a release are computed with, by public things: see `tasks.student.questions`."""

    def follow(self, release: Mapping[str, Any]) -> Mapping[str, Any]:
        """Further results, from the release's file so far."""


@dataclass(frozen=True)
class SeasonAsk(TalliesAsk):
    """The next season of a stream.

    seasons_of   the stream
    """

    mechanism: Stream
    seasons_of: str = ""

    @property
    def stream(self) -> str:
        """The stream."""
        return self.seasons_of

    @property
    def questions(self) -> list[RoundQuestion]:
        """What is asked of each period, in order."""
        fields, season = self.coded.coarse, self.mechanism
        spans = [(self.coded.span(at).start, self.coded.span(at).stop) for at in fields]
        return [season.question(at, fields, spans) for at in range(len(season.rounds))]

    def steps(
        self,
        stores: Public,
        session: Session,
        counted: Sequence[PeriodCounts],
        again: Sequence[Sequence[Ref]],
        released: Sequence[Mapping[str, Any]],
        reader: TotalsReader,
    ) -> Iterator[Step]:
        """The only step: the release of the last of these periods.

        counted  all periods so far, in order
        again    their sums in place of those on record, if units were erased since
        released what the releases of the periods before say
        reader   public things that running totals are read with
        """
        if again and not any(remark.kind == "erased" for remark in stores.ledger.remarks(session.domain)):
            raise NotVerified("sums of a period are counted again if a unit was erased, and none was")
        *earlier, last = (canonical_json(period.model_dump(mode="json")) for period in counted)
        sums = tuple((file,) for period in again or [period.sums for period in counted] for file in period)
        asking = {"questions": [question.record() for question in self.questions]}
        yield Step(
            question=canonical_json(asking),
            exact=Exact("periods", sums, last, tuple(earlier)),
            publish=release_file,
            about=(asking, self.mechanism, [release["sums"] for release in released], reader),
            draw="round-{:05d}",
            path=ROUND_FILE,
            number=len(earlier),
            once=True,
        )


def release_file(drawn: Drawn) -> bytes:
    """The file of a release: its questions and noisy sums, running totals, and what follows from them."""
    question, mechanism, past, reader = drawn.about
    release = {**question, **_read(mechanism, past, drawn.arrays)}
    return canonical_json({**drawn.claim, **release, **reader.follow(release)}).encode()


def _read(mechanism: Stream, past: Sequence[Sequence[Sequence[int]]], noisy: Sequence[Ints]) -> dict[str, Any]:
    """The part of a release's file that follows from its noisy sums, and those of earlier releases, by question."""
    running = [
        totals(mechanism, [*(np.array(sums[at], np.int64) for sums in past), level]) for at, level in enumerate(noisy)
    ]
    return {
        "format": RELEASE_FORMAT,
        "release": len(past),
        "season": mechanism.season,
        "scales": [of.scale for of in mechanism.rounds],
        "sums": [level.tolist() for level in noisy],
        "totals": [of_question.tolist() for of_question in running],
        "spread": spread(mechanism, len(past) + 1),
    }
