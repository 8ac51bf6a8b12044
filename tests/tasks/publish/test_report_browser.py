"""The report in a real browser: nothing is fetched, nothing is complained of, nothing is cut off."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.published import certified, world
from tests.tasks.publish.browser import CHROMIUM, visit
from tests.world import StableVoting

PHONE, DESKTOP = 390, 1280
ELSEWHERE = "http://127.0.0.1:9/pixel.png"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium (Debian package chromium) is not installed"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a session that was refused now and then, as it lies in the released folder, all unfolded."""
    small = world(tmp_path_factory.mktemp("world"))
    labels = small.truth.copy()
    labels[np.arange(0, 300, 40)] = -1
    _, written = certified(small, StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20), labels)
    return small.released.read(written.report).decode().replace("<details>", "<details open>")


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_offline_and_fits_its_window(report: str, tmp_path: Path, width: int, dark: bool) -> None:
    seen = visit(report, width, tmp_path / "visit", dark=dark)
    assert seen.asked == set()
    assert seen.console == []
    assert (seen.width, seen.taken, seen.cut) == (width, width, 0)
    red, green, blue = (int(part) for part in seen.paper.removeprefix("rgb(").removesuffix(")").split(","))
    assert (red + green + blue > 3 * 128) is not dark


def test_a_page_that_fetches_complains_or_runs_over_would_be_seen(report: str, tmp_path: Path) -> None:
    wide = f'<div class="wide"><table><tr><td>{"x" * 200}</td></tr></table></div>'
    worse = (
        f'{wide}<img src="{ELSEWHERE}"><p style="width: 900px">wide</p><script>console.error("planted")</script></main>'
    )
    seen = visit(report.replace("</main>", worse), PHONE, tmp_path / "visit")
    assert ELSEWHERE in seen.asked
    assert any("planted" in line for line in seen.console)
    assert seen.taken > seen.width == PHONE
    assert seen.cut == 1
