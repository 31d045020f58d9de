"""A calibration in one call, and how far it can be trusted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy.special import betaincinv

from dualshield.calibration.calibrate import calibrate, cautions, collisions_at_most
from dualshield.calibration.false_matches import threshold_for
from dualshield.calibration.measure import Calibration
from dualshield.errors import ImageError, InputError
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy
from tests.helpers.calibrations import GOOD, PLAN, chosen, of

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
    assert caution.startswith("collisions were measured on 2,994 pairs, which only shows that they are below 12.34 %")
    assert "give more photos (2,995 pairs can show 0.1 %)" in caution


def test_a_grid_that_ended_too_early_is_told(toy_hash: PerceptualHash) -> None:
    (caution,) = told(toy_hash, 5000, 1.0, 2.0)
    assert caution == "the best sigma 2 is the largest of the grid; try a larger grid, none:1,2,3,4"


def test_one_call_warns(
    toy_hash: PerceptualHash, photos: list[CanonicalImage], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        found = calibrate(photos, hash=toy_hash, plan=PLAN)
    assert caplog.messages == cautions(found)
    assert "measured on 26 pairs" in caplog.text
