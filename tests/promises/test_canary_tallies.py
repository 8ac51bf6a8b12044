"""Tallies publish only noisy sums of the rows: no codes, no exact sums, no counts, and no time before the end of
private work; on success, after a failure whose message holds its input, and killed at the door and resumed."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.tasks.asking.tally import total_of
from concord.tasks.door.checkpoint import Randomness
from tests.promises.canary import VALUE, moments_between, published
from tests.promises.kept import files, kept
from tests.promises.scene import Scene


@pytest.fixture
def tallied(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A scene of tallies with fixed noise: with random noise, one of some 120 sums would equal a count of private rows,
    which is searched for, with probability 3e-4."""
    draw = np.random.default_rng(1)
    monkeypatch.setattr(
        Randomness, "gaussian", lambda _, scale, size: np.rint(draw.normal(0, scale, size)).astype(np.int64)
    )
    scene.tables = {name: section for name, section in scene.tables.items() if name not in ("teachers", "student")}
    scene.tables["labeling"] = {"mechanism": "tallies", "rounds": 1, "batch": 128}
    return scene


def telling(*arguments: Any, **_: Any) -> None:
    raise ArithmeticError(f"{VALUE}: {arguments}")  # a bug, with rows in its message


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_tallies_publish_nothing_private_and_no_moment_before_the_last_sum(tallied: Scene) -> None:
    before = datetime.now(UTC)
    tallied.run(labeling__rounds=3)
    assert len(kept(tallied.home, "units")) == 8
    vault, marks = Vault(tallied.home / "vault"), tallied.marks()
    rounds: dict[int, list[Any]] = {}
    for path in files(tallied.home, "sums"):
        ref = vault.find(str(path.relative_to(vault.root)))
        assert ref is not None
        rounds.setdefault(len(np.load(path)), []).append(ref)
    for size, blocks in rounds.items():
        marks = marks.with_sequence(f"a part of {size} sums", total_of(blocks, vault))
    tallied.nothing_got_out(marks)
    last = max(path.stat().st_mtime for path in files(tallied.home, "sums"))
    assert list(moments_between(published(tallied.home), before.timestamp(), last)) == []
    assert list(moments_between(published(tallied.home), last, datetime.now(UTC).timestamp()))  # they would be seen


@pytest.mark.slow
@pytest.mark.parametrize("work", ["concord.tasks.asking.tally.tally", "concord.tasks.asking.tally.cast_labels"])
def test_a_failure_on_private_rows_tells_nothing_of_them(
    tallied: Scene, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(work, telling)
    assert "nothing of the data is shown" in tallied.fails(EnvironmentFailed)


@pytest.mark.slow
def test_a_round_that_was_killed_and_resumed_tells_no_sum(tallied: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit_batch", killed)
        with pytest.raises(KeyboardInterrupt):
            tallied.run()
    tallied.nothing_got_out()
    assert tallied.run().asked == 2
    tallied.nothing_got_out()
