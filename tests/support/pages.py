"""The pages of the repository, and the blocks that they show."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOPS = ("artifacts", "deployments", "flows", "tasks", "tests")


def tracked_pages() -> list[Path]:
    """All pages of the repository."""
    return [*sorted(ROOT.glob("*.md")), *(page for top in TOPS for page in sorted((ROOT / top).rglob("*.md")))]


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


README = page("README.md")
ALL_PAGES = "\n".join(path.read_text(encoding="utf-8") for path in tracked_pages())
"""Also those that nobody reads first."""


def blocks(*languages: str, page: str = ALL_PAGES) -> list[str]:
    """Every block of a page's text, or of all, in one of those languages."""
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def python_on(name: str) -> list[str]:
    """The Python that a page shows."""
    return blocks("python", page=page(name))
