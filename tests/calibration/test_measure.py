"""What a calibration measures, on which photos and points of the grid, and how it is resumed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dualshield.calibration.measure import Calibration, CalibrationPlan
from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.deploy import deploy
from tests.helpers.calibrations import PLAN, of

# -- the plan --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": 1}, "images 1 is not between 2"),
        ({"variant_images": 0}, "variant images 0 is not between 1"),
        ({"radius_images": 0}, "radius images 0 is not between 1"),
        ({"draws": 0}, "draws 0 is not between 1"),
        ({"vote_draws": 0}, "vote draws 0 is not between 1"),
        ({"alpha": 0.0}, "alpha 0.0"),
        ({"alpha": 1.0}, "alpha 1.0"),
        ({"alpha": math.nan}, "alpha nan"),
        ({"seed": -1}, "seed -1"),
        ({"seed": 2**63}, "seed 9223372036854775808"),
        ({"grid": ()}, "positive sigmas"),
        ({"grid": ((None, ()),)}, "positive sigmas"),
        ({"grid": ((None, (0.1, 0.0)),)}, "positive sigmas"),
        ({"grid": ((None, (math.nan,)),)}, "positive sigmas"),
        ({"grid": ((None, (math.inf,)),)}, "positive sigmas"),
        ({"grid": ((None, (1e-9,)),)}, "positive sigmas, from 1e-06"),
        ({"grid": ((32, (0.1,)), (32, (0.2,)))}, "a low-pass twice"),
        ({"grid": ((32, (0.1, 0.2, 0.1)),)}, "a sigma twice"),
    ],
)
def test_plans_that_measure_nothing(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CalibrationPlan(**change)


def test_too_few_photos(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    with pytest.raises(InputError, match="at least 2 photos, got 1"):
        Calibration(of(toy_hash), photos[:1], PLAN)


def test_several_hashes_at_once(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    with pytest.raises(InputError, match=r"one hash at a time, not toy\+pdq"):
        Calibration(deploy([toy_hash, "pdq"], sigma=0.1), photos, PLAN)


@pytest.mark.parametrize(
    ("plan", "options", "message"),
    [
        (replace(PLAN, grid=((None, (0.1,)), (1, (0.1,)))), {}, "low-pass"),
        (PLAN, {"engine": "tensorrt"}, "unknown engine"),
        (PLAN, {"device": "abacus"}, "unknown device"),
        (PLAN, {"batch_size": 0}, "batch size 0"),
    ],
)
def test_what_cannot_be_used_fails_before_measuring(
    plan: CalibrationPlan,
    options: dict[str, Any],
    message: str,
    toy_hash: PerceptualHash,
    photos: list[CanonicalImage],
) -> None:
    with pytest.raises(InputError, match=message):
        Calibration(of(toy_hash, **options), photos, plan)


# -- measuring -------------------------------------------------------------------------------------


def test_blank_images_have_next_to_no_texture(photos: list[CanonicalImage]) -> None:
    def texture(image: CanonicalImage) -> float:
        """Mean step between neighbours of a 64 x 64 thumbnail."""
        small = torch.nn.functional.avg_pool2d(image.pixels, 8)
        return float(small.diff(dim=2).abs().mean() + small.diff(dim=1).abs().mean())

    blanks = blank_images()
    assert len({blank.name for blank in blanks}) == len(blanks) >= 3
    for blank in blanks:
        assert blank.pixels.shape == (3, 512, 512)
        assert 0 <= blank.pixels.min() <= blank.pixels.max() <= 1
    assert max(texture(blank) for blank in blanks) < 0.25 * min(texture(photo) for photo in photos)


def test_which_pairs_are_unrelated(calibration: Calibration) -> None:
    images = len(calibration.images)
    assert images == 4 + len(blank_images())
    for index in range(images):
        others = calibration._others(index)
        for other in range(images):
            # Blanks are references and queries, but never of each other.
            assert bool(others[other]) == (index != other and not (index >= 4 and other >= 4))


def test_the_vote_threshold_falls_until_collisions_are_back_at_the_unprotected_level(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    # At this sigma an 8 x 8 thumbnail is all noise, and consensus codes of different photos collide by chance.
    calibration = Calibration(of(toy_hash.with_threshold(0.45)), photos, PLAN, plain_codes=torch.eye(64).bool())
    assert calibration.unprotected.collisions > 0  # unit vectors are 2 bits apart
    strict = Calibration(of(toy_hash.with_threshold(0.45)), photos, PLAN)
    assert strict.unprotected.collisions < calibration.unprotected.collisions
    for run in (calibration, strict):
        for point in run.run().grid:
            for rates in (point.consensus, point.external):
                assert rates.collisions <= run.unprotected.collisions
                assert rates.threshold <= 0.45
    lowest = min(point.consensus.threshold for point in strict.run().grid)
    assert lowest < min(point.consensus.threshold for point in calibration.run().grid) == 0.45


def test_the_same_seed_gives_the_same_profile(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    # A sigma that divides the votes, so that the noise shows.
    plan = replace(PLAN, grid=((None, (0.1, 8.0)),))
    first, again, other = (Calibration(of(toy_hash), photos, replace(plan, seed=seed)).run() for seed in (5, 5, 6))
    assert first == again
    assert first.grid != other.grid


def test_sigmas_are_measured_from_the_smallest_on(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    plan = replace(PLAN, grid=((None, (0.4, 0.1)),))
    seen: list[tuple[str, int, int]] = []
    profile = Calibration(of(toy_hash), photos, plan).run(progress=lambda *step: seen.append(step))
    assert [point.sigma for point in profile.grid] == [0.1, 0.4]
    assert seen == [("low-pass none, sigma 0.1", 0, 2), ("low-pass none, sigma 0.4", 1, 2), ("choosing", 2, 2)]


def test_a_larger_choice_of_sigmas_never_costs_radius(photos: list[CanonicalImage]) -> None:
    faint = CanonicalImage(0.5 + 0.05 * (photos[0].pixels - 0.5), "faint")
    sigmas = (0.2, 1.0, 2.0, 8.0)
    plan = replace(PLAN, grid=((None, sigmas),), radius_images=4, draws=400)
    grid = Calibration(of(get_hash("pdq")), [faint, *photos[:3]], plan)._measure(None, sigmas, lambda *_: None)
    radii = [point.consensus.radius_identity for point in grid]
    assert radii == sorted(radii)
    assert radii[0] < radii[2]
    # Without a choice, a bare code at the largest sigma drowns.
    assert grid[3].external.radius_identity < grid[2].external.radius_identity


def test_rates_of_the_plain_hash(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    twin = replace(photos[0], name="twin")
    unprotected = Calibration(of(toy_hash), [photos[0], twin, photos[1], photos[2]], PLAN).run().unprotected
    assert unprotected.radius_identity == unprotected.radius_variants == 0
    assert unprotected.worst_unrelated == 1
    # The twins collide, among 6 pairs of photos and 20 of a photo and a blank.
    assert unprotected.collisions >= 1 / 26 - 1e-6


# -- the journal -----------------------------------------------------------------------------------


def test_a_finished_journal_measures_nothing_again(
    calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "journal"
    first = calibration.run(journal)
    assert first == calibration.run()
    monkeypatch.delattr(Calibration, "_measure")
    assert calibration.run(journal) == first


@pytest.mark.parametrize("cut", ["", "[", '[{"lowpass": 4, "sig', "[]", "[3]", "{}", "null"])
def test_a_line_cut_short_is_measured_again(
    cut: str, calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "journal"
    whole = calibration.run(journal)
    lines = [line for line in journal.read_text(encoding="utf-8").splitlines() if line]
    assert len(lines) == 3  # the settings, and two low-passes
    journal.write_text("\n".join([*lines[:2], cut]), encoding="utf-8")
    measured: list[int | None] = []
    measure = Calibration._measure

    def spy(self: Calibration, lowpass: int | None, *rest: Any) -> Any:
        measured.append(lowpass)
        return measure(self, lowpass, *rest)

    monkeypatch.setattr(Calibration, "_measure", spy)
    assert calibration.run(journal) == whole
    assert measured == [4]
    # What was appended behind the cut can itself be read back.
    assert calibration.run(journal) == whole
    assert measured == [4]


def test_a_journal_of_other_photos_is_refused(
    toy_hash: PerceptualHash, photos: list[CanonicalImage], calibration: Calibration, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    calibration.run(journal)
    assert json.loads(journal.read_text(encoding="utf-8").splitlines()[0])["names"] == [p.name for p in photos[:4]]
    for other in (
        Calibration(of(toy_hash), photos[1:], PLAN),
        Calibration(of(toy_hash), photos, replace(PLAN, seed=1)),
        Calibration(of(toy_hash.with_threshold(0.1)), photos, PLAN),
    ):
        with pytest.raises(InputError, match="other settings"):
            other.run(journal)
