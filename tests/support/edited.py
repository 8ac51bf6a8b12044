"""Edits of single fields of released files, with their digest in the certificate: anyone can sign such a folder."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.world import Certificate, PublishedSession, canonical_json, released_as_certified, sha256

MODEL = {
    f"decoded.{name}"
    for name in ("units", "moved", "importance.*", "kappa.*", "prior.*", "spread.*.*", "spread shortened")
}
LAST_MODEL = {"decoded.weights.*.*", "decoded.intercept.*"}
"""Fields of a decoded model that follow from public rows as well; those of the last are compared with the student."""


def missed(folder: Path, path: str) -> list[str]:
    """The places of a released file of which an edit is not found."""
    whole = (folder.parent / path).read_bytes()
    places = list[str]()
    for place, data in (edits_of_table if path.endswith(".arrow") else edits_of_json)(whole):
        rewritten(folder, path, data)
        if not found(folder):
            places.append(place)
    rewritten(folder, path, whole)
    return places


def rewritten(folder: Path, path: str, data: bytes) -> None:
    """Write a released file, and its digest in the certificate."""
    (folder.parent / path).write_bytes(data)
    file = folder / "certificate.json"
    values = json.loads(file.read_text())
    for record in values["sessions"]:
        for each in record["files"]:
            each["digest"] = sha256(data) if each["path"] == path else each["digest"]
    file.write_text(Certificate.model_validate(values).model_dump_json(indent=2))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value in a JSON document that is no list and no object."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
        return
    for key, item in items:
        yield from leaves(item, (*path, key))


def edits(content: Any) -> Iterator[tuple[str, Any]]:
    """A JSON document with one value changed, or one key removed or added, and the place of that."""
    seen = set[str]()
    for path in leaves(content):
        place = ".".join("*" if isinstance(key, int) else key for key in path)
        if place not in seen:
            seen.add(place)
            yield place, changed(content, path, another)
    for outer in {path[:at] for path in leaves(content) for at in range(len(path))}:
        place = ".".join("*" if isinstance(key, int) else key for key in outer)
        if place in seen:
            continue
        seen.add(place)
        inside = content
        for key in outer:
            inside = inside[key]
        if isinstance(inside, dict):
            yield f"{place} with more", changed(content, outer, lambda whole: {**whole, "further": 1})
            for name in inside:
                yield f"{place}.{name} removed".lstrip("."), changed(content, outer, partial(without, name=name))
        elif inside:
            yield f"{place} shortened", changed(content, outer, lambda whole: whole[:-1])
            yield f"{place} emptied", changed(content, outer, lambda _: [])


def without(whole: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in whole.items() if key != name}


def another(value: Any) -> Any:
    match value:
        case bool() | None:
            return 1 if value is None else not value
        case float():
            return 1.001 * value + 0.001
        case int():
            return value + 1
    return f"{value}x"


def changed(content: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(content)
    copied = list(content) if isinstance(content, list | tuple) else dict(content)
    before = content.get(path[0]) if isinstance(content, dict) else content[path[0]]
    copied[path[0]] = changed(before, path[1:], change)
    return copied


def with_values(content: Any, values: Mapping[str, Any]) -> Any:
    """A JSON document with other values at places such as `sessions.0.part`; a function is told the value there."""
    for place, value in values.items():
        path = tuple(int(key) if key.lstrip("-").isdigit() else key for key in place.split("."))
        content = changed(content, path, value if callable(value) else partial(_in_place_of, value))
    return content


def _in_place_of(value: Any, _: Any) -> Any:
    return value


def found(folder: Path) -> bool:
    """Whether a fault is found; any exception is one, as for `verify_published`."""
    at = PublishedSession.at(folder)
    try:
        return not [released_as_certified(record, at) for record in at.certificate.sessions]
    except Exception:
        return True


def edits_of_json(whole: bytes) -> Iterator[tuple[str, bytes]]:
    content = json.loads(whole)
    indented = whole.startswith(b"{\n")
    for place, other in edits(content):
        text = json.dumps(other, indent=2, sort_keys=True) if indented else canonical_json(other)
        yield place, text.encode()
    yield "a space", whole + b" "
    yield "a key twice", whole.replace(b"{", b'{"session":"d-2",', 1)


def edits_of_table(whole: bytes) -> Iterator[tuple[str, bytes]]:
    table = pa.ipc.open_file(whole).read_all()

    def written(other: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, other.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
            file.write_table(other)
        return bytes(sink.getvalue())

    for name, value in table.schema.metadata.items():
        yield f"claim {name}", written(table.replace_schema_metadata({**table.schema.metadata, name: value + b"1"}))
        yield f"claim -{name}", written(table.replace_schema_metadata(without(table.schema.metadata, name)))
    yield "claim +", written(table.replace_schema_metadata({**table.schema.metadata, b"further": b"1"}))
    for at, field in enumerate(table.schema):
        yield f"-{field.name}", written(table.remove_column(at))
        cells = table[field.name].to_pylist()
        place = next((row for row, cell in enumerate(cells) if cell is not None), None)
        if place is not None and (field.name != "label" or table["scores"].null_count < len(cells)):
            cell = cells[place]
            other = [each + 10**6 for each in cell][::-1] if isinstance(cell, list) else another(cell)
            column = pa.array([*cells[:place], other, *cells[place + 1 :]], field.type)
            yield field.name, written(table.set_column(at, field, column))
    yield "+", written(table.append_column("further", pa.array(range(table.num_rows))))
