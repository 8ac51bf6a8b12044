"""Tables in pages of Markdown, and the places where they are written anew."""

from collections.abc import Iterable


def table(rows: Iterable[Iterable[str]]) -> list[str]:
    """A table, the first row being its head."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [lines[0], "|" + "---|" * (lines[0].replace("\\|", "").count("|") - 1), *lines[1:]]


def between(text: str, made: str, marks: tuple[str, str]) -> str:
    """A page with what was made between its marks."""
    start, end = marks
    before, _, after = text.partition(start)
    return f"{before}{start}\n{made}\n{end}{after.partition(end)[2]}"
