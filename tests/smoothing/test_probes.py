"""References with little structure get a lower threshold, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dualshield.errors import TooLittleStructureError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.images.views import View
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.level import Level
from dualshield.smoothing.probes import (
    NONE,
    SLOPE,
    Probes,
    common_probes,
    is_flat,
    limit_by_structure,
    own_probes,
)
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision
from tests.helpers.matchers import kept

BITS = 64


@pytest.fixture(scope="module")
def deployment(toy_hash: PerceptualHash) -> Deployment:
    return deploy(toy_hash, config=MatcherConfig(sigma=0.05, second_sigma=0.02, probes=True, n=500))


def flat(value: float) -> torch.Tensor:
    return torch.full((3, 512, 512), value)


def test_the_limit_follows_how_far_own_parts_are_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    codes: dict[View, torch.Tensor] = {}

    def unrelated(view: View) -> torch.Tensor:
        return codes.setdefault(view, torch.rand(4096, generator=generator) < 0.5)

    assert limit_by_structure(unrelated) == pytest.approx(SLOPE * (0.5 - NONE), abs=0.02)
    assert limit_by_structure(lambda view: torch.ones(BITS, dtype=torch.bool)) == 0.0


def test_a_threshold_is_lowered_until_no_probe_matches() -> None:
    own = torch.zeros(BITS, dtype=torch.bool)
    near = own.clone()
    near[:6] = True
    probe = common_probes()[3]

    def codes(pixels: torch.Tensor, sigma: float, draws: int) -> torch.Tensor:
        code = near if pixels is probe else ~own
        return code.repeat(draws, 1)

    level = Level(0.1, own[None], 0.2)
    lowered = Probes(codes, BITS).lowered(level, flat(0.3))
    assert Level(0.1, own[None], lowered).most(BITS) == 5
    assert Probes(lambda *_: (~own).repeat(8, 1), BITS).lowered(level, flat(0.3)) == 0.2


def test_a_probe_with_the_same_code_leaves_nothing() -> None:
    own = torch.zeros(BITS, dtype=torch.bool)
    level = Level(0.1, own[None], 0.2)
    assert Probes(lambda pixels, sigma, draws: own.repeat(draws, 1), BITS).lowered(level, flat(0.3)) < 0


def test_probes_of_an_image_are_its_mean_colour_and_thumbnails(photos: list[CanonicalImage]) -> None:
    mean, two, four = own_probes(photos[0].pixels)
    assert is_flat(mean)
    assert not is_flat(photos[0].pixels)
    assert torch.allclose(mean[:, 0, 0], photos[0].pixels.mean((1, 2)), atol=1e-5)
    assert float((four - two).abs().max()) > 0.01


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_flat_references_are_refused_with_the_reason(deployment: Deployment, value: float) -> None:
    with pytest.raises(TooLittleStructureError, match="grey: too little structure to be recognised by toy"):
        deployment.enroll(CanonicalImage(flat(value), "grey"))


def test_flat_queries_match_nothing_and_the_result_says_why(
    deployment: Deployment, photos: list[CanonicalImage]
) -> None:
    reference = deployment.enroll(photos[0])
    result = deployment.match(reference, CanonicalImage(flat(0.4), "grey"))
    assert result.decision is Decision.NO_MATCH
    assert result.member.is_flat
    assert not deployment.match(reference, photos[0]).member.is_flat


def test_force_enrolls_what_is_left(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    """A page with one faint spot: the threshold is too low for its own variants, but not below nothing."""
    deployment = deploy(toy_hash, config=MatcherConfig(sigma=0.3, probes=True, n=200))
    pixels = flat(0.5)
    pixels[:, 100:160, 300:420] = 0.53
    faint = CanonicalImage(pixels, "faint")
    with pytest.raises(TooLittleStructureError, match="or force"):
        deployment.enroll(faint)
    assert len(kept(deployment.enroll(faint, force=True)).levels) == 1
    assert deployment.enroll(photos[0], force=True).fingerprint == deployment.enroll(photos[0]).fingerprint


def test_the_lowered_threshold_is_kept_in_the_file(
    deployment: Deployment, photos: list[CanonicalImage], tmp_path: Path
) -> None:
    reference = deployment.enroll(photos[0])
    reference.save(tmp_path / "kept.dsref")
    loaded = kept(Reference.load(tmp_path / "kept.dsref"))
    assert [level.threshold for level in loaded.levels] == [level.threshold for level in kept(reference).levels]
