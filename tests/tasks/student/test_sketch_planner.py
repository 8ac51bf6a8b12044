"""The questions of a sketch: each is paid for, follows from published files alone, and never gets stuck."""

import io
import json
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import world
from tests.support.declared import WAGES, people
from tests.support.rounds import all_rounds, under_noise


def planner(schema: world.TableSchema = WAGES, classes: int = 2, epsilon: float = 1.0) -> world.SketchPlanner:
    grid = world.grid_of(schema)
    narrow = [grid.fields[at].size for at in grid.fine]
    wide = [grid.fields[at].size for at, one in zip(grid.coarse, grid.fine, strict=True) if at != one]
    rounds = world.sketch_rounds(classes=classes, narrow=narrow, wide=wide)
    return world.SketchPlanner(
        world.calibrated_sums(world.Sketch, epsilon=epsilon, delta=1e-5, classes=classes, rounds=rounds), schema
    )


def released(of: world.SketchPlanner, frame: pl.DataFrame, labels: world.Ints) -> list[dict[str, Any]]:
    """All steps, each as its file would be read again."""
    cells = of.grid.of_raw(frame, world.reading_columns(of.schema)).astype(np.int32)
    return all_rounds(
        of, under_noise(lambda asked, codes: world.tally(asked, world.recoded(cells, of.grid, codes), labels), 0)
    )


@pytest.mark.parametrize(("classes", "least"), [(2, 0.80), (4, 0.55)])
def test_a_model_is_learned_without_a_public_row(classes: int, least: float) -> None:
    of = planner(classes=classes)
    files = released(of, *people(20_000, classes))
    decoded, codes = world.Decoded.from_record(files[-1]["decoded"]), of.codes_after(files)
    frame, labels = people(5_000, classes)
    rows = codes.of_raw(frame, world.reading_columns(WAGES)).astype(np.int32)
    assert (world.scores(decoded, rows).argmax(axis=1) == labels).mean() > least
    assert decoded.units == files[0]["units"]
    assert files[0]["units"] == pytest.approx(20_000, rel=0.01)


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_questions_and_rows_follow_from_published_files_alone(classes: int) -> None:
    """Rows of more than two classes are drawn after the first labels."""
    of, (frame, labels) = planner(classes=classes), people(3_000, max(2, classes))
    files = released(of, frame, labels)
    for number in range(1, len(files) + 1):
        read_back = json.loads(json.dumps(files[:number]))
        assert of.codes_after(files[:number]) == of.codes_after(read_back)
        if number < len(files):
            assert json.loads(json.dumps(of.question(files[:number]).record())) == files[number]["question"]
    assert files[-1]["next"] is None
    assert ["synthetic" in file for file in files] == [False, classes <= 2, classes > 2, False, False]
    synthetic, read = world.published_cells(of.grid, files), of.grid.of_raw(frame, world.reading_columns(of.schema))
    assert (synthetic == world.published_cells(of.grid, json.loads(json.dumps(files)))).all()
    for at in of.grid.coarse:
        ours, theirs = (np.bincount(rows[:, at], minlength=of.grid.size) / len(rows) for rows in (synthetic, read))
        assert np.abs(ours - theirs).sum() / 2 < 0.1


def test_changed_labels_change_what_a_session_is_known_by() -> None:
    of = planner()
    frame, labels = people(100)
    cells = of.grid.of_raw(frame, world.reading_columns(WAGES)).astype(np.int32)
    first, identity = of.first_questions()
    assert first.record() == of.question(()).record()
    assert identity.what == "labels"
    assert (world.tally(first, cells, labels) == world.tally(first, cells, 1 - labels)).all()
    assert (world.tally(identity, cells, labels) != world.tally(identity, cells, 1 - labels)).any()


def test_a_student_reads_a_row_as_private_rows_were_counted() -> None:
    """Also a word that was not declared, and missing cells."""
    of, (frame, labels) = planner(), people(3_000)
    odd = np.random.default_rng(2).choice(["Female", "Male", "divers", ""], 3_000)
    frame = frame.with_columns(sex=pl.Series(odd).replace("", None))
    files = released(of, frame, labels)
    decoded, codes = world.Decoded.from_record(files[-1]["decoded"]), of.codes_after(files)
    encoding = world.Encoding(
        columns=world.as_declared(world.reading_columns(WAGES), WAGES), label="y", classes=("a", "b")
    )
    cells = of.grid.of_raw(frame, world.reading_columns(WAGES)).astype(np.int32)
    counted = world.recoded(cells, of.grid, codes)[:, list(codes.fine)]
    assert (world.linear_student(decoded, encoding, codes)["encode"].transform(frame.to_pandas()) == counted).all()

    claim = {
        "session": "s",
        "epsilon": "1.0",
        "delta": "1e-05",
        "unit": "row",
        "neighbours": "add",
        "mechanism": "sketch",
    }
    table = pq.read_table(io.BytesIO(world.synthetic_file(WAGES, files, encoding, claim)))
    rows = codes.of(world.cast_rows(pl.DataFrame(pl.from_arrow(table.drop_columns(["y"]))), encoding))
    of_rows = pa.ipc.open_file(b"".join(world.inferred(decoded, [rows], encoding, claim))).read_all()
    scores_of_rows, drawn = np.stack(of_rows["scores"].to_numpy()), np.array(table["y"]) == "b"
    own = np.where(drawn, scores_of_rows[:, 1], scores_of_rows[:, 0])
    assert table["probability of this y"].to_numpy() == pytest.approx(own, abs=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_of_synthetic_rows_are_as_frequent_as_among_private_rows(classes: int) -> None:
    """Also a rare one, which is the likeliest class of hardly any row; and they are the same in every file."""
    of, (frame, _) = planner(classes=classes, epsilon=4.0), people(20_000)
    source = np.random.default_rng(3)
    rare = source.random(20_000) < 0.12 * (frame["age"] / 90).to_numpy()
    labels = np.where(rare, classes - 1, source.integers(0, classes - 1, 20_000))
    files, names = released(of, frame, labels), ("a", "b", "c")[:classes]
    encoding = world.Encoding(columns=world.as_declared(world.reading_columns(WAGES), WAGES), label="y", classes=names)
    file = world.synthetic_file(WAGES, files, encoding, {})
    assert file == world.synthetic_file(WAGES, json.loads(json.dumps(files)), encoding, {})
    table = pl.read_parquet(io.BytesIO(file))
    for at, name in enumerate(names):
        assert (table["y"] == name).mean() == pytest.approx((labels == at).mean(), abs=0.05)
    assert table.filter(pl.col("y") == names[-1])["probability of this y"].to_numpy().mean() < 0.3
    assert world.synthetic_features(file, "y").columns == ["wage", "age", "sex"]


TEXT = world.TableSchema(
    columns=(world.DeclaredText(kind="text", name="town", buckets=8), *WAGES.columns), undeclared=()
)


@pytest.mark.parametrize("towns", [True, False])
def test_a_student_hashes_texts_as_private_rows_were_counted_and_as_synthetic_rows_name_them(towns: bool) -> None:
    """Also texts that no private row had. No synthetic row has a town that is undeclared, even if nobody has one."""
    of, (frame, labels) = planner(TEXT), people(3_000)
    own = [f"town {at}" if towns else None for at in np.random.default_rng(2).integers(0, 300, 3_000)]
    frame = frame.with_columns(town=pl.Series(own, dtype=pl.String))
    files = released(of, frame, labels)
    decoded, codes = world.Decoded.from_record(files[-1]["decoded"]), of.codes_after(files)
    encoding = world.Encoding(
        columns=world.as_declared(world.reading_columns(TEXT), TEXT), label="y", classes=("a", "b")
    )
    new = frame.with_columns(town=pl.col("town") + " and more")
    cells = of.grid.of_raw(new, world.reading_columns(TEXT)).astype(np.int32)
    counted = world.recoded(cells, of.grid, codes)[:, list(codes.fine)]
    for rows in (new, new.to_pandas()):
        assert (world.linear_student(decoded, encoding, codes)["encode"].transform(rows) == counted).all()
    assert (codes.of(world.cast_rows(new, encoding))[:, list(codes.fine)] == counted).all()
    synthetic = world.published_cells(of.grid, files)
    values = world.values_in(TEXT, of.grid, synthetic, b"seed")
    assert set(values["town"]) <= {None, *(f"bucket {at} of 8" for at in range(1, 9))}
    assert (of.grid.of_raw(values, world.reading_columns(TEXT)) == synthetic).all()


def some_column(source: np.random.Generator, name: str) -> world.DeclaredColumn:
    """A column of any kind, with any range or number of words."""
    match source.integers(0, 5):
        case 0:
            return world.DeclaredTruth(kind="boolean", name=name)
        case 1:
            words = tuple(f"word {at}" for at in range(source.integers(2, source.choice([4, 40, 150]))))
            return world.DeclaredCategories(kind="categorical", name=name, words=words)
        case 2:
            return world.DeclaredText(kind="text", name=name, buckets=int(2 ** source.integers(1, 9)))
        case 3:
            kind, low = ("numeric", "date")[source.integers(0, 2)], int(source.integers(-(10**6), 10**6))
            high, whole = low + int(10 ** source.uniform(0, 6)), bool(source.integers(0, 2))
            return world.DeclaredRange.model_validate(
                {"kind": kind, "name": name, "low": low, "high": high, "whole": whole}
            )
    unit = 10.0 ** source.integers(-300, 90)
    start = source.normal() * source.integers(0, 2)
    return world.DeclaredRange(kind="numeric", name=name, low=unit * start, high=unit * (start + 1), whole=False)


def some_sums(source: np.random.Generator, asked: world.RoundQuestion, _: world.Codes, scale: float) -> world.Ints:
    """Sums of noise, of people, or of nobody, such as none or one with more people than there are."""
    size = asked.size
    signs, powers = source.choice([-1, 1], size), 2.0 ** source.integers(1, 62, size)
    noise = source.normal(0, scale, size)
    kinds = (
        noise,
        source.dirichlet(np.full(size, 0.3)) * 10 ** source.uniform(5, 17) + noise,
        noise * 10 ** source.uniform(0, 10),
        np.full(size, signs[0] * powers[0]),
        signs * powers,
        signs * powers * (np.arange(size) == source.integers(0, size)),
    )
    return np.rint(kinds[source.integers(0, len(kinds))]).clip(-(2.0**62), 2.0**62).astype(np.int64)


@pytest.mark.parametrize(
    "seeds",
    [
        *(range(at, at + 20) for at in range(0, 40, 20)),
        pytest.param(range(40, 100), marks=pytest.mark.slow),
        *(pytest.param(range(at, at + 100), marks=pytest.mark.exhaustive) for at in range(100, 10_000, 100)),
    ],
    ids=str,
)
def test_no_plan_and_no_sums_keep_a_session_that_has_paid_from_its_end(
    monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    """Random plans, with sums that may be impossible."""
    monkeypatch.setattr(world.SketchPlanner, "updates", 8)
    monkeypatch.setattr(world.student_synthetic, "ROWS", 256)
    for seed in seeds:
        source = np.random.default_rng(seed)
        columns = [some_column(source, f"c{at}") for at in range(source.choice([1, 2, 3, 5]))]
        schema, classes = world.TableSchema(columns=tuple(columns), undeclared=()), int(source.choice([0, 2, 3, 5]))
        of = planner(schema, classes, float(10 ** source.uniform(-2, 1)))
        assert of.tables == min(2, len(columns))
        files = all_rounds(of, partial(some_sums, source))
        assert np.isfinite(world.Decoded.from_record(files[-1]["decoded"]).weights).all()


@pytest.mark.parametrize("broken", ["bins_of", "label_codes", "synthetic_cells", "decode", "next_model"])
def test_a_step_that_cannot_be_taken_fails_before_anything_is_charged(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    planners = [planner(schema, 3) for schema in (WAGES, TEXT)]
    monkeypatch.setattr(world.student_sketch, broken, Mock(side_effect=ValueError("broken")))
    for of in planners:
        with pytest.raises(ValueError, match="broken"):
            world.rehearse_steps(of)
