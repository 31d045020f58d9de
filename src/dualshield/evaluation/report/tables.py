"""The tables of the report, and how they are written as Markdown, CSV and LaTeX.

A row is one measure of one hash; its columns are the variants of the run, followed by the paper's own figures.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from dualshield.evaluation.report import _escape as escape
from dualshield.evaluation.report.figures import Figure

ABSENT = "–"
Item = TypeVar("Item")


@dataclass(frozen=True)
class Cell:
    """One figure with its format; ``scale`` 100 turns a rate into per cent."""

    figure: Figure | None = None
    digits: int = 1
    scale: float = 1.0
    best: bool = False

    @property
    def text(self) -> str:
        """The value, or a dash."""
        if self.figure is None or not math.isfinite(self.figure.value):
            return ABSENT
        bound = f"{self.figure.bound} " if self.figure.bound else ""
        return bound + self._number(self.figure.value)

    @property
    def interval(self) -> str:
        """The 95 % interval; an end outside the budgets is left open. Empty if there is no interval."""
        if self.figure is None or self.shown is None:
            return ""
        low, high = (
            None if end is None or not math.isfinite(end) else self._number(end)
            for end in (self.figure.low, self.figure.high)
        )
        if low is None or high is None:
            return f"≥ {low}" if low is not None else f"≤ {high}" if high is not None else ""
        return f"{low}–{high}"

    @property
    def shown(self) -> float | None:
        """The value rounded to the digits shown, so that values that look equal are equal."""
        if self.figure is None or not math.isfinite(self.figure.value):
            return None
        return round(self.scale * self.figure.value, self.digits)

    def _number(self, value: float) -> str:
        # Adding zero turns a rounded -0.0 into 0.0.
        return f"{round(self.scale * value, self.digits) + 0.0:.{self.digits}f}"


@dataclass(frozen=True)
class Row:
    """One measure of one hash (``group``); with ``heat`` the page shades its cells."""

    group: str
    label: str
    cells: tuple[Cell, ...]
    paper: tuple[Cell, ...] = ()
    heat: bool = False


@dataclass(frozen=True)
class Table:
    """A table with columns of the run and of the paper; ``name`` is also the name of its files."""

    name: str
    title: str
    measure: str  # heading of the row labels
    columns: tuple[str, ...]
    paper_columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def trimmed(self) -> Table:
        """Return the table without empty rows and without empty columns of the paper."""
        kept = [row for row in self.rows if any(cell.figure for cell in (*row.cells, *row.paper))]
        filled = [any(row.paper[index].figure for row in kept) for index in range(len(self.paper_columns))]
        rows = [replace(row, paper=tuple(_where(row.paper, filled))) for row in kept]
        return replace(self, rows=tuple(rows), paper_columns=tuple(_where(self.paper_columns, filled)))

    @property
    def groups(self) -> list[str]:
        """The hashes, in order."""
        return list(dict.fromkeys(row.group for row in self.rows))


def best_marked(cells: Sequence[Cell], *, lower: bool) -> tuple[Cell, ...]:
    """Mark the best cells of a row, none if all are equal; a cost above all budgets is the highest value."""
    found = {index: _rank(cell) for index, cell in enumerate(cells) if cell.shown is not None}
    if len(set(found.values())) < 2:
        return tuple(cells)
    best = (min if lower else max)(found.values())
    return tuple(replace(cell, best=found.get(index) == best) for index, cell in enumerate(cells))


def markdown(table: Table) -> str:
    """Return a GitHub table; the best value of a row is bold, intervals are in parentheses."""
    headings = [*(["hash"] if table.groups != [""] else []), table.measure, *table.columns]
    headings += [f"paper: {column}" for column in table.paper_columns]
    words = len(headings) - len(table.columns) - len(table.paper_columns)
    lines = [
        f"**{escape.markdown(table.title)}**",
        "",
        "| " + " | ".join(map(escape.markdown, headings)) + " |",
        "|" + "|".join(["---"] * words + ["--:"] * (len(headings) - words)) + "|",
    ]
    for row in table.rows:
        labels = [row.group, row.label][-words:]
        cells = [*map(escape.markdown, labels), *map(_markdown_cell, row.cells)]
        cells += [f"*{cell.text}*" if cell.figure else ABSENT for cell in row.paper]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(f"{escape.markdown(note)}  " for note in table.notes)]
    return "\n".join(lines).rstrip() + "\n"


def tidy(table: Table) -> str:
    """Return CSV with one figure per line, in the units shown."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["table", "hash", "measure", "column", "source", "bound", "value", "low", "high", "n"])
    for row in table.rows:
        for source, columns, cells in (("run", table.columns, row.cells), ("paper", table.paper_columns, row.paper)):
            for column, cell in zip(columns, cells, strict=True):
                if cell.figure is None:
                    continue
                figure = cell.figure
                values = [_plain(value, cell.scale) for value in (figure.value, figure.low, figure.high)]
                words = map(escape.spreadsheet, (table.name, row.group, row.label, column))
                writer.writerow([*words, source, figure.bound, *values, figure.count or ""])
    return file.getvalue()


def latex(table: Table) -> str:
    """Return a LaTeX booktabs table across both columns of a page; the paper's figures are grey."""
    grouped = table.groups != [""]
    words = 2 if grouped else 1
    ours, theirs = len(table.columns), len(table.paper_columns)
    lines = [
        r"% needs \usepackage{booktabs,xcolor}",
        r"\begin{table*}[tb]",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\begin{{tabular}}{{{'l' * words}{'r' * (ours + theirs)}}}",
        r"\toprule",
    ]
    if theirs:
        first = words + ours + 1
        over = rf"\multicolumn{{{ours}}}{{c}}{{This run}} & \multicolumn{{{theirs}}}{{c}}{{The paper}} \\"
        lines += [
            "& " * words + over,
            rf"\cmidrule(lr){{{words + 1}-{words + ours}}}\cmidrule(lr){{{first}-{first + theirs - 1}}}",
        ]
    headings = [*(["Hash"] if grouped else []), table.measure, *table.columns, *table.paper_columns]
    lines += [" & ".join(map(escape.latex, headings)) + r" \\", r"\midrule"]
    last = None
    for row in table.rows:
        if grouped and last not in (None, row.group):
            lines.append(r"\addlinespace")
        labels = [row.group if row.group != last else "", row.label] if grouped else [row.label]
        cells = [*map(escape.latex, labels), *map(_latex_cell, row.cells)]
        cells += [rf"\textcolor{{gray}}{{{escape.latex(cell.text)}}}" for cell in row.paper]
        lines.append(" & ".join(cells) + r" \\")
        last = row.group
    caption = " ".join([f"{table.title}.", *table.notes])
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{escape.latex(caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


RENDERINGS: dict[str, Callable[[Table], str]] = {"md": markdown, "csv": tidy, "tex": latex}


def _rank(cell: Cell) -> float:
    return math.inf if cell.figure is not None and cell.figure.bound == ">" else cell.shown or 0.0


def _markdown_cell(cell: Cell) -> str:
    value = f"**{cell.text}**" if cell.best else cell.text
    return escape.plain(f"{value} ({cell.interval})" if cell.interval else value).replace(">", "&gt;")


def _latex_cell(cell: Cell) -> str:
    value = rf"\textbf{{{escape.latex(cell.text)}}}" if cell.best else escape.latex(cell.text)
    return rf"{value} {{\scriptsize({escape.latex(cell.interval)})}}" if cell.interval else value


def _plain(value: float | None, scale: float) -> str:
    return "" if value is None or not math.isfinite(value) else f"{scale * value:.6g}"


def _where(items: Sequence[Item], kept: Sequence[bool]) -> list[Item]:
    return [item for item, keep in zip(items, kept, strict=True) if keep]
