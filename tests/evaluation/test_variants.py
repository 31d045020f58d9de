"""The variant ``views``: the plain hash with the views of the deployment, on transformations only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dualshield.errors import InputError
from dualshield.evaluation import evaluate as calls
from dualshield.evaluation.metrics.installed import Extras
from dualshield.evaluation.parts.under_test import DeploymentUnderTest
from dualshield.evaluation.plan.datasets import gather
from dualshield.evaluation.plan.plan import PARTS, Plan
from dualshield.evaluation.plan.protocol import PROTOCOLS, Protocol
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.evaluation.plan.variants import has_views, usual_variants
from dualshield.evaluation.rates import attack_rates, transform_rates
from dualshield.evaluation.report import method
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.run.folder import RunFiles
from dualshield.evaluation.run.records import Run
from dualshield.evaluation.run.run import run_plan
from dualshield.hashes import PerceptualHash
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.variants import EXPLAINED, VARIANTS, Variant
from dualshield.smoothing.views import Views
from tests.helpers.interrupted import results

MIRRORED = Views((IDENTITY, View(mirror=True)))
WITH, WITHOUT = deploy("pdq", method="votes", views=MIRRORED), deploy("pdq", views="none")
PLAIN: tuple[Variant, ...] = ("original", "views")


def test_views_are_usual_where_there_are_some_to_measure(toy_hash: PerceptualHash) -> None:
    assert usual_variants((WITHOUT,), PARTS) == VARIANTS
    assert usual_variants((WITH,), ("whitebox",)) == VARIANTS
    assert usual_variants((WITH,), PARTS) == ("original", "views", "smoothing", "both")
    joint = deploy([toy_hash, "pdq"], config=MatcherConfig(sigma=1.0), views="none")
    assert not has_views(joint)
    mixed = replace(joint, members=(joint.members[0], WITH.members[0]))
    assert has_views(mixed)
    assert usual_variants((joint, mixed), PARTS)[1] == "views"
    assert [EXPLAINED[variant] for variant in PLAIN] == ["plain hash", "plain hash with views"]


def test_views_without_anything_to_measure_are_refused() -> None:
    with pytest.raises(InputError, match="the variant views is measured on transformations only; add transforms"):
        Plan((WITH,), ("views",), ("whitebox", "collisions"))
    with pytest.raises(InputError, match="measured on transformations only"):
        RedTeamPlan(WITH, ("pgd",), variants=PLAIN)
    with pytest.raises(InputError, match=r"no hash of this run has views \(pdq\)"):
        Plan((WITHOUT,), ("views",))
    with pytest.raises(InputError, match="no hash of this run has views"):
        RedTeamPlan(WITHOUT, (), variants=PLAIN, transforms=True)


def test_views_have_records_of_transformations_and_no_others(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None, toy_hash: PerceptualHash
) -> None:
    """The mirrored view finds the mirrored copy. A hash without views has no such variant in the same run."""
    other = deploy(toy_hash, config=MatcherConfig(sigma=1.0))
    parts = ("certified", "whitebox", "transforms", "collisions", "quality")
    summary = run_plan(Plan((WITH, other), PLAIN, parts, small, limit=2), [data], tmp_path / "run")
    found = results(tmp_path / "run")
    assert summary.records == len(found)
    assert {(key.part, key.hash) for key in found if key.variant == "views"} == {("transforms", "pdq")}
    assert {key.part for key in found if key.variant == "original"} >= {"whitebox", "transforms", "collisions", "fid"}
    evaded = {
        variant: {key.detail: result["evaded"] for key, result in found.items() if _is(key, "pdq", variant)}
        for variant in PLAIN
    }
    assert evaded["original"] == {"jpeg-95": False, "noise-0.01": False, "flip-1": True}
    assert evaded["views"] == {"jpeg-95": False, "noise-0.01": False, "flip-1": False}
    run = Run.open(tmp_path / "run")
    assert run.config["variants"] == list(PLAIN)
    assert run.config["expected"]["transforms"] == {"pdq": {"original": 3, "views": 3}, "toy": {"original": 3}}
    assert run.config["defences"]["pdq"]["pdq"]["matcher"]["views"] == MIRRORED.to_json()
    described = method.describe(run, Results(run))
    assert all(entry.done == entry.expected for entry in described.coverage)
    facts = dict(described.facts)
    assert facts["defences.pdq.pdq.matcher.views"] == "2 of the reference, 1 of the query"
    assert facts["transforms"] == "3 transformations"


def _is(key: tuple[str, ...], hash_: str, variant: str) -> bool:
    return key[:3] == ("transforms", hash_, variant)


def test_a_red_team_with_attacks_has_no_rates_of_views(photo_files: list[Path], tmp_path: Path) -> None:
    plan = RedTeamPlan(WITH, ("pgd",), (2.0,), PLAIN, transforms=True)
    run_plan(plan, photo_files[1:2], tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert [rate.variant for rate in attack_rates(plan, run)] == ["original"]
    flips = {rate.variant: rate.success for rate in transform_rates(plan, run) if rate.transform == "flip-1"}
    assert flips == {"original": 1.0, "views": 0.0}


def test_the_call_adds_views_unless_variants_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr(calls, "run_plan", lambda plan, *_, **__: plans.append(plan))
    calls.evaluate(tmp_path, tmp_path, hash="pdq", views=MIRRORED)
    calls.evaluate(tmp_path, tmp_path, hash="pdq", views=MIRRORED, parts=["collisions"])
    calls.evaluate(tmp_path, tmp_path, hash="pdq", views=MIRRORED, variants=["both"])
    calls.evaluate(tmp_path, tmp_path, hash="pdq", views="none")
    calls.evaluate(tmp_path, tmp_path, hash="pdq", views="none", protocol="paper")
    calls.evaluate(tmp_path, tmp_path, hash=WITH)
    usual = ("original", "views", "smoothing", "both")
    assert [plan.variants for plan in plans] == [usual, VARIANTS, ("both",), VARIANTS, VARIANTS, usual]
    assert plans[0].deployments[0].members[0].config.views == MIRRORED


def test_views_that_do_not_go_together_with_the_rest_are_refused(tmp_path: Path) -> None:
    for name in ("paper", "paper-limit"):
        with pytest.raises(InputError, match=f"the protocol {name} has the paper's parameters, without views"):
            PROTOCOLS[name].deploy("pdq", views=MIRRORED)
    with pytest.raises(InputError, match="a deployment has its own views; leave them out"):
        calls.evaluate(tmp_path, tmp_path / "run", hash=WITH, views="none")
    with pytest.raises(InputError, match="unknown views 'all'"):
        calls.evaluate(tmp_path, tmp_path / "run", hash="pdq", views="all")


def test_the_published_image_is_the_one_of_the_plain_hash(photo_files: list[Path], tmp_path: Path) -> None:
    """Views change how the service looks, not what is published."""
    (picture,) = gather(photo_files[1:2], None).pictures
    plan = RedTeamPlan(WITH, (), variants=PLAIN, transforms=True)
    lab = DeploymentUnderTest(WITH, plan, RunFiles(tmp_path), Extras())
    published = [lab.subject(variant, picture).published.pixels for variant in PLAIN]
    assert torch.equal(*published)
    assert [lab.defence(variant).with_views for variant in PLAIN] == [False, True]
