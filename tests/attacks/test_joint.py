"""Several hashes at once under attack: only what evades all of them is an evasion."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from dualshield.attacks import collision, eot, nes, pgd
from dualshield.attacks.defence import DECISION_DRAWS, Defence
from dualshield.attacks.joint_victim import JointVictim
from dualshield.attacks.objective import combined_direction
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target, Victim
from dualshield.errors import InputError
from dualshield.hardening import gradient
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.config import PAPER, MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.member import Member
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from tests.helpers.linear import Linear


@pytest.fixture(scope="module")
def photo(photos: list[CanonicalImage]) -> CanonicalImage:
    return CanonicalImage(to_8bit(photos[1].pixels), "photo")


@pytest.fixture(scope="module")
def other(photos: list[CanonicalImage]) -> CanonicalImage:
    return CanonicalImage(to_8bit(photos[2].pixels), "other")


def plain(reference: CanonicalImage, *hashes: PerceptualHash) -> JointVictim:
    return JointVictim(Victim.plain(hash_, reference) for hash_ in hashes)


def said(victim: Target, result: AttackResult) -> list[Decision]:
    """What each member says to the image as saved."""
    return [member.decision(result.adversarial.pixels) for member in victim.members]


def check(result: AttackResult, query: CanonicalImage) -> None:
    image = result.adversarial.pixels
    assert torch.equal(image, to_8bit(image))
    assert float((image - query.pixels).double().norm()) <= result.budget


def different(network_hash: PerceptualHash) -> Deployment:
    """PDQ behind a low-pass and a network without one, under the same noise."""
    config = MatcherConfig(sigma=0.8, n=1500)
    return Deployment((Member(get_hash("pdq"), replace(config, lowpass=64)), Member(network_hash, config)))


# -- evasion ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", [pgd.attack, eot.attack])
def test_pdq_and_a_network_are_evaded_at_once(attack: Any, network_hash: PerceptualHash, photo: CanonicalImage) -> None:
    victim = plain(photo, get_hash("pdq"), network_hash)
    result = attack(victim, photo, AttackBudget(20.0), steps=40)
    check(result, photo)
    assert result.success
    assert result.queries == 0
    assert said(victim, result) == [Decision.NO_MATCH] * 2


@pytest.mark.parametrize("attack", [pgd.attack, eot.attack])
def test_a_member_left_matching_is_no_success(
    attack: Any, toy_hash: PerceptualHash, network_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    """The first member falls to any change of a single bit, the second to nothing within the budget."""
    victim = plain(photo, toy_hash.with_threshold(0.0), network_hash.with_threshold(0.45))
    result = attack(victim, photo, AttackBudget(6.0), steps=5)
    check(result, photo)
    assert not result.success
    assert result.decision == "match"
    assert said(victim, result) == [Decision.NO_MATCH, Decision.MATCH]


def test_both_cost_more_than_each_alone(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    """Two hashes that look at different pixels: changes for them are orthogonal, and their squares add up."""
    rows = toy_hash.network.weight
    parts = []
    for half in (slice(0, 32), slice(32, 64)):
        weight = torch.zeros(64, 64)
        weight[:, half] = rows[:, half] - rows[:, half].mean(1, keepdim=True)  # type: ignore[index]
        parts.append(replace(toy_hash, name=f"rows {half}", network=Linear(weight)))

    def cost(*hashes: PerceptualHash) -> float:
        budgets = [4.0 * 1.3**i for i in range(7)]
        victim = plain(photo, *hashes)
        return budgets[
            bisect_left(budgets, True, key=lambda b: eot.attack(victim, photo, AttackBudget(b), steps=10).success)
        ]

    alone = [cost(part) for part in parts]
    assert max(alone) <= cost(*parts) <= 1.3 * (alone[0] ** 2 + alone[1] ** 2) ** 0.5


def test_the_smoothed_service_is_evaded_at_once(network_hash: PerceptualHash, photo: CanonicalImage) -> None:
    victim = Defence(different(network_hash), "smoothing").victim(photo, GaussianSource.from_seed(6))
    result = eot.attack(victim, photo, AttackBudget(30.0), steps=20)
    check(result, photo)
    assert result.success
    assert Decision.MATCH not in said(victim, result)
    paper = pgd.attack(victim, photo, AttackBudget(30.0), steps=3)
    assert pgd.NO_EOT in paper.warnings


def test_no_attack_succeeds_inside_the_joint_certificate(network_hash: PerceptualHash, photo: CanonicalImage) -> None:
    deployment = different(network_hash)
    radius = deployment.match(deployment.enroll(photo), photo, noise=GaussianSource.from_seed(1)).radius
    assert radius > 1
    victim = Defence(deployment, "smoothing").victim(photo, GaussianSource.from_seed(2))
    assert not eot.attack(victim, photo, AttackBudget(radius), steps=20).success


def test_pgd_on_a_batch_of_joint_pairs(
    toy_hash: PerceptualHash, network_hash: PerceptualHash, photo: CanonicalImage, other: CanonicalImage
) -> None:
    pairs = [photo, other]
    victims = [plain(p, toy_hash, network_hash) for p in pairs]
    results = pgd.Pgd(steps=40, restarts=2).run_many(victims, pairs, AttackBudget(40.0))
    for pair, result in zip(pairs, results, strict=True):
        check(result, pair)
        assert result.success
        assert said(plain(pair, toy_hash, network_hash), result) == [Decision.NO_MATCH] * 2
    with pytest.raises(InputError, match="one hash at a time"):
        pgd.attack.run_many([plain(photo, toy_hash, network_hash), plain(other, toy_hash)], pairs, AttackBudget(40.0))


# -- the service --------------------------------------------------------------------------------------


def test_one_call_is_one_query(toy_hash: PerceptualHash, network_hash: PerceptualHash, photo: CanonicalImage) -> None:
    victim = plain(photo, toy_hash, network_hash)
    victim.start(photo)
    assert victim.queries == 0
    assert victim.decide(photo.pixels) is Decision.MATCH
    assert victim.score(photo.pixels) == victim.plain_score(photo.pixels) == 0
    assert victim.queries == 3
    result = nes.attack(victim, photo, AttackBudget(0.01), max_queries=70)
    assert (result.queries, result.steps) == (66, 2)


def test_the_score_is_that_of_the_nearest_member(
    toy_hash: PerceptualHash, network_hash: PerceptualHash, photo: CanonicalImage, other: CanonicalImage
) -> None:
    victim = plain(photo, toy_hash, network_hash)
    for pixels in (other.pixels, photo.pixels.flip(2), (photo.pixels + 0.1 * other.pixels).clamp(0, 1)):
        each = [member.distance(pixels) / member.hash.boundary for member in victim.members]
        assert victim.distance(pixels) == min(each)
        assert (victim.distance(pixels) > victim.boundary) == (victim.decision(pixels) is not Decision.MATCH)


def test_an_undecided_member_makes_the_service_abstain(
    toy_hash: PerceptualHash, network_hash: PerceptualHash, photo: CanonicalImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = plain(photo, toy_hash, network_hash)
    asked: list[str] = []

    def answering(name: str, decision: Decision) -> Callable[[torch.Tensor], Decision]:
        def answer(pixels: torch.Tensor) -> Decision:
            asked.append(name)
            return decision

        return answer

    for answers, expected, who in (
        ((Decision.NO_MATCH, Decision.ABSTAIN), Decision.ABSTAIN, ["first", "second"]),
        ((Decision.NO_MATCH, Decision.NO_MATCH), Decision.NO_MATCH, ["first", "second"]),
        ((Decision.ABSTAIN, Decision.MATCH), Decision.MATCH, ["first", "second"]),
        ((Decision.MATCH, Decision.ABSTAIN), Decision.MATCH, ["first"]),  # nothing more can change it
    ):
        asked.clear()
        for member, name, answer in zip(victim.members, ("first", "second"), answers, strict=True):
            monkeypatch.setattr(member, "decision", answering(name, answer))
        assert victim.decide(photo.pixels) is expected
        assert asked == who


@pytest.mark.parametrize(
    ("on_abstain", "said"), [("abstain", Decision.ABSTAIN), ("match", Decision.MATCH), ("no-match", Decision.NO_MATCH)]
)
def test_abstentions_of_the_service_are_those_of_the_deployment(
    on_abstain: str, said: Decision, toy_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    """One member never matches a flat image, the other tosses a coin."""
    coin = replace(toy_hash, name="coin", bits=1, network=Linear(torch.linspace(-1, 1, 64)[None]), threshold=0.0)
    deployment = deploy([toy_hash, coin], config=MatcherConfig(sigma=1.0), on_abstain=on_abstain)
    flat = CanonicalImage(torch.full((3, 512, 512), 0.5), "flat")
    result = deployment.match(deployment.enroll(photo), flat, noise=GaussianSource.from_seed(1))
    assert [member.decision for member in result.members] == [Decision.NO_MATCH, Decision.ABSTAIN]
    assert result.decision is said
    victim = Defence(deployment, "smoothing").victim(photo, GaussianSource.from_seed(1))
    assert victim.decide(flat.pixels) is said


def test_a_collision_with_any_member_is_one(
    network_hash: PerceptualHash, photo: CanonicalImage, other: CanonicalImage
) -> None:
    """The network can be reached within the budget, all of PDQ's bits cannot."""
    exact = get_hash("pdq").with_threshold(0.0)
    for hashes in ((exact, network_hash), (network_hash, exact)):
        victim = plain(photo, *hashes)
        result = collision.attack(victim, other, AttackBudget(60.0), steps=15)
        check(result, other)
        assert result.success
        matching = [hash_ for hash_, d in zip(hashes, said(victim, result), strict=True) if d is Decision.MATCH]
        assert matching == [network_hash]
    assert not collision.attack(victim, other, AttackBudget(0.5), steps=5).success


# -- the direction ------------------------------------------------------------------------------------


def test_members_pull_by_what_they_lack_not_by_the_length_of_their_gradients() -> None:
    generator = torch.Generator().manual_seed(1)
    first, second = torch.randn(2, 3, 4, 4, generator=generator)
    second = second - first * (first * second).sum() / first.square().sum()
    equal = torch.tensor(0.1)
    direction = combined_direction([first, 1000 * second], [equal, equal])
    assert torch.allclose(direction, (first / first.norm() + second / second.norm()) / 2, atol=1e-6)
    assert torch.equal(combined_direction([first], [equal]), first / first.norm())
    # Evaded with something to spare: no pull. All of them: no direction.
    assert torch.allclose(combined_direction([first, second], [equal, 0 * equal]), first / first.norm())
    assert not combined_direction([0 * first, 0 * second], [0 * equal, 0 * equal]).any()
    batch = combined_direction([torch.stack([first, second])] * 2, [torch.tensor([0.1, 0.0]), torch.tensor([0.3, 0.0])])
    assert torch.allclose(batch[0], first / first.norm())
    assert not batch[1].any()


# -- the defence and the red team ---------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ["profile", "paper"])
def test_members_of_a_defence_share_alpha_and_no_noise(
    network_name: str, parameters: Any, photo: CanonicalImage
) -> None:
    defence = Defence(deploy(f"pdq+{network_name}", parameters=parameters, method="votes"), "smoothing")
    members = defence.victim(photo, GaussianSource.from_seed(5)).members
    matchers = [member.matcher for member in members if member.matcher is not None]
    assert [matcher.hash.name for matcher in matchers] == ["pdq", network_name]
    assert [matcher.config.alpha for matcher in matchers] == [PAPER.alpha / 2] * 2
    assert {(matcher.config.n, matcher.config.target_radius) for matcher in matchers} == {(DECISION_DRAWS, 0.0)}
    draws = [member.noise.fork("x").normal((4,)) for member in members]
    assert not (draws[0] == draws[1]).any()
    if parameters == "paper":
        assert {matcher.config.noise for matcher in matchers} == {"clipped"}


def test_ours_hardens_for_all_members(
    network_name: str, photo: CanonicalImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradient, "STEPS", 2)
    defence = Defence(deploy(f"pdq+{network_name}"), "both")
    published = defence.publish(photo, GaussianSource.from_seed(4))
    assert torch.equal(published.pixels, to_8bit(published.pixels))
    assert not torch.equal(published.pixels, photo.pixels)
    assert defence.hardener is not None
    assert defence.hardener.deployment is defence.deployment
    victim = defence.victim(published)
    assert [member.hash.name for member in victim.members] == ["pdq", network_name]
    assert victim.decide(published.pixels) is Decision.MATCH


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pdq+pdq", "different hashes"),
        ("pdq+nope", "unknown hash 'nope'"),
        ("pdq+", "unknown hash ''"),
        ("+", "unknown hash ''"),
    ],
)
def test_what_is_not_a_deployment(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        deploy(name)


def test_the_service_under_other_noise_is_the_same_service(network_hash: PerceptualHash, photo: CanonicalImage) -> None:
    victim = Defence(different(network_hash), "smoothing").victim(photo)
    assert {member.noise.origin for member in victim.members} == {"secret"}
    other = victim.with_noise(GaussianSource.from_seed(7))
    assert {member.noise.origin for member in other.members} == {"seeded"}
    assert [member.reference for member in other.members] == [member.reference for member in victim.members]
    again = victim.with_noise(GaussianSource.from_seed(7))
    assert again.distance(photo.pixels) == other.distance(photo.pixels)


def test_a_member_without_gradient_is_named(network_hash: PerceptualHash, photo: CanonicalImage) -> None:
    class Frozen(torch.nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = network_hash.network(features).detach()
            return found

    victim = plain(photo, get_hash("pdq"), replace(network_hash, name="frozen", network=Frozen()))
    for attack in (pgd.attack, eot.attack, collision.attack):
        with pytest.raises(InputError, match="hash frozen has no gradient"):
            attack(victim, photo, AttackBudget(10.0))
    assert nes.attack(victim, photo, AttackBudget(10.0), max_queries=40).queries == 33
