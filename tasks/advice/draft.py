"""Draft: write a first plan from the user's statements and the public tables; and the schema of a private table without
public rows, whose ranges and categories its owner declares.

    header and stored types ─ fields left open ─ declared in the file, or by an answer each ─ Table Schema

Of the private table only its header and stored types are read: to check that columns the user named exist, to ask
whether one that it alone has says whose a row is, and to list the columns to declare. The user states its number of
rows and its classes; teachers and mechanism follow from these and the public rows.

Assumes      the stated figures, classes, ranges and categories are known in public: nobody can check that
Guarantees   no private cell is read, not even for a least and a largest value or a list of words; the text loads as a
             plan; columns whose words other tables lack, such as dates in words, are left out, by public rows alone
Not covered  how good the plan is: `concord plan` states what to expect; to declare columns whose stored type is a list:
             they need a public table. Checked by tests/flows/cli/test_init.py and test_init_schema.py
"""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from concord.artifacts.errors import WrongInput, is_printable
from concord.artifacts.learners import Learner
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.plan import Plan, parse_plan
from concord.artifacts.schemas import COMMAS, Kind, TextFormat
from concord.artifacts.sections import TALLIES, AboutPlan
from concord.artifacts.table_schema import (
    BUCKETS,
    TYPES,
    DeclaredCategories,
    DeclaredRange,
    DeclaredText,
    TableSchema,
    read_schema,
    schema_of,
    varies,
)
from concord.tasks.advice.demo import SCHEMA_LINE
from concord.tasks.data.cells import OURS, kind_of, text
from concord.tasks.data.csv_files import words_of
from concord.tasks.data.files import PRIVATE, find_files
from concord.tasks.data.remarks import (
    ALL_DIFFER,
    DATES,
    FREE_TEXT,
    NUMBERS_DIFFER,
    ONE_VALUE,
    TOO_MANY,
    WITH_COMMAS,
    check_target,
    remarks_on,
)
from concord.tasks.data.tables import Table, open_private, open_public

PROPOSED = Learner(
    estimator="sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
    params={"solver": "lsqr", "shrinkage": "auto"},
)
"""The teacher that `concord init` writes into a plan: a shard's few dozen rows set its shrinkage. Its students are
better than those of a weak logistic regression (tests/benchmarks/TRIED.md); a plan that names none has its default."""
LIFETIME = 4
"""Lifetime budget that `concord init` writes for a domain, as a multiple of a session's budget."""
ROWS_A_TEACHER, MOST_TEACHERS = 50, 2000
"""Private units of a teacher, and most teachers, of the plan that `concord init` writes for votes."""


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What a plan states of private rows and of the budget; all of it must be known in public.

    classes   of the label; or its `bounds`, if it is a number: the least and the largest it may be
    rows      roughly how many private units there are, as you would say it in public: rows, or people if `unit` names
              them; of a stream, in a whole season
    delta     default: a power of ten below 1/rows
    unit      the column that says whose a row is; default: each row is protected by itself
    version   names the state of the private data: another one when it changes
    schema    in place of public rows: a Frictionless Table Schema, or the path of one
    lifetime_epsilon, lifetime_delta
              what all sessions on this data may spend together, fixed when the domain is named; default: the cap on
              record, or LIFETIME times this session's budget
    """

    label: str
    domain: str
    rows: int
    classes: Sequence[Any] = ()
    bounds: Sequence[float] | None = None
    epsilon: float = 1.0
    delta: float | None = None
    unit: str | None = None
    version: str = "1"
    schema: Any = None
    lifetime_epsilon: float | None = None
    lifetime_delta: float | None = None

    def frame_plan(self, home: Path) -> dict[str, Any]:
        """A plan for frames in a home, by tallies, as nested tables. Raises WrongInput if classes have no order."""
        if isinstance(self.classes, str | Set):
            raise WrongInput(f"classes must be a list of all labels, in an order that stays, got {self.classes!r}")
        delta = usual_delta(self.rows) if self.delta is None else self.delta
        spent = {"epsilon": self.epsilon, "delta": delta}
        data: dict[str, Any] = {"label": self.label, "unit": self.unit, "version": self.version}
        if len(self.classes):
            data["classes"] = [str(name) for name in self.classes]
        if self.bounds is not None:
            data["bounds"] = list(self.bounds)
        if self.schema is not None:
            data["schema"] = os.fspath(self.schema) if isinstance(self.schema, os.PathLike) else self.schema
        cap, stated = usual_lifetime(home, self.domain, spent), (self.lifetime_epsilon, self.lifetime_delta)
        lifetime = {name: cap[name] if amount is None else amount for name, amount in zip(cap, stated, strict=True)}
        return {
            "folder": ".",
            "data": data,
            "privacy": {"domain": self.domain, **spent, "lifetime": lifetime},
            "labeling": {"mechanism": TALLIES, "rows": self.rows},
            "student": {"learner": "linear"},
        }


@dataclass(frozen=True, kw_only=True)
class InitSettings(PlanFacts):
    """The user's statements for a plan of files. Paths are as given; a `schema` takes the place of a public table."""

    private: str
    public: str | None
    test: str | None
    format: TextFormat = COMMAS
    shares: Mapping[str, float] | None = None
    categories: tuple[str, ...] = ()
    season: int | None = None
    issuer: str | None = None
    use: str | None = None
    date: str | None = None


def usual_lifetime(home: Path, domain: str, spent: Mapping[str, float]) -> dict[str, float]:
    """ε and δ of all sessions of a domain: the cap on record, or LIFETIME times what a session may spend."""
    domain_there = Ledger.of(home).domain(domain) if Ledger.is_there(home) else None
    return {
        name: LIFETIME * amount if domain_there is None else getattr(domain_there.filter, name)
        for name, amount in spent.items()
    }


def usual_delta(rows: float) -> float:
    """The power of ten that is below 1/(100·rows): publishing one row in n at random would have δ = 1/n."""
    return float(f"1e-{2 + len(str(rows).partition('.')[0])}")


def classes_of(path: str, label: str, form: TextFormat = COMMAS) -> tuple[str, ...]:
    """The labels in a public labelled table, sorted. Raises WrongInput if it lacks the column."""
    table = open_public(path, "--test", form)
    words = {word for frame in table.frames([label]) for word in frame.select(text(label, frame.schema[label]))[label]}
    check_target("--label", label, words - {None})
    return tuple(sorted(words - {None}))


def features_of(table: Table, besides: Sequence[str | None]) -> dict[str, Kind]:
    """The columns that can be features, with their kinds."""
    named = [name for name in table.columns if name not in (*besides, "") and not name.startswith(OURS)]
    names = [name for name in named if kind_of(table.type_of(name)) is not None]
    return table.kinds(names)


def check_public(option: str, path: str, private: str) -> None:
    """Raise WrongInput if there is no such table, or a file of it is one of the private table."""
    hidden = {file.path.resolve() for file in find_files(private, PRIVATE)}
    if not hidden.isdisjoint(file.path.resolve() for file in find_files(path, option)):
        raise WrongInput(f"{option} must not hold a file of --private, which would then be published")


def draft(settings: InitSettings, folder: Path, voted_on: int | None = None) -> tuple[str, Plan]:
    """The plan as commented TOML, its paths relative to `folder`, and parsed.

    voted_on   number of public rows, for a plan of votes on them; None for tallies
    Raises WrongInput if it would not load.
    """
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined)
    environment.trim_blocks = environment.keep_trailing_newline = True
    environment.filters |= {"toml": _toml, "keys": _keys, "path": partial(_path, folder=folder)}
    queries = voted_on and voted_on + max(10, voted_on // 10)  # a tenth of the present rows may come later
    written = environment.get_template("plan.toml.j2").render(
        schema_line=SCHEMA_LINE,
        stated=settings,
        features=described(settings),
        left_out=LEFT_OUT,
        format=settings.format.model_dump(exclude_defaults=True),
        format_in_words=words_of(settings.format),
        teachers=voted_on and min(MOST_TEACHERS, max(1, settings.rows // ROWS_A_TEACHER)),
        teacher=PROPOSED,
        queries=queries,
        about=ABOUT,
    )
    return written, parse_plan({**tomllib.loads(written), "folder": str(folder)})


def described(settings: InitSettings) -> dict[str, str]:
    """What each column of the public table is taken for, or declared to be: its kind, and a remark if there is one.

    Raises WrongInput if nothing can be learned from any.
    """
    if settings.public is None:
        return declared_in_words(read_schema(Path(settings.schema or "")).without((settings.label, settings.unit)))
    table = open_public(settings.public, "--public", settings.format)
    kinds = features_of(table, (settings.label, settings.unit))
    remarks = remarks_on(table, kinds) | dict.fromkeys(settings.categories, "codes, by `categories`")
    private_names = open_private(settings.private, settings.format).names
    remarks |= {name: ABSENT for name in kinds if name not in private_names}
    if remarks.keys() == kinds.keys() and {*remarks.values()} <= {*LEFT_OUT}:
        why = ", ".join(f"{name!r} ({remarks[name]})" for name in [*kinds][:MOST_SHOWN])
        raise WrongInput(f"--public must have a column to learn from, but none of its {len(kinds)} can be one: {why}")
    features = {name: f"{kind}{remarks.get(name, '') and '; '}{remarks.get(name, '')}" for name, kind in kinds.items()}
    unread = [name for name in table.names if name not in (*kinds, settings.label, settings.unit)]
    return features | {name: UNREAD if name in table.columns else INDEX for name in unread}


ABSENT = "not in the private table, left out"
UNREAD = "without a name of its own, or neither numbers, words, dates, truth values nor lists of one length, left out"
INDEX = "an index of pandas, left out"
UNDECLARED = "no range or categories declared, left out"
MOST_SHOWN = 5
"""Columns without use that an error shows."""
LEFT_OUT = (
    FREE_TEXT,
    DATES,
    NUMBERS_DIFFER,
    TOO_MANY,
    ONE_VALUE,
    ALL_DIFFER,
    WITH_COMMAS,
    ABSENT,
    UNREAD,
    INDEX,
    UNDECLARED,
)
"""Remarks on columns that cannot be features."""
ABOUT = {
    name: f"{meant[:1].lower()}{meant[1:].partition('.')[0]}"
    for name in ("issuer", "use", "date")
    if (meant := AboutPlan.model_fields[name].description)
}
"""What a publication says of itself, if the plan does: what the plan's own keys mean, in a few words."""


def _toml(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if is_printable(letter) else f"\\U{ord(letter):08x}" for letter in text)


def _keys(table: Mapping[str, Any]) -> str:
    """The keys of an inline table, with their values."""
    return ", ".join(f"{key} = {_toml(value)}" for key, value in table.items())


def _path(path: str | None, folder: Path) -> str:
    """A path relative to the plan if it is in or below the plan's folder, otherwise absolute; an address as it is."""
    if "://" in (path or ""):
        return _toml(path)
    absolute = os.path.abspath(path or "")
    relative = os.path.relpath(absolute, folder)
    return _toml(absolute if relative.startswith("..") else relative)


SCHEMA_FILE = "schema.json"
"""The file's name, beside the plan."""
WHY = (
    "declare a range or the categories of each column. Take them from documentation, never from the rows, because "
    "declarations are public. A range that is much too wide costs the model nothing. Text without categories is hashed "
    "into buckets; any other column without a declaration is left out"
)
STORED = {"boolean": "boolean", "date": "date", "categorical": "string", "null": "any"}
"""Types of a Table Schema by kinds of columns; those of numbers and moments follow from the stored type as well."""


def fields_of(private: str, besides: Iterable[str | None], form: TextFormat = COMMAS) -> list[dict[str, Any]]:
    """The columns of the private table as fields left open, from its header and stored types alone: `any` in CSV, whose
    cells would have to be read for a type."""
    fields, named = list[dict[str, Any]](), {"", *besides}
    for file in open_private(private, form).files:
        for name in file.names:
            if name in named or name.startswith(OURS):
                continue
            named.add(name)
            stored = file.type_of(name)
            kind = kind_of(stored)
            if file.is_text:
                fields.append(_open(name, "any"))
            elif kind == "numeric":
                fields.append(_open(name, "integer" if stored.is_integer() else "number"))
            elif kind in STORED:
                fields.append(_open(name, "datetime" if str(stored).startswith("Datetime") else STORED[kind]))
    return fields


def _open(name: str, kind: str) -> dict[str, Any]:
    bounds, words = {"minimum": None, "maximum": None}, {"enum": list[str]()}
    left = {"boolean": {}, "string": words, "any": {**bounds, **words}}.get(kind, bounds)
    return {"name": name, "type": kind, **({"constraints": left} if left else {})}


def question(field: Mapping[str, Any]) -> str:
    """The question to an owner about a field; empty if nothing is left open."""
    name, kind = field["name"], field["type"]
    if kind == "any":
        examples = "`integer`, `number` or `date` with its least and largest value, `boolean`, its categories"
        return f"{name!r}: {examples}, or `string` to hash its text into {BUCKETS} buckets; empty to leave it out"
    if kind in TYPES:
        return f"{name!r}: the least and the largest {kind}, such as {EXAMPLES[kind]}; empty to leave it out"
    hashed = f"empty to hash its text into {BUCKETS} buckets, if nobody can list them; `any` to leave it out"
    return f"{name!r}: its categories, with commas between; {hashed}" if kind == "string" else ""


DAY = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d)|(\d{1,2})\.(\d{1,2})\.(\d{4}))")
"""A day as 2026-12-31 or 31.12.2026, which is known to be no number and no other day."""
VALUE = re.compile(r"[-+.\d]|to$|$")
"""Matches the beginning of a number or a date, and what may stand between two."""
EXAMPLES = {"integer": "0 120", "number": "0 1e6", "date": "1990-01-01 2030-12-31", "datetime": "1990-01-01 2030-12-31"}


def answered(field: Mapping[str, Any], answer: str, form: TextFormat = COMMAS) -> dict[str, Any]:
    """The field as declared by an answer to its question; if that is empty, text is hashed and any other field left
    open. An answer with commas lists categories, even if one begins with the name of a type; but not if values alone
    follow that name, which are a range, of numbers in that form. Raises WrongInput."""
    kind, rest = field["type"], answer.strip()
    named, _, values = rest.partition(" ")
    listed = "," in rest and not (named in TYPES and all(map(VALUE.match, re.split(r"[,\s]+", values))))
    if kind in ("any", "string") and not listed and named in (*TYPES, "boolean", "string", "any"):
        kind, rest = named, values
    elif kind == "any" and rest:
        kind = (
            "date"
            if len(days := rest.replace(" to ", " ").split()) == 2 and all(map(DAY.fullmatch, days))
            else "string"
        )
    if not rest and kind not in ("boolean", "string"):
        return _open(field["name"], kind)
    declared: dict[str, Any] = {"name": field["name"], "type": kind}
    if kind == "string" and rest:
        words = [word.strip() for word in rest.split(",") if word.strip()]
        if len(words) < 2:
            raise WrongInput(
                f"the categories of {field['name']!r} must be two or more, with commas between, got {rest!r}: a range "
                "begins with its type, such as `integer 0 120`"
            )
        declared["constraints"] = {"enum": words}
    elif kind in TYPES:
        bounds = rest.replace(" to ", " ").split()
        if len(bounds) != 2:
            raise WrongInput(
                f"the range of {field['name']!r} must be two values, its least and its largest, got {rest!r}"
            )
        if TYPES[kind] == "numeric":
            grouped = {"thousands": form.thousands or "."} if form.decimal == "," else {}
            bounds = [form.model_copy(update=grouped).plain(bound) for bound in bounds]
        matches = [DAY.fullmatch(bound) for bound in bounds] if TYPES[kind] == "date" else []
        if matches and all(day and day[4] for day in matches):
            declared["format"] = "%d.%m.%Y"
            bounds = [f"{day[6]}-{day[5]:0>2}-{day[4]:0>2}" for day in matches if day]
        declared["constraints"] = dict(zip(("minimum", "maximum"), bounds, strict=True))
    column = schema_of({"fields": [declared]}).columns[0]
    if isinstance(column, DeclaredRange) and TYPES[kind] == "numeric":
        bounds_as_numbers = (int(end) if end.is_integer() else end for end in (column.low, column.high))
        declared["constraints"] = dict(zip(("minimum", "maximum"), bounds_as_numbers, strict=True))
    return declared


def written(fields: Iterable[Mapping[str, Any]]) -> str:
    """The fields as the text of a Table Schema."""
    return json.dumps({"description": WHY, "fields": [*fields]}, indent=1, ensure_ascii=False) + "\n"


def declared_in_words(schema: TableSchema) -> dict[str, str]:
    """Sentences on what each column is declared to be, and on columns that are left out because they are left open."""
    sentences = dict[str, str]()
    for column in schema.columns:
        match column:
            case DeclaredRange():
                sentences[column.name] = column.in_words
            case DeclaredCategories():
                several = f"{column.kind}, {len(column.words)} of them"
                sentences[column.name] = several if varies(column) else ONE_VALUE
            case DeclaredText():
                sentences[column.name] = f"text, hashed into {column.buckets} buckets"
            case _:
                sentences[column.name] = column.kind
    return sentences | dict.fromkeys(schema.undeclared, UNDECLARED)
