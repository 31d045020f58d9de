"""Render the report as one self-contained HTML page: styles, plots and pictures are embedded, without scripts.

The markup is in ``templates/page.html``. Jinja2 escapes all values.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dualshield._common.extras import require_extra
from dualshield.evaluation.report._escape import html as safe
from dualshield.evaluation.report._escape import plain
from dualshield.evaluation.report._page_style import THEMED, style_sheet
from dualshield.evaluation.report._plot_style import Plot
from dualshield.evaluation.report.gallery import Exhibit
from dualshield.evaluation.report.method import Method
from dualshield.evaluation.report.sections import Section
from dualshield.evaluation.report.tables import Table

with require_extra("report", "a report"):
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

GENERATOR = "dualshield report"
GALLERY = (
    "What hardening and attacks look like. Differences are amplified ten times around grey. The attack shown is the "
    "adaptive one at the smallest budget that evades, or at the largest that was tried if none does."
)
NO_GALLERY = "This run kept no pictures."
METHOD = "What is counted, how the run was made, and how much of it is finished."


@dataclass(frozen=True)
class Page:
    """The content of the page; ``facts`` are shown below the title."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: Sequence[Section]
    plots: Sequence[Plot]
    exhibits: Sequence[Exhibit]
    method: Method


def render(page: Page) -> str:
    """Return the whole document."""
    environment = Environment(
        loader=PackageLoader("dualshield.evaluation.report"),
        autoescape=True,
        undefined=StrictUndefined,
        # Replace control characters before Jinja2 escapes the text.
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
    )
    environment.filters |= {
        "base64": lambda data: base64.b64encode(data).decode("ascii"),
        "inline": lambda plot: Markup(inline(plot)),
        "size": _size,
    }
    tiles, scope = _tiles(page.sections)
    return environment.get_template("page.html").render(
        page=page,
        tiles=tiles,
        scope=scope,
        style=Markup(style_sheet()),
        generator=GENERATOR,
        gallery=GALLERY,
        no_gallery=NO_GALLERY,
        method=METHOD,
    )


def _tiles(sections: Sequence[Section]) -> tuple[list[tuple[str, str, str]], str]:
    """Return the headline figures, plain hash and both shields; for several hashes the averages of the ablation."""
    by_name = {section.name: section.tables for section in sections}
    tables = by_name.get("summary", ())
    if tables and len(tables[0].groups) > 1:
        tables = by_name.get("ablation", ())
    if not tables or not {"Original", "Both shields"} <= set(tables[0].columns):
        return [], ""
    first, last = (tables[0].columns.index(name) for name in ("Original", "Both shields"))
    tiles = [
        (row.label, row.cells[first].text if row.cells[first].figure else "none", row.cells[last].text)
        for row in tables[0].rows
        if row.cells[last].figure
    ]
    return tiles, "" if len(by_name["summary"][0].groups) == 1 else ", averaged over the hashes"


def _size(table: Table) -> str:
    """Return the number of records per cell of a table, or its range."""
    counts = [cell.figure.count for row in table.rows for cell in row.cells if cell.figure]
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def inline(plot: Plot) -> str:
    """Return a plot as inline SVG with unique ids, the page's font and colours, and no fixed size."""
    text = plot.svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^<>]+>", lambda tag: _themed(tag[0], plot.name), text)
    # Safe, because texts contain no line breaks.
    text = re.sub(r"\s*\n\s*", " ", text)
    box = re.search(r'viewBox="[-\d. ]+"', text)
    assert box is not None  # matplotlib always writes one
    return f'<svg {box[0]} role="img" aria-label="{safe(plot.alt)}">' + text[text.index(">") + 1 :].strip()


def _themed(tag: str, name: str) -> str:
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = tag.replace('xlink:href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    tag = tag.replace("font-family: 'DejaVu Sans'", "font-family: inherit")
    for colour, variable in THEMED.items():
        tag = tag.replace(f": {colour}", f": var({variable})")
    return tag
