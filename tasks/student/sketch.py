"""Questions of a sketch, step by step, from what was released; and the model that is decoded from its labels.

    one-way tables ─ groups of cells ─ two-way tables ─ synthetic rows and codes ─ rounds of labels ─ decoded model

What follows from a step is computed once, in floats, rounded or drawn, and published with it: groups, synthetic rows,
codes, models. A process that continues the session reads it there, and never computes it again.

Assumes      steps were released at the door, in order
Guarantees   post-processing of published files and a declared schema: no function here sees a private row
Not covered  how good synthetic rows are: wrong ones cost accuracy, never privacy
             Checked by tests/tasks/student/test_sketch_planner.py
"""

import io
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from concord.artifacts.published import PROBABILITY_DIGITS, SYNTHETIC
from concord.artifacts.schemas import Encoding
from concord.artifacts.table_schema import TableSchema
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, WordField
from concord.tasks.data.grid import grid_of, groups_of, label_points, probability_name, recoded, values_in, with_tables
from concord.tasks.mechanisms.contributions import RoundQuestion, expected
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.student.concord_tallied import TalliedNumber
from concord.tasks.student.decode import Decoded, decode, next_fields, next_model, scores
from concord.tasks.student.joint import Search
from concord.tasks.student.margins import Margins, margins_of
from concord.tasks.student.questions import RoundFile, announced_question, noisy_round
from concord.tasks.student.rounds import most_groups
from concord.tasks.student.synthetic import (
    UPDATES,
    TwoWay,
    bins_of,
    cells_at,
    label_codes,
    synthetic_cells,
    table_codes,
)

FIELDS: TypeAdapter[tuple[CodedField, ...]] = TypeAdapter(tuple[CodedField, ...])


@dataclass(frozen=True)
class SketchPlanner:
    """The mechanism of a session, and its declared schema.

    updates, search   how the mixture and the model are fitted (tasks.student.synthetic, joint)
    """

    mechanism: Sketch
    schema: TableSchema
    updates: ClassVar[int] = UPDATES
    search: ClassVar[Search] = Search()

    @cached_property
    def grid(self) -> Codes:
        """The cells of the schema."""
        return grid_of(self.schema)

    @property
    def tables(self) -> int:
        """Number of steps before labels are asked."""
        return self.mechanism.tables

    def codes_after(self, released: Sequence[RoundFile]) -> Codes:
        """The codes that the next step asks about, after the released steps."""
        if not released:
            return self.grid
        if len(released) < self.tables:
            fields = zip(self.grid.fine, FIELDS.validate_json(json.dumps(released[0]["next"]["tables"])), strict=True)
            return with_tables(self.grid, [groups_of(self.grid.fields[at], field) for at, field in fields])
        return Codes.model_validate_json(json.dumps(released[self.tables - 1]["next"]["codes"]))

    def question(self, released: Sequence[RoundFile]) -> RoundQuestion:
        """The question of the next step, after the released steps."""
        codes = self.codes_after(released)
        if len(released) >= self.tables:
            return announced_question(self.mechanism, released, codes)
        fields = [*codes.pairs] if released else [*range(codes.width)]
        return self.mechanism.question(len(released), fields, codes.spans(fields))

    def first_questions(self) -> tuple[RoundQuestion, ...]:
        """The first question, and one that is counted and never drawn: of labels by cell, so that a session knows its
        private rows by all that its answers depend on."""
        first, classes = self.question(()), self.mechanism.classes
        least = self.mechanism.steps // (classes or 2)
        terms = {"classes": classes, "steps": self.mechanism.steps, "what": "labels", "least": least, "count": 0}
        labels = RoundQuestion.from_record(
            {**terms, "fields": self.grid.fine, "spans": self.grid.spans(self.grid.fine), "model": None}
        )
        return first, labels

    def follow(self, released: Sequence[RoundFile], question: RoundQuestion, sums: Ints) -> dict[str, Any]:
        """The part of a step's file that follows from its noisy sums: what is asked next, and what it needs."""
        number, scale = len(released), self.mechanism.rounds[len(released)].scale
        if number >= self.tables:
            return self._decoded(released, {"question": question.record(), "scale": scale, "sums": sums.tolist()})
        files = [*released, {"sums": sums.tolist()}]
        margins, declared = self._margins(files[0]), {} if number else {"schema": self.schema.model_dump(mode="json")}
        bins = bins_of(margins, self._pair_noise)
        if number + 1 < self.tables:
            groups = table_codes(self.grid, margins, bins, self._most_groups)
            tables = FIELDS.dump_python(groups, mode="json")
            return {"decoded": None, "next": {"tables": tables}, "units": margins.units, **declared}
        groups = self._coarse(files, margins)
        codes = label_codes(self.grid, margins, groups, bins)
        following = {"fields": list(codes.coarse), "model": None, "codes": codes.model_dump(mode="json")}
        rows = {} if self._by_labels else self._synthetic(files)
        return {"decoded": None, "units": margins.units, **declared, **rows, "next": following}

    @property
    def _by_labels(self) -> bool:
        """Whether synthetic rows are drawn after the first labels: their sums are two-way tables of column and class,
        which tell more than two classes apart."""
        return self.mechanism.classes > 2 and self.tables > 1

    def _coarse(self, files: Sequence[Mapping[str, Any]], margins: Margins) -> tuple[CodedField, ...]:
        """The groups of each column's cells in two-way tables, whether or not the tables are released."""
        if self.tables > 1:
            return FIELDS.validate_json(json.dumps(files[0]["next"]["tables"]))
        return table_codes(self.grid, margins, bins_of(margins, self._pair_noise), self._most_groups)

    def _synthetic(
        self, files: Sequence[Mapping[str, Any]], labels: Sequence[Floats] = (), label_noise: float = 1.0
    ) -> dict[str, Any]:
        """Synthetic rows by the released two-way tables, and by those of each column and the class if there are any."""
        margins = self._margins(files[0])
        groups, pairs = self._coarse(files, margins), list[Floats]()
        if self.tables > 1:
            counts = np.array(files[1]["sums"], np.int64) / self.mechanism.steps
            sizes = [(one.size, other.size) for one, other in combinations(groups, 2)]
            parts = np.split(counts, np.cumsum([one * other for one, other in sizes])[:-1])
            pairs = [part.reshape(size) for part, size in zip(parts, sizes, strict=True)]
        tables = TwoWay(pairs, self._pair_noise, labels, label_noise, self.updates)
        seed = json.dumps([file["sums"] for file in files]).encode()
        cells = synthetic_cells(self.grid, margins, groups, tables, seed)
        for at, field in enumerate(self.grid.fields):
            if field.name in self.schema.hashed:  # only noise makes a word undeclared: take the next cell, missing
                cells[:, at] += cells[:, at] == field.start + field.size - 2
        places = np.column_stack([cells[:, at] - self.grid.fields[at].start for at in self.grid.fine]).astype("<u2")
        return {"synthetic": {"cells": b64encode(places.tobytes()).decode()}}

    def _synthetic_by_labels(self, released: Sequence[RoundFile], now: Mapping[str, Any]) -> dict[str, Any]:
        """Synthetic rows by the first labels as well: a released sum of a class, and what the round subtracted from it,
        add up to its count. Codes of a word are finer than its groups, which the most frequent words alone have."""
        margins, of_labels = self._margins(released[0]), noisy_round(now)
        question, codes, top = of_labels.question, self.codes_after(released), 0
        labels, same = list[Floats](), expected(question, np.zeros((1, codes.width), np.int32)) / question.steps
        groups = self._coarse(released, margins)
        for at, narrow, group, counts in zip(question.fields, self.grid.fine, groups, margins.counts, strict=True):
            field, groups_of_cells = codes.fields[at], groups_of(self.grid.fields[narrow], group)
            to = np.full(field.size, group.size - 2)  # other words, which may be none
            to[groups_of(self.grid.fields[narrow], field)] = groups_of_cells
            table = np.bincount(groups_of_cells, counts, group.size)[:, None] * same
            np.add.at(table, to, of_labels.cells[top : top + field.size])
            labels.append(table)
            top += field.size
        return self._synthetic([*released, now], labels, of_labels.noise)

    def _decoded(self, released: Sequence[RoundFile], now: Mapping[str, Any]) -> dict[str, Any]:
        """The model decoded so far, by the labels' rounds, the synthetic rows and the number of units alone."""
        codes, rounds = self.codes_after(released), [*released[self.tables :], now]
        drawn = self._synthetic_by_labels(released, now) if self._by_labels and len(rounds) == 1 else {}
        rows = recoded(published_cells(self.grid, [*released, drawn]), self.grid, codes)
        before = None if len(rounds) == 1 else Decoded.from_record(rounds[-2]["decoded"])
        units, of_labels = float(released[0]["units"]), [noisy_round(file) for file in rounds]
        decoded = decode(of_labels, rows, codes, units=units, search=self.search, before=before)
        if len(released) + 1 == len(self.mechanism.rounds):
            return {"decoded": decoded.record(), "next": None, **drawn}
        fields = next_fields(decoded, codes, self.mechanism.rounds[len(released) + 1].fields)
        following = {"fields": list(fields), "model": next_model(decoded).record()}
        return {"decoded": decoded.record(), "next": following, **drawn}

    def _margins(self, first: Mapping[str, Any]) -> Margins:
        sums, tables = np.array(first["sums"], np.int64), self.mechanism.rounds[0]
        return margins_of(self.grid, sums, steps=self.mechanism.steps, scale=tables.scale, count=tables.count)

    @property
    def _pair_noise(self) -> float:
        """sd of the noise in a cell of a two-way table, or of the first labels, in units."""
        return self.mechanism.rounds[1].scale / self.mechanism.steps

    @property
    def _most_groups(self) -> int:
        sizes = [self.grid.fields[at].size for at in self.grid.fine]
        return most_groups(sizes) or max(sizes)


@dataclass(frozen=True)
class Rehearsal(SketchPlanner):
    """The same with little computing, for a schema of some of the columns: its tables have groups as those of all
    columns have.

    most   groups of a column's cells
    """

    most: int
    updates = 1
    search = Search((1.0,), 1)

    @property
    def _most_groups(self) -> int:
        return self.most


def rehearse_steps(planner: SketchPlanner) -> None:
    """Take all steps on sums that stand in for released ones, so that a step that cannot be taken fails before anything
    is charged: as if there were nobody, noise alone, and more people in each cell than there can be, or fewer.

    Of words and of numbers, the columns of the fewest and of the most cells are tried: how a step treats a column
    depends on these alone.
    """
    grid = planner.grid
    ordered = sorted((grid.fields[at] for at in grid.fine), key=lambda field: field.size)
    kinds = [[field.name for field in ordered if isinstance(field, WordField) == words] for words in (True, False)]
    names = [name for columns in kinds for name in dict.fromkeys([*columns[:1], *columns[-2:]])]
    some = Rehearsal(planner.mechanism, planner.schema.only(names), planner._most_groups)
    noise = np.random.default_rng(0)
    for value, scale in ((0, 0.0), (0, 1.0), (10**12, 0.0), (-(10**12), 0.0)):
        files = list[dict[str, Any]]()
        for of_round in some.mechanism.rounds:
            question = some.question(files)
            sums = value + np.rint(noise.normal(0, scale * of_round.scale, question.size)).astype(np.int64)
            file = {"question": question.record(), "scale": of_round.scale, "sums": sums.tolist()}
            files.append({**file, **some.follow(files, question, sums)})


def published_cells(grid: Codes, released: Sequence[RoundFile]) -> CodeMatrix:
    """The synthetic rows (rows, the grid's fields) that released steps hold."""
    record = next(file["synthetic"] for file in released if "synthetic" in file)
    places = np.frombuffer(b64decode(record["cells"]), "<u2").reshape(-1, len(grid.fine))
    return cells_at(grid, places.astype(np.int64))


def synthetic_file(
    schema: TableSchema, released: Sequence[RoundFile], encoding: Encoding, claim: Mapping[str, str]
) -> bytes:
    """Synthetic rows with a label for each, as a Parquet file whose metadata says what they are. A class is drawn from
    its inferred probability, which stands beside it; always the same, as its draw follows from the released cells."""
    grid, decoded = grid_of(schema), Decoded.from_record(released[-1]["decoded"])
    step = next(file for file in released if "synthetic" in file)
    announced = next(file["next"]["codes"] for file in released if "codes" in (file["next"] or ()))
    cells, codes = published_cells(grid, released), Codes.model_validate_json(json.dumps(announced))
    rows, seed = recoded(cells, grid, codes), step["synthetic"]["cells"].encode()
    table = values_in(schema, grid, cells, seed).to_arrow(compat_level=pl.CompatLevel.oldest())
    if encoding.bounds is not None:
        numbers = TalliedNumber(decoded.weights, decoded.intercept, *encoding.bounds).predict(rows)
        table = table.append_column(encoding.label, pa.array(numbers))
    else:
        probable = scores(decoded, rows)
        ends = probable.cumsum(axis=1)[:, :-1]
        classes = (label_points(len(rows), seed)[:, None] >= ends).sum(axis=1)
        likely = probable[np.arange(len(rows)), classes].round(PROBABILITY_DIGITS)
        probability = probability_name(encoding.label, table.column_names)
        table = table.append_column(encoding.label, pa.array(encoding.classes, pa.string()).take(pa.array(classes)))
        table = table.append_column(probability, pa.array(likely))
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({**claim, "what": SYNTHETIC}), sink, compression="none")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def synthetic_features(file: bytes, label: str) -> pl.DataFrame:
    """The synthetic rows of such a file, without their labels."""
    rows = pl.read_parquet(io.BytesIO(file))
    return rows[:, : rows.columns.index(label)]
