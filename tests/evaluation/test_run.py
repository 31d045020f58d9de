"""Whole runs: what they leave behind, and that nothing is lost or different when they are interrupted."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dualshield.attacks.defence import Defence
from dualshield.errors import InputError
from dualshield.evaluation.metrics import fid, lpips
from dualshield.evaluation.plan.plan import Plan, label
from dualshield.evaluation.plan.protocol import Protocol
from dualshield.evaluation.report import method
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.run.merge import merge
from dualshield.evaluation.run.records import CONFIG, RESULTS, Key, Run
from dualshield.evaluation.run.run import Summary, run_plan
from dualshield.hardening.harden import Hardener
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage, load_image
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from tests.helpers.interrupted import Killed, killed_at, results

CHEAP = ("certified", "collisions")


class Distance:
    """In place of LPIPS."""

    def distance(self, image: torch.Tensor, other: torch.Tensor) -> float:
        return float((image - other).abs().mean())


class Features:
    """In place of Inception."""

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(pixels, 2).flatten(1)


@pytest.fixture
def extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lpips, "load", Distance)
    monkeypatch.setattr(fid, "load", Features)
    monkeypatch.setattr(fid, "distance", lambda a, b: float((a - b).abs().sum()))


@pytest.fixture
def no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lpips, "load", lambda: None)
    monkeypatch.setattr(fid, "load", lambda: None)


def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    data: Path, tmp_path: Path, small: Protocol, extras: None
) -> None:
    """All parts of the variant that does everything; the second run is killed between pieces and within one."""
    plan = Plan((deploy("pdq"),), ("both",), protocol=small, limit=2)
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
    assert {result["deployment"] for result in by_part["certified"]} == {deploy("pdq").digest}
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


def cheap(data: Path, out: Path, small: Protocol, **options: Any) -> Summary:
    plan = Plan((deploy("pdq"),), ("original", "smoothing"), CHEAP, small, 3)
    return run_plan(replace(plan, **options.pop("plan", {})), [data], out, **options)


def test_a_finished_run_is_not_done_again(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    first = cheap(data, out, small)
    before = (out / RESULTS).read_bytes()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("worked again")

    monkeypatch.setattr(Defence, "__init__", never)
    monkeypatch.setattr(Deployment, "enroll", never)
    assert cheap(data, out, small, resume=True) == first
    assert (out / RESULTS).read_bytes() == before


def test_a_run_that_grew_equals_one_of_its_size(data: Path, tmp_path: Path, small: Protocol, extras: None) -> None:
    """More images, and more of them attacked. Collisions and FID of the smaller run are of no use any more."""
    plan = Plan((deploy("pdq"),), ("both",), ("whitebox", "collisions", "quality"), small, 3, attack_limit=2)
    run_plan(plan, [data], tmp_path / "whole")
    whole = results(tmp_path / "whole")

    out = tmp_path / "grown"
    run_plan(replace(plan, limit=2, attack_limit=1), [data], out)
    small_run = results(out)
    with pytest.raises(Killed):
        run_plan(plan, [data], out, resume=True, progress=killed_at(4))
    begun = results(out)
    kept = {key: result for key, result in small_run.items() if key.part in ("whitebox", "quality")}
    assert kept.items() <= begun.items()
    assert not any(key.part in ("collisions", "fid") for key in begun)
    run_plan(plan, [data], out, resume=True)
    assert results(out) == whole
    sets = [key for key in small_run if key.part in ("collisions", "fid") and key in whole]
    assert any(small_run[key] != whole[key] for key in sets)
    with pytest.raises(InputError, match="only the limits may grow"):
        run_plan(replace(plan, attack_limit=1), [data], out, resume=True)
    (data / "a_first.png").write_bytes((data / "chelsea.png").read_bytes())  # others change their places
    with pytest.raises(InputError, match=r"data.photos.a_first.png was null"):
        run_plan(replace(plan, limit=4), [data], out, resume=True)


def test_runs_on_parts_of_the_images_are_one_large_run(
    data: Path, tmp_path: Path, small: Protocol, extras: None
) -> None:
    """The first image of a folder is transformed, two are attacked, wherever a run begins."""
    plan = Plan((deploy("pdq"),), ("original", "both"), ("certified", "whitebox", "transforms", "quality"), small, 3)
    plan = replace(plan, attack_limit=2)
    run_plan(plan, [data], tmp_path / "whole")
    parts = [tmp_path / "first", tmp_path / "second"]
    run_plan(replace(plan, limit=1), [data], parts[0])
    run_plan(replace(plan, limit=2, skip=1), [data], parts[1])
    merged, whole = merge([Run.open(part) for part in parts]), Run.open(tmp_path / "whole")
    found = {record.key: {**record.result, "seconds": None} for record in merged.records}
    assert len(found) == len(merged.records)
    assert found == {key: result for key, result in results(tmp_path / "whole").items() if key.part != "fid"}
    assert merged.config["data"] == whole.config["data"]
    coverage = [method.describe(run, Results(run)).coverage for run in (merged, whole)]
    assert coverage[0] == coverage[1]
    assert all(entry.done == entry.expected for entry in coverage[0])


def test_a_run_from_before_images_could_be_left_out_goes_on(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None
) -> None:
    first = cheap(data, tmp_path / "run", small)
    file = tmp_path / "run" / CONFIG
    config = json.loads(file.read_text())
    del config["skip"]
    file.write_text(json.dumps(config))
    assert cheap(data, tmp_path / "run", small, resume=True) == first
    with pytest.raises(InputError, match="skip was 0, now 1"):
        cheap(data, tmp_path / "run", small, resume=True, plan={"skip": 1})


def test_a_run_of_another_configuration_is_refused(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None, photo_files: list[Path]
) -> None:
    out = tmp_path / "run"
    cheap(data, out, small, plan={"parts": ("collisions",), "variants": ("original",)})
    settings: dict[str, Any] = {"parts": ("collisions",), "variants": ("original",)}
    with pytest.raises(InputError, match="exists already; resume that run"):
        cheap(data, out, small, plan=settings)
    for change, message in (
        ({"seed": 1}, "seed was 2026, now 1"),
        ({"limit": 2}, "data.photos.coffee.png was"),
        ({"parts": CHEAP}, "parts was"),
        ({"variants": ("smoothing",)}, "variants was"),
        ({"protocol": replace(small, collision_pairs=1)}, "parameters.collision_pairs was 2, now 1"),
        ({"keep_images": True}, "keep_images was false, now true"),
    ):
        with pytest.raises(InputError, match=message):
            cheap(data, out, small, plan={**settings, **change}, resume=True)
    shutil.copy(photo_files[4], data / "coffee.png")
    with pytest.raises(InputError, match=r"data.photos.coffee.png was \"\w+\", now"):
        cheap(data, out, small, plan=settings, resume=True)


def test_folders_that_are_no_runs_are_left_alone(data: Path, tmp_path: Path, small: Protocol, no_extras: None) -> None:
    for resume in (False, True):
        with pytest.raises(InputError, match="photos"):
            cheap(data, data, small, resume=resume)
        with pytest.raises(InputError, match="astronaut"):
            cheap(data, data / "astronaut.png", small, resume=resume)
    assert sorted(file.name for file in data.iterdir()) == ["astronaut.png", "chelsea.png", "coffee.png"]
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / CONFIG).write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        cheap(data, tmp_path / "broken", small, resume=True)


def test_two_processes_do_not_work_on_one_run(data: Path, tmp_path: Path, small: Protocol, no_extras: None) -> None:
    """The second would clear away what the first one just found."""
    out = tmp_path / "run"

    def meanwhile(what: str, done: int, total: int, left: float | None) -> None:
        if done == 2 and left is not None:
            with pytest.raises(InputError, match="another process works on"):
                cheap(data, out, small, resume=True, plan={"limit": 4})

    first = cheap(data, out, small, progress=meanwhile)
    assert len(results(out)) == first.records
    cheap(data, out, small, resume=True)  # it is free again


def test_a_full_disk_loses_nothing(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheap(data, tmp_path / "whole", small)
    out = tmp_path / "run"
    opened = Path.open

    class Full:
        """A disk with room for two and a half lines."""

        def __init__(self, file: Any) -> None:
            self.file, self.lines = file, 0

        def write(self, text: str) -> None:
            self.lines += 1
            self.file.write(text if self.lines <= 2 else text[:30])
            if self.lines > 2:
                self.file.flush()
                raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self) -> None:
            self.file.flush()

        def close(self) -> None:
            self.file.close()

    def full(path: Path, *arguments: Any, **options: Any) -> Any:
        file = opened(path, *arguments, **options)
        return Full(file) if path.name == RESULTS and "a" in arguments else file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(InputError, match="No space left on device; all before is kept"):
            cheap(data, out, small)
    assert len(results(out)) == 2
    cheap(data, out, small, resume=True)
    assert results(out) == results(tmp_path / "whole")


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
    assert config["defences"]["pdq"]["pdq"]["deployment"] == deploy("pdq").digest
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


def test_plans_are_checked(toy_hash: PerceptualHash) -> None:
    pdq = deploy("pdq")
    for options, message in (
        ({"deployments": ()}, "no hash"),
        ({"deployments": ("pdq",)}, r"takes deployments, as from deploy\('pdq'\), not str"),
        ({"deployments": (pdq, deploy("pdq", n=7))}, "two hashes are called 'pdq'"),
        ({"deployments": (pdq, deploy(toy_hash, sigma=1.0, device="cpu:0"))}, "on one device"),
        ({"variants": ("both", "nope")}, "unknown variant 'nope'"),
        ({"variants": ()}, "no variant"),
        ({"variants": ("both", "both")}, "given twice"),
        ({"parts": ("magic",)}, "unknown part 'magic'"),
        ({"seed": -1}, "seed -1"),
    ):
        with pytest.raises(InputError, match=message):
            Plan(**{"deployments": (pdq,), **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("my hash", "my_hash"), ("../../evil/..", "_.._evil_.."), ("...", "_"), ("ünï-1.0", "ünï-1.0")],
)
def test_whatever_a_hash_is_called_its_results_have_a_file_name(
    name: str, expected: str, toy_hash: PerceptualHash
) -> None:
    assert label(deploy(replace(toy_hash, name=name), sigma=1.0)) == expected


def test_hashes_that_decide_together_are_called_together() -> None:
    assert label(deploy("pdq+neuralhash")) == "pdq+neuralhash"


def test_the_time_left_is_known_as_soon_as_a_run_is_resumed(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None
) -> None:
    plan = Plan((deploy("pdq"),), ("smoothing",), ("certified",), small, limit=3)
    with pytest.raises(Killed):
        run_plan(plan, [data], tmp_path / "run", progress=killed_at(2))
    told: list[float | None] = []

    def listen(what: str, done: int, total: int, left: float | None) -> None:
        if "certified" in what:
            told.append(left)

    run_plan(plan, [data], tmp_path / "run", resume=True, progress=listen)
    assert told
    assert told[0] is not None


def test_hashes_that_decide_together_are_certified_together(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None, network_name: str
) -> None:
    """At alpha halved; the largest radius of those that match counts. A resumed run draws the same noise."""
    deployment = deploy(f"pdq+{network_name}")
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
    assert 0 < identity["radius_detected"] < identity["radius"]
    assert identity["deployment"] == deployment.digest
    lines = (tmp_path / "whole" / RESULTS).read_text().splitlines(keepends=True)
    (tmp_path / "whole" / RESULTS).write_text("".join(lines[:1]))
    run_plan(plan, [data], tmp_path / "whole", resume=True)
    assert results(tmp_path / "whole") == whole
