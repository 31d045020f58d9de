"""The style sheet of the report's page: light, dark, phone and print; without scripts and external fonts."""

from __future__ import annotations

from importlib import resources

from dualshield.evaluation.report._plot_style import COLOURS, GRID, INK, MUTED, OTHER_COLOUR, PAGE

# Colours of plots, and the CSS variables that replace them on the page.
THEMED = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAGE: "--page",
    OTHER_COLOUR: "--other",
    **{colour: f"--{variant}" for variant, colour in COLOURS.items()},
}
DARK = {
    "--ink": "#e7e9ec",
    "--muted": "#9ba4ae",
    "--grid": "#2b3138",
    "--page": "#101317",
    "--other": "#dfa0c4",
    "--original": "#a3a7ae",
    "--views": "#e8b84a",
    "--smoothing": "#f0883e",
    "--hardening": "#35c598",
    "--both": "#5ab0ec",
}
_LIGHT_ONLY = (
    "--raised:#f7f8f9;--published:#faf6ec;--published-ink:#7a6320;--warn:#fff6e0;--warn-line:#d9a400;--best:#e8f2f9;"
)
_DARK_ONLY = (
    "--raised:#171b20;--published:#1d1a12;--published-ink:#c9b27a;--warn:#241d0c;--warn-line:#a37d12;--best:#15293a;"
)


def style_sheet() -> str:
    """Return the contents of the style element: the colours, then the rules of ``templates/page.css``."""
    light = "".join(f"{name}:{colour};" for colour, name in THEMED.items()) + _LIGHT_ONLY
    dark = "".join(f"{name}:{colour};" for name, colour in DARK.items()) + _DARK_ONLY
    rules = (resources.files(__package__) / "templates" / "page.css").read_text(encoding="utf-8")
    root = f":root{{color-scheme:light dark;{light}}}"
    # Dark colours on screens only, because paper is white.
    return f"{root}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{rules}"
