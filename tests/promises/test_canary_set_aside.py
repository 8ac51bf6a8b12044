"""Units set aside for a private test: what names them, and their counts."""

import pytest

from tests.promises.canary import NAME, published
from tests.promises.kept import set_aside
from tests.promises.marks import Marks, leaks
from tests.promises.runs import counted, far_off, tallied, trying
from tests.promises.scene import Scene
from tests.world import Ledger

ENCODING = "iso-8859-15"
"""A format of CSV files that nothing else speaks of."""


@pytest.mark.slow
def test_columns_that_name_units_set_aside_and_the_format_of_files_are_the_operator_s_alone(scene: Scene) -> None:
    """They were published in the excerpt of the ledger, as the rule by which the domain was divided."""
    scene.tables = trying(scene.tables)
    del scene.tables["data"]["unit"]
    scene.run(data__format={"encoding": ENCODING}, test__columns=[f"{NAME}_column", "size"])
    (division,) = filter(None, (Ledger.of(scene.home).division("people"),))
    for name in (NAME, ENCODING):
        assert name in division.naming  # and so in the ledger, which is the operator's
    scene.nothing_got_out()
    assert leaks(published(scene.home), Marks({"the format of CSV files": ENCODING.encode()}, {})) == []


@pytest.mark.slow
def test_tallies_that_are_tested_tell_no_count(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    far_off(monkeypatch)
    scene.tables = tallied(trying(scene.tables))
    scene.run()
    assert len(list(set_aside(scene.home))) == 1
    scene.nothing_got_out(counted(scene.home, scene.marks()))
