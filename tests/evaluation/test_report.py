from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from dualshield.evaluation.plan.plan import PARTS
from dualshield.evaluation.report import gallery, html, method, paper_figures, plots, sections
from dualshield.evaluation.report import report as writer
from dualshield.evaluation.report._plot_style import Plot
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.run.records import Run
from dualshield.transforms import EVERYDAY_EDITS, PAPER_TRANSFORMS
from tests.helpers import synthetic_run
from tests.helpers.command_line import complaint, run

HOSTILE = '<script>alert("x")</script>$\\frac{$|*\x00\u202e日本'
VOID = {"meta", "img"}


class Reader(HTMLParser):
    """What a browser would show; refuses tags that do not close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of one hash that the paper has, with pictures; its report is written once."""
    path = synthetic_run.write(tmp_path_factory.mktemp("run"), images=3, gallery=1)
    assert run("report", path) == 0
    return path


@pytest.fixture(scope="module")
def page(folder: Path) -> Reader:
    return Reader((folder / "report" / "index.html").read_text(encoding="utf-8"))


def undrawn(path: Path) -> Reader:
    """The page of a run without its plots, which are slow and seldom what a test is about."""
    opened = Run.open(path)
    found = Results(opened)
    shown = gallery.exhibits(opened, found)
    return Reader(html.render(html.Page("title", (), sections.build(found), [], shown, method.describe(opened, found))))


def test_the_sections_are_there_in_order(page: Reader) -> None:
    names = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert names == [
        *("summary", "certified", "whitebox", "blackbox", "adaptive", "transforms", "collisions", "quality"),
        *("ablation", "profiles", "gallery", "method"),
    ]
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links == [f"#{name}" for name in names]


def test_the_page_needs_nothing_else(page: Reader) -> None:
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    addresses = [
        value or "" for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")
    ]
    assert all(address.startswith(("#", "data:image/jpeg;base64,")) for address in addresses)
    text = "".join(
        value or "" for tag, attributes in page.tags for name, value in attributes.items() if name == "style"
    )
    assert "http" not in text


def test_inline_plots_share_no_ids_and_find_their_own(page: Reader) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = {
        (value or "")[1:]
        for tag, attributes in page.tags
        if tag == "use"
        for name, value in attributes.items()
        if name == "href"
    }
    assert used
    assert used <= set(ids)
    assert sum(tag == "svg" for tag, _ in page.tags) == 7


def test_ours_stands_beside_the_papers_and_is_told_apart(folder: Path, page: Reader) -> None:
    text = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert '<td class="published">20.6</td>' in text  # white-box, ours, of the paper's summary
    assert '<td class="published">0.2987</td>' in text
    assert "The paper" in page.text
    assert "This run" in page.text


def test_nothing_is_printed_that_is_no_number(folder: Path, page: Reader) -> None:
    words = re.findall(r"[a-z]+", page.text.lower())
    assert not {"nan", "inf"} & set(words)
    assert "None" not in page.text
    for file in (folder / "report" / "tables").iterdir():
        assert "nan" not in file.read_text(encoding="utf-8").split()


def test_all_files_are_there(folder: Path) -> None:
    out = folder / "report"
    listed = json.loads((out / "files.json").read_text(encoding="utf-8"))
    there = {str(file.relative_to(out)) for file in out.rglob("*") if file.is_file()}
    assert there == {*listed, "files.json", "index.html"}
    for kind in ("md", "csv", "tex"):
        assert (out / "tables" / f"whitebox.{kind}").stat().st_size > 100
    for plot in ("certified-1-neuralhash", "radar-1-neuralhash", "transforms-1-neuralhash", "ablation"):
        ElementTree.fromstring((out / "figures" / f"{plot}.svg").read_bytes())
        with Image.open(out / "figures" / f"{plot}.png") as picture:
            assert picture.width > 800
    for link in re.findall(r"\]\((figures/[^)]+)\)", (out / "report.md").read_text(encoding="utf-8")):
        assert (out / link).exists()


def test_the_gallery_shows_hardening_and_attacks(page: Reader) -> None:
    titles = [attributes["alt"] or "" for tag, attributes in page.tags if tag == "img"]
    assert len(titles) == 3 * 7
    assert titles[0] == "Original, neuralhash: coco/synthetic-000.jpg"
    assert sum(title.startswith("Difference ×10") for title in titles) == 3 * 3


def test_the_same_run_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    writer.report(Run.open(folder), tmp_path / "again")
    for file in (folder / "report").rglob("*.*"):
        assert (tmp_path / "again" / file.relative_to(folder / "report")).read_bytes() == file.read_bytes()


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    config = {"note": HOSTILE, "unreadable": [{"image": HOSTILE, "reason": HOSTILE}, HOSTILE], "date": HOSTILE}
    synthetic_run.write(tmp_path, hashes=(HOSTILE,), datasets=(HOSTILE, "</td>"), images=2, config=config)
    writer.report(Run.open(tmp_path), tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "\x00" not in text
    assert 'alert("x")' in Reader(text).text
    assert len({file.name for file in (tmp_path / "out" / "figures").iterdir()}) == 14
    for file in (tmp_path / "out" / "figures").glob("*.svg"):
        ElementTree.fromstring(file.read_bytes())
    assert "<script" not in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_hostile_names_in_the_gallery_are_only_text(tmp_path: Path) -> None:
    opened = Run.open(synthetic_run.write(tmp_path, parts=("collisions",), images=1))
    shown = [gallery.Exhibit(HOSTILE, HOSTILE, HOSTILE, ((gallery.Tile(HOSTILE, HOSTILE, b""),),))]
    text = html.render(
        html.Page(HOSTILE, ((HOSTILE, HOSTILE),), [], [], shown, method.describe(opened, Results(opened)))
    )
    assert "<script" not in text
    (picture,) = [attributes for tag, attributes in Reader(text).tags if tag == "img"]
    assert set(picture) == {"alt", "src"}


def test_text_in_a_plot_is_not_taken_for_markup() -> None:
    words = 'id="b" url(#c) : #1f2328 &lt;script>'
    svg = f'<svg viewBox="0 0 1 1"><g id="a"><text style="fill: #1f2328">{words}</text></g></svg>'
    inline = html.inline(Plot("name", "kind", '"><script>', svg.encode(), b""))
    assert 'id="name-a"' in inline
    assert f">{words}</text>" in inline
    assert "fill: var(--ink)" in inline
    assert "<script" not in inline


def test_a_run_of_some_parts_says_which_are_missing(tmp_path: Path) -> None:
    path = synthetic_run.write(tmp_path, hashes=("pdq",), parts=("whitebox",), images=2, metrics=False)
    page = undrawn(path)
    assert "Not part of this run: certification, the adaptive attack" in page.text
    assert page.text.count(sections.NOT_RUN) == 5
    assert "LPIPS of attacked images was not measured" in page.text
    assert "The paper has no figures for pdq." in page.text
    assert [plot.kind for plot in plots.draw_all(Results(Run.open(path)))] == ["whitebox", "ablation"]


def test_missing_extras_are_named_and_few_images_are_warned_of(tmp_path: Path) -> None:
    without = undrawn(synthetic_run.write(tmp_path / "without", parts=("quality",), images=2, metrics=False))
    assert "FID was not measured" in without.text
    assert "LPIPS was not measured" in without.text
    measured = undrawn(synthetic_run.write(tmp_path / "with", parts=("quality",), images=2))
    assert "FID is biased upwards on few images: here 2" in measured.text


def test_the_papers_transformations_and_the_everyday_edits_have_tables_of_their_own(tmp_path: Path) -> None:
    path = synthetic_run.write(
        tmp_path, variants=("both", "views", "original"), parts=("transforms", "whitebox"), images=2
    )
    found = Results(Run.open(path))
    assert found.variants == ["original", "views", "both"]
    tables = {table.name: table for section in sections.build(found) for table in section.tables}
    published, edits = tables["transforms"], tables["edits"]
    assert [row.label for row in published.rows] == [transform.name for transform in PAPER_TRANSFORMS]
    rest = [edit.name for edit in EVERYDAY_EDITS]
    rest.insert(rest.index("resize-0.25") + 1, "resize-0.5")
    assert [row.label for row in edits.rows] == rest
    assert edits.title.startswith("Everyday edits")
    assert all(row.heat and all(cell.interval for cell in row.cells) for row in edits.rows)
    assert edits.columns == ("Original", "Plain hash with views", "Both shields")
    assert edits.paper_columns == ()
    labels = [row.label for row in tables["transforms-lowest"].rows]
    assert labels == [*paper_figures.FAMILIES, "average"]
    assert tables["whitebox"].columns == ("Original", "Both shields")  # there is nothing to say of views
    assert all(len(row.cells) == 2 for row in tables["whitebox"].rows)
    drawn = {plot.kind: plot.svg.decode() for plot in plots.draw_all(found)}
    assert drawn.keys() == {"whitebox", "transforms", "ablation"}
    assert "Plain hash with views" in drawn["transforms"]
    assert "Plain hash with views" not in drawn["ablation"]
    assert "caption-bar" not in drawn["transforms"]
    assert "Views is the plain hash with views" in undrawn(path).text


def test_only_the_papers_transformations_are_in_the_papers_figures(tmp_path: Path) -> None:
    """A run that has the same names, but does not say that they are the paper's."""
    path = synthetic_run.write(tmp_path, parts=("transforms",), images=1)
    results = path / "results.jsonl"
    results.write_text(results.read_text(encoding="utf-8").replace('"paper": true', '"paper": false'), encoding="utf-8")
    found = Results(Run.open(path))
    assert found.lowest_evasion("neuralhash", "both") is None
    tables = {table.name for section in sections.build(found) for table in section.tables}
    assert "edits" in tables
    assert "transforms" not in tables


def test_images_that_could_not_be_enrolled_are_counted(tmp_path: Path) -> None:
    path = synthetic_run.write(tmp_path, hashes=("pdq",), parts=("whitebox", "transforms"), images=2)
    lines = [
        {"key": ["whitebox", "pdq", "both", "coco", "flat.png", "40"], "result": {"unmatched": True, "refused": True}},
        {"key": ["whitebox", "pdq", "both", "coco", "flat.png", "90"], "result": {"unmatched": True, "refused": True}},
        {"key": ["whitebox", "pdq", "both", "coco", "other.png", "40"], "result": {"unmatched": True}},
        {"key": ["certified", "pdq", "both", "coco", "flat.png", "identity"], "result": {"method": "refused"}},
        {"key": ["certified", "pdq", "smoothing", "coco", "flat.png", "identity"], "result": {"method": "refused"}},
        {"key": ["certified", "pdq", "smoothing", "coco", "grey.png", "identity"], "result": {"method": "refused"}},
    ]
    with (path / "results.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    opened = Run.open(path)
    described = method.describe(opened, Results(opened))
    counts = {(entry.part, entry.variant): entry.refused for entry in described.coverage if entry.refused}
    assert counts == {("whitebox", "both"): 1, ("certified", "both"): 1, ("certified", "smoothing"): 2}
    (warning,) = [line for line in described.warnings if "enrolled" in line]
    assert "2 images (pdq, smoothing), 1 image (pdq, both)" in warning
    page = undrawn(path)
    assert "Images that could not be enrolled" in page.text
    assert warning in page.text


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    names = {f"synthetic-{index:03}.jpg": "0" for index in range(3)}
    config = {
        "data": dict.fromkeys(synthetic_run.DATASETS, names),
        "parameters": {"budgets": [40, 90, 180], "cost_budgets": list(synthetic_run.COST_BUDGETS)},
    }
    synthetic_run.write(tmp_path, parts=("whitebox", "adaptive", "certified"), images=3, config=config)
    assert "not finished" not in undrawn(tmp_path).text
    results = tmp_path / "results.jsonl"
    lines = [
        line
        for line in results.read_text(encoding="utf-8").splitlines()
        if '"90"]' not in line or "adaptive" not in line
    ]
    results.write_text("\n".join(lines), encoding="utf-8")
    page = undrawn(tmp_path)
    assert "This run is not finished (the adaptive attack)." in page.text
    coverage = method.describe(Run.open(tmp_path), Results(Run.open(tmp_path))).coverage
    assert {(entry.done, entry.expected) for entry in coverage if entry.part == "adaptive"} == {(63, 72)}


def test_any_configuration_and_any_result_is_survived(tmp_path: Path) -> None:
    synthetic_run.write(tmp_path, images=1)
    config = {"hashes": 3, "variants": None, "parts": {"a": 1}, "data": [1], "parameters": [], "warnings": "x"}
    (tmp_path / "config.json").write_text(json.dumps({**config, "seed": float("nan")}), encoding="utf-8")
    odd: list[Any] = [None, "x", [], {}, True, float("nan"), float("inf"), -1, 10**400]
    fields = ("radius", "success", "evaded", "collided", "fid", "images", "ssim", "lpips", "l2", "decision", "paper")
    with (tmp_path / "results.jsonl").open("a", encoding="utf-8") as file:
        for part in (*PARTS, "fid", "unknown"):
            for index, value in enumerate(odd):
                key = [part, "neuralhash", "both", "coco", f"odd-{index}", str(value)]
                file.write(json.dumps({"key": key, "result": dict.fromkeys(fields, value)}) + "\n")
    page = undrawn(tmp_path)
    assert not {"nan", "inf"} & set(re.findall(r"[a-z]+", page.text.lower()))


def test_pictures_outside_of_the_run_are_not_shown(tmp_path: Path) -> None:
    path = synthetic_run.write(tmp_path / "run", parts=("quality",), datasets=("coco",), images=1, gallery=1)
    secret = tmp_path / "secret.png"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(secret)
    originals = path / "images" / "original" / "coco"
    for name in ("../../../../secret", str(tmp_path / "secret"), "link", "\x00"):
        lines = [{"key": ["quality", "neuralhash", "both", "coco", name, ""], "result": {"ssim": 1.0}}]
        (path / "results.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        (originals / "link.png").unlink(missing_ok=True)
        (originals / "link.png").symlink_to(secret)
        opened = Run.open(path)
        assert gallery.exhibits(opened, Results(opened)) == []


def test_broken_pictures_are_left_out(tmp_path: Path) -> None:
    path = synthetic_run.write(tmp_path, parts=("quality", "whitebox"), datasets=("coco",), images=1, gallery=1)
    published = path / "images" / "published" / "neuralhash" / "both" / "coco" / "synthetic-000.jpg.png"
    published.write_bytes(published.read_bytes()[:100])
    opened = Run.open(path)
    (exhibit,) = gallery.exhibits(opened, Results(opened))
    assert [[tile.title for tile in row] for row in exhibit.rows] == [
        ["Original"],
        ["Attack on original", "Difference ×10"],
    ]
    shutil.rmtree(path / "images")
    assert gallery.exhibits(opened, Results(opened)) == []
    assert html.NO_GALLERY in undrawn(path).text


def test_a_later_report_clears_away_only_what_was_its_own(tmp_path: Path) -> None:
    path = synthetic_run.write(tmp_path / "run", parts=("collisions",), images=1)
    out = tmp_path / "out"
    (out / "tables").mkdir(parents=True)
    for name in ("tables/old.md", "tables/mine.md", "notes.txt", "../beside.txt"):
        (out / name).write_text("x", encoding="utf-8")
    (out / "files.json").write_text(
        json.dumps(["tables/old.md", "../beside.txt", "../run/config.json", "notes.txt", 3]), encoding="utf-8"
    )
    assert run("report", path, "--out", out) == 0
    assert not (out / "tables" / "old.md").exists()
    assert (out / "tables" / "mine.md").exists()
    assert (out / "notes.txt").exists()
    assert (tmp_path / "beside.txt").exists()
    assert (path / "config.json").exists()
    assert not list(out.rglob("*.partial"))


def test_a_page_of_somebody_else_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = synthetic_run.write(tmp_path / "run", parts=("collisions",), images=1)
    (tmp_path / "index.html").write_text("my homepage", encoding="utf-8")
    assert run("report", path, "--out", tmp_path) == 2
    assert "choose another folder" in complaint(capsys)
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == "my homepage"
    assert run("report", path, "--out", tmp_path / "index.html") == 2
    assert "is not a DualShield report" in complaint(capsys)


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", tmp_path / "nowhere") == 2
    assert "is not a run folder" in complaint(capsys)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "results.jsonl").write_text("", encoding="utf-8")
    assert run("report", tmp_path) == 2
    assert "holds no results yet" in complaint(capsys)
    assert not (tmp_path / "report").exists()
