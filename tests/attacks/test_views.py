"""A matcher with views and a second sigma under attack: what evades has evaded every trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from dualshield.attacks import collision, eot, linearised, nes, pgd
from dualshield.attacks.defence import Defence
from dualshield.attacks.joint_victim import JointVictim
from dualshield.attacks.nearest import ACTIVE, CLOSEST, Look, look
from dualshield.attacks.objective import flip_all_margin, flip_margin, nearest_view
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target, Victim
from dualshield.attacks.viewed import behind, shown
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.member import Member
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.views import Views
from tests.helpers.matchers import kept, voting

MIRROR, TRIM = View(mirror=True), View.trimmed(0.08)
VIEWS = Views((IDENTITY, MIRROR, TRIM), (IDENTITY, MIRROR, TRIM))
CONFIG = MatcherConfig(sigma=1.0, n=1500, views=VIEWS, second_sigma=0.25, second_threshold=0.1)


@pytest.fixture(scope="module")
def photo(photos: list[CanonicalImage]) -> CanonicalImage:
    return CanonicalImage(to_8bit(photos[1].pixels), "photo")


@pytest.fixture(scope="module")
def other(photos: list[CanonicalImage]) -> CanonicalImage:
    return CanonicalImage(to_8bit(photos[2].pixels), "other")


@pytest.fixture(scope="module")
def deployment(toy_hash: PerceptualHash) -> Deployment:
    """Three views of each side at two sigmas: six trials."""
    return deploy(toy_hash, config=CONFIG)


def service(deployment: Deployment, reference: CanonicalImage, seed: int = 1) -> Target:
    return Defence(deployment, "smoothing").victim(reference, GaussianSource.from_seed(seed))


def changed(image: CanonicalImage, view: View) -> CanonicalImage:
    return CanonicalImage(to_8bit(shown(image.pixels, view)), "changed")


def check(result: AttackResult, query: CanonicalImage) -> None:
    image = result.adversarial.pixels
    assert torch.equal(image, to_8bit(image))
    assert float((image - query.pixels).double().norm()) <= result.budget


def shares(victim: Target, pixels: torch.Tensor, draws: int = 400) -> list[float]:
    """The share of matching votes of each trial, on fresh noise."""
    source = GaussianSource.from_seed(77)
    return [float((t.drawn_distances(pixels, draws, source) <= t.boundary).float().mean()) for t in victim.trials]


# -- trials --------------------------------------------------------------------------------------------


def test_each_trial_is_a_victim_of_its_own(
    deployment: Deployment, toy_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    victim = service(deployment, photo)
    (member,) = victim.members
    trials = victim.trials
    assert len(trials) == len(voting(deployment).trials(kept(deployment.enroll(photo)))) == 6
    assert [t.sigma for t in trials] == [1.0] * 3 + [0.25] * 3
    assert [t.way.view for t in trials] == [*VIEWS.query] * 2
    assert [t.boundary for t in trials] == [toy_hash.boundary] * 3 + [toy_hash.with_threshold(0.1).boundary] * 3
    assert member.boundary == victim.boundary == 1.0
    # A trial has the whole service's noise and decision, and no further trials.
    assert all(t.trials == (t,) and t.matcher is member.matcher and t.noise is member.noise for t in trials)


def test_without_views_a_hash_is_its_only_trial(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    victim = service(deploy(toy_hash, config=MatcherConfig(sigma=1.0)), photo)
    assert victim.trials == victim.members == (victim,)
    assert victim.boundary == toy_hash.boundary
    plain = Victim.plain(toy_hash, photo)
    assert plain.trials == (plain,)


def test_the_score_is_that_of_the_nearest_trial(deployment: Deployment, photo: CanonicalImage) -> None:
    """A mirrored copy is at the distance of the original, in the trials that look at it mirrored."""
    victim = service(deployment, photo)
    source = GaussianSource.from_seed(3)
    for query in (photo, changed(photo, MIRROR), changed(photo, TRIM)):
        each = [t.noisy_distance(query.pixels, 300, source) / t.boundary for t in victim.trials]
        assert victim.noisy_distance(query.pixels, 300, source) == pytest.approx(min(each), abs=0.05)
        assert victim.score(query.pixels) == pytest.approx(min(each), abs=0.2)
        assert victim.decide(query.pixels) is Decision.MATCH
    assert victim.plain_score(photo.pixels) == 0
    assert victim.plain_score(changed(photo, MIRROR).pixels) > 1  # what leaks is the plain hash, without views
    assert victim.queries == 8


def test_a_lowered_threshold_of_a_reference_is_the_boundary(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    (victim,) = service(deploy(toy_hash, config=MatcherConfig(sigma=1.0)), photo).members
    (level,) = victim.reference.levels
    lowered = replace(victim, reference=replace(victim.reference, levels=(replace(level, threshold=0.05),)))
    assert lowered.boundary == 3.5 < victim.boundary
    losses = [v.loss(photo.pixels, 8, GaussianSource.from_seed(1), 1.0) for v in (lowered, victim)]
    assert losses[0] < losses[1]  # fewer bits have to flip


# -- which trials are followed -------------------------------------------------------------------------


def test_every_trial_that_matches_is_active(
    deployment: Deployment, photo: CanonicalImage, other: CanonicalImage
) -> None:
    victim = service(deployment, photo)
    source = GaussianSource.from_seed(4)
    seen = set()
    for mixed in (0.0, 0.15, 0.3, 0.45, 0.6, 1.0):
        for view in (IDENTITY, MIRROR):
            pixels = to_8bit((1 - mixed) * shown(photo.pixels, view) + mixed * other.pixels)
            matching = {i for i, share in enumerate(shares(victim, pixels)) if share > 0.5}
            active = look(victim.trials, pixels, eot.CHECK_DRAWS, source).active
            assert matching <= set(active), (mixed, view)
            seen.add((len(matching), len(active)))
    assert {matching for matching, _ in seen} > {0}
    assert (0, 1) in seen  # far from all trials, the nearest one is still followed


def test_a_trial_whose_few_far_votes_hide_its_majority_is_active() -> None:
    found = Look((0.4, 9.0, 1.2, 30.0), (True, True, False, False))
    assert found.active == (0, 2, 1)
    assert found.least == 0.4
    assert Look((9.0, ACTIVE), (False, False)).active == (1,)


def test_far_trials_cost_a_few_draws(deployment: Deployment, photo: CanonicalImage) -> None:
    drawn: list[int] = []

    class Trial:
        boundary = 2.0

        def __init__(self, distance: float) -> None:
            self.distance = distance

        def drawn_distances(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> torch.Tensor:
            drawn.append(count)
            return torch.full((count,), self.distance)

    found = look([Trial(d) for d in range(16)], photo.pixels, 64, GaussianSource.from_seed(1))
    assert found.distances == tuple(d / 2 for d in range(16))
    assert drawn == [8] * 16 + [56] * CLOSEST


def test_many_trials_take_turns(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    trims = tuple(View.trimmed(0.01 * i) for i in range(12))
    victim = Victim.plain(toy_hash, photo, Views((IDENTITY,), trims))
    search = eot.Search(victim, photo.pixels, GaussianSource.from_seed(1), 1)
    steps = [search._followed() for _ in range(2)]
    assert {len(step) for step in steps} == {eot.TRIALS_PER_STEP}
    assert {trial for step in steps for trial in step} == set(search.trials)
    assert all(step[: eot.ALWAYS] == search.trials[: eot.ALWAYS] for step in steps)


# -- objectives ----------------------------------------------------------------------------------------


def test_all_near_views_of_the_reference_are_left() -> None:
    margins = torch.ones(1, 4)
    ones, half = torch.ones(4), torch.tensor([1.0, 1.0, -1.0, -1.0])
    both = flip_all_margin(margins, torch.stack([ones, half]), 2)
    # Two bits of the second view are flipped already: only the first is left to evade.
    assert torch.equal(both, flip_margin(margins, ones, 2))
    assert float(flip_all_margin(-margins, torch.stack([ones, half]), 2)) == 0
    assert torch.equal(nearest_view(-margins, torch.stack([ones, half])), half)


@pytest.mark.parametrize("view", [IDENTITY, MIRROR, TRIM, View(top=0.1, right=0.05, grey=True)])
@pytest.mark.parametrize("name", ["pdq", "network"])
def test_a_hash_behind_a_view_is_the_hash_of_the_view(
    view: View, name: str, network_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    hash_ = network_hash if name == "network" else get_hash("pdq")
    found = behind(hash_, view).margins(photo.pixels[None])
    expected = hash_.margins(shown(photo.pixels, view)[None])
    assert torch.allclose(found, expected, atol=1e-3 * float(expected.abs().max()))


# -- the plain hash with views ---------------------------------------------------------------------------


def framed(image: CanonicalImage, border: int = 48) -> CanonicalImage:
    """A copy inside a black frame."""
    inner = torch.nn.functional.interpolate(image.pixels[None], size=(512 - 2 * border,) * 2, mode="bilinear")
    return CanonicalImage(to_8bit(torch.nn.functional.pad(inner[0], (border,) * 4)), "framed")


@pytest.mark.parametrize("edit", [lambda i: changed(i, MIRROR), lambda i: changed(i, View.trimmed(0.2)), framed])
def test_a_plain_hash_with_views_finds_edited_copies(
    edit: Callable[[CanonicalImage], CanonicalImage], photo: CanonicalImage
) -> None:
    pdq, query = get_hash("pdq"), edit(photo)
    views = Views((IDENTITY, MIRROR, View.trimmed(0.2)), (IDENTITY, View.trimmed(48 / 512)))
    assert Victim.plain(pdq, photo).decide(query.pixels) is Decision.NO_MATCH
    victim = Victim.plain(pdq, photo, views)
    assert victim.decide(query.pixels) is Decision.MATCH
    assert victim.score(query.pixels) == victim.plain_score(query.pixels) < victim.boundary == 1
    codes = [pdq.code(shown(photo.pixels, view)) for view in views.reference]
    ours = [pdq.code(shown(query.pixels, view)) for view in views.query]
    nearest = min(int((a ^ b).sum()) for a in codes for b in ours)
    assert victim.distance(query.pixels) == pytest.approx(nearest / pdq.boundary)


@pytest.mark.parametrize("with_views", [False, True])
def test_a_defence_attacks_the_plain_hash_with_or_without_the_views(
    with_views: bool, deployment: Deployment, photo: CanonicalImage
) -> None:
    victim = Defence(deployment, "original", with_views=with_views).victim(photo)
    found = victim.decide(changed(photo, MIRROR).pixels)
    assert found is (Decision.MATCH if with_views else Decision.NO_MATCH)
    assert len(victim.trials) == (3 if with_views else 1)
    assert (victim.service, victim.noise_source) == (None, None)


@pytest.mark.parametrize(("name", "cost"), [("pdq", 5.0), ("network", 8.0)])
def test_the_plain_hash_with_views_is_evaded_in_all_of_them(
    name: str, cost: float, network_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    hash_ = network_hash if name == "network" else get_hash("pdq")
    victim, alone = Victim.plain(hash_, photo, VIEWS), Victim.plain(hash_, photo)
    result = eot.attack(victim, photo, AttackBudget(30.0), steps=40)
    check(result, photo)
    assert result.success
    image = result.adversarial.pixels
    assert min(t.plain_distance(image) / t.boundary for t in victim.trials) > 1
    # Whoever does not know of the views leaves a trial that matches.
    unaware = eot.attack(alone, photo, AttackBudget(cost), steps=40)
    assert unaware.success
    assert victim.decide(unaware.adversarial.pixels) is Decision.MATCH


def test_the_linearised_start_moves_away_in_all_trials(photo: CanonicalImage) -> None:
    victim = Victim.plain(get_hash("pdq"), photo, VIEWS)
    delta = linearised.flip_all(victim.trials, victim.start(photo), 20.0)
    assert float(delta.double().norm()) <= 20.0 * 1.001
    assert victim.distance(to_8bit(photo.pixels + delta)) > 1


# -- the smoothed service ------------------------------------------------------------------------------


def test_only_what_evades_every_trial_is_an_evasion(deployment: Deployment, photo: CanonicalImage) -> None:
    victim = service(deployment, photo)
    outcomes = set()
    for budget in (6.0, 40.0):
        result = eot.attack(victim, photo, AttackBudget(budget), steps=40)
        check(result, photo)
        found = shares(victim, result.adversarial.pixels)
        assert result.success == (max(found) < 0.5), found
        outcomes.add(result.success)
    assert outcomes == {False, True}


def test_an_attack_on_the_image_as_it_is_leaves_the_other_trials(
    deployment: Deployment, toy_hash: PerceptualHash, photo: CanonicalImage
) -> None:
    alone = service(deploy(toy_hash, config=MatcherConfig(sigma=1.0)), photo)
    unaware = eot.attack(alone, photo, AttackBudget(18.0), steps=40)
    assert unaware.success
    victim = service(deployment, photo)
    found = shares(victim, unaware.adversarial.pixels)
    assert found[0] < 0.5 < max(found)
    assert victim.decide(unaware.adversarial.pixels) is Decision.MATCH


@pytest.mark.parametrize("sequential", [False, True])
def test_no_attack_succeeds_inside_the_certified_radius(
    sequential: bool, deployment: Deployment, photos: list[CanonicalImage]
) -> None:
    deployed = deployment.with_config(target_radius=1.2) if sequential else deployment
    certified = 0
    for seed, image in enumerate(photos[:3]):
        photo = CanonicalImage(to_8bit(image.pixels), image.name)
        result = deployed.match(deployed.enroll(photo), photo, noise=GaussianSource.from_seed(seed))
        if result.decision is not Decision.MATCH or not result.radius:
            continue
        certified += 1
        victim = service(deployed, photo, seed)
        attacked = eot.attack(victim, photo, AttackBudget(0.95 * result.radius), steps=15, seed=seed)
        assert not attacked.success
        assert max(shares(victim, attacked.adversarial.pixels)) > 0.5
    assert certified >= 2


def test_no_collision_inside_the_certified_radius_of_a_non_match(
    deployment: Deployment, photo: CanonicalImage, other: CanonicalImage
) -> None:
    result = deployment.match(deployment.enroll(photo), other, noise=GaussianSource.from_seed(1))
    assert result.decision is Decision.NO_MATCH
    assert result.radius > 0
    victim = service(deployment, photo)
    assert not collision.attack(victim, other, AttackBudget(0.95 * result.radius), steps=10).success


@pytest.mark.parametrize("view", [IDENTITY, MIRROR, TRIM])
def test_a_collision_goes_through_the_nearest_trial(
    view: View, deployment: Deployment, toy_hash: PerceptualHash, photo: CanonicalImage, other: CanonicalImage
) -> None:
    """A query that is partly a copy, in each view. Without views the same budget is not enough for any of them."""
    victim = service(deployment, photo)
    query = CanonicalImage(to_8bit(0.4 * shown(photo.pixels, view) + 0.6 * other.pixels), "partly")
    assert victim.decide(query.pixels) is not Decision.MATCH
    result = collision.attack(victim, query, AttackBudget(40.0), steps=40)
    check(result, query)
    assert result.success
    assert max(shares(victim, result.adversarial.pixels)) > 0.5
    alone = service(deploy(toy_hash, config=MatcherConfig(sigma=1.0)), photo)
    assert not collision.attack(alone, query, AttackBudget(40.0), steps=40).success


def test_the_attack_by_queries_uses_the_nearest_trial(deployment: Deployment, photo: CanonicalImage) -> None:
    result = nes.attack(service(deployment, photo), photo, AttackBudget(5.0), max_queries=40)
    assert (result.queries, result.success) == (33, False)


def test_the_papers_attack_is_warned_about(deployment: Deployment, photo: CanonicalImage) -> None:
    result = pgd.attack(service(deployment, photo), photo, AttackBudget(10.0), steps=30)
    assert {pgd.NO_EOT, pgd.NO_VIEWS} <= set(result.warnings)
    assert not result.success  # the image as it is was evaded, its mirror image was not


# -- several hashes --------------------------------------------------------------------------------------


def test_exact_and_voting_members_together(toy_hash: PerceptualHash, photo: CanonicalImage) -> None:
    (exact,) = deploy("pdq").members
    victim = service(Deployment((exact, Member(toy_hash, CONFIG))), photo)
    assert isinstance(victim, JointVictim)
    assert [t.hash.name for t in victim.trials] == ["pdq"] * (len(victim.trials) - 6) + ["toy"] * 6
    assert victim.decide(photo.pixels) is Decision.MATCH
    assert victim.score(photo.pixels) < 1
    failed = eot.attack(victim, photo, AttackBudget(3.0), steps=5)
    check(failed, photo)
    assert not failed.success
    evaded = eot.attack(victim, photo, AttackBudget(60.0), steps=40)
    check(evaded, photo)
    assert evaded.success
    assert Decision.MATCH not in [member.decision(evaded.adversarial.pixels) for member in victim.members]
