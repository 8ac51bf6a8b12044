"""The commands for auditors, `concord audit` and `concord ui`: what they print, and their exit status."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from concord.artifacts.certificate import AuditReport
from concord.flows.cli.commands import command

ASKED = ("audit", "laplace_votes", "--epsilon", "2", "--delta", "1e-6", "--queries", "1", "--trials", "2000")
SURE = ("--confidence", "0.99999999", "--json")
"""So that an honest mechanism is not found broken by chance."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, with a tracking store."""
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    return tmp_path


def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    """Exit status and both streams of `concord …`, in one process."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr("sys.argv", ["concord", *arguments])
    with pytest.raises(SystemExit) as left:
        command()
    out, err = capsys.readouterr()
    return left.value.code, out, err


def test_it_prints_the_claim_and_what_was_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ask(monkeypatch, capsys, *ASKED, *SURE)
    report = json.loads(out)
    assert status == 0
    assert (report["epsilon_claimed"], report["delta"], report["trials"]) == (2.0, 1e-6, 2000)
    assert 0 < report["epsilon_lower_bound"] <= 2.0
    assert report["confidence"] == 0.99999999


@pytest.mark.parametrize(("name", "rounds"), [("tallies", "4 rounds"), ("sketch", "5 rounds")])
def test_sums_are_attacked_round_after_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, rounds: str
) -> None:
    claim = ("--epsilon", "8", "--delta", "1e-3", "--trials", "1000")
    status, out, _ = ask(monkeypatch, capsys, "audit", name, *claim, *SURE)
    report = json.loads(out)
    assert (status, report["mechanism"], report["attack"].split(",")[0]) == (0, name, rounds)
    assert 0 < report["epsilon_lower_bound"] <= 8.0


def test_mlflow_keeps_the_report(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = ask(monkeypatch, capsys, *ASKED, *SURE)
    report = json.loads(out)
    kept = MlflowClient(f"sqlite:///{home / 'mlflow.db'}").get_run(report["run_id"])
    assert kept.data.metrics["epsilon_lower_bound"] == report["epsilon_lower_bound"]
    assert kept.data.params["event"] == report["event"]
    assert kept.data.tags["holds"] == "true"


@pytest.mark.parametrize(
    ("proved", "status", "verdict"), [(1.9, 0, "the claim stands"), (2.1, 4, "the claim is broken")]
)
def test_a_broken_claim_leaves_with_its_status(
    proved: float, status: int, verdict: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(*_: Any, **settings: Any) -> AuditReport:
        claim = {"mechanism": "laplace_votes", "epsilon_claimed": settings["epsilon"], "delta": settings["delta"]}
        return AuditReport(**claim, epsilon_lower_bound=proved, confidence=0.99, trials=2000, attack="a", event="e")

    monkeypatch.setattr("concord.tasks.verify.audit.audit_mechanism", found)
    left, out, _ = ask(monkeypatch, capsys, *ASKED)
    assert (left, verdict in out, f"ε ≥ {proved:.3f}" in out) == (status, True, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("audit", "nope", *ASKED[2:]), "must be one of stable, noisy_votes"),
        ((*ASKED[:-1], "10"), "an audit needs at least 100 trials"),
        ((*ASKED, "--teachers", "0"), "an audit needs at least one teacher"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(
    arguments: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = ask(monkeypatch, capsys, *arguments)
    assert (status, out, sentence in err) == (2, "", True)


def test_on_a_server_the_audit_view_is_a_link_to_the_domain_s_list_of_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    experiment = store.create_experiment("people")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9/")
    monkeypatch.setattr("concord.flows.environment.reopen", lambda given: given)
    monkeypatch.setattr("concord.artifacts.mlflow.read.check_answers", lambda _: None)
    monkeypatch.setattr("concord.artifacts.mlflow.read.client_of", lambda _: store)
    monkeypatch.setattr("sys.argv", ["concord", "ui", "people"])
    with pytest.raises(SystemExit):
        command()
    listed = f"http://127.0.0.1:9/#/experiments/{experiment}/runs?viewStateShareKey=concord"
    assert listed in capsys.readouterr().out.replace("\n", "")
