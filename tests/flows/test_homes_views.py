"""Several homes whose rows are pictures: the last round asks about a space that the ones before it taught."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from concord.artifacts.errors import NotVerified
from concord.artifacts.kinds import Joint, Kind
from concord.tasks.data.codes import Codes
from concord.tasks.data.concord_pictures import Pictures
from concord.tasks.data.vectors import VectorField
from concord.tasks.verify.homes import joint_rounds
from concord.tasks.verify.published import verify_published
from concord.tasks.verify.verify import verify
from tests.support.sentences import facts
from tests.support.several import NAMES, Several, all_rounds

pytestmark = pytest.mark.usefixtures("tracking")


def bars(rows: int, seed: int) -> pl.DataFrame:
    """Pictures of a bar that stands or lies, somewhere, and which of both."""
    draw = np.random.default_rng(seed)
    stands, at = draw.random(rows) < 0.5, draw.integers(2, 10, rows)
    shown = np.zeros((rows, 14, 14), dtype=np.uint8)
    for picture, upright, first in zip(shown, stands, at, strict=True):
        (picture if upright else picture.T)[2:12, first : first + 2] = draw.integers(100, 256)
    image = pl.Series("image", shown.reshape(rows, -1), dtype=pl.Array(pl.UInt8, 196))
    return pl.DataFrame({"image": image, "outcome": np.where(stands, "yes", "no")})


def seen(folder: Path, rows: int) -> Several:
    """Three homes with pictures; a row of the last has none."""
    (data := folder / "data").mkdir(parents=True)
    tables = {name: bars(rows, 10 + seed) for seed, name in enumerate(NAMES)}
    none = pl.DataFrame({"image": [None], "outcome": ["yes"]}, schema=tables["west"].schema)
    tables |= {"west": pl.concat([tables["west"], none]), "public": bars(200, 2).drop("outcome"), "test": bars(200, 3)}
    for name, table in tables.items():
        table.write_parquet(data / f"{name}.parquet")
    several = Several(folder)
    del several.given["data"]["unit"]
    labeling, student = {"mechanism": "tallies", "rows": 3 * rows}, {"estimator": "sklearn.linear_model.Ridge"}
    several.given |= {"labeling": labeling, "student": student}
    return several


@pytest.mark.slow
def test_pictures_of_several_homes_are_tallied_by_cells_that_all_of_them_taught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("concord.tasks.data.vectors.Pictures", partial(Pictures, hidden=8, steps=20))
    several = seen(tmp_path / "world", 800)
    done = all_rounds(several)
    assert done["student"]["public_test"]["accuracy"] > 0.95
    folder = Path(done["certificate"]).parent
    assert [check for check in verify_published(folder) if not check.ok] == []
    for name in ("lead", *NAMES):
        assert [check for check in verify(several.home(name)) if not check.ok] == []
    rounds = [json.loads(path.read_bytes()) for path in sorted((folder / "rounds").iterdir())]
    asked = [several.asked(number)[0] for number in range(len(rounds))]
    first, learned = asked[0].codes.fields[0], asked[-1].codes.fields[0]
    assert isinstance(first, VectorField)
    assert isinstance(learned, VectorField)
    assert (first.layer, learned.layer is not None) == (None, True)
    for name in NAMES:  # each counted its own pictures in the space of the question, whoever has the public table
        rows, share = pl.read_parquet(several.folder / "data" / f"{name}.parquet"), several.share(len(rounds) - 1, name)
        cells = np.bincount(
            learned.of(rows["image"]), weights=np.where(rows["outcome"] == "yes", 0.5, -0.5), minlength=learned.size
        )
        noise = np.array(share.sums) - cells * asked[-1].question.steps
        assert np.abs(noise).max() < 7 * share.scale
        assert share.codes == "declared"
    changed_on_the_way(json.loads(Path(done["certificate"]).read_bytes()), rounds, asked[0].codes)


def changed_on_the_way(certificate: dict[str, Any], rounds: list[dict[str, Any]], first: Codes) -> None:
    """Codes that are published, or on record, otherwise than homes were asked about them."""
    settings, unit = certificate["sessions"][0]["mechanism"]["settings"], certificate["guarantee"]

    def check(rounds: list[dict[str, Any]], settings: dict[str, Any]) -> None:
        kind, texts = Kind.of(settings).only(Joint), [json.dumps(each).encode() for each in rounds]
        joint_rounds(kind, texts, (unit["unit"], unit["neighbours"]), ())

    check(rounds, settings)
    for codes in (first.model_dump(mode="json"), None):
        announced = {**rounds[1], "next": {**rounds[1]["next"], "codes": codes}}
        with pytest.raises(NotVerified, match=facts("codes", "question 2")):
            check([rounds[0], announced, rounds[2]], settings)
    with pytest.raises(NotVerified, match=facts("codes", "north")):
        check(rounds, {**settings, "codes": "0" * 64})
