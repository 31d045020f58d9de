from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualshield.evaluation.intervals import wilson
from dualshield.evaluation.rates import Rate, cost_of_evasion
from dualshield.evaluation.report import figures as metrics
from dualshield.evaluation.report.figures import Figure, Results
from dualshield.evaluation.run.records import Key, Record, Run
from dualshield.transforms.paper import MILDEST


def results(*lines: tuple[tuple[str, ...], dict[str, Any]], config: dict[str, Any] | None = None) -> Results:
    records = tuple(Record(Key(*key), result) for key, result in lines)
    return Results(Run(Path("run"), config or {}, records))


def attack(part: str, image: str, budget: str, **result: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return (part, "pdq", "both", "coco", image, budget), result


def value(figure: Figure | None) -> float:
    assert figure is not None
    return figure.value


def test_a_rate_is_counted_and_has_wilsons_interval() -> None:
    figure = metrics.rate([True, False, False, False])
    assert figure == Figure(0.25, *wilson(1, 4), 4)
    assert metrics.rate([]) is None


def test_an_average_of_shares_has_the_interval_of_its_images_not_of_its_trials() -> None:
    figure = metrics.share([1.0, 1 / 3, 2 / 3])
    assert figure is not None
    assert figure.value == pytest.approx(2 / 3)
    assert (figure.low, figure.high, figure.count) == (*wilson(2, 3), 3)


def test_a_mean_ignores_what_is_no_finite_number() -> None:
    figure = metrics.mean([1.0, None, math.nan, math.inf, "3", True, 10**400, 3])
    assert figure is not None
    assert (figure.value, figure.count) == (2.0, 2)
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low < 2 < figure.high
    assert metrics.mean([5.0]) == Figure(5.0, None, None, 1)
    assert metrics.mean([None]) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 2**31))
def test_the_cost_is_the_red_teams(successes: list[float], seed: int) -> None:
    dice = random.Random(seed)
    budgets = sorted(dice.sample(range(1, 1000), len(successes)))
    rates = [
        Rate("both", "eot-pgd", float(b), 9, 0, 9, s, s, 0.0, None, None, None, None, {})
        for b, s in zip(budgets, successes, strict=True)
    ]
    ours = metrics.half_way([(rate.budget, rate.success) for rate in rates])
    theirs = cost_of_evasion(rates)
    assert ours is not None
    if theirs is None:
        assert ours == (budgets[-1], ">")
    else:
        assert ours[0] == pytest.approx(theirs)
        assert (ours[1] == "≤") == (successes[0] >= 0.5)


def test_a_curve_without_points_has_no_cost() -> None:
    assert metrics.half_way([]) is None


def test_pairs_that_did_not_match_and_broken_records_are_left_out_of_success() -> None:
    found = results(
        attack("whitebox", "a", "40", success=True),
        attack("whitebox", "b", "40", success=False),
        attack("whitebox", "c", "40", unmatched=True),
        attack("whitebox", "d", "40", success="yes"),
        attack("whitebox", "e", "nan", success=True),
        attack("whitebox", "f", "everything", success=True),
    )
    assert found.budgets("whitebox") == [40.0]
    assert found.success("whitebox", "pdq", "both", 40.0) == metrics.rate([True, False])
    assert found.success("whitebox", "pdq", "original", 40.0) is None


def test_the_average_takes_images_with_all_budgets() -> None:
    found = results(
        attack("whitebox", "a", "40", success=False),
        attack("whitebox", "a", "90", success=True),
        attack("whitebox", "b", "90", success=True),
    )
    average = found.average_success("whitebox", "pdq", "both")
    assert average is not None
    assert (average.value, average.count) == (0.5, 1)


def test_a_search_settles_larger_and_smaller_budgets() -> None:
    found = results(
        attack("adaptive", "a", "5", success=True),
        attack("adaptive", "a", "2", success=False),
        attack("adaptive", "b", "20", success=False),
        attack("adaptive", "b", "1", success=False),
        attack("adaptive", "c", "2", unmatched=True),
    )
    outcomes = found.outcomes("adaptive", "pdq", "both")
    assert outcomes["coco", "a"] == {1: False, 2: False, 5: True, 20: True}
    assert outcomes["coco", "b"] == {1: False, 2: False, 5: False, 20: False}
    cost = found.cost("pdq", "both")
    assert cost is not None
    assert (cost.value, cost.count, cost.bound) == (5.0, 2, "")


def test_a_search_that_was_interrupted_says_nothing_about_what_it_did_not_settle() -> None:
    found = results(attack("adaptive", "a", "20", success=True), attack("adaptive", "b", "1", success=False))
    assert found.outcomes("adaptive", "pdq", "both") == {("coco", "a"): {20: True}, ("coco", "b"): {1: False}}


def test_a_success_counts_although_a_larger_budget_failed() -> None:
    found = results(attack("adaptive", "a", "5", success=True), attack("adaptive", "a", "20", success=False))
    assert found.outcomes("adaptive", "pdq", "both")["coco", "a"] == {5: True, 20: True}


def test_costs_beyond_the_budgets_are_bounds() -> None:
    never = results(attack("adaptive", "a", "180", success=False)).cost("pdq", "both")
    at_once = results(attack("adaptive", "a", "1", success=True)).cost("pdq", "both")
    assert never is not None
    assert at_once is not None
    assert (never.value, never.bound, never.high) == (180.0, ">", None)
    assert (at_once.value, at_once.bound, at_once.low) == (1.0, "≤", None)


def certificate(image: str, detail: str, **result: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return ("certified", "pdq", "both", "coco", image, detail), result


def test_only_certified_matches_have_a_radius() -> None:
    found = results(
        certificate("a", "identity", decision="match", radius=0.3),
        certificate("b", "identity", decision="no_match", radius=0.9),
        certificate("c", "identity", decision="abstain", radius=None),
        certificate("d", "identity", unmatched=True),
        certificate("a", "jpeg-95", decision="match", radius=0.2),
    )
    assert found.radii("pdq", "both") == [0.3, 0, 0, 0]
    assert found.radii("pdq", "both", benign=True) == [0.2]
    assert value(metrics.cner(found.radii("pdq", "both"), 0.1)) == 0.25
    assert value(metrics.cner([0.1, 0.2], 0.2)) == 0.5
    assert value(metrics.cner([0.0, 0.2], 0.0)) == 0.5  # no certificate is none, also at radius 0
    assert metrics.cner([], 0.1) is None


def transformed(image: str, name: str, evaded: bool) -> tuple[tuple[str, ...], dict[str, Any]]:
    return ("transforms", "pdq", "both", "coco", image, name), {"evaded": evaded, "paper": name != "flip-1"}


def test_families_weigh_the_same_however_many_levels_they_have() -> None:
    found = results(
        *(transformed("a", name, name.startswith("brightness")) for name in MILDEST),
        transformed("a", "jpeg-40", True),
        transformed("a", "flip-1", True),
        transformed("b", "jpeg-95", True),  # interrupted after one: no average yet
    )
    lowest = found.lowest_evasion("pdq", "both")
    assert lowest is not None
    assert lowest.value == pytest.approx(1 / 7)
    assert lowest.count == 1
    assert value(found.evasion("pdq", "both", ["jpeg-95"])) == 0.5
    assert value(found.evasion("pdq", "both", ["flip-1"])) == 1.0
    assert found.evasion("pdq", "both", ["never-run"]) is None
    assert found.transforms[-1] == ("flip-1", False)


def test_distances_of_sets_and_null_metrics() -> None:
    found = results(
        (("fid", "pdq", "both", "all", "", "hardened"), {"fid": 12.5, "images": 300}),
        (("fid", "pdq", "both", "all", "", "40"), {"fid": None, "images": 300}),
        (("quality", "pdq", "both", "coco", "a", ""), {"ssim": 0.9, "lpips": None}),
        (("quality", "pdq", "both", "sd", "a", ""), {"ssim": 0.7, "lpips": None}),
    )
    assert found.fid("pdq", "both", "all", "hardened") == Figure(12.5, None, None, 300)
    assert found.fid("pdq", "both", "all", 40.0) is None
    assert found.quality("pdq", "both", "coco", "ssim") == Figure(0.9, None, None, 1)
    assert value(found.quality("pdq", "both", "all", "ssim")) == pytest.approx(0.8)
    assert found.unmeasured("quality", "lpips")
    assert not found.unmeasured("quality", "ssim")
    assert not found.unmeasured("fid", "fid")
    assert not found.unmeasured("whitebox", "lpips")  # not run is not unmeasured


def test_the_later_of_two_records_counts_and_the_order_is_the_configurations(tmp_path: Path) -> None:
    lines = [
        {"key": ["collisions", "b", "both", "coco", "x", "coco/y"], "result": {"collided": True}},
        {"key": ["collisions", "b", "both", "coco", "x", "coco/y"], "result": {"collided": False}},
        {"key": ["collisions", "a", "original", "coco", "x", "coco/y"], "result": {"collided": False}},
        {"key": ["collisions", 3, None, "coco", "x", "coco/y"], "result": {"collided": True}},
    ]
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"key": ["cut', encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"hashes": ["a", "b", 7], "variants": "both"}), encoding="utf-8")
    found = Results(Run.open(tmp_path))
    assert found.hashes == ["a", "b"]
    assert found.variants == ["original", "both"]
    assert value(found.collisions("b", "both")) == 0.0


def test_an_interval_stays_within_what_the_metric_can_be() -> None:
    few = metrics.mean([0.99, 0.9], most=1.0)
    assert few is not None
    assert (few.low is not None, few.high) == (True, 1.0)
    near_zero = metrics.mean([0.0, 0.01])
    assert near_zero is not None
    assert near_zero.low == 0.0
