"""Views: the noise law behind them, radii in canonical pixels, and references with several codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.detection import half_space
from dualshield.errors import InputError, UnusableReferenceError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.images.frontend import FrontEnd
from dualshield.images.viewed_core import ViewedCore
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.level import Level
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.noise_kinds import LINEAR
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.views import MAX_QUERY_VIEWS, Views
from tests.helpers.matchers import ONE, SIGMA, kept, matcher_for, voting

VIEWS = [
    View.trimmed(0.06),
    View(top=0.1),
    View(left=0.05, right=0.2, mirror=True),
    View(turn=2),
    View(grey=True),
    View(top=0.3, bottom=0.25, grey=True, mirror=True),
]
MIRROR = View(mirror=True)


def front_end() -> FrontEnd:
    return FrontEnd.identity().resize(12, 9).normalise((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_the_core_behind_a_view_is_the_core_of_what_the_view_shows(view: View) -> None:
    pixels = torch.rand(3, 512, 512, generator=torch.Generator().manual_seed(1))
    shown = torch.from_numpy(view(pixels.numpy()))
    seen, expected = ViewedCore(front_end(), view).core(pixels), front_end().core(shown)
    assert float((seen - expected).abs().max()) < 1e-3


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_noise_behind_a_view_has_the_law_of_noise_on_the_canonical_pixels(view: View) -> None:
    """The covariance of ``spread(z)`` is that of ``core(view(eta))``: M M^T, factor by factor."""
    seen = ViewedCore(front_end(), view)
    for factor, spread in zip(seen._factors, seen._spreads, strict=True):
        assert float((factor.double() @ factor.double().T - spread.double() @ spread.double().T).abs().max()) < 1e-5
    drawn = seen.spread(torch.randn(4000, *seen.noise_shape, generator=torch.Generator().manual_seed(0)))
    rows, cols, colour = (factor.double() for factor in seen._factors)
    expected = torch.einsum("c,h,w->chw", *(((f * f).sum(1)) for f in (colour, rows, cols)))
    assert float((drawn.double().var(0) / expected.clamp_min(1e-9)).sub(1).abs().max()) < 0.15


@pytest.mark.parametrize("view", [IDENTITY, *VIEWS], ids=str)
def test_margins_and_batches_draw_the_same_law(view: View, toy_hash: PerceptualHash) -> None:
    pixels = torch.rand(3, 512, 512, generator=torch.Generator().manual_seed(2))
    drawn = LINEAR.batches(toy_hash, "core", pixels, 0.3, GaussianSource.from_seed(1), view).draw(5)
    margins = LINEAR.margins(toy_hash, pixels, 0.3, 5, GaussianSource.from_seed(1), view)
    expected = toy_hash.network(toy_hash.front_end.expansion()(drawn))
    assert torch.allclose(margins, expected, atol=1e-3)


@pytest.mark.parametrize("view", [View.trimmed(0.2), View(top=0.3, mirror=True)], ids=str)
def test_a_radius_behind_a_view_is_exact_in_canonical_pixels(view: View) -> None:
    """A half-space behind a view: the true distance to the boundary is known, and no radius exceeds it."""
    hash_, gradient = half_space()
    # The image behind the view is on the side of the reference, the image as it is on the other.
    rows, cols = view.factors()
    normal = torch.from_numpy(rows.T) @ gradient.double() @ torch.from_numpy(cols)
    offset = torch.zeros(3, 512, 512, dtype=torch.float64)
    views = Views(query=(IDENTITY, view))
    matcher = matcher_for(hash_, views=views, n=3000)
    member = MemberReference(matcher.voter.terms, ONE, (Level(SIGMA, ONE[None], 0.0),))
    reference = Reference("one", (member,))
    distance = 1.2
    away = gradient.double() - normal * (gradient.double() * normal).sum() / normal.square().sum()
    query = offset + normal / normal.norm() * distance - away / away.norm() * 40 * SIGMA
    result = matcher.match(reference, CanonicalImage(query.float(), "query"))
    assert result.decision is Decision.MATCH
    assert result.member.query_view == str(view)
    assert 0.7 * distance < result.radius <= distance * (1 + 1e-4)


def test_a_reference_view_is_found_and_named(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    views = Views((IDENTITY, MIRROR, View(rotation=8)), (IDENTITY, View.trimmed(0.06)))
    matcher = matcher_for(toy_hash, views=views, sigma=0.05)
    reference = matcher.enroll(photos[0])
    assert kept(reference).levels[0].codes.shape == (3, toy_hash.bits)
    mirrored = CanonicalImage(photos[0].pixels.flip(-1), "mirrored")
    result = matcher.match(reference, mirrored)
    assert result.decision is Decision.MATCH
    assert (result.member.reference_view, result.member.query_view) == ("mirrored", "as it is")
    assert result.member.trials == 2
    values = result.to_dict()
    assert (values["reference_view"], values["query_view"]) == ("mirrored", "as it is")
    plain = matcher_for(toy_hash, sigma=0.05)
    assert plain.match(plain.enroll(photos[0]), mirrored).decision is Decision.NO_MATCH


def test_a_second_sigma_is_a_second_level(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    matcher = matcher_for(toy_hash, sigma=0.4, second_sigma=0.05, second_threshold=0.1)
    reference = kept(matcher.enroll(photos[0]))
    assert [(level.sigma, level.threshold) for level in reference.levels] == [(0.4, toy_hash.threshold), (0.05, 0.1)]
    alone = matcher_for(toy_hash, sigma=0.04, second_sigma=0.05)
    assert len(kept(alone.enroll(photos[0])).levels) == 1


def test_references_of_other_views_are_refused(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    mirrored = matcher_for(toy_hash, views=Views((IDENTITY, MIRROR)))
    plain = matcher_for(toy_hash)
    with pytest.raises(UnusableReferenceError, match="views"):
        mirrored.match(plain.enroll(photos[0]), photos[0])
    second = matcher_for(toy_hash, second_sigma=0.05)
    with pytest.raises(UnusableReferenceError, match="second"):
        second.match(plain.enroll(photos[0]), photos[0])


def test_a_reference_with_views_survives_its_file(
    toy_hash: PerceptualHash, photos: list[CanonicalImage], tmp_path: Path
) -> None:
    matcher = matcher_for(toy_hash, views=Views((IDENTITY, MIRROR)), sigma=0.3, second_sigma=0.05)
    reference = matcher.enroll(photos[0])
    reference.save(tmp_path / "kept.dsref")
    loaded = Reference.load(tmp_path / "kept.dsref")
    assert loaded.fingerprint == reference.fingerprint
    assert matcher.match(loaded, photos[0]).decision is Decision.MATCH


def test_bare_codes_have_no_views(toy_hash: PerceptualHash) -> None:
    config = MatcherConfig(sigma=0.1, views=Views((IDENTITY, MIRROR)))
    with pytest.raises(InputError, match="bare code"):
        deploy(toy_hash, config=config).enroll_code(torch.zeros(toy_hash.bits, dtype=torch.bool))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"reference_mode": "bank"}, "reference mode"),
        ({"noise": "clipped"}, "noise"),
        ({"second_sigma": -1.0}, "second sigma"),
        ({"second_threshold": 0.1}, "needs a second sigma"),
        ({"second_sigma": 0.1, "second_threshold": 0.7}, "second threshold"),
        ({"views": "standard"}, "views"),
    ],
)
def test_impossible_configurations(bad: dict[str, object], message: str) -> None:
    good = MatcherConfig(sigma=0.5, views=Views((IDENTITY, MIRROR)))
    with pytest.raises(InputError, match=message):
        replace(good, **bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "two lists"),
        ('{"reference": [{}], "query": [{}', "not JSON"),
        ('{"reference": [{"mirror": true}], "query": [{}]}', "must be the image as it is"),
        ('{"reference": [{}], "query": [{}, {"rotation": 3}]}', "linear in its axes"),
        ('{"reference": [{}], "query": [{}, {"turn": 1}]}', "linear in its axes"),
        ('{"reference": [{}, {"top": 0.5, "bottom": 0.4}], "query": [{}]}', "trims 0.9"),
        ('{"reference": [{}, {"top": -0.1}], "query": [{}]}', "trims -0.1"),
        ('{"reference": [{}, {"top": "x"}], "query": [{}]}', "not a number"),
        ('{"reference": [{}, {"zoom": 2}], "query": [{}]}', "no zoom"),
        ('{"reference": [{}, {}], "query": [{}]}', "twice"),
        ('{"reference": [], "query": [{}]}', "give 1 to"),
        ('{"reference": [{}], "query": [' + ", ".join(["{}"] * (MAX_QUERY_VIEWS + 1)) + "]}", "at most"),
        ('{"reference": [{}, 3], "query": [{}]}', "not an object"),
    ],
)
def test_hostile_files_of_views(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "views.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        Views.load(file)
    assert "views.json" in str(raised.value)


def test_views_survive_json() -> None:
    views = Views((IDENTITY, MIRROR, View(rotation=-7.5, turn=3)), (IDENTITY, *VIEWS))
    assert Views.from_json(views.to_json()) == views


def test_unknown_presets_are_named(toy_hash: PerceptualHash) -> None:
    with pytest.raises(InputError, match="none, standard, thorough"):
        deploy(toy_hash, views="everything")
    with pytest.raises(InputError, match="no calibrated views 'thorough'"):
        deploy(toy_hash, views="thorough", sigma=0.1)


def test_noise_behind_a_view_is_not_the_noise_of_another(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    """Every trial draws from its own stream."""
    matcher = voting(deploy(toy_hash, config=MatcherConfig(sigma=0.3, views=Views(query=(IDENTITY, MIRROR)), n=50)))
    reference = matcher.enroll(photos[0].pixels)
    seen: list[torch.Tensor] = []
    sampler = matcher.sampler
    original = sampler.noise.batches

    class Spy:
        def __getattr__(self, name: str) -> object:
            return getattr(LINEAR, name)

        def batches(self, hash_, reads, pixels, sigma, source, view=IDENTITY):  # type: ignore[no-untyped-def]
            seen.append(source.normal((4,)))
            return original(hash_, reads, pixels, sigma, source, view)

    sampler.noise = Spy()  # type: ignore[assignment]
    matcher.certify(reference, photos[1].pixels, GaussianSource.from_seed(0))
    assert len(seen) == 4  # two trials, to select and to certify
    assert len({tuple(row.tolist()) for row in seen}) == 4


def test_a_reference_that_kept_only_its_second_level_survives_its_file(
    toy_hash: PerceptualHash, photos: list[CanonicalImage], tmp_path: Path
) -> None:
    matcher = matcher_for(toy_hash, sigma=0.3, second_sigma=0.05)
    whole = kept(matcher.enroll(photos[0]))
    file = tmp_path / "kept.dsref"
    Reference("second only", (replace(whole, levels=whole.levels[1:]),)).save(file)
    assert matcher.match(Reference.load(file), photos[0]).member.sigma == 0.05


@pytest.mark.parametrize("place", [0, 1])
def test_no_file_makes_a_match_easier_than_its_configuration(
    toy_hash: PerceptualHash, photos: list[CanonicalImage], tmp_path: Path, place: int
) -> None:
    matcher = matcher_for(toy_hash, sigma=0.3, second_sigma=0.05, second_threshold=0.1)
    whole = kept(matcher.enroll(photos[0]))
    most = toy_hash.max_distance if place == 0 else int(0.1 * toy_hash.bits)
    file = tmp_path / "easier.dsref"
    for distance, allowed in ((most, True), (most + 1, False)):
        levels = list(whole.levels)
        levels[place] = replace(levels[place], threshold=distance / toy_hash.bits)
        Reference("easier", (replace(whole, levels=tuple(levels)),)).save(file)
        if allowed:
            Reference.load(file)
            continue
        with pytest.raises(UnusableReferenceError, match="threshold"):
            Reference.load(file)


def test_codes_that_would_unpack_to_gigabytes_are_refused(
    toy_hash: PerceptualHash, photos: list[CanonicalImage], tmp_path: Path
) -> None:
    file = tmp_path / "bomb.dsref"
    matcher_for(toy_hash, views=Views((IDENTITY, MIRROR))).enroll(photos[0]).save(file)
    code = "f4:" + "x".join(["2"] * 100_000) + ":eJw="
    for old in {word for word in file.read_text().split('"') if word.startswith("64:")}:
        file.write_text(file.read_text().replace(old, code))
    with pytest.raises(UnusableReferenceError, match="three sides"):
        Reference.load(file)
