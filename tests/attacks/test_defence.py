"""What is attacked is what is deployed: the same hashes, thresholds and answers, whatever the variant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch

from dualshield.attacks import eot, nes, pgd
from dualshield.attacks.attack import attack
from dualshield.attacks.defence import DECISION_DRAWS, Defence
from dualshield.attacks.result import AttackBudget
from dualshield.attacks.victim import Victim
from dualshield.errors import InputError
from dualshield.hardening import paper
from dualshield.hashes import PerceptualHash
from dualshield.hashes.native_rule import NativeRule, cosine_distance
from dualshield.images import CanonicalImage, FrontEnd
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.config import PAPER, MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.variants import Variant
from tests.helpers.linear import Linear
from tests.helpers.matchers import kept

VARIANTS = get_args(Variant)


@pytest.fixture(scope="module")
def photo(photos: list[CanonicalImage]) -> CanonicalImage:
    return CanonicalImage(to_8bit(photos[1].pixels), "photo")


@pytest.fixture(scope="module")
def strict(toy_hash: PerceptualHash) -> PerceptualHash:
    """Of the middle of an image, where the paper's noise flips some bits, and with a threshold of its own."""
    front_end = FrontEnd.identity().grey().centre_crop(64, 64).resize(8, 8)
    return replace(toy_hash, name="strict", front_end=front_end, threshold=0.1)


def only(defence: Defence, published: CanonicalImage) -> Victim:
    (member,) = defence.victim(published, GaussianSource.from_seed(1)).members
    return member


# -- one threshold -----------------------------------------------------------------------------------


@pytest.mark.parametrize("against", VARIANTS)
def test_under_the_papers_parameters_everything_has_the_papers_threshold(
    against: Variant, strict: PerceptualHash, photo: CanonicalImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the hash's own, which is what hardening once optimised against."""
    optimised: list[float] = []

    def perturb(pixels: torch.Tensor, hashes: list[PerceptualHash], *_: Any, **__: Any) -> tuple[torch.Tensor, int]:
        optimised.extend(hash_.threshold for hash_ in hashes)
        return torch.zeros_like(pixels), 1

    monkeypatch.setattr(paper, "perturb", perturb)
    defence = Defence(deploy(strict, parameters="paper"), against, preset="paper")
    victim = only(defence, defence.publish(photo))
    assert optimised == ([PAPER.threshold] if against in ("hardening", "both") else [])
    assert victim.hash.threshold == PAPER.threshold == 0.2
    if victim.matcher is not None:
        assert victim.matcher.plain_hash.threshold == PAPER.threshold


def test_hardening_for_the_protocol_gives_what_a_hash_of_its_threshold_would_get(
    strict: PerceptualHash, photo: CanonicalImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "STEPS", 2)

    def published(deployment: Deployment) -> torch.Tensor:
        return Defence(deployment, "both", preset="paper").publish(photo, GaussianSource.from_seed(2)).pixels

    found = published(deploy(strict, parameters="paper"))
    assert torch.equal(found, published(deploy(strict.with_threshold(0.2), parameters="paper")))
    its_own = published(deploy(strict, config=replace(PAPER, threshold=None)))
    assert not torch.equal(found, its_own)
    assert not torch.equal(its_own, photo.pixels)


def test_a_vote_threshold_is_the_smoothed_matchers_alone(strict: PerceptualHash, photo: CanonicalImage) -> None:
    """Calibration may lower it; the plain hash is attacked as its owner runs it."""
    deployment = deploy(strict, config=MatcherConfig(sigma=0.1, threshold=0.05))
    thresholds = {v: only(Defence(deployment, v), photo).hash.threshold for v in ("original", "smoothing")}
    assert thresholds == {"original": 0.1, "smoothing": 0.05}


# -- one service -------------------------------------------------------------------------------------


def test_decisions_take_as_few_draws_as_they_need(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    deployment = deploy(toy_hash, config=MatcherConfig(sigma=1.0, n=77, alpha=0.01))
    victim = only(Defence(deployment, "smoothing"), photo)
    assert victim.matcher is not None
    config = victim.matcher.config
    assert (config.n, config.target_radius, config.alpha, config.sigma) == (DECISION_DRAWS, 0.0, 0.01, 1.0)
    assert deployment.target_radius is None  # the deployment itself is as it was
    # The same reference: how many draws decide is no part of it.
    assert torch.equal(victim.reference.code, kept(deployment.enroll(photo)).code)


def test_the_noise_of_the_service_is_secret_unless_an_experiment_brings_it(
    toy_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    defence = Defence(deploy(toy_hash, config=MatcherConfig(sigma=1.0)), "smoothing")
    (member,) = defence.victim(photo).members
    assert member.noise.origin == "secret"
    seeded = [defence.victim(photo, GaussianSource.from_seed(3)).score(photo.pixels) for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert defence.victim(photo, GaussianSource.from_seed(4)).score(photo.pixels) != seeded[0]


def test_what_is_published_without_hardening_is_the_image_as_a_file_holds_it(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    deployment = deploy(toy_hash, config=MatcherConfig(sigma=1.0))
    for against in ("original", "smoothing"):
        published = Defence(deployment, against).publish(photos[1])
        assert torch.equal(published.pixels, to_8bit(photos[1].pixels))
        assert published.name == photos[1].name


@pytest.mark.parametrize(
    ("on_abstain", "said"), [("abstain", Decision.ABSTAIN), ("match", Decision.MATCH), ("no-match", Decision.NO_MATCH)]
)
def test_an_abstention_is_what_the_deployment_makes_of_it(
    on_abstain: str, said: Decision, toy_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    """A single bit that a flat image leaves to the noise: votes are the toss of a coin and prove nothing."""
    weight = torch.linspace(-1, 1, 64)[None]
    coin = replace(toy_hash, name="coin", bits=1, network=Linear(weight), threshold=0.0)
    deployment = deploy(coin, config=MatcherConfig(sigma=1.0), on_abstain=on_abstain)
    flat = CanonicalImage(torch.full((3, 512, 512), 0.5), "flat")
    result = deployment.match(deployment.enroll(photo), flat, noise=GaussianSource.from_seed(1))
    assert (result.abstained, result.decision) == (True, said)
    assert only(Defence(deployment, "smoothing"), photo).decide(flat.pixels) is said


@pytest.mark.parametrize("against", ["original", "smoothing"])
def test_a_native_rule_is_attacked_by_queries_alone(
    against: Variant, toy_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    """Gradient attacks flip bits, and it compares something else."""
    rule = NativeRule("a cosine distance of some values", lambda margins: margins[..., :40], cosine_distance, 0.3)
    deployment = deploy(replace(toy_hash, native=rule), rule="native", config=MatcherConfig(sigma=0.5))
    defence = Defence(deployment, against)
    for white_box in (pgd.attack, eot.attack):
        with pytest.raises(InputError, match="the native rule of toy compares no bits: only black-box attacks"):
            white_box(defence.victim(photo), photo, AttackBudget(10.0))
    victim = defence.victim(photo, GaussianSource.from_seed(5))
    assert abs(victim.score(photo.pixels)) < victim.boundary == 0.3
    assert victim.score(photo.pixels.flip(2)) > victim.boundary
    assert nes.attack(victim, photo, AttackBudget(10.0), max_queries=40).queries == 33
    with pytest.raises(InputError, match="the native rule of toy compares no bits, but hardening works on bits"):
        Defence(deployment, "both")


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["pdq", ["pdq"], None])
def test_a_defence_takes_a_deployment(what: Any) -> None:
    for against in VARIANTS:
        with pytest.raises(InputError, match=r"a Defence takes a deployment, as from deploy\('pdq'\), not \w+$"):
            Defence(what, against)


def test_unknown_variants_and_presets_are_refused(toy_hash: PerceptualHash) -> None:
    deployment = deploy(toy_hash, config=MatcherConfig(sigma=1.0))
    against: Any = "everything"
    with pytest.raises(InputError, match="unknown variant 'everything': use one of original, smoothing"):
        Defence(deployment, against)
    preset: Any = "strong"
    with pytest.raises(InputError, match="unknown preset 'strong'"):
        Defence(deployment, "both", preset=preset)


# -- the call ------------------------------------------------------------------------------------------


def test_an_attack_in_one_call(photo: CanonicalImage) -> None:
    result = attack(photo, hash="pdq", method="pgd", budget=40)
    assert (result.method, result.budget, result.success) == ("pgd", 40, True)
    assert repr(result).startswith("<AttackResult pgd succeeded at l2 ")
    caught = attack(photo, hash=deploy("pdq"), budget=1, against="smoothing")
    assert (caught.success, caught.decision) == (False, "match")


def test_an_attack_that_cannot_be_made(photo: CanonicalImage) -> None:
    for arguments, message in (
        ({"method": "magic"}, "unknown attack 'magic'"),
        ({"method": "collision"}, "unrelated query"),
        ({"budget": 0}, "budget 0"),
        ({"budget": "much"}, "budget much"),
        ({"against": "theirs"}, "unknown variant 'theirs'"),
        ({"hash": "nope"}, "unknown hash 'nope'"),
    ):
        with pytest.raises(InputError, match=message):
            attack(photo, **{"hash": "pdq", **arguments})  # type: ignore[arg-type]


def test_results_of_attacks_name_what_was_attacked(photos: list[CanonicalImage]) -> None:
    deployment = deploy("pdq", method="votes")
    named = {}
    for against in ("original", "smoothing"):
        defence = Defence(deployment, against)
        published = defence.publish(photos[0])
        victim = defence.victim(published, GaussianSource.from_seed(1))
        named[against] = pgd.attack(victim, published, AttackBudget(1.0)).to_dict()
    plain, smoothed = named["original"], named["smoothing"]
    assert (plain["deployment"], plain["reference_fingerprint"], plain["noise_source"]) == (None, None, None)
    deciding = deployment.with_config(target_radius=0.0, n=DECISION_DRAWS)
    assert smoothed["deployment"] == deciding.digest
    assert smoothed["reference_fingerprint"] == deciding.enroll(published).fingerprint
    assert smoothed["noise_source"] == "seeded"
