"""From records to rates: searches give the curve of all budgets, and the cost of evasion lies on it."""

from __future__ import annotations

from pathlib import Path

import pytest

import dualshield as ds
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.evaluation.rates import Rate, cost_of_evasion
from dualshield.smoothing.deploy import deploy
from tests.helpers import redteam_run

BUDGETS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 90.0, 180.0)
COSTS = {"a.png": 0.5, "b.png": 7.0, "c.png": 30.0, "d.png": 1000.0}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    return redteam_run.known_costs(monkeypatch, COSTS)


def curve(tmp_path: Path, *names: str, search: bool) -> list[Rate]:
    plan = RedTeamPlan(deploy("pdq"), ("eot-pgd",), BUDGETS, ("original",), search)
    folder = f"{'search' if search else 'all'}{''.join(names)}"
    return redteam_run.rates(plan, redteam_run.noise_images(tmp_path / "photos", *names), tmp_path / folder)


def test_a_search_gives_the_curve_of_all_budgets_with_fewer_attacks(
    tried: list[tuple[str, float]], tmp_path: Path
) -> None:
    complete = [rate.success for rate in curve(tmp_path, *COSTS, search=False)]
    assert len(tried) == len(COSTS) * len(BUDGETS)
    tried.clear()
    rates = curve(tmp_path, *COSTS, search=True)
    assert [rate.success for rate in rates] == complete == [0.25, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 0.75]
    assert len(tried) <= 4 * len(COSTS)
    assert sum(rate.attacked for rate in rates) == len(tried)
    assert all(rate.images == len(COSTS) for rate in rates)
    # A success is carried upwards with the image it found; where nothing was tried there is nothing to show.
    (last,) = curve(tmp_path, "b.png", search=True)[-1:]
    assert (last.success, last.l2, last.attacked) == (1.0, 10.0, 0)
    (first,) = curve(tmp_path, "d.png", search=True)[:1]
    assert (first.success, first.l2, first.ssim, first.attacked) == (0.0, None, None, 0)


def test_pairs_that_do_not_match_are_counted_apart(tried: list[tuple[str, float]], tmp_path: Path) -> None:
    rates = curve(tmp_path, "b.png", "unmatched.png", search=True)
    assert all((rate.images, rate.unmatched) == (1, 1) for rate in rates)
    assert {name for name, _ in tried} == {"b.png"}


def test_budgets_that_differ_little_are_two(tried: list[tuple[str, float]], tmp_path: Path) -> None:
    plan = RedTeamPlan(deploy("pdq"), ("eot-pgd",), (7.0 - 1e-7, 7.0), ("original",))
    rates = redteam_run.rates(plan, redteam_run.noise_images(tmp_path / "photos", "b.png"), tmp_path / "run")
    assert [rate.success for rate in rates] == [0.0, 1.0]


def rate(budget: float, success: float) -> Rate:
    return Rate("original", "pgd", budget, 1, 0, 1, success, success, 0.0, 0.0, 1.0, 0.0, 0.0, {})


def test_the_cost_lies_where_half_of_the_images_evade() -> None:
    assert ds.cost_of_evasion is cost_of_evasion
    assert cost_of_evasion([rate(1, 0.0), rate(4, 1.0)]) == pytest.approx(2.0)
    assert cost_of_evasion([rate(1, 0.25), rate(4, 0.5)]) == pytest.approx(4.0)
    assert cost_of_evasion([rate(1, 0.9), rate(4, 1.0)]) == 1.0
    assert cost_of_evasion([rate(1, 0.0), rate(4, 0.4)]) is None
