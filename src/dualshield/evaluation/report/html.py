"""The report as one page that needs nothing else: styles, plots and pictures are inside, scripts there are none."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dualshield.evaluation.report._escape import html as safe
from dualshield.evaluation.report._page_style import THEMED, style_sheet
from dualshield.evaluation.report._plot_style import Plot
from dualshield.evaluation.report.gallery import Exhibit, Tile
from dualshield.evaluation.report.method import Method
from dualshield.evaluation.report.sections import Section
from dualshield.evaluation.report.tables import Cell, Row, Table

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
    """The whole document."""
    names = [(section.name, section.title) for section in page.sections]
    names += [("gallery", "Gallery"), ("method", "Method and provenance")]
    links = "".join(f'<li><a href="#{name}">{safe(title)}</a></li>' for name, title in names)
    facts = "".join(f"<span>{safe(label)} <b>{safe(value)}</b></span>" for label, value in page.facts)
    warnings = _items("ul", "notes", page.method.warnings)
    body = "".join(_section(section, page, warnings if section.name == "summary" else "") for section in page.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="generator" content="{GENERATOR}">'
        # Whatever a name might smuggle in, the page fetches and runs nothing.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">'
        f"<title>{safe(page.title)}</title><style>{style_sheet()}</style></head>\n"
        f'<body><div class="shell"><header><p class="kicker">DualShield evaluation</p><h1>{safe(page.title)}</h1>'
        f'<p class="meta">{facts}</p></header>\n<nav aria-label="Sections"><ol>{links}</ol></nav>\n<main>'
        f"{body}{_gallery(page.exhibits)}{_method(page.method)}</main>\n"
        "<footer>Made by <b>dualshield report</b> from the records of the run. Columns on this tint are "
        '<span class="published">the paper\'s own figures</span>.</footer></div></body></html>\n'
    )


def _section(section: Section, page: Page, before: str) -> str:
    parts = [before]
    if section.name == "summary":
        parts.append(_tiles(page.sections))
    if section.missing:
        parts.append(f'<p class="missing">{safe(section.missing)}</p>')
    plots = [plot for plot in page.plots if plot.kind == section.plot]
    drawn = f'<div class="plots">{"".join(map(_plot, plots))}</div>' if plots else ""
    if section.plot == "radar" and not plots:
        drawn = '<p class="missing">A profile needs at least three of the dimensions.</p>'
    tables = [_table(table) for table in section.tables]
    return _framed(section.name, section.title, section.lead, "".join([*parts, *tables[:1], drawn, *tables[1:]]))


def _framed(name: str, title: str, lead: str, inside: str) -> str:
    return f'<section id="{name}"><h2>{safe(title)}</h2><p class="lead">{safe(lead)}</p>{inside}</section>\n'


def _tiles(sections: Sequence[Section]) -> str:
    """The headline, from the plain hash to all of the defence; of several hashes the averages of the ablation."""
    by_name = {section.name: section.tables for section in sections}
    tables = by_name["summary"]
    if tables and len(tables[0].groups) > 1:
        tables = by_name.get("ablation", ())
    if not tables or not {"Original", "Both shields"} <= set(tables[0].columns):
        return ""
    first, last = (tables[0].columns.index(name) for name in ("Original", "Both shields"))
    tiles = [
        f'<div class="tile"><dt>{safe(row.label)}</dt>'
        f"<dd><small>{safe(row.cells[first].text if row.cells[first].figure else 'none')} → </small>"
        f"{safe(row.cells[last].text)}</dd></div>"
        for row in tables[0].rows
        if row.cells[last].figure
    ]
    if not tiles:
        return ""
    scope = "" if len(by_name["summary"][0].groups) == 1 else ", averaged over the hashes"
    return f'<p class="from">Original → Both shields{scope}</p><dl class="tiles">{"".join(tiles)}</dl>'


def _table(table: Table) -> str:
    width = 1 + len(table.columns) + len(table.paper_columns)
    over = ""
    if table.paper_columns:
        over = (
            f'<tr class="over"><th></th><th scope="colgroup" colspan="{len(table.columns)}">This run</th>'
            f'<th class="published" scope="colgroup" colspan="{len(table.paper_columns)}">The paper</th></tr>'
        )
    headings = [f'<th scope="col">{safe(name)}</th>' for name in (table.measure, *table.columns)]
    headings += [f'<th class="published" scope="col">{safe(name)}</th>' for name in table.paper_columns]
    bodies = []
    for group in table.groups:
        rows = [_row(row) for row in table.rows if row.group == group]
        title = f'<tr class="group"><th scope="rowgroup" colspan="{width}">{safe(group)}</th></tr>'
        title = title if len(table.groups) > 1 else ""  # a single hash is the page's title
        bodies.append(f"<tbody>{title}{''.join(rows)}</tbody>")
    counts = [cell.figure.count for row in table.rows for cell in row.cells if cell.figure]
    size = f" <small>n = {_range(counts)} in each cell</small>" if counts else ""
    notes = "".join(f'<p class="lead">{safe(note)}</p>' for note in table.notes)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{safe(table.title)}"><table>'
        f"<caption>{safe(table.title)}{size}</caption>"
        f"<thead>{over}<tr>{''.join(headings)}</tr></thead>{''.join(bodies)}</table></div>{notes}"
    )


def _row(row: Row) -> str:
    cells = "".join(_cell(cell, row.heat) for cell in row.cells)
    cells += "".join(f'<td class="published">{safe(cell.text)}</td>' for cell in row.paper)
    return f'<tr><th scope="row">{safe(row.label)}</th>{cells}</tr>'


def _cell(cell: Cell, heat: bool) -> str:
    if cell.figure is None or cell.shown is None:
        return f'<td class="absent">{safe(cell.text)}</td>'
    classes = [name for name, wanted in (("best", cell.best and not heat), ("heat", heat)) if wanted]
    marks = f' class="{" ".join(classes)}"' if classes else ""
    shade = f' style="--heat:{min(1.0, max(0.0, cell.figure.value)):.3f}"' if heat else ""
    interval = f'<span class="interval">{safe(cell.interval)}</span>' if cell.interval else ""
    value = f'<span class="value">{safe(cell.text)}</span>'
    return f"<td{marks}{shade}>{interval + value if heat else value + interval}</td>"


def _plot(plot: Plot) -> str:
    wide = ' class="wide" tabindex="0"' if plot.wide else ""
    return f"<figure{wide}>{inline(plot)}</figure>"


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


def _gallery(exhibits: Sequence[Exhibit]) -> str:
    inside = "" if exhibits else f'<p class="missing">{safe(NO_GALLERY)}</p>'
    for exhibit in exhibits:
        where = f"{exhibit.hash}: {exhibit.dataset}/{exhibit.image}"
        rows = "".join(
            f'<div class="exhibit">{"".join(_picture(tile, where) for tile in row)}</div>'
            for row in exhibit.rows
            if row
        )
        inside += f"<h3>{safe(where)}</h3>{rows}"
    return _framed("gallery", "Gallery", GALLERY, inside)


def _picture(tile: Tile, where: str) -> str:
    data = base64.b64encode(tile.jpeg).decode("ascii")
    return (
        f'<figure><img alt="{safe(f"{tile.title}, {where}")}" src="data:image/jpeg;base64,{data}">'
        f"<figcaption>{safe(tile.title)}<span>{safe(tile.detail)}</span></figcaption></figure>"
    )


def _method(method: Method) -> str:
    coverage = "".join(
        f'<tr><th scope="row">{safe(entry.part)}</th><td class="words">{safe(entry.hash)}</td>'
        f'<td class="words">{safe(entry.variant)}</td>'
        f"<td>{entry.done:,}</td><td>{'–' if entry.expected is None else f'{entry.expected:,}'}</td>"
        f"<td>{entry.unmatched:,}</td></tr>"
        for entry in method.coverage
    )
    columns = "".join(f'<th scope="col" class="words">{name}</th>' for name in ("Part", "Hash", "Variant"))
    columns += "".join(f'<th scope="col">{name}</th>' for name in ("Records", "Of", "Did not match before"))
    inside = f"<h3>How to read this</h3>{_items('ol', 'prose', method.reading)}<h3>Coverage</h3>"
    inside += f'<div class="scroll" tabindex="0"><table><thead><tr>{columns}</tr></thead>'
    inside += f"<tbody>{coverage}</tbody></table></div><h3>How this run was made</h3>"
    facts = "".join(f'<tr><th scope="row">{safe(name)}</th><td>{safe(value)}</td></tr>' for name, value in method.facts)
    inside += f'<div class="scroll"><table class="facts"><tbody>{facts}</tbody></table></div>'
    for title, lines in method.lists:
        inside += f"<h3>{safe(title)}</h3>{_items('ul', 'listing', lines)}"
    return _framed("method", "Method and provenance", METHOD, inside)


def _items(kind: str, name: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{safe(line)}</li>" for line in lines)
    return f'<{kind} class="{name}">{items}</{kind}>' if items else ""


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"
