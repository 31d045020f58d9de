"""The transcription agrees with the sums that the paper itself states."""

from __future__ import annotations

import pytest

from dualshield.evaluation.report import paper_figures as paper

ROUNDING = 0.1  # half a digit of the sum, and half a digit of its terms


def known(value: float | None) -> float:
    assert value is not None
    return value


def mean(values: list[float | None]) -> float:
    return sum(map(known, values)) / len(values)


@pytest.mark.parametrize("variant", ["original", "both"])
@pytest.mark.parametrize("part", ["whitebox", "blackbox"])
@pytest.mark.parametrize("name", paper.HASHES)
def test_the_summary_averages_the_budgets(name: str, part: str, variant: str) -> None:
    cells = [paper.attack(part, name, budget, variant) for budget in paper.BUDGETS]
    assert known(paper.overall(name, part, variant)) == pytest.approx(mean(cells), abs=ROUNDING)


@pytest.mark.parametrize("variant", ["original", "both"])
@pytest.mark.parametrize("name", paper.HASHES)
def test_the_summary_averages_the_transformations(name: str, variant: str) -> None:
    cells = [paper.transformation(name, family, variant) for family in paper.FAMILIES]
    # The paper weights by the pairs that matched before, so the plain mean of rounded cells may be one digit off.
    assert known(paper.overall(name, "transforms", variant)) == pytest.approx(mean(cells), abs=2 * ROUNDING)


@pytest.mark.parametrize("name", paper.HASHES)
def test_the_summary_repeats_radii_and_collisions(name: str) -> None:
    for variant in ("original", "both"):
        assert paper.overall(name, "certified", variant) == paper.certified_radius(name, variant)
        collided = known(paper.collisions(name, variant))
        assert known(paper.overall(name, "collisions", variant)) == pytest.approx(collided, abs=ROUNDING)


@pytest.mark.parametrize("variant", paper.VARIANTS)
@pytest.mark.parametrize("part", ["whitebox", "blackbox"])
def test_the_ablation_averages_all_hashes_and_budgets(part: str, variant: str) -> None:
    cells = [paper.attack(part, name, budget, variant) for name in paper.HASHES for budget in paper.BUDGETS]
    assert known(paper.ablation(part, variant)) == pytest.approx(mean(cells), abs=ROUNDING)


@pytest.mark.parametrize("variant", ["smoothing", "both"])
def test_the_ablation_averages_the_radii(variant: str) -> None:
    radii = [paper.certified_radius(name, variant) for name in paper.HASHES]
    assert known(paper.ablation("certified", variant)) == pytest.approx(mean(radii), abs=0.00051)


@pytest.mark.parametrize(("budget", "stated", "digits"), [(40.0, 0.09, 2), (90.0, 4.6, 1), (180.0, 30.8, 1)])
def test_what_the_text_says_about_each_budget(budget: float, stated: float, digits: int) -> None:
    cells = [paper.attack("whitebox", name, budget, "both") for name in paper.HASHES]
    assert mean(cells) == pytest.approx(stated, abs=0.51 * 10**-digits)


@pytest.mark.parametrize("name", ["dinohash", "hybridhash", "c-pdna", "c-pdq"])
@pytest.mark.parametrize("quality", paper.QUALITIES)
def test_the_main_text_averages_the_datasets(name: str, quality: str) -> None:
    cells = [paper.hardening(name, dataset, quality) for dataset in paper.DATASETS]
    tolerance = ROUNDING if quality == "fid" else 0.00101
    assert known(paper.hardening(name, "all", quality)) == pytest.approx(mean(cells), abs=tolerance)


@pytest.mark.parametrize("name", paper.HASHES)
def test_all_pairs_of_ours_are_certified_at_both_radii(name: str) -> None:
    assert [paper.cner(name, radius, "both") for radius in paper.CNER_RADII] == [100.0, 100.0]


@pytest.mark.parametrize("name", paper.HASHES)
@pytest.mark.parametrize("variant", ["original", "both"])
def test_larger_budgets_distort_more(name: str, variant: str) -> None:
    """As the text says of every hash and variant; a slipped row or column would break it."""
    ssim, lpips, fid = (
        [known(paper.distortion(name, variant, budget, quality)) for budget in paper.BUDGETS]
        for quality in paper.QUALITIES
    )
    assert ssim == sorted(ssim, reverse=True)
    assert lpips == sorted(lpips)
    assert fid == sorted(fid)


def test_what_the_paper_has_not_is_none() -> None:
    assert paper.attack("whitebox", "pdq", 40.0, "both") is None
    assert paper.attack("adaptive", "neuralhash", 40.0, "both") is None
    assert paper.attack("whitebox", "neuralhash", 41.0, "both") is None
    assert paper.attack("whitebox", "neuralhash", 40.0, "hardening") is None
    assert paper.certified_radius("neuralhash", "original") is None
    assert paper.overall("neuralhash", "whitebox", "smoothing") is None
    assert paper.hardening("neuralhash", "all", "ssim") is None
    assert paper.hardening("neuralhash", "my photos", "ssim") is None
    assert paper.collisions("c-pdq+pdq", "both") is None
    assert paper.ablation("certified", "original") is None
    assert paper.ablation("whitebox", "hardening") is None
