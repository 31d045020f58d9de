"""Red teams and evaluations of exact matchers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

import dualshield as ds
from dualshield.errors import InputError
from dualshield.evaluation.metrics.installed import Extras
from dualshield.evaluation.parts import collided
from dualshield.evaluation.parts.under_test import DeploymentUnderTest
from dualshield.evaluation.plan.datasets import gather
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.evaluation.report import method
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.run.folder import RunFiles
from dualshield.evaluation.run.records import RESULTS, Run
from dualshield.smoothing.deploy import deploy
from dualshield.transforms import EVERYDAY_EDITS, PAPER_TRANSFORMS
from tests.helpers.redteam_run import rates


def records(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / RESULTS).read_text().splitlines()]


def test_a_red_team_runs_the_attack_that_it_names(photo_files: list[Path], tmp_path: Path) -> None:
    plan = RedTeamPlan(deploy("pdq"), ("optimal", "pgd"), (30.0,), ("original", "smoothing"))
    found = {(rate.method, rate.variant): rate for rate in rates(plan, [photo_files[1]], tmp_path / "run")}
    assert ("optimal", "original") not in found  # a plain hash has no exact matcher
    assert (found["optimal", "smoothing"].attacked, found["optimal", "smoothing"].success) == (1, 1.0)
    eot = RedTeamPlan(deploy("pdq"), ("eot-pgd",), (1.0,), ("smoothing",))
    rates(eot, [photo_files[1]], tmp_path / "eot")
    assert '"eot-pgd"' in (tmp_path / "eot" / RESULTS).read_text()


def test_optimal_needs_one_exact_matcher() -> None:
    for deployment, variants in (
        (deploy("pdq", method="votes"), ("smoothing",)),
        (deploy("pdq"), ("original",)),
    ):
        with pytest.raises(InputError, match="needs one exact matcher"):
            RedTeamPlan(deployment, ("optimal",), (1.0,), variants)  # type: ignore[arg-type]


def test_an_image_that_cannot_be_a_reference_does_not_stop_an_evaluation(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = (*PAPER_TRANSFORMS[:3], *EVERYDAY_EDITS[:3])
    monkeypatch.setattr("dualshield.evaluation.parts.transformed.ALL_TRANSFORMS", few)
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (64, 64), (10, 200, 30)).save(folder / "flat.png")
    (folder / photo_files[1].name).write_bytes(photo_files[1].read_bytes())
    ds.evaluate(
        [folder],
        tmp_path / "run",
        hash="pdq",
        variants=("original", "smoothing"),
        parts=("certified", "transforms", "adaptive", "collisions"),
        jobs=1,
    )
    text = (tmp_path / "run" / RESULTS).read_text()
    assert '"refused"' in text
    assert '"optimal"' in text  # the adaptive part takes the strongest attack
    assert '"unmatched": true' in text
    run = Run.open(tmp_path / "run")
    refused = {(record.key.part, record.key.variant, record.key.image) for record in run.records if record.refused}
    parts = {part for part, _, _ in refused}
    assert refused == {(part, "smoothing", "flat.png") for part in parts}
    assert parts == {"certified", "transforms", "adaptive"}
    warnings = method.describe(run, Results(run)).warnings
    assert any("Could not be enrolled" in line and "1 image (pdq, smoothing)" in line for line in warnings)
    other, flat = gather([folder], None).pictures
    plan = RedTeamPlan(deploy("pdq"), ("eot-pgd",), (1.0,), ("smoothing",))
    lab = DeploymentUnderTest(plan.deployment, plan, RunFiles(tmp_path), Extras())
    found = dict(collided.work([other], lab.subject("smoothing", flat), (other.label,)))
    assert found == {other.label: {"decision": "no_match", "collided": False, "refused": True}}
