"""Tables, plans beside tables, and options that are wrong: what is typed, and what is laid out.

What is said of each stands in wrong_inputs.txt, which `make reference` writes. A command ends in exit status 2, prints
nothing else, writes no plan and spends nothing."""

import json
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from tests.promises.commands import STAND_INS
from tests.support.console import concord
from tests.support.people import people, write_plan, write_tables
from tests.world import Ledger, flows_run

NONE: dict[str, Any] = dict.fromkeys(("teachers", "student"))
TALLIES = {**NONE, "labeling": None, "labeling__mechanism": "tallies", "labeling__rows": 3000}
NUMBER = {**TALLIES, "data__classes": None, "data__label": "visits", "data__bounds": [0, 9], "data__features": ["size"]}
RELABEL: dict[str, Any] = {"relabel__share": 0.3, "relabel__hypotheses": "stumps", "labeling__mechanism": "noisy_votes"}
RELABEL |= {"labeling__cutoff": None, "labeling__queries": 300}
CHOSEN: dict[str, Any] = {"teachers": None, "labeling": None, "student": None, "student__learner": "universal"}
CHOSEN |= {"student__hypotheses": "rectangles", "student__features": ["size", "shade=dark"]}
UNPROVED = {"labeling__mechanism": "published", "labeling__cutoff": 100, "privacy__epsilon": 16.0}
UNPROVED |= {"privacy__lifetime": {"epsilon": 16.0, "delta": 4e-5}}
CLUSTER = {"teachers__runner": "dask"}
BOUNDED = {"name": "size", "type": "number", "constraints": {"minimum": -9, "maximum": 9}}
SHADE = {"name": "shade", "type": "string", "constraints": {"enum": ["dark", "light"]}}
FIELDS = [{"name": "person", "type": "any"}, BOUNDED, SHADE, {"name": "visits", "type": "any"}]
SCHEMA = {**TALLIES, "data__public": None, "data__features": ["size"], "data__schema": {"fields": [BOUNDED]}}
PLANS: tuple[dict[str, Any], ...] = (
    {"teachers__params": {"C": -1.0}},
    {"student__estimator": "sklearn.neighbors.KNeighborsClassifier", "student__refused": "soft"},
    {"labeling__cutoff": None},
    {"data__private": "nowhere.csv"},
    {"data__public": "nowhere.parquet"},
    {"data__test": "nowhere.parquet"},
    {"data__features": ["size", "height"]},
    {"data__public": "private.csv"},
    {"data__test": "private.csv", "data__features": ["shade"]},
    {"data__label": "verdict", "data__test": None},
    {"data__unit": "household"},
    {**RELABEL, "relabel__hypotheses": "forests"},
    {**RELABEL, "relabel__hypotheses": "rectangles"},
    {**RELABEL, "relabel__features": ["height"]},
    {**RELABEL, "relabel__share": 1.0, "privacy__epsilon": 0.5},
    {**RELABEL, "data__classes": ["no", "yes", "perhaps"]},
    {**RELABEL, "privacy__secret": "labels"},
    {**CHOSEN, "student__hypotheses": "trees"},
    {**CHOSEN, "student__features": ["size", "shade"]},
    {**NUMBER, "student__estimator": "sklearn.naive_bayes.GaussianNB"},
    {**NUMBER, "student__estimator": "tests.texts.wrong_inputs.Silent"},
    *({**CLUSTER, "teachers__address": at} for at in ("tcp://10.0.0.1:8786", "tcp://127.0.0.1:8786", "10.0.0.1:8786")),
    *({**CLUSTER, "teachers__address": at} for at in ("inproc://10.0.0.1/1", "tls://me:word@host:8786")),
    {**CLUSTER, "teachers__unencrypted": True},
    {"teachers__runner": "threads", "teachers__address": "tls://host:8786"},
    {**SCHEMA, "data__public": "public.parquet"},
    {**SCHEMA, "data__features": ["height"]},
    {**SCHEMA, "data__schema": "none.json"},
    {**SCHEMA, "data__categories": ["size"]},
    {**SCHEMA, "labeling__mechanism": "stable", "labeling__cutoff": 10, "teachers__count": 9},
    {**SCHEMA, "stream__season": 4},
)
"""Changes of a plan that `concord run` refuses."""
Change = Callable[[pl.DataFrame], pl.DataFrame]


def parquet(name: str, change: Change) -> Callable[[], object]:
    return lambda: change(pl.read_parquet(name)).write_parquet(name)


def cut_in_half() -> None:
    whole = Path("public.parquet").read_bytes()
    Path("public.parquet").write_bytes(whole[: len(whole) // 2])


def of_another_format() -> None:
    Path("private.csv").rename("private.parquet")
    Path("private.csv").mkdir()
    Path("private.csv", "one.parquet").write_bytes(b"no table")


TABLES: tuple[tuple[str, Callable[[], object], dict[str, Any]], ...] = (
    ("a public table that is none", lambda: Path("public.parquet").write_bytes(b"PAR1 is not enough"), {}),
    ("a public table without rows", parquet("public.parquet", pl.DataFrame.clear), {}),
    ("half a public table", cut_in_half, {}),
    ("a private table in another format", of_another_format, {}),
    ("words for numbers", parquet("test.parquet", lambda rows: rows.with_columns(size=pl.lit("tall"))), {}),
    ("an unknown class", parquet("test.parquet", lambda rows: rows.with_columns(outcome=pl.lit("perhaps"))), {}),
    ("a word for a number", parquet("test.parquet", lambda rows: rows.with_columns(visits=pl.lit("dear"))), NUMBER),
    ("no number to try", parquet("test.parquet", lambda rows: rows.with_columns(visits=pl.lit(None))), NUMBER),
)
"""What is done to the tables, and changes of the plan that `concord run` reads."""
COLUMNS = "--private private.csv --public public.parquet --label outcome"
STATED = f"{COLUMNS} --classes a,b --domain d --rows 9000"
ALONE = "--private private.csv --label outcome"
BESIDE_SCHEMA = (
    *("--no-tallies", "--season 4", "--categories visits", "--lifetime-epsilon 0.5"),
    *(f"--shares {shares}" for shares in ("no=.4,maybe=.6", "no=.4,yes=.1", "no=1,yes=0", "no,yes")),
)
"""Options of `init` for a private table alone, whose schema is there."""
TYPED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("run nowhere.toml", {}),
    ("plan nowhere.toml", {}),
    ("plan plan.toml", {"labeling__cutoff": None}),
    ("plan plan.toml", UNPROVED),
    ("estimate plan.toml --epsilon 0.5 --share 0", {}),
    ("estimate plan.toml --epsilon 0.5 --beta 1", {}),
    ("estimate plan.toml --epsilon -1", {}),
    ("estimate plan.toml --epsilon 0.5", CHOSEN),
    ("estimate plan.toml --epsilon 0.5", RELABEL),
    ("init", {}),
    (f"init {COLUMNS} --classes a,b --rows 9000", {}),
    (f"init {STATED.replace('public.parquet', 'nowhere.csv')}", {}),
    (f"init {STATED.replace('public.parquet', 'private.csv')}", {}),
    (f"init {STATED.replace('outcome', 'height')}", {}),
    (f"init {STATED.replace('a,b', 'a')}", {}),
    (f"init {STATED} --classes c", {}),
    (f"init {STATED} --unit crew", {}),
    (f"init {STATED.replace('9000', 'many')} --unit row", {}),
    (f"init {STATED.replace('domain d', 'domain a:b')} --unit row", {}),
    (f"init {STATED} --unit row --epsilon 0", {}),
    (f"init {STATED} --unit row --lifetime-epsilon 0.5", {}),
    (f"init {STATED} --unit row --season 4", {}),
    (f"init {STATED} --unit person --season 4 --no-tallies", {}),
    (f"init {STATED} --unit person --season 1", {}),
    (f"init {STATED} --schema schema.json", {}),
    *((f"init {ALONE} --classes no,yes --domain d --rows 9000 --unit person {more}", {}) for more in BESIDE_SCHEMA),
    (f"init {ALONE.replace('outcome', 'income')}", {}),
    *((f"init {ALONE} --format {said}", {}) for said in ("seperator=;", "separator=:", "decimal=,|thousands=,", "'")),
)
"""What is typed, and changes of the plan that is there."""


class Silent(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A regressor that learns nothing, and gives no number."""

    def fit(self, X: Any, y: Any) -> "Silent":  # noqa: ARG002
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), np.nan)


def cases() -> Iterator[tuple[str, str, dict[str, Any], Callable[[], object]]]:
    """Of each wrong input: what it is called, what is typed, changes of the plan, and what is done to the tables."""
    for changes in PLANS:
        shown = (f"{place.replace('__', '.')} = {json.dumps(value)}" for place, value in changes.items())
        yield ", ".join(shown), "run plan.toml", changes, lambda: None
    yield from ((name, "run plan.toml", changes, act) for name, act, changes in TABLES)
    yield from ((typed, typed, changes, lambda: None) for typed, changes in TYPED)


def sentences() -> str:
    """What is said of each. Nothing else is printed, no plan is written, and nothing is spent."""
    lines = list[str]()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for place, stand_in in STAND_INS.items():
            patch.setattr(place, stand_in)
        patch.setattr(flows_run, "ready_mlflow", lambda _: None)
        for number, (name, typed, changes, act) in enumerate(cases()):
            here = Path(folder) / f"{number}"
            with chdir(write_tables(here, people(600, 1))):
                patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{here / 'mlflow.db'}")
                patch.setenv("CONCORD_HOME", "home")
                write_plan(Path(), **changes)
                if typed.startswith("init"):
                    Path("plan.toml").unlink()
                if "--classes" in typed:
                    Path("schema.json").write_text(json.dumps({"fields": FIELDS}))
                act()
                status, printed, said = concord(*(word.replace("|", " ") for word in typed.split()))
                assert (status, printed, said[:9]) == (2, "", "concord: "), (name, said)
                assert not (typed.startswith("init") and Path("plan.toml").exists()), name
                assert not Path("home/ledger.db").exists() or Ledger.of(Path("home")).domains() == (), name
            lines += [name, f"    → {said.replace(f'{here}/', '')}"]
    return "\n".join(lines)
