"""Thousands of nearly valid inputs: each gives the right error, in one sentence, and spends nothing."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.promises.fuzz import SECRET, bent, damaged, table_file
from tests.support.people import changed, tables_of_plan, write_tables

PUBLIC, PRIVATE, PLANS, TEXTS = 600, 500, 600, 300
"""Cases, every one with --exhaustive; otherwise, of those that read tables, a fifth."""


def one_sentence(error: world.ConcordError) -> bool:
    result = str(error)
    return 0 < len(result) < 2000 and "\n" not in result and "Traceback" not in result


def outcomes(cases: int, attempt: Callable[[int], Any]) -> tuple[int, list[world.WrongInput]]:
    """The number of cases accepted, and the errors of the others; any error but WrongInput is raised."""
    taken, refused = 0, []
    for seed in range(cases):
        try:
            attempt(seed)
            taken += 1
        except world.WrongInput as wrong:
            refused.append(wrong)
        except BaseException as other:
            raise AssertionError(f"seed {seed}: {type(other).__name__}: {other}") from other
    return taken, refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(scope="module")
def encoding(folder: Path) -> world.Encoding:
    return world.learn_encoding(world.parse_plan(tables_of_plan(folder)))


def test_public_tables_are_taken_or_refused_in_one_sentence(folder: Path, exhaustive: bool) -> None:
    vault, cases = world.Vault(folder / "public-vault"), PUBLIC if exhaustive else PUBLIC // 5

    def attempt(seed: int) -> None:
        plan = changed(tables_of_plan(folder), data__public=str(table_file(seed, folder)))
        world.stage_public(plan.path("public"), world.learn_encoding(plan), vault, "staged", 16)

    taken, refused = outcomes(cases, attempt)
    assert min(taken, len(refused)) > cases / 10
    assert all(map(one_sentence, refused))


def test_private_tables_are_taken_or_refused_without_a_word_of_what_they_hold(
    folder: Path, encoding: world.Encoding, exhaustive: bool
) -> None:
    vault, cases = world.Vault(folder / "private-vault"), PRIVATE if exhaustive else PRIVATE // 5

    def attempt(seed: int) -> None:
        plan = changed(
            tables_of_plan(folder), data__private=str(table_file(seed, folder)), teachers__count=2, teachers__block=1
        )
        assert len(world.split(world.PrivateRows(plan, encoding, vault, b"key"), "shards")) == 2

    taken, refused = outcomes(cases, attempt)
    assert min(taken, len(refused)) > cases / 10
    assert all(one_sentence(wrong) and SECRET not in str(wrong) for wrong in refused)


def test_plans_are_taken_or_refused_in_one_sentence(folder: Path) -> None:
    taken, refused = outcomes(PLANS, lambda seed: world.parse_plan(bent(seed, tables_of_plan(folder))))
    assert taken > 0
    assert len(refused) > PLANS / 2
    assert all(map(one_sentence, refused))


def test_plan_files_are_taken_or_refused_in_one_sentence(tmp_path: Path) -> None:
    whole = (Path(__file__).parents[2] / "deployments/plans/demo.toml").read_bytes()

    def attempt(seed: int) -> None:
        (tmp_path / "plan.toml").write_bytes(damaged(random.Random(seed), whole))
        world.load_plan(tmp_path / "plan.toml")

    taken, refused = outcomes(TEXTS, attempt)
    assert min(taken, len(refused)) > TEXTS / 10
    assert all(map(one_sentence, refused))
