"""Red teams are runs like those of the evaluation: their plans, their images, their folders, and the call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import dualshield as ds
from dualshield.attacks import nes
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Victim
from dualshield.errors import InputError
from dualshield.evaluation.parts import attacked
from dualshield.evaluation.plan.datasets import gather
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.evaluation.rates import attack_rates
from dualshield.evaluation.report import method
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.run.records import Run
from dualshield.evaluation.run.run import run_plan
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy
from tests.helpers import redteam_run
from tests.helpers.redteam_run import ONE, PDQ, keep_lines, rates, transformed_rates

# -- images ------------------------------------------------------------------------------------------


def test_files_that_cannot_be_read_are_told_of_and_skipped(
    tried: list[tuple[str, float]], pictures: list[Path], tmp_path: Path
) -> None:
    pictures[1].write_bytes(pictures[1].read_bytes()[:60])
    summary = run_plan(ONE, pictures, tmp_path / "run")
    assert summary.images == 3
    assert [line for line in summary.warnings if "unreadable, skipped: photos/b.png: " in line]
    (found,) = attack_rates(ONE, Run.open(tmp_path / "run"))
    assert found.images == 3
    with pytest.raises(InputError, match="none of its 1 images can be read"):
        rates(ONE, pictures[1:2], tmp_path / "none")
    with pytest.raises(InputError, match="second image"):
        rates(replace(ONE, methods=("collision",)), pictures[:2], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_files_and_folders_may_be_mixed_as_long_as_names_tell_them_apart(pictures: list[Path], tmp_path: Path) -> None:
    others = redteam_run.noise_images(tmp_path / "others", "a.png", "e.png")
    pool = gather([pictures[2], tmp_path / "others", pictures[0]], None)
    assert [picture.label for picture in pool.pictures] == [
        "photos/c.png",
        "others/a.png",
        "photos/a.png",
        "others/e.png",
    ]
    assert not any("asked for" in line for line in pool.warnings())
    (tmp_path / "elsewhere").mkdir()
    namesakes = redteam_run.noise_images(tmp_path / "elsewhere" / "photos", "z.png")
    for paths, message in (
        ([pictures[0], pictures[0]], "photos/a.png is given twice"),
        ([pictures[0], tmp_path / "photos"], "two folders are named 'photos'"),
        ([tmp_path / "others", others[0]], "two folders are named 'others'"),
        ([pictures[0], *namesakes], "two folders are named 'photos'"),
        ([], "no data"),
    ):
        with pytest.raises(InputError, match=message):
            gather(paths, None)


def test_collisions_begin_at_an_image_that_shows_something_else(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the next one is a copy: that would match already."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, file in (("a.png", photo_files[1]), ("copy.png", photo_files[1]), ("other.png", photo_files[2])):
        (folder / name).write_bytes(file.read_bytes())
    plan = RedTeamPlan(PDQ, ("collision",), (180.0,), ("original",))
    (found,) = rates(plan, [folder], tmp_path / "run")
    assert (found.images, found.unmatched, found.success) == (3, 0, 1.0)
    began = {record.key.image: record.result["query"] for record in Run.open(tmp_path / "run").records}
    assert began == {"a.png": "photos/other.png", "copy.png": "photos/other.png", "other.png": "photos/a.png"}
    (folder / "other.png").unlink()
    with pytest.raises(InputError, match="second image"):
        rates(plan, [folder], tmp_path / "copies")


# -- what is asked -----------------------------------------------------------------------------------


def test_plans_are_checked(toy_hash: PerceptualHash) -> None:
    for budgets in ((), (2.0, 1.0), (1.0, 1.0), (0.0,)):
        with pytest.raises(InputError):
            RedTeamPlan(PDQ, budgets=budgets)
    name: Any = "pdq"
    with pytest.raises(InputError, match=r"give a deployment, as from deploy\('pdq'\), not str"):
        RedTeamPlan(name)

    class Frozen(torch.nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = toy_hash.network(features).detach()
            return found

    blind = deploy(replace(toy_hash, network=Frozen()), sigma=1.0)
    for options, message in (
        ({"methods": ()}, "no method given"),
        ({"methods": ("magic",)}, "unknown attack 'magic'"),
        ({"methods": ("pgd", "pgd")}, "method pgd is given twice"),
        ({"methods": ("collision",), "search": True}, "collisions without the search"),
        ({"variants": ()}, "no variant given"),
        ({"variants": ("theirs",)}, "unknown variant 'theirs'"),
        ({"seed": -1}, "seed -1"),
        ({"deployment": blind}, "has no gradient; use only black-box attacks"),
        ({"deployment": blind, "methods": ("nes", "collision")}, "has no gradient; use only black-box attacks"),
    ):
        with pytest.raises(InputError, match=message):
            RedTeamPlan(**{"deployment": PDQ, **options})  # type: ignore[arg-type]
    assert RedTeamPlan(blind, ("nes", "nes-plain")).parts == ("blackbox", "nes-plain")
    assert RedTeamPlan(PDQ, (), transforms=True).parts == ("transforms",)


def test_a_smaller_budget_that_an_attack_never_felt_is_not_tried_again(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def short_walk(victim: Victim, query: CanonicalImage, budget: AttackBudget, *, seed: int) -> AttackResult:
        tried.append(budget.l2)
        return nes.attack(victim, query, budget, steps=2, seed=seed)

    monkeypatch.setattr(attacked, "get_attack", lambda name: short_walk)
    plan = RedTeamPlan(PDQ, ("nes",), (5.0, 90.0, 180.0), ("original",))
    found = rates(plan, photo_files[:1], tmp_path / "run")
    assert tried == [180.0, 5.0]  # two steps lead further than 5 and not as far as 90
    assert [rate.attacked for rate in found] == [1, 0, 1]
    assert found[1].l2 == found[2].l2 != found[0].l2


def test_the_strength_is_that_of_hardening(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = []

    def look(victim: Victim, query: CanonicalImage, budget: AttackBudget, *, seed: int) -> AttackResult:
        original = ds.load_image(photo_files[1]).pixels
        changes.append(float((query.pixels - original).norm()))
        return nes.attack(victim, query, budget, steps=0, seed=seed)

    monkeypatch.setattr(attacked, "get_attack", lambda name: look)
    for strength in (0.5, 2.0):
        plan = RedTeamPlan(PDQ, ("nes",), (1.0,), ("both",), strength=strength)
        rates(plan, photo_files[1:2], tmp_path / f"{strength}")
    assert changes[1] > 1.5 * changes[0] > 0


# -- the run folder ----------------------------------------------------------------------------------


def test_the_report_reads_a_red_team(photo_files: list[Path], tmp_path: Path) -> None:
    """Methods have the names of the evaluation's parts, so its tables are those of a red team too."""
    plan = RedTeamPlan(PDQ, ("pgd", "nes-plain"), (40.0, 90.0), ("original",))
    (first, *_) = rates(plan, photo_files[1:3], tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert run.config["plan"] == "redteam"
    assert run.config["expected"] == {
        "whitebox": {"pdq": {"original": 4}},
        "nes-plain": {"pdq": {"original": 4}},
    }
    found = Results(run)
    described = method.describe(run, found)
    (coverage,) = described.coverage
    assert (coverage.part, coverage.done, coverage.expected) == ("whitebox", 4, 4)
    assert not any("LPIPS" in line for line in described.warnings)
    successes = [record.result["success"] for record in run.of("whitebox", detail="40")]
    assert sum(successes) / len(successes) == first.success
    keep_lines(tmp_path / "run", 3)
    run = Run.open(tmp_path / "run")
    assert any("This run is not finished" in line for line in method.describe(run, Results(run)).warnings)


def test_two_processes_give_what_one_gives(photo_files: list[Path], tmp_path: Path) -> None:
    """Workers are new processes, so nothing that tests patch is patched there: hence transformations."""
    plan = RedTeamPlan(PDQ, (), variants=("original",), transforms=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dualshield.evaluation.parts.transformed.ALL_TRANSFORMS", ds.transforms.ALL_TRANSFORMS)
        one = transformed_rates(plan, photo_files[:2], tmp_path / "one")
        two = transformed_rates(plan, photo_files[:2], tmp_path / "two", jobs=2)
    assert [rate.transform for rate in one] == [transform.name for transform in ds.transforms.ALL_TRANSFORMS]
    assert [(rate.transform, rate.success) for rate in two] == [(rate.transform, rate.success) for rate in one]


# -- the call ----------------------------------------------------------------------------------------


def test_the_call_runs_the_plan_that_its_arguments_say(
    tried: list[tuple[str, float]], pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = ds.redteam("pdq", tmp_path / "photos", methods=["nes"], variants=["original"], search=True)
    assert [rate.budget for rate in found] == list(ds.attacks.COST_BUDGETS)
    assert isinstance(found[0], ds.Rate)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]  # nothing is kept unless asked
    options: dict[str, Any] = {"methods": ("nes",), "budgets": (5.0,), "variants": ("original",), "seed": 3}
    kept = ds.redteam(deploy("pdq", n=77), [str(file) for file in pictures], **options, out="run")
    assert kept == ds.redteam(deploy("pdq", n=77), pictures, **options, out="run", resume=True)
    config = Run.open(tmp_path / "run").config
    assert (config["methods"], config["budgets"], config["seed"]) == (["nes"], [5.0], 3)
    assert config["defences"]["pdq"]["pdq"]["matcher"]["n"] == 77
    pictures[0].write_bytes(b"no image")
    with pytest.warns(UserWarning, match="unreadable, skipped: photos/a.png"):
        (rate,) = ds.redteam("pdq", tmp_path / "photos", **options)
    assert rate.images == 3


def test_arguments_of_the_wrong_type_are_refused(pictures: list[Path]) -> None:
    for arguments, message in (
        ({"images": 3}, "images is of type int"),
        ({"images": [3]}, "images is of type int"),
        ({"hash": None}, "NoneType"),
        ({"budgets": 3}, "budgets is of type int"),
        ({"seed": "1"}, "seed is of type str"),
        ({"strength": "much"}, "strength is of type str"),
        ({"out": 3}, "out is of type int"),
        ({"jobs": 0}, "jobs is 0"),
        ({"limit": 0}, "limit 0 is below 1"),
    ):
        with pytest.raises(InputError, match=message):
            ds.redteam(**{"hash": "pdq", "images": pictures, **arguments})  # type: ignore[arg-type]
