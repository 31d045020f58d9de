"""The report as one page that needs nothing else: styles, plots and pictures are inside, scripts there are none.

The markup is in ``templates/page.html``. Jinja2 escapes whatever is filled in.
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
NO_GALLERY = "The run has kept no pictures."
METHOD = "What is counted, what the run was made of, and how much of it is there."


@dataclass(frozen=True)
class Page:
    """All that the page shows; ``facts`` stand below the title."""

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
        # Control characters go before Jinja2 escapes the rest.
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
    """Return how many records stand behind the cells of a table."""
    counts = [cell.figure.count for row in table.rows for cell in row.cells if cell.figure]
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def inline(plot: Plot) -> str:
    """An SVG as part of a page: its own ids, the page's letters and colours, any size."""
    text = plot.svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^<>]+>", lambda tag: _themed(tag[0], plot.name), text)
    # Only the drawing's own line breaks go: texts have none.
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
