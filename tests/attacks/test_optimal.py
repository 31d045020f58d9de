"""The attack `optimal`, and gradient descent, against an exact matcher."""

from __future__ import annotations

import pytest
import torch

from dualshield.attacks import AttackBudget, Defence, get_attack
from dualshield.attacks.exact_victim import ExactVictim
from dualshield.attacks.optimal import Optimal
from dualshield.attacks.victim import Service
from dualshield.errors import InputError
from dualshield.hashes import get_hash
from dualshield.images import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.views import NO_VIEWS, Views

FAR = AttackBudget(200.0)


@pytest.fixture(scope="module")
def defence() -> Defence:
    return Defence(deploy("pdq", views="none"), "smoothing")


def radius(defence: Defence, published: CanonicalImage) -> float:
    return defence.deployment.match(defence.deployment.enroll(published), published).radius


@pytest.mark.parametrize("index", [0, 2])
def test_the_cheapest_evasion_is_just_outside_the_radius(
    defence: Defence, photos: list[CanonicalImage], index: int
) -> None:
    published = defence.publish(photos[index])
    result = get_attack("optimal")(defence.victim(published), published, FAR)
    assert result.success
    proven = radius(defence, published)
    assert 0.85 * result.l2 < proven < result.l2
    assert result.noise_source is None


def test_no_attack_succeeds_inside_the_radius(defence: Defence, photos: list[CanonicalImage]) -> None:
    published = defence.publish(photos[1])
    inside = AttackBudget(0.999 * radius(defence, published))
    for method in ("optimal", "eot-pgd", "pgd"):
        settings = {} if method == "optimal" else {"steps": 30}
        result = get_attack(method)(defence.victim(published), published, inside, **settings)  # type: ignore[arg-type]
        assert not result.success
        assert not result.success_float


def test_gradient_descent_reaches_the_boundary_with_a_little_more(
    defence: Defence, photos: list[CanonicalImage]
) -> None:
    published = defence.publish(photos[0])
    result = get_attack("eot-pgd")(defence.victim(published), published, AttackBudget(1.4 * radius(defence, published)))
    assert result.success


def test_a_collision_is_pushed_to_the_other_side(defence: Defence, photos: list[CanonicalImage]) -> None:
    published, other = defence.publish(photos[0]), defence.publish(photos[1])
    proven = defence.deployment.match(defence.deployment.enroll(published), other).radius
    victim = defence.victim(published)
    assert not get_attack("collision")(victim, other, AttackBudget(0.99 * proven), steps=20).success  # type: ignore[call-arg]
    assert get_attack("collision")(victim, other, AttackBudget(2.5 * proven), steps=60).success  # type: ignore[call-arg]


def test_pixels_stay_in_range_where_the_image_is_black_and_white(defence: Defence) -> None:
    generator = torch.Generator().manual_seed(3)
    blocks = (torch.rand(16, 16, generator=generator) > 0.5).float()
    pixels = blocks.repeat_interleave(32, 0).repeat_interleave(32, 1).expand(3, -1, -1).contiguous()
    image = CanonicalImage(pixels, "blocks")
    victim = defence.victim(image)
    assert isinstance(victim, ExactVictim)
    delta = Optimal(steps=12).shortest(victim, pixels)
    changed = pixels + delta
    assert float(changed.min()) >= 0
    assert float(changed.max()) <= 1
    assert victim.decision(to_8bit(changed)) is Decision.NO_MATCH


# -- views -----------------------------------------------------------------------------------------

VIEWS = Views(
    (IDENTITY, View(mirror=True), View(rotation=3.0), View.trimmed(0.0125), View.trimmed(0.025), View(top=0.02)),
    (IDENTITY, View.trimmed(0.02), View(top=0.04)),
)


def viewed(image: CanonicalImage, views: Views) -> ExactVictim:
    matcher = DeployedExactMatcher(get_hash("pdq"), ExactConfig((1.0,), (0.238,), 32, views))
    return ExactVictim.of(matcher, image.name, matcher.enroll(to_8bit(image.pixels)), Service("test", "test"))


@pytest.mark.parametrize("index", [0, 1])
def test_with_views_every_pair_is_evaded(photos: list[CanonicalImage], index: int) -> None:
    victim, alone = (viewed(photos[index], views) for views in (VIEWS, NO_VIEWS))
    matcher, kept = victim.parts
    pixels = to_8bit(photos[index].pixels)
    assert (matcher.pairs(kept, pixels.numpy()).distances <= victim.boundary).sum() > 2
    result = get_attack("optimal")(victim, photos[index], FAR)
    assert result.success
    changed = result.adversarial.pixels.numpy()
    assert float(matcher.pairs(kept, changed).distances.min()) > victim.boundary
    proven = matcher.certify_exactly(kept, pixels.numpy()).radius
    assert 0.5 * result.l2 < proven < result.l2
    assert result.l2 > get_attack("optimal")(alone, photos[index], FAR).l2


def test_one_view_is_attacked_as_before(photos: list[CanonicalImage]) -> None:
    """With one pair the change is the shortest on the boundary itself, and nothing is added."""
    victim = viewed(photos[0], NO_VIEWS)
    result = get_attack("optimal")(victim, photos[0], FAR)
    matcher, kept = victim.parts
    proven = matcher.certify_exactly(kept, to_8bit(photos[0].pixels).numpy()).radius
    assert 0.85 * result.l2 < proven < result.l2
    assert matcher.distance(kept, result.adversarial.pixels.numpy()) == pytest.approx(victim.boundary, abs=0.1)


def test_no_attack_succeeds_inside_the_radius_with_views(photos: list[CanonicalImage]) -> None:
    victim = viewed(photos[0], VIEWS)
    matcher, kept = victim.parts
    inside = AttackBudget(0.999 * matcher.certify_exactly(kept, to_8bit(photos[0].pixels).numpy()).radius)
    for method, settings in (("optimal", {}), ("eot-pgd", {"steps": 30})):
        result = get_attack(method)(victim, photos[0], inside, **settings)  # type: ignore[arg-type]
        assert not result.success
        assert not result.success_float


def test_a_collision_with_views_needs_more_than_the_radius(photos: list[CanonicalImage]) -> None:
    victim = viewed(photos[0], VIEWS)
    matcher, kept = victim.parts
    proven = matcher.certify_exactly(kept, to_8bit(photos[1].pixels).numpy())
    assert not proven.matched
    inside, outside = AttackBudget(0.99 * proven.radius), AttackBudget(2.5 * proven.radius)
    assert not get_attack("collision")(victim, photos[1], inside, steps=20).success  # type: ignore[call-arg]
    assert get_attack("collision")(victim, photos[1], outside, steps=60).success  # type: ignore[call-arg]


def test_it_needs_an_exact_matcher(photos: list[CanonicalImage]) -> None:
    plain = Defence(deploy("pdq"), "original")
    published = plain.publish(photos[0])
    with pytest.raises(InputError, match="needs one exact matcher"):
        get_attack("optimal")(plain.victim(published), published, FAR)
