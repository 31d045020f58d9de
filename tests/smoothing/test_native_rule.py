"""A hash's own matching rule under smoothing: the same votes, the same certificate."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash, registry
from dualshield.hashes.native_rule import NativeRule, cosine_distance, l1
from dualshield.hashes.zoo import c_pdq
from dualshield.images import FrontEnd
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.level import Level
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member_reference import MemberReference, majority
from dualshield.smoothing.noise import GaussianSource
from dualshield.testing import natural_image
from tests.helpers.command_line import complaint, run
from tests.helpers.linear import Linear
from tests.helpers.matchers import voting

MODES = ["code", "bank", "paired"]


@pytest.fixture
def bits_rule(toy_hash: PerceptualHash) -> PerceptualHash:
    """The toy hash, with its Hamming rule (at most 12 of 64 bits) written as a native one."""
    rule = NativeRule("an L1 distance of bits below 13", c_pdq._bits, l1, 13)
    return replace(toy_hash, native=rule, rule="native")


def matcher_of(hash_: PerceptualHash, config: MatcherConfig) -> SmoothedMatcher:
    return voting(deploy(hash_, config=config, rule=hash_.rule, engine="torch"))


def as_values(reference: MemberReference) -> MemberReference:
    """The same codes, as the native rule has them."""
    bank = None if reference.bank is None else reference.bank.float()
    levels = tuple(replace(level, codes=level.codes.float(), threshold=None) for level in reference.levels)
    return replace(reference, plain=reference.plain.float(), levels=levels, bank=bank)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sigma", [0.3, 3.0, 12.0])
def test_the_same_rule_gives_the_same_votes(
    mode: str, sigma: float, toy_hash: PerceptualHash, bits_rule: PerceptualHash
) -> None:
    config = MatcherConfig(sigma=sigma, reference_mode=mode, n=300, bank_size=21)  # type: ignore[arg-type]
    pixels = natural_image(1).pixels
    bits, values = (matcher_of(hash_, config) for hash_ in (toy_hash, bits_rule))
    reference = bits.enroll(pixels)
    by_bits = bits.match(reference, pixels, GaussianSource.from_seed(5))
    # Under another rule enrollment would draw other noise; here votes shall meet the same codes.
    by_values = values.match(as_values(reference), pixels, GaussianSource.from_seed(5))
    assert (by_bits.votes, by_bits.radius, by_bits.decision) == (by_values.votes, by_values.radius, by_values.decision)
    assert (by_bits.rule, by_values.rule) == ("hamming", "native")
    assert by_values.threshold == 13


def test_sigma_is_chosen_alike(toy_hash: PerceptualHash, bits_rule: PerceptualHash) -> None:
    config = MatcherConfig(sigma="auto", sigma_grid=(0.5, 4.0, 30.0), n=300)
    by_bits, by_values = (
        matcher_of(hash_, config).enroll(natural_image(1).pixels).sigma for hash_ in (toy_hash, bits_rule)
    )
    assert by_bits == by_values


def cosine_hash() -> PerceptualHash:
    """Two numbers, the mean brightness of two colours, compared by their angle."""
    front_end = FrontEnd.identity().resize(1, 1).mix([[1, 0, 0], [0, 1, 0]])
    rule = NativeRule("a cosine similarity above 0.75", lambda margins: margins, cosine_distance, 0.25)
    return PerceptualHash("angle", "1", 2, front_end, Linear(torch.eye(2)), native=rule, rule="native")


def test_votes_have_the_right_probability() -> None:
    """By the law of the two numbers themselves: independent normals around the image's colours."""
    hash_, sigma = cosine_hash(), 150.0
    pixels = torch.tensor([0.8, 0.3, 0.5])[:, None, None].expand(3, 512, 512).contiguous()
    scale = sigma * hash_.front_end.norm
    draws = torch.tensor([0.8, 0.3]) + scale * torch.randn(200_000, 2, generator=torch.Generator().manual_seed(0))
    expected = float((torch.cosine_similarity(draws, torch.tensor([[0.8, 0.3]])) > 0.75).float().mean())
    assert 0.2 < expected < 0.95
    config = MatcherConfig(sigma=sigma, reference_mode="code", n=4000, bank_size=4001)
    matcher = matcher_of(hash_, config)
    reference = replace(matcher.enroll(pixels), levels=(Level(sigma, torch.tensor([[0.8, 0.3]]), None),))
    votes = matcher.count(reference, pixels, 4000, GaussianSource.from_seed(8))
    assert abs(votes / 4000 - expected) < 5 * (expected * (1 - expected) / 4000) ** 0.5 + 0.002


def test_the_consensus_of_values_is_their_median() -> None:
    bank = torch.tensor([[1.0, 9.0], [2.0, 1.0], [50.0, 2.0]])
    assert majority(bank).tolist() == [2.0, 2.0]


def test_a_bare_code_needs_bits(bits_rule: PerceptualHash) -> None:
    deployment = deploy(bits_rule, rule="native", sigma=1.0)
    with pytest.raises(InputError, match="does not compare bits; it needs a reference image"):
        deployment.enroll_code(torch.zeros(64, dtype=torch.bool))


# -- dualshield match --rule -----------------------------------------------------------------------


@pytest.fixture
def angle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers the angle hash, which decides by bits unless asked otherwise."""
    module = SimpleNamespace(load=lambda: replace(cosine_hash(), rule="hamming"))
    monkeypatch.setitem(sys.modules, "angle_hash", module)
    monkeypatch.setitem(registry.BUILT_IN, "angle", "angle_hash")


@pytest.mark.usefixtures("angle")
def test_match_by_the_native_rule(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    photo = photo_files[0]
    assert run("match", photo, photo, "--hash", "angle", "--rule", "native", "--n", "200", "--json", "--seed", "1") == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert "the native rule of angle is not calibrated, using sigma 0.1" in err
    assert (result["rule"], result["decision"], result["threshold"]) == ("native", "match", 0.25)
    assert result["distance"] == pytest.approx(0, abs=1e-6)
    assert run("match", photo, photo, "--hash", "angle", "--rule", "native", "--n", "200", "--sigma", "0.2") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "(a vote matches below a native distance of 0.25)" in out


def test_match_by_a_rule_that_is_not_there(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("match", photo_files[0], photo_files[0], "--rule", "native") == 2
    assert "hash pdq has no native rule" in complaint(capsys)
    assert run("match", photo_files[0], photo_files[0], "--rule", "cosine") == 2
    assert "unknown rule 'cosine'" in complaint(capsys)
