"""Whole runs: what they leave behind, and that nothing is lost or different when they are killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dualshield.evaluation.plan.plan import Plan
from dualshield.evaluation.plan.protocol import Protocol
from dualshield.evaluation.run.records import CONFIG, RESULTS, Key
from dualshield.evaluation.run.run import run_plan
from dualshield.hardening.harden import Hardener
from dualshield.images import CanonicalImage, load_image
from dualshield.smoothing.deploy import deploy
from tests.helpers.cheap_run import cheap
from tests.helpers.interrupted import Killed, killed_at, results


def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    data: Path, tmp_path: Path, small: Protocol, extras: None
) -> None:
    """All parts of the variant that does everything; the second run is killed between pieces and within one."""
    plan = Plan((deploy("pdq", method="votes"),), ("both",), protocol=small, limit=2)
    summary = run_plan(plan, [data], tmp_path / "whole")
    whole = results(tmp_path / "whole")
    assert summary.records == len(whole)

    out = tmp_path / "resumed"
    with pytest.raises(Killed):
        run_plan(plan, [data], out, progress=killed_at(4))
    # A line that the kill cut short, of a record in the middle of a piece.
    lines = (out / RESULTS).read_text().splitlines(keepends=True)
    (out / RESULTS).write_text("".join(lines[:-1]) + lines[-1][:40])
    with pytest.raises(Killed):
        run_plan(plan, [data], out, resume=True, progress=killed_at(7))
    run_plan(plan, [data], out, resume=True)
    assert results(out) == whole

    _check_records(whole)
    _check_images(tmp_path / "whole", data)


def _check_records(found: dict[Key, dict[str, Any]]) -> None:
    details: dict[tuple[str, str, str], set[str]] = {}
    for key in found:
        details.setdefault((key.part, key.variant, key.image), set()).add(key.detail)
    for image in ("astronaut.png", "chelsea.png"):
        assert details["whitebox", "both", image] == details["blackbox", "both", image] == {"40", "90"}
        assert details["adaptive", "both", image] == {"2", "20"}
        assert "identity" in details["certified", "both", image]
        assert len(details["certified", "both", image]) == 2
    assert details["transforms", "both", "astronaut.png"] == {"jpeg-95", "noise-0.01", "flip-1"}
    assert ("transforms", "both", "chelsea.png") not in details  # beyond the protocol's images
    assert sum(key.part == "collisions" for key in found) == 1
    assert details["fid", "both", ""] == {"40", "90", "hardened"}
    assert {key.dataset for key in found if key.part == "fid"} == {"photos", "all"}
    by_part: dict[str, list[dict[str, Any]]] = {}
    for key, result in found.items():
        by_part.setdefault(key.part, []).append(result)
    assert all(result["radius"] > 0 and result["method"] == "smoothing" for result in by_part["certified"])
    assert all(result["n"] == 5000 for result in by_part["certified"])
    assert all(0 < result["radius_detected"] < result["radius"] for result in by_part["certified"])
    assert {result["deployment"] for result in by_part["certified"]} == {deploy("pdq", method="votes").digest}
    # Two images as references; each is asked about itself and a benign variant.
    assert len({result["reference_fingerprint"] for result in by_part["certified"]}) == 2
    assert all(0 < result["lpips"] < 1 for result in by_part["whitebox"])
    # Six steps of pgd lead nowhere near 40: the smaller budget was not attacked again.
    assert [result.get("inferred", False) for result in by_part["whitebox"]].count(True) == 2
    assert all(0.9 < result["ssim"] < 1 and result["lpips"] > 0 for result in by_part["quality"])
    assert all(not result["collided"] for result in by_part["collisions"])
    assert all(result["fid"] > 0 and result["images"] == 2 for result in by_part["fid"])


def _check_images(run: Path, data: Path) -> None:
    """A gallery of the first image; the others' are gone."""
    found = {file.relative_to(run / "images").as_posix() for file in (run / "images").rglob("*.png")}
    image = "photos/astronaut.png"
    assert f"original/{image}.png" in found
    assert f"published/pdq/both/{image}.png" in found
    assert {f"attacked/whitebox/pdq/both/{image}/{budget}.png" for budget in (40, 90)} <= found
    assert not any("chelsea" in file for file in found)
    original, published = (
        load_image(run / "images" / name / f"{image}.png") for name in ("original", "published/pdq/both")
    )
    assert 0 < (original.pixels - published.pixels).abs().max() < 0.2


def test_what_hardening_left_alone_is_not_measured_twice(
    data: Path, tmp_path: Path, small: Protocol, extras: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it found nothing to do, both shields publish what smoothing alone does: its records stand for both."""
    perturb = Hardener.perturb

    def only_one(self: Hardener, image: CanonicalImage, **options: Any) -> tuple[torch.Tensor, int]:
        if "astronaut" in image.name:
            return torch.zeros_like(image.pixels), 1
        return perturb(self, image, **options)

    monkeypatch.setattr(Hardener, "perturb", only_one)
    plan = Plan((deploy("pdq"),), ("smoothing", "both"), protocol=small, limit=2)
    run_plan(plan, [data], tmp_path / "whole")
    whole = results(tmp_path / "whole")
    unchanged = {key.image: result["unchanged"] for key, result in whole.items() if key.part == "quality"}
    assert unchanged == {"astronaut.png": True, "chelsea.png": False}
    repeated = {key for key, result in whole.items() if "same_as" in result}
    measured = {"certified", "transforms", "adaptive", "blackbox"}
    assert {(key.variant, key.image) for key in repeated} == {("both", "astronaut.png")}
    assert measured <= {key.part for key in repeated}
    for key in repeated:
        twin = whole[key._replace(variant="smoothing")]
        assert whole[key] == {**twin, "same_as": "smoothing"}
    images = tmp_path / "whole" / "images" / "attacked"
    for part in ("whitebox", "adaptive", "blackbox"):
        shown = [{file.name for file in (images / part / "pdq" / v / "photos").rglob("*.png")} for v in plan.variants]
        assert shown[0] == shown[1] != set()

    # Resumed without its images, it knows that there is nothing to harden.
    def never(self: Hardener, image: CanonicalImage, **options: Any) -> tuple[torch.Tensor, int]:
        assert "astronaut" not in image.name
        return perturb(self, image, **options)

    monkeypatch.setattr(Hardener, "perturb", never)
    run = tmp_path / "whole"
    lines = (run / RESULTS).read_text().splitlines(keepends=True)
    (run / RESULTS).write_text("".join(line for line in lines if '"collisions"' not in line and '"fid"' not in line))
    shutil.rmtree(run / "images" / "published")
    shutil.rmtree(run / "features" / "published")
    run_plan(plan, [data], run, resume=True)
    assert results(run) == whole


def test_the_configuration_says_what_was_run_and_not_where(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None
) -> None:
    shutil.copy(data / "chelsea.png", data / "zz-copy.png")
    (data / "damaged.jpg").write_bytes(b"\xff\xd8\xff")
    out = tmp_path / "run"
    summary = cheap(data, out, small, plan={"limit": 10, "parts": ("collisions",), "variants": ("original",)})
    text = (out / CONFIG).read_text()
    config = json.loads(text)
    assert config["format"] == 1
    assert config["hashes"] == ["pdq"]
    assert config["defences"]["pdq"]["pdq"]["matcher"]["n"] == 5000
    assert config["defences"]["pdq"]["pdq"]["deployment"] == deploy("pdq", method="votes").digest
    assert config["extras"] == {"lpips": False, "fid": False}
    assert set(config["data"]["photos"]) == {"astronaut.png", "chelsea.png", "coffee.png", "zz-copy.png"}
    assert config["duplicates"][0]["exact"]
    assert config["unreadable"][0]["image"] == "photos/damaged.jpg"
    assert {"torch", "numpy", "dualshield"} <= config["versions"].keys()
    assert config["machine"]["cores"] >= 1
    assert str(tmp_path) not in text + (out / RESULTS).read_text()
    said = "\n".join(summary.warnings)
    assert "duplicates, never paired as unrelated: photos/chelsea.png and photos/zz-copy.png" in said
    assert "LPIPS is not measured" in said


def test_what_no_extra_measures_is_null(data: Path, tmp_path: Path, small: Protocol, no_extras: None) -> None:
    plan = Plan((deploy("pdq"),), ("hardening",), ("quality",), small, 1)
    run_plan(plan, [data], tmp_path / "run")
    found = results(tmp_path / "run")
    assert {key.part: result.get("lpips", result.get("fid")) for key, result in found.items()} == {
        "quality": None,
        "fid": None,
    }


@pytest.mark.parametrize("of_pdq", ["exact", "votes"])
def test_hashes_that_decide_together_are_certified_together(
    of_pdq: str, data: Path, tmp_path: Path, small: Protocol, no_extras: None, network_name: str
) -> None:
    """The largest radius of those that match counts. A resumed run draws the same noise."""
    deployment = deploy(f"pdq+{network_name}", method="votes" if of_pdq == "votes" else None)
    plan = Plan((deployment,), ("smoothing",), ("certified", "whitebox"), small, limit=1)
    run_plan(plan, [data], tmp_path / "whole")
    whole = results(tmp_path / "whole")
    attacks = [key for key in whole if key.part == "whitebox"]
    assert {key.detail for key in attacks} == {"40", "90"}
    certified = {key.detail: result for key, result in whole.items() if key.part == "certified"}
    assert len(certified) == 2
    identity = certified["identity"]
    members = identity["members"]
    assert set(members) == {"pdq", "network"}
    assert identity["decision"] == "match"
    assert identity["radius"] == max(member["radius"] for member in members.values()) > 0
    if of_pdq == "exact":  # and its radius is by far the larger
        assert [members[name]["method"] for name in ("pdq", "network")] == ["exact", "smoothing"]
        assert identity["radius_detected"] == identity["radius"]
    else:
        assert {member["method"] for member in members.values()} == {"smoothing"}
        assert 0 < identity["radius_detected"] < identity["radius"]
    assert identity["deployment"] == deployment.digest
    lines = (tmp_path / "whole" / RESULTS).read_text().splitlines(keepends=True)
    (tmp_path / "whole" / RESULTS).write_text("".join(lines[:1]))
    run_plan(plan, [data], tmp_path / "whole", resume=True)
    assert results(tmp_path / "whole") == whole
