"""The settings of a first plan, as given, as answered at a terminal, or as usual; and the plan that follows from them.

Checked by tests/flows/cli/test_init.py and tests/flows/cli/test_init_schema.py
"""

import json
import math
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from concord.artifacts.errors import EnvironmentFailed, WrongInput, quoted
from concord.artifacts.guarantee import NO_LATER_ROWS
from concord.artifacts.plan import PATTERNS, Plan, parsed
from concord.artifacts.schemas import COMMAS, TextFormat
from concord.artifacts.sections import NAME_PATTERN, AboutPlan, DataPlan
from concord.artifacts.sources import check_address
from concord.artifacts.table_schema import schema_of
from concord.tasks.advice.demo import PLAN_SCHEMA_FILE, SHIPPED
from concord.tasks.advice.dictionary import TABLES, fields_in, named_columns
from concord.tasks.advice.draft import (
    ABOUT,
    SCHEMA_FILE,
    WHY,
    InitSettings,
    answered,
    check_public,
    classes_of,
    declared_in_words,
    described,
    draft,
    features_of,
    fields_of,
    question,
    usual_delta,
    usual_lifetime,
    written,
)
from concord.tasks.advice.planned import no_tallies
from concord.tasks.advice.public_facts import PublicFacts
from concord.tasks.advice.rehearse import Ahead
from concord.tasks.advice.rehearse_sketch import expect_sketch
from concord.tasks.advice.rehearse_tallies import expect_tallies
from concord.tasks.advice.rehearse_votes import expect_votes
from concord.tasks.advice.report import Account, check_cover
from concord.tasks.data.csv_files import UTF_16, first_line, words_of
from concord.tasks.data.files import PRIVATE, csv_files, find_files, format_of, format_of_private
from concord.tasks.data.remarks import MAY_BE_NAMES, remarks_on
from concord.tasks.data.tables import open_private, open_public

REQUIRED = ("private", "public", "label", "classes", "domain", "rows")
"""Settings that cannot be guessed. If all are given, the others get their defaults; the unit may be asked for still.
Without a public table, a schema takes its place."""
ROW = "row"
"""The answer that each row is protected by itself, unless a private column has that name."""
PROMPTS = {
    "private": "Private labelled table (Parquet, Arrow IPC or CSV)",
    "public": "Public table without labels, whose rows are not protected; empty for none",
    "test": "Public labelled table to evaluate the student; empty for none",
    "format": (
        "How the CSV files are written, such as `encoding=cp1252 decimal=, missing=999`; the separator is found in the "
        "first line; empty for UTF-8 and decimal points"
    ),
    "label": "Label column",
    "classes": "Classes, separated by commas; they are published",
    "shares": "Shares of the classes, if publicly known, such as no=.95,yes=.05: accuracy is foreseen by them",
    "unit": "Column that identifies a person; `row` to protect each row by itself",
    "domain": "Name of this body of private data; it is published",
    "rows": "About how many private rows, or people if a column identifies them; this number is published",
    "epsilon": "ε of this session",
    "delta": "δ of this session",
    "lifetime_epsilon": "Lifetime budget: ε of all sessions on this data together",
    "lifetime_delta": "Lifetime budget: δ of all sessions",
}
ABOUT_PROMPTS = {name: f"{name.capitalize()}: {meant}; empty if it is not stated" for name, meant in ABOUT.items()}


class Terminal(Protocol):
    """Someone who can be asked."""

    def note(self, sentence: str) -> None:
        """Print a sentence."""

    def ask(self, question: str, usual: Any, parse: Callable[[Any], Any]) -> Any:
        """The parsed answer to a question. One that `parse` refuses by WrongInput is asked for again."""

    def confirm(self, question: str) -> bool:
        """Whether the answer is yes."""


def write_plan(
    given: Mapping[str, Any],
    path: Path,
    home: Path,
    *,
    tallies: bool | None = None,
    terminal: Terminal | None = None,
) -> dict[str, Any]:
    """Write a plan at `path`. Returns a summary of its content.

    home      the home whose ledger, if there is one, has the domain's remaining budget
    tallies   whether to use tallies rather than votes; None for tallies, unless they cannot be asked
    terminal  where missing settings are asked for; None if nobody can be asked
    Raises WrongInput if a setting is missing or wrong, or if the file exists; BudgetRefused if the lifetime budget does
    not cover it.
    """
    if path.exists():
        raise WrongInput(f"{path} already exists and is not overwritten: give another --out")
    given = {name: _plain(name, value) for name, value in given.items()}
    if given.get("public") and given.get("schema"):
        raise WrongInput("--schema takes the place of a public table: leave out --schema, or --public")
    given = _without_dictionary(given, path.with_name(SCHEMA_FILE))
    schema = Path(given.get("schema") or path.with_name(SCHEMA_FILE))
    if _one_table(given) and not schema.exists() and terminal is None:
        stated = dict(given)
        for name in ("private", "format", "label", "unit"):
            stated[name] = parse_setting(name, given.get(name) or "", stated)
        fields = fields_of(given["private"], (given["label"], given.get("unit")), stated["format"])
        _write(schema, written(fields))  # all ranges and categories are left open, to be filled in first
        return {"plan": None, "schema": str(schema), "columns": {field["name"]: field["type"] for field in fields}}
    settings = settings_of({**given, "schema": str(schema)}, home, terminal)
    text, plan, ahead = _with_expectation(settings, path.absolute().parent, home, tallies=tallies)
    _write(path, text, {PLAN_SCHEMA_FILE: SHIPPED.read_bytes()})  # which its first line names
    return {
        "plan": str(path),
        "schema": settings.schema,
        "format": words_of(settings.format),
        "columns": described(settings),
        "teachers": plan.teachers.count,
        "mechanism": plan.labeling.mechanism,
        **ahead,
    }


def _plain(name: str, value: Any) -> Any:
    """A setting as the command line has it: a path as text, and a value of NumPy's as one of Python's. Raises
    WrongInput for a table that is no path."""
    if name in ("private", "public", "test") and not isinstance(value, str | os.PathLike | None):
        raise WrongInput(f"--{name} must be a path, got {type(value).__name__}")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _without_dictionary(given: Mapping[str, Any], schema: Path) -> dict[str, Any]:
    """The settings, in which the file `schema`, written first, stands for a data dictionary that is a table. Raises
    WrongInput if the dictionary declares no schema, or if another one is there."""
    named = given.get("schema") if isinstance(given.get("schema"), str | Path) else None
    columns = named_columns(given.get("dictionary_columns"))
    others = {name: value for name, value in given.items() if name != "dictionary_columns"}
    if not named or Path(named).suffix.lower() not in TABLES:
        if columns:
            raise WrongInput("--dictionary-columns names columns of a table, and --schema must be one: CSV, or Arrow")
        return others
    text = written(fields_in(str(named), columns))
    schema_of(json.loads(text))
    if not schema.exists():
        _write(schema, text)
    elif schema.read_text(encoding="utf-8") != text:
        raise WrongInput(f"{schema} is another schema than {named} declares: remove it, or give it as --schema")
    return {**others, "schema": str(schema)}


SKETCHED = (
    "a part of the budget buys tables of the private rows; synthetic rows that resemble these take the place of public "
    "ones"
)


def _with_expectation(
    settings: InitSettings, folder: Path, home: Path, *, tallies: bool | None
) -> tuple[str, Plan, dict[str, Any]]:
    """The plan as text and parsed, and what to expect of it. Raises WrongInput if private rows cannot be asked so,
    BudgetRefused if the lifetime budget does not cover it."""
    text, plan = draft(settings, folder)
    for needs_tallies, why in (
        (settings.public is None, "needs --public: synthetic rows are labelled by tallies alone"),
        (settings.bounds, "does not apply with --bounds: the label is a number, which needs tallies"),
        (settings.season, "does not apply with --season: a stream releases running sums, which need tallies"),
    ):
        if needs_tallies and tallies is False:
            raise WrongInput(f"--no-tallies {why}")
    account, public, later = Account.of(plan, home), None, NO_LATER_ROWS
    ahead: Ahead | None
    reasons = list[str]()
    if settings.public is None:
        ahead, reasons = expect_sketch(plan), [SKETCHED]
    else:
        public = PublicFacts.of(plan, account.domain.filter.order)
        against = no_tallies(plan, public.encoding)
        if against is not None and (tallies or settings.bounds or settings.season):
            raise WrongInput(f"tallies cannot be asked: {against}")
        if against is None and tallies is not False:
            ahead = expect_tallies(plan, public)
        else:
            text, plan = draft(settings, folder, public.rows)
            planned = public.votes(plan)
            ahead, later = expect_votes(plan, public, planned), planned.later_rows(planned.queries)
            reasons = [f"no tallies: {against}"] if against else []
    check_cover(plan, public, account)
    expected = {
        "reason": "; ".join([*reasons, ahead.reason] if ahead else reasons),
        "later_rows": later,
        "classes": [asdict(item) for item in ahead.classes] if ahead else [],
        "releases": [asdict(item) for item in getattr(ahead, "releases", ())] or None,
    }
    return text, plan, expected


def settings_of(given: Mapping[str, Any], home: Path, terminal: Terminal | None = None) -> InitSettings:
    """The settings: as given, else as answered at the terminal, else their usual values. Raises WrongInput."""
    stated = {name: value for name, value in given.items() if value not in (None, (), "")}
    implied = {"classes"} if {"test", "bounds"} & stated.keys() else set()
    implied |= {"public"} if _one_table(stated) else set()
    missing = [name for name in REQUIRED if name not in {*stated, *implied}]
    if missing and terminal is None:
        options = ", ".join("--public or --schema" if name == "public" else f"--{name}" for name in missing)
        raise WrongInput(f"init must be given {options}, or asked at a terminal")
    for name in {"domain", "rows"} & stated.keys():  # before a table is read, which may take long
        stated[name] = parse_setting(name, stated[name], stated)
    for name, prompt in PROMPTS.items():
        if name == "format" and (stated["public"] or not csv_files(stated["private"])):
            stated.setdefault(name, "")  # it was found, or there is none
        if name == "shares" and (stated["public"] or stated["test"] or "bounds" in stated):
            stated.setdefault(name, "")  # accuracy is foreseen without
        if name == "classes" and "bounds" in stated:
            continue
        parse = partial(parse_setting, name, stated=stated)
        if name in stated:
            stated[name] = parse(stated[name])
            continue
        usual = _usual(name, stated, home, terminal)
        if terminal is not None and (missing or usual is None):
            stated[name] = terminal.ask(prompt, usual, parse)
        else:
            stated[name] = parse(usual)
    if stated["public"] is not None:
        del stated["schema"]
    elif terminal is not None and not Path(stated["schema"]).exists():
        _declare(stated, terminal)
    if terminal is not None and missing and stated["public"] is not None and "categories" not in stated:
        table = open_public(stated["public"], "--public", stated["format"])
        remarks = remarks_on(table, features_of(table, (stated["label"], stated["unit"])))
        doubtful = [name for name, remark in remarks.items() if remark == MAY_BE_NAMES]
        codes = (
            "{!r} has few different whole numbers. Are they codes, such as wards, rather than counts or measurements?"
        )
        stated["categories"] = tuple(name for name in doubtful if terminal.confirm(codes.format(name)))
    for name, prompt in ABOUT_PROMPTS.items():
        parse = partial(parse_setting, name, stated=stated)
        if name in stated:
            stated[name] = parse(stated[name])
        elif terminal is not None and missing:
            stated[name] = terminal.ask(prompt, "", parse)
    return InitSettings(**stated)


def _one_table(given: Mapping[str, Any]) -> bool:
    """Whether a schema is to take the place of a public table."""
    return bool(given.get("private") and given.get("label") and not given.get("public"))


def _declare(stated: Mapping[str, Any], terminal: Terminal) -> None:
    """Ask the range or the categories of each column at the terminal, and write the schema."""
    terminal.note(f"no public table: {WHY}")
    left_open = fields_of(stated["private"], (stated["label"], stated["unit"]), stated["format"])
    fields, questions = (
        {field["name"]: field for field in left_open},
        {field["name"]: question(field) for field in left_open},
    )
    wrong: Sequence[str] = [*fields]
    while wrong:
        for field in (field for field in left_open if field["name"] in wrong):
            parse = partial(answered, field, form=stated["format"])
            fields[field["name"]] = (
                terminal.ask(questions[field["name"]], "", parse) if questions[field["name"]] else parse("")
            )
        for name, words in declared_in_words(schema_of({"fields": [*fields.values()]})).items():
            terminal.note(f"{name!r}: {words}")
        wrong = terminal.ask(
            "Columns to correct, separated by commas; empty if all are right", "", partial(_named, fields)
        )
    _write(Path(stated["schema"]), written(fields.values()))


def _named(columns: Collection[str], answer: str) -> list[str]:
    """The columns that an answer names. Raises WrongInput if one is not known."""
    names = [name.strip() for name in answer.split(",") if name.strip()]
    for name in names:
        if name not in columns:
            raise WrongInput(f"{name!r} is none of the columns {quoted([*columns])}")
    return names


def _usual(name: str, stated: Mapping[str, Any], home: Path, terminal: Terminal | None) -> Any:
    """The usual value of a setting; None if the operator must say it.

    The usual unit is the row, unless a column is the private table's alone, which may say whose a row is. Raises
    WrongInput, naming such columns, if nobody can be asked. They are schema: no private row is read.
    """
    match name:
        case "public" | "test" | "format" | "shares":
            return ""
        case "classes" if stated.get("test"):
            return classes_of(stated["test"], stated["label"], stated["format"])
        case "epsilon":
            return 1.0
        case "delta":
            return usual_delta(stated["rows"])
        case "lifetime_epsilon" | "lifetime_delta":
            amount = name.removeprefix("lifetime_")
            cap = usual_lifetime(home, stated["domain"], {amount: stated[amount]})[amount]
            if cap < stated[amount]:
                rule = f"--{amount} must be at most {cap:g}, the cap of domain {stated['domain']!r} on record"
                raise WrongInput(f"{rule}, got {stated[amount]:g}: `concord domain` raises the cap")
            return cap
        case "unit" if stated["public"] is None and terminal is None:
            rule = f"--unit COLUMN if a column identifies a person, or --unit {ROW} to protect each row by itself"
            raise WrongInput(f"--unit must be given if there is no public table: {rule}")
        case "unit" if stated["public"] is not None:
            public_names = {*open_public(stated["public"], "--public", stated["format"]).names, stated["label"], ""}
            alone = quoted(sorted({*open_private(stated["private"], stated["format"]).names} - public_names))
            if not alone:
                return ROW
            if terminal is None:
                raise WrongInput(
                    f"--unit must be given, since --private alone has {alone}: --unit COLUMN if such a column "
                    "identifies a person, so that all rows of one person are protected together, or --unit "
                    f"{ROW} to protect each row by itself"
                )
            terminal.note(f"the private table alone has {alone}")
    return None


def parse_setting(name: str, value: Any, stated: Mapping[str, Any]) -> Any:
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
        case "shares" if value:
            words = value.split(",") if isinstance(value, str) else ()
            pairs = [word.rpartition("=") for word in words if "=" in word]
            shares = {key.strip(): share for key, _, share in pairs} or value
            plan_keys = {key: stated.get(key) for key in ("label", "bounds")} | {"classes": stated.get("classes", ())}
            return parsed(DataPlan, {"private": "", **plan_keys, "shares": shares}).shares
        case "rows":
            digits = re.sub(r"(?<=\d)[., _'](?=\d{3}(?!\d))", "", str(value).strip())
            if not digits.isdecimal() or not int(digits):
                raise WrongInput(f"--rows must be a whole number above 0, got {value!r}")
            return int(digits)
        case "domain" if not re.fullmatch(NAME_PATTERN, value):
            raise WrongInput(f"{option} {PATTERNS[NAME_PATTERN]}, got {value!r}")
        case "private":
            find_files(value, PRIVATE)
        case "format":
            return _format(value, stated)
        case "public" | "test" if value:
            check_public(option, value, stated["private"])
        case "unit" if value == ROW and ROW not in open_private(stated["private"], stated["format"]).names:
            if stated.get("season") is not None:
                raise WrongInput(
                    "--unit must name a column with --season: by this column, a stream knows which units it has queried"
                )
            return None
        case "label" | "unit" if value:
            open_private(stated["private"], stated["format"]).frames({value: option})  # refused without that column
        case "issuer" | "use" | "date" if value:
            parsed(AboutPlan, {name: value})
        case "epsilon" | "delta":
            return _amount(option, value)
        case "lifetime_epsilon" | "lifetime_delta":
            return _amount(option, value, least=stated[name.removeprefix("lifetime_")])
    return value or None


def _format(value: Any, stated: Mapping[str, Any]) -> TextFormat:
    """The format of CSV files: keys that are given, as a dict or in words, and the others as found in a public one, or
    else in the private one's first line. Raises WrongInput, also if that line needs an encoding that is not given."""
    public = format_of(stated.get("public"), stated.get("test"))
    detected = format_of_private(stated["private"]) if public == COMMAS else public
    try:
        words = [word.partition("=") for word in shlex.split(value)] if isinstance(value, str) else []
    except ValueError:
        raise WrongInput(f"--format must be KEY=SIGN, with blanks between several, got {value!r}") from None
    given = {key: {"tab": "\t"}.get(sign, sign) for key, _, sign in words} if words else dict(value or {})
    if missing := [sign for key, _, sign in words if key == "missing"]:
        given["missing"] = missing
    try:
        form = parsed(TextFormat, {**detected.model_dump(), **given})
    except WrongInput as wrong:
        raise WrongInput(f"--format: {wrong}") from None
    for file in csv_files(stated["private"]):
        if b"\0" in (line := first_line(file.path)):
            raise WrongInput(f"--private: {file.shown} cannot be read: {UTF_16}")
        try:
            line.decode(form.encoding)
        except UnicodeDecodeError:
            raise WrongInput(
                f"--format must state the encoding, since the first line of {file.shown} is not {form.encoding}: "
                "--format encoding=cp1252 if Windows wrote it, or encoding=latin-1"
            ) from None
    return form


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
    except (TypeError, ValueError):
        amount = math.nan
    if not (0 < amount < math.inf and amount >= least):
        rule = f"a number of at least {least:g}, what this session may spend" if least else "a number above 0"
        raise WrongInput(f"{option} must be {rule}, got {value!r}")
    return amount


def _write(path: Path, text: str, companions: Mapping[str, bytes] | None = None) -> None:
    """Write a new file and its companions, by name, to one folder, in place of older ones. Raises EnvironmentFailed."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        for name, content in (companions or {}).items():
            companion = path.with_name(name)
            companion.unlink(missing_ok=True)  # a link, which somebody may have planted, is not followed
            with companion.open("xb") as made:
                made.write(content)
    except OSError as failed:
        raise EnvironmentFailed(f"{path} cannot be written: {os.strerror(failed.errno or 0)}") from None
