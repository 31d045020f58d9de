"""Several runs as one: what may differ, and what cannot be added up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dualshield.errors import InputError
from dualshield.evaluation.report import gallery
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.run.merge import merge
from dualshield.evaluation.run.records import CONFIG, RESULTS, Run
from tests.helpers import synthetic_run
from tests.helpers.command_line import complaint, run


def part(folder: Path, first: int, datasets: tuple[str, ...] = ("coco",), **config: Any) -> Path:
    """A run of two images of each dataset, named by their places, with their pictures."""
    data = {dataset: {f"{first + index}.jpg": "0" for index in range(2)} for dataset in datasets}
    synthetic_run.write(
        folder,
        parts=("quality",),
        datasets=datasets,
        images=2,
        gallery=1,
        config={"data": data, "parameters": {}, **config},
    )
    for index in range(2):
        old, new = f"synthetic-{index:03}.jpg", f"{first + index}.jpg"
        text = (folder / RESULTS).read_text().replace(old, new)
        (folder / RESULTS).write_text(text)
        for file in (folder / "images").rglob(f"{old}*"):
            file.rename(file.with_name(file.name.replace(old, new)))
    return folder


def test_one_run_stays_as_it_is(tmp_path: Path) -> None:
    opened = Run.open(part(tmp_path, 0))
    assert merge([opened]) is opened
    assert opened.singles == (opened,)


def test_images_add_up_and_fid_does_not(tmp_path: Path) -> None:
    runs = [
        Run.open(part(tmp_path / "a", 0, ("coco", "imagenet"), skip=0, limit=2, date="2026-11-16", duplicates=["x"])),
        Run.open(part(tmp_path / "b", 2, skip=2, limit=2, date="2026-11-17", duplicates=["y"])),
    ]
    merged = merge(runs)
    found = Results(merged)
    assert merged.singles == tuple(runs)
    ssim = found.quality("neuralhash", "both", "all", "ssim")
    assert ssim is not None
    assert ssim.count == 6
    # ImageNet is in one run only, COCO in both, and so is the set of all.
    measured = {d: found.fid("neuralhash", "both", d, "hardened") for d in ("coco", "imagenet", "all")}
    assert {dataset for dataset, figure in measured.items() if figure} == {"imagenet"}
    assert list(merged.config["data"]["coco"]) == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert merged.config["duplicates"] == ["x", "y"]
    assert merged.config["runs"]["2"]["skip"] == 2
    assert "date" not in merged.config
    shown = {(exhibit.dataset, exhibit.image) for exhibit in gallery.exhibits(merged, found)}
    assert shown == {("coco", "0.jpg"), ("imagenet", "0.jpg"), ("coco", "2.jpg")}


def test_what_cannot_be_reported_as_one_is_refused(tmp_path: Path) -> None:
    first = Run.open(part(tmp_path / "first", 0))
    for name, config, message in (
        ("seed", {"seed": 1}, "seed is 2026 and 1; merge only runs with the same options"),
        ("weights", {"defences": {"pdq": {"weights": "a"}}}, "defences is null and"),
        ("nothing", {"data": None}, "does not list its images"),
        ("odd", {"data": {"coco": 3}}, "does not list its images"),
        ("again", {}, "coco/1.jpg, as does another run"),
    ):
        other = part(tmp_path / name, 1)
        settings = json.loads((other / CONFIG).read_text())
        (other / CONFIG).write_text(json.dumps({**settings, **config}))
        with pytest.raises(InputError, match=message):
            merge([first, Run.open(other)])


def test_a_report_of_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [part(tmp_path / "a", 0), part(tmp_path / "b", 2)]
    assert run("report", *runs) == 2
    assert "--out" in complaint(capsys)
    assert run("report", runs[0], runs[0], "--out", tmp_path / "both") == 2
    assert "as does another run" in complaint(capsys)
    assert run("report", *runs, "--out", tmp_path / "both") == 0
    text = (tmp_path / "both" / "report.md").read_text(encoding="utf-8")
    assert "report of 2 runs on different images" in text
    assert "| runs.2.date | 2026-11-16 |" in text
    assert "| quality | neuralhash | both | 4 | 4 |" in text
    assert not (runs[0] / "report").exists()
