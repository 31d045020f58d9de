"""Red teams are resumed as runs of the evaluation are: by the same folder, with the same refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dualshield.attacks import nes
from dualshield.attacks.eot import Eot
from dualshield.attacks.methods import METHODS
from dualshield.errors import InputError
from dualshield.evaluation.parts import attacked, under_test
from dualshield.evaluation.plan.plan import Plan
from dualshield.evaluation.plan.protocol import Protocol
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.evaluation.run.records import CONFIG, RESULTS
from dualshield.evaluation.run.run import run_plan
from dualshield.smoothing.deploy import deploy
from tests.helpers.interrupted import Killed, killed_at, results
from tests.helpers.redteam_run import ONE, PDQ, keep_lines, rates, transformed_rates


def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smoothed matcher is random, and near the boundary its decisions are: all of them must be repeated."""
    monkeypatch.setitem(METHODS, "nes-plain", nes.Nes(steps=1, plain_score=True))
    votes = deploy("pdq", method="votes")
    plan = RedTeamPlan(votes, ("pgd", "eot-pgd", "nes-plain"), (6.0, 9.0), ("smoothing", "both"), seed=5)
    whole = rates(plan, photo_files[1:3], tmp_path / "whole")
    out = tmp_path / "resumed"
    with pytest.raises(Killed):
        run_plan(plan, photo_files[1:3], out, progress=killed_at(5))
    keep_lines(out, 5, of_next=40)
    with pytest.raises(Killed):
        run_plan(plan, photo_files[1:3], out, resume=True, progress=killed_at(7))
    resumed = rates(plan, photo_files[1:3], out, resume=True)
    assert results(out) == results(tmp_path / "whole")
    assert [replace(rate, seconds=None) for rate in resumed] == [replace(rate, seconds=None) for rate in whole]
    assert {key.part for key in results(out)} == {"whitebox", "adaptive", "nes-plain"}
    assert not list((out / "images").rglob("*.png"))  # what was hardened is of no use any more


def test_a_search_resumes_where_it_stopped(
    tried: list[tuple[str, float]], pictures: list[Path], tmp_path: Path
) -> None:
    plan = RedTeamPlan(PDQ, ("eot-pgd",), (1.0, 2.0, 5.0, 10.0, 20.0, 40.0), ("original",), search=True)
    whole = rates(plan, pictures, tmp_path / "run")
    count = len(tried)
    records = results(tmp_path / "run")
    attacks = [key for key, result in records.items() if "inferred" not in result]
    keep_lines(tmp_path / "run", list(records).index(attacks[-2]))
    tried.clear()
    assert rates(plan, pictures, tmp_path / "run", resume=True) == whole
    assert len(tried) == 2 < count


def test_a_search_among_several_hashes_is_resumed_too(
    network_name: str, photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "eot-pgd", Eot(steps=10))
    deployment = deploy(f"pdq+{network_name}")
    plan = RedTeamPlan(deployment, ("eot-pgd",), (4.0, 8.0, 30.0), ("smoothing",), search=True, seed=5)
    out = tmp_path / "run"
    first = rates(plan, photo_files[1:2], out)
    assert first[2].success == 1.0
    whole = results(out)
    keep_lines(out, 1)
    again = rates(plan, photo_files[1:2], out, resume=True)
    assert results(out) == whole
    assert [rate.success for rate in again] == [rate.success for rate in first]


def test_a_finished_run_attacks_nothing_again(
    tried: list[tuple[str, float]], pictures: list[Path], tmp_path: Path
) -> None:
    first = rates(ONE, pictures, tmp_path / "run")
    tried.clear()
    assert rates(ONE, pictures, tmp_path / "run", resume=True) == first
    assert tried == []
    with pytest.raises(InputError, match="exists already; resume that run"):
        rates(ONE, pictures, tmp_path / "run")


@pytest.mark.parametrize(
    "change",
    [
        {"key": ["adaptive", "pdq", "original", "photos", "a.png"]},
        {"key": ["adaptive", "pdq", "original", "photos", "a.png", True]},
        {"key": ["adaptive", "pdq", "original", "photos", "a.png", "3"]},
        {"key": ["adaptive", "pdq", "original", ["photos"], "a.png", "1"]},
        {"key": ["adaptive", "pdq", {}, "photos", "a.png", "1"]},
        {"key": None},
        {"result": None},
        {"result": {}},
        {"result": {"success": True}},
        {"result": {"l2": math.nan}},
        {"result": {"ssim": "high"}},
        {"result": {"queries": 10**400}},
        {"result": {"decision": ["match"]}},
        {"result": {"warnings": "many"}},
        {"result": {"reach": "far"}},
        {"result": {"inferred": True, "l2": None}},
    ],
    ids=lambda change: str(change)[:60],
)
def test_a_record_that_is_not_whole_counts_as_not_done(
    change: dict[str, Any], tried: list[tuple[str, float]], pictures: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    whole = rates(ONE, pictures[:1], out)
    record = json.loads((out / RESULTS).read_text())
    if isinstance(change.get("result"), dict) and "success" not in change["result"] and change["result"]:
        change = {"result": {**record["result"], **change["result"]}}
    (out / RESULTS).write_text("[" * 100_000 + "\n" + json.dumps({**record, **change}) + "\n")
    tried.clear()
    assert rates(ONE, pictures[:1], out, resume=True) == whole
    assert tried == [("a.png", 1.0)]
    tried.clear()
    assert rates(ONE, pictures[:1], out, resume=True) == whole
    assert tried == []


def test_runs_of_another_configuration_are_not_mixed_in(
    tried: list[tuple[str, float]], pictures: list[Path], tmp_path: Path, small: Protocol
) -> None:
    """The name of the hash is not all there is to a deployment."""
    out = tmp_path / "run"
    rates(ONE, pictures, out)
    for change, message in (
        ({"deployment": deploy("pdq", sigma=0.5)}, r"defences.pdq.pdq.matcher.sigmas was"),
        ({"deployment": deploy("pdq", parameters="paper")}, r"defences.pdq.pdq.matcher.\w+ was"),
        ({"seed": 1}, "seed was 2026, now 1"),
        ({"budgets": (1.0, 2.0)}, "budgets was"),
        ({"search": True}, "search was false, now true"),
        ({"strength": 2.0}, "strength was 1.0, now 2.0"),
        ({"methods": ("pgd",)}, "methods was"),
        ({"variants": ("smoothing",)}, "variants was"),
        ({"limit": 2}, "data.photos.c.png was"),
    ):
        with pytest.raises(InputError, match=message):
            rates(replace(ONE, **change), pictures, out, resume=True)
    with pytest.raises(InputError, match='plan was "redteam", now "evaluate"'):
        run_plan(Plan((PDQ,), ("original",), ("transforms",), small, 4), pictures, out, resume=True)
    Path(pictures[0]).write_bytes(pictures[1].read_bytes())  # the same name, another image
    with pytest.raises(InputError, match=r'data.photos.a.png was "\w+", now'):
        rates(ONE, pictures, out, resume=True)


def test_a_run_may_get_more_images(tried: list[tuple[str, float]], pictures: list[Path], tmp_path: Path) -> None:
    rates(ONE, pictures[:2], tmp_path / "run")
    tried.clear()
    (found,) = rates(ONE, pictures, tmp_path / "run", resume=True)
    assert found.images == len(pictures)
    assert [name for name, _ in tried] == ["c.png", "d.png"]


def test_a_run_that_fails_leaves_nothing_in_the_way(
    tried: list[tuple[str, float]], pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise Killed

    out, existing = tmp_path / "new" / "run", tmp_path / "existing"
    existing.mkdir()
    for folder in (out, existing):
        with monkeypatch.context() as patch:
            patch.setattr(attacked, "get_attack", lambda name: fails)
            with pytest.raises(Killed):
                rates(ONE, pictures, folder)
        assert (folder.exists(), list(existing.iterdir())) == (folder == existing, [])
        assert len(rates(replace(ONE, seed=1), pictures, folder)) == 1
    with monkeypatch.context() as patch:  # what an earlier sitting found is not taken away
        patch.setattr(attacked, "get_attack", lambda name: fails)
        keep_lines(out, 0, of_next=0)
        with pytest.raises(Killed):
            rates(replace(ONE, seed=1), pictures, out, resume=True)
    assert (out / CONFIG).exists()


# -- transformations ---------------------------------------------------------------------------------

EDITS = RedTeamPlan(deploy("pdq", method="votes"), (), variants=("original", "smoothing"), seed=5, transforms=True)


def test_transformations_are_resumed_too(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, files = tmp_path / "run", photo_files[1:3]
    whole = transformed_rates(EDITS, files, out)
    assert [(rate.variant, rate.transform) for rate in whole[:3]] == [
        ("original", "jpeg-95"),
        ("original", "noise-0.01"),
        ("original", "flip-1"),
    ]
    assert [rate.success for rate in whole] == [0, 0, 1] * 2
    assert [rate.paper for rate in whole] == [True, True, False] * 2
    assert all((rate.images, rate.unmatched) == (2, 0) and 0 < rate.ssim < 1 for rate in whole)
    records = results(out)
    assert len(records) == len(files) * 2 * 3
    keep_lines(out, 4, of_next=30)
    assert transformed_rates(EDITS, files, out, resume=True) == whole
    assert results(out) == records
    monkeypatch.setattr(under_test, "Defence", None)  # a finished run asks nothing again
    assert transformed_rates(EDITS, files, out, resume=True) == whole


@pytest.mark.parametrize(
    "change",
    [
        {"key": ["transforms"]},
        {"key": ["transforms", ["pdq"], "original", "photos", "name", "jpeg-95"]},
        {"result": {"decision": "match"}},
        {"result": {"decision": "maybe", "evaded": True, "ssim": 1.0}},
        {"result": {"decision": ["match"], "evaded": True, "ssim": 1.0}},
        {"result": {"decision": "match", "evaded": False, "ssim": "1"}},
        {"result": {"unmatched": False}},
        {"result": []},
    ],
    ids=str,
)
def test_a_transformation_that_is_not_whole_counts_as_not_done(
    change: dict[str, Any], photo_files: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    plan = replace(EDITS, variants=("original",))
    whole = transformed_rates(plan, photo_files[1:2], out)
    first, *others = (out / RESULTS).read_text().splitlines()
    (out / RESULTS).write_text("\n".join([json.dumps({**json.loads(first), **change}), *others]) + "\n")
    assert transformed_rates(plan, photo_files[1:2], out, resume=True) == whole
    assert (out / RESULTS).read_text().splitlines()[-1] == first
