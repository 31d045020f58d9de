"""Escape untrusted text (file names, names of hashes) for HTML, Markdown, LaTeX and CSV."""

from __future__ import annotations

import html as _html
import re
import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "ℓ": r"$\ell$",
    "₂": "$_2$",
    "∞": r"$_\infty$",
    "σ": r"$\sigma$",
    "²": r"$^2$",
    "°": r"$^\circ$",
    "\ufffd": "?",
}


def plain(text: object) -> str:
    """Return text on one line; control, direction and unencodable characters become a replacement character."""
    return "".join("\ufffd" if unicodedata.category(letter) in _INVISIBLE else letter for letter in str(text))


def html(text: object) -> str:
    """Escape text for HTML text and quoted attributes."""
    return _html.escape(plain(text), quote=True)


def markdown(text: object) -> str:
    """Escape text for a cell of a Markdown table, so that it contains no HTML, no markup and no end of the cell."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|~#$])", r"\\\1", escaped).replace("://", ":&#47;/").replace("@", "&#64;")


def latex(text: object) -> str:
    """Escape text for LaTeX."""
    return "".join(_LATEX.get(letter, letter) for letter in plain(text))


def spreadsheet(text: object) -> str:
    """Escape text for a CSV cell, so that a spreadsheet does not read it as a formula."""
    cleaned = plain(text)
    return f"'{cleaned}" if cleaned.lstrip()[:1] in {"=", "+", "-", "@"} else cleaned
