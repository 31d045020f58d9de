"""Views are searched, and their thresholds calibrated, on photos."""

from __future__ import annotations

import pytest
import torch

from dualshield.calibration import view_search, views
from dualshield.calibration.plain_views import PlainViews
from dualshield.calibration.view_search import QUERY_POOL, REFERENCE_POOL, Wish, near_views, search_views, symmetric
from dualshield.calibration.views import FAR, ViewCalibration, ViewPlan, thresholds
from dualshield.hashes.codes import bit_error_rate
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.profile import Profile, Rates
from dualshield.smoothing.views import Views
from dualshield.transforms import parse
from tests.helpers.profiles import point

MIRROR = View(mirror=True)


@pytest.fixture
def few_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    edits = tuple(map(parse, ("flip-1", "border-0.05", "jpeg-30")))
    for module in (view_search, views):
        monkeypatch.setattr(module, "EVERYDAY_EDITS", edits)


@pytest.fixture
def plain(toy_hash: PerceptualHash) -> Deployment:
    return deploy(toy_hash, config=MatcherConfig(sigma=0.1))


def test_codes_of_views_are_those_of_what_they_show(plain: Deployment, photos: list[CanonicalImage]) -> None:
    looks = [IDENTITY, MIRROR, View.trimmed(0.1), View(rotation=8), View(turn=1, grey=True)]
    codes = PlainViews(plain).codes(photos[0].pixels, looks)
    for view, code in zip(looks, codes, strict=True):
        shown = torch.from_numpy(view(photos[0].pixels.numpy()))
        assert bit_error_rate(code, plain.hashes[0].code(shown)) <= 1 / 64  # rounding may move a bit


def test_the_search_takes_what_is_needed_and_no_more() -> None:
    far, near = 100, 5
    table = torch.full((4, 3, len(QUERY_POOL), len(REFERENCE_POOL)), far)
    mirrored, halves = REFERENCE_POOL.index(MIRROR), QUERY_POOL.index(View(bottom=0.45))
    table[:, 0, 0, 0] = near  # one edit is found as it is
    table[:, 1, 0, mirrored] = near  # one by a view of the reference
    table[:, 2, halves, REFERENCE_POOL.index(View(bottom=0.45))] = near  # one by a view of both
    found = search_views(table, 10, Wish(0.0, 0.8))
    assert found == Views((IDENTITY, MIRROR, View(bottom=0.45)), (IDENTITY, View(bottom=0.45)))


def test_the_search_stops_where_nothing_helps() -> None:
    table = torch.full((2, 1, len(QUERY_POOL), len(REFERENCE_POOL)), 100)
    assert search_views(table, 10, Wish(0.0, 0.8)).is_none


def test_one_sided_views_get_their_mirror_images() -> None:
    found = symmetric(Views((IDENTITY, View(left=0.1), View(rotation=8), View.trimmed(0.1))))
    assert set(found.reference) == {
        *(IDENTITY, View(left=0.1), View(right=0.1), View(rotation=8), View(rotation=-8), View.trimmed(0.1))
    }


def test_thresholds_let_no_more_pairs_match_than_allowed() -> None:
    generator = torch.Generator().manual_seed(0)
    tables = [torch.randint(0, 60, (40, 50), generator=generator, dtype=torch.int16) for _ in range(2)]
    for allowed in (0, 3, 50):
        first, other = thresholds(tables, 30, allowed)
        assert int(((tables[0] <= first) | (tables[1] <= other)).sum()) <= max(allowed, int((tables[0] == 0).sum() * 2))
    far = [torch.full((3, 3), FAR, dtype=torch.int16)] * 2
    assert thresholds(far, 30, 0) == (30, 30)


@pytest.mark.usefixtures("few_edits")
def test_a_preset_is_measured(plain: Deployment, toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    grid = (point(None, 0.4), point(None, 0.8))
    unprotected = Rates(0.2, 0, 0, 0.9, 0.01, 1.0)
    own = Profile("toy", toy_hash.version, 0.15, None, 0.8, 0.12, None, 0.4, unprotected, grid)
    plan = ViewPlan(references=2, edit_images=2, documents=2, fractions=(0.4,))
    run = ViewCalibration(plain, own, photos[:4], plan)
    preset = run.preset(Views((IDENTITY, MIRROR), (IDENTITY, View.trimmed(0.06))))
    assert preset.second_sigma == pytest.approx(0.32)
    assert preset.threshold is not None
    assert preset.threshold <= toy_hash.threshold
    assert set(preset.measured["evasion"]) == {"flip-1", "border-0.05", "jpeg-30"}
    assert preset.measured["plain_evasion"]["flip-1"] == 0.0
    assert preset.measured["pairs"] == 4 * (4 + 2 + 5 - 1)


@pytest.mark.usefixtures("few_edits")
def test_near_views_finds_a_mirrored_copy(plain: Deployment, photos: list[CanonicalImage]) -> None:
    table = near_views(PlainViews(plain), photos[:1])
    assert table.shape == (1, 3, len(QUERY_POOL), len(REFERENCE_POOL))
    assert int(table[0, 0, 0, REFERENCE_POOL.index(MIRROR)]) <= 1
    assert int(table[0, 0, 0, 0]) > 5
