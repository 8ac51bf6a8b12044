"""What was done is said on any console, and in any home that can be read."""

import ctypes
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import own_environment
from tests.world import Ledger, command, out, speak_plainly

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def printed(monkeypatch: pytest.MonkeyPatch, encoding: str, *arguments: str) -> tuple[str, str]:
    """What a command writes where standard output and error have that encoding, which refuses other letters."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="") for _ in range(2)]
    monkeypatch.setattr(sys, "argv", ["concord", *arguments])
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, stream)
    with pytest.raises(SystemExit) as end:
        command()
    assert not end.value.code
    for stream in streams:
        stream.seek(0)
    return streams[0].read(), streams[1].read()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.usefixtures("session")
def test_a_console_that_cannot_say_epsilon_says_it_in_plain_letters(
    home: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    result, _ = printed(monkeypatch, encoding, "budget", "--home", str(home))
    assert "spent epsilon = " in result
    assert "δ" in printed(monkeypatch, "utf-8", "budget", "--home", str(home))[0]


def test_json_is_exact_on_an_ascii_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "ä ε 漢"
    home.mkdir()
    Ledger.of(home).name_domain("bäume", unit="ein Baum", neighbours="add or remove", epsilon=4.0, delta=1e-5)
    result, _ = printed(monkeypatch, "ascii", "budget", "--json", "--home", str(home))
    assert [domain["name"] for domain in json.loads(result)["domains"]] == ["bäume"]


def test_a_name_that_is_no_text_is_said_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's name may hold bytes that are no letters; Python keeps them as surrogates, which no encoding takes."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    speak_plainly()
    out.print("the plan é-\udcff.toml")
    stream.seek(0)
    assert stream.read() == "the plan é-�.toml\n"


def test_a_traceback_acts_on_no_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    printed(monkeypatch, "utf-8", "--help")
    hook = sys.excepthook
    monkeypatch.undo()
    hook(ValueError, ValueError("a name with \x1b[2J"), None)
    assert "\x1b" not in capsys.readouterr().err


def without_power() -> None:
    """Whoever runs this: what its folders forbid, it cannot do."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.mark.parametrize(
    "words", [("budget",), pytest.param(("verify",), marks=pytest.mark.slow)], ids=lambda words: str(words[0])
)
@pytest.mark.usefixtures("session")
def test_a_home_that_cannot_be_written_can_be_looked_at(home: Path, words: tuple[str, ...]) -> None:
    everything = [home, *home.rglob("*")]
    before = {path: path.stat().st_mtime_ns for path in everything}
    for path in everything:
        path.chmod(path.stat().st_mode & ~0o222)
    asked = [sys.executable, "-c", "from concord.flows.cli import main; main()", *words, "--json", "--home", str(home)]
    done = subprocess.run(
        asked, env=own_environment(), preexec_fn=without_power, capture_output=True, timeout=300, check=False
    )
    for path in everything:
        os.chmod(path, path.stat().st_mode | 0o200)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert json.loads(done.stdout)
    assert {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]} == before
