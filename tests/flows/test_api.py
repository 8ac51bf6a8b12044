"""Concord from Python: the lines of the documentation run, and give what was published."""

import re
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.pages import python_on
from tests.support.people import people, write_plan, write_tables
from tests.support.recorded import RECORDED
from tests.support.sentences import facts
from tests.world import Guarantee, Ledger, NotVerified, Plan, Run, Summary, WrongInput, flows_api, start

LINES = re.findall(r"\n\n((?: {4}.*\n|\n)+)", flows_api.__doc__ or "")
OF_README = python_on("README.md")
EXAMPLES = [*map(dedent, LINES), *OF_README]


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """plan.toml, its tables and further rows, in the folder where Python runs, as the documentation names them."""
    further = people(20, 8).drop("outcome", "person")
    for file in (write_tables(tmp_path) / "more.parquet", tmp_path / ".concord/demo/data/demo/public.parquet"):
        file.parent.mkdir(parents=True, exist_ok=True)
        further.write_parquet(file)
    write_plan(tmp_path, privacy__epsilon=8.0, labeling__cutoff=60)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORD_HOME", str(home))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_lines_of_the_documentation_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert EXAMPLES
    for lines in EXAMPLES:
        exec(lines, {})
        assert "epsilon=8.0" in capsys.readouterr().out
    (session,) = Ledger.of(home).sessions("people")
    assert session.asked == 300


def test_a_result_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    tested = {"rows": 300, "accuracy": 0.91, "in_words": "accuracy 91.0% (87.2% to 94.0%) on 300 public test rows"}
    stated: dict[str, Any] = {
        **{"run_id": "r", "domain": "people", "session": "people-1", "certificate": "c", "certificate_digest": ""},
        **{"teachers": 0, "asked": 3, "answered": 0, "refused": 0, "asked_now": 3, "inferred": 300, "conversion": 0.0},
        **{"student": {"public_test": tested}, "mechanism": RECORDED["tallies"], "spent_now": {}, "stages": []},
        **{"lifetime": {"now": 0.1, "used": 0.2, "more": 8}, "report": "report.html"},
        "guarantee": Guarantee.at(1.0, 1e-5, "all rows with one <b>person</b>", "").shown(),
        "warnings": ["recall is 0 for 'yes'", "it <b>ended</b> early\x1b[2J"],
    }
    summary = Summary(**stated)
    page, text = Run(summary, tmp_path)._repr_html_(), repr(Run(summary, tmp_path))
    for said in ("accuracy 91.0% (87.2% to 94.0%) on 300", "room for 8 more such sessions"):
        assert said in page
        assert said in text
    assert "ε = 1, δ = 1e-05 for all rows with one &lt;b&gt;person" in page
    assert page.startswith(
        "<p><b>Warning:</b> recall is 0 for &#x27;yes&#x27;.</p><p><b>Warning:</b> it &lt;b&gt;ended"
    )
    assert text.startswith("Warning: recall is 0 for 'yes'.\nWarning: it <b>ended</b> early")
    assert "\x1b" not in text
    summary.test = {"in_words": "accuracy 90.0% (80.0% to 95.0%), majority-class baseline about 60.0%"}
    assert summary.test["in_words"] in Run(summary, tmp_path)._repr_html_()
    summary.student = {}
    assert "no public test rows" in Run(summary, tmp_path)._repr_html_()


def test_from_python_nobody_is_asked_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, readline=str))
    with pytest.raises(WrongInput, match="--private, --public or --schema, --label, --classes, --domain, --rows"):
        flows_api.init(tmp_path / "plan.toml")


def test_an_edited_certificate_is_not_believed(session: str, plan: Plan, home: Path) -> None:
    summary = start(plan, home)
    assert Run(summary, home).certificate.session == session
    file = Path(summary.certificate)
    edited = re.sub(r'"epsilon": [\d.]+', '"epsilon": 0.5', file.read_text(), count=1)
    assert edited != file.read_text()
    file.write_text(edited)
    with pytest.raises(NotVerified, match=facts("certificate.json", "not what was written")):
        _ = Run(summary, home).certificate
