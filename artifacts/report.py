"""The report: the certificate as one HTML page that opens offline and fetches nothing."""

import re
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from artifacts.certificate import Certificate

TEMPLATE = "report.html.j2"


def render(certificate: Certificate, figures: Mapping[str, str]) -> str:
    """The page. `figures` are SVG documents by what they show: spend, what_if, labels and budget, where there are such;
    all else is escaped."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    drawn = {name: _inline(name, figure) for name, figure in figures.items()}
    return templates.get_template(TEMPLATE).render(certificate=certificate, figures=drawn)


def _inline(name: str, figure: str) -> Markup:
    """A figure as a part of the page: scaled to its column, without a document's head, its ids its own."""
    image = figure[figure.index("<svg") :]
    image = re.sub(
        r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', rf'\1 role="img" aria-labelledby="{name}-caption"', image
    )
    image = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", image)
    return Markup(re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", image, flags=re.DOTALL))
