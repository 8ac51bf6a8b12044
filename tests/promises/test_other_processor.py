"""A session goes on, and nothing is spent again, on a processor whose exp and log differ in their last bits.

Calibration computes scales, thresholds and refusal tables in floating point. Here the functions that libraries and
processors compute differently are replaced by ones that are off by one unit in the last place, in every module of ours.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.special

from tests import world
from tests.promises.canary import canary_tables
from tests.promises.runs import RUNS, Run
from tests.support.at_door import STABLE, labels_by, make_case
from tests.support.homes import charged

ALWAYS = {"stable", "tallies"}
"""Kinds of releases that are tried at each run of the tests."""
MATH = ("exp", "expm1", "log", "log1p", "log2", "log10", "erf", "erfc", "lgamma", "pow")
NUMPY = ("exp", "expm1", "log", "log1p", "log2", "log10", "power", "logaddexp")
SPECIAL = ("ndtr", "ndtri", "log_ndtr", "erf", "erfc", "erfcx", "gammaln", "logsumexp", "betaincinv", "xlogy")


class Altered:
    """A module with some functions that are off by one unit in the last place."""

    def __init__(self, module: ModuleType, names: tuple[str, ...]) -> None:
        self._module = module
        self._altered = {name: off_by_one_unit(getattr(module, name)) for name in names}

    def __getattr__(self, name: str) -> Any:
        return self._altered[name] if name in self._altered else getattr(self._module, name)


def off_by_one_unit(function: Callable[..., Any]) -> Callable[..., Any]:
    def altered(*args: Any, **given: Any) -> Any:
        found = np.nextafter(function(*args, **given), np.inf)
        return found if isinstance(found, np.ndarray) else float(found)

    return altered


@contextmanager
def another_processor() -> Iterator[None]:
    """Within the block, modules of Concord compute with the altered functions, and nothing calibrated is remembered."""
    instead = {math: Altered(math, MATH), np: Altered(np, NUMPY), scipy.special: Altered(scipy.special, SPECIAL)}
    functions = {getattr(scipy.special, name): getattr(instead[scipy.special], name) for name in SPECIAL}
    ours = [module for name, module in [*sys.modules.items()] if name.startswith("concord.")]
    _forget(ours)
    with pytest.MonkeyPatch.context() as patch:
        for module in ours:
            for name, value in [*vars(module).items()]:
                if isinstance(value, ModuleType) and value in instead:
                    patch.setattr(module, name, instead[value])
                elif callable(value) and _is_key(value, functions):
                    patch.setattr(module, name, functions[value])
        yield
    _forget(ours)


def _is_key(value: Any, functions: dict[Any, Any]) -> bool:
    return any(value is each for each in functions)


def _forget(modules: list[ModuleType]) -> None:
    for module in modules:
        for value in [*vars(module).values()]:
            if callable(getattr(value, "cache_clear", None)):
                value.cache_clear()


def fails_before_the_first_draw(run: Run, plan: Any, home: Path) -> None:
    """Leave a session open and charged, of which nothing was asked."""

    def stopped(*_: Any, **__: Any) -> Any:
        raise OSError("the machine was switched off")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.Ledger, "begin_batch", stopped)
        with pytest.raises(world.EnvironmentFailed, match="nothing of the data is shown"):
            run.ask(plan, home)


def opened(home: Path) -> list[str]:
    ledger = world.Ledger.of(home)
    sessions = [session for domain in ledger.domains() for session in ledger.sessions(domain.name)]
    drawn_by = [session.mechanism["name"] for session in sessions]
    assert len(drawn_by) == len(set(drawn_by)), "a session was opened twice"
    return [session.id for session in sessions]


def test_calibration_there_gives_another_table() -> None:
    """Else the tests below would show nothing."""
    with another_processor():
        there = world.calibrated_stable(epsilon=2.0, delta=1e-5, cutoff=30)
    assert there.model_dump(mode="json") != STABLE.model_dump(mode="json")
    assert world.calibrated_stable(epsilon=2.0, delta=1e-5, cutoff=30).model_dump(mode="json") == STABLE.model_dump(
        mode="json"
    )


@pytest.mark.parametrize(
    "run", [pytest.param(run, marks=[] if run.name in ALWAYS else pytest.mark.slow, id=run.name) for run in RUNS]
)
def test_a_session_goes_on_there_and_back_here_within_its_charge(plain_home: Path, tmp_path: Path, run: Run) -> None:
    plan = run.plan(canary_tables(tmp_path / "data", labels=run.labels))
    fails_before_the_first_draw(run, plan, plain_home)
    (first, *_), before = opened(plain_home), charged(plain_home)
    with another_processor():
        run.ask(plan, plain_home)
    whole, after = opened(plain_home), charged(plain_home)
    assert whole[0] == first
    assert after >= before
    run.ask(plan, plain_home)
    assert (opened(plain_home), charged(plain_home)) == (whole, after)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mechanism"), [("question", world.OptimalRelease), ("questions", world.StableVoting)])
def test_a_question_is_drawn_there_by_the_table_on_record(
    plain_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mechanism: Any
) -> None:
    """It is the table that was certified, and whose cost was charged."""
    (run,) = (each for each in RUNS if each.name == name)
    plan, drawn, release = run.plan(canary_tables(tmp_path / "data", labels=run.labels)), list[Any](), mechanism.release

    def spied(self: Any, *given: Any) -> Any:
        drawn.append(self.model_dump(mode="json"))
        return release(self, *given)

    fails_before_the_first_draw(run, plan, plain_home)
    monkeypatch.setattr(mechanism, "release", spied)
    with another_processor():
        run.ask(plan, plain_home)
    (session,) = world.Ledger.of(plain_home).sessions(plan.privacy.domain)
    assert len(drawn) == 1
    assert drawn[0]["refusal"] == session.mechanism["refusal"]


def test_numbers_on_record_that_do_not_prove_the_claim_are_not_believed(tmp_path: Path) -> None:
    """A table that falls twice as fast as its claim allows."""
    sooner = STABLE.with_(refusal=STABLE.refusal[::2].copy())
    case = make_case(tmp_path / "home", sooner)
    with pytest.raises(world.NotVerified, match="do not prove its guarantee at its charge"):
        world.on_record(case.door, case.session, labels_by(STABLE))


def test_numbers_on_record_that_prove_it_are_taken(tmp_path: Path) -> None:
    case = make_case(tmp_path / "home", STABLE)
    with another_processor():
        there = labels_by(world.calibrated_stable(epsilon=2.0, delta=1e-5, cutoff=30))
    assert there.settings() != STABLE.model_dump(mode="json")
    assert world.on_record(case.door, case.session, there).settings() == STABLE.model_dump(mode="json")
