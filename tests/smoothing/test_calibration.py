"""Calibration: what is measured, and which point of the grid is chosen from it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.special import betaincinv

from dualshield.calibration.calibrate import calibrate, cautions, collisions_at_most
from dualshield.calibration.false_matches import threshold_for
from dualshield.calibration.measure import Calibration, CalibrationPlan
from dualshield.errors import ImageError, InputError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.profile import GridPoint, Profile, Rates, choose

PLAN = CalibrationPlan(
    grid=((None, (0.1, 0.4)), (4, (0.2,))), images=4, variant_images=2, radius_images=2, draws=40, vote_draws=5
)


def of(hash_: PerceptualHash, **options: Any) -> Deployment:
    """A deployment to calibrate; its own sigma does not matter."""
    return deploy(hash_, sigma=0.1, **options)


@pytest.fixture
def calibration(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> Calibration:
    return Calibration(of(toy_hash), photos, PLAN)


# -- the plan --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": 1}, "images 1 is below 2"),
        ({"variant_images": 0}, "variant images 0 is below 1"),
        ({"radius_images": 0}, "radius images 0 is below 1"),
        ({"draws": 0}, "draws 0 is below 1"),
        ({"vote_draws": 0}, "vote draws 0 is below 1"),
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


# -- the threshold ---------------------------------------------------------------------------------


def prefixes(*ones: int, bits: int = 10) -> torch.Tensor:
    """Codes with their first so many bits set: distances are differences."""
    return torch.stack([torch.arange(bits) < count for count in ones])


@pytest.mark.parametrize(
    ("fpr", "distance"),
    [(1 / 6, 2), (0.3, 2), (1 / 3, 3), (0.49, 3), (0.5, 4), (0.7, 7), (0.9, 8)],
)
def test_the_largest_distance_within_the_rate(fpr: float, distance: int) -> None:
    codes = prefixes(0, 1, 4, 9)  # distances 1 3 4 5 8 9
    # Distances from 5 on are capped: a threshold stays below one half.
    assert threshold_for(fpr, codes) == pytest.approx(min((distance + 0.5) / 10, 0.499))
    assert int(threshold_for(fpr, codes) * 10) == min(distance, 4)


def test_a_rate_finer_than_one_pair_is_refused() -> None:
    with pytest.raises(InputError, match=r"0\.16 cannot be measured on 6 pairs"):
        threshold_for(0.16, prefixes(0, 1, 4, 9))


def test_duplicates_are_pointed_out() -> None:
    with pytest.raises(InputError, match=r"even identical codes occur more often than 0\.4"):
        threshold_for(0.4, prefixes(0, 0, 0, 9))
    assert threshold_for(0.5, prefixes(0, 0, 0, 9)) == pytest.approx(0.499)


@pytest.mark.parametrize("fpr", [0.0, 1.0, -0.1, math.nan])
def test_rates_that_are_none(fpr: float) -> None:
    with pytest.raises(InputError, match="false-match rate"):
        threshold_for(fpr, prefixes(0, 1, 4, 9))


# -- the choice ------------------------------------------------------------------------------------

UNPROTECTED = Rates(0.2, 0, 0, variants_matched=0.9, collisions=0.01, worst_unrelated=1)
GOOD = Rates(0.2, 1.0, 1.0, variants_matched=0.9, collisions=0.01, worst_unrelated=0.5)


def chosen(hash_: PerceptualHash, *rates: tuple[Rates, Rates]) -> Profile:
    grid = [GridPoint(None, sigma, own, bare) for sigma, (own, bare) in enumerate(rates, 1)]
    return choose(hash_, UNPROTECTED, grid, {"photos": 3})


def test_the_highest_radius_wins_for_each_kind_of_reference(toy_hash: PerceptualHash) -> None:
    low, high = replace(GOOD, radius_identity=0.5), replace(GOOD, radius_identity=2.0)
    profile = chosen(toy_hash, (GOOD, high), (high, GOOD), (low, low))
    assert (profile.sigma, profile.external_sigma) == (2, 1)
    assert (profile.hash, profile.hash_version, profile.threshold) == ("toy", "1", 0.2)
    assert (profile.unprotected, profile.measured) == (UNPROTECTED, {"photos": 3})
    assert len(profile.grid) == 3


@pytest.mark.parametrize(
    "flaw",
    [{"collisions": 0.0101}, {"variants_matched": 0.889}],
    ids=["more collisions than unprotected", "variants more than a point below unprotected"],
)
def test_a_higher_radius_does_not_buy_errors(flaw: dict[str, float], toy_hash: PerceptualHash) -> None:
    flawed = replace(GOOD, radius_identity=9.0, **flaw)
    profile = chosen(toy_hash, (GOOD, GOOD), (flawed, flawed))
    assert (profile.sigma, profile.external_sigma) == (1, 1)


def test_a_point_of_variants_is_tolerated(toy_hash: PerceptualHash) -> None:
    nearly = replace(GOOD, radius_identity=9.0, variants_matched=0.8901)
    profile = chosen(toy_hash, (GOOD, GOOD), (nearly, nearly))
    assert (profile.sigma, profile.external_sigma) == (2, 2)


@pytest.mark.parametrize("flaw", [{"collisions": 0.0101}, {"variants_matched": 0.889}])
@pytest.mark.parametrize("bare", [False, True])
def test_nothing_allowed(flaw: dict[str, float], bare: bool, toy_hash: PerceptualHash) -> None:
    flawed = replace(GOOD, **flaw)
    with pytest.raises(InputError, match="toy: every sigma of the grid costs collisions or variants"):
        chosen(toy_hash, (GOOD, flawed) if bare else (flawed, GOOD))


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


def test_a_profile_deploys_the_threshold_that_was_measured(toy_hash: PerceptualHash) -> None:
    strict, bare = replace(GOOD, threshold=0.1), replace(GOOD, threshold=0.15)
    profile = chosen(toy_hash, (strict, bare))
    assert (profile.threshold, profile.external_threshold) == (0.1, 0.15)
    assert profile.config().threshold == profile.widest_config().threshold == 0.1
    assert profile.external_config().threshold == 0.15


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


# -- in one call -----------------------------------------------------------------------------------


def test_one_call_measures_the_same(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    codes = torch.stack([toy_hash.code(photo.pixels) for photo in photos])
    expected = Calibration(of(toy_hash), photos, PLAN, plain_codes=codes).run()
    found = calibrate(photos, hash=toy_hash, plan=PLAN)
    assert replace(found, measured=expected.measured) == expected
    # 4 photos and 5 blanks: 6 pairs of photos, 20 of a photo and a blank.
    facts = {"pairs": 26, "collisions_at_most": collisions_at_most(found.false_matches, 26)}
    assert found.measured == {**expected.measured, "date": found.measured["date"], "fpr": None, **facts}
    assert deploy(toy_hash, profile=found).members[0].config == found.config()


def test_photos_come_one_by_one_from_anywhere(toy_hash: PerceptualHash, photo_files: list[Path]) -> None:
    first, again = (
        calibrate((source(file) for file in photo_files[:4]), hash=toy_hash, plan=PLAN)
        for source in (str, Path.read_bytes)
    )
    assert replace(first, measured={}) == replace(again, measured={})


def test_photos_that_cannot_be_read(toy_hash: PerceptualHash, photos: list[CanonicalImage], tmp_path: Path) -> None:
    gone = tmp_path / "gone.jpg"
    with pytest.raises(ImageError, match=r"gone\.jpg"):
        calibrate([gone, *photos], hash=toy_hash, plan=PLAN)
    told: list[ImageError] = []
    found = calibrate([gone, *photos], hash=toy_hash, plan=PLAN, unreadable=told.append)
    assert found == calibrate(photos, hash=toy_hash, plan=PLAN)
    assert [str(gone) in str(error) for error in told] == [True]


def test_the_threshold_of_one_call(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    with pytest.raises(InputError, match="either a threshold or a false-match rate, not both"):
        calibrate(photos, hash=toy_hash, plan=PLAN, threshold=0.1, fpr=0.1)
    assert calibrate(photos, hash=toy_hash, plan=PLAN, threshold=0.1).unprotected.threshold == 0.1
    codes = torch.stack([toy_hash.code(photo.pixels) for photo in photos])
    by_rate = calibrate(photos, hash=toy_hash, plan=PLAN, fpr=0.1)
    assert by_rate.unprotected.threshold == threshold_for(0.1, codes)
    assert by_rate.measured["fpr"] == 0.1


# -- how far it can be trusted ---------------------------------------------------------------------


@pytest.mark.parametrize(("collided", "pairs"), [(0, 26), (0, 2994), (0, 2995), (1, 26), (25, 26), (26, 26), (7, 5450)])
def test_the_upper_limit_of_a_rate_is_that_of_clopper_and_pearson(collided: int, pairs: int) -> None:
    limit = collisions_at_most(float(torch.tensor(collided / pairs)), pairs)
    assert limit == pytest.approx(betaincinv(collided + 1, pairs - collided, 0.95) if collided < pairs else 1)
    # Half a pair collided in one order only.
    assert collided == pairs or collisions_at_most((collided + 0.5) / pairs, pairs) > limit


def told(hash_: PerceptualHash, pairs: int, *radii: float) -> list[str]:
    profile = chosen(hash_, *((replace(GOOD, radius_identity=radius), GOOD) for radius in radii))
    return cautions(replace(profile, measured={"pairs": pairs, "collisions_at_most": 0.1234}))


def test_too_few_pairs_are_told(toy_hash: PerceptualHash) -> None:
    assert told(toy_hash, 2995, 2.0, 1.0) == []
    (caution,) = told(toy_hash, 2994, 2.0, 1.0)
    assert caution.startswith(
        "collisions were measured on 2,994 pairs, which show no more than that they are below 12.34 %"
    )
    assert "2,995 pairs could show 0.1 %: give more photos" in caution


def test_a_grid_that_ended_too_early_is_told(toy_hash: PerceptualHash) -> None:
    (caution,) = told(toy_hash, 5000, 1.0, 2.0)
    assert caution == "the grid ended at sigma 2; larger ones may be better: --grid none:1,2,3,4"


def test_one_call_warns(
    toy_hash: PerceptualHash, photos: list[CanonicalImage], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        found = calibrate(photos, hash=toy_hash, plan=PLAN)
    assert caplog.messages == cautions(found)
    assert "measured on 26 pairs" in caplog.text


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
