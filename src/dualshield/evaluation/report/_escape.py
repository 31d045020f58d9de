"""Words from outside (file names, names of hashes) made harmless for the format they are written into."""

from __future__ import annotations

import html as _html
import re
import unicodedata

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
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
    """One line without control, direction or unencodable characters; those show as a replacement character."""
    return "".join("\ufffd" if unicodedata.category(letter) in _UNSEEN else letter for letter in str(text))


def html(text: object) -> str:
    """For HTML text and quoted attributes."""
    return _html.escape(plain(text), quote=True)


def markdown(text: object) -> str:
    """For a cell of a Markdown table: neither HTML nor markup nor the cell's end; < and & as entities."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|~#$])", r"\\\1", escaped).replace("://", ":&#47;/").replace("@", "&#64;")


def latex(text: object) -> str:
    """For LaTeX text."""
    return "".join(_LATEX.get(letter, letter) for letter in plain(text))


def spreadsheet(text: object) -> str:
    """For a CSV cell of words: a spreadsheet must not take it for a formula."""
    cleaned = plain(text)
    return f"'{cleaned}" if cleaned.lstrip()[:1] in {"=", "+", "-", "@"} else cleaned
