"""Comparing runs whose truth is known, because it was written by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dualshield.evaluation.compare import Line, _order, compare
from dualshield.evaluation.intervals import bootstrap_difference, bootstrap_mean, fisher, mcnemar
from dualshield.evaluation.run.records import CONFIG, RESULTS, Run
from tests.helpers.command_line import complaint, run

Entry = tuple[str, str, str, dict[str, Any]]  # part, image, detail, result


def written(folder: Path, entries: Iterable[Entry], *, salt: str = "", **config: Any) -> Path:
    """A run of hash h, variant ours, dataset d; files with another salt are other files."""
    folder.mkdir()
    entries = list(entries)
    files = {image: salt + image for _, image, _, _ in entries}
    settings = {"protocol": "default", "seed": 1, "data": {"d": files}, **config}
    (folder / CONFIG).write_text(json.dumps(settings))
    lines = [
        json.dumps({"key": [part, "h", "both", "d", image, detail], "result": result})
        for part, image, detail, result in entries
    ]
    (folder / RESULTS).write_text("\n".join(lines))
    return folder


def attacks(successes: int, total: int = 20) -> list[Entry]:
    return [("whitebox", f"{index}.png", "40", {"success": index < successes}) for index in range(total)]


def radii(shift: float, total: int = 20) -> list[Entry]:
    """Very different images, each moved by about the same."""
    generator = random.Random(3)
    return [
        (
            "certified",
            f"{index}.png",
            "identity",
            {"decision": "match", "radius": 5 * index + shift * (1 + generator.random())},
        )
        for index in range(total)
    ]


def lines(first: Path, second: Path) -> dict[str, Line]:
    return {line.metric: line for line in compare(Run.open(first), Run.open(second)).lines}


def test_rates_are_compared_image_by_image(tmp_path: Path) -> None:
    found = lines(written(tmp_path / "a", attacks(12)), written(tmp_path / "b", attacks(4)))["whitebox success at 40"]
    assert found.first is not None
    assert (found.first.value, found.first.images) == (0.6, 20)
    assert found.difference == pytest.approx(-0.4)
    assert found.p == pytest.approx(2 * 0.5**8)  # eight images changed, all the same way
    assert found.verdict == "better"
    assert lines(tmp_path / "b", tmp_path / "a")["whitebox success at 40"].verdict == "worse"
    assert lines(tmp_path / "a", tmp_path / "a")["whitebox success at 40"].verdict == "within chance"


def test_pairs_show_what_two_samples_cannot(tmp_path: Path) -> None:
    first = written(tmp_path / "a", radii(0.0))
    same, other = written(tmp_path / "b", radii(1.0)), written(tmp_path / "c", radii(1.0), salt="other ")
    paired = lines(first, same)["certified radius, identity"]
    assert (paired.verdict, paired.pairs) == ("better", 20)
    assert paired.interval is not None
    assert 1 < paired.interval[0] < paired.interval[1] < 2
    apart = lines(first, other)["certified radius, identity"]
    assert (apart.verdict, apart.pairs) == ("within chance", 0)


def test_a_radius_counts_only_for_a_match(tmp_path: Path) -> None:
    entries: list[Entry] = [
        ("certified", "a.png", "jpeg-95", {"decision": "no_match", "radius": 3.0}),
        ("certified", "b.png", "crop-0.9", {"decision": "match", "radius": 1.0}),
    ]
    found = lines(written(tmp_path / "a", entries), tmp_path / "a")["certified radius, benign variants"]
    assert found.first is not None
    assert found.first.value == 0.5
    assert found.verdict == "too few"
    assert found.first.low is None


def test_several_transformations_of_one_image_are_one_image(tmp_path: Path) -> None:
    entries: list[Entry] = [
        ("transforms", "a.png", name, {"evaded": index < 1, "paper": True})
        for index, name in enumerate(("crop-0.7", "jpeg-95"))
    ]
    found = lines(written(tmp_path / "a", entries), tmp_path / "a")
    both = found["transformations evade, all of the paper"].first
    mildest = found["transformations evade, lowest intensity"].first
    assert both is not None
    assert mildest is not None
    assert (both.value, both.images, mildest.value) == (0.5, 1, 0.0)


def transformed(*names: str, evaded: str = "") -> list[Entry]:
    return [
        ("transforms", f"{image}.png", name, {"evaded": name == evaded, "paper": name != "flip-1"})
        for image in range(8)
        for name in names
    ]


def test_only_transformations_that_both_runs_have_are_compared(tmp_path: Path) -> None:
    first = written(tmp_path / "a", transformed("jpeg-95", "crop-0.9", "flip-1", evaded="flip-1"))
    second = written(tmp_path / "b", transformed("jpeg-95", "crop-0.9", "border-0.05", evaded="border-0.05"))
    found = compare(Run.open(first), Run.open(second))
    assert "the runs have different transformations: 3 and 3; the 2 in both are compared" in found.notes
    values = {line.metric: (line.first and line.first.value, line.second and line.second.value) for line in found.lines}
    assert values == {
        "transformations evade, all of the paper": (0.0, 0.0),
        "transformations evade, lowest intensity": (0.0, 0.0),
        "everyday edits evade": (0.0, 0.0),  # crop-0.9 is one, too
    }
    alone = compare(Run.open(first), Run.open(first))
    assert not alone.notes
    (edits,) = [line.first for line in alone.lines if line.metric == "everyday edits evade"]
    assert edits is not None
    assert (edits.value, edits.images) == (0.5, 8)
    other = compare(Run.open(first), Run.open(written(tmp_path / "c", attacks(3, 8))))
    assert any(line.metric == "everyday edits evade" and line.verdict == "only one run" for line in other.lines)


def test_collisions_are_the_same_pair_either_way_round(tmp_path: Path) -> None:
    files = {"a.png": "1", "b.png": "2"}
    for name, image, other in (("x", "a.png", "b.png"), ("y", "b.png", "a.png")):
        entry: Entry = ("collisions", image, f"d/{other}", {"collided": name == "x"})
        written(tmp_path / name, [entry], data={"d": files})
    assert lines(tmp_path / "x", tmp_path / "y")["collisions"].pairs == 1


def test_differences_between_the_runs_are_said(tmp_path: Path) -> None:
    first = written(tmp_path / "a", attacks(3))
    second = written(tmp_path / "b", [*attacks(3, 10), *radii(0, 12)], protocol="paper")
    found = compare(Run.open(first), Run.open(second))
    assert "the runs differ in protocol: default and paper" in found.notes
    assert "the runs have different images: 20 and 12, 12 of them in both" in found.notes
    (certified,) = [line for line in found.lines if line.metric.startswith("certified")]
    assert (certified.first, certified.verdict) == (None, "only one run")


def test_hostile_records_are_passed_over(tmp_path: Path) -> None:
    entries: list[Entry] = [
        ("certified", "a.png", "identity", {"decision": "match", "radius": float("nan")}),
        ("certified", "a.png", "identity", {"decision": "match", "radius": "5"}),
        ("whitebox", "a.png", "40", {"success": "yes"}),
        ("whitebox", "a.png", "40", {"unmatched": True}),
        ("quality", "a.png", "", {"ssim": None}),
        ("nonsense", "a.png", "", {}),
    ]
    run_ = written(tmp_path / "a", entries, data=["not", "a", "mapping"])
    assert compare(Run.open(run_), Run.open(run_)).lines == ()


def test_intervals() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 5) == 1.0
    assert mcnemar(10, 0) == pytest.approx(2 * 0.5**10)
    assert fisher((0, 10), (0, 10)) == 1.0
    assert fisher((0, 20), (20, 20)) < 1e-6
    assert bootstrap_mean([1.0] * 5) is None
    assert bootstrap_mean([2.0] * 10) == (2.0, 2.0)
    low, high = bootstrap_mean([float(index % 2) for index in range(400)]) or (0, 0)
    assert (low, high) == pytest.approx((0.5 - 1.96 * 0.025, 0.5 + 1.96 * 0.025), abs=0.005)
    assert bootstrap_difference([0.0] * 10, [1.0] * 10) == (1.0, 1.0)
    assert bootstrap_difference([0.0] * 3, [1.0] * 10) is None


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = written(tmp_path / "a", attacks(12)), written(tmp_path / "b", attacks(4))
    assert run("compare", first, second) == 0
    out = capsys.readouterr().out
    assert "whitebox success at 40" in out
    assert "better" in out
    assert run("compare", first, second, "--json") == 0
    assert json.loads(capsys.readouterr().out)["lines"][0]["verdict"] == "better"
    for folder in (tmp_path / "missing", tmp_path):
        assert run("compare", first, folder) == 2
        assert "not a run folder" in complaint(capsys)


def test_lines_are_sorted_by_hash_variant_metric_and_budget() -> None:
    names = [
        ("pdq", "both", "adaptive success at 90"),
        ("pdq", "original", "collisions"),
        ("pdq", "both", "adaptive success at 5"),
        ("efflite", "both", "whitebox success at 40"),
        ("pdq", "smoothing", "certified radius, identity"),
        ("pdq", "both", "certified radius, identity"),
        ("pdq", "unknown", "something else"),
        ("pdq", "views", "everyday edits evade"),
    ]
    assert [names.index(name) for name in sorted(names, key=_order)] == [3, 1, 7, 4, 5, 2, 0, 6]
