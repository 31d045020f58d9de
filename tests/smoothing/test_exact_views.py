"""The exact matcher with views: any pair of views matches, one pair proves a match, all pairs a non-match."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualshield.errors import InputError, TooLittleStructureError, UnusableReferenceError
from dualshield.hashes import get_hash
from dualshield.hashes.linear import pdq
from dualshield.hashes.linear.linear_hash import LinearHash, Rule, luma_of
from dualshield.images import CanonicalImage
from dualshield.images.canonical_array import CanonicalArray
from dualshield.images.space import LUMA
from dualshield.images.synthetic import natural_image
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.deployment import ExactDeployment
from dualshield.smoothing.exact.matcher import ExactMatcher
from dualshield.smoothing.exact.reference import ExactReference
from dualshield.smoothing.exact.reference_views import ReferenceViews
from dualshield.smoothing.exact.soft_distance import gradient
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.views import NO_VIEWS, Views
from dualshield.transforms import parse

Pixels = npt.NDArray[np.float64]
VIEWS = Views(
    (IDENTITY, View(mirror=True), View(turn=1), View(rotation=4.0), View.trimmed(0.05)),
    (IDENTITY, View.trimmed(0.06), View(top=0.1), View(top=0.05, bottom=0.05, grey=True)),
)
SMALL = Views(
    (IDENTITY, View(mirror=True), View(turn=1), View(rotation=30.0)),
    (IDENTITY, View.trimmed(0.125), View(top=0.25, mirror=True)),
)
SIGMAS, THRESHOLDS = (0.5, 1.0, 2.8), (0.2197, 0.2384, 0.2916)
SEEDS = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def matcher() -> ExactMatcher:
    return ExactMatcher(pdq.load(), ExactConfig(SIGMAS, THRESHOLDS, 32, VIEWS))


@pytest.fixture(scope="module")
def kept(matcher: ExactMatcher, photos: list[CanonicalImage]) -> ExactReference:
    return matcher.enroll_pixels(photos[0].pixels.numpy())


# -- what views are --------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [*VIEWS.query, View(mirror=True, left=0.2), View(turn=2, bottom=0.3)], ids=str)
def test_the_hash_behind_a_view_is_the_hash_of_what_the_view_shows(view: View, photos: list[CanonicalImage]) -> None:
    pixels = photos[0].pixels.double().numpy()
    for linear in (pdq.load(), pdq.load().with_lowpass(32), get_hash("phash").linear):
        assert linear is not None
        behind = linear.behind(view)
        assert behind.coefficients(pixels) == pytest.approx(linear.coefficients(view(pixels)), abs=1e-9)
        assert behind.published is None or view.is_identity


def test_a_view_that_is_not_linear_in_its_axes_is_no_view_of_a_query() -> None:
    with pytest.raises(InputError, match="only trimming and mirroring"):
        pdq.load().behind(View(rotation=3.0))


def test_views_of_a_reference_are_made_of_a_reduced_luma(photos: list[CanonicalImage]) -> None:
    views = (IDENTITY, View(mirror=True), View(turn=3), View(rotation=6.0), View(rotation=2.0, top=0.0625, grey=True))
    linear = pdq.load().with_lowpass(32)
    luma = luma_of(photos[0].pixels.numpy())
    quick = ReferenceViews(linear, views)
    assert quick.is_reduced
    for view, found in zip(views, quick.coefficients(luma), strict=True):
        exact = linear.of_luma(replace(view, grey=False)(luma[None])[0])
        if view.is_identity:
            assert (found == exact).all()
        assert ((found > np.median(found)) != (exact > np.median(exact))).sum() <= 8
    assert not ReferenceViews(pdq.load(), views).is_reduced


# -- decisions -------------------------------------------------------------------------------------


def test_a_pair_matches_if_any_pair_of_views_does(
    matcher: ExactMatcher, kept: ExactReference, photos: list[CanonicalImage]
) -> None:
    pixels = photos[0].pixels.numpy()
    for query in (pixels, photos[1].pixels.numpy(), parse("rotation-5")(photos[0].pixels).numpy()):
        behind = [matcher.filtered.behind(view) for view in VIEWS.query]
        distances = [
            matcher.soft(kept.sigma, place).distance(linear.coefficients(query), code)
            for place, linear in enumerate(behind)
            for code in kept.codes
        ]
        assert len(distances) == 20
        assert matcher.distance(kept, query) == pytest.approx(min(distances), abs=1e-9)
        is_match = min(distances) <= 256 * kept.threshold
        assert matcher.decide(kept, query) is (Decision.MATCH if is_match else Decision.NO_MATCH)


@pytest.mark.parametrize(
    ("edit", "query_view", "reference_view"),
    [
        ("flip-1", "as it is", "mirrored"),
        ("turn-90", "as it is", "turned by 90 degrees"),
        ("border-0.05", "trimmed by 6 % on all sides", "as it is"),
        ("caption-bar-0.08", "trimmed by 10 % at the top", "as it is"),
        ("crop-0.9", "as it is", "trimmed by 5 % on all sides"),
    ],
)
def test_edited_copies_are_found_and_the_result_says_how(
    matcher: ExactMatcher,
    kept: ExactReference,
    photos: list[CanonicalImage],
    edit: str,
    query_view: str,
    reference_view: str,
) -> None:
    query = parse(edit)(photos[0].pixels).numpy()
    result = matcher.match_exactly(kept, query)
    assert result.decision is Decision.MATCH
    assert (result.query_view, result.reference_view, result.trials) == (query_view, reference_view, 4)
    assert result.radius > 1
    assert result.soft_distance is not None
    assert result.soft_distance <= result.threshold
    plain = ExactMatcher(pdq.load(), replace(matcher.config, views=NO_VIEWS))
    own = plain.enroll_pixels(photos[0].pixels.numpy())
    assert plain.decide(own, query) is Decision.NO_MATCH


def test_without_views_nothing_changes(photos: list[CanonicalImage]) -> None:
    plain = ExactMatcher(pdq.load(), ExactConfig(SIGMAS, THRESHOLDS, 32))
    reference = plain.enroll_pixels(photos[0].pixels.numpy())
    for photo in photos[:3]:
        found = plain.certify_exactly(reference, photo.pixels.numpy())
        coefficients = plain.filtered.coefficients(photo.pixels.numpy())
        soft = plain.soft(reference.sigma)
        assert found == soft.certify(coefficients, reference.code, 256 * reference.threshold)


def test_views_make_no_match_less_certain_and_a_non_match_less_so(
    matcher: ExactMatcher, kept: ExactReference, photos: list[CanonicalImage]
) -> None:
    one = ExactMatcher(pdq.load(), replace(matcher.config, views=NO_VIEWS))
    alone = replace(kept, levels=(replace(kept.levels[0], codes=kept.codes[:1]),), terms=one.terms)
    for photo in photos[:4]:
        pixels = photo.pixels.numpy()
        many, single = matcher.certify_exactly(kept, pixels), one.certify_exactly(alone, pixels)
        assert many.matched == single.matched
        assert many.radius >= single.radius if many.matched else 0 < many.radius <= single.radius


def test_the_radius_of_a_non_match_is_the_smallest_of_all_pairs(
    matcher: ExactMatcher, kept: ExactReference, photos: list[CanonicalImage]
) -> None:
    pairs = matcher.pairs(kept, photos[1].pixels.numpy())
    radii = [
        matcher.soft(kept.sigma, view).certify(row, code, 256 * kept.threshold).radius
        for view, row in enumerate(pairs.coefficients)
        for code in kept.codes
    ]
    found = pairs.certify()
    assert not found.matched
    assert 0.98 * min(radii) < found.radius <= min(radii) * (1 + 1e-9)
    assert found.soft_distance == pairs.distances.min()


# -- no attack is shorter --------------------------------------------------------------------------


def small_hash(rng: np.random.Generator, rule: Rule) -> LinearHash:
    return LinearHash("small", "1", rng.normal(size=(4, 16)), rng.normal(size=(5, 16)), rule)


def attacked(
    matcher: ExactMatcher, reference: ExactReference, pixels: Pixels, radius: float, rng: np.random.Generator
) -> bool:
    """Whether steps along the gradient of the nearest pair, kept inside the radius, change the decision."""
    before = matcher.decide(reference, pixels)
    towards = 1.0 if before is Decision.MATCH else -1.0
    change = rng.normal(size=pixels.shape)
    change *= rng.uniform(0, 1) * radius / np.linalg.norm(change)
    for step in range(25):
        pairs = matcher.pairs(reference, pixels + change)
        view, code = pairs.nearest
        soft, linear = matcher.soft(reference.sigma, view), matcher.queries.hashes[view]
        _, slopes = gradient(pairs.coefficients[view], soft.spread, soft.ones, reference.codes[code])
        grid = linear.vertical.T @ slopes.reshape(len(linear.vertical), -1) @ linear.horizontal
        uphill = np.asarray(LUMA)[:, None, None] * grid
        change = change + towards * uphill * radius / (1 + 0.3 * step) / max(float(np.linalg.norm(uphill)), 1e-12)
        change *= min(1.0, 0.999999 * radius / float(np.linalg.norm(change)))
        if matcher.decide(reference, pixels + change) is not before:
            return True
    return False


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS)
@pytest.mark.parametrize("rule", ["median", "zero"])
def test_no_attack_within_the_radius_changes_the_decision(rule: Rule, seed: int) -> None:
    rng = np.random.default_rng(seed)
    threshold = float(rng.uniform(0.2, 0.45))
    matcher = ExactMatcher(
        small_hash(rng, rule), ExactConfig((float(np.exp(rng.uniform(-1, 1))),), (threshold,), None, SMALL)
    )
    image = 3 * rng.normal(size=(3, 16, 16))
    try:
        reference = matcher.enroll_pixels(image)
    except TooLittleStructureError:
        return
    near, other = image + rng.normal(size=image.shape), 3 * rng.normal(size=image.shape)
    for query in (image, near, image[:, :, ::-1], other):
        result = matcher.certify_exactly(reference, query)
        assert result.matched == (matcher.decide(reference, query) is Decision.MATCH)
        if 0 < result.radius < np.inf:
            assert not attacked(matcher, reference, query, result.radius, rng)


def test_the_attack_would_find_a_radius_that_is_too_large() -> None:
    rng = np.random.default_rng(7)
    found = []
    for _ in range(6):
        matcher = ExactMatcher(small_hash(rng, "median"), ExactConfig((0.5,), (0.3,), None, SMALL))
        image = 3 * rng.normal(size=(3, 16, 16))
        reference = matcher.enroll_pixels(image)
        for query in (image, 3 * rng.normal(size=image.shape)):
            radius = matcher.certify_exactly(reference, query).radius
            found.append(attacked(matcher, reference, query, 2 * radius, rng))
    assert sum(found) >= 8


# -- references with little structure --------------------------------------------------------------


def faint(contrast: float) -> Pixels:
    """Return a picture that is almost a gradient."""
    ramp = np.linspace(0.2, 0.8, 512)[None, None, :] * np.ones((3, 512, 1))
    return ramp + contrast * (natural_image(3).pixels.double().numpy() - 0.5)


def test_the_threshold_of_a_reference_near_a_gradient_is_lowered() -> None:
    """Thresholds are high here, so that probes are within them."""
    config = ExactConfig((0.1,), (0.49,), 32, VIEWS)
    matcher = ExactMatcher(pdq.load(), config)
    reference = matcher.enroll_pixels(faint(0.3))
    assert reference.threshold < 0.49
    own = matcher.probes.own(luma_of(faint(0.3)))
    distance, _ = matcher.probes.nearest(reference.codes, reference.sigma, own)
    assert reference.threshold * 256 == pytest.approx(distance - 1)
    assert matcher.decide(reference, faint(0.3)) is Decision.MATCH
    ramp = np.linspace(0, 1, 512)[None, None, :] * np.ones((3, 512, 1))
    for probe in (ramp, ramp[..., ::-1], ramp.transpose(0, 2, 1), np.full((3, 512, 512), 0.3)):
        assert matcher.decide(reference, probe) is Decision.NO_MATCH


def test_an_image_that_is_no_farther_from_its_thumbnail_than_from_itself_is_refused() -> None:
    matcher = ExactMatcher(pdq.load(), ExactConfig((0.01, 0.1), (0.3, 0.3), 32, VIEWS))
    ramp = np.linspace(0, 1, 512)[None, None, :] * np.ones((3, 512, 1))
    tilted = 0.5 * ramp + 0.5 * ramp.transpose(0, 2, 1)
    with pytest.raises(TooLittleStructureError, match="too little structure"):
        matcher.enroll_pixels(tilted)


def test_photos_keep_their_threshold(matcher: ExactMatcher, photos: list[CanonicalImage]) -> None:
    for photo in photos[:4]:
        reference = matcher.enroll_pixels(photo.pixels.numpy())
        assert reference.threshold == matcher.config.threshold_at(reference.sigma)


@pytest.mark.parametrize("name", ["pdq", "phash", "dhash", "ahash"])
def test_probes_are_the_images_that_they_are_called_after(name: str) -> None:
    linear = get_hash(name).linear
    assert linear is not None
    matcher = ExactMatcher(linear, ExactConfig((1.0,), (0.2,), 32, VIEWS))
    ramp = np.linspace(0, 1, 1025)[1::2][None, None, :] * np.ones((3, 512, 1))
    expected = {
        "a flat grey of 0.75": np.full((3, 512, 512), 0.75),
        "a gradient that gets brighter right (contrast 1)": ramp,
        "a gradient that gets darker down (contrast 1)": 1 - ramp.transpose(0, 2, 1),
        "a gradient that gets brighter down and left (contrast 0.4)": 0.5 + 0.2 * (ramp.transpose(0, 2, 1) - ramp),
    }
    for what, image in expected.items():
        found = matcher.queries.coefficients(luma_of(image))
        assert matcher.probes.common[what] == pytest.approx(found, abs=1e-9)
    photo = natural_image(1).pixels.double().numpy()
    own = matcher.probes.own(luma_of(photo))
    mean = np.full((3, 512, 512), luma_of(photo).mean())
    assert own["its mean brightness"] == pytest.approx(matcher.queries.coefficients(luma_of(mean)), abs=1e-9)


# -- references ------------------------------------------------------------------------------------


def test_references_with_other_views_are_refused(photos: list[CanonicalImage]) -> None:
    config = ExactConfig(SIGMAS, THRESHOLDS, 32, VIEWS)
    image = CanonicalArray(photos[0].pixels.numpy(), "photo", None)
    with_views, without = (
        ExactDeployment(pdq.load(), replace(config, views=views), 51.0) for views in (VIEWS, NO_VIEWS)
    )
    assert with_views.digest != without.digest
    for one, other in ((with_views, without), (without, with_views)):
        with pytest.raises(UnusableReferenceError, match="views"):
            one.match(other.enroll(image), image)
    fewer = ExactDeployment(pdq.load(), replace(config, views=replace(VIEWS, query=VIEWS.query[:2])), 51.0)
    with pytest.raises(UnusableReferenceError, match="views"):
        fewer.match(with_views.enroll(image), image)


def test_a_saved_reference_has_its_views_and_its_threshold(tmp_path: object, photos: list[CanonicalImage]) -> None:
    deployment = ExactDeployment(pdq.load(), ExactConfig(SIGMAS, THRESHOLDS, 32, VIEWS), 51.0)
    image = CanonicalArray(photos[0].pixels.numpy(), "photo", None)
    reference = deployment.enroll(image)
    file = tmp_path / "photo.dsref"  # type: ignore[operator]
    reference.save(file)
    loaded = Reference.load(file)
    assert loaded.fingerprint == reference.fingerprint
    mirrored = CanonicalArray(np.ascontiguousarray(image.pixels[..., ::-1]), "mirrored", None)
    result = deployment.match(loaded, mirrored)
    assert (result.decision, result.member.reference_view) == (Decision.MATCH, "mirrored")


def test_a_bare_code_has_no_views(matcher: ExactMatcher, kept: ExactReference) -> None:
    with pytest.raises(InputError, match="views"):
        matcher.enroll_bits(kept.plain)


# -- gradients -------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_nearest_pair(photos: list[CanonicalImage]) -> None:
    import torch

    deployed = DeployedExactMatcher(get_hash("pdq"), ExactConfig(SIGMAS, THRESHOLDS, 32, VIEWS))
    reference = deployed.enroll(photos[0].pixels)
    bordered = parse("border-0.05")(photos[0].pixels).double()
    assert deployed.pairs(reference, bordered.numpy()).nearest[0] == 1
    moving = bordered.clone().requires_grad_()
    distance = deployed.soft_distance(reference, moving)
    (slope,) = torch.autograd.grad(distance, moving)
    direction = torch.randn(3, 512, 512, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ahead, behind = (deployed.distance(reference, (bordered + s * 1e-3 * direction).numpy()) for s in (1, -1))
    assert float(distance.detach()) == pytest.approx(deployed.distance(reference, bordered.numpy()))
    assert float((slope * direction).sum()) == pytest.approx((ahead - behind) / 2e-3, rel=1e-3)
