"""The joint answer of several homes: their shares of a round, added; and the session under which it is published.

    shares ─ each checked against the question ─ added ─┃ the door ─ the round, with the model decoded from it

The lead has no private row. Its own ledger records what is claimed of all homes together, in a domain of its own, so
that everything published is certified, signed and verified as any other result.

Assumes      shares were read and their signatures checked (tasks.asks.share)
Guarantees   a round adds the shares that are on record for it, whatever arrives later; nothing is drawn here. The
             round's file holds the signed question and shares, so that anyone can add them again
Not covered  whether a home's rows are true; a share that differs beyond noise is named. Checked by
             tests/tasks/asks/test_joint_shares.py, tests/flows/test_several_homes.py
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import sha256, sha256_of_all
from concord.artifacts.ledger.excerpt import Excerpt
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import canonical_json
from concord.artifacts.sections import HomesPlan
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.tasks.asks.share import Answered, Asked, Letter, share_in
from concord.tasks.asks.tallies import ROUND_FORMAT, TalliesAsk
from concord.tasks.data.codes import CodeMatrix
from concord.tasks.data.exchange import Exchange
from concord.tasks.data.tables import find_files
from concord.tasks.door.door import Step, publish_round
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.tallies import Tallies

SURELY = 6.0
"""Standard deviations of χ² beyond which a share is said to differ."""


@dataclass(frozen=True)
class JointAsk(TalliesAsk):
    """The rounds of several homes.

    agreed   what they agreed on: the run, the plan, names, keys, and who leads
    each     the rounds of each home
    """

    agreed: Mapping[str, Any]
    each: Tallies

    def settings(self) -> dict[str, Any]:
        """The settings of the mechanism, the codes, and the homes' agreement."""
        return {**super().settings(), **self.agreed}


@dataclass(frozen=True)
class SharesOfRound:
    """The shares of one round, by home, in the plan's order, and the question that they answer."""

    letter: Letter[Asked]
    shares: Mapping[str, Letter[Answered]]

    @property
    def asked(self) -> Asked:
        """The question."""
        return self.letter.content

    @property
    def sums(self) -> dict[str, Ints]:
        """The noisy sums of each home."""
        return {name: np.array(share.content.sums, np.int64) for name, share in self.shares.items()}

    @property
    def total(self) -> Ints:
        """All shares, added."""
        return np.asarray(sum(self.sums.values()), np.int64)


def check_public(plan: Plan, homes: HomesPlan) -> None:
    """Raise NotVerified unless the public table is the one that the plan names by its digest."""
    files = [file.path.read_bytes() for file in find_files(plan.path("public"), "data.public", plan.data.format)]
    found = sha256(files[0]) if len(files) == 1 else sha256_of_all(files)
    if found != homes.public:
        raise NotVerified(f"data.public must be the table whose SHA-256 is homes.public = {homes.public}, got {found}")


def last_of(shares: Mapping[str, Letter[Answered]]) -> dict[str, tuple[int, str]]:
    """For each home, the number of its answers before its share, and the share's digest."""
    return {name: (share.content.release, share.digest) for name, share in shares.items()}


def check_answered(share: Answered, letter: Letter[Asked], before: Mapping[str, tuple[int, str]]) -> None:
    """Raise NotVerified unless a share answers the question of that letter in all that the plan fixes.

    before   the homes' last shares, as `last_of` gives them
    """
    asked = letter.content
    each, number = asked.mechanism, asked.number
    last, own = before.get(share.home, (-1, ""))
    if (share.run, share.question, share.question_before) != (asked.run, letter.digest, asked.before):
        raise NotVerified("it answers another question, or one of another run")
    follows = own if share.release == last + 1 else share.share_before  # the one between came too late
    if share.share_before != follows or not last < share.release == number:
        raise NotVerified("it follows another share of this home than it gave before")
    if len(share.sums) != (size := asked.question.size):
        raise NotVerified(f"it holds {len(share.sums):,} sums, and {size:,} were asked")
    if (share.scale, share.epsilon, share.delta) != (each.rounds[number].scale, each.epsilon, each.delta):
        raise NotVerified("it has another noise or claim than the plan gives it")
    sessions = {line.session for line in Excerpt.read(share.excerpt.encode()).entries if line.kind == "open"}
    if share.session not in sessions:
        raise NotVerified("the excerpt of its ledger does not hold the session in which it answered")


def accepted(
    post: Exchange, homes: HomesPlan, letter: Letter[Asked], before: Mapping[str, tuple[int, str]]
) -> tuple[dict[str, Letter[Answered]], dict[str, str]]:
    """The shares that answer a question, by home; and why others are refused."""
    heard, refused, twice = dict[str, Letter[Answered]](), dict[str, str](), set[str]()
    for file in post.files():
        if file.number != letter.content.number or not file.home:
            continue
        try:
            own = share_in(post, homes, file)
            check_answered(own.content, letter, before)
            if heard.setdefault(file.home, own).data != own.data:
                twice.add(file.home)
                raise NotVerified("the home signed two shares of one question")
        except NotVerified as wrong:
            refused[file.home] = f"{file.name}: {wrong}"
    return {name: own for name, own in heard.items() if name not in twice}, refused


def units_of(name: str, rounds: Sequence[SharesOfRound]) -> float:
    """The number of units of a home, at least 1: the mean of the counts in its shares so far."""
    counts = list[float]()
    for each in (each for each in rounds if name in each.shares):
        question = each.asked.question
        sums = each.sums[name]
        if question.what == "codes":
            counts.append(float(sums[: question.width].sum()) / question.steps / len(question.fields))
        elif question.count:
            counts.append(float(sums[-1]) / question.count)
    return max(1.0, sum(counts) / len(counts)) if counts else 1.0


def differing(of: SharesOfRound, units: Mapping[str, float], rows: CodeMatrix) -> list[str]:
    """The homes whose share differs from the others' by more than noise and sampling explain, by χ² over the cells. The
    one that differs most is left out before the others are compared. If two homes differ, nobody can tell which of them
    is wrong.

    units  of each home
    rows   codes (m, F) of public rows, whose frequencies stand for how many people share a cell
    """
    question, sums, found = of.asked.question, of.sums, list[str]()
    frequency = np.concatenate(
        [
            np.bincount(rows[:, field], minlength=stop)[start:stop]
            for field, (start, stop) in zip(question.fields, question.spans, strict=True)
        ]
    ) / max(1, len(rows))
    noise, cells = of.asked.mechanism.rounds[of.asked.number].scale, question.width * question.columns
    least = question.steps if question.what == "codes" else question.steps - question.least
    people = np.repeat(frequency + 1 / max(1, len(rows)), question.columns) * least**2
    likely = cells + SURELY * math.sqrt(2 * cells * len(question.fields))
    while len(left := [name for name in sums if name not in found]) > 1:
        own = {name: sums[name][:cells] for name in left}
        most = {name: _squares(name, own, units, noise, people) for name in left}
        if max(most.values()) <= likely:
            break
        found += left if len(left) == 2 else [max(left, key=most.__getitem__)]
    return [name for name in sums if name in found]


def _squares(name: str, sums: Mapping[str, Ints], units: Mapping[str, float], noise: float, people: Floats) -> float:
    """χ² of a home's sums against those of the others.

    noise, people   standard deviation of noise in a share; and variance of each cell, for one unit
    A row's residual is one of each field: its variance is counted as if all fields moved together.
    """
    others = [other for other in sums if other != name]
    ratio = units[name] / max(1.0, math.fsum(units[other] for other in others))
    rest = sum(sums[other].astype(np.float64) for other in others)
    noisy = noise**2 + ratio**2 * (len(others) * noise**2)
    variance = noisy + units[name] * (1 + ratio) * people
    return float(np.sum((sums[name] - ratio * rest) ** 2 / variance))


def of_round(of: SharesOfRound, scale: float, part: float, total: Ints) -> dict[str, Any]:
    """A round in its file: its question, and the sum.

    scale, part   standard deviation of the sum's noise; share of all units whose homes answered
    """
    asked = {"format": ROUND_FORMAT, "round": of.asked.number, "question": of.asked.question.record()}
    return {**asked, "scale": scale, "part": part, "sums": total.tolist()}


def joint_step(
    stores: Stores,
    session: Session,
    of: SharesOfRound,
    differ: Sequence[str],
    follow: Callable[[Ints], Mapping[str, Any]],
) -> Step[Ints]:
    """A round: the shares, their sum, and what follows from it.

    follow   from the sum, the sum itself as the round's file has it, and results
    """
    number = of.asked.number
    digests = {name: share.digest for name, share in of.shares.items()}
    shares = {name: share.data.decode() for name, share in of.shares.items()}
    homes = {"question": of.letter.data.decode(), "shares": shares, "differ": [*differ]}
    return Step(
        question=of.letter.digest,
        exact=[canonical_json(digests)],
        draw=lambda _, source, __: source.once(f"round-{number:05d}", lambda: of.total),
        publish=lambda step, total: publish_round(stores, session, step, lambda: {"homes": homes, **follow(total)}),
        number=number,
    )
