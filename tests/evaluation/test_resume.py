"""Runs that go on: what is kept, what may grow, and what is refused."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dualshield.attacks.defence import Defence
from dualshield.errors import InputError
from dualshield.evaluation.parts import transformed
from dualshield.evaluation.plan.plan import Plan
from dualshield.evaluation.plan.protocol import Protocol
from dualshield.evaluation.report import method
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.run.merge import merge
from dualshield.evaluation.run.records import CONFIG, RESULTS, Run
from dualshield.evaluation.run.run import run_plan
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.transforms import parse
from tests.helpers.cheap_run import CHEAP, cheap
from tests.helpers.interrupted import Killed, killed_at, results


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
    plan = Plan(
        (deploy("pdq", method="votes"),), ("both",), ("whitebox", "collisions", "quality"), small, 3, attack_limit=2
    )
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
    with pytest.raises(InputError, match="only the limits may be larger"):
        run_plan(replace(plan, attack_limit=1), [data], out, resume=True)
    (data / "a_first.png").write_bytes((data / "chelsea.png").read_bytes())  # others change their places
    with pytest.raises(InputError, match=r"data.photos.a_first.png was null"):
        run_plan(replace(plan, limit=4), [data], out, resume=True)


def test_runs_on_parts_of_the_images_are_one_large_run(
    data: Path, tmp_path: Path, small: Protocol, extras: None
) -> None:
    """The first image of a folder is transformed, two are attacked, wherever a run begins."""
    parts = ("certified", "whitebox", "transforms", "quality")
    plan = Plan((deploy("pdq", method="votes"),), ("original", "both"), parts, small, 3, attack_limit=2)
    run_plan(plan, [data], tmp_path / "whole")
    halves = [tmp_path / "first", tmp_path / "second"]
    run_plan(replace(plan, limit=1), [data], halves[0])
    run_plan(replace(plan, limit=2, skip=1), [data], halves[1])
    merged, whole = merge([Run.open(part) for part in halves]), Run.open(tmp_path / "whole")
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


def test_a_run_with_other_transformations_is_refused(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing ones could be measured, but in older runs some names meant something else."""
    out = tmp_path / "run"
    plan = Plan((deploy("pdq"),), ("original",), ("transforms",), small, 1)
    first = run_plan(plan, [data], out)
    config = json.loads((out / CONFIG).read_text())
    assert config["transforms"] == ["jpeg-95", "noise-0.01", "flip-1"]
    assert run_plan(plan, [data], out, resume=True) == first
    with pytest.raises(InputError, match="parts was"):
        run_plan(replace(plan, parts=("collisions",)), [data], out, resume=True)
    monkeypatch.setattr(transformed, "ALL_TRANSFORMS", (parse("jpeg-95"), parse("border-0.05")))
    message = "another list of transformations, and some of the same name have changed since; choose another folder"
    with pytest.raises(InputError, match=message):
        run_plan(plan, [data], out, resume=True)
    del config["transforms"]  # as an older run
    (out / CONFIG).write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        run_plan(plan, [data], out, resume=True)


def test_borders_of_older_runs_are_screenshots(tmp_path: Path) -> None:
    names = ("border-0.02", "border-0.05", "border-0.1", "flip-1")
    keys = [*(("transforms", name) for name in names), ("other", "border-0.02")]

    def line(part: str, detail: str) -> str:
        return json.dumps({"key": [part, "pdq", "both", "d", "a.png", detail], "result": {"evaded": True}}) + "\n"

    (tmp_path / RESULTS).write_text("".join(line(*key) for key in keys))

    def details(config: dict[str, Any]) -> list[str]:
        (tmp_path / CONFIG).write_text(json.dumps(config))
        return [record.key.detail for record in Run.open(tmp_path).records]

    assert details({}) == ["screenshot-0.02", "screenshot-0.05", "border-0.1", "flip-1", "border-0.02"]
    assert details({"transforms": list(names)}) == [*names, "border-0.02"]
    with (tmp_path / RESULTS).open("a") as file:  # a run that knows both has no old names
        file.write(line("transforms", "screenshot-0.02"))
    assert details({}) == [*names, "border-0.02", "screenshot-0.02"]


def test_a_difference_is_named_by_its_cause_not_by_a_digest(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None
) -> None:
    out = tmp_path / "run"
    plan = Plan((deploy("pdq", method="votes"),), ("original",), ("collisions",), small, 2)
    run_plan(plan, [data], out)
    with pytest.raises(InputError, match=r"defences.pdq.pdq.matcher.n was 5000, now 70"):
        run_plan(replace(plan, deployments=(deploy("pdq", n=70),)), [data], out, resume=True)


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
            with pytest.raises(InputError, match="another process is using"):
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
        with pytest.raises(InputError, match="No space left on device; earlier results are saved"):
            cheap(data, out, small)
    assert len(results(out)) == 2
    cheap(data, out, small, resume=True)
    assert results(out) == results(tmp_path / "whole")


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
