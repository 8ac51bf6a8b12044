"""The command `init`: ask for what a plan needs, and write one that can be run as it is."""

import math
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import typer

from concord.artifacts.errors import EnvironmentFailed, WrongInput, in_one_line, quoted
from concord.artifacts.plan import parsed
from concord.artifacts.schemas import Kind
from concord.artifacts.sections import NAME_PATTERN, TALLIES, AboutPlan
from concord.artifacts.sources import check_address
from concord.artifacts.wrong_plan import RULES
from concord.flows.cli.plan import show_classes, show_releases
from concord.flows.console import err, out
from concord.tasks.advice.draft import (
    ABOUT,
    Wishes,
    check_column,
    check_public,
    classes_of,
    described,
    features_of,
    usual_delta,
)
from concord.tasks.advice.keys import PLAN_SCHEMA_FILE, SHIPPED
from concord.tasks.advice.suggest import suggest
from concord.tasks.data.csv_files import words_of
from concord.tasks.data.files import format_of
from concord.tasks.data.remarks import MAY_BE_NAMES, remarks_on
from concord.tasks.data.tables import PRIVATE, find_files, open_public
from concord.tasks.data.units import open_private

REQUIRED_WISHES = ("private", "public", "label", "classes", "domain", "rows")
"""Settings that cannot be guessed. If all are given, the others get their defaults; the unit may be asked for still."""
ROW = "row"
"""The answer that each row is protected by itself, unless a private column has that name."""
PROMPTS = {
    "private": "Private labelled table (Parquet, Arrow IPC or CSV)",
    "public": "Public table without labels",
    "test": "Public labelled table to try the student on; empty for none",
    "label": "Label column",
    "classes": "Classes, with commas between; only what is known in public",
    "unit": "Column that says whose a row is; `row` to protect each row by itself",
    "domain": "Name of this body of private data; it is published",
    "rows": "Private rows there are, or people if a column says whose a row is; roughly, as you would say it in public",
    "epsilon": "ε this session may spend",
    "delta": "δ it may spend",
    "lifetime_epsilon": "ε of all sessions on this data together",
    "lifetime_delta": "δ of all of them",
}
KINDS: tuple[str, ...] = get_args(Kind)
ABOUT_PROMPTS = {name: f"{name.capitalize()}: {meant}; empty if it is not stated" for name, meant in ABOUT.items()}


def begin(given: Mapping[str, Any], path: Path, home: Path, *, tallies: bool | None = None) -> dict[str, Any]:
    """Write the plan at `path`. Returns a summary of its content.

    home      the home whose ledger, if there is one, has the domain's remaining budget
    tallies   whether to use tallies rather than votes; None for tallies, unless they cannot be asked
    Raises WrongInput if a setting is missing or wrong, or if the file exists; BudgetRefused if the lifetime budget does
    not cover it.
    """
    if path.exists():
        raise WrongInput(f"{path} is there already and is not overwritten: give another --out")
    wishes = wishes_of(given)
    suggested = suggest(wishes, path.absolute().parent, home, tallies=tallies)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(suggested.text)
        path.with_name(PLAN_SCHEMA_FILE).write_bytes(SHIPPED.read_bytes())  # which the plan's first line names
    except OSError as failed:
        raise EnvironmentFailed(f"the plan {path} cannot be written: {os.strerror(failed.errno or 0)}") from None
    voting = suggested.ensemble
    return {
        "plan": str(path),
        "format": words_of(wishes.format),
        "columns": described(wishes),
        "teachers": voting.teachers if voting else 0,
        "mechanism": voting.best.name if voting else TALLIES,
        "cutoff": voting.best.cutoff if voting else None,
        "reason": suggested.reason,
        "later_rows": suggested.later_rows,
        "classes": [asdict(item) for item in suggested.classes],
        "releases": [asdict(item) for item in suggested.releases] if wishes.season else None,
    }


def wishes_of(given: Mapping[str, Any]) -> Wishes:
    """The settings: as given, else as answered at the terminal, else their defaults. Raises WrongInput."""
    stated = {name: value for name, value in given.items() if value not in (None, (), "")}
    known = {"classes"} if {"test", "bounds"} & stated.keys() else set()
    missing = [name for name in REQUIRED_WISHES if name not in {*stated, *known}]
    if missing and not sys.stdin.isatty():
        raise WrongInput(f"init must be given {', '.join(f'--{name}' for name in missing)}, or asked at a terminal")
    for name in PROMPTS:
        if name == "label":
            stated["format"] = format_of(stated["public"], stated["test"])
        if name == "classes" and "bounds" in stated:
            continue
        if name in stated:
            stated[name] = _meant(name, stated[name], stated)
        else:
            usual = _default(name, stated)
            if missing or usual is None:
                stated[name] = _asked(name, usual, stated)
            else:
                stated[name] = _meant(name, usual, stated)
    if missing and "categories" not in stated:
        table = open_public(stated["public"], "--public", stated["format"])
        remarks = remarks_on(table, features_of(table, (stated["label"], stated["unit"])))
        doubtful = [name for name, remark in remarks.items() if remark == MAY_BE_NAMES]
        asked = "{!r} holds few whole numbers. Are they codes, such as wards, rather than counts or measurements?"
        stated["categories"] = tuple(name for name in doubtful if typer.confirm(asked.format(name), err=True))
    for name in ABOUT:
        if name in stated:
            stated[name] = _meant(name, stated[name], stated)
        elif missing:
            stated[name] = _asked(name, "", stated)
    return Wishes(**stated)


def show_begun(found: Mapping[str, Any]) -> None:
    """Print what was written and the next step."""
    out.print(f"wrote {found['plan']}: {found['teachers'] or 'no'} teachers, {found['mechanism']}; {found['reason']}")
    out.print(f"later rows {found['later_rows']}", markup=False, soft_wrap=True)
    if found["format"]:
        out.print(f"CSV files: {found['format']}, as found in a public one", markup=False)
    if words := [name for name, taken_for in found["columns"].items() if taken_for == "categorical"]:
        out.print(f"parsed as categories: {', '.join(map(repr, words))}", markup=False, soft_wrap=True)
    for name, taken_for in found["columns"].items():
        if taken_for not in KINDS:
            out.print(f"column {name!r}: {taken_for}", markup=False, soft_wrap=True)
    show_classes(found["classes"])
    if found["releases"]:
        show_releases(found["releases"])
    command = "run" if found["releases"] is None else "refresh"
    out.print(f"next: review the plan, then concord plan {found['plan']} and concord {command} {found['plan']}")


def _default(name: str, stated: Mapping[str, Any]) -> Any:
    """The usual value of a setting; None if the operator must say it.

    The usual unit is the row, unless a column is the private table's alone, which may say whose a row is. Raises
    WrongInput, naming such columns, if nobody can be asked. They are schema: no private row is read.
    """
    match name:
        case "test":
            return ""
        case "classes" if stated.get("test"):
            return classes_of(stated["test"], stated["label"], stated["format"])
        case "epsilon":
            return 1.0
        case "delta":
            return usual_delta(stated["rows"])
        case "lifetime_epsilon" | "lifetime_delta":
            return 4 * stated[name.removeprefix("lifetime_")]
        case "unit":
            known = {*open_public(stated["public"], "--public", stated["format"]).names, stated["label"], ""}
            alone = quoted(sorted(open_private(stated["private"], stated["format"]).names - known))
            if not alone:
                return ROW
            if not sys.stdin.isatty():
                raise WrongInput(
                    f"--unit must be given, since --private alone has {alone}: --unit COLUMN if such a column says "
                    "whose a row is, so that all rows of one person are protected together, or --unit "
                    f"{ROW} to protect each row by itself"
                )
            err.print(f"the private table alone has {alone}", soft_wrap=True, markup=False)
    return None


def _asked(name: str, default: Any, stated: Mapping[str, Any]) -> Any:
    """The answer at the terminal. A wrong one is refused and asked for again."""
    shown = in_one_line(",".join(default)) if isinstance(default, tuple) else default
    while True:
        answer = typer.prompt((PROMPTS | ABOUT_PROMPTS)[name], default=shown, err=True, show_default=bool(shown))
        try:
            return _meant(name, default if answer == shown else answer, stated)
        except WrongInput as wrong:
            err.print(str(wrong), soft_wrap=True, markup=False)


def _meant(name: str, value: Any, stated: Mapping[str, Any]) -> Any:
    """The parsed value of a setting, given those stated before it. Raises WrongInput if it is not valid."""
    option = f"--{name.replace('_', '-')}"
    if name in ("private", "public", "test"):
        try:
            check_address(value)
        except ValueError as wrong:
            raise WrongInput(f"{option} {wrong}") from None
    match name:
        case "classes":
            return _classes(value)
        case "rows":
            digits = re.sub(r"(?<=\d)[., _'](?=\d{3}(?!\d))", "", str(value).strip())
            if not digits.isdecimal() or not int(digits):
                raise WrongInput(f"--rows must be a whole number above 0, got {value!r}")
            return int(digits)
        case "domain" if not re.fullmatch(NAME_PATTERN, value):
            raise WrongInput(f"{option} {RULES['string_pattern_mismatch']}, got {value!r}")
        case "private":
            find_files(value, PRIVATE)
        case "public" | "test" if value:
            check_public(option, value, stated["private"])
        case "unit" if value == ROW and ROW not in open_private(stated["private"], stated["format"]).names:
            if "season" in stated:
                raise WrongInput(
                    "--unit must name a column with --season: whose a row is says whom the stream has asked"
                )
            return None
        case "label" | "unit" if value:
            check_column(option, value, stated["private"], stated["format"])
        case "issuer" | "contact" | "use" | "date" if value:
            parsed(AboutPlan, {name: value})
        case "epsilon" | "delta":
            return _amount(option, value)
        case "lifetime_epsilon" | "lifetime_delta":
            return _amount(option, value, least=stated[name.removeprefix("lifetime_")])
    return value or None


def _classes(value: Any) -> tuple[str, ...]:
    """The classes: a list as it is; a single text, such as an answer, split at its commas."""
    several = (value,) if isinstance(value, str) else tuple(value)
    words = several[0].split(",") if len(several) == 1 else several
    classes = tuple(word.strip() for word in words if word.strip())
    if len(set(classes)) < max(2, len(classes)):
        raise WrongInput(f"--classes must name two or more, each once, got {', '.join(classes)!r}")
    return classes


def _amount(option: str, value: Any, least: float = 0.0) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = math.nan
    if not (0 < amount < math.inf and amount >= least):
        rule = f"a number of at least {least:g}, what this session may spend" if least else "a number above 0"
        raise WrongInput(f"{option} must be {rule}, got {value!r}")
    return amount
