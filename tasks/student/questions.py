"""Questions of tallies, round by round, from what was released; and the models that released sums are decoded to.

    released rounds ─ decode ─ the next question: fields and an integer model

Pairs of columns are counted if single columns predict the label poorly, for example if it is whether two of them agree.

    a round of single columns ─ little is decoded ─ all pairs, in coarse cells ─ informative ones, in finer cells

Cells are groups of a column's fine codes: of numbers equally many public rows, of words the most frequent ones.

Assumes      rounds were released at the door, in order; rows and codes are public, as features of private rows are
             if labels alone are secret; public rows are those that the sums are decoded on
Guarantees   post-processing of published files, which may be repeated at will and costs nothing. Which pairs are asked
             follows from released sums; a table whose single columns predict well pays nothing
Not covered  public rows unlike the private ones: they cost accuracy, never privacy, and are repaired if that helps
             (tasks.student.public_rows); interactions of three columns that no two of them show. Checked by
             tests/flows/test_tally_flow.py and tests/tasks/student/test_pairs.py
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from concord.artifacts.measures import Estimate
from concord.artifacts.schemas import Encoding
from concord.tasks.data.codes import CodeMatrix, Codes, NumberField, deepened
from concord.tasks.data.encode import labelled_rows
from concord.tasks.mechanisms.contributions import IntegerModel, RoundQuestion, expected
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student.decode import (
    Decoded,
    NoisyRound,
    decode,
    joined,
    logits,
    next_fields,
    next_model,
    scores,
    unlike_fields,
)
from concord.tasks.student.intervals import share
from concord.tasks.student.joint import Search
from concord.tasks.student.rounds import FINER, GROUPS

RoundFile = Mapping[str, Any]
"""The content of a released round's file."""
PICTURES = 1 << 16
"""Most public rows that a space is learned from: learning holds several copies of them in memory."""
LITTLE = 0.8
"""Deviation of a row's logit below which columns say little: at most 70 % of labels, if classes are even. If they say
nothing, noise makes it 0.08 (30,000 rows, ε = 1); of the tables of the benchmark it is 1 and more."""
FAR = 8.0
"""Standard deviations by which the χ² of a pair's sums must lie above its mean."""


def codes_after(released: Sequence[RoundFile], first: Codes) -> Codes:
    """The codes that the next round asks about, after the released rounds; `first` are those of the first."""
    learned = (released[-1]["next"] or {}).get("codes") if released else None
    return Codes.model_validate_json(json.dumps(learned)) if learned else first


def announced_question(mechanism: Tallies, released: Sequence[RoundFile], codes: Codes) -> RoundQuestion:
    """The question of the next round about these codes, as the last released round announces it."""
    following = released[-1]["next"]
    model = None if following["model"] is None else IntegerModel.from_record(following["model"])
    return mechanism.question(len(released), following["fields"], codes.spans(following["fields"]), model)


@dataclass(frozen=True)
class RoundPlanner:
    """Inputs of a session's questions: its mechanism, its codes, and those of its public rows (rows, fields).

    units   number of private units, if only labels are secret: then rows are one of each unit, or of some
    public  the public rows, if each round after the first asks about a space learned from the labels so far (`deepens`)
    pairs   whether pairs of columns are asked if single ones say little
    """

    mechanism: Tallies
    codes: Codes
    rows: CodeMatrix
    units: int | None = None
    public: pl.DataFrame | None = None
    pairs: bool = False

    def codes_after(self, released: Sequence[RoundFile]) -> Codes:
        """The codes that the next round asks about, after the released rounds."""
        return codes_after(released, self.codes)

    def question(self, released: Sequence[RoundFile]) -> RoundQuestion:
        """The question of the next round, after the released rounds."""
        if len(released) < self.first:
            return self._first_question(len(released))
        return announced_question(self.mechanism, released, self.codes_after(released))

    @cached_property
    def first(self) -> int:
        """The number of questions that depend on no released sums: all up to the first for labels of columns, which
        counts units, if any round does. One for labels of all numbers together comes before it."""
        rounds = self.mechanism.rounds
        of_labels = [at for at, of_round in enumerate(rounds) if of_round.what == "labels"]
        return 1 + next((at for at in of_labels if rounds[at].count), of_labels[0])

    def first_questions(self) -> tuple[RoundQuestion, ...]:
        """The questions that depend on no released sums."""
        return tuple(map(self._first_question, range(self.first)))

    def _first_question(self, number: int) -> RoundQuestion:
        joined = self.codes.joined
        fields = self.codes.coarse if joined is None or self.mechanism.rounds[number].fields > 1 else (joined,)
        return self.mechanism.question(number, fields, self.codes.spans(fields))

    def follow(self, released: Sequence[RoundFile], question: RoundQuestion, sums: Ints) -> dict[str, Any]:
        """The part of a round's file that follows from its noisy sums: the model decoded so far, and the next question.
        Rounds before the first for labels of columns are decoded with it."""
        number, rounds = len(released), self.mechanism.rounds
        if number + 1 < self.first:
            return {"decoded": None, "next": None}
        now, codes = NoisyRound(question, rounds[number].scale, sums), self.codes_after(released)
        record = released[-1]["decoded"] if released else None
        before = None if record is None else Decoded.from_record(record)
        last, unlike = number + 1 == len(rounds), tuple[int, ...]()
        of_columns = [noisy_round(file) for file in released if max(file["question"]["fields"]) < self.codes.width]
        if before is not None and codes.pairs and not last:  # all pairs were asked, and what columns say is decoded
            pairs = informative_pairs(now, self.rows, codes, before, rounds[number + 1].fields)
            unlike = unlike_fields(of_columns, self.rows, self.codes, self.units)
            codes = with_pairs(self.codes, self.rows, FINER, pairs)
            return {"decoded": record, "next": self._next(number, before, codes, unlike)}
        if self.public is not None and codes is not self.codes:  # of a space that was learned from the round before
            rows, units = codes.of(self.public), float(released[-1]["decoded"]["units"])
            decoded = decode([now], rows, codes, units=units)
        else:
            exact = self.units == len(self.rows) and not self.mechanism.many  # then no row stands for others
            search, of_all = Search((0.0,)) if exact else Search(), [*of_columns, now]
            before = None if codes.pairs else before
            decoded = decode(of_all, self.rows, codes, units=self.units, search=search, before=before)
            unlike = unlike_fields(of_all, self.rows, self.codes, self.units)
        if last:
            return {"decoded": decoded.record(), "next": None}
        if self.pairs and number + 2 < len(rounds) and math.hypot(*decoded.importance) < LITTLE:
            codes = with_pairs(self.codes, self.rows, GROUPS)
        return {"decoded": decoded.record(), "next": self._next(number, decoded, codes, unlike)}

    def _next(self, number: int, decoded: Decoded, codes: Codes, unlike: Sequence[int]) -> dict[str, Any]:
        """The next round's question: the pairs of columns of `codes`, or the fields of largest importance; or the cells
        of a space learned by now."""
        if codes.pairs:
            model = next_model(decoded, codes.size).record()
            return {"fields": list(codes.pairs), "model": model, "codes": codes.model_dump(mode="json")}
        if self.public is None:
            fields = next_fields(decoded, codes, self.mechanism.rounds[number + 1].fields, unlike)
            return {"fields": list(fields), "model": next_model(decoded).record()}
        rows = self.public.drop_nulls(codes.fields[0].name)
        rows = rows.gather_every(max(1, -(-rows.height // PICTURES)))
        learned = deepened(codes, rows, scores(decoded, codes.of(rows)))
        return {"fields": list(learned.coarse), "model": None, "codes": learned.model_dump(mode="json")}


def noisy_round(file: RoundFile) -> NoisyRound:
    """A released round in the form that the decoder takes."""
    question = RoundQuestion.from_record(file["question"])
    return NoisyRound(question, float(file["scale"]), np.array(file["sums"], dtype=np.int64))


@dataclass(frozen=True)
class SeasonReader:
    """What the running totals of a stream are decoded with.

    rows    codes (m, F) of public rows
    ended   the last release of each season before
    """

    codes: Codes
    rows: CodeMatrix
    ended: Sequence[RoundFile]

    def follow(self, release: RoundFile) -> dict[str, Any]:
        """The part of a release that follows from its running totals: the model decoded from all seasons so far."""
        seasons = []
        for file in (*self.ended, release):
            parts, spread = zip(file["questions"], file["scales"], file["totals"], strict=True), float(file["spread"])
            rounds = ({"question": asked, "scale": scale * spread, "sums": sums} for asked, scale, sums in parts)
            seasons.append([*map(noisy_round, rounds)])
        return {"decoded": decode(joined(seasons), self.rows, self.codes).record()}


def history(models: Iterable[dict[str, Any]], codes: Codes, path: str, encoding: Encoding) -> tuple[Estimate, ...]:
    """The accuracy of the model decoded at each release of a stream, on the public labelled rows at `path`."""
    rows, truth = labelled_rows(path, encoding)
    coded = codes.of(rows)
    predicted = (scores(Decoded.from_record(model), coded).argmax(axis=1) for model in models)
    return tuple(share(int(np.sum(classes == truth)), len(truth)) for classes in predicted)


# Pairs of columns -----------------------------------------------------------------------------------------------------


def with_pairs(codes: Codes, rows: CodeMatrix, groups: int, both: Iterable[tuple[int, int]] | None = None) -> Codes:
    """Codes with further fields for pairs of fine fields: for all pairs, or for those in `both`.

    rows  codes (m, F) of public rows, by which groups are formed
    """
    pairs = [*(combinations(codes.fine, 2) if both is None else both)]
    fields = {at for pair in pairs for at in pair}
    return codes.with_pairs({at: _groups(codes, rows, at, groups) for at in fields}, pairs)


def _groups(codes: Codes, rows: CodeMatrix, field: int, most: int) -> tuple[int, ...]:
    """The group of each code of a field: `most` at most, and one of missing cells."""
    size = codes.fields[field].size - 1
    if isinstance(codes.fields[field], NumberField):
        counts = np.bincount(rows[:, field] - codes.fields[field].start, minlength=size + 1)[:size]
        twice_middle = 2 * np.cumsum(counts) - counts
        places = np.minimum(most - 1, most * twice_middle // max(1, 2 * counts.sum()))
    else:
        places = np.minimum(np.arange(size), most - 1)
    groups = np.unique(places, return_inverse=True)[1].tolist()
    return (*groups, max(groups) + 1)


def informative_pairs(
    now: NoisyRound, rows: CodeMatrix, codes: Codes, decoded: Decoded, most: int
) -> tuple[tuple[int, int], ...]:
    """At most `most` pairs whose sums differ clearly from what the model predicts, the largest difference first.

    now      the round that counted pairs, by `codes`
    decoded  the model decoded from the rounds before it
    """
    paired, share = codes.completed(rows), decoded.units / len(rows)
    p, guess = expit(logits(decoded, rows)), expected(now.question, paired) / now.question.steps
    mean, variance = share * (p - guess), share * p * (1 - p)

    def by_cell(cells: CodeMatrix, values: Floats, size: int) -> Floats:
        return np.column_stack([np.bincount(cells, column, size) for column in values.T])

    distances, top = dict[tuple[int, int], float](), 0
    for at in now.question.fields:
        field, cells = codes.pairs[at], paired[:, at] - codes.fields[at].start
        sums = now.cells[top : top + field.size]
        square = (sums - by_cell(cells, mean, field.size)) ** 2 / (now.noise**2 + by_cell(cells, variance, field.size))
        distances[field.both] = (float(square.sum()) - sums.size) / math.sqrt(2 * sums.size)
        top += field.size
    ordered = sorted(distances, key=lambda both: -distances[both])
    return tuple(both for both in ordered[:most] if distances[both] > FAR)
