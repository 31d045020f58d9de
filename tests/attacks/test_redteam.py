"""The cost of evasion by bisection, and its inferences."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dualshield.attacks import nes, redteam
from dualshield.attacks.redteam import Plan, Rate, cost_of_evasion
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Victim
from dualshield.errors import ImageError, InputError, NothingToAttackError
from dualshield.images import CanonicalImage, load_image
from dualshield.smoothing.deploy import deploy

BUDGETS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 90.0, 180.0)
COSTS = {"a.png": 0.5, "b.png": 7.0, "c.png": 30.0, "d.png": 1000.0}


@dataclass
class FakeResult:
    budget: float
    success: bool

    def to_dict(self) -> dict[str, Any]:
        numbers = {"l2": self.budget, "ssim": 0.9, "queries": 0, "seconds": 0.0, "warnings": []}
        decision = "no_match" if self.success else "match"
        return {**numbers, "success": self.success, "success_float": self.success, "decision": decision}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Attacks whose outcome is known; images are their names."""
    tries: list[tuple[str, float]] = []

    class FakeDefence:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def publish(self, image: str, noise: object) -> str:
            return image

        def victim(self, image: str, noise: object) -> str:
            return image

    def attack(victim: str, query: str, budget: Any, *, seed: int) -> FakeResult:
        if victim == "unmatched.png":
            raise NothingToAttackError("nothing to evade")
        tries.append((victim, budget.l2))
        return FakeResult(budget.l2, budget.l2 >= COSTS[victim])

    monkeypatch.setattr(redteam, "Defence", FakeDefence)
    monkeypatch.setattr(redteam, "load_image", lambda file: file.name)
    monkeypatch.setattr(redteam, "get_attack", lambda name: attack)
    return tries


def curve(files: list[str], *, search: bool, journal: Path | None = None) -> list[Rate]:
    plan = Plan(deploy("pdq"), ("eot-pgd",), BUDGETS, ("original",), search)
    return redteam.run(plan, [Path("photos") / name for name in files], journal)


def test_a_search_gives_the_curve_of_all_budgets_with_fewer_attacks(tried: list[tuple[str, float]]) -> None:
    complete = [rate.success for rate in curve(list(COSTS), search=False)]
    assert len(tried) == len(COSTS) * len(BUDGETS)
    tried.clear()
    rates = curve(list(COSTS), search=True)
    assert [rate.success for rate in rates] == complete == [0.25, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 0.75]
    assert len(tried) <= 4 * len(COSTS)
    assert sum(rate.attacked for rate in rates) == len(tried)
    assert all(rate.images == len(COSTS) for rate in rates)
    # A success is carried upwards with the image it found; where nothing was tried there is nothing to show.
    (last,) = curve(["b.png"], search=True)[-1:]
    assert (last.success, last.l2, last.attacked) == (1.0, 10.0, 0)
    (first,) = curve(["d.png"], search=True)[:1]
    assert (first.success, first.l2, first.ssim, first.attacked) == (0.0, None, None, 0)


def test_a_search_resumes_where_it_stopped(tried: list[tuple[str, float]], tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    rates = curve(list(COSTS), search=True, journal=journal)
    lines = [line for line in journal.read_text().splitlines(keepends=True) if line.strip()]
    journal.write_text("".join(lines[:-2]))
    tried.clear()
    assert curve(list(COSTS), search=True, journal=journal) == rates
    assert len(tried) == 2


def test_a_resumed_run_gives_what_an_uninterrupted_one_gives(photo_files: list[Path], tmp_path: Path) -> None:
    """The smoothed matcher is random, and near the boundary its decisions are: all of them must be repeated."""
    plan = Plan(deploy("pdq"), ("eot-pgd",), (6.0, 9.0), ("smoothing",), seed=5)
    files = photo_files[1:3]
    redteam.run(plan, files, tmp_path / "whole")
    whole = _results(tmp_path / "whole")
    assert len(whole) == 4
    lines = [line for line in (tmp_path / "whole").read_text().splitlines(keepends=True) if line.strip()]
    (tmp_path / "resumed").write_text("".join(lines[:3]))  # the settings and two of four records
    redteam.run(plan, files, tmp_path / "resumed")
    assert _results(tmp_path / "resumed") == whole


@pytest.mark.parametrize(
    "change",
    [
        {"key": ["original", "photos/a.png", "eot-pgd"]},
        {"key": ["original", "photos/a.png", "eot-pgd", True]},
        {"key": ["original", "photos/a.png", "eot-pgd", 3.0]},
        {"key": ["original", ["photos/a.png"], "eot-pgd", 1.0]},
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
    ],
    ids=lambda change: str(change)[:60],
)
def test_a_record_that_is_not_whole_counts_as_not_done(
    change: dict[str, Any], tried: list[tuple[str, float]], tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    plan = Plan(deploy("pdq"), ("eot-pgd",), (1.0,), ("original",))
    rates = redteam.run(plan, [Path("photos/a.png")], journal)
    header, _, record, *_ = journal.read_text().splitlines()
    whole = json.loads(record)
    if isinstance(change.get("result"), dict) and "success" not in change["result"] and change["result"]:
        change = {"result": {**whole["result"], **change["result"]}}
    journal.write_text(f"{header}\n{json.dumps({**whole, **change})}\n")
    tried.clear()
    assert redteam.run(plan, [Path("photos/a.png")], journal) == rates
    assert tried == [("a.png", 1.0)]
    tried.clear()
    assert redteam.run(plan, [Path("photos/a.png")], journal) == rates
    assert tried == []


def test_files_that_cannot_be_read_are_told_of_and_passed_over(
    tried: list[tuple[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(file: Path) -> str:
        if file.name == "bad.png":
            raise ImageError("bad.png: cut short")
        return file.name

    monkeypatch.setattr(redteam, "load_image", load)
    plan = Plan(deploy("pdq"), ("eot-pgd",), (1.0,), ("original",))
    files = [Path("photos") / name for name in ("a.png", "bad.png", "b.png")]
    told: list[ImageError] = []
    (rate,) = redteam.run(plan, files, unreadable=told.append)
    assert (rate.images, [str(error) for error in told]) == (2, ["bad.png: cut short"])
    with pytest.raises(ImageError, match="cut short"):
        redteam.run(plan, files)
    with pytest.raises(InputError, match="none of the files"):
        redteam.run(plan, files[1:2], unreadable=told.append)
    with pytest.raises(InputError, match="second image"):
        redteam.run(replace(plan, methods=("collision",)), files[:2], unreadable=told.append)


def _results(journal: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in journal.read_text().splitlines() if line.strip()][1:]
    return [{**record["result"], "seconds": 0, "key": record["key"]} for record in records]


def test_pairs_that_do_not_match_are_counted_apart(tried: list[tuple[str, float]]) -> None:
    rates = curve(["b.png", "unmatched.png"], search=True)
    assert all((rate.images, rate.unmatched) == (1, 1) for rate in rates)
    assert {name for name, _ in tried} == {"b.png"}


def test_the_same_file_twice_is_refused(tried: list[tuple[str, float]]) -> None:
    with pytest.raises(InputError, match="same folder and name"):
        curve(["a.png", "a.png"], search=True)


def rate(budget: float, success: float) -> Rate:
    return Rate("original", "pgd", budget, 1, 0, 1, success, success, 0.0, 0.0, 1.0, 0.0, 0.0, {})


def test_the_cost_lies_where_half_of_the_images_evade() -> None:
    assert cost_of_evasion([rate(1, 0.0), rate(4, 1.0)]) == pytest.approx(2.0)
    assert cost_of_evasion([rate(1, 0.25), rate(4, 0.5)]) == pytest.approx(4.0)
    assert cost_of_evasion([rate(1, 0.9), rate(4, 1.0)]) == 1.0
    assert cost_of_evasion([rate(1, 0.0), rate(4, 0.4)]) is None


def test_plans_are_checked() -> None:
    for budgets in ((), (2.0, 1.0), (1.0, 1.0), (0.0,)):
        with pytest.raises(InputError):
            Plan(deploy("pdq"), budgets=budgets)
    name: Any = "pdq"
    with pytest.raises(InputError, match=r"give a deployment, as from deploy\('pdq'\), not str"):
        Plan(name)


def test_results_of_another_matcher_are_not_mixed_in(tried: list[tuple[str, float]], tmp_path: Path) -> None:
    """The name of the hash is not all there is to a deployment."""
    files, journal = [Path("photos") / "a.png"], tmp_path / "journal"
    plan = Plan(deploy("pdq"), ("eot-pgd",), (1.0,), ("original",))
    assert plan.settings()["deployment"] == deploy("pdq").digest
    redteam.run(plan, files, journal)
    for other in (deploy("pdq", sigma=0.5), deploy("pdq", parameters="paper")):
        with pytest.raises(InputError, match="other settings"):
            redteam.run(replace(plan, deployment=other), files, journal)


def test_a_smaller_budget_that_an_attack_never_felt_is_not_tried_again(
    photo_files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def short_walk(victim: Victim, query: CanonicalImage, budget: AttackBudget, *, seed: int) -> AttackResult:
        tried.append(budget.l2)
        return nes.attack(victim, query, budget, steps=2, seed=seed)

    monkeypatch.setattr(redteam, "get_attack", lambda name: short_walk)
    plan = Plan(deploy("pdq"), ("nes",), (5.0, 90.0, 180.0), ("original",))
    rates = redteam.run(plan, photo_files[:1])
    assert tried == [180.0, 5.0]  # two steps lead further than 5 and not as far as 90
    assert [rate.attacked for rate in rates] == [1, 0, 1]
    assert rates[1].l2 == rates[2].l2 != rates[0].l2


def test_stronger_hardening_changes_the_published_image_more(photo_files: list[Path]) -> None:
    image = load_image(photo_files[1])
    changes = []
    for strength in (0.5, 2.0):
        lab = redteam._Laboratory(Plan(deploy("pdq"), strength=strength), "both")
        changes.append(float((lab.publish("photo", image).pixels - image.pixels).norm()))
    assert changes[1] > 1.5 * changes[0] > 0
