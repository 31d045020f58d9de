"""Write the report of a run: one page, and the same tables and plots as files.

index.html            everything, in one file
report.md             the tables as Markdown
tables/NAME.{md,csv,tex}
figures/NAME.{svg,png}
files.json            the list of these files, so that the next report can remove old ones
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dualshield._common.files import write_atomically
from dualshield.errors import InputError
from dualshield.evaluation.report import _escape as escape
from dualshield.evaluation.report import gallery, html, method, plots, sections, tables
from dualshield.evaluation.report._plot_style import Plot
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.report.method import Coverage, Method
from dualshield.evaluation.report.sections import Section
from dualshield.evaluation.run.records import RESULTS, Run

INDEX = "index.html"
LISTING = "files.json"


def report(run: Run, out: Path, progress: Callable[[str], None] = lambda what: None) -> Path:
    """Write the report of a run, finished or not, into ``out``, and return the page, which is replaced last."""
    _check(out)
    progress("reading")
    found = Results(run)
    if not run.records:
        raise InputError(f"{run.folder / RESULTS} holds no results yet; run dualshield evaluate first")
    chapters = sections.build(found)
    progress("drawing")
    drawn = plots.draw_all(found)
    progress("writing")
    made = method.describe(run, found)
    title = ", ".join(found.hashes) or "no hash"
    page = html.Page(title, tuple(_facts(run, found)), chapters, drawn, gallery.exhibits(run, found), made)
    files = {f"tables/{t.name}.{kind}": form(t).encode() for t in _tables(chapters) for kind, form in _forms()}
    files |= {f"figures/{plot.name}.svg": plot.svg for plot in drawn}
    files |= {f"figures/{plot.name}.png": plot.png for plot in drawn}
    files["report.md"] = _markdown(title, chapters, drawn, made).encode()
    _write(out, files, html.render(page).encode())
    return out / INDEX


def _write(out: Path, files: dict[str, bytes], page: bytes) -> None:
    before = _listed(out)
    try:
        for folder in {(out / name).parent for name in files}:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {out}: {error.strerror or error}; choose another folder") from error
    for name, data in files.items():
        write_atomically(out / name, data)
    write_atomically(out / LISTING, (json.dumps(sorted(files), indent=1) + "\n").encode())
    write_atomically(out / INDEX, page)
    for name in before - files.keys():
        with suppress(OSError):
            (out / name).unlink()


def _check(out: Path) -> None:
    """Raise an error if ``out`` has a page that is not one of our reports, which must not be overwritten."""
    page = out / INDEX
    try:
        # is_file first, because reading a pipe would wait for a writer.
        ours = page.is_file() and html.GENERATOR.encode() in page.read_bytes()[:4096]
        foreign = page.exists() and not ours
    except OSError as error:
        raise InputError(f"cannot use {out}: {error.strerror or error}; choose another folder") from error
    if foreign or (out.exists() and not out.is_dir()):
        raise InputError(f"{page if foreign else out} is not a DualShield report; choose another folder")


def _listed(out: Path) -> set[str]:
    """Return the files of the last report; paths outside of its folders are ignored, as the list may be forged."""
    try:
        names = json.loads((out / LISTING).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    listed = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    return {name for name in listed if name.count("/") == 1 and name.split("/")[0] in ("tables", "figures")}


def _facts(run: Run, found: Results) -> list[tuple[str, str]]:
    images = {(r.key.dataset, r.key.image) for r in run.records if r.key.image and r.key.dataset in found.datasets}
    facts = [
        ("variants", ", ".join(found.variants)),
        ("datasets", ", ".join(found.datasets)),
        ("images", f"{len(images):,}"),
    ]
    facts += [(name, str(run.config[name])) for name in ("protocol", "seed", "date") if name in run.config]
    return [(name, value) for name, value in facts if value]


def _forms() -> list[tuple[str, Callable[[tables.Table], str]]]:
    return list(tables.RENDERINGS.items())


def _tables(chapters: list[Section]) -> list[tables.Table]:
    return [table for section in chapters for table in section.tables]


def _markdown(title: str, chapters: list[Section], drawn: list[Plot], made: Method) -> str:
    lines = [f"# Evaluation of {escape.markdown(title)}", ""]
    lines += [f"> {escape.markdown(warning)}  " for warning in made.warnings]
    for section in chapters:
        lines += ["", f"## {section.title}", "", escape.markdown(section.lead), ""]
        lines += [f"*{section.missing}*", ""] if section.missing else []
        lines += [tables.markdown(table) for table in section.tables]
        shown = [plot for plot in drawn if plot.kind == section.plot]
        lines += [f"![{escape.markdown(plot.alt)}](figures/{plot.name}.svg)" for plot in shown]
    lines += ["", "## How to read this", "", *(f"- {escape.markdown(line)}" for line in made.reading)]
    lines += [
        "",
        "## Coverage",
        "",
        "| part | hash | variant | records | of | did not match before | images that could not be enrolled |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    lines += [_covered(entry) for entry in made.coverage]
    lines += ["", "## How this run was made", "", "| | |", "|---|---|"]
    lines += [f"| {escape.markdown(name)} | {escape.markdown(value)} |" for name, value in made.facts]
    return "\n".join(lines) + "\n"


def _covered(entry: Coverage) -> str:
    expected = "" if entry.expected is None else f"{entry.expected:,}"
    words = " | ".join(map(escape.markdown, (entry.part, entry.hash, entry.variant)))
    return f"| {words} | {entry.done:,} | {expected} | {entry.unmatched:,} | {entry.refused:,} |"
