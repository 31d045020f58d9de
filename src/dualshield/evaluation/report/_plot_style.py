"""The style of plots, and writing them as SVG and PNG.

Every variant has the same colour and marker in all plots, which can be told apart without colour vision. The same
figures give the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dualshield._common.extras import require_extra
from dualshield.evaluation.report.rows import heading

with require_extra("report", "a report"):
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

INK, MUTED, GRID, PAGE = "#1f2328", "#656d76", "#e3e6ea", "#ffffff"
COLOURS = {"original": "#7d7f85", "views": "#e69f00", "smoothing": "#d55e00", "hardening": "#009e73", "both": "#0072b2"}
MARKERS = {"original": "o", "views": "P", "smoothing": "s", "hardening": "^", "both": "D"}
OTHER_COLOUR, OTHER_MARKER = "#cc79a7", "v"
BAND = 0.14
STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "text.parse_math": False,  # names are not formulas
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.titlepad": 9,
    "axes.unicode_minus": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.0,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "dualshield",
    "savefig.dpi": 200,
}


@dataclass(frozen=True)
class Plot:
    """A finished plot as SVG and PNG; ``alt`` describes it in words."""

    name: str
    kind: str
    alt: str
    svg: bytes
    png: bytes
    wide: bool = False


@contextmanager
def style() -> Iterator[None]:
    """Apply our style instead of the user's matplotlib settings, and silence warnings about missing glyphs."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)  # type: ignore[arg-type]  # its keys are a closed list of literals
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def colour(variant: str) -> str:
    """Return the colour of a variant."""
    return COLOURS.get(variant, OTHER_COLOUR)


def marker(variant: str) -> str:
    """Return the marker of a variant."""
    return MARKERS.get(variant, OTHER_MARKER)


def hollow(variant: str) -> dict[str, Any]:
    """Return the style of the marker for the paper's figure of a variant."""
    edge = colour(variant)
    return {"marker": marker(variant), "color": edge, "markerfacecolor": "none", "markeredgewidth": 1.1}


def legend(canvas: Canvas, variants: Sequence[str], *, paper: bool, dashed: bool = False) -> None:
    """Draw a legend below the plot: the variants and, with ``paper``, the marks of the paper's figures."""
    handles = [Line2D([], [], color=colour(v), marker=marker(v), label=heading(v)) for v in variants]
    if paper:
        look: dict[str, Any] = {"linestyle": (0, (3, 2)), "linewidth": 1.0} if dashed else {"linestyle": "none"}
        look |= {} if dashed else {"marker": "o", "markerfacecolor": "none"}
        handles.append(Line2D([], [], color=MUTED, label="paper", **look))
    canvas.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def finish(canvas: Canvas, name: str, kind: str, alt: str, *, wide: bool = False) -> Plot:
    """Return the plot as SVG and PNG, without dates."""
    svg, png = io.BytesIO(), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names too long for the layout overlap
        canvas.savefig(svg, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        canvas.set_layout_engine("none")  # reuse the layout of the SVG
        canvas.savefig(png, format="png", facecolor="white", metadata={"Software": None})
    return Plot(name, kind, alt, svg.getvalue(), png.getvalue(), wide)


def slug(text: str) -> str:
    """Return a part of a file name made from untrusted text; it may be empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
