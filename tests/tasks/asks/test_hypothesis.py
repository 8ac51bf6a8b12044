"""A student is chosen by the private errors of public hypotheses, where labels alone are secret."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.people import people
from tests.support.secret_labels import Rows, flipped, public_rows, tables, vault_of
from tests.world import (
    LABELS_ALONE,
    NEIGHBOURS,
    Certificate,
    HypothesisAsk,
    Ints,
    Ledger,
    Plan,
    PrivateRows,
    count_errors,
    derive,
    learn_encoding,
    parse_plan,
    stage_public,
    start,
    verify,
    with_public,
)

CHOSEN = {"learner": "universal", "hypotheses": "rectangles", "features": ["size", "shade=dark"]}


def choosing(found: dict[str, Any], *parts: str) -> Plan:
    """The plan with a universal student; of [teachers] and [labeling] it has `parts`."""
    sections = {name: part for name, part in found.items() if name in parts or name not in ("teachers", "labeling")}
    return parse_plan({**sections, "student": CHOSEN | ({"epsilon": 1.0} if parts else {})})


def errors(folder: Path, private: pl.DataFrame, unit: str | None) -> tuple[Rows, Ints]:
    """The public rows made of a private table, and the errors of every candidate of their cover on the others."""
    plan, vault = choosing(tables(folder, private, unit=unit)), vault_of(folder / "vault")
    made = with_public(plan, vault, [vault.digest_file(Path(plan.path("private")))])
    encoding = learn_encoding(made)
    batches = stage_public(made.path("public"), encoding, vault, "public", 1000)
    cover = HypothesisAsk.of(made, encoding, batches, vault).candidates
    rows = PrivateRows(made, encoding, vault, derive(vault.secret("domains/people"), "split"))
    counts = count_errors(rows, cover, "counts")
    return public_rows(made).rows(), np.load(io.BytesIO(vault.read(counts)))


@pytest.mark.parametrize("unit", ["person", None])
def test_labels_of_one_unit_move_every_error_count_by_at_most_one(tmp_path: Path, unit: str | None) -> None:
    private = people(300, 1)
    public, before = errors(tmp_path, private, unit)
    theirs = pl.Series([row in set(public) for row in private.select("size", "shade", "visits").rows()])
    for items, expected in ((theirs.arg_true()[:5], {0}), ((~theirs).arg_true()[:5], {-1, 0, 1})):
        moves = set()
        for item in items:
            rows = pl.col("person") == private["person"][item] if unit else pl.int_range(pl.len()) == item
            same, after = errors(tmp_path, flipped(private, rows), unit)
            assert same == public
            moves |= set((after - before).tolist())
        assert moves | {0} == expected
    assert np.array_equal(errors(tmp_path, flipped(private, pl.lit(theirs)), unit)[1], before)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [(), ("teachers", "labeling")], ids=["alone", "beside labels"])
def test_a_student_is_chosen_by_secret_labels_and_claims_no_more(
    tmp_path: Path, home: Path, parts: tuple[str, ...]
) -> None:
    plan = choosing(tables(tmp_path / "data"), *parts)
    summary = start(plan, home)
    assert summary.student["accuracy"] > 0.7
    certificate = Certificate.model_validate_json((home / summary.certificate).read_bytes())
    assert (certificate.guarantee.epsilon, certificate.guarantee.delta) == (4.0, 1e-5 if parts else 0.0)
    assert (certificate.guarantee.neighbours, certificate.guarantee.replace_one) == (NEIGHBOURS["labels"], None)
    assert LABELS_ALONE in certificate.caveats
    assert [check for check in verify(home) if not check.ok] == []
    chosen = [
        session.mechanism for session in Ledger.of(home).sessions("people") if session.mechanism["name"] == "universal"
    ]
    assert [mechanism["secret"] for mechanism in chosen] == ["labels"]
