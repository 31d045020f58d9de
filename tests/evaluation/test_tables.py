from __future__ import annotations

import csv
import io
import math
import re

import pytest

from dualshield.evaluation.report import _escape as escape
from dualshield.evaluation.report import tables
from dualshield.evaluation.report.figures import Figure
from dualshield.evaluation.report.tables import Cell, Row, Table, best_marked

HOSTILE = "<img src=x onerror=alert(1)>|`*_\\$&#%{}~^[a](javascript:b)\n\x00\x1b[31m\u202e\udc80 =1+1"
NAMES = [HOSTILE, "", "=HYPERLINK(1)", "  @x", "-1+1", "\\input{/etc/passwd}", "a\tb\r\nc"]


def table(*rows: Row, columns: tuple[str, ...] = ("Original", "Ours")) -> Table:
    return Table("success", "Success, %", "Budget", columns, ("Ours",), rows, ("A note.",))


def row(group: str, *figures: Figure | None, paper: float | None = None) -> Row:
    theirs = Cell(None if paper is None else Figure(paper, None, None, 0))
    return Row(group, "ℓ₂ ≤ 40", tuple(Cell(figure, 1, 100.0) for figure in figures), (theirs,))


PLAIN = table(row("pdq", Figure(0.5, 0.25, 0.75, 4), None, paper=12.3))


def test_markdown() -> None:
    assert tables.markdown(PLAIN) == (
        "**Success, %**\n\n"
        "| hash | Budget | Original | Ours | paper: Ours |\n|---|---|--:|--:|--:|\n"
        "| pdq | ℓ₂ ≤ 40 | 50.0 (25.0–75.0) | – | *12.3* |\n\nA note.\n"
    )


def test_csv_has_one_figure_a_line_and_says_whose_it_is() -> None:
    lines = list(csv.DictReader(io.StringIO(tables.tidy(PLAIN))))
    assert [(line["source"], line["value"], line["low"], line["n"]) for line in lines] == [
        ("run", "50", "25", "4"),
        ("paper", "12.3", "", ""),
    ]


def test_latex() -> None:
    text = tables.latex(PLAIN)
    assert r"pdq & $\ell$$_2$ $\leq$ 40 & 50.0 {\scriptsize(25.0--75.0)} & -- & \textcolor{gray}{12.3} \\" in text
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}") == 1
    assert text.count(r"\cmidrule(lr){3-4}\cmidrule(lr){5-5}") == 1


@pytest.mark.parametrize("name", NAMES)
def test_names_stay_inside_their_markdown_cell(name: str) -> None:
    text = tables.markdown(table(row(name, Figure(0.5, None, None, 4), None), row("other", None, None)))
    body = text.splitlines()[4]
    assert len(re.findall(r"(?<!\\)\|", body)) == 6
    assert "<" not in body
    assert "](" not in body.replace(r"\]", "")
    assert body.isprintable()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_in_latex(name: str) -> None:
    text = escape.latex(name)
    commands = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#%_]", "", text)
    assert not set(commands) & set("\\{}$&#%_^~")
    text.encode()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_neither_formulas_nor_lines_in_csv(name: str) -> None:
    written = tables.tidy(table(row(name, Figure(0.5, None, None, 4), None), row("other", None, None)))
    (line,) = csv.DictReader(io.StringIO(written))
    assert line["hash"].lstrip()[:1] not in {"=", "+", "-", "@"}
    assert written.count("\n") == 2
    written.encode()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_in_html(name: str) -> None:
    text = escape.html(name)
    assert not set(text) & set("<>\"'")
    text.encode()


def test_no_figure_prints_as_a_dash() -> None:
    for figure in (None, Figure(math.nan, None, None, 0), Figure(math.inf, None, None, 0)):
        cell = Cell(figure)
        assert (cell.text, cell.interval, cell.shown) == ("–", "", None)
    for form in tables.RENDERINGS.values():
        written = form(table(row("a", Figure(math.nan, math.nan, math.inf, 0), Figure(1.0, None, None, 1))))
        assert "inf" not in written.replace("infty", "")


def test_bounds_and_open_ends() -> None:
    assert Cell(Figure(180.0, 90.0, None, 3, ">")).text == "> 180.0"
    assert Cell(Figure(180.0, 90.0, None, 3, ">")).interval == "≥ 90.0"
    assert Cell(Figure(1.0, None, 2.0, 3, "≤")).interval == "≤ 2.0"
    assert Cell(Figure(-0.001, None, None, 3)).text == "0.0"


def marks(*values: float | None, lower: bool = True, bound: str = "") -> list[bool]:
    cells = [Cell(None if v is None else Figure(v, None, None, 1, bound if v == 180 else "")) for v in values]
    return [cell.best for cell in best_marked(cells, lower=lower)]


def test_the_best_of_a_row() -> None:
    assert marks(3.0, 1.0, 2.0) == [False, True, False]
    assert marks(3.0, 1.0, 2.0, lower=False) == [True, False, False]
    assert marks(1.0, None, 1.04, 2.0) == [True, False, True, False]  # equal as shown
    assert marks(1.0, 1.0) == [False, False]
    assert marks(None, 1.0) == [False, False]
    assert marks(200.0, 180.0, lower=False, bound=">") == [False, True]  # above every budget


def test_what_nobody_has_a_figure_for_is_left_out() -> None:
    kept = table(row("a", None, Figure(0.5, None, None, 1)), row("b", None, None)).trimmed()
    assert [r.group for r in kept.rows] == ["a"]
    assert kept.paper_columns == ()
    assert kept.rows[0].paper == ()
    assert "paper" not in tables.markdown(kept)


def test_a_table_without_hashes_has_no_hash_column() -> None:
    ungrouped = table(row("", Figure(0.5, None, None, 1), None))
    assert tables.markdown(ungrouped).splitlines()[2].startswith("| Budget |")
    assert r"\begin{tabular}{lrrr}" in tables.latex(ungrouped)


def test_an_empty_table_is_harmless() -> None:
    for form in tables.RENDERINGS.values():
        assert form(table().trimmed())
