"""The report as headless Chromium shows it in a window of a given width: nothing is fetched, complained of or cut off.

Chromium's own windows are never narrower than 500 pixels, so the page is put in a frame."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.published import certified, world_in
from tests.world import calibrated_stable

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND"),
    *("--enable-logging=stderr", "--v=0", "--window-size=1400,900", "--virtual-time-budget=5000", "--dump-dom"),
)
DARK = "--blink-settings=preferredColorScheme=0"
PROBE = """<script>addEventListener("load", () => parent.postMessage(JSON.stringify({
  width: document.documentElement.clientWidth,
  taken: document.documentElement.scrollWidth,
  cut: [...document.querySelectorAll(".wide")].filter(one => one.scrollWidth > one.clientWidth).length,
  paper: getComputedStyle(document.body).backgroundColor,
  asked: performance.getEntriesByType("resource").map(one => one.name)}), "*"))</script>"""
FRAME = """<iframe width={width} height=800 style="border: 0" src="page.html"></iframe><pre></pre>
<script>addEventListener("message", said => document.querySelector("pre").textContent = said.data)</script>"""


@dataclass(frozen=True)
class Seen:
    """width and taken are in pixels: what the page had, and what it took; cut are tables that are wider than their
    place; paper is its background."""

    asked: set[str]
    console: list[str]
    width: int
    taken: int
    cut: int
    paper: str


def visit(page: str, width: int, folder: Path, *, dark: bool = False) -> Seen:
    """Show a page in a frame that is `width` pixels wide; `folder` is empty and this call's alone."""
    assert CHROMIUM
    folder.mkdir()
    (folder / "page.html").write_text(page + PROBE)
    (folder / "frame.html").write_text(f"<!DOCTYPE html>{FRAME.format(width=width)}")
    log, own = folder / "net.json", (f"--user-data-dir={folder / 'profile'}", *((DARK,) if dark else ()))
    command = [CHROMIUM, *FLAGS, *own, f"--log-net-log={log}", (folder / "frame.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    [result] = re.findall(r"<pre>(.+?)</pre>", done.stdout)
    text = json.loads(html.unescape(result))
    return Seen(
        asked={*text["asked"], *asked_by_pages(json.loads(log.read_text()))},
        console=[line for line in done.stderr.splitlines() if "CONSOLE" in line],
        width=text["width"],
        taken=text["taken"],
        cut=text["cut"],
        paper=text["paper"],
    )


def asked_by_pages(log: dict[str, Any]) -> set[str]:
    """Addresses that pages asked for over the network, by Chromium's own log; what the browser asks for is not one."""
    started = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    requests = [event["params"] for event in log["events"] if event["type"] == started and "params" in event]
    return {request["url"] for request in requests if "url" in request and request.get("initiator") != "not an origin"}


PHONE, DESKTOP = 390, 1280
ELSEWHERE = "http://127.0.0.1:9/pixel.png"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium (Debian package chromium) is not installed"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a session that was refused now and then, as it lies in the released folder, all unfolded."""
    small = world_in(tmp_path_factory.mktemp("world"))
    labels = small.truth.copy()
    labels[np.arange(0, 300, 40)] = -1
    _, written = certified(small, calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20), labels)
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
