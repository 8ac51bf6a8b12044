"""Pages that follow from the code: the reference of a plan's keys, and the tables of what a catalogue holds.

make reference      # writes them
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.markdown import table
from tests.support.plan_keys import schema_text, sections
from tests.world import CATALOGUE, EXPORT_FORMS, MECHANISMS, PLAN_SCHEMA_FILE, PROPERTIES, TALLIES, Tallies

ROOT = Path(__file__).parents[1]
Row = tuple[str, ...]
KEYS_HEAD = """\
# All keys of a plan

Editors that read `#:schema` lines complete and check keys as you type: `concord init` writes the line, and the schema
beside the plan. Choose no value by looking at private rows. The value of a key is published with a session (*known to
everyone*), or stays on the operator's side (*the operator*).

This page is generated from the plan's types by `make reference`.

"""


def mechanisms() -> Iterator[Row]:
    """What a plan may name, and when to take it."""
    yield "mechanism", "pays for", "take it if"
    yield f"`{TALLIES}`", Tallies.pays_for, Tallies.take_if
    for name in MECHANISMS:
        made = CATALOGUE[name]
        yield f"`{name}`", made.pays_for, made.take_if


def sources() -> Iterator[Row]:
    """Every mechanism with its statement, proof and source."""
    yield "mechanism", "statement and proof", "source"
    proofs = {name: each.proof for name, each in CATALOGUE.items()}
    for proof in dict.fromkeys(proofs.values()):
        file, source = proof.split(": ", 1)
        yield ", ".join(f"`{name}`" for name, other in proofs.items() if other == proof), f"`{file}`", source


def forms() -> Iterator[Row]:
    """What a student is exported as."""
    yield "form", "use"
    yield from ((name, form.use) for name, form in EXPORT_FORMS.items())


def table_schema() -> Iterator[Row]:
    """What becomes of every property of a Table Schema."""
    yield "property", "of", "what becomes of it"
    for owner, properties in PROPERTIES.items():
        yield from ((f"`{name}`", owner, fate) for name, fate in properties.items())


def keys() -> str:
    """The page of all keys of a plan."""
    parts = []
    for section in sections():
        rows = [("key", "is", "unit", "default", "known to", "meaning")]
        for key in section.keys:
            rows.append(
                (f"`{key.name.rpartition('.')[2]}`", key.values, key.unit, key.default, key.known_to, key.words)
            )
        parts.append(f"## {section.title}\n\n{section.words}\n\n" + "".join(f"{line}\n" for line in table(rows)))
    return KEYS_HEAD + "\n".join(parts)


def pages() -> dict[Path, str]:
    """The pages as they should be: those made anew, and others with their table made anew."""
    plans = ROOT / "deployments/plans"
    made = {plans / PLAN_SCHEMA_FILE: schema_text(), plans / "README.md": keys()}
    tables = {"README.md": mechanisms, "tests/privacy/README.md": sources, "deployments/guides/publish.md": forms}
    tables["deployments/guides/no-public-table.md"] = table_schema
    for name, rows in tables.items():
        lines, page = table([*rows()]), (ROOT / name).read_text(encoding="utf-8")
        pattern = re.compile(rf"^( *){re.escape(lines[0])}\n(?: *\|.*\n)+", re.MULTILINE)
        (old,) = pattern.finditer(page)
        new = "".join(f"{old[1]}{line}\n" for line in lines)
        made[ROOT / name] = f"{page[: old.start()]}{new}{page[old.end() :]}"
    return made


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
