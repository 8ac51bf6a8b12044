"""A page as headless Chromium shows it in a window of a given width: what it asked for, what it told the console, how
wide it came out. Chromium's own windows are never narrower than 500 pixels, so the page is put in a frame."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
