"""Each attack beats an undefended toy hash, keeps its budget on the saved file, and counts its queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dualshield.attacks import collision, eot, linearised, nes, pgd
from dualshield.attacks.defence import Defence
from dualshield.attacks.judge import LOST_BY_SAVING, judged
from dualshield.attacks.l2_ball import project, to_8bit_within
from dualshield.attacks.objective import flip_margin, join_margin
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target, Victim
from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage, FrontEnd
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from tests.helpers.linear import Linear


@pytest.fixture(scope="module")
def photo(photos: list[CanonicalImage]) -> CanonicalImage:
    return CanonicalImage(to_8bit(photos[0].pixels), "photo")


@pytest.fixture(scope="module")
def fine_hash() -> PerceptualHash:
    """Random projections of the fine structure of a 64 x 64 thumbnail, which single queries can move."""
    weight = torch.randn(64, 64, 64, generator=torch.Generator().manual_seed(8))
    weight = weight - torch.nn.functional.avg_pool2d(weight[:, None], 5, 1, 2)[:, 0]
    return PerceptualHash(
        name="fine",
        version="1",
        bits=64,
        front_end=FrontEnd.identity().grey().resize(64, 64),
        network=Linear(weight.flatten(1)),
        threshold=0.08,
    )


@pytest.fixture(scope="module")
def smoothed(toy_hash: PerceptualHash) -> Deployment:
    return deploy(toy_hash, config=MatcherConfig(sigma=1.0))


def service(deployment: Deployment, reference: CanonicalImage, seed: int = 1) -> Target:
    """The smoothed matcher as attackers meet it, on noise that can be repeated."""
    return Defence(deployment, "smoothing").victim(reference, GaussianSource.from_seed(seed))


def check(result: AttackResult, query: CanonicalImage, budget: float) -> None:
    """What is true of every result, on the image as saved."""
    image = result.adversarial.pixels
    assert torch.equal(image, to_8bit(image))
    length = float((image - query.pixels).double().norm())
    assert result.l2 == pytest.approx(length, rel=1e-9)
    assert length <= budget
    assert 0 <= float(image.min()) <= float(image.max()) <= 1
    assert result.seconds > 0
    assert "adversarial" not in result.to_dict()


@pytest.mark.parametrize("budget", [40.0, 90.0])
def test_pgd_beats_the_plain_hash(toy_hash: PerceptualHash, photo: CanonicalImage, budget: float) -> None:
    victim = Victim.plain(toy_hash, photo)
    result = pgd.attack(victim, photo, AttackBudget(budget), steps=60)
    check(result, photo, budget)
    assert result.success
    assert result.success_float
    assert result.queries == 0
    assert result.steps < 60  # it stops early
    assert not toy_hash.matches(toy_hash.code(result.adversarial.pixels), toy_hash.code(photo.pixels))


def test_pgd_on_a_batch_of_pairs_is_pgd_on_each(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    pairs = [CanonicalImage(to_8bit(photo.pixels), photo.name) for photo in photos[:3]]
    victims = [Victim.plain(toy_hash, pair) for pair in pairs]
    together = pgd.Pgd(steps=12, restarts=2).run_many(victims, pairs, AttackBudget(20.0))
    for victim, pair, result in zip(victims, pairs, together, strict=True):
        alone = pgd.attack(victim, pair, AttackBudget(20.0), steps=12, restarts=2)
        assert (alone.success, alone.steps) == (result.success, result.steps)
        # Sums in another order may turn the sign of a gradient that is zero but for rounding.
        changed = (alone.adversarial.pixels - result.adversarial.pixels).abs() > 1e-6
        assert float(changed.float().mean()) < 1e-3
        check(result, pair, 20.0)
    other = replace(toy_hash, name="other")
    with pytest.raises(InputError, match="one hash at a time"):
        pgd.attack.run_many([victims[0], Victim.plain(other, pairs[1])], pairs[:2], AttackBudget(20.0))


def test_pgd_cannot_win_with_next_to_nothing(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    result = pgd.attack(Victim.plain(toy_hash, photo), photo, AttackBudget(0.05), steps=10)
    check(result, photo, 0.05)
    assert not result.success
    assert result.steps == 10


def test_eot_beats_smoothing_and_the_papers_attack_is_warned_about(smoothed: Deployment, photo: CanonicalImage) -> None:
    budget = AttackBudget(30.0)
    adaptive = eot.attack(service(smoothed, photo), photo, budget, steps=40)
    check(adaptive, photo, 30.0)
    assert adaptive.success
    paper = pgd.attack(service(smoothed, photo), photo, budget, steps=60)
    check(paper, photo, 30.0)
    assert pgd.NO_EOT in paper.warnings
    assert pgd.NO_EOT not in adaptive.warnings


def test_the_linearised_hash_gives_the_shortest_evasion(photos: list[CanonicalImage]) -> None:
    """PDQ is linear up to its median: what is found is within a little of a bound that no attack can beat."""
    hash_ = get_hash("pdq")
    photo = photos[1]
    victim = Victim.plain(hash_, photo)
    pixels = victim.start(photo)
    # Each flipped bit moves its own margin to zero at least; gradients are orthonormal up to their length.
    rows = np.outer(*(np.linalg.norm(f, axis=1) for f in (hash_.front_end.rows, hash_.front_end.cols)))
    lengths = (rows * np.linalg.norm(hash_.front_end.colour)).ravel()[::-1]
    margins = np.sort(np.abs(hash_.margins(pixels[None])[0].numpy()) / lengths)
    bound = float(np.sqrt((margins[: hash_.max_distance + 1] ** 2).sum()))
    assert not eot.attack(victim, photo, AttackBudget(0.9 * bound), steps=20).success
    result = eot.attack(victim, photo, AttackBudget(1.5 * bound), steps=20)
    assert result.success
    assert result.l2 <= 1.5 * bound


def test_linearising_a_network_again_where_it_led(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    victim = Victim.plain(toy_hash, photo)
    pixels = victim.start(photo)
    delta = linearised.flip(victim, pixels, 40.0, rounds=4)
    assert float(delta.double().norm()) <= 40.0 * 1.001
    assert int((toy_hash.code(pixels + delta) ^ victim.reference.code).sum()) > toy_hash.max_distance


@pytest.mark.parametrize("mode", ["code", "bank", "paired"])
@pytest.mark.parametrize("noise", ["linear", "clipped"])
def test_eot_follows_the_deployed_mode_and_noise(
    toy_hash: PerceptualHash, photo: CanonicalImage, mode: str, noise: str
) -> None:
    config = MatcherConfig(sigma=0.5, alpha=0.05, bank_size=5)
    config = replace(config, reference_mode=mode, noise=noise)  # type: ignore[arg-type]
    (victim,) = service(deploy(toy_hash, config=config), photo, 2).members
    assert victim.reference.mode == mode
    result = eot.attack(victim, photo, AttackBudget(60.0), steps=10, draws=2)
    check(result, photo, 60.0)
    assert result.success


def test_nes_beats_the_plain_hash_and_counts_queries(fine_hash: PerceptualHash, photo: CanonicalImage) -> None:
    victim = Victim.plain(fine_hash, photo)
    calls = 0
    score, decide = victim.score, victim.decide

    def counted_score(pixels: torch.Tensor) -> float:
        nonlocal calls
        calls += 1
        return score(pixels)

    victim.score = counted_score  # type: ignore[method-assign]
    result = nes.attack(victim, photo, AttackBudget(90.0))
    check(result, photo, 90.0)
    assert result.success
    assert result.queries == calls + result.steps  # one look at the decision per step
    assert result.queries <= nes.QUERIES
    assert decide(result.adversarial.pixels) != "match"


def test_nes_stops_at_its_limit(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    result = nes.attack(Victim.plain(toy_hash, photo), photo, AttackBudget(0.01), max_queries=100)
    assert not result.success
    assert result.queries == 3 * 33
    assert result.steps == 3


def test_nes_on_the_plain_score_of_a_smoothed_service(smoothed: Deployment, photo: CanonicalImage) -> None:
    result = nes.attack(service(smoothed, photo), photo, AttackBudget(90.0), max_queries=99, plain_score=True)
    assert result.method == "nes-plain"
    check(result, photo, 90.0)


def test_collision_with_the_plain_hash(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    victim = Victim.plain(toy_hash, photos[0])
    query = CanonicalImage(to_8bit(photos[1].pixels), "other")
    result = collision.attack(victim, query, AttackBudget(180.0), steps=60)
    check(result, query, 180.0)
    assert result.success
    assert result.decision == "match"
    refused = collision.attack(victim, query, AttackBudget(0.5), steps=5)
    assert not refused.success


def test_no_attack_succeeds_inside_a_certified_radius(photos: list[CanonicalImage]) -> None:
    """PDQ as shipped, both classes: the budget is the certificate, the attacks are ours and random directions."""
    deployment = deploy("pdq", config=MatcherConfig(sigma=0.8, lowpass=64, n=1500))
    noise = GaussianSource.from_seed(3)
    generator = torch.Generator().manual_seed(5)
    certified = 0
    for i, image in enumerate(photos):
        photo = CanonicalImage(to_8bit(image.pixels), image.name)
        other = CanonicalImage(to_8bit(photos[i - 1].pixels), "other")
        reference = deployment.enroll(photo)
        result = deployment.match(reference, photo, noise=noise)
        victim = service(deployment, photo, 4)
        if result.decision is Decision.MATCH:
            certified += 1
            attacked = eot.attack(victim, photo, AttackBudget(result.radius), steps=20, draws=8)
            assert not attacked.success
            for _ in range(5):
                delta = torch.randn(photo.pixels.shape, generator=generator)
                delta = project(photo.pixels, delta * result.radius / delta.norm(), result.radius)
                assert victim.decide(to_8bit_within(photo.pixels, delta, result.radius)) is Decision.MATCH
            # As far as the detected radius reaches, the matcher itself does not even abstain.
            near = eot.attack(victim, photo, AttackBudget(result.radius_detected), steps=20, draws=8)
            assert deployment.match(reference, near.adversarial, noise=noise).decision is Decision.MATCH
        separate = deployment.match(reference, other, noise=noise)
        assert separate.decision is Decision.NO_MATCH
        collided = collision.attack(victim, other, AttackBudget(separate.radius), steps=20, draws=8)
        assert not collided.success
    assert certified >= 5


# -- the parts -----------------------------------------------------------------------------------------


def test_saving_keeps_the_budget_exactly(photo: CanonicalImage) -> None:
    generator = torch.Generator().manual_seed(6)
    for l2 in (0.01, 0.5, 3.0, 40.0):
        delta = torch.randn(photo.pixels.shape, generator=generator)
        delta = project(photo.pixels, delta * 2 * l2 / delta.norm(), l2)
        image = to_8bit_within(photo.pixels, delta, l2)
        assert float((image - photo.pixels).double().norm()) <= l2
    assert torch.equal(to_8bit_within(photo.pixels, torch.zeros_like(delta), 1e-6), photo.pixels)


def test_projection_is_per_image(photo: CanonicalImage) -> None:
    grey = torch.full_like(photo.pixels, 0.5)
    deltas = torch.stack([torch.full_like(grey, 0.001), torch.full_like(grey, 0.5)])
    found = project(grey, deltas, 10.0)
    assert torch.allclose(found[0], deltas[0], atol=1e-6)
    assert float(found[1].norm()) <= 10.0 + 1e-4


def test_the_focused_objective_ignores_bits_that_need_not_flip() -> None:
    margins = torch.tensor([[1.0, 0.1, 5.0, -3.0]], requires_grad=True)
    signs = torch.tensor([1.0, 1.0, 1.0, 1.0])
    (gradient,) = torch.autograd.grad(flip_margin(margins, signs, 2).sum(), margins)
    assert (gradient != 0).tolist() == [[False, True, False, False]]  # the last one is flipped far enough


def test_the_collision_objective_gives_up_the_dearest_bits() -> None:
    margins = torch.tensor([[-9.0, -0.1, 0.5, 3.0] * 4], requires_grad=True)
    signs = torch.ones(16)
    (gradient,) = torch.autograd.grad(join_margin(margins, signs, 10).sum(), margins)
    assert (gradient != 0).sum() > 0
    assert (gradient[0, ::4] == 0).all()


def test_a_success_that_saving_loses_is_reported(toy_hash: PerceptualHash) -> None:
    """On a flat image any pattern decides the bits; one far below half a grey level vanishes in the file."""
    flat = CanonicalImage(to_8bit(torch.full((3, 512, 512), 0.5)), "flat")
    victim = Victim.plain(toy_hash, flat)
    coarse = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(1)).sign()
    pattern = torch.nn.functional.interpolate(coarse, size=(512, 512))[0].expand(3, -1, -1)
    result = judged("pgd", victim, flat.pixels, 0.2 / 255 * pattern, AttackBudget(10.0), 1, 0.0)
    assert result.success_float
    assert not result.success
    assert LOST_BY_SAVING in result.warnings


@pytest.mark.parametrize("l2", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_impossible_budgets(l2: float) -> None:
    with pytest.raises(InputError, match="budget"):
        AttackBudget(l2)


def test_a_pair_that_does_not_match_is_refused(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    victim = Victim.plain(toy_hash, photos[0])
    for attack in (pgd.attack, eot.attack, nes.attack):
        with pytest.raises(InputError, match="to begin with"):
            attack(victim, photos[1], AttackBudget(10.0))
    with pytest.raises(InputError, match="already"):
        collision.attack(victim, photos[0], AttackBudget(10.0))


def test_a_hash_without_gradient_is_black_box_only(fine_hash: PerceptualHash, photo: CanonicalImage) -> None:
    class Frozen(torch.nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = fine_hash.network(features).detach()
            return found

    victim = Victim.plain(replace(fine_hash, network=Frozen()), photo)
    for attack in (pgd.attack, eot.attack):
        with pytest.raises(InputError, match="black-box"):
            attack(victim, photo, AttackBudget(10.0))
    assert nes.attack(victim, photo, AttackBudget(90.0)).success
